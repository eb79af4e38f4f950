package service

import (
	"html"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/bench/system/systemtest"
	"muniment.example/deploy/stack/stacktest"
)

// keycloak is a person's browser at Keycloak. The realm, with its clients and persons, is deploy/stack/keycloak.realm.json.
type keycloak struct {
	t      *testing.T
	person string
	client *http.Client
	asked  int // how often it was asked for the password
}

func newKeycloak(t *testing.T, person string) *keycloak {
	jar, err := cookiejar.New(nil)
	require.NoError(t, err)
	return &keycloak{t: t, person: person, client: &http.Client{Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
}

var loginForm = regexp.MustCompile(`<form[^>]*id="kc-form-login"[^>]*action="([^"]+)"`)

// visit opens an address, signs in where Keycloak asks, and returns where Keycloak sends the browser.
func (k *keycloak) visit(address string) *url.URL {
	k.t.Helper()
	resp, err := k.client.Get(address)
	require.NoError(k.t, err)
	text, err := io.ReadAll(resp.Body)
	require.NoError(k.t, err)
	require.NoError(k.t, resp.Body.Close())
	if resp.StatusCode == http.StatusOK {
		form := loginForm.FindSubmatch(text)
		require.NotNil(k.t, form, "%s", text)
		k.asked++
		resp, err = k.client.PostForm(html.UnescapeString(string(form[1])), url.Values{"username": {k.person}, "password": {"a password of a test"}, "credentialId": {""}})
		require.NoError(k.t, err)
		require.NoError(k.t, resp.Body.Close())
	}
	require.Equal(k.t, http.StatusFound, resp.StatusCode)
	back, err := resp.Location()
	require.NoError(k.t, err)
	return back
}

// TestTenantConsoleSignsInAtKeycloak: at a provider that is not ours, by a client with a secret and RS256, and by one
// without a secret and with ES256.
func TestTenantConsoleSignsInAtKeycloak(t *testing.T) {
	stacktest.OnlyWith(t, "MUNIMENT_TEST_KEYCLOAK", "test-oidc")
	secret := filepath.Join(t.TempDir(), "secret")
	require.NoError(t, os.WriteFile(secret, []byte("a secret of a test"), 0o600))
	for client, flags := range map[string][]string{"console": {"--oidc-secret-file", secret}, "public-console": nil} {
		s := owned(t, append(flags, "--trusted-proxies", "1", "--public-url", providedPublic, "--oidc-issuer", os.Getenv("MUNIMENT_TEST_KEYCLOAK"), "--oidc-client-id", client)...)
		for email, role := range map[string]string{"ada@example.org": "owner", "eve@example.org": "viewer"} {
			a := systemtest.Call(t, s.Client.API, s.Client.Key, systemtest.Operation{Method: "POST", Path: "/v1/members", Body: `{"email":"` + email + `","role":"` + role + `"}`})
			require.Equal(t, 200, a.Status, a.Body)
		}
		ada := newKeycloak(t, "ada")
		b, location := signsIn(t, s, "yes", "/console/keys/new", ada.visit)
		location = b.enters(location, "/console/keys/new")
		require.Equal(t, "/console/keys/new", location)
		status, _, text := b.send("GET", location, nil)
		require.Equal(t, 200, status, "it has just asked: %s", text)
		require.Contains(t, text, "ada@example.org")
		_, _ = signsIn(t, s, "yes", "/console", ada.visit)
		require.Equal(t, 1, ada.asked, "Keycloak knows who it is")
		b, location = signsIn(t, s, "again", "/console/keys/new", ada.visit)
		require.Equal(t, 2, ada.asked, "unless it is told to ask")
		status, _, text = b.send("GET", location, nil)
		require.Equal(t, 200, status, text)

		eve, from := newBrowser(t, s.Client.API), systemtest.AnyAddress()
		answer := comeBack(t, newKeycloak(t, "eve").visit(eve.leave("yes", "/console", "X-Forwarded-For", from)))
		status, _, text = eve.send("GET", answer, nil, "X-Forwarded-For", from)
		require.Equal(t, 401, status, text)
		require.Contains(t, text, "that it has verified it", "the provider has not verified the address that was invited")
	}
}
