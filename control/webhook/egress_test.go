package webhook

import (
	"context"
	"crypto/x509"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"code.dny.dev/ssrf"
	"github.com/stretchr/testify/require"
)

// trap is a listener on every address of this machine that nothing may connect to.
type trap struct {
	port int
	met  atomic.Int64
}

func newTrap(t *testing.T) *trap {
	l, err := net.Listen("tcp", ":0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	p := &trap{port: l.Addr().(*net.TCPAddr).Port}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			p.met.Add(1)
			_ = c.Close()
		}
	}()
	return p
}

// resolver answers every question for a name with addresses of the tests' choice.
func resolver(answers func(name string) []netip.Addr) *net.Resolver {
	return &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		ours, theirs := net.Pipe()
		go func() {
			defer ours.Close()
			for {
				var size [2]byte
				if _, err := io.ReadFull(ours, size[:]); err != nil {
					return
				}
				q := make([]byte, binary.BigEndian.Uint16(size[:]))
				if _, err := io.ReadFull(ours, q); err != nil {
					return
				}
				a := reply(q, answers)
				if _, err := ours.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(a))), a...)); err != nil {
					return
				}
			}
		}()
		return theirs, nil
	}}
}

// reply answers a question of RFC 1035 for A or AAAA.
func reply(q []byte, answers func(name string) []netip.Addr) []byte {
	var labels []string
	end := 12
	for q[end] != 0 {
		labels = append(labels, string(q[end+1:end+1+int(q[end])]))
		end += 1 + int(q[end])
	}
	kind := binary.BigEndian.Uint16(q[end+1:])
	end += 5
	var records []byte
	n := uint16(0)
	for _, a := range answers(strings.Join(labels, ".")) {
		if a.Is4() == (kind == 1) {
			n++
			records = append(records, 0xc0, 12, 0, byte(kind), 0, 1, 0, 0, 0, 0)
			records = append(binary.BigEndian.AppendUint16(records, uint16(len(a.AsSlice()))), a.AsSlice()...)
		}
	}
	head := append([]byte{q[0], q[1], 0x81, 0x80, 0, 1}, byte(n>>8), byte(n), 0, 0, 0, 0)
	return append(append(head, q[12:end]...), records...)
}

// TestEgressMeetsNoTrap: no URL leads to a connection to this machine or its networks.
func TestEgressMeetsNoTrap(t *testing.T) {
	p := newTrap(t)
	rebound := 0
	names := resolver(func(name string) []netip.Addr {
		addresses := map[string]string{
			"six.example": "::1", "mapped.example": "::ffff:127.0.0.1", "meta.example": "169.254.169.254", "any.example": "0.0.0.0", "ula.example": "fd00:ec2::254", "nat64.example": "64:ff9b::7f00:1",
		}
		if text, known := addresses[name]; known {
			return []netip.Addr{netip.MustParseAddr(text)}
		}
		if name == "rebinding.example" {
			if rebound++; rebound%2 == 1 {
				return []netip.Addr{netip.MustParseAddr("10.255.255.254"), netip.MustParseAddr("127.0.0.1")}
			}
		}
		return []netip.Addr{netip.MustParseAddr("127.0.0.1")} // also of what a resolver of the system takes for a number
	})
	open := func(allow ...string) *client {
		e, err := NewEgress(allow)
		require.NoError(t, err)
		e.guard, e.resolver = ssrf.New(ssrf.WithPorts(uint16(p.port))), names // a port that the trap can have
		c := newClient(e, nil)
		c.http.Timeout = 2 * time.Second
		return c
	}
	post := func(c *client, host string) *outcome {
		return c.post(t.Context(), fmt.Sprintf("https://%s:%d/", host, p.port), "dlv_x", noon, []byte("{}"), "v1,x")
	}
	hosts := []string{
		"127.0.0.1", "127.0.0.2", "127.255.255.254", "0.0.0.0", "0.0.0.1", "10.0.0.1", "10.255.255.255", "172.16.0.1", "172.31.255.255", "192.168.0.1",
		"169.254.169.254", "169.254.170.2", "100.64.0.1", "100.100.100.200", "192.0.0.192", "192.0.2.1", "198.18.0.1", "198.51.100.1", "203.0.113.1", "224.0.0.1", "240.0.0.1", "255.255.255.255",
		"[::1]", "[::]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[::ffff:169.254.169.254]", "[::127.0.0.1]", "[64:ff9b::7f00:1]", "[2002:7f00:1::]", "[2001:db8::1]", "[fe80::1]", "[fd00:ec2::254]", "[fc00::1]", "[ff02::1]",
		"2130706433", "0x7f000001", "0177.0.0.1", "017700000001", "127.1", "127.0.1", "0", "127.0.0.1.", "localhost", "LOCALHOST.", "localhost.localdomain",
		"rebinding.example", "rebinding.example", "six.example", "mapped.example", "meta.example", "any.example", "ula.example", "nat64.example", "127.0.0.1.nip.example",
	}
	own, err := net.InterfaceAddrs()
	require.NoError(t, err)
	for _, a := range own {
		if ip := a.(*net.IPNet).IP; ip.To4() != nil && (ip.IsPrivate() || ip.IsLoopback()) {
			hosts = append(hosts, ip.String())
		}
	}
	c := open()
	for _, host := range hosts {
		o := post(c, host)
		require.Nil(t, o.attempt.Status, host)
		require.NotNil(t, o.attempt.Error, host)
		require.NotContains(t, *o.attempt.Error, "127.", host)
	}
	require.Zero(t, p.met.Load())

	require.Nil(t, post(open("127.0.0.1"), "rebinding.example").attempt.Status)
	require.NotZero(t, p.met.Load(), "the trap is there")
}

// TestInternalServicesStayHidden: of a receiver that only the operator allows, by name, by address, or by the range
// in which a name resolves, an attempt shows the status, and of none that there is none.
func TestInternalServicesStayHidden(t *testing.T) {
	r := newReceiver(t)
	r.answers(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "internal", http.StatusForbidden) })
	public := Config{}
	strangersOnly(t, &public)
	for _, c := range []struct{ allow, host string }{{"a.example.com", "a.example.com"}, {"127.0.0.1", "127.0.0.1"}, {"127.0.0.0/8", "a.example.com"}, {"10.0.0.0/8", "a.example.com"}} {
		e, err := NewEgress([]string{c.allow})
		require.NoError(t, err)
		e.guard, e.resolver = public.Egress.guard, public.Egress.resolver
		roots := x509.NewCertPool()
		roots.AddCert(receiverCertificate(t))
		post := func(roots *x509.CertPool, url string) Attempt {
			return newClient(e, roots).post(t.Context(), strings.Replace(url, "127.0.0.1", c.host, 1), "dlv_x", noon, []byte("{}"), "v1,x").attempt
		}
		answered, untrusted, closed := post(roots, r.URL), post(x509.NewCertPool(), r.URL), post(roots, "https://127.0.0.1:1")
		require.Equal(t, 403, *answered.Status)
		if c.allow == "10.0.0.0/8" {
			require.Equal(t, "internal\n", *answered.BodyExcerpt)
			require.Equal(t, "the certificate can't be verified", *untrusted.Error)
			require.Equal(t, "the connection failed", *closed.Error)
			continue
		}
		require.Nil(t, answered.BodyExcerpt, c.allow)
		require.Equal(t, "no response", *untrusted.Error, c.allow)
		require.Equal(t, "no response", *closed.Error, c.allow)
	}
}

// TestAKeptConnectionStaysHidden, though a second attempt connects to nothing.
func TestAKeptConnectionStaysHidden(t *testing.T) {
	r := newReceiver(t)
	public := Config{}
	strangersOnly(t, &public)
	e, err := NewEgress([]string{"127.0.0.0/8"})
	require.NoError(t, err)
	e.guard, e.resolver = public.Egress.guard, public.Egress.resolver
	roots := x509.NewCertPool()
	roots.AddCert(receiverCertificate(t))
	c := newClient(e, roots)
	for range 2 {
		o := c.post(t.Context(), strings.Replace(r.URL, "127.0.0.1", "a.example.com", 1), "dlv_x", noon, []byte("{}"), "v1,x")
		require.Equal(t, 200, *o.attempt.Status)
		require.Nil(t, o.attempt.BodyExcerpt)
	}
}

// TestProxyIsIgnored that the environment names.
func TestProxyIsIgnored(t *testing.T) {
	p := newTrap(t)
	for _, name := range []string{"HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "ALL_PROXY"} {
		t.Setenv(name, fmt.Sprintf("http://127.0.0.1:%d", p.port))
	}
	e, err := NewEgress([]string{"127.0.0.1"})
	require.NoError(t, err)
	e.resolver = resolver(func(string) []netip.Addr { return []netip.Addr{netip.MustParseAddr("127.0.0.1")} })
	o := newClient(e, nil).post(t.Context(), "https://receiver.example/", "dlv_x", noon, []byte("{}"), "v1,x")
	require.NotNil(t, o.attempt.Error)
	require.Zero(t, p.met.Load())
}
