package service

import (
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/bench/system"
	"muniment.example/bench/system/systemtest"
	"muniment.example/bench/waittest"
	"muniment.example/gateway/certs"
	"muniment.example/gateway/certs/certstest"
)

// TestTLS serves the API with TLS and operators with client certificates, replaces all
// of them under the running server, and administers it all the while.
func TestTLS(t *testing.T) {
	t.Parallel()
	authority, other := certstest.New(t), certstest.New(t)
	api := authority.Issue(t, certstest.Leaf{})
	admin := authority.Issue(t, certstest.Leaf{Names: []string{"operators.example.com"}})
	operator := authority.Issue(t, certstest.Leaf{})
	data := filepath.Join(t.TempDir(), "data")
	flags := []string{"up", "--data", data, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--tls-cert", api.Cert,
		"--admin-tls-cert", admin.Cert, "--admin-tls-key", admin.Key, "--admin-tls-client-ca", authority.File}
	require.Contains(t, systemtest.Fails(t, append(flags, "--tls-key", admin.Key)...), "TLS for api: the key in "+admin.Key+" is not that of the certificate in "+api.Cert)

	p := systemtest.Launch(t, append(flags, "--tls-key", api.Key)...)
	require.True(t, strings.HasPrefix(p.Api, "https://127.0.0.1:"), p.Api)
	client := func(ca string) system.Client {
		c, err := certs.NewClient(certs.Options{Use: "api"}, certs.ClientFlags{CA: ca})
		require.NoError(t, err)
		return system.Client{API: p.Api, HTTP: c.HTTP()}
	}
	waittest.Until(t, func() bool {
		return client(authority.File).Do(t.Context(), http.MethodGet, "/v1/healthz", nil, nil) == nil
	})

	create := []string{"tenant", "create", "--org", "org_test", "--another", "--data", data}
	shown := append(create, "--admin-cert", operator.Cert, "--admin-key", operator.Key)
	require.Contains(t, systemtest.Fails(t, create...), "certificate required")
	systemtest.Command(t, shown...)
	require.Contains(t, systemtest.Fails(t, append(shown, "--admin-ca", authority.File)...), "cannot validate certificate for 127.0.0.1")

	other.Replace(t, api, certstest.Leaf{})
	other.Replace(t, admin, certstest.Leaf{Names: []string{"127.0.0.1"}})
	require.ErrorContains(t, client(authority.File).Do(t.Context(), http.MethodGet, "/v1/healthz", nil, nil), "signed by unknown authority")
	require.NoError(t, client(other.File).Do(t.Context(), http.MethodGet, "/v1/healthz", nil, nil))
	systemtest.Command(t, shown...)
	systemtest.Command(t, append(shown, "--admin-ca", other.File)...)

	p.Stop(t)
	require.NotContains(t, p.Log(), "handshake")
	require.Contains(t, p.Log(), "certificate files were read again")
}
