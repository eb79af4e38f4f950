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

	"muniment/gateway/api"
)

// cookieName is the contract's.
const cookieName = "svc_sandbox_tenant"

// secret signs the cookies.
type secret [32]byte

func newSecret() (s secret) {
	rand.Read(s[:]) // never fails: crypto/rand crashes the process instead
	return s
}

// sign makes a cookie's value of a tenant: its id, a dot, and an HMAC-SHA256 in
// base64url.
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

// check is the tenant of a value that sign made, with this secret. It compares texts,
// in constant time: of what base64 decoders read alike only one spelling is taken.
func (s secret) check(value string) (tenantID string, ok bool) {
	tenantID, _, _ = strings.Cut(value, ".")
	if !api.IsID(api.PrefixTenant, tenantID) || !hmac.Equal([]byte(value), []byte(s.sign(tenantID))) {
		return "", false
	}
	return tenantID, true
}

// cookie is what a browser keeps, as long as it is open; an empty value takes it away.
// It may travel in clear within this very machine only.
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
	return loopback(host) && from.Unmap().IsLoopback()
}

// loopback says whether a Host header names the machine that sent it.
func loopback(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.Trim(host, "[]")
	if a, err := netip.ParseAddr(host); err == nil {
		return a.IsLoopback()
	}
	return strings.EqualFold(host, "localhost")
}
