package gateway

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/valyala/fasthttp"

	"muniment.example/bench/waittest"
)

// large is a good delivery of 60,000 bytes.
func (w *world) large() string {
	whole := strings.TrimSuffix(w.body(), "}") + `,"x":"`
	return whole + strings.Repeat("x", 60_000-len(whole)-2) + `"}`
}

func TestBodyInPieces(t *testing.T) {
	w := newWorld(t, nil)
	s := w.session()
	for _, size := range []int{1, 7, 4096, bodyStep, bodyStep + 1, 50_000} {
		for text := request(w.token, w.large()); text != ""; {
			n := min(size, len(text))
			if len(text) > 2*bodyStep && size < 4096 {
				n = len(text) - 2*bodyStep // the small pieces are for the end
			}
			_, err := io.WriteString(s.conn, text[:n])
			require.NoError(t, err)
			text = text[n:]
		}
		require.Equal(t, 200, readReply(t, s.in).status, "pieces of %d", size)
	}
	require.Equal(t, 200, s.do(request(w.token, w.body())).status)
}

func TestPipelinedBodies(t *testing.T) {
	w := newWorld(t, nil)
	s := w.session()
	_, err := io.WriteString(s.conn, request(w.token, w.large())+request(w.token, w.body())+request(w.token, "{")+request(w.token, w.large()))
	require.NoError(t, err)
	for _, want := range []int{200, 200, 400, 200} {
		require.Equal(t, want, readReply(t, s.in).status)
	}
}

// TestSlowBody is about bodies that fasthttp has not read ahead.
func TestSlowBody(t *testing.T) { everyTransport(t, slowBody) }

func slowBody(t *testing.T, transport func(*settings)) {
	const timeout = 500 * time.Millisecond
	w := newWorld(t, func(c *settings) { transport(c); c.ReadTimeout = timeout })
	r := w.tooSlow(request(w.token, w.large())[:30_000])
	require.Equal(t, 408, r.status)
	require.True(t, r.closes)
	requireEnvelope(t, r)
}

func TestBodyCutOff(t *testing.T) { everyTransport(t, bodyCutOff) }

func bodyCutOff(t *testing.T, transport func(*settings)) {
	w := newWorld(t, transport)
	c := w.dial()
	_, err := io.WriteString(c, request(w.token, w.large())[:30_000])
	require.NoError(t, err)
	require.NoError(t, c.(interface{ CloseWrite() error }).CloseWrite())
	text, err := io.ReadAll(c)
	require.NoError(t, err)
	require.NoError(t, c.Close())
	require.Contains(t, string(text), "HTTP/1.1 400 ")
	require.Contains(t, string(text), "Connection: close")
	require.Empty(t, w.log.All())
}

// TestTrickleTakesNoPlace holds the node's one place for requests against bodies
// that never arrive.
func TestTrickleTakesNoPlace(t *testing.T) {
	w := newWorld(t, func(c *settings) { c.MaxInFlight, c.MaxTenantInFlight = 1, 1 })
	for range 10 {
		s := w.session()
		_, err := io.WriteString(s.conn, request(w.token, w.large())[:30_000])
		require.NoError(t, err)
	}
	waittest.Until(t, func() bool {
		reading := 0
		for _, c := range w.gateway.listener.all() {
			if c.quietSince.Load() == 0 {
				reading++
			}
		}
		return reading == 10
	})
	require.Equal(t, 200, w.post(w.body()).status)
}

// TestMemoryFollowsWhatArrives announces the longest body and sends little of it.
func TestMemoryFollowsWhatArrives(t *testing.T) {
	for _, sent := range []int{1, bodyStep, 100_000} {
		var a arrival
		var ctx fasthttp.RequestCtx
		ctx.Request.Header.SetMethod("POST")
		ctx.Request.SetBodyStream(bytes.NewReader(make([]byte, sent)), maxBody)
		require.Error(t, a.receive(&ctx, maxBody))
		require.LessOrEqual(t, cap(a.body), 3*max(bodyStep, sent))
	}
}

// TestAnnouncedBatches: what is announced takes nothing of the room for batches, only what has
// arrived.
func TestAnnouncedBatches(t *testing.T) {
	w := newWorld(t, func(c *settings) { c.MaxBatchBytes = 2 << 20 })
	body := inJSON(w.row("a", "")) + strings.Repeat(" ", 200<<10)
	text := batchRequest(w.token, "application/json", body)
	begun, half := len(text)-len(body)+10<<10, len(text)-len(body)/2 // fasthttp reads 8 KiB ahead
	var slow []*session
	for range 20 {
		s := w.session()
		_, err := io.WriteString(s.conn, text[:begun])
		require.NoError(t, err)
		slow = append(slow, s)
	}
	waittest.Until(t, func() bool { return w.metric("muniment_gateway_batch_bytes", "") >= 20*2*bodyStep })
	require.EqualValues(t, 20*2*bodyStep, w.metric("muniment_gateway_batch_bytes", ""))
	require.Equal(t, []string{"accepted"}, statuses(w.ingested(w.send("application/json", body))))

	for _, s := range slow[:2] { // of each, half
		_, err := io.WriteString(s.conn, text[begun:half])
		require.NoError(t, err)
	}
	waittest.Until(t, func() bool { return w.metric("muniment_gateway_batch_bytes", "") > 18*2*bodyStep+float64(len(body)) })
	for _, s := range slow[:2] {
		_, err := io.WriteString(s.conn, text[half:])
		require.NoError(t, err)
		require.Equal(t, []string{"duplicate"}, statuses(w.ingested(readReply(t, s.in))))
	}
	for _, s := range slow[2:] {
		require.NoError(t, s.conn.Close())
	}
	waittest.Until(t, func() bool { return w.metric("muniment_gateway_batch_bytes", "") == 0 })
}
