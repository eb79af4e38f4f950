package certs_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"muniment.example/gateway/certs"
	"muniment.example/gateway/certs/certstest"
)

// echo serves TLS and answers each connection with a byte.
func echo(t *testing.T, cfg *tls.Config) (addr string) {
	ln, err := tls.Listen("tcp", "127.0.0.1:0", cfg)
	require.NoError(t, err)
	var served sync.WaitGroup
	served.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			_, _ = c.Write([]byte{'!'}) // the handshake may have failed
			_ = c.Close()
		}
	})
	t.Cleanup(func() { ln.Close(); served.Wait() })
	return ln.Addr().String()
}

// reach connects and waits for the byte: with TLS 1.3 the client's certificate is
// judged after the client's handshake.
func reach(t *testing.T, c *certs.Client, addr string) error {
	conn, err := c.Dial(t.Context(), "tcp", addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	_, err = io.ReadFull(conn, make([]byte, 1))
	return err
}

func mustClient(t *testing.T, f certs.ClientFlags) *certs.Client {
	c, err := certs.NewClient(certs.Options{Use: "hop"}, f)
	require.NoError(t, err)
	return c
}

// replace writes another file in the place of one: it may be as old and as long.
func replace(t *testing.T, path string, text []byte) {
	t.Helper()
	require.NoError(t, os.WriteFile(path+".new", text, 0o600))
	require.NoError(t, os.Rename(path+".new", path))
}

func flags(p certstest.Pair) certs.ServerFlags { return certs.ServerFlags{Cert: p.Cert, Key: p.Key} }

func TestServerIsVerified(t *testing.T) {
	authority, other := certstest.New(t), certstest.New(t)
	server, err := certs.Server(certs.Options{Use: "api"}, flags(authority.Issue(t, certstest.Leaf{Names: []string{"api.example.com", "127.0.0.1"}})))
	require.NoError(t, err)
	addr := echo(t, server)
	require.NoError(t, reach(t, mustClient(t, certs.ClientFlags{CA: authority.File}), addr))
	require.NoError(t, reach(t, mustClient(t, certs.ClientFlags{CA: authority.File, ServerName: "api.example.com"}), addr))

	require.ErrorContains(t, reach(t, mustClient(t, certs.ClientFlags{CA: other.File}), addr), "signed by unknown authority")
	require.ErrorContains(t, reach(t, mustClient(t, certs.ClientFlags{TLS: true}), addr), "signed by unknown authority")
	require.ErrorContains(t, reach(t, mustClient(t, certs.ClientFlags{CA: authority.File, ServerName: "other.example.com"}), addr),
		"certificate is valid for api.example.com, not other.example.com")
	_, port, err := net.SplitHostPort(addr)
	require.NoError(t, err)
	require.ErrorContains(t, reach(t, mustClient(t, certs.ClientFlags{CA: authority.File}), "localhost:"+port), "not localhost")

	_, err = tls.Dial("tcp", addr, &tls.Config{MaxVersion: tls.VersionTLS12, InsecureSkipVerify: true})
	require.ErrorContains(t, err, "protocol version")
}

func TestExpiredServerIsRefused(t *testing.T) {
	authority := certstest.New(t)
	moment := time.Now()
	server, err := certs.Server(certs.Options{Use: "api", Now: func() time.Time { return moment.Add(-2 * time.Hour) }},
		flags(authority.Issue(t, certstest.Leaf{From: moment.Add(-3 * time.Hour), Until: moment.Add(-time.Hour)})))
	require.NoError(t, err)
	require.ErrorContains(t, reach(t, mustClient(t, certs.ClientFlags{CA: authority.File}), echo(t, server)), "certificate has expired")
}

func TestReplacedFilesCountAtOnce(t *testing.T) {
	old, next := certstest.New(t), certstest.New(t)
	pair := old.Issue(t, certstest.Leaf{})
	server, err := certs.Server(certs.Options{Use: "api"}, flags(pair))
	require.NoError(t, err)
	addr := echo(t, server)
	trusted := filepath.Join(t.TempDir(), "ca.crt")
	trust := func(a *certstest.Authority) {
		text, err := os.ReadFile(a.File)
		require.NoError(t, err)
		replace(t, trusted, text)
	}
	trust(old)
	client := mustClient(t, certs.ClientFlags{CA: trusted})
	require.NoError(t, reach(t, client, addr))
	next.Replace(t, pair, certstest.Leaf{})
	require.ErrorContains(t, reach(t, client, addr), "signed by unknown authority")
	trust(next)
	require.NoError(t, reach(t, client, addr))
}

// TestReplacementThroughALink replaces files the way Kubernetes mounts secrets.
func TestReplacementThroughALink(t *testing.T) {
	old, next := certstest.New(t), certstest.New(t)
	a, b := old.Issue(t, certstest.Leaf{}), next.Issue(t, certstest.Leaf{})
	dir := t.TempDir()
	link := filepath.Join(dir, "data")
	require.NoError(t, os.Symlink(filepath.Dir(a.Cert), link))
	server, err := certs.Server(certs.Options{Use: "api"}, certs.ServerFlags{Cert: filepath.Join(link, "tls.crt"), Key: filepath.Join(link, "tls.key")})
	require.NoError(t, err)
	addr := echo(t, server)
	require.NoError(t, reach(t, mustClient(t, certs.ClientFlags{CA: old.File}), addr))
	require.NoError(t, os.Symlink(filepath.Dir(b.Cert), link+".new"))
	require.NoError(t, os.Rename(link+".new", link))
	require.NoError(t, reach(t, mustClient(t, certs.ClientFlags{CA: next.File}), addr))
}

func TestBrokenFilesChangeNothing(t *testing.T) {
	authority := certstest.New(t)
	pair := authority.Issue(t, certstest.Leaf{Until: time.Now().Add(time.Hour)})
	now := time.Now()
	var out bytes.Buffer
	registry := prometheus.NewRegistry()
	server, err := certs.Server(certs.Options{Use: "api", Now: func() time.Time { return now }, Registerer: registry,
		Logger: slog.New(slog.NewTextHandler(&out, nil))}, flags(pair))
	require.NoError(t, err)
	addr := echo(t, server)
	client := mustClient(t, certs.ClientFlags{CA: authority.File})
	failing := func(want string) {
		t.Helper()
		require.NoError(t, testutil.GatherAndCompare(registry, strings.NewReader(`
# HELP muniment_certificate_reload_failing 1 while the certificate files can't be used and those read before are.
# TYPE muniment_certificate_reload_failing gauge
muniment_certificate_reload_failing{use="api"} `+want+"\n"), "muniment_certificate_reload_failing"))
	}
	failing("0")

	require.NoError(t, os.WriteFile(pair.Key, []byte("not a key"), 0o600))
	for range 3 {
		require.NoError(t, reach(t, client, addr))
		now = now.Add(2 * time.Second)
	}
	failing("1")
	require.Equal(t, 1, strings.Count(out.String(), "level=ERROR"), out.String())
	require.Contains(t, out.String(), pair.Key+" holds no private key in PEM")

	authority.Replace(t, pair, certstest.Leaf{Until: now.Add(-time.Minute)})
	require.NoError(t, reach(t, client, addr), "one that has expired is no replacement")
	require.NoError(t, os.Remove(pair.Cert))
	require.NoError(t, reach(t, client, addr))
	failing("1")

	authority.Replace(t, pair, certstest.Leaf{Until: now.Add(30 * time.Minute)})
	now = now.Add(2 * time.Second)
	require.NoError(t, reach(t, client, addr))
	failing("0")
	require.Equal(t, 1, strings.Count(out.String(), "level=ERROR"), out.String())
	families, err := registry.Gather()
	require.NoError(t, err)
	require.Equal(t, "muniment_certificate_expiry_seconds", families[0].GetName())
	require.InDelta(t, 30*60, families[0].GetMetric()[0].GetGauge().GetValue(), 5, "of the certificate that is in use now")
}

func TestClientCertificates(t *testing.T) {
	authority, callers, strangers := certstest.New(t), certstest.New(t), certstest.New(t)
	f := flags(authority.Issue(t, certstest.Leaf{}))
	f.ClientCA = filepath.Join(t.TempDir(), "callers.crt")
	admit := func(a *certstest.Authority) {
		text, err := os.ReadFile(a.File)
		require.NoError(t, err)
		replace(t, f.ClientCA, text)
	}
	admit(callers)
	server, err := certs.Server(certs.Options{Use: "admin"}, f)
	require.NoError(t, err)
	addr := echo(t, server)
	with := func(a *certstest.Authority) *certs.Client {
		p := a.Issue(t, certstest.Leaf{})
		return mustClient(t, certs.ClientFlags{CA: authority.File, Cert: p.Cert, Key: p.Key})
	}
	known, stranger := with(callers), with(strangers)
	require.NoError(t, reach(t, known, addr))
	require.ErrorContains(t, reach(t, stranger, addr), "unknown certificate authority")
	require.ErrorContains(t, reach(t, mustClient(t, certs.ClientFlags{CA: authority.File}), addr), "certificate required")
	admit(strangers)
	require.ErrorContains(t, reach(t, known, addr), "unknown certificate authority")
	require.NoError(t, reach(t, stranger, addr))
}

func TestPinnedCertificate(t *testing.T) {
	authority := certstest.New(t)
	pair := authority.Issue(t, certstest.Leaf{Names: []string{"elsewhere.example.com"}})
	server, err := certs.Server(certs.Options{Use: "admin"}, flags(pair))
	require.NoError(t, err)
	addr := echo(t, server)
	client, err := certs.NewPinned(certs.Options{Use: "command"}, certs.ClientFlags{}, pair.Cert)
	require.NoError(t, err)
	require.NoError(t, reach(t, client, addr))
	authority.Replace(t, pair, certstest.Leaf{Names: []string{"elsewhere.example.com"}})
	require.ErrorContains(t, reach(t, client, addr), "shows another certificate")
	_, err = certs.NewPinned(certs.Options{Use: "command"}, certs.ClientFlags{}, pair.Key)
	require.ErrorContains(t, err, "does not begin with a certificate")
}

func TestHTTP(t *testing.T) {
	authority, other := certstest.New(t), certstest.New(t)
	server, err := certs.Server(certs.Options{Use: "control"}, flags(authority.Issue(t, certstest.Leaf{})))
	require.NoError(t, err)
	ln, err := tls.Listen("tcp", "127.0.0.1:0", server)
	require.NoError(t, err)
	var served sync.WaitGroup
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.Proto) }),
		ErrorLog: log.New(io.Discard, "", 0)}
	served.Go(func() { _ = s.Serve(ln) })
	defer served.Wait()
	defer s.Close()
	get := func(c *certs.Client) (string, error) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+ln.Addr().String(), nil)
		require.NoError(t, err)
		resp, err := c.HTTP().Do(req)
		if err != nil {
			return "", err
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		return string(text), err
	}
	proto, err := get(mustClient(t, certs.ClientFlags{CA: authority.File}))
	require.NoError(t, err)
	require.Equal(t, "HTTP/1.1", proto)
	_, err = get(mustClient(t, certs.ClientFlags{CA: other.File}))
	require.ErrorContains(t, err, "signed by unknown authority")
	_, err = get(nil)
	require.ErrorContains(t, err, "signed by unknown authority")
}

func TestDialEndsWithItsContext(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0") // accepts, and never answers
	require.NoError(t, err)
	defer ln.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err = mustClient(t, certs.ClientFlags{TLS: true}).Dial(ctx, "tcp", ln.Addr().String())
	require.ErrorIs(t, err, context.DeadlineExceeded)
}

func TestNoFlagsIsPlain(t *testing.T) {
	server, err := certs.Server(certs.Options{Use: "api"}, certs.ServerFlags{})
	require.NoError(t, err)
	require.Nil(t, server)
	client := mustClient(t, certs.ClientFlags{})
	require.Nil(t, client)
	require.Nil(t, client.TLS())
	require.Nil(t, client.Config("127.0.0.1"))
}

func TestWhatIsWrongWithAFile(t *testing.T) {
	authority := certstest.New(t)
	good, other := authority.Issue(t, certstest.Leaf{}), authority.Issue(t, certstest.Leaf{})
	past := authority.Issue(t, certstest.Leaf{Until: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)})
	future := authority.Issue(t, certstest.Leaf{From: time.Now().Add(time.Minute)})
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	encrypted := file("encrypted", "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n")
	garbage := file("garbage", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
	for _, c := range []struct {
		flags certs.ServerFlags
		want  string
	}{
		{certs.ServerFlags{Cert: good.Cert}, "TLS for api: a certificate needs its key"},
		{certs.ServerFlags{Key: good.Key}, "TLS for api: a key needs its certificate"},
		{certs.ServerFlags{ClientCA: authority.File}, "needs a certificate of its own"},
		{certs.ServerFlags{Cert: good.Cert, Key: other.Key}, "the key in " + other.Key + " is not that of the certificate in " + good.Cert},
		{certs.ServerFlags{Cert: good.Key, Key: good.Key}, good.Key + " holds no certificate in PEM"},
		{certs.ServerFlags{Cert: good.Cert, Key: good.Cert}, good.Cert + " holds no private key in PEM"},
		{certs.ServerFlags{Cert: good.Cert, Key: encrypted}, "the key in " + encrypted + " is encrypted"},
		{certs.ServerFlags{Cert: garbage, Key: good.Key}, garbage},
		{certs.ServerFlags{Cert: dir + "/none", Key: good.Key}, dir + "/none: no such file"},
		{certs.ServerFlags{Cert: past.Cert, Key: past.Key}, past.Cert + " expired at 2026-01-02T03:04:05Z"},
		{certs.ServerFlags{Cert: future.Cert, Key: future.Key}, future.Cert + " is not valid before"},
		{certs.ServerFlags{Cert: good.Cert, Key: good.Key, ClientCA: good.Key}, good.Key + " holds no certificate in PEM"},
		{certs.ServerFlags{Cert: good.Cert, Key: good.Key, ClientCA: garbage}, "a certificate authority in " + garbage + " can't be read"},
	} {
		_, err := certs.Server(certs.Options{Use: "api"}, c.flags)
		require.ErrorContains(t, err, c.want)
	}
	_, err := certs.NewClient(certs.Options{Use: "kafka"}, certs.ClientFlags{Cert: good.Cert})
	require.ErrorContains(t, err, "TLS for kafka: a certificate needs its key")
	_, err = certs.NewClient(certs.Options{Use: "kafka"}, certs.ClientFlags{CA: good.Key})
	require.ErrorContains(t, err, "TLS for kafka: "+good.Key+" holds no certificate in PEM")
}

func TestPasswordFile(t *testing.T) {
	require.Nil(t, certs.PasswordFile("").Password())
	path := filepath.Join(t.TempDir(), "password")
	password := certs.PasswordFile(path).Password()
	_, err := password()
	require.ErrorIs(t, err, os.ErrNotExist)
	for text, want := range map[string]string{"one": "one", "two\n": "two", "three\r\n": "three", " four \n\n": " four \n"} {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		got, err := password()
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	require.NoError(t, os.WriteFile(path, []byte("\n"), 0o600))
	_, err = password()
	require.ErrorContains(t, err, path+" is empty")
}

// TestHandlerCA: a listener accepts certificates of other authorities as well, and leaves them to its
// handler; who has none gets in as before.
func TestHandlerCA(t *testing.T) {
	server, transport, nodes, stranger := certstest.New(t), certstest.New(t), certstest.New(t), certstest.New(t)
	handlerCA, err := certs.NewAuthorities(certs.Options{Use: "joining"}, nodes.File, transport.File)
	require.NoError(t, err)
	_, err = certs.Server(certs.Options{Use: "nodes"}, certs.ServerFlags{HandlerCA: handlerCA})
	require.ErrorContains(t, err, "the listener needs a certificate of its own")

	seen := make(chan int, 1)
	serve := func(f certs.ServerFlags) (address string) {
		f.HandlerCA = handlerCA
		cfg, err := certs.Server(certs.Options{Use: "nodes"}, f)
		require.NoError(t, err)
		of := cfg.GetConfigForClient
		cfg.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
			c, err := of(hello)
			c = c.Clone()
			verify := c.VerifyConnection
			c.VerifyConnection = func(s tls.ConnectionState) error {
				if verify != nil {
					if err := verify(s); err != nil {
						return err
					}
				}
				seen <- len(s.PeerCertificates)
				return nil
			}
			return c, err
		}
		return echo(t, cfg)
	}
	show := func(a *certstest.Authority, leaf certstest.Leaf) certs.ClientFlags {
		p := a.Issue(t, leaf)
		return certs.ClientFlags{CA: server.File, Cert: p.Cert, Key: p.Key}
	}
	pair := server.Issue(t, certstest.Leaf{})
	open := serve(flags(pair))
	for _, c := range []certs.ClientFlags{show(nodes, certstest.Leaf{}), show(nodes, certstest.Leaf{ServerOnly: true}), show(stranger, certstest.Leaf{})} {
		require.NoError(t, reach(t, mustClient(t, c), open))
		require.Equal(t, 1, <-seen)
	}
	require.NoError(t, reach(t, mustClient(t, certs.ClientFlags{CA: server.File}), open))
	require.Equal(t, 0, <-seen)

	mutual := serve(certs.ServerFlags{Cert: pair.Cert, Key: pair.Key, ClientCA: transport.File})
	for _, c := range []certs.ClientFlags{show(transport, certstest.Leaf{}), show(nodes, certstest.Leaf{}), show(nodes, certstest.Leaf{ServerOnly: true})} {
		require.NoError(t, reach(t, mustClient(t, c), mutual))
		require.Equal(t, 1, <-seen)
	}
	require.ErrorContains(t, reach(t, mustClient(t, certs.ClientFlags{CA: server.File}), mutual), "certificate required")
	for _, c := range []certs.ClientFlags{show(stranger, certstest.Leaf{}), show(transport, certstest.Leaf{ServerOnly: true})} {
		require.ErrorContains(t, reach(t, mustClient(t, c), mutual), "bad certificate")
	}
}

// TestAuthoritiesAreApart: an authority for one thing is none for the other, at the start and later.
func TestAuthoritiesAreApart(t *testing.T) {
	nodes, transport, next := certstest.New(t), certstest.New(t), certstest.New(t)
	none, err := certs.NewAuthorities(certs.Options{Use: "joining"}, "", transport.File)
	require.NoError(t, err)
	require.Nil(t, none.Source())
	_, err = certs.NewAuthorities(certs.Options{Use: "joining"}, nodes.File, nodes.File)
	require.ErrorContains(t, err, "hold the same authority")
	text := func(all ...*certstest.Authority) (both []byte) {
		for _, a := range all {
			pem, err := os.ReadFile(a.File)
			require.NoError(t, err)
			both = append(both, pem...)
		}
		return both
	}
	file := filepath.Join(t.TempDir(), "nodes.crt")
	replace(t, file, text(nodes, transport))
	_, err = certs.NewAuthorities(certs.Options{Use: "joining"}, file, transport.File)
	require.ErrorContains(t, err, "hold the same authority")

	replace(t, file, text(nodes))
	var logged bytes.Buffer
	a, err := certs.NewAuthorities(certs.Options{Use: "joining", Logger: slog.New(slog.NewTextHandler(&logged, nil))}, file, transport.File)
	require.NoError(t, err)
	pool := x509.NewCertPool()
	pool.AddCert(nodes.Certificate())
	require.True(t, pool.Equal(a.Source()()))
	replace(t, file, text(nodes, next))
	pool.AddCert(next.Certificate())
	require.True(t, pool.Equal(a.Source()()))
	replace(t, transport.File, text(transport, next))
	require.True(t, pool.Equal(a.Source()()), "those read before stay in force")
	require.Contains(t, logged.String(), "hold the same authority")
}

// TestFixedClient shows what the files held, so that its user knows what it shows.
func TestFixedClient(t *testing.T) {
	authority, other := certstest.New(t), certstest.New(t)
	f := flags(authority.Issue(t, certstest.Leaf{}))
	f.ClientCA = authority.File
	server, err := certs.Server(certs.Options{Use: "nodes"}, f)
	require.NoError(t, err)
	pair := authority.Issue(t, certstest.Leaf{})
	client, leaf, err := certs.NewFixed(certs.Options{Use: "joining"}, certs.ClientFlags{CA: authority.File, Cert: pair.Cert, Key: pair.Key})
	require.NoError(t, err)
	text, err := os.ReadFile(pair.Cert)
	require.NoError(t, err)
	block, _ := pem.Decode(text)
	require.Equal(t, block.Bytes, leaf.Raw)
	other.Replace(t, pair, certstest.Leaf{})
	require.NoError(t, reach(t, client, echo(t, server)))
}
