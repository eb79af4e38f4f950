package webhook

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"code.dny.dev/ssrf"
)

// Egress says where webhooks may lead: to addresses of the public internet, at the ports of
// https, and to what an operator allows besides.
type Egress struct {
	guard  *ssrf.Guardian
	hosts  []string
	ranges []netip.Prefix

	resolver *net.Resolver // of the tests; nil: the system's
}

// ports are those of https, with the one that many use where they can't have it.
var ports = []uint16{443, 8443}

// NewEgress makes an Egress. Each of allow is a range of addresses, as 10.0.0.0/8, an address
// or the name of a host, which webhooks may lead to at any port; for development, and for
// receivers in a network of one's own.
func NewEgress(allow []string) (*Egress, error) {
	e := &Egress{guard: ssrf.New(ssrf.WithPorts(ports...))}
	for _, text := range allow {
		if r, err := netip.ParsePrefix(text); err == nil {
			e.ranges = append(e.ranges, r.Masked())
		} else if a, err := netip.ParseAddr(text); err == nil {
			e.ranges = append(e.ranges, netip.PrefixFrom(a, a.BitLen()))
		} else if hostName.MatchString(text) {
			e.hosts = append(e.hosts, strings.ToLower(text))
		} else {
			return nil, fmt.Errorf("%q is no range of addresses and no name of a host", text)
		}
	}
	return e, nil
}

var (
	hostName = regexp.MustCompile(`^([A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?\.)*[A-Za-z_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?$`)
	// numeric is the end of what resolvers may take for a number that is an address.
	numeric = regexp.MustCompile(`(^|\.)(0[xX][0-9a-fA-F]*|[0-9]+)\.?$`)
)

// refuses says why a URL can't be a webhook's; empty if it can.
func (e *Egress) refuses(text string) string {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "" || u.Opaque != "":
		return "must be a URL, such as https://receiver.example/muniment"
	case len(text) > maxURL:
		return fmt.Sprintf("must be at most %d bytes long", maxURL)
	case u.Scheme != "https":
		return "must begin with https://"
	case u.User != nil:
		return "must not hold a user or a password"
	case strings.Contains(text, "#"):
		return "must not have a fragment"
	}
	host, port := u.Hostname(), u.Port()
	if e.allowsHost(host) {
		return ""
	}
	if address, err := netip.ParseAddr(host); err == nil {
		if e.allowsAddress(address) {
			return ""
		}
		if e.guard.SafeAddr(address) != nil {
			return "must not lead to a private or special address"
		}
	} else if numeric.MatchString(host) || !hostName.MatchString(host) || !strings.Contains(host, ".") {
		return "must name a host of the public internet"
	}
	if port != "" && !slices.ContainsFunc(ports, func(p uint16) bool { return port == fmt.Sprint(p) }) {
		return "must have port 443 or 8443"
	}
	return ""
}

func (e *Egress) allowsHost(host string) bool { return slices.Contains(e.hosts, strings.ToLower(host)) }

func (e *Egress) allowsAddress(a netip.Addr) bool {
	a = a.Unmap()
	return slices.ContainsFunc(e.ranges, func(r netip.Prefix) bool { return r.Contains(a) })
}

// How long a receiver may take, and what is read of its answer.
const (
	dialTimeout, attemptTimeout = 5 * time.Second, 15 * time.Second
	maxAnswer, maxHeaders       = 64 << 10, 16 << 10
)

// client makes attempts.
type client struct{ http *http.Client }

// newClient makes a client that dials where an Egress allows it, follows no redirect, knows no
// proxy, and keeps few connections.
func newClient(egress *Egress, roots *x509.CertPool) *client {
	guarded := &net.Dialer{Timeout: dialTimeout, Control: egress.control, Resolver: egress.resolver}
	open := &net.Dialer{Timeout: dialTimeout, Resolver: egress.resolver}
	transport := &http.Transport{
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			if host, _, err := net.SplitHostPort(address); err == nil && egress.allowsHost(host) {
				return open.DialContext(ctx, network, address)
			}
			return guarded.DialContext(ctx, network, address)
		},
		TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}, TLSHandshakeTimeout: dialTimeout, ForceAttemptHTTP2: true,
		MaxIdleConns: 256, MaxIdleConnsPerHost: webhookAtOnce, IdleConnTimeout: 30 * time.Second, MaxResponseHeaderBytes: maxHeaders, DisableCompression: true,
	}
	return &client{&http.Client{Transport: transport, Timeout: attemptTimeout, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
}

// control judges an address that is about to be dialled.
func (e *Egress) control(network, address string, c syscall.RawConn) error {
	if at, err := netip.ParseAddrPort(address); err == nil && e.allowsAddress(at.Addr()) {
		return nil
	}
	return e.guard.Safe(network, address, c)
}

// post makes an attempt. Its outcome lacks when it was and how long it took.
func (c *client) post(ctx context.Context, url, id string, at time.Time, body []byte, signature string) *outcome {
	o := &outcome{}
	fail := func(err error) *outcome {
		o.attempt.Error = new(whyNot(err))
		return o
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return fail(err)
	}
	req.Header = http.Header{
		"Content-Type": {"application/json"}, "User-Agent": {"muniment"}, "Webhook-Id": {id}, "Webhook-Timestamp": {unix(at)}, "Webhook-Signature": {signature},
	}
	answer, err := c.http.Do(req)
	if err != nil {
		return fail(err)
	}
	defer answer.Body.Close()
	o.attempt.Status = &answer.StatusCode
	o.retryAfter = retryAfter(answer.Header.Get("Retry-After"), at)
	text, _ := io.ReadAll(io.LimitReader(answer.Body, maxAnswer)) // the status is the answer
	excerpt := strings.ReplaceAll(strings.ToValidUTF8(string(text[:min(len(text), maxExcerpt)]), ""), "\x00", "")
	o.attempt.BodyExcerpt = &excerpt
	return o
}

// retryAfter reads the header of that name; 0 for none that can be read.
func retryAfter(text string, now time.Time) time.Duration {
	if seconds, err := strconv.ParseUint(text, 10, 31); err == nil {
		return time.Duration(seconds) * time.Second
	}
	if at, err := http.ParseTime(text); err == nil {
		return max(0, at.Sub(now))
	}
	return 0
}

// whyNot says why there was no answer, and nothing of the network that the service is in.
func whyNot(err error) string {
	var name *net.DNSError
	var certificate *tls.CertificateVerificationError
	var timeout net.Error
	switch {
	case errors.Is(err, ssrf.ErrProhibitedIP), errors.Is(err, ssrf.ErrProhibitedPort), errors.Is(err, ssrf.ErrProhibitedNetwork):
		return "leads to a private or special address, or to a port that is not 443 or 8443"
	case errors.As(err, &name):
		return "the name of the host can't be resolved"
	case errors.As(err, &certificate):
		return "the certificate can't be verified"
	case errors.As(err, &timeout) && timeout.Timeout():
		return "no answer in time"
	}
	return "the connection failed"
}
