package oidc

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/control/oidc/oidctest"
	"muniment.example/gateway/api"
)

const back = "https://muniment.example/console/sign-in/callback"

func open(t *testing.T, issuer string, change ...func(*Config)) *Provider {
	t.Helper()
	cfg := Config{Issuer: issuer, ClientID: oidctest.ClientID, Secret: func() (string, error) { return oidctest.Secret, nil }, RedirectURL: back, Logger: slog.New(slog.NewTextHandler(io.Discard, nil))}
	for _, c := range change {
		c(&cfg)
	}
	p, err := New(cfg)
	require.NoError(t, err)
	return p
}

// attempt is a new one.
func attempt() Attempt {
	return Attempt{State: api.NewSecret(), Nonce: api.NewSecret(), Verifier: api.NewSecret(), MaxAge: 24 * time.Hour, Since: time.Now()}
}

// signIn is a sign-in at a provider.
func signIn(t *testing.T, p *Provider, at *oidctest.Provider) (Identity, error) {
	t.Helper()
	a := attempt()
	address, err := p.Address(t.Context(), a)
	require.NoError(t, err)
	return p.Identify(t.Context(), at.Visit(address), a)
}

func code(err error) api.Code {
	if err == nil {
		return ""
	}
	return api.From(err).Code
}

// TestIdentity: who the provider says somebody is, by both algorithms, and the address from either place, if it says
// that it has verified it.
func TestIdentity(t *testing.T) {
	at := oidctest.New(t)
	p := open(t, at.URL)
	for _, sign := range []func(map[string]any) string{at.RS256, at.ES256} {
		at.Set(func() { at.Sign = sign })
		who, err := signIn(t, p, at)
		require.NoError(t, err)
		require.Equal(t, at.URL, who.Issuer)
		require.Equal(t, "subject-1", who.Subject)
		require.Equal(t, "ada@example.org", who.Email)
		require.WithinDuration(t, time.Now(), who.AuthenticatedAt, 5*time.Second)
	}
	require.Equal(t, "86400", at.Asked.Get("max_age"))
	require.Empty(t, at.Asked.Get("prompt"))
	require.Equal(t, "openid email", at.Asked.Get("scope"))
	require.Equal(t, back, at.Asked.Get("redirect_uri"))
	for _, unverified := range []any{false, nil, "true", 1, "false"} {
		at.Set(func() { at.Verified = unverified })
		who, err := signIn(t, p, at)
		require.NoError(t, err)
		require.Empty(t, who.Email, unverified)
	}
	at.Set(func() {
		at.Verified, at.Claims = true, func(c map[string]any) { delete(c, "email"); delete(c, "email_verified") }
	})
	who, err := signIn(t, p, at)
	require.NoError(t, err)
	require.Equal(t, "ada@example.org", who.Email, "from the user's information")
	at.Set(func() { at.Claims = func(c map[string]any) { delete(c, "email"); c["sub"] = "another" } })
	who, err = signIn(t, p, at)
	require.NoError(t, err)
	require.Empty(t, who.Email, "the user's information is about somebody else")
	require.Equal(t, 1, at.Count("/.well-known/openid-configuration"))
	require.Equal(t, 1, at.Count("/keys"))
}

// TestAnswersThatShowNobody: each thing that makes a token or an answer another one than it has to be.
func TestAnswersThatShowNobody(t *testing.T) {
	at := oidctest.New(t)
	p := open(t, at.URL)
	claim := func(name string, value any) func() {
		return func() { at.Claims = func(c map[string]any) { c[name] = value } }
	}
	answer := func(name string, values ...string) func() {
		return func() { at.Answer = func(q url.Values) { q[name] = values } }
	}
	sign := func(s func(map[string]any) string) func() { return func() { at.Sign = s } }
	ago := func(d time.Duration) int64 { return time.Now().Add(-d).Unix() }
	for what, set := range map[string]func(){
		"another nonce":                  claim("nonce", "x"),
		"no nonce":                       claim("nonce", ""),
		"another audience":               claim("aud", "other"),
		"several audiences and no party": claim("aud", []string{oidctest.ClientID, "other"}),
		"another party":                  claim("azp", "other"),
		"another issuer":                 claim("iss", "https://evil.example"),
		"the issuer with a slash":        claim("iss", at.URL+"/"),
		"expired":                        claim("exp", ago(2*time.Minute)),
		"no expiry":                      claim("exp", nil),
		"not yet":                        claim("nbf", ago(-10*time.Minute)),
		"no subject":                     claim("sub", ""),
		"a subject that is too long":     claim("sub", strings.Repeat("x", 256)),
		"a subject with a line":          claim("sub", "a\nb"),
		"authenticated at no time":       claim("auth_time", nil),
		"authenticated later":            claim("auth_time", ago(-2*time.Minute)),
		"authenticated two days ago":     claim("auth_time", ago(48*time.Hour)),
		"a claim of another type":        claim("azp", 1),
		"alg none":                       sign(at.None),
		"alg HS256":                      sign(at.HS256),
		"alg HS256 by the public key":    sign(at.HS256ByKey),
		"alg RS512":                      sign(at.RS512),
		"altered":                        sign(at.Altered),
		"no token":                       sign(func(map[string]any) string { return "" }),
		"two tokens":                     sign(func(c map[string]any) string { return at.RS256(c) + "." + at.RS256(c) }),
		"the answer of another provider": answer("iss", "https://evil.example"),
		"an answer without the issuer":   answer("iss", ""),
		"no code":                        answer("code", ""),
		"another code":                   answer("code", "x"),
		"two codes":                      answer("code", "x", "y"),
		"another state":                  answer("state", "x"),
		"no state":                       answer("state", ""),
		"two states":                     answer("state", "x", "y"),
		"an error":                       answer("error", "<script>"),
		"declined":                       answer("error", "access_denied"),
	} {
		at.Set(func() { at.Claims, at.Answer, at.Sign = nil, nil, nil; set() })
		_, err := signIn(t, p, at)
		require.Equal(t, api.AuthInvalid, code(err), "%s: %v", what, err)
		require.Equal(t, strings.Contains(what, "state") || what == "two codes", errors.Is(err, ErrForeign), what)
		require.NotContains(t, err.Error(), "script", "a page repeats no text that comes with a browser")
	}
	at.Set(func() { at.Claims, at.Answer, at.Sign = nil, nil, nil })
	for _, skewed := range []func(){claim("exp", ago(30*time.Second)), claim("auth_time", ago(-30*time.Second)), claim("azp", oidctest.ClientID)} {
		at.Set(skewed)
		who, err := signIn(t, p, at)
		require.NoError(t, err)
		require.False(t, who.AuthenticatedAt.After(time.Now()))
	}
	at.Set(func() { at.Claims = nil })

	// A code is for the attempt whose verifier it was asked for with, and is used once.
	a, other := attempt(), attempt()
	address, err := p.Address(t.Context(), a)
	require.NoError(t, err)
	q := at.Visit(address)
	other.State = a.State
	_, err = p.Identify(t.Context(), q, other)
	require.Equal(t, api.AuthInvalid, code(err), "the code of another browser")
	q = at.Visit(address)
	_, err = p.Identify(t.Context(), q, a)
	require.NoError(t, err)
	_, err = p.Identify(t.Context(), q, a)
	require.Equal(t, api.AuthInvalid, code(err), "used")

	// Where the provider has to ask again, and has not.
	a = attempt()
	a.MaxAge = 0
	address, err = p.Address(t.Context(), a)
	require.NoError(t, err)
	at.Set(claim("auth_time", ago(5*time.Minute)))
	_, err = p.Identify(t.Context(), at.Visit(address), a)
	require.ErrorContains(t, err, "without asking")
	require.Equal(t, "login", at.Asked.Get("prompt"))
	require.Equal(t, "0", at.Asked.Get("max_age"))
}

// TestProviderThatIsAway hinders nobody for longer than a request may take, is not asked again at once, and is known
// again once it is back.
func TestProviderThatIsAway(t *testing.T) {
	at := oidctest.New(t)
	now := time.Now()
	p := open(t, at.URL, func(c *Config) { c.Now = func() time.Time { return now } })
	require.Zero(t, at.Count("/.well-known/openid-configuration"), "it is not asked before somebody signs in")
	for what, serve := range map[string]func(http.ResponseWriter, *http.Request){
		"500":                  func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) },
		"no JSON":              func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) },
		"redirects":            func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/keys", http.StatusFound) },
		"endless":              func(w http.ResponseWriter, _ *http.Request) { _, _ = io.Copy(w, endless{}) },
		"cut off":              func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"of another issuer":    describes(at.URL + "/other"),
		"leads to plain http":  describes(at.URL, "token_endpoint", "http://10.0.0.1/token"),
		"has no keys":          describes(at.URL, "jwks_uri", ""),
		"has keys in a file":   describes(at.URL, "jwks_uri", "file:///etc/passwd"),
		"wants another secret": describes(at.URL, "token_endpoint_auth_methods_supported", []string{"private_key_jwt"}),
	} {
		now = now.Add(failedFor)
		at.Set(func() { at.Handle = func(w http.ResponseWriter, r *http.Request) bool { serve(w, r); return true } })
		before := at.Count("/.well-known/openid-configuration")
		for range 3 {
			_, err := p.Address(t.Context(), attempt())
			require.Equal(t, http.StatusServiceUnavailable, api.From(err).GetStatus(), what)
			require.ErrorContains(t, err, "sign in another way", what)
		}
		require.LessOrEqual(t, at.Count("/.well-known/openid-configuration"), before+2, "%s: one of them asks, once more if an idle connection was cut off", what)
	}
	now = now.Add(failedFor)
	at.Set(func() { at.Handle = nil })
	_, err := p.Address(t.Context(), attempt())
	require.NoError(t, err)

	// The token endpoint and the keys, each by itself.
	for _, path := range []string{"/keys", "/token"} {
		at.Set(func() {
			at.Handle = func(w http.ResponseWriter, r *http.Request) bool {
				if r.URL.Path == path {
					w.WriteHeader(500)
				}
				return r.URL.Path == path
			}
		})
		_, err = signIn(t, p, at)
		require.Equal(t, http.StatusServiceUnavailable, api.From(err).GetStatus(), path)
	}
}

// describes serves a description of a provider with another member.
func describes(issuer string, change ...any) func(http.ResponseWriter, *http.Request) {
	return func(w http.ResponseWriter, r *http.Request) {
		p := &oidctest.Provider{URL: issuer, Requests: map[string]int{}, Description: func(d map[string]any) {
			for i := 0; i < len(change); i += 2 {
				d[change[i].(string)] = change[i+1]
			}
		}}
		p.ServeHTTP(w, r)
	}
}

type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

// TestSlowProvider: as many sign-ins as may wait for it do, and others are refused at once.
func TestSlowProvider(t *testing.T) {
	at := oidctest.New(t)
	entered, leave := make(chan struct{}), make(chan struct{})
	at.Handle = func(http.ResponseWriter, *http.Request) bool {
		entered <- struct{}{}
		<-leave
		return false
	}
	p := open(t, at.URL)
	var waiting sync.WaitGroup
	for range atOnce {
		p.places <- struct{}{}
	}
	<-p.places
	waiting.Go(func() {
		_, err := p.Address(t.Context(), attempt())
		require.NoError(t, err)
	})
	<-entered
	_, err := p.Address(t.Context(), attempt())
	require.ErrorContains(t, err, "too many people")
	close(leave)
	waiting.Wait()
	_, err = p.Address(t.Context(), attempt())
	require.NoError(t, err)
}

// TestTrust: over TLS, the authorities that are named, and no others.
func TestTrust(t *testing.T) {
	at := oidctest.New(t)
	server := httptest.NewUnstartedServer(at)
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, 0)
	server.StartTLS()
	t.Cleanup(server.Close)
	at.URL = server.URL
	pool := x509.NewCertPool()
	pool.AddCert(server.Certificate())
	p := open(t, at.URL, func(c *Config) {
		c.Trust = func(host string) *tls.Config { return &tls.Config{RootCAs: pool, ServerName: host} }
	})
	_, err := p.Address(t.Context(), attempt())
	require.NoError(t, err)
	require.Equal(t, strings.TrimPrefix(server.URL, "https://"), p.Name())
	_, err = open(t, at.URL).Address(t.Context(), attempt())
	require.Equal(t, http.StatusServiceUnavailable, api.From(err).GetStatus())
}

func TestIssuers(t *testing.T) {
	for _, good := range []string{"https://login.example.com", "https://login.example.com/realms/a", "http://127.0.0.1:8080/realms/a", "http://localhost:8080", "http://[::1]:80"} {
		require.NoError(t, CheckIssuer(good), good)
	}
	for _, bad := range []string{"", "login.example.com", "http://login.example.com", "https://", "https://a@b.example", "https://a.example?x", "https://a.example#x", "file:///x", "http://127.0.0.1.evil.example", "https://a.example/\n"} {
		require.Error(t, CheckIssuer(bad), bad)
	}
	_, err := New(Config{Issuer: "https://a.example"})
	require.ErrorContains(t, err, "is missing")
	_, err = New(Config{Issuer: "x", ClientID: "x", RedirectURL: "x"})
	require.ErrorContains(t, err, "issuer")
}
