package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"muniment.example/gateway/api"
)

// Config of a client. URL is required, and Key or KeyFunc.
type Config struct {
	// URL of the service, as https://muniment.example. It may have a path, which precedes /v1.
	URL string
	// Key is the API key. It excludes KeyFunc.
	Key string
	// KeyFunc returns the API key, for keys that are rotated or kept elsewhere. It is called for
	// each attempt, concurrently, and should keep what it has read. Its error ends the call.
	KeyFunc func(context.Context) (string, error)
	// HTTP sends the requests; nil is a client of its own with http.DefaultTransport. Its timeout
	// bounds downloads too, so leave it 0. Redirects are not followed, as they would send the key
	// elsewhere.
	HTTP *http.Client
	// Timeout of one attempt, until its answer is read; of a download, until it begins. Default
	// one minute: sealing answers within some 30 seconds.
	Timeout time.Duration
	// Retry says what is tried again, and when.
	Retry RetryPolicy
	// UserAgent names the caller in the header User-Agent. Default muniment-go/VERSION.
	UserAgent string
}

// validate returns the base of all addresses; its error names the field that is wrong.
func (cfg *Config) validate() (*url.URL, error) {
	base, err := url.Parse(cfg.URL)
	switch {
	case err != nil || base.Scheme != "http" && base.Scheme != "https" || base.Host == "" || base.RawQuery != "" || base.Fragment != "" || base.User != nil:
		return nil, fmt.Errorf("URL %q is invalid: it must be like https://muniment.example", cfg.URL)
	case cfg.Key == "" && cfg.KeyFunc == nil:
		return nil, errors.New("neither Key nor KeyFunc is given")
	case cfg.Key != "" && cfg.KeyFunc != nil:
		return nil, errors.New("both Key and KeyFunc are given")
	case cfg.Key != "" && !isKey(cfg.Key):
		return nil, errKey
	case cfg.Timeout < 0:
		return nil, errors.New("the Timeout is negative")
	case strings.ContainsAny(cfg.UserAgent, "\r\n"):
		return nil, errors.New("UserAgent has more than one line")
	}
	return base, cfg.Retry.validate()
}

// errKey does not show the key: a part of it may be right.
var errKey = errors.New("the API key is malformed: it must be visible ASCII")

func isKey(key string) bool { return api.Printable(key, 1024) }

// Client calls one service with one API key. It is safe for concurrent use.
type Client struct{ caller }

// caller makes requests, and makes them again.
type caller struct {
	base      string // of all addresses, without a slash at the end
	key       func(context.Context) (string, error)
	http      *http.Client
	timeout   time.Duration
	retry     RetryPolicy
	userAgent string
	// once is the Idempotency-Key of the next POST; empty makes one for each.
	once string
}

// New checks the configuration. Nothing is sent.
func New(cfg Config) (*Client, error) {
	base, err := cfg.validate()
	if err != nil {
		return nil, fmt.Errorf("cannot make a client: %w", err)
	}
	c := &Client{caller{
		base: strings.TrimRight(base.String(), "/"), key: cfg.KeyFunc, timeout: cmp.Or(cfg.Timeout, time.Minute),
		retry: cfg.Retry.filled(), userAgent: cmp.Or(cfg.UserAgent, "muniment-go/"+moduleVersion()),
	}}
	if c.key == nil {
		c.key = func(context.Context) (string, error) { return cfg.Key, nil }
	}
	c.http = new(http.Client)
	if cfg.HTTP != nil {
		*c.http = *cfg.HTTP
	}
	c.http.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return c, nil
}

// WithIdempotencyKey returns a client for one change, whose POST carries this key: 1 to 255
// visible ASCII characters. A caller that may be killed before it has the answer keeps the key,
// and makes the same call with it again within 24 hours: it gets the first answer. With another
// call the answer is ErrConflict.
func (c *Client) WithIdempotencyKey(key string) *Client {
	own := *c
	own.once = key
	return &own
}

// Contract says which version of the service answers, and by which rules. It needs no key.
func (c *Client) Contract(ctx context.Context) (*api.Contract, error) {
	return get[api.Contract](ctx, c, "/v1", nil)
}

// Health is the service's own word that it answers. It needs no key.
func (c *Client) Health(ctx context.Context) (*api.Health, error) {
	return get[api.Health](ctx, c, "/v1/healthz", nil)
}
