package control_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"muniment.example/control"
	"muniment.example/control/access"
	"muniment.example/control/beacon"
	"muniment.example/control/challenge"
	"muniment.example/control/dispute"
	"muniment.example/control/dsar"
	"muniment.example/control/erasure"
	"muniment.example/control/ingest"
	"muniment.example/control/mailer"
	people "muniment.example/control/member"
	"muniment.example/control/node"
	"muniment.example/control/objects"
	"muniment.example/control/offer"
	"muniment.example/control/paper"
	"muniment.example/control/payable"
	"muniment.example/control/payeelink"
	"muniment.example/control/proof"
	counted "muniment.example/control/requests"
	"muniment.example/control/right"
	"muniment.example/control/route/routetest"
	"muniment.example/control/sandbox"
	"muniment.example/control/settle"
	"muniment.example/control/signing"
	"muniment.example/control/statement"
	"muniment.example/control/store"
	"muniment.example/control/store/storetest"
	"muniment.example/control/tenant"
	"muniment.example/control/webhook"
	"muniment.example/gateway/api"
	"muniment.example/pipeline"
	"muniment.example/pipeline/conform"
	"muniment.example/sealer"
	"muniment.example/sealer/checkpoint"
	"muniment.example/sealer/settlement"
)

const adminToken = "adm_secret_of_the_test"

// fixture is control with real services over a real database file.
type fixture struct {
	t        *testing.T
	db       *store.DB
	keys     *signing.Service
	nodes    *node.Service
	requests *counted.Service
	tenants  *tenant.Service
	offers   *offer.Service
	ingest   *ingest.Service
	services []control.Service
	members  *people.Service
	outbox   string           // of the mails to members
	sandbox  *sandbox.Service // nil without one
	access   *access.Service  // likewise
	log      *memoryLog
	// receipts are those that the warehouse has.
	receipts receipts
	// uncounted is why events can't be counted.
	uncounted error
	// arrive has the warehouse load what is in the log.
	arrive func() error
	logged *bytes.Buffer

	making sync.Mutex
	made   *control.Control // nil until it is used; under making
}

// config is how the fixture's control is made.
func (h *fixture) config() control.Config {
	return control.Config{
		DB: h.db, Keys: h.keys, Nodes: h.nodes, Tenants: h.tenants, Ingest: h.ingest, Services: h.services, Sandbox: h.sandbox, Access: h.access, Requests: h.requests, Log: h.log, AdminToken: adminToken,
		Logger: slog.New(slog.NewTextHandler(h.logged, nil)), Registerer: prometheus.NewRegistry(),
	}
}

// newFixture makes a fixture whose suspensions wait for the nodes as long as given,
// or as long as they do in production.
func newFixture(t *testing.T, waitFor ...time.Duration) *fixture {
	t.Helper()
	return newFixtureOn(t, t.TempDir(), node.Config{WaitFor: append(waitFor, 0)[0]})
}

// newFixtureOn makes a fixture on the database and the keys of a folder. The database may
// have a clock of its own.
func newFixtureOn(t *testing.T, dir string, nodes node.Config, now ...func() time.Time) *fixture {
	t.Helper()
	h := &fixture{t: t, log: &memoryLog{}, logged: new(bytes.Buffer), arrive: func() error { return nil }}
	var err error
	path, url := storetest.Place(t, dir)
	h.db, err = store.Open(t.Context(), store.Config{Path: path, URL: url, Now: append(now, nil)[0]})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, h.db.Close()) })
	h.keys, err = signing.New(t.Context(), signing.Config{DB: h.db, Dir: filepath.Join(dir, "keys"), Logger: nodes.Logger})
	require.NoError(t, err)
	nodes.DB, nodes.Keys = h.db, h.keys
	h.nodes, err = node.New(t.Context(), nodes)
	require.NoError(t, err)
	rights, err := right.New(right.Config{DB: h.db, Nodes: h.nodes})
	require.NoError(t, err)
	h.offers, err = offer.New(offer.Config{DB: h.db})
	require.NoError(t, err)
	challenges, err := challenge.New(challenge.Config{DB: h.db, Nodes: h.nodes})
	require.NoError(t, err)
	var statements *statement.Service
	disputes, err := dispute.New(dispute.Config{DB: h.db, Warehouse: &h.receipts, AwaitLoaded: func(context.Context, string) error { return h.arrive() }, HeldAmount: func(ctx context.Context, tenantID string, x *dispute.Exclusion) ([]dispute.Amount, error) {
		return statements.HeldAmount(ctx, tenantID, x)
	}, Worth: func(ctx context.Context, tenantID string, deliveries []pipeline.Row) ([][]dispute.Amount, error) {
		return statements.Worth(ctx, tenantID, deliveries)
	}, Stated: statement.StatedPeriods})
	require.NoError(t, err)
	egress, err := webhook.NewEgress(nil)
	require.NoError(t, err)
	hooks, err := webhook.New(webhook.Config{DB: h.db, Log: struct{ pipeline.Reader }{}, Warehouse: struct{ pipeline.Warehouse }{}, Keys: h.keys, Kinds: control.Kinds, Scopes: people.ScopesInForce, Egress: egress})
	require.NoError(t, err)
	h.requests, err = counted.New(h.db)
	require.NoError(t, err)
	h.tenants, err = tenant.New(tenant.Config{DB: h.db, LastUsed: h.requests.LastUsed, Nodes: h.nodes, Ended: hooks.KeyEnded, Withdraw: people.Withdraw, Scopes: people.ScopesInForce, Counters: tenant.Counters{
		Bases: rights.CountBases, Rights: rights.CountRights, Offers: h.offers.Count, Challenges: challenges.Count,
		Events: func(context.Context, string) (int64, error) { return 7, h.uncounted },
	}})
	require.NoError(t, err)
	h.outbox = filepath.Join(dir, "members")
	h.members, err = people.New(people.Config{
		DB: h.db, PublicURL: "https://muniment.example", Mails: &mailer.Mails{Outbox: h.outbox}, Ended: hooks.KeyEnded,
		Failed: func(_ string, _ bool, err error) error { return err },
	})
	require.NoError(t, err)
	h.ingest, err = ingest.New(ingest.Config{DB: h.db, Nodes: h.nodes, Deliver: func(context.Context, string, string, []ingest.Delivery) ([]ingest.Delivered, error) {
		return nil, errors.New("no delivery in this test")
	}})
	require.NoError(t, err)
	beacons, err := beacon.New(beacon.Config{DB: h.db, Keys: h.keys})
	require.NoError(t, err)
	settlement, err := settle.New(settle.Config{DB: h.db})
	require.NoError(t, err)
	statements, err = statement.New(statement.Config{
		DB: h.db, Sums: new(conform.MemoryWarehouse), Checked: new(conform.MemoryWarehouse), Warehouse: new(conform.MemoryWarehouse), Log: new(conform.MemoryLog), Packs: noPacks{}, Keys: h.keys, Purpose: tenant.PackPurpose,
		Titles: func(context.Context, string, []string) (map[string]paper.Right, error) { return nil, nil },
	})
	require.NoError(t, err)
	payables, err := payable.New(h.db)
	require.NoError(t, err)
	payees, err := payeelink.New(payeelink.Config{DB: h.db, Statements: statements, Log: noEvents{}, PublicURL: "https://muniment.example"})
	require.NoError(t, err)
	bundles, err := objects.Open(filepath.Join(dir, "bundles"), dsar.BundleType)
	require.NoError(t, err)
	exports, err := dsar.New(dsar.Config{
		DB: h.db, Warehouse: new(conform.MemoryWarehouse), Log: new(conform.MemoryLog), Keys: h.keys, Tables: control.Tables, Bundles: bundles, // no job runs
		Scopes: people.ScopesInForce, Failed: func(code string, err error) error { return &control.JobFailure{Code: code, Err: err} },
	})
	require.NoError(t, err)
	erasures, err := erasure.New(t.Context(), erasure.Config{
		DB: h.db, Warehouse: &conform.MemoryWarehouse{}, Keys: h.keys, Purpose: tenant.PackPurpose, Tables: control.Tables, Followed: payeelink.ErasedKinds,
		Erased: func(ctx context.Context, tx *store.Tx, tenantID string, rows map[string]int64, ids []string) error {
			return errors.Join(h.members.Erased(ctx, tx, tenantID, rows), payees.Erased(ctx, tx, tenantID, ids))
		},
		LogKeep: func(context.Context) (time.Duration, error) { return 24 * time.Hour, nil }, CopiesKeep: 24 * time.Hour,
	})
	require.NoError(t, err)
	h.services = []control.Service{h.keys, h.tenants, h.requests, h.members, rights, h.offers, challenges, disputes, h.ingest, beacons, hooks, settlement, statements, payables, payees, erasures, exports, trouble{}}
	return h
}

// control is the fixture's control. The first use makes it, so that a fixture may still get services.
func (h *fixture) control() *control.Control {
	h.making.Lock()
	defer h.making.Unlock()
	if h.made == nil {
		var err error
		h.made, err = control.New(h.config())
		require.NoError(h.t, err)
	}
	return h.made
}

// noEvents is a log in which nothing is.
type noEvents struct{}

// Events implements payeelink.Log.
func (noEvents) Events(context.Context, pipeline.EventQuery) ([]pipeline.Row, error) { return nil, nil }

// Inclusion implements payeelink.Log.
func (noEvents) Inclusion(context.Context, pipeline.Row, bool) (checkpoint.InclusionProof, bool, error) {
	return checkpoint.InclusionProof{}, false, nil
}

// noPacks are those of tenants without a delivery.
type noPacks struct{}

// SealToEnd implements statement.Packs.
func (noPacks) SealToEnd(context.Context, string, sealer.Ref) (*proof.End, error) { return nil, nil }

// RulesAt implements statement.Packs.
func (noPacks) RulesAt(context.Context, string, uint64) ([]settlement.Rule, error) {
	return nil, api.NotFound("proof pack")
}

// SealedIn implements statement.Packs.
func (noPacks) SealedIn(context.Context, string, time.Time, time.Time, []string) (first, last int64, err error) {
	return 0, 0, nil
}

// Span implements statement.Packs.
func (noPacks) Span(context.Context, string, int64, int64) (*proof.Span, error) {
	return nil, api.NotFound("proof pack")
}

// Scopes implements statement.Packs.
func (noPacks) Scopes(context.Context, string, *settlement.ScopeNames, []string) ([]settlement.Right, error) {
	return nil, nil
}

// AwaitRecorded implements statement.Packs.
func (noPacks) AwaitRecorded(context.Context, string) error { return nil }

// memoryLog is a log that is durable as long as the test.
type memoryLog struct {
	mu      sync.Mutex
	records []sealer.Record
}

func (l *memoryLog) Append(_ context.Context, r *sealer.Record) (sealer.Position, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.records = append(l.records, *r)
	return sealer.Position{Offset: int64(len(l.records) - 1)}, nil
}

func (l *memoryLog) AppendInOrder(ctx context.Context, rs []*sealer.Record) (int, error) {
	return conform.InOrder(ctx, rs, l.Append)
}

func TestRunSweeps(t *testing.T) {
	cfg := newFixture(t).config()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	for _, name := range []string{"first", "second"} {
		runs := 0
		cfg.Sweeps = append(cfg.Sweeps, control.Sweep{Name: name, Every: time.Millisecond, Do: func(context.Context) error {
			if runs++; runs == 3 && name == "second" {
				stop()
			}
			return nil
		}})
	}
	c, err := control.New(cfg)
	require.NoError(t, err)
	require.NoError(t, c.Run(ctx))
}

// events drains the outbox of a tenant and returns what the log holds of it.
func (h *fixture) events(tenantID string) (events []sealer.Event) {
	h.t.Helper()
	ctx, cancel := context.WithCancel(h.t.Context())
	done := make(chan error, 1)
	go func() { done <- h.control().Run(ctx) }()
	require.NoError(h.t, h.db.Outbox.Drain(h.t.Context(), tenantID))
	cancel()
	require.NoError(h.t, <-done)
	for _, r := range h.log.records {
		e, err := sealer.ParseEvent(r.Event)
		require.NoError(h.t, err)
		require.Equal(h.t, e.EventID, r.EventID)
		require.Equal(h.t, e.TenantID, r.TenantID)
		if e.TenantID == tenantID {
			events = append(events, e)
		}
	}
	return events
}

// answer is what came back.
type answer struct {
	t      *testing.T
	status int
	header http.Header
	text   string
}

// call sends a request as a caller would, with a key or none.
func (h *fixture) call(key, method, path, body string, headers ...string) answer {
	h.t.Helper()
	return send(h.t, h.control().Handler(), key, method, path, body, headers...)
}

func send(t *testing.T, to http.Handler, key, method, path, body string, headers ...string) answer {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body))
	if key != "" {
		r.Header.Set("Authorization", "Bearer "+key)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	to.ServeHTTP(w, r)
	text, err := io.ReadAll(w.Body)
	require.NoError(t, err)
	checkDocumented(t, to, method, path, w.Code)
	return answer{t, w.Code, w.Header(), strings.TrimSpace(string(text))}
}

// checkDocumented fails the test if the document does not have the status of a response. An operation
// is the same in every fixture, so a document that another test has read may tell.
func checkDocumented(t *testing.T, of http.Handler, method, path string, status int) {
	t.Helper()
	if known := lastRead.Load(); known == nil || !known.Lists(method, path, status) {
		documentOf(t, of).Check(t, method, path, status)
	}
}

var (
	// documents are the documents of the handlers that a test has called, nil for one that has none.
	documents sync.Map
	// lastRead is the document that was read last.
	lastRead atomic.Pointer[routetest.Operations]
)

// documentOf is what a handler's own document says of its operations.
func documentOf(t *testing.T, of http.Handler) routetest.Operations {
	if known, ok := documents.Load(of); ok {
		return known.(routetest.Operations)
	}
	var operations routetest.Operations
	w := httptest.NewRecorder()
	if of.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "GET", "/openapi.json", nil)); w.Code == 200 {
		var err error
		operations, err = routetest.Documented(w.Body.Bytes())
		require.NoError(t, err)
		lastRead.Store(&operations)
	}
	documents.Store(of, operations)
	t.Cleanup(func() { documents.Delete(of) })
	return operations
}

// ok is the answer's data, decoded.
func (a answer) ok() map[string]any {
	a.t.Helper()
	require.Equal(a.t, 200, a.status, a.text)
	var body struct {
		OK              bool           `json:"ok"`
		Data            map[string]any `json:"data"`
		ContractVersion string         `json:"contractVersion"`
	}
	require.NoError(a.t, json.Unmarshal([]byte(a.text), &body))
	require.True(a.t, body.OK)
	require.Equal(a.t, "v1.0", body.ContractVersion)
	return body.Data
}

// refused is the answer's error envelope, without its request id.
func (a answer) refused(status int, code api.Code) string {
	a.t.Helper()
	require.Equal(a.t, status, a.status, a.text)
	var body map[string]any
	require.NoError(a.t, json.Unmarshal([]byte(a.text), &body), a.text)
	require.Equal(a.t, false, body["ok"])
	require.Equal(a.t, string(code), body["error"])
	require.Equal(a.t, "v1.0", body["contractVersion"])
	require.Equal(a.t, a.header.Get(api.HeaderRequestID), body["requestId"])
	require.Equal(a.t, "application/json", a.header.Get("Content-Type"))
	delete(body, "requestId")
	var text strings.Builder
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	require.NoError(a.t, e.Encode(body))
	return strings.TrimSpace(text.String())
}

// get reads a member of nested objects: get(data, "right", "id").
func get[T any](t *testing.T, from map[string]any, names ...string) T {
	t.Helper()
	var at any = from
	for _, name := range names {
		object, ok := at.(map[string]any)
		require.True(t, ok, "%v has no member %s", at, name)
		require.Contains(t, object, name)
		at = object[name]
	}
	v, ok := at.(T)
	require.True(t, ok, "%v is a %T", names, at)
	return v
}

// tenant makes one, and returns its id and a key.
func (h *fixture) tenant(scopes ...string) (tenantID, key string) {
	h.t.Helper()
	request := map[string]any{"org": "acme", "email": "dev@example.com", "another": true}
	if scopes != nil {
		request["scopes"] = scopes
	}
	body, err := json.Marshal(request)
	require.NoError(h.t, err)
	made := send(h.t, h.control().Admin(), adminToken, "POST", "/admin/tenants", string(body)).ok()
	return get[string](h.t, made, "tenantId"), get[string](h.t, made, "apiKey")
}

// basis registers one that is open on both ends.
func (h *fixture) basis(key string) string {
	h.t.Helper()
	made := h.call(key, "POST", "/v1/bases", `{"kind":"CONTRACT","title":"Frame agreement"}`).ok()
	return get[string](h.t, made, "basis", "id")
}

// right issues one on CTV.
func (h *fixture) right(key, basisID string) string {
	h.t.Helper()
	made := h.call(key, "POST", "/v1/rights", fmt.Sprintf(
		`{"basisId":%q,"substrate":"CTV","scope":{"regions":["US","CA"]},"effectiveFrom":"2026-01-01T00:00:00Z"}`, basisID)).ok()
	return get[string](h.t, made, "right", "id")
}

// offer proposes a part of a right of the tenant's organisation to another.
func (h *fixture) offer(key, rightID string) string {
	h.t.Helper()
	made := h.call(key, "POST", "/v1/offers", fmt.Sprintf(`{"rightId":%q,"toOrgId":"org_b","scope":{"regions":["US"]}}`, rightID)).ok()
	return get[string](h.t, made, "offer", "id")
}

// challenge opens one of a right.
func (h *fixture) challenge(key, rightID string) string {
	h.t.Helper()
	made := h.call(key, "POST", "/v1/challenges", fmt.Sprintf(`{"rightId":%q,"challengerOrgId":"org_c","reason":"it is ours"}`, rightID)).ok()
	return get[string](h.t, made, "challenge", "id")
}

// TestTheUsualWay is the story of a new tenant, from the operator's command to a
// revoked right, and what the log says of it.
func TestTheUsualWay(t *testing.T) {
	h := newFixture(t)
	made := send(t, h.control().Admin(), adminToken, "POST", "/admin/tenants", `{"org":"acme","email":"dev@example.com"}`).ok()
	require.Equal(t, "org_acme", made["orgId"])
	tenantID, key := get[string](t, made, "tenantId"), get[string](t, made, "apiKey")
	require.True(t, strings.HasPrefix(key, "mun_test_"+strings.TrimPrefix(get[string](t, made, "keyId"), "key_")+"_"))

	basis := h.call(key, "POST", "/v1/bases", `{"kind":"LICENSE","title":"Licence 7","effectiveUntil":"2030-01-01T00:00:00+01:00"}`).ok()
	require.Equal(t, "2029-12-31T23:00:00.000Z", get[string](t, basis, "basis", "effectiveUntil"))
	require.Equal(t, "ACTIVE", get[string](t, basis, "basis", "state"))
	require.Equal(t, "org_acme", get[string](t, basis, "basis", "holderOrgId"))
	basisID := get[string](t, basis, "basis", "id")

	issued := h.call(key, "POST", "/v1/rights", fmt.Sprintf(
		`{"basisId":%q,"substrate":"AUTOMOTIVE","scope":"the whole fleet","effectiveFrom":"2026-01-01T00:00:00.123456Z"}`, basisID)).ok()
	rightID := get[string](t, issued, "right", "id")
	require.True(t, api.IsID(api.PrefixRight, rightID))
	require.Equal(t, "the whole fleet", get[string](t, issued, "right", "scope", "description"))
	require.Equal(t, "2026-01-01T00:00:00.123Z", get[string](t, issued, "right", "effectiveFrom"))
	require.Equal(t, "2029-12-31T23:00:00.000Z", get[string](t, issued, "right", "effectiveUntil"), "the basis's end")
	require.Equal(t, "ACTIVE", get[string](t, issued, "right", "effectiveState"))

	suspended := h.call(key, "POST", "/v1/rights/"+rightID+"/suspend", `{"reason":"complaint"}`).ok()
	require.Equal(t, "SUSPENDED", get[string](t, suspended, "right", "state"))
	require.Equal(t, "complaint", get[string](t, suspended, "right", "stateReason"))
	require.Equal(t, true, get[bool](t, suspended, "propagation", "applied"), "there is no node that could be behind")
	h.call(key, "POST", "/v1/rights/"+rightID+"/suspend", "").refused(409, api.StateConflict)
	resumed := h.call(key, "POST", "/v1/rights/"+rightID+"/resume", "").ok()
	require.Nil(t, get[map[string]any](t, resumed, "right")["stateReason"])
	revoked := h.call(key, "POST", "/v1/rights/"+rightID+"/revoke", "{}").ok()
	again := h.call(key, "POST", "/v1/rights/"+rightID+"/revoke", `{"reason":"once more"}`).ok()
	require.Equal(t, revoked, again, "revoking twice changes nothing")
	h.call(key, "POST", "/v1/rights/"+rightID+"/resume", "").refused(409, api.StateConflict)

	snapshot := h.call(key, "GET", "/v1/tenant", "").ok()
	require.Equal(t, map[string]any{"bases": 1., "rights": 1., "offers": 0., "challenges": 0., "proofPacks": 0., "events": 7.},
		get[map[string]any](t, snapshot, "tenant", "counts"))
	require.Equal(t, "dev@example.com", get[string](t, snapshot, "developer", "email"))
	require.Equal(t, made["keyId"], get[string](t, snapshot, "key", "keyId"))
	require.Len(t, get[[]any](t, snapshot, "key", "scopes"), len(api.EveryScope.Names()))

	var types []string
	for _, e := range h.events(tenantID) {
		types = append(types, e.Type)
		require.NotContains(t, string(e.Data), "dev@example.com")
	}
	require.Equal(t, []string{"tenant.created", "key.created", "basis.created", "right.issued", "right.suspended", "right.resumed", "right.revoked"}, types)
}
