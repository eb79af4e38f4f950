package system

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
)

// named is a backend that answers with its name.
func named(t *testing.T, name string) (*httptest.Server, string) {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, name) }))
	t.Cleanup(s.Close)
	return s, s.Listener.Addr().String()
}

func TestBalancerPassesOverABackendThatIsGone(t *testing.T) {
	first, a := named(t, "a")
	_, b := named(t, "b")
	balancer, err := NewBalancer(a, b)
	require.NoError(t, err)
	defer func() { require.NoError(t, balancer.Close()) }()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	do := func() string {
		resp, err := client.Get("http://" + balancer.Addr())
		require.NoError(t, err)
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		return string(text)
	}
	received := map[string]int{}
	for range 10 {
		received[do()]++
	}
	require.Equal(t, map[string]int{"a": 5, "b": 5}, received)

	first.Close()
	for range 4 {
		require.Equal(t, "b", do())
	}
	_, c := named(t, "c")
	balancer.Set(c)
	require.Equal(t, "c", do())
}

// TestBalancerHandsOnAHalfClose: a client that has closed its side still gets the response.
func TestBalancerHandsOnAHalfClose(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer ln.Close()
	go func() {
		conn, err := ln.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		received, _ := io.ReadAll(conn)
		_, _ = conn.Write(append([]byte("heard "), received...))
	}()
	balancer, err := NewBalancer(ln.Addr().String())
	require.NoError(t, err)
	defer balancer.Close()
	conn, err := net.Dial("tcp", balancer.Addr())
	require.NoError(t, err)
	defer conn.Close()
	_, err = conn.Write([]byte("all"))
	require.NoError(t, err)
	require.NoError(t, conn.(*net.TCPConn).CloseWrite())
	answer, err := io.ReadAll(conn)
	require.NoError(t, err)
	require.Equal(t, "heard all", string(answer))
}

// TestBalancerCutsWhatIsOpen: Close returns although a client says nothing.
func TestBalancerCutsWhatIsOpen(t *testing.T) {
	_, a := named(t, "a")
	balancer, err := NewBalancer(a)
	require.NoError(t, err)
	conn, err := net.Dial("tcp", balancer.Addr())
	require.NoError(t, err)
	defer conn.Close()
	require.NoError(t, balancer.Close())
	_, err = conn.Read(make([]byte, 1))
	require.Error(t, err)
}
