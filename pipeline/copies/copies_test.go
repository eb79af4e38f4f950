package copies

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"muniment.example/bench/waittest"
	"muniment.example/pipeline"
	"muniment.example/pipeline/conform"
	"muniment.example/pipeline/segment"
	"muniment.example/sealer"
)

// promise keeps what it makes durable.
type promise struct {
	mu      sync.Mutex
	records []string
	fail    error
}

func (p *promise) Append(ctx context.Context, r *sealer.Record) (sealer.Position, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := cmp.Or(p.fail, ctx.Err()); err != nil {
		return sealer.Position{}, err
	}
	p.records = append(p.records, r.EventID)
	return sealer.Position{}, nil // as from the spool
}

func (p *promise) AppendAll(ctx context.Context, rs []*sealer.Record) (at []sealer.Position, errs []error) {
	at, errs = pipeline.RefuseAll(rs, nil)
	for i, r := range rs {
		_, errs[i] = p.Append(ctx, r)
	}
	return at, errs
}

func (p *promise) Writable(context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.fail
}

func (p *promise) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.records)
}

func mustOpen(tb testing.TB, cfg Config) *Log {
	tb.Helper()
	l, err := Open(cfg)
	require.NoError(tb, err)
	tb.Cleanup(func() { _ = l.Close() })
	return l
}

func record(n int) *sealer.Record {
	return &sealer.Record{
		TenantID: "tnt_a", EventID: fmt.Sprintf("evt_%d", n), Node: "nod_a", Epoch: 1, Seq: uint64(n), Event: make([]byte, 500), Private: []byte("p"),
	}
}

// TestConform holds the copies to what every log promises; they survive the end of
// the process.
func TestConform(t *testing.T) {
	conform.Log(t, func(tb testing.TB) conform.LogEngine {
		cfg := Config{Promise: new(promise), Dir: tb.TempDir(), SegmentBytes: 64 << 10, MaxBytes: 64 << 20}
		log := mustOpen(tb, cfg)
		return conform.LogEngine{
			Log: log,
			Reopen: func() pipeline.Log {
				require.NoError(tb, log.Close())
				log = mustOpen(tb, cfg)
				return log
			},
			Retire: func(before int64) {
				_, err := log.copies.Retain(sealer.Position{Generation: 1, Offset: before}, time.Now().AddDate(1, 0, 0))
				require.NoError(tb, err)
			},
		}
	})
}

// TestPromiseDecides fails the promise: nothing is copied, and the error is its own.
func TestPromiseDecides(t *testing.T) {
	away := errors.New("neither Kafka nor spool")
	p := &promise{fail: away}
	l := mustOpen(t, Config{Promise: p, Dir: t.TempDir()})
	_, err := l.Append(t.Context(), record(0))
	require.ErrorIs(t, err, away)
	at, errs := l.AppendAll(t.Context(), []*sealer.Record{record(0), record(1)})
	require.ErrorIs(t, errs[0], away)
	require.ErrorIs(t, errs[1], away)
	require.Zero(t, at[0])
	first, end, err := l.Bounds(t.Context(), 0)
	require.NoError(t, err)
	require.Equal(t, first, end)
}

// TestByteCap appends many times what the copies may hold: the newest stay.
func TestByteCap(t *testing.T) {
	p := new(promise)
	l := mustOpen(t, Config{Promise: p, Dir: t.TempDir(), SegmentBytes: 64 << 10, MaxBytes: 256 << 10})
	const writers, each = 8, 500
	var all sync.WaitGroup
	for w := range writers {
		all.Go(func() {
			for n := range each {
				at, err := l.Append(t.Context(), record(w*each+n))
				if err != nil || at == (sealer.Position{}) {
					t.Errorf("record %d stands at %s, %v", n, at, err)
					return
				}
			}
		})
	}
	all.Wait()
	require.Equal(t, writers*each, p.count())
	require.Zero(t, testutil.ToFloat64(l.failed))
	first, end, err := l.Bounds(t.Context(), 0)
	require.NoError(t, err)
	require.Positive(t, first.Offset)
	require.Greater(t, end.Offset-first.Offset, int64(100<<10/600))
	_, err = l.Read(t.Context(), sealer.Position{Generation: 1})
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.ErrorIs(t, err, pipeline.ErrGone)
	size := int64(0)
	files, err := filepath.Glob(filepath.Join(l.cfg.Dir, "*.seg"))
	require.NoError(t, err)
	for _, f := range files {
		info, err := os.Stat(f)
		require.NoError(t, err)
		size += info.Size()
	}
	require.LessOrEqual(t, size, int64(256<<10+64))
}

// TestAge removes what is older than segment.LeastKeep.
func TestAge(t *testing.T) {
	var mu sync.Mutex
	now := time.Now()
	cfg := Config{Promise: new(promise), Dir: t.TempDir(), SegmentBytes: 4 << 10, Now: func() time.Time {
		mu.Lock()
		defer mu.Unlock()
		return now
	}}
	l := mustOpen(t, cfg)
	for n := range 40 {
		_, err := l.Append(t.Context(), record(n))
		require.NoError(t, err)
	}
	mu.Lock()
	now = now.Add(segment.LeastKeep + time.Minute)
	mu.Unlock()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- l.Run(ctx) }()
	waittest.Until(t, func() bool {
		first, end, err := l.Bounds(t.Context(), 0)
		return err == nil && end.Offset-first.Offset < 10
	})
	stop()
	require.NoError(t, <-ended)
}

// TestDamagedCopies flips a byte in the middle: the node starts, without what it
// held; and what is flipped while it runs is no answer.
func TestDamagedCopies(t *testing.T) {
	cfg := Config{Promise: new(promise), Dir: t.TempDir(), SegmentBytes: 64 << 10}
	l := mustOpen(t, cfg)
	at, err := l.Append(t.Context(), record(0))
	require.NoError(t, err)
	for n := range 20 {
		_, err := l.Append(t.Context(), record(n+1))
		require.NoError(t, err)
	}
	flip(t, cfg.Dir)
	_, err = l.Read(t.Context(), at)
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.ErrorIs(t, err, pipeline.ErrDamaged)
	require.Equal(t, 1., testutil.ToFloat64(l.failed))
	require.NoError(t, l.Close())

	l = mustOpen(t, cfg)
	first, end, err := l.Bounds(t.Context(), 0)
	require.NoError(t, err)
	require.Equal(t, first, end)
	at, err = l.Append(t.Context(), record(1))
	require.NoError(t, err)
	e, err := l.Read(t.Context(), at)
	require.NoError(t, err)
	require.Equal(t, "evt_1", e.EventID)
}

// flip changes a byte of the first record of the first file.
func flip(t *testing.T, dir string) {
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	require.NoError(t, err)
	for _, name := range files {
		if filepath.Base(name) == "LOCK" {
			continue
		}
		f, err := os.OpenFile(name, os.O_RDWR, 0)
		require.NoError(t, err)
		b := make([]byte, 1)
		_, err = f.ReadAt(b, 400)
		require.NoError(t, err)
		b[0] ^= 1
		_, err = f.WriteAt(b, 400)
		require.NoError(t, err)
		require.NoError(t, f.Close())
		return
	}
	t.Fatal("no segment")
}

// TestNoFolder serves although the copies can't be kept at all.
func TestNoFolder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(dir, nil, 0o600))
	p := new(promise)
	registry := prometheus.NewRegistry()
	l := mustOpen(t, Config{Promise: p, Dir: filepath.Join(dir, "copies"), Registerer: registry})
	at, err := l.Append(t.Context(), record(0))
	require.NoError(t, err)
	require.Zero(t, at)
	require.Equal(t, 1, p.count())
	require.Equal(t, 1., testutil.ToFloat64(l.failed))
	first, end, err := l.Bounds(t.Context(), 0)
	require.NoError(t, err)
	require.NoError(t, l.Scan(t.Context(), first, end, nil))
	_, err = l.Read(t.Context(), sealer.Position{Generation: 1})
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.NoError(t, l.Close())
	mustOpen(t, Config{Promise: p, Dir: t.TempDir(), Registerer: registry})
}

func TestSecondProcessIsRefused(t *testing.T) {
	dir := t.TempDir()
	registry := prometheus.NewRegistry()
	l := mustOpen(t, Config{Promise: new(promise), Dir: dir})
	_, err := Open(Config{Promise: new(promise), Dir: dir, Registerer: registry})
	require.ErrorIs(t, err, segment.ErrLocked)
	require.NoError(t, l.Close())
	mustOpen(t, Config{Promise: new(promise), Dir: dir, Registerer: registry})
}

func TestConfigNamesTheBadField(t *testing.T) {
	for field, cfg := range map[string]Config{
		"Promise":  {Dir: "copies"},
		"Dir":      {Promise: new(promise)},
		"MaxBytes": {Promise: new(promise), Dir: "copies", MaxBytes: 1 << 20},
	} {
		_, err := Open(cfg)
		require.ErrorContains(t, err, field)
	}
}
