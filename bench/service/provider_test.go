package service

import (
	"html"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/bench/system/systemtest"
	"muniment.example/control/oidc/oidctest"
)

// providedPublic is the public URL of services with a provider, which sends browsers back to it. The test has the
// browser go where the service listens.
const providedPublic = "http://127.0.0.1:8080"

var refresh = regexp.MustCompile(`^0; url=(\S+)$`)

// leave presses the button that leads to the provider, and returns where the page leads. The page is left by itself and
// by its link.
func (b *browser) leave(how, next string, headers ...string) (address string) {
	b.t.Helper()
	status, header, text := b.send("POST", "/console/sign-in", url.Values{"provider": {how}, "next": {next}}, headers...)
	require.Equal(b.t, 200, status, text)
	found := refresh.FindStringSubmatch(header.Get("Refresh"))
	require.NotNil(b.t, found, header)
	require.Contains(b.t, html.UnescapeString(text), `href="`+found[1]+`"`)
	require.Equal(b.t, "no-referrer", header.Get("Referrer-Policy"))
	return found[1]
}

// comeBack is where the provider has sent the browser, at the service.
func comeBack(t *testing.T, address *url.URL) string {
	t.Helper()
	require.Equal(t, providedPublic+"/console/sign-in/callback", address.Scheme+"://"+address.Host+address.Path)
	return address.Path + "?" + address.RawQuery
}

// signsIn is a sign-in of a new browser at a provider; visit is what happens there.
func signsIn(t *testing.T, s *systemtest.Service, how, next string, visit func(address string) *url.URL) (b *browser, location string) {
	t.Helper()
	b = newBrowser(t, s.Client.API)
	from := systemtest.AnyAddress()
	answer := comeBack(t, visit(b.leave(how, next, "X-Forwarded-For", from)))
	status, header, text := b.send("GET", answer, nil, "X-Forwarded-For", from)
	require.Equal(t, 303, status, text)
	return b, header.Get("Location")
}

var choiceButton = regexp.MustCompile(`name="member" value="(mbr_\w+)"`)

// enters enters the one tenant that a new browser is asked about after its first sign-in at a provider, and returns where that
// leads.
func (b *browser) enters(choice, next string) (location string) {
	b.t.Helper()
	require.Equal(b.t, "/console/sign-in/choose?"+url.Values{"next": {next}}.Encode(), choice)
	status, _, text := b.send("GET", choice, nil)
	require.Equal(b.t, 200, status, text)
	require.Contains(b.t, text, "Enter this tenant?")
	require.Contains(b.t, text, "you become its member")
	buttons := choiceButton.FindAllStringSubmatch(text, -1)
	require.Len(b.t, buttons, 1, text)
	status, header, text := b.send("POST", "/console/sign-in/choose", url.Values{"member": {buttons[0][1]}, "next": {next}}, "X-Forwarded-For", systemtest.AnyAddress())
	require.Equal(b.t, 303, status, text)
	return header.Get("Location")
}

// TestTenantConsoleSignsInAtProvider: the button leads to the provider and back to the page that was wanted; no other
// browser can use the answer, nothing in it leads elsewhere or is on a page, and without the provider there are the other
// ways.
func TestTenantConsoleSignsInAtProvider(t *testing.T) {
	t.Parallel()
	at := oidctest.New(t)
	secret := filepath.Join(t.TempDir(), "secret")
	require.NoError(t, os.WriteFile(secret, []byte(oidctest.Secret+"\n"), 0o600))
	s := owned(t, "--trusted-proxies", "1", "--public-url", providedPublic, "--oidc-issuer", at.URL, "--oidc-client-id", oidctest.ClientID, "--oidc-secret-file", secret)
	require.Zero(t, at.Count("/.well-known/openid-configuration"), "the service starts without it")
	memberID, email := invited(t, s, "Ada "+marker, "owner")
	name := strings.TrimPrefix(at.URL, "http://")
	at.Set(func() { at.Email = email })

	// At first it asks whether the invitation is accepted.
	b, location := signsIn(t, s, "yes", "/console/money?x=1", at.SendsBack)
	location = b.enters(location, "/console/money?x=1")
	require.Equal(t, "/console/money?x=1", location)
	_, _, text := b.send("GET", location, nil)
	require.Contains(t, text, "Signed in as</i> <b>Ada &lt;i data-x&gt;")
	_, _, text = b.send("GET", "/console/members/"+memberID, nil)
	require.Contains(t, text, "<code>subject-1</code>")
	_, header, _ := b.send("POST", "/console/sign-out", nil)
	_, _, text = b.send("GET", header.Get("Location"), nil)
	require.Contains(t, text, "you still are signed in there")
	require.Contains(t, text, "Sign in at "+name)

	for _, next := range []string{"//evil.example", "https://evil.example/console", "/console/../v1", "/console\r\nx: y"} {
		_, location = signsIn(t, s, "yes", next, at.SendsBack)
		require.Equal(t, "/console", location, next)
	}

	victim, from := newBrowser(t, s.Client.API), systemtest.AnyAddress()
	attacker := newBrowser(t, s.Client.API)
	answer := comeBack(t, at.SendsBack(attacker.leave("yes", "/console", "X-Forwarded-For", from)))
	victim.leave("yes", "/console", "X-Forwarded-For", from)
	for _, other := range []*browser{victim, newBrowser(t, s.Client.API)} {
		status, header, text := other.send("GET", answer, nil, "X-Forwarded-For", from)
		require.Equal(t, 401, status, text)
		require.Contains(t, text, "did not begin in this browser")
		require.Empty(t, header["Set-Cookie"])
		status, _, _ = other.send("GET", "/console/money", nil)
		require.Equal(t, 303, status)
	}
	status, _, text := attacker.send("HEAD", answer, nil, "X-Forwarded-For", from)
	require.Equal(t, 404, status, "a preview spends nothing: %s", text)
	status, _, text = attacker.send("GET", answer+"&error=%3Ci+data-x%3E&error_description="+url.QueryEscape(marker), nil, "X-Forwarded-For", from)
	require.Equal(t, 401, status, text)
	require.Contains(t, text, "did not sign you in")
	require.NotContains(t, text, "data-x")
	require.NotContains(t, text, oidctest.Secret)

	// Who was let in without being asked has to prove again who they are for what asks again.
	at.Set(func() { at.Authenticated = time.Now().Add(-time.Hour) })
	b, location = signsIn(t, s, "yes", "/console/keys/new", at.SendsBack)
	status, header, text = b.send("GET", location, nil)
	require.Equal(t, 303, status, text)
	_, _, text = b.send("GET", header.Get("Location"), nil)
	require.Contains(t, text, `name="provider" value="again"`)
	b, location = signsIn(t, s, "again", "/console/keys/new", at.SendsBack)
	status, _, text = b.send("GET", location, nil)
	require.Equal(t, 200, status, text)

	// In two tenants.
	other := systemtest.CreateTenant(t, s.Data, "--email", email)
	b, location = signsIn(t, s, "yes", "/console/rights", at.SendsBack)
	require.Equal(t, "/console/sign-in/choose?next=%2Fconsole%2Frights", location)
	status, _, _ = b.send("GET", "/console/rights", nil)
	require.Equal(t, 303, status, "no tenant is chosen")
	_, _, text = b.send("GET", location, nil)
	chosen := regexp.MustCompile(`name="member" value="(mbr_\w+)">[^\n]*test · ` + other.TenantID).FindStringSubmatch(text)
	require.NotNil(t, chosen, text)
	status, header, text = b.send("POST", "/console/sign-in/choose", url.Values{"member": {chosen[1]}, "next": {"/console/rights"}}, "X-Forwarded-For", from)
	require.Equal(t, 303, status, text)
	require.Equal(t, "/console/rights", header.Get("Location"))
	status, _, text = b.send("GET", "/console/rights", nil)
	require.Equal(t, 200, status)
	require.Contains(t, text, chosen[1])
	status, _, text = b.send("GET", location, nil)
	require.Equal(t, 401, status, text)

	at.Set(func() { at.Verified, at.Subject = false, "another" })
	b = newBrowser(t, s.Client.API)
	status, _, text = b.send("GET", comeBack(t, at.SendsBack(b.leave("yes", "/console", "X-Forwarded-For", systemtest.AnyAddress()))), nil)
	require.Equal(t, 401, status, text)
	require.Contains(t, text, "that it has verified it")
	at.Set(func() {
		at.Handle = func(w http.ResponseWriter, _ *http.Request) bool { w.WriteHeader(500); return true }
	})
	s.Stop()
	s.StartAgain()
	status, _, text = newBrowser(t, s.Client.API).send("POST", "/console/sign-in", url.Values{"provider": {"yes"}}, "X-Forwarded-For", systemtest.AnyAddress())
	require.Equal(t, 503, status, text)
	require.Contains(t, text, "sign in another way")
	require.Contains(t, text, `name="email"`)
	signIn(t, s.Client.API, s.Client.Key)

	log := s.Log()
	require.Contains(t, log, "failed at the provider")
	for _, private := range []string{email, "subject-1", strings.SplitN(answer, "code=", 2)[1][:26], oidctest.Secret} {
		require.NotContains(t, log, private)
	}
}
