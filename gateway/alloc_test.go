package gateway

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/valyala/fasthttp"

	"muniment.example/bench/waittest"
	"muniment.example/gate"
	"muniment.example/gateway/api"
	"muniment.example/gateway/issue"
	"muniment.example/gateway/issue/issuetest"
	"muniment.example/gateway/snapshot"
	"muniment.example/sealer"
)

// nullLog takes everything and keeps nothing.
type nullLog struct{ issue.Log }

func (nullLog) Append(context.Context, *sealer.Record) (sealer.Position, error) {
	return sealer.Position{}, nil
}

func (nullLog) Bounds(context.Context, int32) (first, end sealer.Position, err error) { return }

// newBench makes a gateway that is ready without a socket.
func newBench(b testing.TB) (*Gateway, string) {
	c := issuetest.NewControl()
	w := &world{t: b, control: c}
	token := c.PutKey(b, 1, "tnt_a", api.EveryScope, false)
	w.putRight(1, "tnt_a", gate.DOOH, "", api.RightActive)
	view, err := snapshot.New(snapshot.Config{Source: c, NodeID: "nod_1", Capacity: 1000, Clock: func() time.Duration { return 0 }})
	require.NoError(b, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = view.Run(ctx)
	}()
	b.Cleanup(func() {
		cancel()
		<-done
		view.Close()
	})
	key := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{7}, ed25519.SeedSize))
	now := func() time.Time { return today }
	issuer, err := issue.New(issue.Config{
		NodeID: "nod_1", Rights: view, Log: nullLog{}, Signer: issuetest.Always(&sealer.Signer{KeyID: "k", Node: "nod_1", Key: key}), Now: now, Timeout: time.Minute,
	})
	require.NoError(b, err)
	g, err := New(Config{Rights: view, Issuer: issuer, DialControl: []func() (net.Conn, error){func() (net.Conn, error) { return nil, fmt.Errorf("none") }}, Now: now})
	require.NoError(b, err)
	waittest.Until(b, func() bool { return view.Fresh() == nil })
	return g, token
}

// benchRequest is a request as fasthttp hands it to the handler.
func benchRequest(token string) *fasthttp.RequestCtx {
	ctx := new(fasthttp.RequestCtx)
	ctx.Request.Header.SetMethod(fasthttp.MethodPost)
	ctx.Request.SetRequestURI(pathDelivery)
	ctx.Request.Header.Set(fasthttp.HeaderAuthorization, "Bearer "+token)
	ctx.Request.Header.Set(fasthttp.HeaderHost, "m")
	ctx.Request.SetBodyString(issuetest.Typical)
	return ctx
}

// TestFramingAllocatesNothing fixes the number for what a delivery runs through in this package.
func TestFramingAllocatesNothing(t *testing.T) {
	if raced {
		return // fasthttp takes buffers from a pool
	}
	var ctx fasthttp.RequestCtx
	ctx.Request.Header.Set(fasthttp.HeaderAuthorization, "x")
	check := func() {
		nameRequest(&ctx)
		if framingFault(&ctx.Request.Header, toDelivery) != nil {
			t.Fatal("no fault")
		}
	}
	check() // the first run grows the buffers
	// The least of some runs: what other goroutines allocate meanwhile is counted too.
	least := testing.AllocsPerRun(200, check)
	for n := 0; n < 10 && least > 0; n++ {
		least = min(least, testing.AllocsPerRun(200, check))
	}
	require.Zero(t, least)
}

// TestHandlerAllocations fixes what one delivery allocates from handler to answer:
// the key's id and the signer's strings, in packages that this one only calls.
func TestHandlerAllocations(t *testing.T) {
	g, token := newBench(t)
	ctx := benchRequest(token)
	run := func() {
		ctx.Response.Reset()
		g.handle(ctx)
		if ctx.Response.StatusCode() != 200 {
			t.Fatal(string(ctx.Response.Body()))
		}
	}
	// The least of many runs: a pool may be emptied at any time.
	least := testing.AllocsPerRun(1, run)
	for range 50 {
		least = min(least, testing.AllocsPerRun(1, run))
	}
	require.LessOrEqual(t, least, 7.0)
}

// BenchmarkHandler is the whole handler with a log that costs nothing: subtract
// BenchmarkSign to see what is ours.
func BenchmarkHandler(b *testing.B) {
	g, token := newBench(b)
	ctx := benchRequest(token)
	b.ReportAllocs()
	for b.Loop() {
		ctx.Response.Reset()
		g.handle(ctx)
	}
	if ctx.Response.StatusCode() != 200 {
		b.Fatal(string(ctx.Response.Body()))
	}
}

func BenchmarkSign(b *testing.B) {
	key := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{7}, ed25519.SeedSize))
	text := make([]byte, 500)
	for b.Loop() {
		ed25519.Sign(key, text)
	}
}
