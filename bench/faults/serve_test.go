package faults

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/bench/system/systemtest"
)

// TestStopUnderLoad stops the server with SIGTERM while 64 clients send on
// connections that they keep: every request that was sent on an accepted
// connection is answered, and the process ends with status 0.
func TestStopUnderLoad(t *testing.T) {
	h := systemtest.NewService(t)
	client, server, body := h.Client, h.Server, systemtest.Delivery(h.Rights["DOOH"])
	request := fmt.Appendf(nil, "POST /v1/delivery HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n%s",
		systemtest.HostPort(server.API), client.Key, len(body), body)

	const clients = 64
	var answered atomic.Int64
	warm := make(chan struct{})
	faults := make(chan error, clients)
	for range clients {
		go func() {
			faults <- untilGone(systemtest.HostPort(server.API), request, func() {
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
