package gateway

import (
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// timed is a connection that keeps account of its deadlines.
type timed struct {
	net.Conn
	read, write time.Time
	calls       int
}

func (c *timed) SetReadDeadline(t time.Time) error  { c.read = t; c.calls++; return nil }
func (c *timed) SetWriteDeadline(t time.Time) error { c.write = t; c.calls++; return nil }
func (c *timed) Read(b []byte) (int, error)         { return len(b), nil }
func (c *timed) Write(b []byte) (int, error)        { return len(b), nil }

// TestDeadlinesAreSetSeldom: each requested deadline holds, or ends a little early, and
// a busy connection sets its deadlines a few times, not three times a request.
func TestDeadlinesAreSetSeldom(t *testing.T) {
	synctest.Test(t, deadlinesAreSetSeldom)
}

func deadlinesAreSetSeldom(t *testing.T) {
	const readTimeout, idleTimeout, writeTimeout = 10 * time.Second, time.Minute, 16 * time.Second
	l := &listener{cfg: &Config{ReadTimeout: readTimeout, IdleTimeout: idleTimeout, WriteTimeout: writeTimeout}}
	inner := &timed{}
	c := &conn{Conn: inner, owner: l}
	read := func(until time.Time) {
		require.NoError(t, c.SetReadDeadline(until))
		_, err := c.Read(make([]byte, 1))
		require.NoError(t, err)
		require.False(t, inner.read.After(until), "a read would end too late")
		require.LessOrEqual(t, until.Sub(inner.read), readTimeout/slack, "a read would end too early")
	}
	now := time.Now()
	for range 1000 { // requests within ten seconds, each in one piece
		now = now.Add(10 * time.Millisecond)
		read(now.Add(idleTimeout))
		require.NoError(t, c.SetReadDeadline(now.Add(readTimeout)))
		_, err := c.Write(nil)
		require.NoError(t, err)
		require.InDelta(t, writeTimeout, time.Until(inner.write), float64(writeTimeout/slack))
	}
	require.Less(t, inner.calls, 25, "a deadline lasts for 62 reads of the idle timeout")

	read(now.Add(readTimeout)) // a request in two pieces
	read(now.Add(idleTimeout))
	read(time.Time{}) // no deadline at all
	require.Zero(t, inner.read)
	read(now.Add(time.Millisecond))
}

// halfClosing is a connection whose one direction can be closed.
type halfClosing struct{ net.Conn }

func (halfClosing) CloseWrite() error { return nil }

// TestACloseWaitsForAClientThatIsHeldUp in the middle of what it sends.
func TestACloseWaitsForAClientThatIsHeldUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, server := net.Pipe()
		c := &conn{Conn: halfClosing{server}, owner: &listener{}}
		c.gentle.Store(true)
		closed := make(chan error, 1)
		go func() { closed <- c.Close() }()
		time.Sleep(lingerTime - time.Nanosecond) // synctest's clock
		_, err := client.Write(make([]byte, 1000))
		require.NoError(t, err)
		require.NoError(t, client.Close())
		require.NoError(t, <-closed)
	})
}

// TestACloseEnds: a client that sends on has neither the connection nor its time for long.
func TestACloseEnds(t *testing.T) {
	for name, write := range map[string]func(net.Conn) (sent int){
		"that sends on": func(client net.Conn) (sent int) {
			for {
				n, err := client.Write(make([]byte, 1000))
				if sent += n; err != nil {
					return sent
				}
			}
		},
		"that is silent": func(net.Conn) int { time.Sleep(lingerTime); return 0 },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client, server := net.Pipe()
				c := &conn{Conn: halfClosing{server}, owner: &listener{}}
				c.gentle.Store(true)
				began, closed := time.Now(), make(chan error, 1)
				go func() { closed <- c.Close() }()
				require.LessOrEqual(t, write(client), lingerBytes)
				require.NoError(t, <-closed)
				require.LessOrEqual(t, time.Since(began), lingerTime)
			})
		})
	}
}

// TestADrainWaitsForAClientThatIsHeldUp: a connection that is being closed is not cut for
// being quiet.
func TestADrainWaitsForAClientThatIsHeldUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, server := net.Pipe()
		l := newListener(&Config{MaxConns: 1}, nil)
		l.stopping.Store(true)
		c := &conn{Conn: halfClosing{server}, owner: l}
		c.quietSince.Store(time.Now().UnixNano())
		_, counted := l.admit(c)
		require.True(t, counted)
		closed, cut := make(chan error, 1), make(chan int, 1)
		go func() { closed <- c.Close() }()
		go func() { cut <- l.drain(t.Context(), 100*time.Millisecond) }()
		time.Sleep(lingerTime - time.Nanosecond) // synctest's clock
		_, err := client.Write(make([]byte, 1000))
		require.NoError(t, err)
		require.NoError(t, client.Close())
		require.NoError(t, <-closed)
		require.Zero(t, <-cut)
	})
}
