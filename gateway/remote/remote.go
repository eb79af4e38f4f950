// Package remote is what the commands have in common that call a service for as long as it takes
// (muniment ingest, muniment export): the check of its URL and key, what a refusal is, and how long
// to wait before the next attempt. It sends nothing.
package remote

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"muniment.example/sealer/terminal"
)

const (
	// firstDelay doubles with each attempt, up to mostDelay.
	firstDelay = 500 * time.Millisecond
	mostDelay  = 30 * time.Second
	// mostAfter is the longest Retry-After that is kept to.
	mostAfter = 10 * time.Minute
	// maxText is the most that is shown of a text of the service.
	maxText = 1000
)

// Base returns the URL of a service without a slash at its end. An error does not show the key, as a
// part of it may be right.
func Base(address, key string) (base string, err error) {
	u, err := url.Parse(address)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.RawQuery != "" || u.Fragment != "" || u.User != nil:
		return "", fmt.Errorf("the URL of the service %q is invalid: it must be like https://muniment.example", address)
	case key == "":
		return "", errors.New("the API key is missing")
	case strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r >= 0x7f }):
		return "", errors.New("the API key is malformed")
	}
	return strings.TrimSuffix(u.String(), "/"), nil
}

// Client returns a client that does not follow redirects, which would send the key elsewhere. through is
// http.DefaultTransport if nil.
func Client(through http.RoundTripper) http.Client {
	if through == nil {
		through = http.DefaultTransport
	}
	return http.Client{Transport: through, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// Refusal is a response that is no success.
type Refusal struct {
	Status        int
	Code, Message string        // as the service has sent them; empty if something else answers
	After         time.Duration // Retry-After; 0 for none
}

// ReadRefusal reads the refusal of a response with this body.
func ReadRefusal(resp *http.Response, body []byte) *Refusal {
	r := &Refusal{Status: resp.StatusCode}
	var envelope struct{ Error, Message string }
	if json.Unmarshal(body, &envelope) == nil {
		r.Code, r.Message = envelope.Error, envelope.Message
	}
	given := resp.Header.Get("Retry-After")
	if seconds, err := strconv.ParseUint(given, 10, 64); err == nil || errors.Is(err, strconv.ErrRange) {
		r.After = time.Duration(min(seconds, uint64(mostAfter/time.Second))) * time.Second
	} else if at, err := http.ParseTime(given); err == nil {
		r.After = time.Until(at)
	}
	r.After = min(max(r.After, 0), mostAfter)
	return r
}

// Error is for a terminal.
func (r *Refusal) Error() string {
	text := Printable(r.Message)
	if text == "" {
		text = http.StatusText(r.Status)
	}
	if r.Code != "" {
		text = Printable(r.Code) + ": " + text
	}
	return fmt.Sprintf("the service answers %d %s", r.Status, text)
}

// Passing says that the same request may be accepted later.
func (r *Refusal) Passing() bool {
	switch r.Status {
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		return true
	case http.StatusNotImplemented, http.StatusHTTPVersionNotSupported:
		return false
	}
	return r.Status >= 500
}

// Printable is the beginning of a text of the service, for a terminal.
func Printable(text string) string { return terminal.Text(text[:min(len(text), maxText)]) }

// Wait waits before the next attempt, until ctx ends: longer after each attempt, whose number begins
// with 0, at least as long as the service asks for if r is not nil, and with jitter. It returns false at
// once if the service asks for more than is left.
func Wait(ctx context.Context, attempt int, r *Refusal, left time.Duration) bool {
	if r != nil && r.After > left {
		return false
	}
	t := time.NewTimer(delay(attempt, r))
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
	return true
}

func delay(attempt int, r *Refusal) time.Duration {
	most := min(firstDelay<<min(attempt, 10), mostDelay)
	jitter := rand.N(most/2) + 1
	if r != nil && r.After > 0 {
		return r.After + jitter
	}
	return most/2 + jitter
}
