//go:build browser

package browser

import (
	"net"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/bench/system/systemtest"
	"muniment.example/control/oidc/oidctest"
)

// TestProviderInABrowser has Chromium sign in at an OpenID Connect provider of another site:
// control/playground/browser/provider.js is what it does there.
func TestProviderInABrowser(t *testing.T) {
	at := oidctest.New(t)
	at.URL = strings.Replace(at.URL, "127.0.0.1", "localhost", 1)
	at.Public = true
	free, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := free.Addr().String()
	require.NoError(t, free.Close())
	s := systemtest.NewService(t, "--listen", address, "--public-url", "http://"+address, "--oidc-issuer", at.URL, "--oidc-client-id", oidctest.ClientID, "--trusted-proxies", "1")
	require.Equal(t, "http://"+address, s.Client.API)
	systemtest.CreateTenant(t, s.Data, "--email", at.Email)
	other := systemtest.CreateTenant(t, s.Data, "--email", at.Email)
	inBrowser(t, "provider.js", "URL="+s.Client.API, "PROVIDER="+at.URL, "TENANT="+other.TenantID)
}
