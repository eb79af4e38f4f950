package gateway

import (
	"bufio"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/bench/waittest"
)

// accepting records the clients whose connections were accepted.
type accepting struct {
	net.Listener
	clients sync.Map // by address
}

func (l *accepting) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err == nil {
		l.clients.Store(c.RemoteAddr().String(), true)
	}
	return c, err
}

// TestDrainUnderLoad stops a gateway under clients that never pause. Once a
// connection was accepted it is never reset: each request on it is answered.
func TestDrainUnderLoad(t *testing.T) { everyTransport(t, drainUnderLoad) }

func drainUnderLoad(t *testing.T, transport func(*settings)) {
	accepted := new(accepting)
	w := newStill(t)
	w.front = func(ln net.Listener) net.Listener { accepted.Listener = ln; return accepted }
	w.start(func(c *settings) {
		transport(c)
		c.DrainGrace, c.DrainTimeout, c.DrainDelay = time.Hour, time.Hour, 50*time.Millisecond
	})
	var answered, resets, cutOff, refused, receipts atomic.Int64
	var clients sync.WaitGroup
	for range 32 {
		clients.Go(func() {
			for {
				below, err := net.Dial("tcp", w.addr)
				if err != nil {
					return // no longer accepting
				}
				failed := func(of *atomic.Int64) {
					if _, ok := accepted.clients.Load(below.LocalAddr().String()); !ok {
						of = &refused // the kernel had it when the listener closed
					}
					of.Add(1)
				}
				ended := func() { accepted.clients.Delete(below.LocalAddr().String()) } // its port may be another's then
				c, err := w.greet(below)
				if err != nil {
					failed(&resets)
					ended()
					continue
				}
				r := bufio.NewReader(c)
				for {
					if _, err := io.WriteString(c, request(w.token, w.body())); err != nil {
						if errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) {
							failed(&resets)
						}
						break
					}
					_, err := r.Peek(1)
					if err != nil {
						if errors.Is(err, syscall.ECONNRESET) {
							failed(&resets)
						} else {
							failed(&cutOff)
						}
						break
					}
					reply := readReply(t, r)
					answered.Add(1)
					if reply.status == 200 {
						receipts.Add(1)
					}
					if reply.closes {
						break
					}
				}
				ended()
				c.Close()
			}
		})
	}
	waittest.Until(t, func() bool { return answered.Load() > 500 })
	require.NoError(t, w.end(), "it waits for requests, not for the end of the grace")
	clients.Wait()
	t.Logf("%d answers, %d connections refused when the listener closed", answered.Load(), refused.Load())
	require.Zero(t, resets.Load())
	require.Zero(t, cutOff.Load(), "every request on an accepted connection is answered")
	require.GreaterOrEqual(t, int64(len(w.log.All())), receipts.Load(), "an answer without a record")
	require.Error(t, w.gateway.Ready(t.Context()))
}

func TestDrainWaitsForARequestInHand(t *testing.T) { everyTransport(t, drainWaitsForARequestInHand) }

func drainWaitsForARequestInHand(t *testing.T, transport func(*settings)) {
	w := newWorld(t, transport)
	release := w.log.Halt()
	defer release()
	replies := make(chan reply, 1)
	go func() { replies <- w.post(w.body()) }()
	waittest.Until(t, func() bool { return w.log.Appending() == 1 })
	w.stop()
	waittest.Until(t, func() bool { return w.gateway.phase.Load() == refusing })
	require.Error(t, w.gateway.Ready(t.Context()))
	release()
	r := <-replies
	require.Equal(t, 200, r.status)
	require.True(t, r.closes)
}

// TestRequestsAfterTheGrace holds a connection busy past the grace and then sends
// another request on it.
func TestRequestsAfterTheGrace(t *testing.T) { everyTransport(t, requestsAfterTheGrace) }

func requestsAfterTheGrace(t *testing.T, transport func(*settings)) {
	w := newWorld(t, func(c *settings) { transport(c); c.DrainGrace = 30 * time.Millisecond })
	c := w.dial()
	defer c.Close()
	r := bufio.NewReader(c)
	text := request(w.token, w.body())
	_, err := io.WriteString(c, text[:len(text)-1]) // a request is under way
	require.NoError(t, err)
	waittest.Until(t, func() bool {
		for _, conn := range w.gateway.listener.all() {
			if conn.quietSince.Load() == 0 {
				return true
			}
		}
		return false
	})
	w.stop()
	waittest.Until(t, func() bool { return w.gateway.phase.Load() == refusing })
	_, err = io.WriteString(c, text[len(text)-1:])
	require.NoError(t, err)
	reply := readReply(t, r)
	require.Equal(t, 503, reply.status)
	require.True(t, reply.closes)
	require.Contains(t, []string{"1", "2"}, reply.header.Get("Retry-After"))
	require.Equal(t, `{"ok":false,"error":"INTERNAL_ERROR","message":"this node is going away; send the request again on a new connection",`+
		`"contractVersion":"v1.0","reason":"DRAINING","requestId":"req-1"}`+"\n", reply.body)
}

func TestDrainIsBounded(t *testing.T) {
	w := newWorld(t, func(c *settings) { c.DrainTimeout = 100 * time.Millisecond })
	release := w.log.Halt()
	defer release()
	go func() {
		c, err := net.Dial("tcp", w.addr)
		if err != nil {
			return
		}
		defer c.Close()
		_, _ = io.WriteString(c, request(w.token, w.body()))
		_, _ = io.Copy(io.Discard, c)
	}()
	waittest.Until(t, func() bool { return w.log.Appending() == 1 })
	require.NoError(t, w.end())
}

func TestLeaseEnds(t *testing.T) {
	w := newWorld(t, nil)
	w.warm()
	w.control.Fail(errors.New("partitioned"))
	require.Equal(t, 200, w.post(w.body()).status, "within the bound a node decides on what it knows")
	w.skew.Store(int64(31 * time.Second))
	r := w.post(w.body())
	require.Equal(t, 503, r.status)
	require.Contains(t, []string{"1", "2"}, r.header.Get("Retry-After"))
	require.Equal(t, `{"ok":false,"error":"INTERNAL_ERROR","message":"this node has had no response from control for too long to decide a delivery",`+
		`"contractVersion":"v1.0","reason":"RIGHTS_STALE","requestId":"req-1"}`+"\n", r.body)
	require.ErrorContains(t, w.gateway.Ready(t.Context()), "no response")

	w.control.Fail(nil)
	waittest.Until(t, func() bool { return w.gateway.Ready(t.Context()) == nil })
	require.Equal(t, 200, w.post(w.body()).status)
}
