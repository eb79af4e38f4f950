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
	"io/fs"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"muniment/gate"
	"muniment/gateway/api"
	"muniment/gateway/auth"
	"muniment/gateway/certs/certstest"
	"muniment/gateway/snapshot"
	"muniment/sealer"
)

// today is the fixture's clock; that of the lease stands still too.
var today = time.Date(2026, 11, 21, 4, 0, 0, 123e6, time.UTC)

// control is a source of rights and keys as control's feed is one: one counter,
// newest state for each id, an immediate answer if there is news.
type control struct {
	mu       sync.Mutex
	revision int64
	changes  map[string]api.Change
	news     chan struct{}
	away     error
}

func newControl() *control {
	return &control{revision: 1, changes: map[string]api.Change{}, news: make(chan struct{})}
}

func (c *control) putRight(r api.Right) int64 { return put(c, api.Rights, &r, &r.Revision) }

func (c *control) putKey(k api.Key) int64 { return put(c, api.Keys, &k, &k.Revision) }

func put[T any](c *control, kind api.Kind[T], snapshot *T, revision *int64) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.revision++
	*revision = c.revision
	change, err := kind.Change(snapshot)
	if err != nil {
		panic(err)
	}
	c.changes[change.ID] = change
	close(c.news)
	c.news = make(chan struct{})
	return c.revision
}

func (c *control) key(t testing.TB, id string) api.Key {
	c.mu.Lock()
	defer c.mu.Unlock()
	change := c.changes[id]
	k, err := api.Keys.Read(&change)
	require.NoError(t, err)
	return *k
}

func (c *control) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.away = err
}

func (c *control) Feed(ctx context.Context, req api.FeedRequest) (api.Feed, error) {
	wait, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
	defer cancel()
	for {
		c.mu.Lock()
		f, news, err := api.Feed{Incarnation: "one", Newest: c.revision, UpTo: c.revision}, c.news, c.away
		for _, change := range c.changes {
			if change.Revision > req.After {
				f.Changes = append(f.Changes, change)
			}
		}
		c.mu.Unlock()
		if err != nil || len(f.Changes) > 0 || req.After == 0 || wait.Err() != nil {
			return f, err
		}
		select {
		case <-news:
		case <-wait.Done():
		}
	}
}

func (c *control) Snapshot(_ context.Context, kind, id string) (api.Snapshot, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	found := api.Snapshot{AsOf: c.revision}
	if change, ok := c.changes[id]; ok && change.Kind == kind {
		found.Change = &change
	}
	return found, c.away
}

// memoryLog is a Log that checks every record as the loader would before it takes it.
type memoryLog struct {
	t       testing.TB
	key     ed25519.PublicKey
	sandbox ed25519.PublicKey // of the sandbox's receipts; may be nil

	mu      sync.Mutex
	entries []sealer.Entry
	fail    error
	lossy   bool          // Append returns the zero position
	gone    int64         // the first position still held
	bad     []int64       // those that can't be read
	hold    chan struct{} // while not nil, Append waits for it to be closed or for its ctx
	waiting int
}

func (l *memoryLog) Append(ctx context.Context, r *sealer.Record) (sealer.Position, error) {
	l.mu.Lock()
	hold := l.hold
	l.waiting++
	l.mu.Unlock()
	if hold != nil {
		select {
		case <-hold:
		case <-ctx.Done():
			return sealer.Position{}, ctx.Err()
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiting--
	if l.fail != nil {
		return sealer.Position{}, l.fail
	}
	_, delivery, err := sealer.CheckRecord(r)
	if err != nil {
		l.t.Errorf("record %s is not sound: %v", r.EventID, err)
	}
	if delivery != nil {
		key := l.key
		if l.sandbox != nil && delivery.KeyID == sealer.KeyID(l.sandbox) {
			key = l.sandbox
		}
		if !ed25519.Verify(key, delivery.ReceiptText, delivery.Signature) {
			l.t.Errorf("signature of %s is wrong", r.EventID)
		}
	}
	at := sealer.Position{Generation: 1, Offset: int64(len(l.entries))}
	l.entries = append(l.entries, sealer.Entry{Position: at, Record: sealer.Record{
		TenantID: strings.Clone(r.TenantID), EventID: strings.Clone(r.EventID), Node: strings.Clone(r.Node), Epoch: r.Epoch, Seq: r.Seq,
		Event: bytes.Clone(r.Event), Private: bytes.Clone(r.Private),
	}})
	if l.lossy {
		return sealer.Position{}, nil
	}
	return at, nil
}

func (l *memoryLog) Read(_ context.Context, at sealer.Position) (sealer.Entry, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.fail != nil {
		return sealer.Entry{}, l.fail
	}
	if at.Offset < l.gone || slices.Contains(l.bad, at.Offset) {
		return sealer.Entry{}, fmt.Errorf("%s is gone: %w", at, fs.ErrNotExist)
	}
	if at.Generation != 1 || at.Partition != 0 || at.Offset < 0 || at.Offset >= int64(len(l.entries)) {
		return sealer.Entry{}, fmt.Errorf("nothing at %s", at)
	}
	return l.entries[at.Offset], nil
}

func (l *memoryLog) Scan(ctx context.Context, from, to sealer.Position, fn func(sealer.Entry) error) error {
	for _, e := range l.all()[from.Offset:to.Offset] {
		if _, err := l.Read(ctx, e.Position); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err := fn(e); err != nil {
			return err
		}
	}
	return nil
}

func (l *memoryLog) Bounds(context.Context, int32) (first, end sealer.Position, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	first = sealer.Position{Generation: 1, Offset: l.gone}
	end = sealer.Position{Generation: 1, Offset: int64(len(l.entries))}
	return first, end, l.fail
}

func (l *memoryLog) all() []sealer.Entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.entries)
}

func (l *memoryLog) setFail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fail = err
}

// lose drops what stands before an offset, and new records too if lossy.
func (l *memoryLog) lose(before int64, lossy bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.gone, l.lossy = before, lossy
}

// spoil makes the records at some offsets unreadable, and no others.
func (l *memoryLog) spoil(offsets ...int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.bad = offsets
}

// halt makes Append wait until the returned function is called.
func (l *memoryLog) halt() (release func()) {
	hold := make(chan struct{})
	l.mu.Lock()
	l.hold = hold
	l.mu.Unlock()
	return sync.OnceFunc(func() {
		l.mu.Lock()
		l.hold = nil
		l.mu.Unlock()
		close(hold)
	})
}

func (l *memoryLog) appending() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.waiting
}

// world is a gateway on a loopback socket with all that it needs.
type world struct {
	t        testing.TB
	control  *control
	key      ed25519.PrivateKey // signs receipts
	log      *memoryLog
	view     *snapshot.View
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

// zeros makes random bits that a golden text can hold.
type zeros struct{}

func (zeros) Read(b []byte) (int, error) { clear(b); return len(b), nil }

func rightID(n int) string { return fmt.Sprintf("rgh_01KAJ%021d", n) }

// newKey makes an API key that is the same in every run.
func newKey(t testing.TB, c *control, n byte, tenant string, scopes api.Scopes) string {
	id := fmt.Sprintf("key_01KAJ%021d", n)
	token, prefix, hash, err := auth.NewKey(bytes.NewReader(bytes.Repeat([]byte{n}, 32)), auth.EnvTest, id)
	require.NoError(t, err)
	c.putKey(api.Key{ID: id, TenantID: tenant, Prefix: prefix, SecretHash: hash, Scopes: scopes})
	return token
}

func (w *world) putRight(n int, tenant string, s gate.Substrate, scope string, state api.RightState) string {
	id := rightID(n)
	w.control.putRight(api.Right{
		ID: id, TenantID: tenant, BasisID: "bas_1", Substrate: s.String(), State: state, Scope: []byte(scope),
		EffectiveFrom: today.Add(-time.Hour), EffectiveUntil: today.Add(time.Hour),
	})
	return id
}

// newWorld starts a gateway; change may alter its configuration first.
func newWorld(t testing.TB, change func(*Config)) *world {
	w := newStill(t)
	w.start(change)
	return w
}

// newStill is a world that has yet to start.
func newStill(t testing.TB) *world {
	w := &world{t: t, control: newControl()}
	w.token = newKey(t, w.control, 1, "tnt_a", api.EveryScope)
	w.otherToken = newKey(t, w.control, 2, "tnt_b", api.EveryScope)
	w.readToken = newKey(t, w.control, 3, "tnt_a", api.Scopes(api.RightsRead|api.AuditRead))
	w.right = w.putRight(1, "tnt_a", gate.DOOH, "", api.RightActive)
	w.suspended = w.putRight(2, "tnt_a", gate.DOOH, "", api.RightSuspended)
	w.foreign = w.putRight(3, "tnt_b", gate.DOOH, "", api.RightActive)
	w.key = ed25519.NewKeyFromSeed(bytes.Repeat([]byte{7}, ed25519.SeedSize))
	w.log = &memoryLog{t: t, key: w.key.Public().(ed25519.PublicKey)}
	return w
}

func signerOf(key ed25519.PrivateKey) *sealer.Signer {
	return &sealer.Signer{KeyID: sealer.KeyID(key.Public().(ed25519.PublicKey)), Node: "nod_1", Key: key}
}

// always lends one signer, whatever the moment.
func always(s *sealer.Signer) func(context.Context, time.Time) (*sealer.Signer, func(), error) {
	return func(context.Context, time.Time) (*sealer.Signer, func(), error) { return s, func() {}, nil }
}

func (w *world) start(change func(*Config)) {
	t := w.t
	w.registry = prometheus.NewRegistry()
	view, err := snapshot.New(snapshot.Config{Source: w.control, NodeID: "nod_1", Capacity: 1000, Registerer: w.registry,
		Clock: func() time.Duration { return time.Duration(w.skew.Load()) }})
	require.NoError(t, err)
	w.view = view
	cfg := Config{
		NodeID: "nod_1", Epoch: 1, Rights: view, Log: w.log,
		Signer:      always(signerOf(w.key)),
		DialControl: func() (net.Conn, error) { return nil, errors.New("no control here") },
		Now:         func() time.Time { return today },
		DrainGrace:  50 * time.Millisecond,
		BusyPause:   time.Millisecond,
		Registerer:  w.registry,
		// However slow the machine is, nothing ends by them unless a test says so.
		ReadTimeout: time.Minute, WriteTimeout: time.Minute, AppendTimeout: time.Minute, IdempotencyWait: time.Minute, DrainTimeout: time.Minute,
	}
	if change != nil {
		change(&cfg)
	}
	w.gateway, err = New(cfg)
	require.NoError(t, err)
	ln, err := Listen(t.Context(), "127.0.0.1:0")
	require.NoError(t, err)
	w.addr, w.tls = ln.Addr().String(), cfg.TLS != nil
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
	ended := make(chan error, 1)
	end := sync.OnceValue(func() error {
		stop()
		return <-ended
	})
	w.stop, w.end = stop, end
	go func() { ended <- w.gateway.Run(running, taken(ln)) }()
	t.Cleanup(func() {
		require.NoError(t, end())
		cancel()
		following.Wait()
		view.Close()
	})
	require.Eventually(t, func() bool { return w.gateway.Ready() == nil }, time.Minute, time.Millisecond)
}

// taken is a listener for Run that was there before.
func taken(ln net.Listener) func(context.Context) (net.Listener, error) {
	return func(context.Context) (net.Listener, error) { return ln, nil }
}

// restart stops the gateway and starts another one on the same log.
func (w *world) restart(change func(*Config)) {
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
func everyTransport(t *testing.T, test func(t *testing.T, transport func(*Config))) {
	for name, transport := range map[string]func(t *testing.T) func(*Config){
		"tcp": func(*testing.T) func(*Config) { return func(*Config) {} },
		"tls": func(t *testing.T) func(*Config) { return overTLS(t) },
		"tls without tickets": func(t *testing.T) func(*Config) {
			return func(c *Config) { overTLS(t)(c); c.TLS.SessionTicketsDisabled = true }
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, transport(t))
		})
	}
}

func overTLS(t testing.TB) func(*Config) {
	p := certstest.New(t).Issue(t, certstest.Leaf{})
	pair, err := tls.LoadX509KeyPair(p.Cert, p.Key)
	require.NoError(t, err)
	return func(c *Config) { c.TLS = &tls.Config{Certificates: []tls.Certificate{pair}} }
}

// raw sends bytes on a connection of its own and reads one answer.
func (w *world) raw(text string) reply {
	w.t.Helper()
	c := w.dial()
	defer c.Close()
	require.NoError(w.t, c.SetDeadline(time.Now().Add(time.Minute)))
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
	misses := func() (n float64) {
		families, err := w.registry.Gather()
		require.NoError(w.t, err)
		for _, f := range families {
			for _, m := range f.GetMetric() {
				if f.GetName() == "muniment_rights_lookups_total" && m.GetLabel()[0].GetValue() == "miss" {
					n = m.GetCounter().GetValue()
				}
			}
		}
		return n
	}
	require.Eventually(w.t, func() bool {
		before := misses()
		return w.post(w.body()).status == 200 && misses() == before
	}, time.Minute, time.Millisecond)
}
