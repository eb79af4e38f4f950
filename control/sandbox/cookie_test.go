package sandbox

import (
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/gateway/api"
)

func TestCookieIsItsTenant(t *testing.T) {
	s := newSecret()
	id := api.NewID(api.PrefixTenant, time.Now())
	got, ok := s.check(s.sign(id))
	require.True(t, ok)
	require.Equal(t, id, got)
}

// TestForgedCookies: every flipped bit, every prefix of a value, another tenant's HMAC, and every
// flipped bit of the secret.
func TestForgedCookies(t *testing.T) {
	s := newSecret()
	mine, other := api.NewID(api.PrefixTenant, time.Now()), api.NewID(api.PrefixTenant, time.Now())
	value := s.sign(mine)
	forged := map[string]string{
		"":                                "nothing",
		mine:                              "no HMAC",
		mine + ".":                        "an empty HMAC",
		other + value[len(mine):]:         "another tenant",
		mine + s.sign(other)[len(other):]: "another tenant's HMAC",
		value + "=":                       "padding",
		value + ".":                       "a third part",
		" " + value:                       "a space before",
		value + "\n":                      "a line break after",
		newSecret().sign(mine):            "another secret",
	}
	for i := range value {
		forged[value[:i]] = "cut short"
		for bit := range 8 {
			flipped := []byte(value)
			flipped[i] ^= 1 << bit
			forged[string(flipped)] = "a flipped bit"
		}
	}
	require.Greater(t, len(forged), 8*len(value))
	for text, what := range forged {
		_, ok := s.check(text)
		require.False(t, ok, "%s: %q", what, text)
	}
	for i := range s {
		for bit := range 8 {
			rotated := s
			rotated[i] ^= 1 << bit
			_, ok := rotated.check(value)
			require.False(t, ok, "a secret with byte %d changed", i)
		}
	}
}

func TestCookieTravelsInClearOnlyHere(t *testing.T) {
	here, there := netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("203.0.113.9")
	for host, secure := range map[string]bool{
		"localhost": false, "LOCALHOST:8080": false, "127.0.0.1": false, "127.9.9.9:80": false, "[::1]:8080": false, "::1": false,
		"example.com": true, "localhost.example.com": true, "10.0.0.1:8080": true, "": true, "[2001:db8::1]": true,
	} {
		for from, within := range map[netip.Addr]bool{here: !secure, netip.IPv6Loopback(): !secure, netip.MustParseAddr("::ffff:127.0.0.1"): !secure, there: false, {}: false} {
			require.Equal(t, within, withinMachine(host, from), "%s from %s", host, from)
		}
	}
	require.True(t, cookie("v", false).Secure)
	c := cookie("v", true)
	require.False(t, c.Secure)
	require.True(t, c.HttpOnly)
	require.Equal(t, "/", c.Path)
	require.Negative(t, cookie("", true).MaxAge)
}
