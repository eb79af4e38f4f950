package main

import (
	"bufio"
	"bytes"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment/bench"
)

// TestOneKeyOneReceipt sends one delivery a hundred times at once with one key,
// and again after a kill: one event, and the same bytes for everybody.
func TestOneKeyOneReceipt(t *testing.T) {
	exe, data := muniment(t), filepath.Join(t.TempDir(), "data")
	server := startServer(t, exe, data)
	client := bench.Client{API: server.API, Key: createTenant(t, exe, data).APIKey}
	body := fmt.Sprintf(`{"rightId":%q,"spatialAnchorId":"a","dwellMs":4200}`, issueRights(t, client)["DOOH"])

	var answers [100]string
	var clients sync.WaitGroup
	for i := range answers {
		clients.Go(func() { answers[i] = post(t, client, "one-key", body) })
	}
	clients.Wait()
	for _, a := range answers {
		require.Equal(t, answers[0], a)
	}
	require.Contains(t, answers[0], `"receiptId":"rcp_`)

	server.Kill()
	client.API = startServer(t, exe, data).API
	require.Equal(t, answers[0], post(t, client, "one-key", body), "after a restart")
	require.Contains(t, post(t, client, "one-key", strings.Replace(body, "4200", "4201", 1)), `"error":"STATE_CONFLICT"`)

	seal(t, client, nil)
	var metering struct{ Totals struct{ Receipts int } }
	require.NoError(t, client.Do(t.Context(), "GET", "/v1/metering", nil, &metering))
	require.Equal(t, 1, metering.Totals.Receipts)
}

// post returns the body of the answer to one delivery.
func post(t *testing.T, client bench.Client, key, body string) string {
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, client.API+"/v1/delivery", strings.NewReader(body))
	if err != nil {
		return err.Error()
	}
	req.Header.Set("Authorization", "Bearer "+client.Key)
	req.Header.Set("Idempotency-Key", key)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err.Error()
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return err.Error()
	}
	// The request's id is the one thing that two refusals may differ in.
	var parsed map[string]any
	if json.Unmarshal(text, &parsed) == nil && parsed["requestId"] != nil {
		delete(parsed, "requestId")
		text, _ = json.Marshal(parsed)
	}
	return string(text)
}

// TestOneEnvelope asks the gateway and control for the same refusal: its bytes don't
// tell who answered, and text in it stands as it is.
func TestOneEnvelope(t *testing.T) {
	server := startServer(t, muniment(t), filepath.Join(t.TempDir(), "data"))
	refusal := func(method, path string) string {
		req, err := http.NewRequestWithContext(t.Context(), method, server.API+path, nil)
		require.NoError(t, err)
		req.Header.Set("X-Request-Id", "req-1")
		resp, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		defer resp.Body.Close()
		require.Equal(t, http.StatusUnauthorized, resp.StatusCode)
		text, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		return string(text)
	}
	gateway := refusal(http.MethodPost, "/v1/delivery")
	require.Contains(t, gateway, "<API_KEY>")
	require.Equal(t, gateway, refusal(http.MethodGet, "/v1/rights"))
}

// TestReadiness asks a server how it is while its warehouse can't be written: the
// loader falls behind, which is told, and keeps no request away.
func TestReadiness(t *testing.T) {
	h := newHouse(t)
	type note struct{ Name, Note string }
	ask := func() (behind int, warehouse string) {
		resp, err := http.Get(h.server.Admin + "/readyz")
		require.NoError(t, err)
		defer resp.Body.Close()
		require.Equal(t, http.StatusOK, resp.StatusCode)
		var told struct {
			Ready bool
			Notes []note
		}
		require.NoError(t, json.NewDecoder(resp.Body).Decode(&told))
		require.True(t, told.Ready)
		require.True(t, slices.ContainsFunc(told.Notes, func(n note) bool {
			return n.Name == "delegation" && strings.HasSuffix(n.Note, ", for 729 days")
		}), told.Notes)
		require.Equal(t, "loader", told.Notes[0].Name)
		require.Equal(t, "warehouse", told.Notes[1].Name)
		if _, err = fmt.Sscanf(told.Notes[0].Note, "%d records behind the log", &behind); err != nil {
			behind = -1 // it has yet to find where it was
		}
		return behind, told.Notes[1].Note
	}
	caughtUp := func() bool { behind, _ := ask(); return behind == 0 }
	require.Eventually(t, caughtUp, time.Minute, 5*time.Millisecond)

	db, err := sql.Open("sqlite", filepath.Join(h.data, "warehouse.db")+"?_pragma=busy_timeout(10000)&_txlock=immediate")
	require.NoError(t, err)
	defer db.Close()
	held, err := db.Begin()
	require.NoError(t, err)
	_, before := ask()
	require.Contains(t, before, "loaded up to ")
	h.receipts(3)
	behind, warehouse := ask()
	require.GreaterOrEqual(t, behind, 3)
	require.Equal(t, before, warehouse)
	require.NoError(t, held.Rollback())
	require.Eventually(t, caughtUp, time.Minute, 5*time.Millisecond)
	_, after := ask()
	require.NotEqual(t, before, after)
}

// TestStopUnderLoad stops the server with SIGTERM while 64 clients send on
// connections that they keep: every request that was sent on an accepted
// connection is answered, and the process ends with status 0.
func TestStopUnderLoad(t *testing.T) {
	exe, data := muniment(t), filepath.Join(t.TempDir(), "data")
	server := startServer(t, exe, data)
	client := bench.Client{API: server.API, Key: createTenant(t, exe, data).APIKey}
	body := fmt.Sprintf(`{"rightId":%q,"spatialAnchorId":"a","dwellMs":4200}`, issueRights(t, client)["DOOH"])
	request := fmt.Appendf(nil, "POST /v1/delivery HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n%s",
		hostPort(server.API), client.Key, len(body), body)

	const clients = 64
	var answered atomic.Int64
	warm := make(chan struct{})
	faults := make(chan error, clients)
	for range clients {
		go func() {
			faults <- untilGone(hostPort(server.API), request, func() {
				if answered.Add(1) == 20*clients {
					close(warm)
				}
			})
		}()
	}
	<-warm
	require.NoError(t, server.Stop())
	for range clients {
		require.NoError(t, <-faults)
	}
	t.Logf("%d answers", answered.Load())
}

// quietEnds is how long a connection is quiet before a server that stops closes it.
const quietEnds = time.Second

// untilGone posts on one connection after the other until none is accepted any
// more. Any end of a connection but an announced one is a fault, unless it was quiet.
func untilGone(addr string, request []byte, answered func()) error {
	for {
		began := time.Now()
		conn, err := net.Dial("tcp", addr)
		if errors.Is(err, syscall.ECONNREFUSED) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := untilClosed(conn, began, request, answered); err != nil {
			return err
		}
	}
}

func untilClosed(conn net.Conn, asked time.Time, request []byte, answered func()) error {
	defer conn.Close()
	in := bufio.NewReader(conn)
	for {
		_, err := conn.Write(request)
		quiet := time.Since(asked) // for as long at most: it was answered, too
		asked = time.Now()
		var resp *http.Response
		if err == nil {
			resp, err = http.ReadResponse(in, nil)
		}
		switch {
		case err != nil && quiet >= quietEnds:
			return nil
		case err != nil:
			return fmt.Errorf("while waiting for an answer: %w", err)
		}
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			return fmt.Errorf("while reading an answer: %w", err)
		}
		draining := resp.StatusCode == http.StatusServiceUnavailable && bytes.Contains(text, []byte(`"reason":"DRAINING"`))
		if resp.StatusCode != http.StatusOK && !draining {
			return fmt.Errorf("answered %d: %s", resp.StatusCode, text)
		}
		answered()
		if resp.Close {
			return nil
		}
	}
}
