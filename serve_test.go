package main

import (
	"bufio"
	"bytes"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestOneKeyOneReceipt sends one delivery a hundred times at once with one key,
// and again after a kill: one event, and the same bytes for everybody.
func TestOneKeyOneReceipt(t *testing.T) {
	t.Parallel()
	h := newService(t)
	body := delivery(h.rights["DOOH"])
	post := func(body string) string {
		return call(t, h.client.API, h.client.Key, operation{method: "POST", path: "/v1/delivery", body: body}, "Idempotency-Key", "one-key").body
	}
	var answers [100]string
	var clients sync.WaitGroup
	for i := range answers {
		clients.Go(func() { answers[i] = post(body) })
	}
	clients.Wait()
	for _, a := range answers {
		require.Equal(t, answers[0], a)
	}
	require.Contains(t, answers[0], `"receiptId":"rcp_`)

	h.server.Kill()
	h.start()
	require.Equal(t, answers[0], post(body), "after a restart")
	require.Contains(t, post(strings.Replace(body, "4200", "4201", 1)), `"error":"STATE_CONFLICT"`)
	require.Equal(t, 1, h.metered())
}

// TestOneEnvelope makes the gateway and control refuse the same request: the bytes don't show
// which of them answered, and text in them is not escaped.
func TestOneEnvelope(t *testing.T) {
	t.Parallel()
	server := shared(t).server
	refusal := func(method, path string) string {
		a := call(t, server.API, "", operation{method: method, path: path})
		require.Equal(t, http.StatusUnauthorized, a.status)
		return a.body
	}
	gateway := refusal(http.MethodPost, "/v1/delivery")
	require.Contains(t, gateway, "<API_KEY>")
	require.Equal(t, gateway, refusal(http.MethodGet, "/v1/rights"))
}

// TestReadiness requests /readyz while the warehouse can't be written: the loader falls behind,
// which /readyz shows, and no request is refused for it.
func TestReadiness(t *testing.T) {
	t.Parallel()
	h := newService(t)
	do := func() (behind int, warehouse string) {
		notes := h.notes()
		require.Equal(t, "loader", notes[0].Name)
		require.Equal(t, "warehouse", notes[1].Name)
		if _, err := fmt.Sscanf(notes[0].Note, "%d records behind the log", &behind); err != nil {
			behind = -1 // it has yet to find where it was
		}
		return behind, notes[1].Note
	}
	require.Regexp(t, ", in 729 days$", h.note("delegation"))
	caughtUp := func() bool { behind, _ := do(); return behind == 0 }
	until(t, caughtUp)

	db, err := sql.Open("sqlite", filepath.Join(h.data, "warehouse.db")+"?_pragma=busy_timeout(10000)&_txlock=immediate")
	require.NoError(t, err)
	defer db.Close()
	held, err := db.Begin()
	require.NoError(t, err)
	_, before := do()
	require.Contains(t, before, "loaded up to ")
	h.receipts(3)
	behind, warehouse := do()
	require.GreaterOrEqual(t, behind, 3)
	require.Equal(t, before, warehouse)
	require.NoError(t, held.Rollback())
	until(t, caughtUp)
	_, after := do()
	require.NotEqual(t, before, after)
}

// TestStopUnderLoad stops the server with SIGTERM while 64 clients send on
// connections that they keep: every request that was sent on an accepted
// connection is answered, and the process ends with status 0.
func TestStopUnderLoad(t *testing.T) {
	h := newService(t)
	client, server, body := h.client, h.server, delivery(h.rights["DOOH"])
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

func untilClosed(conn net.Conn, sent time.Time, request []byte, answered func()) error {
	defer conn.Close()
	in := bufio.NewReader(conn)
	for {
		_, err := conn.Write(request)
		quiet := time.Since(sent) // for as long at most: it was answered, too
		sent = time.Now()
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
