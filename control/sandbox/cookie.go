package sandbox

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"net"
	"net/http"
	"net/netip"
	"strings"

	"muniment.example/gateway/api"
)

// cookieName is the name in the contract.
const cookieName = "svc_sandbox_tenant"

// secret signs the cookies.
type secret [32]byte

func newSecret() (s secret) {
	rand.Read(s[:]) // never fails: crypto/rand crashes the process instead
	return s
}

// sign returns the value of a tenant's cookie: its id, a dot, and an HMAC-SHA256 in base64url.
func (s secret) sign(tenantID string) string {
	return tenantID + "." + s.mac(cookieName+"="+tenantID)
}

// hash is the keyed hash of a subscriber's address.
func (s secret) hash(address netip.Addr) string {
	return s.mac("address=" + subscriber(address).String())
}

func (s secret) mac(text string) string {
	h := hmac.New(sha256.New, s[:])
	h.Write([]byte(text)) // never fails
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil))
}

// check returns the tenant of a value that sign made with this secret. It compares the encoded
// texts, in constant time, so another base64 spelling of the same bytes is rejected.
func (s secret) check(value string) (tenantID string, ok bool) {
	tenantID, _, _ = strings.Cut(value, ".")
	if !api.IsID(api.PrefixTenant, tenantID) || !hmac.Equal([]byte(value), []byte(s.sign(tenantID))) {
		return "", false
	}
	return tenantID, true
}

// cookie returns the session cookie with a value; an empty value deletes it. It may be sent
// without TLS only if the browser is on this machine.
func cookie(value string, within bool) *http.Cookie {
	c := &http.Cookie{Name: cookieName, Value: value, Path: "/", HttpOnly: true, SameSite: http.SameSiteLaxMode, Secure: !within}
	if value == "" {
		c.MaxAge = -1
	}
	return c
}

// withinMachine says whether a request came from this machine. A Host header alone does not say
// that: a proxy may put its own there.
func withinMachine(host string, from netip.Addr) bool {
	return Loopback(host) && from.Unmap().IsLoopback()
}

// WithinMachine says whether a request came from this machine, under an address of this machine.
func WithinMachine(r *http.Request) bool { return withinMachine(r.Host, addressOf(r)) }

// Loopback says whether a Host header names the machine that sent it.
func Loopback(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.Trim(host, "[]")
	if a, err := netip.ParseAddr(host); err == nil {
		return a.IsLoopback()
	}
	return strings.EqualFold(host, "localhost")
}
