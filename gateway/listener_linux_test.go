package gateway

import (
	"io"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// stalled is a listener whose caller is held up until the deadline has passed, with the
// queue not looked at.
type stalled struct {
	*net.TCPListener
	empty *net.TCPListener
	asked int
}

func (l *stalled) Accept() (net.Conn, error) {
	if l.asked++; l.asked > 1 {
		return l.TCPListener.Accept()
	}
	if err := l.empty.SetDeadline(time.Now().Add(acceptQuiet)); err != nil {
		return nil, err
	}
	return l.empty.Accept()
}

// TestAStopLooksIntoTheQueue even if the one who accepts is held up, and ends if it is empty.
func TestAStopLooksIntoTheQueue(t *testing.T) {
	open := func() *net.TCPListener {
		ln, err := Listen(t.Context(), "127.0.0.1:0")
		require.NoError(t, err)
		return ln.(*net.TCPListener)
	}
	full := &stalled{TCPListener: open(), empty: open()}
	defer full.empty.Close()
	defer full.Close()
	client, err := net.Dial("tcp", full.Addr().String())
	require.NoError(t, err)
	defer client.Close()
	require.Eventually(t, func() bool { return queued(full) }, time.Minute, time.Millisecond)
	l := newListener(&Config{MaxConns: 1}, nil)
	l.Listener = full
	l.stop()
	c, err := l.Accept()
	require.NoError(t, err)
	require.Equal(t, client.LocalAddr().String(), c.RemoteAddr().String())
	require.NoError(t, c.(*conn).Conn.Close())
	_, err = l.Accept()
	require.Equal(t, io.EOF, err)
	require.Less(t, l.rounds, acceptRounds)
}
