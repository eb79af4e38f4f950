package gateway

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"muniment.example/bench/waittest"
	"muniment.example/gate"
	"muniment.example/gateway/api"
	"muniment.example/gateway/certs/certstest"
	"muniment.example/gateway/issue"
	"muniment.example/gateway/issue/issuetest"
	"muniment.example/gateway/snapshot"
)

// today is the fixture's clock; that of the lease stands still too.
var today = issuetest.Today

// world is a gateway on a loopback socket with all that it needs.
type world struct {
	t        testing.TB
	control  *issuetest.Control
	key      ed25519.PrivateKey // signs receipts
	log      *issuetest.Log
	view     *snapshot.View
	issuer   *issue.Issuer
	gateway  *Gateway
	addr     string
	tls      bool // whether the gateway speaks TLS
	registry *prometheus.Registry
	skew     atomic.Int64   // how far the lease's clock was set forward
	tune     func(*Gateway) // before it runs; may be nil
	front    func(net.Listener) net.Listener
	stop     context.CancelFunc // SIGTERM
	end      func() error       // SIGTERM, and wait for the exit

	token, otherToken, readToken string
	right, suspended, foreign    string
}

// settings are what a test may change before a gateway starts. The issuer has the gateway's
// clock and logger.
type settings struct {
	Config
	Issue issue.Config
}

func rightID(n int) string { return issuetest.RightID(n) }

func (w *world) putRight(n int, tenant string, s gate.Substrate, scope string, state api.RightState) string {
	return w.control.PutRight(n, tenant, s, scope, state)
}

// newWorld starts a gateway; change may alter its configuration first.
func newWorld(t testing.TB, change func(*settings)) *world {
	w := newStill(t)
	w.start(change)
	return w
}

// newStill is a world that has yet to start.
func newStill(t testing.TB) *world {
	w := &world{t: t, control: issuetest.NewControl()}
	w.token = w.control.PutKey(t, 1, "tnt_a", api.EveryScope, false)
	w.otherToken = w.control.PutKey(t, 2, "tnt_b", api.EveryScope, false)
	w.readToken = w.control.PutKey(t, 3, "tnt_a", api.Scopes(api.RightsRead|api.AuditRead), false)
	w.right = w.putRight(1, "tnt_a", gate.DOOH, "", api.RightActive)
	w.suspended = w.putRight(2, "tnt_a", gate.DOOH, "", api.RightSuspended)
	w.foreign = w.putRight(3, "tnt_b", gate.DOOH, "", api.RightActive)
	w.key = ed25519.NewKeyFromSeed(bytes.Repeat([]byte{7}, ed25519.SeedSize))
	w.log = &issuetest.Log{T: t, Keys: []ed25519.PublicKey{w.key.Public().(ed25519.PublicKey)}}
	return w
}

func (w *world) start(change func(*settings)) {
	t := w.t
	w.registry = prometheus.NewRegistry()
	view, err := snapshot.New(snapshot.Config{Source: w.control, NodeID: "nod_1", Capacity: 1000, Registerer: w.registry,
		Clock: func() time.Duration { return time.Duration(w.skew.Load()) }})
	require.NoError(t, err)
	w.view = view
	// However slow the machine is, nothing ends by the times unless a test says so.
	set := settings{Config{
		Rights:      view,
		DialControl: []func() (net.Conn, error){func() (net.Conn, error) { return nil, errors.New("no control here") }},
		Now:         func() time.Time { return today },
		DrainGrace:  50 * time.Millisecond,
		BusyPause:   time.Millisecond,
		Registerer:  w.registry,
		ReadTimeout: time.Hour, WriteTimeout: time.Hour, DrainTimeout: time.Hour,
	}, issue.Config{
		NodeID: "nod_1", Epoch: 1, Rights: view, Log: w.log, Signer: issuetest.Always(issuetest.SignerOf(w.key)), Registerer: w.registry,
		Timeout: time.Hour, IdempotencyWait: time.Hour,
	}}
	if change != nil {
		change(&set)
	}
	set.Issue.Now, set.Issue.Logger = set.Now, set.Logger
	w.issuer, err = issue.New(set.Issue)
	require.NoError(t, err)
	set.Issuer = w.issuer
	w.gateway, err = New(set.Config)
	require.NoError(t, err)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	w.addr, w.tls = ln.Addr().String(), set.TLS != nil
	if w.tune != nil {
		w.tune(w.gateway)
	}
	if w.front != nil {
		ln = w.front(ln)
	}

	ctx, cancel := context.WithCancel(context.Background())
	var following sync.WaitGroup
	following.Go(func() { _ = view.Run(ctx) })
	running, stop := context.WithCancel(ctx)
	issuing, endIssuing := context.WithCancel(ctx)
	ended, issued := make(chan error, 1), make(chan error, 1)
	issuer := w.issuer
	go func() { issued <- issuer.Run(issuing) }()
	end := sync.OnceValue(func() error {
		stop()
		err := <-ended
		endIssuing()
		return errors.Join(err, <-issued)
	})
	w.stop, w.end = stop, end
	go func() { ended <- w.gateway.Run(running, taken(ln)) }()
	t.Cleanup(func() {
		require.NoError(t, end())
		cancel()
		following.Wait()
		view.Close()
	})
	waittest.Until(t, func() bool { return w.gateway.phase.Load() == serving && view.Fresh() == nil })
}

// taken is a listener for Run that was there before.
func taken(ln net.Listener) func(context.Context) (net.Listener, error) {
	return func(context.Context) (net.Listener, error) { return ln, nil }
}

// restart stops the gateway and starts another one on the same log.
func (w *world) restart(change func(*settings)) {
	require.NoError(w.t, w.end())
	w.start(change)
}

// reply is an answer with what tests look at.
type reply struct {
	status int
	header http.Header
	body   string
	closes bool // Connection: close
}

// dial connects, and shakes hands where the gateway speaks TLS.
func (w *world) dial() net.Conn {
	w.t.Helper()
	c, err := net.Dial("tcp", w.addr)
	require.NoError(w.t, err)
	c, err = w.greet(c)
	require.NoError(w.t, err)
	return c
}

func (w *world) greet(c net.Conn) (net.Conn, error) {
	if !w.tls {
		return c, nil
	}
	s := tls.Client(c, &tls.Config{InsecureSkipVerify: true})
	return s, s.Handshake()
}

// everyTransport runs a test over TCP and over TLS, resumed sessions or not.
func everyTransport(t *testing.T, test func(t *testing.T, transport func(*settings))) {
	for name, transport := range map[string]func(t *testing.T) func(*settings){
		"tcp": func(*testing.T) func(*settings) { return func(*settings) {} },
		"tls": func(t *testing.T) func(*settings) { return overTLS(t) },
		"tls without tickets": func(t *testing.T) func(*settings) {
			return func(c *settings) { overTLS(t)(c); c.TLS.SessionTicketsDisabled = true }
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, transport(t))
		})
	}
}

func overTLS(t testing.TB) func(*settings) {
	p := certstest.New(t).Issue(t, certstest.Leaf{})
	pair, err := tls.LoadX509KeyPair(p.Cert, p.Key)
	require.NoError(t, err)
	return func(c *settings) { c.TLS = &tls.Config{Certificates: []tls.Certificate{pair}} }
}

// raw sends bytes on a connection of its own and reads one answer.
func (w *world) raw(text string) reply {
	w.t.Helper()
	c := w.dial()
	defer c.Close()
	_, err := io.WriteString(c, text)
	require.NoError(w.t, err)
	return readReply(w.t, bufio.NewReader(c))
}

func readReply(t testing.TB, r *bufio.Reader) reply {
	t.Helper()
	resp, err := http.ReadResponse(r, nil)
	require.NoError(t, err)
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return reply{resp.StatusCode, resp.Header, string(body), resp.Close}
}

func request(token, body string, headers ...string) string {
	auth := ""
	if token != "" {
		auth = "Authorization: Bearer " + token + "\r\n"
	}
	extra := ""
	for _, h := range headers {
		extra += h + "\r\n"
	}
	return fmt.Sprintf("POST /v1/delivery HTTP/1.1\r\nHost: muniment\r\nX-Request-Id: req-1\r\n%s%sContent-Length: %d\r\n\r\n%s", auth, extra, len(body), body)
}

func (w *world) post(body string, headers ...string) reply {
	w.t.Helper()
	return w.raw(request(w.token, body, headers...))
}

func (w *world) body() string {
	return fmt.Sprintf(`{"rightId":%q,"spatialAnchorId":"anchor-1","dwellMs":4200}`, w.right)
}

// warm posts until key and right are answered from the cache, which takes its time
// to store what it is given.
func (w *world) warm() {
	misses := func() float64 { return w.metric("muniment_rights_lookups_total", "miss") }
	waittest.Until(w.t, func() bool {
		before := misses()
		return w.post(w.body()).status == 200 && misses() == before
	})
}

// metric is a metric's value, that with a label if one is given.
func (w *world) metric(name, label string) (n float64) {
	families, err := w.registry.Gather()
	require.NoError(w.t, err)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == name && (label == "" || m.GetLabel()[0].GetValue() == label) {
				n = m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	return n
}

// remembered is how many Idempotency-Keys are.
func (w *world) remembered() int { return int(w.metric("muniment_gateway_idempotency_entries", "")) }
