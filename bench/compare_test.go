package bench

import (
	"bytes"
	"crypto/ed25519"
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
	bodies, err := Bodies(50, 1, anyRights())
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
	p := &pressure{
		addr: addr, senders: []sender{{"secret", bodies}}, connections: 3, begin: mark, end: mark, // for no time: until each has an answer
	}
	var total int
	for range 2 {
		got, err := p.run(t.Context(), &callers)
		require.NoError(t, err)
		require.Len(t, got.samples, 3)
		require.Len(t, got.samples[0], 10_000)
		require.LessOrEqual(t, len(got.latencies), got.total)
		require.GreaterOrEqual(t, len(got.latencies), 3)
		total += got.total
	}
	require.Equal(t, 4, marks)
	require.Len(t, keys, total, "no key is sent twice")
	for body := range sent {
		require.Len(t, body, bodySize)
		require.True(t, json.Valid([]byte(body)), body)
	}

	refuse.Store(true)
	_, err = p.run(t.Context(), &callers)
	require.ErrorContains(t, err, "503")
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
	c := (&pressure{senders: []sender{{"k", [][]byte{nil}}}}).caller(nil, 7)
	for range 1009 {
		c.number()
	}
	require.Contains(t, string(c.request), "Idempotency-Key: 00000007-00001009\r\n")
}

// TestForgedReceipt: what the comparison calls verified is.
func TestForgedReceipt(t *testing.T) {
	bodies, err := Bodies(1, 1, anyRights())
	require.NoError(t, err)
	s := &bareServer{key: bareKey(), tenants: bareTenants()}
	s.pool.New = func() any { return new(bareWork) }
	var ctx fasthttp.RequestCtx
	ctx.Request.SetBody(bodies[0])
	target := &target{signers: map[string]ed25519.PublicKey{bareKeyID: bareKey().Public().(ed25519.PublicKey)}}
	answer := func() []byte {
		s.handle(&ctx)
		return ctx.Response.Body()
	}
	require.NoError(t, target.check(answer()))
	require.ErrorContains(t, target.check(bytes.Replace(answer(), []byte(`"version":"1"`), []byte(`"version":"2"`), 1)), "verify")
	target.signers = nil
	require.ErrorContains(t, target.check(answer()), "verify", "an unknown key")
}
