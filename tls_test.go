package main

import (
	"bufio"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment/bench"
	"muniment/gateway/certs"
	"muniment/gateway/certs/certstest"
)

// TestTLS serves the API with TLS and operators with client certificates, replaces all
// of them under the running server, and administers it all the while.
func TestTLS(t *testing.T) {
	authority, other := certstest.New(t), certstest.New(t)
	api := authority.Issue(t, certstest.Leaf{})
	admin := authority.Issue(t, certstest.Leaf{Names: []string{"operators.example.com"}})
	operator := authority.Issue(t, certstest.Leaf{})
	exe, data := muniment(t), filepath.Join(t.TempDir(), "data")
	flags := []string{"up", "--data", data, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--tls-cert", api.Cert,
		"--admin-tls-cert", admin.Cert, "--admin-tls-key", admin.Key, "--admin-tls-client-ca", authority.File}
	out, err := exec.Command(exe, append(flags, "--tls-key", admin.Key)...).CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(out), "TLS for api: the key in "+admin.Key+" is not that of the certificate in "+api.Cert)

	server := exec.Command(exe, append(flags, "--tls-key", api.Key)...)
	log, err := server.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, server.Start())
	lines := bufio.NewReader(log)
	line, err := lines.ReadString('\n')
	require.NoError(t, err)
	said := make(chan string, 1)
	go func() {
		var all strings.Builder
		_, _ = lines.WriteTo(&all)
		said <- all.String()
	}()
	t.Cleanup(func() { _ = server.Process.Kill() })
	var at string
	for field := range strings.FieldsSeq(line) {
		if value, ok := strings.CutPrefix(field, "api="); ok {
			at = value
		}
	}
	require.True(t, strings.HasPrefix(at, "https://127.0.0.1:"), line)
	client := func(ca string) bench.Client {
		c, err := certs.NewClient(certs.Options{Use: "api"}, certs.ClientFlags{CA: ca})
		require.NoError(t, err)
		return bench.Client{API: at, HTTP: c.HTTP()}
	}
	var healthy any
	require.Eventually(t, func() bool {
		return client(authority.File).Do(t.Context(), http.MethodGet, "/v1/healthz", nil, &healthy) == nil
	}, time.Minute, 10*time.Millisecond)

	administer := func(more ...string) (string, error) {
		out, err := exec.Command(exe, append([]string{"tenant", "create", "--org", "org_test", "--another", "--data", data}, more...)...).CombinedOutput()
		return string(out), err
	}
	shown := []string{"--admin-cert", operator.Cert, "--admin-key", operator.Key}
	told, err := administer()
	require.Error(t, err)
	require.Contains(t, told, "certificate required")
	told, err = administer(shown...)
	require.NoError(t, err, told)
	told, err = administer(append(shown, "--admin-ca", authority.File)...)
	require.Error(t, err)
	require.Contains(t, told, "cannot validate certificate for 127.0.0.1")

	other.Replace(t, api, certstest.Leaf{})
	other.Replace(t, admin, certstest.Leaf{Names: []string{"127.0.0.1"}})
	require.ErrorContains(t, client(authority.File).Do(t.Context(), http.MethodGet, "/v1/healthz", nil, nil), "signed by unknown authority")
	require.NoError(t, client(other.File).Do(t.Context(), http.MethodGet, "/v1/healthz", nil, nil))
	told, err = administer(shown...)
	require.NoError(t, err, told)
	told, err = administer(append(shown, "--admin-ca", other.File)...)
	require.NoError(t, err, told)

	require.NoError(t, server.Process.Signal(syscall.SIGTERM))
	text := <-said
	require.NoError(t, server.Wait(), text)
	require.NotContains(t, text, "handshake")
	require.Contains(t, text, "certificate files were read again")
}
