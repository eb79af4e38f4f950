package clickhouse

import (
	"bytes"
	"crypto/tls"
	"io"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/stretchr/testify/require"

	"muniment.example/gateway/certs"
	"muniment.example/gateway/certs/certstest"
)

// recorder is a server that records what a client sends first, and hangs up.
type recorder struct {
	address  string
	mu       sync.Mutex
	received [][]byte
}

func listen(t *testing.T, server *tls.Config) *recorder {
	ln, err := tls.Listen("tcp", "127.0.0.1:0", server)
	require.NoError(t, err)
	h := &recorder{address: ln.Addr().String()}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			b := make([]byte, 4096)
			if n, err := io.ReadAtLeast(c, b, 32); err == nil {
				h.mu.Lock()
				h.received = append(h.received, b[:n])
				h.mu.Unlock()
			}
			c.Close()
		}
	})
	t.Cleanup(func() { ln.Close(); serving.Wait() })
	return h
}

func (h *recorder) count(text string) (n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, b := range h.received {
		if bytes.Contains(b, []byte(text)) {
			n++
		}
	}
	return n
}

// TestEachConnectionIsOfNow: a pool that is open shows the password of now, and to
// no server but the one that it trusts now.
func TestEachConnectionIsOfNow(t *testing.T) {
	for _, scheme := range []string{"clickhouse", "https"} {
		t.Run(scheme, func(t *testing.T) {
			authority, other := certstest.New(t), certstest.New(t)
			pair := authority.Issue(t, certstest.Leaf{})
			server, err := certs.Server(certs.Options{Use: "server"}, certs.ServerFlags{Cert: pair.Cert, Key: pair.Key})
			require.NoError(t, err)
			h := listen(t, server)
			file := filepath.Join(t.TempDir(), "password")
			require.NoError(t, os.WriteFile(file, []byte("first-password\n"), 0o600))
			config := func(f certs.ClientFlags) Config {
				c, err := certs.NewClient(certs.Options{Use: "clickhouse"}, f)
				require.NoError(t, err)
				return Config{URL: scheme + "://u@" + h.address + "/db", TLS: c.TLS(), Password: certs.PasswordFile(file).Password(), Timeout: time.Minute}
			}
			opt, err := config(certs.ClientFlags{CA: authority.File}).options()
			require.NoError(t, err)
			pool, err := clickhouse.Open(opt)
			require.NoError(t, err)
			defer pool.Close()
			probed := config(certs.ClientFlags{CA: authority.File})
			probed.Away = true
			w, err := Open(t.Context(), probed)
			require.NoError(t, err)
			defer w.Close()
			require.Error(t, pool.Ping(t.Context()), "it was hung up on")
			require.NotZero(t, h.count("first-password"))
			require.NoError(t, os.WriteFile(file, []byte("second-password\n"), 0o600))
			require.Error(t, pool.Ping(t.Context()))
			require.NotZero(t, h.count("second-password"))

			shown := h.count("second-password")
			require.Error(t, w.Ready(t.Context()))
			require.Greater(t, h.count("second-password"), shown, "a probe shows it, too")

			require.NoError(t, os.WriteFile(file, []byte("third-password\n"), 0o600))
			other.Replace(t, pair, certstest.Leaf{})
			require.ErrorContains(t, pool.Ping(t.Context()), "signed by unknown authority")
			for _, c := range []struct {
				flags certs.ClientFlags
				want  string
			}{
				{certs.ClientFlags{CA: authority.File}, "signed by unknown authority"},
				{certs.ClientFlags{CA: other.File, ServerName: "clickhouse.example.com"}, "not clickhouse.example.com"},
				{certs.ClientFlags{TLS: true}, "signed by unknown authority"},
			} {
				_, err = Open(t.Context(), config(c.flags))
				require.ErrorContains(t, err, c.want)
				_, err = Migrate(t.Context(), config(c.flags), true)
				require.ErrorContains(t, err, c.want)
				require.NotContains(t, err.Error(), "third-password")
			}
			require.Zero(t, h.count("third-password"))
			require.NoError(t, os.Remove(file))
			_, err = Open(t.Context(), config(certs.ClientFlags{CA: other.File}))
			require.ErrorContains(t, err, file+": no such file")
		})
	}
}
