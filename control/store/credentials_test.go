package store

import (
	"crypto/tls"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/stretchr/testify/require"

	"muniment.example/gateway/certs"
	"muniment.example/gateway/certs/certstest"
)

// guard is a PostgreSQL server that requests a password over TLS and refuses every client.
type guard struct {
	address  string
	mu       sync.Mutex
	received []string // passwords
}

func guarded(t *testing.T, server *tls.Config) *guard {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	g := &guard{address: ln.Addr().String()}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			_ = g.serve(c, server) // it has hung up
			c.Close()
		}
	})
	t.Cleanup(func() { ln.Close(); serving.Wait() })
	return g
}

func (g *guard) serve(c net.Conn, server *tls.Config) error {
	plain := pgproto3.NewBackend(c, c)
	if m, err := plain.ReceiveStartupMessage(); err != nil {
		return err
	} else if _, secure := m.(*pgproto3.SSLRequest); !secure {
		return nil
	}
	if _, err := io.WriteString(c, "S"); err != nil {
		return err
	}
	s := tls.Server(c, server)
	backend := pgproto3.NewBackend(s, s)
	if _, err := backend.ReceiveStartupMessage(); err != nil {
		return err
	}
	backend.Send(&pgproto3.AuthenticationCleartextPassword{})
	if err := backend.Flush(); err != nil {
		return err
	}
	if err := backend.SetAuthType(pgproto3.AuthTypeCleartextPassword); err != nil {
		return err
	}
	m, err := backend.Receive()
	if err != nil {
		return err
	}
	g.mu.Lock()
	g.received = append(g.received, m.(*pgproto3.PasswordMessage).Password)
	g.mu.Unlock()
	backend.Send(&pgproto3.ErrorResponse{Severity: "FATAL", Code: "28P01", Message: "password authentication failed"})
	return backend.Flush()
}

func (g *guard) passwords() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	passwords := g.received
	g.received = nil
	return passwords
}

// TestEachConnectionIsOfNow: pools that are open, and the connections beside them, show the current
// password, and only to the server that they trust now.
func TestEachConnectionIsOfNow(t *testing.T) {
	authority, other := certstest.New(t), certstest.New(t)
	pair := authority.Issue(t, certstest.Leaf{})
	server, err := certs.Server(certs.Options{Use: "server"}, certs.ServerFlags{Cert: pair.Cert, Key: pair.Key})
	require.NoError(t, err)
	g := guarded(t, server)
	file := filepath.Join(t.TempDir(), "password")
	set := func(password string) { require.NoError(t, os.WriteFile(file, []byte(password+"\n"), 0o600)) }
	for _, mode := range []string{"", "?sslmode=disable", "?sslmode=prefer", "?sslmode=verify-full"} {
		t.Run(mode, func(t *testing.T) {
			authority.Replace(t, pair, certstest.Leaf{})
			config := func(f certs.ClientFlags) Config {
				c, err := certs.NewClient(certs.Options{Use: "database"}, f)
				require.NoError(t, err)
				return Config{URL: "postgres://u@" + g.address + "/db" + mode, TLS: c.TLS(), Password: certs.PasswordFile(file).Password()}
			}
			cfg := config(certs.ClientFlags{CA: authority.File})
			ours, err := connection(cfg.URL)
			require.NoError(t, err)
			pool := cfg.pool(ours)
			defer pool.Close()
			for _, password := range []string{"one", "two"} {
				set(password)
				require.ErrorContains(t, pool.PingContext(t.Context()), "28P01")
				_, err = cfg.connect(t.Context(), ours)
				require.ErrorContains(t, err, "28P01")
				require.Equal(t, []string{password, password}, g.passwords())
			}
			_, err = Open(t.Context(), cfg)
			require.ErrorContains(t, err, "password authentication failed")
			_, err = Migrate(t.Context(), cfg, true)
			require.ErrorContains(t, err, "password authentication failed")
			require.Equal(t, []string{"two", "two"}, g.passwords())

			other.Replace(t, pair, certstest.Leaf{})
			require.ErrorContains(t, pool.PingContext(t.Context()), "signed by unknown authority")
			for _, c := range []struct {
				flags certs.ClientFlags
				want  string
			}{
				{certs.ClientFlags{CA: authority.File}, "signed by unknown authority"},
				{certs.ClientFlags{TLS: true}, "signed by unknown authority"},
				{certs.ClientFlags{CA: other.File, ServerName: "db.example.com"}, "not db.example.com"},
			} {
				_, err = Open(t.Context(), config(c.flags))
				require.ErrorContains(t, err, c.want)
			}
			require.Empty(t, g.passwords())
			require.NoError(t, os.Remove(file))
			_, err = Open(t.Context(), cfg)
			require.ErrorContains(t, err, file+": no such file")
		})
	}
}
