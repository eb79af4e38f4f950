package bench

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/valyala/fasthttp"
)

// TestMain lets the test binary be a bare server.
func TestMain(m *testing.M) {
	if len(os.Args) < 2 || os.Args[1] != "bare" {
		os.Exit(m.Run())
	}
	var bare Bare
	for i := 2; i+1 < len(os.Args); i += 2 {
		*map[string]*string{"--listen": &bare.Listen, "--admin": &bare.Admin, "--log-dir": &bare.Log}[os.Args[i]] = os.Args[i+1]
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if err := bare.Run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// TestComparison runs all of it for a moment. Run itself fails on any answer but
// 200, and on any receipt that it kept and can't verify.
func TestComparison(t *testing.T) {
	exe := filepath.Join(t.TempDir(), "muniment")
	out, err := exec.CommandContext(t.Context(), "go", "build", "-o", exe, "muniment").CombinedOutput()
	require.NoError(t, err, string(out))
	self, err := os.Executable()
	require.NoError(t, err)

	c := &Comparison{
		Exe: exe, BareExe: self, Dir: t.TempDir(), Out: t.Output(),
		Connections: []int{1, 16}, Sustain: time.Second, Profile: time.Second,
	}
	c.Shorten()
	report, err := c.Run(t.Context())
	require.NoError(t, err)

	require.Len(t, report.Rounds, 8)
	require.Len(t, report.Medians, 8)
	for _, r := range report.Rounds {
		require.Positive(t, r.Receipts, r)
		require.Positive(t, r.P99, r)
		require.LessOrEqual(t, r.P50, r.P99, r)
		require.LessOrEqual(t, r.P99, r.P999, r)
		require.Equal(t, r.Variant == Loaded, r.SustainedPerSecond > 0, r)
	}
	for _, ratio := range report.Ratios {
		if ratio.Name != "server CPU, (c) to (b)" { // a tick may be too coarse for so short a time
			require.Positive(t, ratio.Value, ratio)
		}
	}
	require.Positive(t, report.Sustained.Receipts)
	require.Positive(t, report.Sustained.SustainedPerSecond)
	require.GreaterOrEqual(t, len(report.Sustained.Memory), 2)
	require.Greater(t, report.Sustained.Memory[0].MiB, 5.0)
	require.NotEmpty(t, report.Where)
}

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
		addr: addr, key: "secret", bodies: bodies, connections: 3, during: 50 * time.Millisecond, begin: mark, end: mark,
	}
	var total int
	for range 2 {
		got, err := p.run(t.Context(), &callers)
		require.NoError(t, err)
		require.Len(t, got.samples, 3)
		require.Len(t, got.samples[0], 10_000)
		require.LessOrEqual(t, len(got.latencies), got.total)
		require.Positive(t, len(got.latencies))
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
	c := (&pressure{key: "k", bodies: [][]byte{nil}}).caller(nil, 7)
	for range 1009 {
		c.number()
	}
	require.Contains(t, string(c.request), "Idempotency-Key: 00000007-00001009\r\n")
}

// TestForgedReceipt: what the comparison calls verified is.
func TestForgedReceipt(t *testing.T) {
	bodies, err := Bodies(1, 1, anyRights())
	require.NoError(t, err)
	s := &bareServer{key: bareKey()}
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
