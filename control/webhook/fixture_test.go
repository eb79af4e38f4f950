package webhook

import (
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/bench/waittest"
	"muniment.example/control/roomtest"
	"muniment.example/control/store"
	"muniment.example/gateway/api"
	"muniment.example/pipeline"
	"muniment.example/pipeline/segment"
	"muniment.example/sealer"
	"muniment.example/sealer/keydir"
)

// fixture is a service on a log, with what a control process runs of it.
type fixture struct {
	*Service
	t     *testing.T
	clock *roomtest.Clock
	log   pipeline.OrderedLog
	dir   string
}

// signingKey is that of the tests.
var signingKey = ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))

type oneKey struct{}

func (oneKey) Signer(_ context.Context, purpose string) (*sealer.Signer, error) {
	if purpose != keydir.PurposeWebhook {
		return nil, fmt.Errorf("no key for %s", purpose)
	}
	return &sealer.Signer{KeyID: "k", Node: "control", Key: signingKey}, nil
}

func (oneKey) WebhookKeys(context.Context) ([]keydir.Key, error) {
	return []keydir.Key{keydir.NewKey(signingKey.Public().(ed25519.PublicKey), keydir.PurposeWebhook, noon)}, nil
}

// empty is a warehouse that has loaded nothing.
type empty struct{ pipeline.Warehouse }

func (empty) Event(context.Context, string, string) (pipeline.Row, error) {
	return pipeline.Row{}, pipeline.ErrNoEvent
}

func (empty) Resume(context.Context, int32) (next sealer.Position, ok bool, err error) {
	return next, false, nil
}

func (empty) Events(context.Context, pipeline.EventQuery) ([]pipeline.Row, error) { return nil, nil }

// newFixture opens a service of which nothing runs yet.
func newFixture(t *testing.T, c *roomtest.Clock, change func(*Config)) *fixture {
	t.Helper()
	dir := t.TempDir()
	log, err := segment.Open(segment.Config{Dir: filepath.Join(dir, "log")})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, log.Close()) })
	s := &fixture{t: t, clock: c, log: log, dir: dir}
	s.Service = s.another(change)
	return s
}

// another is the service of another process of the same database and log.
func (s *fixture) another(change func(*Config)) *Service {
	egress, err := NewEgress([]string{"127.0.0.1"})
	require.NoError(s.t, err)
	return newService(s.t, s.dir, s.clock, func(cfg *Config) {
		cfg.Log, cfg.Warehouse, cfg.Keys, cfg.Egress = s.log, empty{}, oneKey{}, egress
		cfg.Roots = x509.NewCertPool()
		cfg.Roots.AddCert(receiverCertificate(s.t))
		if change != nil {
			change(cfg)
		}
	})
}

// receiverCertificate is the certificate of all httptest servers.
func receiverCertificate(t *testing.T) *x509.Certificate {
	server := httptest.NewTLSServer(nil)
	t.Cleanup(server.Close)
	return server.Certificate()
}

// run runs something until the test ends.
func (s *fixture) run(do func(ctx context.Context) error) {
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- do(ctx) }()
	s.t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil && ctx.Err() == nil {
			s.t.Error(err)
		}
	})
}

// queueing has the events relayed to the log, and queued for the webhooks.
func (s *fixture) queueing() {
	s.run(func(ctx context.Context) error { return s.db.Outbox.Relay(ctx, s.log) })
	s.run(func(ctx context.Context) error { return s.Queue(ctx, s.job()) })
}

func (s *fixture) job() *store.Job {
	require.NoError(s.t, s.Enqueue(s.t.Context()))
	job, err := s.db.Jobs.Claim(s.t.Context(), QueueJob, 1000*time.Hour)
	require.NoError(s.t, err)
	require.NotNil(s.t, job)
	return job
}

// emit emits an event of a type, and returns its id.
func (s *fixture) emit(kind string, data any) (eventID string) {
	require.NoError(s.t, s.db.Change(s.t.Context(), func(tx *store.Tx) error {
		at := tx.Now()
		eventID = api.NewID(api.PrefixEvent, at)
		return tx.EmitRecord(s.t.Context(), &store.Kind{Type: kind}, sealer.Event{EventID: eventID, At: at, TenantID: tenantID, Actor: keyA, Subject: sealer.Ref{Kind: "right", ID: "rgh_a"}}, data)
	}))
	return eventID
}

// message is what a receiver has got.
type message struct {
	id, signature string
	at            string
	body          []byte
	Type          string
	Timestamp     string
	TenantID      string
	WebhookID     string
	Data          struct {
		Event  json.RawMessage
		Events []json.RawMessage
	}
}

// receiver is a server that events are sent to.
type receiver struct {
	*httptest.Server
	mu     sync.Mutex
	got    []message
	answer http.HandlerFunc // nil: 200
}

func newReceiver(t *testing.T) *receiver {
	r := &receiver{}
	r.Server = httptest.NewUnstartedServer(r)
	r.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	r.StartTLS()
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	m := message{id: req.Header.Get("webhook-id"), at: req.Header.Get("webhook-timestamp"), signature: req.Header.Get("webhook-signature")}
	m.body, _ = io.ReadAll(req.Body)
	_ = json.Unmarshal(m.body, &m)
	r.mu.Lock()
	r.got = append(r.got, m)
	answer := r.answer
	r.mu.Unlock()
	if answer != nil {
		answer(w, req)
	}
}

func (r *receiver) answers(with http.HandlerFunc) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answer = with
}

// messages are those that the receiver has got.
func (r *receiver) messages() []message {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]message{}, r.got...)
}

// await waits until the receiver has got so many messages.
func (r *receiver) await(t *testing.T, n int) []message {
	t.Helper()
	waittest.Until(t, func() bool { return len(r.messages()) >= n }, "%d messages", n)
	return r.messages()
}

// hook creates a webhook for the receiver.
func (s *fixture) hook(r *receiver, events ...string) Webhook {
	w := webhookFor(events...)
	w.URL = r.URL
	return s.mustCreate(s.t, w)
}

// deliveries are those of a webhook, the newest first.
func (s *fixture) deliveries(w Webhook) []Delivery {
	page, _, err := listDeliveries(s.t.Context(), s.db.Read(), w.ID, "", store.Slice{Limit: 50})
	require.NoError(s.t, err)
	return page
}

// delivery reads the only delivery of a webhook.
func (s *fixture) delivery(w Webhook) *Delivery {
	page := s.deliveries(w)
	if len(page) == 0 {
		return nil
	}
	require.Len(s.t, page, 1)
	return &page[0]
}

// awaitDelivery waits until the only delivery of a webhook satisfies a condition.
func (s *fixture) awaitDelivery(w Webhook, is func(d *Delivery) bool) (d *Delivery) {
	s.t.Helper()
	waittest.Until(s.t, func() bool { d = s.delivery(w); return d != nil && is(d) })
	return d
}

// verify checks the signatures of a message.
func (m *message) verify(t *testing.T, secrets ...string) {
	t.Helper()
	want, err := sign(m.id, unixTime(t, m.at), m.body, secrets, &sealer.Signer{Key: signingKey})
	require.NoError(t, err)
	require.Equal(t, want, m.signature)
	all := strings.Fields(m.signature)
	last, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(all[len(all)-1], "v1a,"))
	require.NoError(t, err)
	require.True(t, ed25519.Verify(signingKey.Public().(ed25519.PublicKey), []byte(m.id+"."+m.at+"."+string(m.body)), last))
}

func unixTime(t *testing.T, text string) time.Time {
	var seconds int64
	_, err := fmt.Sscan(text, &seconds)
	require.NoError(t, err)
	return time.Unix(seconds, 0)
}
