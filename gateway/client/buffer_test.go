package client

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/gateway/api"
)

func open(t *testing.T, dir string, send http.RoundTripper, change ...func(*BufferConfig)) *Buffer {
	t.Helper()
	cfg := BufferConfig{Client: newTestClient(t, send)}
	for _, f := range change {
		f(&cfg)
	}
	b, err := OpenBuffer(dir, cfg)
	require.NoError(t, err)
	t.Cleanup(func() { _ = b.Close() })
	return b
}

func play1(id string) Delivery {
	d := aDelivery
	d.IdempotencyKey = id
	return d
}

// running runs a buffer, until the function that it returns is called.
func running(t *testing.T, b *Buffer) (end func() error) {
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- b.Run(ctx) }()
	return func() error { cancel(); return <-ended }
}

// TestBufferUploads: what was added is uploaded once, in order, as of its play, and is removed.
func TestBufferUploads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLedger()
		var delivered, refused []string
		at := time.Date(2026, 5, 1, 12, 0, 0, 5e6, time.UTC)
		l.decide = func(r api.Row) *api.RowError {
			if r.RowID == "play-3" {
				return &api.RowError{Code: api.PreconditionFailed}
			}
			if r.PlayedAt != "2026-05-01T12:00:00.005Z" {
				return &api.RowError{Code: api.ValidationFailed, Message: r.PlayedAt}
			}
			return nil
		}
		b := open(t, t.TempDir(), l, func(cfg *BufferConfig) {
			cfg.Now = func() time.Time { return at }
			cfg.Refused = func(r Row, e *Error) { refused = append(refused, fmt.Sprint(r.RowID, " ", e.Code)) }
			cfg.Delivered = func(r Row, got RowResult) { delivered = append(delivered, r.RowID) }
		})
		for i := range 5 {
			require.NoError(t, b.Add(t.Context(), play1(fmt.Sprint("play-", i))))
		}
		end := running(t, b)
		synctest.Wait()
		require.Zero(t, b.Stats())
		require.NoError(t, b.Add(t.Context(), aDelivery))
		synctest.Wait()
		require.Zero(t, b.Stats())
		require.ErrorContains(t, b.Run(t.Context()), "being uploaded already")
		require.ErrorIs(t, end(), context.Canceled)
		require.Equal(t, []string{"play-3 PRECONDITION_FAILED"}, refused)
		require.Equal(t, []string{"play-0", "play-1", "play-2", "play-4"}, delivered[:4])
		require.Len(t, delivered, 5)
		require.Equal(t, []int{5, 1}, l.batches)
	})
}

// TestBufferGoesOn: whatever the service answers that passes, and however long.
func TestBufferGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLedger()
		began, troubles := time.Now(), 0
		send := transport(func(r *http.Request) (*http.Response, error) {
			switch since := time.Since(began); {
			case since < 2*time.Minute:
				return nil, errors.New("no route to host")
			case since < 4*time.Minute:
				return respond(r, 200, "<html>log in to the hotel's network"), nil
			case since < 6*time.Minute:
				return respond(r, 503, failure(api.Unavailable(api.Draining, "", 0)), "Retry-After", "45"), nil
			case since < 8*time.Minute: // the answer is lost
				_, err := l.RoundTrip(r)
				return nil, errors.Join(err, io.ErrUnexpectedEOF)
			}
			return l.RoundTrip(r)
		})
		b := open(t, t.TempDir(), send, func(cfg *BufferConfig) { cfg.Trouble = func(error) { troubles++ } })
		end := running(t, b)
		for i := range 600 {
			require.NoError(t, b.Add(t.Context(), play1(fmt.Sprint("play-", i))))
			time.Sleep(time.Second)
		}
		time.Sleep(time.Minute)
		require.Zero(t, b.Stats())
		require.ErrorIs(t, end(), context.Canceled)
		require.Len(t, l.rows(), 600)
		require.Greater(t, l.sent["play-0"], 1)
		require.Less(t, troubles, 60, "the pauses grow")
	})
}

// TestBufferStopsWhereNothingHelps, and loses nothing by that.
func TestBufferStopsWhereNothingHelps(t *testing.T) {
	for _, c := range []struct {
		refusal api.Error
		kind    error
	}{
		{api.Error{Code: api.AuthInvalid}, ErrAuth},
		{api.Error{Code: api.BadRequest, Message: "this port speaks TLS: use https"}, ErrInvalid},
	} {
		l := newLedger()
		l.refuse = func([]api.Row) *api.Error { return &c.refusal }
		b := open(t, t.TempDir(), l)
		require.NoError(t, b.Add(t.Context(), aDelivery))
		require.ErrorIs(t, b.Run(t.Context()), c.kind)
		require.Equal(t, 1, b.Stats().Waiting)
	}
}

// TestBufferFindsThePoison: a row for which the service refuses the whole batch is found, and the
// others are delivered.
func TestBufferFindsThePoison(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLedger()
		l.refuse = func(rows []api.Row) *api.Error {
			if slices.ContainsFunc(rows, func(r api.Row) bool { return r.RowID == "play-77" }) {
				return &api.Error{Code: api.BadRequest, Field: "rows", Message: "what is this"}
			}
			return nil
		}
		var refused []string
		b := open(t, t.TempDir(), l, func(cfg *BufferConfig) {
			cfg.Refused = func(r Row, e *Error) { refused = append(refused, r.RowID+" "+e.Message) }
		})
		for i := range 200 {
			require.NoError(t, b.Add(t.Context(), play1(fmt.Sprint("play-", i))))
		}
		end := running(t, b)
		synctest.Wait()
		require.ErrorIs(t, end(), context.Canceled)
		require.Equal(t, []string{"play-77 what is this"}, refused)
		require.Len(t, l.rows(), 199)
		require.Zero(t, b.Stats())
	})
}

func TestBufferIsBounded(t *testing.T) {
	l := newLedger()
	dir := t.TempDir()
	b := open(t, dir, l, func(cfg *BufferConfig) { cfg.MaxBytes = 10_000 })
	n := 0
	for ; ; n++ {
		if err := b.Add(t.Context(), aDelivery); err != nil {
			require.ErrorIs(t, err, ErrBufferFull)
			break
		}
	}
	require.Equal(t, n, b.Stats().Waiting)
	require.Greater(t, n, 30)
	require.LessOrEqual(t, b.Stats().Bytes, int64(10_000))
	_, err := OpenBuffer(dir, BufferConfig{Client: newTestClient(t, l)})
	require.ErrorIs(t, err, ErrBufferInUse)
	batch, err := b.take(10)
	require.NoError(t, err)
	busy, err := b.upload(t.Context(), batch)
	require.NoError(t, err)
	require.Nil(t, busy)
	require.NoError(t, b.Add(t.Context(), aDelivery), "there is room again")
	require.NoError(t, b.Close())
	require.ErrorContains(t, b.Add(t.Context(), aDelivery), "closed")
	require.ErrorContains(t, b.Run(t.Context()), "closed")
	require.Equal(t, n-9, open(t, dir, l).Stats().Waiting)
}

// TestBufferFileStaysShort: what was answered is cleaned up, also while some rows wait for good.
func TestBufferFileStaysShort(t *testing.T) {
	l := newLedger()
	stuck := &api.RowError{Code: api.InternalError, Reason: api.RightsStale}
	l.decide = func(r api.Row) *api.RowError {
		if strings.HasPrefix(r.RowID, "stuck") {
			return stuck
		}
		return nil
	}
	disk, dir := &faultDisk{names: map[string]*faultFile{}}, t.TempDir()
	reopen := func() *Buffer {
		b, err := openBuffer(disk, dir, BufferConfig{Client: newTestClient(t, l)})
		require.NoError(t, err)
		t.Cleanup(func() { _ = b.Close() })
		return b
	}
	b := reopen()
	for round := range 20 {
		require.NoError(t, b.Add(t.Context(), play1(fmt.Sprint("stuck-", round))))
		for i := range 100 {
			require.NoError(t, b.Add(t.Context(), play1(fmt.Sprintf("play-%d-%d", round, i))))
		}
		batch, err := b.take(maxRows)
		require.NoError(t, err)
		_, err = b.upload(t.Context(), batch)
		require.NoError(t, err)
		require.Equal(t, round+1, b.Stats().Waiting)
		require.Less(t, len(disk.names[filepath.Join(dir, bufferName)].written), compactAt+100_000)
	}
	require.NoError(t, b.Close())
	b = reopen()
	require.Equal(t, 20, b.Stats().Waiting)
	l.decide = nil
	batch, err := b.take(maxRows)
	require.NoError(t, err)
	_, err = b.upload(t.Context(), batch)
	require.NoError(t, err)
	require.Equal(t, bufferStart, string(disk.names[filepath.Join(dir, bufferName)].written))
	require.Len(t, l.rows(), 2020)
}

// TestBufferIsKilled kills a process that adds and uploads, at any moment, and holds what it has
// acknowledged against what the service counts once the last process has uploaded all.
func TestBufferIsKilled(t *testing.T) {
	if dir := os.Getenv("BUFFER_OF_A_CHILD"); dir != "" {
		addUntilKilled(dir)
		return
	}
	l := newLedger()
	var serverLock sync.Mutex
	server := serve(t, func(r *http.Request) (*http.Response, error) {
		serverLock.Lock()
		defer serverLock.Unlock()
		return l.RoundTrip(r)
	})
	dir, acknowledged := t.TempDir(), map[string]bool{}
	for round := range 6 {
		child := exec.Command(os.Args[0], "-test.run", "^TestBufferIsKilled$")
		child.Env = append(os.Environ(), "BUFFER_OF_A_CHILD="+dir, "BUFFER_SERVICE="+server, fmt.Sprint("BUFFER_ROUND=", round))
		out, err := child.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, child.Start())
		lines, most := bufio.NewScanner(out), 20+rand.IntN(100)
		for n := 0; lines.Scan(); n++ {
			if n == most {
				require.NoError(t, child.Process.Kill())
			}
			if id, ok := strings.CutPrefix(lines.Text(), "added "); ok {
				acknowledged[id] = true
			}
		}
		require.Error(t, child.Wait())
	}
	require.Greater(t, len(acknowledged), 100)
	b := open(t, dir, l)
	for b.Stats().Waiting > 0 {
		batch, err := b.take(maxRows)
		require.NoError(t, err)
		_, err = b.upload(t.Context(), batch)
		require.NoError(t, err)
	}
	for id := range acknowledged {
		require.Equal(t, 1, l.counted[id], id)
	}
	require.LessOrEqual(t, len(l.rows()), len(acknowledged)+6, "at most one of each process was not acknowledged yet")
}

// addUntilKilled adds plays and says so.
func addUntilKilled(dir string) {
	c, err := New(Config{URL: os.Getenv("BUFFER_SERVICE"), Key: "k"})
	if err != nil {
		panic(err)
	}
	b, err := OpenBuffer(dir, BufferConfig{Client: c})
	if err != nil {
		panic(err)
	}
	go func() { panic(b.Run(context.Background())) }()
	for i := 0; ; i++ {
		id := fmt.Sprintf("play-%s-%d", os.Getenv("BUFFER_ROUND"), i)
		if err := b.Add(context.Background(), play1(id)); err != nil {
			panic(err)
		}
		fmt.Println("added", id)
	}
}

// TestBufferRefusesWhatCannotBeARow, at once.
func TestBufferRefusesWhatCannotBeARow(t *testing.T) {
	b := open(t, t.TempDir(), newLedger())
	for says, d := range map[string]Delivery{
		"RightID":        {SpatialAnchorID: "a"},
		"object in JSON": {RightID: "r", SpatialAnchorID: "a", Telemetry: []int{1}},
		"IdempotencyKey": {RightID: "r", SpatialAnchorID: "a", IdempotencyKey: "a b"},
		"negative":       {RightID: "r", SpatialAnchorID: "a", DwellMs: -1},
		"longer than":    {RightID: "r", SpatialAnchorID: "a", CorrelationID: string(bytes.Repeat([]byte("x"), maxRow))},
	} {
		require.ErrorContains(t, b.Add(t.Context(), d), says)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, b.Add(ended, aDelivery), context.Canceled)
	require.Zero(t, b.Stats())
}
