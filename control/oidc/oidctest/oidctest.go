// Package oidctest has a provider of OpenID Connect for tests, which can be told to do what no provider should.
package oidctest

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The client that a Provider knows.
const (
	ClientID = "console"
	Secret   = "the secret, of the client: 100%"
)

// Provider is a provider on this machine. Its members may be set between requests.
type Provider struct {
	t *testing.T
	// URL is the issuer.
	URL string

	mu sync.Mutex
	// Subject, Email and Verified are who is signed in there; Verified may be of any type.
	Subject, Email string
	Verified       any
	// Authenticated is when the person proved who they are, unless a request asks for it; zero: now.
	Authenticated time.Time
	// Public says that the client has no secret.
	Public bool
	// Now is its clock.
	Now func() time.Time
	// Claims, Description and Answer change what it is about to say.
	Claims, Description func(map[string]any)
	Answer              func(url.Values)
	// Sign makes the ID token of claims; nil: RS256.
	Sign func(claims map[string]any) string
	// Handle serves a request in place of the provider if it returns true.
	Handle func(w http.ResponseWriter, r *http.Request) bool
	// Requests counts the requests by path, and Asked is the last one's query to sign in.
	Requests map[string]int
	Asked    url.Values

	codes map[string]url.Values // what was asked for, by the code
	rsa   *rsa.PrivateKey
	ecdsa *ecdsa.PrivateKey
}

// New starts a provider, with a person whose address is verified.
func New(t *testing.T) *Provider {
	p := &Provider{t: t, Subject: "subject-1", Email: "ada@example.org", Verified: true, Now: time.Now, Requests: map[string]int{}, codes: map[string]url.Values{}}
	var err error
	p.rsa, err = rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	p.ecdsa, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	server := httptest.NewServer(p)
	t.Cleanup(server.Close)
	p.URL = server.URL
	return p
}

// Set changes the provider while it may be serving.
func (p *Provider) Set(change func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change()
}

// Count is how many requests a path had.
func (p *Provider) Count(path string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.Requests[path]
}

// ServeHTTP implements http.Handler.
func (p *Provider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	p.Requests[r.URL.Path]++
	handle := p.Handle
	p.mu.Unlock()
	if handle != nil && handle(w, r) {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch r.URL.Path {
	case "/.well-known/openid-configuration":
		d := map[string]any{
			"issuer": p.URL, "authorization_endpoint": p.URL + "/authorize", "token_endpoint": p.URL + "/token", "jwks_uri": p.URL + "/keys", "userinfo_endpoint": p.URL + "/userinfo",
			"id_token_signing_alg_values_supported": []string{"RS256", "ES256", "HS256", "none"}, "response_types_supported": []string{"code"}, "subject_types_supported": []string{"public"},
			"authorization_response_iss_parameter_supported": true,
		}
		if p.Description != nil {
			p.Description(d)
		}
		respond(w, 200, d)
	case "/authorize":
		p.authorize(w, r)
	case "/token":
		p.token(w, r)
	case "/keys":
		respond(w, 200, map[string]any{"keys": []any{
			map[string]any{"kty": "RSA", "kid": "rsa", "use": "sig", "n": base64url(p.rsa.N.Bytes()), "e": "AQAB"},
			map[string]any{"kty": "EC", "kid": "ec", "use": "sig", "crv": "P-256", "x": base64url(p.ecdsa.X.FillBytes(make([]byte, 32))), "y": base64url(p.ecdsa.Y.FillBytes(make([]byte, 32)))},
		}})
	case "/userinfo":
		respond(w, 200, map[string]any{"sub": p.Subject, "email": p.Email, "email_verified": p.Verified})
	default:
		http.NotFound(w, r)
	}
}

// authorize is the page on which the person is signed in already.
func (p *Provider) authorize(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	p.Asked = q
	if q.Get("client_id") != ClientID || q.Get("response_type") != "code" || q.Get("code_challenge_method") != "S256" || len(q.Get("code_challenge")) != 43 {
		http.Error(w, "this is not how a client asks", http.StatusBadRequest)
		return
	}
	code := rand.Text()
	p.codes[code] = q
	answer := url.Values{"code": {code}, "state": {q.Get("state")}, "iss": {p.URL}}
	if p.Answer != nil {
		p.Answer(answer)
	}
	http.Redirect(w, r, q.Get("redirect_uri")+"?"+answer.Encode(), http.StatusFound)
}

// token gives tokens for a code, once, to the client that has its verifier.
func (p *Provider) token(w http.ResponseWriter, r *http.Request) {
	id, secret, ok := r.BasicAuth()
	id, _ = url.QueryUnescape(id)
	secret, _ = url.QueryUnescape(secret)
	asked := p.codes[r.PostFormValue("code")]
	delete(p.codes, r.PostFormValue("code"))
	hash := sha256.Sum256([]byte(r.PostFormValue("code_verifier")))
	switch {
	case p.Public && (ok || r.PostFormValue("client_id") != ClientID) || !p.Public && (!ok || id != ClientID || secret != Secret):
		respond(w, 401, map[string]any{"error": "invalid_client"})
		return
	case asked == nil || asked.Get("redirect_uri") != r.PostFormValue("redirect_uri") || asked.Get("code_challenge") != base64url(hash[:]):
		respond(w, 400, map[string]any{"error": "invalid_grant"})
		return
	}
	now := p.Now()
	claims := map[string]any{
		"iss": p.URL, "sub": p.Subject, "aud": ClientID, "exp": now.Add(5 * time.Minute).Unix(), "iat": now.Unix(), "nonce": asked.Get("nonce"), "auth_time": now.Unix(),
		"email": p.Email, "email_verified": p.Verified,
	}
	if !p.Authenticated.IsZero() && asked.Get("prompt") != "login" {
		claims["auth_time"] = p.Authenticated.Unix()
	}
	if p.Claims != nil {
		p.Claims(claims)
	}
	sign := p.Sign
	if sign == nil {
		sign = p.RS256
	}
	respond(w, 200, map[string]any{"access_token": "access", "token_type": "Bearer", "expires_in": 60, "id_token": sign(claims)})
}

// RS256 signs with the provider's RSA key.
func (p *Provider) RS256(claims map[string]any) string {
	return p.signed("RS256", "rsa", claims, func(text []byte) []byte { return p.ofRSA(crypto.SHA256, text) })
}

// RS512 signs with that key and another hash.
func (p *Provider) RS512(claims map[string]any) string {
	return p.signed("RS512", "rsa", claims, func(text []byte) []byte { return p.ofRSA(crypto.SHA512, text) })
}

func (p *Provider) ofRSA(h crypto.Hash, text []byte) []byte {
	hash := h.New()
	hash.Write(text)
	signature, err := rsa.SignPKCS1v15(rand.Reader, p.rsa, h, hash.Sum(nil))
	require.NoError(p.t, err)
	return signature
}

// ES256 signs with the provider's key on P-256.
func (p *Provider) ES256(claims map[string]any) string {
	return p.signed("ES256", "ec", claims, func(text []byte) []byte {
		hash := sha256.Sum256(text)
		r, s, err := ecdsa.Sign(rand.Reader, p.ecdsa, hash[:])
		require.NoError(p.t, err)
		return append(r.FillBytes(make([]byte, 32)), s.FillBytes(make([]byte, 32))...)
	})
}

// HS256 signs with the client's secret, and HS256ByKey with the provider's public key as if it were a secret.
func (p *Provider) HS256(claims map[string]any) string {
	return p.hmac("console", []byte(Secret), claims)
}

// HS256ByKey is the attack in which a public key counts as a secret.
func (p *Provider) HS256ByKey(claims map[string]any) string {
	return p.hmac("rsa", p.rsa.N.Bytes(), claims)
}

func (p *Provider) hmac(kid string, key []byte, claims map[string]any) string {
	return p.signed("HS256", kid, claims, func(text []byte) []byte {
		mac := hmac.New(sha256.New, key)
		mac.Write(text)
		return mac.Sum(nil)
	})
}

// None does not sign.
func (p *Provider) None(claims map[string]any) string {
	return p.signed("none", "", claims, func([]byte) []byte { return nil })
}

// Altered signs other claims than it sends.
func (p *Provider) Altered(claims map[string]any) string {
	other := maps.Clone(claims)
	other["sub"] = "somebody else"
	return p.signed("RS256", "rsa", claims, func([]byte) []byte {
		return p.ofRSA(crypto.SHA256, []byte(p.unsigned("RS256", "rsa", other)))
	})
}

func (p *Provider) signed(algorithm, kid string, claims map[string]any, sign func([]byte) []byte) string {
	text := p.unsigned(algorithm, kid, claims)
	return text + "." + base64url(sign([]byte(text)))
}

func (p *Provider) unsigned(algorithm, kid string, claims map[string]any) string {
	header, err := json.Marshal(map[string]any{"alg": algorithm, "kid": kid, "typ": "JWT"})
	require.NoError(p.t, err)
	body, err := json.Marshal(claims)
	require.NoError(p.t, err)
	return base64url(header) + "." + base64url(body)
}

// Visit is what a browser does at the provider: it opens an address, and is sent back with the query that it returns.
func (p *Provider) Visit(address string) url.Values {
	p.t.Helper()
	back := p.SendsBack(address)
	return back.Query()
}

// SendsBack is where the provider sends a browser that opens an address.
func (p *Provider) SendsBack(address string) *url.URL {
	p.t.Helper()
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.Get(address)
	require.NoError(p.t, err)
	defer resp.Body.Close()
	require.Equal(p.t, http.StatusFound, resp.StatusCode, address)
	back, err := resp.Location()
	require.NoError(p.t, err)
	return back
}

func respond(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // a client that is gone reads nothing
}

func base64url(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }
