// Package oidc asks a provider of OpenID Connect who somebody is: by the authorization code flow with PKCE, for one
// provider and one client of it. It knows nothing of members and sessions, and has no state but what it has read of
// the provider.
//
// An answer counts if all of this holds, and nothing in it is believed otherwise:
//
//   - it is for an attempt that began here (state), and names no other issuer (RFC 9207);
//   - its code was exchanged at the provider's own token endpoint, with the attempt's PKCE verifier;
//   - its ID token is signed by a key of the provider with RS256 or ES256, by no other algorithm, is from the issuer
//     for this client, has not expired, and has the attempt's nonce;
//   - it says when the person authenticated.
//
// Whose Attempt it is, that it ends and that it is of one browser, is the caller's.
//
// The provider may be slow, away or hostile. Nothing is read of it before somebody signs in by it, so no start waits
// for it. Each request to it takes at most requestTime, all that somebody waits for at most waitTime; it reads at most
// maxResponse, and follows no redirect; at most atOnce sign-ins wait for it in a process. After a failure the next sign-ins fail at once for a moment. What is read
// of it, which has its addresses, counts for an hour, and its keys until a token names another one.
//
// Its addresses must be of https. Only a provider on a loopback address may have http, for development.
package oidc

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	gooidc "github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"muniment.example/gateway/api"
)

const (
	// requestTime bounds a request to the provider, and maxResponse its response.
	requestTime = 10 * time.Second
	maxResponse = 1 << 20
	// waitTime is how long a person waits for the provider at most, before leaving to it and after coming back.
	waitTime = 15 * time.Second
	// atOnce is how many sign-ins wait for the provider at a time.
	atOnce = 32
	// knownFor is how long the provider's description counts, and failedFor a failure to read it.
	knownFor  = time.Hour
	failedFor = 2 * time.Second
	// skew is how far the provider's clock may be from ours.
	skew = time.Minute
	// maxText is the longest subject, as OpenID Connect has it, and the longest address.
	maxText = 255
)

// Config of a Provider. Issuer, ClientID and RedirectURL are required.
type Config struct {
	// Issuer is the provider's name, byte for byte as in its tokens.
	Issuer   string
	ClientID string
	// Secret returns the client's secret, for each sign-in; nil: the client is a public one, and has none.
	Secret func() (string, error)
	// RedirectURL is where the provider sends browsers back to.
	RedirectURL string
	// Trust is for a TLS connection to a host; nil: the authorities of the system.
	Trust func(host string) *tls.Config
	// Now is the clock. Default time.Now.
	Now func() time.Time
	// Logger; nil is slog.Default.
	Logger *slog.Logger
}

// CheckIssuer says what is wrong with the name of a provider.
func CheckIssuer(issuer string) error {
	u, err := url.Parse(issuer)
	if err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" || !api.Printable(issuer, 512) {
		return errors.New("must be a URL without a user, a query and a fragment")
	}
	if !secure(u) && !local(u) {
		return errors.New("must begin with https://; http:// is for a provider on this machine")
	}
	return nil
}

// secure says whether a URL is of https, and local whether it is of http on this machine.
func secure(u *url.URL) bool { return u.Scheme == "https" && u.Host != "" }

func local(u *url.URL) bool {
	host := u.Hostname()
	a, err := netip.ParseAddr(host)
	return u.Scheme == "http" && (err == nil && a.IsLoopback() || strings.EqualFold(host, "localhost"))
}

// Provider is safe for concurrent use.
type Provider struct {
	cfg    Config
	name   string
	client *http.Client
	places chan struct{} // one for each sign-in that waits for the provider

	reading chan struct{} // held by who reads the description; what follows is theirs
	known   *description
	failure error
	at      time.Time // when known was read, or when that failed
}

// description is what the provider says of itself.
type description struct {
	endpoint  oauth2.Endpoint
	verifier  *gooidc.IDTokenVerifier
	provider  *gooidc.Provider
	namesSelf bool // its answers name the issuer
}

// New returns a provider, of which it reads nothing yet.
func New(cfg Config) (*Provider, error) {
	if cfg.ClientID == "" || cfg.RedirectURL == "" {
		return nil, errors.New("cannot use an OpenID Connect provider: ClientID or RedirectURL is missing")
	}
	if err := CheckIssuer(cfg.Issuer); err != nil {
		return nil, fmt.Errorf("cannot use an OpenID Connect provider: the issuer %w", err)
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	cfg.Logger = cmp.Or(cfg.Logger, slog.Default())
	issuer, err := url.Parse(cfg.Issuer)
	if err != nil {
		return nil, err
	}
	return &Provider{cfg: cfg, name: issuer.Host, client: newClient(cfg.Trust), places: make(chan struct{}, atOnce), reading: make(chan struct{}, 1)}, nil
}

// newClient makes the client for the provider alone.
func newClient(trust func(host string) *tls.Config) *http.Client {
	t := &http.Transport{TLSHandshakeTimeout: requestTime, ResponseHeaderTimeout: requestTime, MaxResponseHeaderBytes: 64 << 10, IdleConnTimeout: time.Minute, MaxIdleConnsPerHost: 4, MaxConnsPerHost: atOnce}
	if trust != nil {
		t.DialTLSContext = func(ctx context.Context, network, address string) (net.Conn, error) {
			host, _, err := net.SplitHostPort(address)
			if err != nil {
				return nil, err
			}
			return (&tls.Dialer{Config: trust(host)}).DialContext(ctx, network, address)
		}
	}
	return &http.Client{Transport: bounded{t}, Timeout: requestTime, CheckRedirect: func(*http.Request, []*http.Request) error {
		return errors.New("the provider redirects, which it may not")
	}}
}

// bounded ends responses that are too long with an error.
type bounded struct{ http.RoundTripper }

func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := b.RoundTripper.RoundTrip(r)
	if err == nil {
		resp.Body = &boundedBody{ReadCloser: resp.Body, left: maxResponse}
	}
	return resp, err
}

type boundedBody struct {
	io.ReadCloser
	left int
}

func (b *boundedBody) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, fmt.Errorf("the response has more than %d bytes", maxResponse)
	}
	n, err := b.ReadCloser.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}

// Name is what a page calls the provider: its host.
func (p *Provider) Name() string { return p.name }

// Issuer is the provider's name in tokens.
func (p *Provider) Issuer() string { return p.cfg.Issuer }

// away is the answer to callers while the provider can't be reached, or does not do what a provider does.
func (p *Provider) away(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	p.cfg.Logger.WarnContext(ctx, "a sign-in by OpenID Connect failed at the provider", "issuer", p.cfg.Issuer, "err", short(err))
	return api.Unavailable(api.EngineUnavailable, p.name+" can't be reached, or does not answer as a provider of OpenID Connect: try again in a moment, or sign in another way", time.Minute)
}

// short is the text of an error for the log: it may have what the provider has sent.
func short(err error) string {
	text := err.Error()
	return text[:min(len(text), 500)]
}

// admit returns a place for a sign-in, to be given back by calling release.
func (p *Provider) admit() (release func(), err error) {
	select {
	case p.places <- struct{}{}:
		return func() { <-p.places }, nil
	default:
		return nil, api.Unavailable(api.Overloaded, "too many people sign in by "+p.name+" at this moment: try again in a moment, or sign in another way", time.Minute)
	}
}

// describe returns what the provider says of itself.
func (p *Provider) describe(ctx context.Context) (*description, error) {
	select {
	case p.reading <- struct{}{}:
		defer func() { <-p.reading }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	now := p.cfg.Now()
	switch age := now.Sub(p.at); {
	case p.known != nil && age >= 0 && age < knownFor:
		return p.known, nil
	case p.failure != nil && age >= 0 && age < failedFor:
		return nil, p.failure
	}
	known, err := p.read(ctx)
	if ctx.Err() != nil { // the caller is gone: that says nothing of the provider
		return nil, ctx.Err()
	}
	p.known, p.failure, p.at = known, err, p.cfg.Now()
	return known, err
}

func (p *Provider) read(ctx context.Context) (*description, error) {
	provider, err := gooidc.NewProvider(gooidc.ClientContext(ctx, p.client), p.cfg.Issuer)
	if err != nil {
		return nil, fmt.Errorf("cannot read the provider's description: %w", err)
	}
	var says struct {
		Keys     string   `json:"jwks_uri"`
		UserInfo string   `json:"userinfo_endpoint"`
		Methods  []string `json:"token_endpoint_auth_methods_supported"`
		Issuer   bool     `json:"authorization_response_iss_parameter_supported"`
	}
	if err := provider.Claims(&says); err != nil {
		return nil, fmt.Errorf("cannot read the provider's description: %w", err)
	}
	d := &description{endpoint: provider.Endpoint(), provider: provider, namesSelf: says.Issuer}
	issuer, err := url.Parse(p.cfg.Issuer)
	if err != nil {
		return nil, err
	}
	for name, address := range map[string]string{"authorization_endpoint": d.endpoint.AuthURL, "token_endpoint": d.endpoint.TokenURL, "jwks_uri": says.Keys, "userinfo_endpoint": says.UserInfo} {
		if u, err := url.Parse(address); (address != "" || name != "userinfo_endpoint") && (err != nil || u.Fragment != "" || !secure(u) && (!local(issuer) || !local(u))) {
			return nil, fmt.Errorf("the provider's %s is no URL of https", name)
		}
	}
	switch {
	case p.cfg.Secret == nil:
		d.endpoint.AuthStyle = oauth2.AuthStyleInParams
	case len(says.Methods) == 0 || slices.Contains(says.Methods, "client_secret_basic"):
		d.endpoint.AuthStyle = oauth2.AuthStyleInHeader
	case slices.Contains(says.Methods, "client_secret_post"):
		d.endpoint.AuthStyle = oauth2.AuthStyleInParams
	default:
		return nil, errors.New("the provider takes a secret neither by client_secret_basic nor by client_secret_post")
	}
	// What the provider's description says of algorithms does not count.
	d.verifier = provider.VerifierContext(gooidc.ClientContext(context.Background(), p.client), &gooidc.Config{
		ClientID: p.cfg.ClientID, SupportedSigningAlgs: []string{gooidc.RS256, gooidc.ES256}, Now: func() time.Time { return p.cfg.Now().Add(-skew) },
	})
	return d, nil
}

// oauth is the client at the provider.
func (p *Provider) oauth(d *description) (*oauth2.Config, error) {
	c := &oauth2.Config{ClientID: p.cfg.ClientID, Endpoint: d.endpoint, RedirectURL: p.cfg.RedirectURL, Scopes: []string{gooidc.ScopeOpenID, gooidc.ScopeEmail}}
	if p.cfg.Secret == nil {
		return c, nil
	}
	var err error
	if c.ClientSecret, err = p.cfg.Secret(); err != nil {
		return nil, fmt.Errorf("cannot read the client's secret: %w", err)
	}
	return c, nil
}
