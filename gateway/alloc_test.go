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

	"muniment/gate"
	"muniment/gateway/api"
	"muniment/gateway/snapshot"
	"muniment/sealer"
)

const typical = `{"rightId":"rgh_01KAJ000000000000000000001","spatialAnchorId":"venue:2231/face:4","spatialPlacementId":"slot-7","correlationId":"7c0f9a52-6f0e-4a54-9d0c-3a3e5b0c9f11",` +
	`"dwellMs":8250.5,"dataSubjectId":"s\u00fcbject","telemetry":{"visibilityState":"visible","viewable":true,"fovPresence":true,"completionState":"complete","appState":"foreground",` +
	`"linkState":"acquired","footprintRegion":"US-CA","muted":false,"audible":true,"eyeTrackingConsent":true,"dwellInViewMs":5100,"vendor":{"a":[1,2,{"b":null}]}}}`

func requireNoAllocations(t *testing.T, what string, f func()) {
	t.Helper()
	f() // the first run grows the buffers
	// The least of some runs: whoever else allocates meanwhile is counted too.
	least := testing.AllocsPerRun(200, f)
	for n := 0; n < 10 && least > 0; n++ {
		least = min(least, testing.AllocsPerRun(200, f))
	}
	require.Zero(t, least, what)
}

// TestHotPathAllocatesNothing fixes the number for each part that a delivery runs
// through in this room.
func TestHotPathAllocatesNothing(t *testing.T) {
	body := []byte(typical)
	d := &delivery{desk: new(desk)}
	requireNoAllocations(t, "decode", func() {
		if err := d.decode(body); err != nil {
			t.Fatal(err)
		}
	})
	right := &snapshot.Right{Right: api.Right{ID: rightID(1)}, Gate: gate.Right{Substrate: gate.DOOH}}
	requireNoAllocations(t, "gate and metering", func() {
		v := gate.Evaluate(&right.Gate, &d.telemetry, d.dwellMs)
		d.sealed.Metering, d.sealed.Substrate = v.Meter(&d.telemetry, d.dwellMs), v.Substrate
	})
	d.receipt.IssuedAt, d.tenant = today, "tnt_a"
	requireNoAllocations(t, "ids, and the hashes of key and body", func() {
		d.name()
		_ = d.keyHash([]byte("some-key"))
		_ = d.requestHash(d.private.Salt, body)
	})
	if raced {
		return // fasthttp's response takes its buffer from a pool
	}
	event := sampleEvent(t)
	var answer fasthttp.Response
	requireNoAllocations(t, "envelope", func() {
		parts, err := sealer.SplitDelivery(event)
		if err != nil {
			t.Fatal(err)
		}
		answer.ResetBody()
		writeAnswer(&answer, &parts)
	})
	limits := deadlines{after: time.Hour}
	requireNoAllocations(t, "deadline", func() { limits.begin(time.Now()) })
	var ctx fasthttp.RequestCtx
	ctx.Request.Header.Set(fasthttp.HeaderAuthorization, "x")
	requireNoAllocations(t, "request id and framing", func() {
		nameRequest(&ctx)
		if framingFault(&ctx.Request.Header, toDelivery) != nil {
			t.Fatal("no fault")
		}
	})
}

func sampleEvent(t *testing.T) []byte {
	w := newWorld(t, nil)
	require.Equal(t, 200, w.post(w.body()).status)
	return w.log.all()[0].Event
}

// nullLog takes everything and keeps nothing.
type nullLog struct{ Log }

func (nullLog) Append(context.Context, *sealer.Record) (sealer.Position, error) {
	return sealer.Position{}, nil
}

func (nullLog) Bounds(context.Context, int32) (first, end sealer.Position, err error) { return }

// newBench makes a gateway that is ready without a socket.
func newBench(b testing.TB) (*Gateway, string) {
	c := newControl()
	w := &world{t: b, control: c}
	token := newKey(b, c, 1, "tnt_a", api.EveryScope)
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
	g, err := New(Config{
		NodeID: "nod_1", Rights: view, Log: nullLog{}, Signer: always(&sealer.Signer{KeyID: "k", Node: "nod_1", Key: key}),
		DialControl: func() (net.Conn, error) { return nil, fmt.Errorf("none") }, Now: func() time.Time { return today },
		AppendTimeout: time.Minute,
	})
	require.NoError(b, err)
	require.Eventually(b, func() bool { return view.Fresh() == nil }, time.Minute, time.Millisecond)
	return g, token
}

// benchRequest is a request as fasthttp hands it to the handler.
func benchRequest(token string) *fasthttp.RequestCtx {
	ctx := new(fasthttp.RequestCtx)
	ctx.Request.Header.SetMethod(fasthttp.MethodPost)
	ctx.Request.SetRequestURI(pathDelivery)
	ctx.Request.Header.Set(fasthttp.HeaderAuthorization, "Bearer "+token)
	ctx.Request.Header.Set(fasthttp.HeaderHost, "m")
	ctx.Request.SetBodyString(typical)
	return ctx
}

// TestHandlerAllocations fixes what one delivery allocates from handler to answer:
// the key's id and the signer's strings, in rooms that this one only calls.
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

func BenchmarkDecode(b *testing.B) {
	var o observation
	body := []byte(typical)
	b.ReportAllocs()
	b.SetBytes(int64(len(body)))
	for b.Loop() {
		if err := o.decode(body); err != nil {
			b.Fatal(err)
		}
	}
}
