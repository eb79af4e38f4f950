package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
)

// maxAnswer bounds the length of a response. A first copy of the feed holds every
// right that was ever stopped, at a few hundred bytes each.
const maxAnswer = 1 << 30

// Client sends a node's requests to the control processes behind a URL. It caches nothing
// and does not retry. Safe for concurrent use.
type Client struct {
	base   *url.URL
	client *http.Client
}

// NewClient makes a client of a URL such as https://control.internal:9443. client
// has the TLS configuration; redirects are not followed. Nil is a default client.
//
// Over http:// credentials and responses could be read and forged on the way, so that
// is accepted for loopback addresses only.
func NewClient(control string, client *http.Client) (*Client, error) {
	base, err := url.Parse(control)
	switch {
	case err != nil || base.Host == "" || base.Scheme != "http" && base.Scheme != "https":
		return nil, fmt.Errorf("%q is not a URL of control: it must be https://host:port", control)
	case base.Scheme == "http" && !Loopback(base.Hostname()):
		return nil, fmt.Errorf("%q is neither https nor on this machine", control)
	}
	if client == nil {
		client = new(http.Client)
	}
	own := *client
	own.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &Client{base, &own}, nil
}

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
}

func (e *Refused) Error() string {
	if e.Code == "" {
		return "control answers " + e.Message
	}
	return fmt.Sprintf("control answers %d %s: %s", e.Status, e.Code, e.Message)
}

// Do sends one request, with in as its body unless that is nil, and reads the data of
// the response into out. The error is a *Refused if the status is not 200.
func (c *Client) Do(ctx context.Context, credential, method, path string, in, out any) error {
	var body io.Reader
	if in != nil {
		text, err := json.Marshal(in)
		if err != nil {
			return err
		}
		body = bytes.NewReader(text)
	}
	q, err := http.NewRequestWithContext(ctx, method, c.base.JoinPath(path).String(), body)
	if err != nil {
		return err
	}
	if credential != "" {
		q.Header.Set("Authorization", "Bearer "+credential)
	}
	if in != nil {
		q.Header.Set("Content-Type", "application/json")
	}
	resp, err := c.client.Do(q)
	if err != nil {
		return fmt.Errorf("control does not answer: %w", err)
	}
	defer resp.Body.Close()
	answer := json.NewDecoder(io.LimitReader(resp.Body, maxAnswer))
	if resp.StatusCode != http.StatusOK {
		var body ErrorBody
		if err := answer.Decode(&body); err != nil || body.Code == "" {
			return &Refused{Status: resp.StatusCode, Message: resp.Status}
		}
		return &Refused{resp.StatusCode, body.Code, body.Message, body.Field}
	}
	envelope := struct {
		OK   bool `json:"ok"`
		Data any  `json:"data"`
	}{Data: out}
	if err := answer.Decode(&envelope); err != nil {
		return fmt.Errorf("cannot read control's answer: %w", err)
	}
	if !envelope.OK {
		return errors.New("control's answer is not one: ok is not true")
	}
	return nil
}
