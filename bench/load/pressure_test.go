package load

import (
	"bytes"
	"encoding/json"
	"net"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/valyala/fasthttp"
)

// TestPressure looks at what one server is sent.
func TestPressure(t *testing.T) {
	bodies, err := Bodies(50, 1, AnyRights())
	require.NoError(t, err)
	var mu sync.Mutex
	keys, sent := map[string]int{}, map[string]bool{}
	var refuse atomic.Bool
	addr := serveHTTP(t, func(ctx *fasthttp.RequestCtx) {
		mu.Lock()
		defer mu.Unlock()
		keys[string(ctx.Request.Header.Peek("Idempotency-Key"))]++
		sent[string(ctx.PostBody())] = true
		if string(ctx.Request.Header.Peek("Authorization")) != "Bearer secret" || refuse.Load() {
			ctx.SetStatusCode(503)
		}
		ctx.SetBody(bytes.Repeat([]byte("x"), 10_000)) // larger than the first buffer
	})
	var callers atomic.Uint32
	var marks int
	mark := func() error { marks++; return nil }
	p := &Pressure{
		Addr: addr, Senders: []Sender{{"secret", bodies}}, Connections: 3, Begin: mark, End: mark, // for no time: until each has an answer
	}
	var total int
	for range 2 {
		got, err := p.Run(t.Context(), &callers)
		require.NoError(t, err)
		require.Len(t, got.Samples, 3)
		require.Len(t, got.Samples[0], 10_000)
		require.LessOrEqual(t, len(got.Latencies), got.Total)
		require.GreaterOrEqual(t, len(got.Latencies), 3)
		total += got.Total
	}
	require.Equal(t, 4, marks)
	require.Len(t, keys, total, "no key is sent twice")
	for body := range sent {
		require.Len(t, body, bodySize)
		require.True(t, json.Valid([]byte(body)), body)
	}

	refuse.Store(true)
	_, err = p.Run(t.Context(), &callers)
	require.ErrorContains(t, err, "503")
}

// TestRefusedBatches: those that a server has no room for yet are sent again, and don't count.
func TestRefusedBatches(t *testing.T) {
	t.Parallel()
	var requests atomic.Int32
	addr := serveHTTP(t, func(ctx *fasthttp.RequestCtx) {
		switch requests.Add(1) {
		case 1:
			ctx.SetStatusCode(fasthttp.StatusTooManyRequests)
		case 2:
			ctx.SetStatusCode(fasthttp.StatusServiceUnavailable)
		}
	})
	p := &Pressure{Addr: addr, Senders: []Sender{{"secret", [][]byte{[]byte("{}")}}}, Connections: 1, Rows: 2}
	var callers atomic.Uint32
	got, err := p.Run(t.Context(), &callers)
	require.NoError(t, err)
	require.GreaterOrEqual(t, requests.Load(), int32(3))
	require.EqualValues(t, requests.Load()-2, got.Total)
}

func serveHTTP(t *testing.T, handler fasthttp.RequestHandler) string {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	server := &fasthttp.Server{Handler: handler}
	served := make(chan error, 1)
	go func() { served <- server.Serve(ln) }()
	t.Cleanup(func() {
		require.NoError(t, server.Shutdown())
		require.NoError(t, <-served)
	})
	return ln.Addr().String()
}

func TestKeysCarryOver(t *testing.T) {
	c := (&Pressure{Senders: []Sender{{"k", [][]byte{nil}}}}).NewCaller(nil, 7)
	for range 1009 {
		c.number()
	}
	require.Contains(t, string(c.request), "Idempotency-Key: 00000007-00001009\r\n")
}
