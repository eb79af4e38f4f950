package abuse

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"syscall"
	"time"
)

// readerRequests are more responses than the system keeps for a client who does not read.
var readerRequests = strings.Repeat("GET /openapi.json HTTP/1.1\r\nHost: m\r\n\r\n", 16)

// readers returns once each has sent its requests for the first time.
func (w *abusers) readers(ctx context.Context) error {
	for range w.Connections {
		conn, err := ask(ctx, w.Addr)
		if err != nil {
			return err
		}
		w.clients.Go(func() {
			for ctx.Err() == nil && err == nil {
				w.count(read(ctx, conn), nil)
				conn, err = ask(ctx, w.Addr)
			}
			if err == nil {
				conn.Close()
			} else if ctx.Err() == nil {
				w.count(Counts{}, err)
			}
		})
	}
	return nil
}

// ask sends the requests, with the smallest buffer for what comes back.
func ask(ctx context.Context, addr string) (net.Conn, error) {
	dialer := net.Dialer{Control: func(_, _ string, c syscall.RawConn) (err error) {
		fault := c.Control(func(fd uintptr) { err = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 1) })
		return errors.Join(fault, err)
	}}
	conn, err := dialer.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	_, err = io.WriteString(conn, readerRequests)
	return conn, err
}

// read is one reader's life, which ends when the server closes it or ctx ends.
func read(ctx context.Context, conn net.Conn) (got Counts) {
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	began, every := time.Now(), time.NewTicker(time.Second)
	defer every.Stop()
	var err error
	for some := make([]byte, 40); err == nil; <-every.C {
		_, err = conn.Read(some)
	}
	if ctx.Err() == nil {
		got.Closed = 1
	}
	got.Longest = time.Since(began)
	return got
}
