package webhook

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"code.dny.dev/ssrf"

	"muniment.example/pipeline/trace"
)

// Egress decides where webhooks may connect: to addresses of the public internet at the ports of
// https, and to what an operator allows in addition. To this machine, if that is allowed, they may
// connect without TLS.
type Egress struct {
	guard  *ssrf.Guardian
	hosts  []string
	ranges []netip.Prefix

	resolver *net.Resolver // set by tests; nil: the system's
}

// ports are the port of https and its usual alternative.
var ports = []uint16{443, 8443}

// NewEgress returns an Egress. Each element of allow is an address range such as 10.0.0.0/8, an
// address or a host name, to which webhooks may connect at any port: for development, and for
// receivers in a private network.
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
			return nil, fmt.Errorf("%q is neither an address range nor a host name", text)
		}
	}
	return e, nil
}

var (
	hostName = regexp.MustCompile(`^([A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?\.)*[A-Za-z_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?$`)
	// numeric matches hosts that end in a number, which resolvers may parse as an address.
	numeric = regexp.MustCompile(`(^|\.)(0[xX][0-9a-fA-F]*|[0-9]+)\.?$`)
)

// refuses returns why a webhook can't have the URL; empty if it can.
func (e *Egress) refuses(text string) string {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "" || u.Opaque != "":
		return "must be a URL, such as https://receiver.example/muniment"
	case len(text) > maxURL:
		return fmt.Sprintf("must be at most %d bytes long", maxURL)
	case u.Scheme == "http" && isLoopback(u.Hostname()):
		if !e.allows(u.Hostname()) {
			return "must begin with https://" + unless(u.Hostname())
		}
	case u.Scheme != "https":
		return "must begin with https://, unless it leads to this machine by a loopback address that the operator allows, as with --webhook-allow 127.0.0.1"
	}
	switch {
	case u.User != nil:
		return "must not hold a user or a password"
	case strings.Contains(text, "#"):
		return "must not have a fragment"
	}
	host, port := u.Hostname(), u.Port()
	if e.allows(host) {
		return ""
	}
	if address, err := netip.ParseAddr(host); err == nil {
		if e.guard.SafeAddr(address) != nil {
			return "must not lead to a private or special address" + unless(host)
		}
	} else if numeric.MatchString(host) || !hostName.MatchString(host) {
		return "must name a host of the public internet"
	} else if !strings.Contains(host, ".") {
		return "must name a host of the public internet" + unless(host)
	}
	if port != "" && !slices.ContainsFunc(ports, func(p uint16) bool { return port == fmt.Sprint(p) }) {
		return "must have port 443 or 8443" + unless(host)
	}
	return ""
}

// unless ends the reason why a webhook can't lead to a host that the operator may allow.
func unless(host string) string {
	return fmt.Sprintf(", unless the operator allows the host, as with --webhook-allow %s", host)
}

// isLoopback reports whether a host is this machine, by its name or by an address.
func isLoopback(host string) bool {
	address, err := netip.ParseAddr(host)
	return strings.EqualFold(host, "localhost") || err == nil && address.Unmap().IsLoopback()
}

// allows reports whether an operator allows a host by its name or address.
func (e *Egress) allows(host string) bool {
	if address, err := netip.ParseAddr(host); err == nil && e.allowsAddress(address) {
		return true
	}
	return e.allowsHost(host)
}

func (e *Egress) allowsHost(host string) bool { return slices.Contains(e.hosts, strings.ToLower(host)) }

func (e *Egress) allowsAddress(a netip.Addr) bool {
	a = a.Unmap()
	return slices.ContainsFunc(e.ranges, func(r netip.Prefix) bool { return r.Contains(a) })
}

// How long a receiver may take, and how much of its response is read.
const (
	dialTimeout, attemptTimeout = 5 * time.Second, 15 * time.Second
	maxAnswer, maxHeaders       = 64 << 10, 16 << 10
)

// challengeHeader is the header of a request that a host echoes if it agrees to get messages.
const challengeHeader = "Webhook-Challenge"

// client makes attempts.
type client struct {
	http   *http.Client
	egress *Egress
}

// newClient returns a client that connects only where an Egress allows, follows no redirects, uses no
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
	return &client{&http.Client{Transport: transport, Timeout: attemptTimeout, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}, egress}
}

// control refuses a connection to an address that is not allowed. It sees the resolved address, so
// DNS can't bypass it.
func (e *Egress) control(network, address string, c syscall.RawConn) error {
	if at, err := netip.ParseAddrPort(address); err == nil && e.allowsAddress(at.Addr()) {
		return nil
	}
	return e.guard.Safe(network, address, c)
}

// post sends a delivery. Of what only an operator allows, the outcome has the status alone: a tenant
// must not read internal services, or find out what is there, by its webhooks. The caller adds time and duration to the outcome.
func (c *client) post(ctx context.Context, url, id string, at time.Time, body []byte, signature string) *outcome {
	o := &outcome{}
	o.private.Store(c.egress.allows(hostOf(url)))
	fail := func(err error) *outcome {
		why := "no response"
		if !o.private.Load() {
			why = whyNot(err)
		}
		o.attempt.Error = &why
		return o
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return fail(err)
	}
	challenge := rand.Text()
	req.Header = http.Header{
		challengeHeader: {challenge}, "Content-Type": {"application/json"}, "User-Agent": {"muniment"}, "Webhook-Id": {id}, "Webhook-Timestamp": {unix(at)}, "Webhook-Signature": {signature},
	}
	if traceparent := trace.From(ctx).Traceparent(); traceparent != "" {
		req.Header.Set(trace.Header, traceparent)
	}
	answer, err := c.http.Do(req.WithContext(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		ConnectStart: func(_, address string) { o.saw(c.egress, address) },
		GotConn:      func(conn httptrace.GotConnInfo) { o.saw(c.egress, conn.Conn.RemoteAddr().String()) }, // which may be an earlier attempt's
	})))
	if err != nil {
		return fail(err)
	}
	defer answer.Body.Close()
	o.attempt.Status, o.agreed = &answer.StatusCode, answer.Header.Get(challengeHeader) == challenge || o.private.Load()
	o.retryAfter = retryAfter(answer.Header.Get("Retry-After"), at)
	text, _ := io.ReadAll(io.LimitReader(answer.Body, maxAnswer)) // an incomplete body doesn't matter
	if o.private.Load() {
		return o
	}
	excerpt := strings.ReplaceAll(strings.ToValidUTF8(string(text[:min(len(text), maxExcerpt)]), ""), "\x00", "")
	o.attempt.BodyExcerpt = &excerpt
	return o
}

// saw records to which address an attempt leads.
func (o *outcome) saw(e *Egress, address string) {
	if at, err := netip.ParseAddrPort(address); err == nil && e.allowsAddress(at.Addr()) {
		o.private.Store(true)
	}
}

// retryAfter parses the header Retry-After; 0 if it is absent or invalid.
func retryAfter(text string, now time.Time) time.Duration {
	if seconds, err := strconv.ParseUint(text, 10, 31); err == nil {
		return time.Duration(seconds) * time.Second
	}
	if at, err := http.ParseTime(text); err == nil {
		return max(0, at.Sub(now))
	}
	return 0
}

// whyNot describes why there was no response, without details of the service's network.
func whyNot(err error) string {
	var name *net.DNSError
	var certificate *tls.CertificateVerificationError
	var timeout net.Error
	switch {
	case errors.Is(err, ssrf.ErrProhibitedIP), errors.Is(err, ssrf.ErrProhibitedPort), errors.Is(err, ssrf.ErrProhibitedNetwork):
		return "leads to a private or special address, or to a port that is not 443 or 8443; the operator may allow it, by --webhook-allow"
	case errors.As(err, &name):
		return "the name of the host can't be resolved"
	case errors.As(err, &certificate):
		return "the certificate can't be verified"
	case errors.As(err, &timeout) && timeout.Timeout():
		return "no response in time"
	}
	return "the connection failed"
}
