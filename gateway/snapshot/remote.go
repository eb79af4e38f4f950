package snapshot

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

	"muniment/gateway/api"
)

// maxAnswer bounds what is read of one answer. A first copy of the feed holds every
// right that was ever stopped, at a few hundred bytes each.
const maxAnswer = 1 << 30

// Remote is a Source in another process, over HTTP. It keeps nothing and tries
// nothing twice: View asks again, and counts its lease from the question.
type Remote struct {
	base       *url.URL
	credential string
	client     *http.Client
}

var _ Source = (*Remote)(nil)

// NewRemote makes a Source of the control processes behind a URL, such as
// https://control.internal:9443. credential is the node's own; client holds what
// is trusted (TLS) and must not follow redirects to elsewhere; nil is a plain one.
//
// Over http:// credential and answers could be read and forged on the way, so that
// is accepted for loopback addresses only.
func NewRemote(control, credential string, client *http.Client) (*Remote, error) {
	base, err := url.Parse(control)
	switch {
	case err != nil || base.Host == "" || base.Scheme != "http" && base.Scheme != "https":
		return nil, fmt.Errorf("%q is no URL of control: it must be https://host:port", control)
	case base.Scheme == "http" && !loopback(base.Hostname()):
		return nil, fmt.Errorf("%q is neither https nor on this machine", control)
	case credential == "":
		return nil, errors.New("the node has no credential: enrol it first")
	}
	if client == nil {
		client = new(http.Client)
	}
	own := *client
	own.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &Remote{base, credential, &own}, nil
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// Feed implements Source.
func (r *Remote) Feed(ctx context.Context, q api.FeedRequest) (f api.Feed, err error) {
	body, err := json.Marshal(q)
	if err != nil {
		return f, err
	}
	return f, r.ask(ctx, http.MethodPost, api.PathFeed, body, &f)
}

// Right implements Source.
func (r *Remote) Right(ctx context.Context, rightID string) (*api.Right, int64, error) {
	var a api.RightAnswer
	err := r.ask(ctx, http.MethodGet, api.PathRights+"/"+url.PathEscape(rightID), nil, &a)
	return a.Right, a.AsOf, err
}

// Key implements Source.
func (r *Remote) Key(ctx context.Context, keyID string) (*api.Key, int64, error) {
	var a api.KeyAnswer
	err := r.ask(ctx, http.MethodGet, api.PathKeys+"/"+url.PathEscape(keyID), nil, &a)
	return a.Key, a.AsOf, err
}

// ask sends one request and reads the data of its answer into out.
func (r *Remote) ask(ctx context.Context, method, path string, body []byte, out any) error {
	q, err := http.NewRequestWithContext(ctx, method, r.base.JoinPath(path).String(), bytes.NewReader(body))
	if err != nil {
		return err
	}
	q.Header.Set("Authorization", "Bearer "+r.credential)
	if body != nil {
		q.Header.Set("Content-Type", "application/json")
	}
	resp, err := r.client.Do(q)
	if err != nil {
		return fmt.Errorf("control does not answer: %w", err)
	}
	defer resp.Body.Close()
	answer := json.NewDecoder(io.LimitReader(resp.Body, maxAnswer))
	if resp.StatusCode != http.StatusOK {
		var told api.ErrorBody
		if err := answer.Decode(&told); err != nil {
			return fmt.Errorf("control answers %s", resp.Status)
		}
		return fmt.Errorf("control answers %d %s: %s", resp.StatusCode, told.Code, told.Message)
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
