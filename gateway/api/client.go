package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync/atomic"
	"time"
)

// maxAnswer bounds the length of a response. A first copy of the feed holds every
// right that was ever stopped, at a few hundred bytes each.
const maxAnswer = 1 << 30

// HeaderNotBegun is on a 503 of a control process that has not begun the request, so that another one
// may take it. Gateways do not pass it on.
const HeaderNotBegun = "X-Muniment-Not-Begun"

// HeaderSession is on what control answers to a page of the console: the id of the tenant whose session the request has, or
// NoSession. It is for the gateway, and no caller gets it. A tenant of the sandbox has none.
const (
	HeaderSession = "X-Muniment-Session"
	NoSession     = "none"
	// CookieSession is a part of the name of the console's cookie, and of no other.
	CookieSession = "muniment_session"
)

// Client sends a node's requests to the control processes behind one URL or several, all of one database.
// It stays with one URL until that fails: a request that surely did not reach control, or that control has not
// begun, goes to the next URL at once; after any other failure the next request does. It caches nothing and
// sends nothing twice. Safe for concurrent use.
type Client struct {
	bases   []*url.URL
	current Current
	client  *http.Client
}

// NewClient makes a client of control's URLs, at least one, such as https://control.internal:9443. client
// has the TLS configuration; redirects are not followed. Nil is a default client.
//
// Over http:// credentials and responses could be read and forged on the way, so that
// is accepted for loopback addresses only.
func NewClient(control []string, client *http.Client) (*Client, error) {
	if len(control) == 0 {
		return nil, errors.New("there is no URL of control: it must be https://host:port")
	}
	if client == nil {
		client = new(http.Client)
	}
	own := *client
	own.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	c := &Client{client: &own}
	for _, one := range control {
		base, err := url.Parse(one)
		switch {
		case err != nil || base.Host == "" || strings.Contains(base.Host, ",") || base.Scheme != "http" && base.Scheme != "https":
			return nil, fmt.Errorf("%q is not a URL of control: it must be https://host:port", one)
		case base.Scheme == "http" && !Loopback(base.Hostname()):
			return nil, fmt.Errorf("%q is neither https nor on this machine: it must be https://host:port", one)
		}
		c.bases = append(c.bases, base)
	}
	c.current = NewCurrent(len(c.bases))
	return c, nil
}

// Current is the one of several addresses that requests go to, from the first on, until it fails. Safe for
// concurrent use.
type Current struct {
	n  int
	at *atomic.Int64
}

// NewCurrent makes a Current of n addresses.
func NewCurrent(n int) Current { return Current{n, new(atomic.Int64)} }

// Order returns the addresses in the order in which a request tries them, from the current one.
func (c Current) Order() iter.Seq[int] {
	return func(yield func(int) bool) {
		first := int(c.at.Load())
		for i := range c.n {
			if !yield((first + i) % c.n) {
				return
			}
		}
	}
}

// Failed makes the address after i the current one, unless another request has done so.
func (c Current) Failed(i int) { c.at.CompareAndSwap(int64(i), int64((i+1)%c.n)) }

// Loopback reports whether a host is localhost or a loopback address.
func Loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// Refused is a response of control with another status than 200.
type Refused struct {
	Status  int
	Code    Code // "" if it was not control that answered
	Message string
	Field   string // the first at fault; "" if none was named
	// RetryAfter is how long control asks to wait; 0 if it does not.
	RetryAfter time.Duration
}

func (e *Refused) Error() string {
	if e.Code == "" {
		return "control answers " + e.Message
	}
	return fmt.Sprintf("control answers %d %s: %s", e.Status, e.Code, e.Message)
}

// Do sends one request, with in as its body unless that is nil, and reads the data of
// the response into out. The error is a *Refused if the status is not 200.
func (c *Client) Do(ctx context.Context, credential, method, path string, in, out any) (err error) {
	var body []byte
	if in != nil {
		if body, err = json.Marshal(in); err != nil {
			return err
		}
	}
	for i := range c.current.Order() {
		begun := false
		if begun, err = c.send(ctx, c.bases[i], credential, method, path, body, out); err == nil {
			return nil
		}
		if refused, ok := errors.AsType[*Refused](err); ok && refused.Status < http.StatusInternalServerError || errors.Is(ctx.Err(), context.Canceled) {
			return err
		}
		c.current.Failed(i)
		if begun || ctx.Err() != nil {
			return err
		}
	}
	return err
}

// send sends a request to one URL. begun is false only if control has surely not begun it.
func (c *Client) send(ctx context.Context, base *url.URL, credential, method, path string, body []byte, out any) (begun bool, err error) {
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { begun = true }})
	var in io.Reader
	if body != nil {
		in = bytes.NewReader(body)
	}
	q, err := http.NewRequestWithContext(ctx, method, base.JoinPath(path).String(), in)
	if err != nil {
		return false, err
	}
	if credential != "" {
		q.Header.Set("Authorization", "Bearer "+credential)
	}
	if body != nil {
		q.Header.Set("Content-Type", "application/json")
	}
	resp, err := c.client.Do(q)
	if err != nil {
		return begun, fmt.Errorf("control does not answer: %w", err)
	}
	defer resp.Body.Close()
	answer := json.NewDecoder(io.LimitReader(resp.Body, maxAnswer))
	if resp.StatusCode != http.StatusOK {
		begun = resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get(HeaderNotBegun) == ""
		after := AskedToWait(resp.Header)
		var body ErrorBody
		if err := answer.Decode(&body); err != nil || body.Code == "" {
			return begun, &Refused{Status: resp.StatusCode, Message: resp.Status, RetryAfter: after}
		}
		return begun, &Refused{resp.StatusCode, body.Code, body.Message, body.Field, after}
	}
	envelope := struct {
		OK   bool `json:"ok"`
		Data any  `json:"data"`
	}{Data: out}
	if err := answer.Decode(&envelope); err != nil {
		return true, fmt.Errorf("cannot read control's answer: %w", err)
	}
	if !envelope.OK {
		return true, errors.New("control's answer is not one: ok is not true")
	}
	return true, nil
}
