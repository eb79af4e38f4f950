package statement

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/control/paper"
	"muniment.example/control/payable"
	"muniment.example/control/proof"
	"muniment.example/control/roomtest"
	"muniment.example/control/settle"
	"muniment.example/control/store"
	"muniment.example/gateway/api"
	"muniment.example/pipeline"
	"muniment.example/pipeline/conform"
	"muniment.example/sealer"
	"muniment.example/sealer/keydir"
	"muniment.example/sealer/pack"
	"muniment.example/sealer/rate"
	"muniment.example/sealer/settlement"
)

const tenantID = "tnt_01ARZ3NDEKTSV4RRFFQ69G5FAV"

var byKey = store.ByKey("key_a")

// on is a moment of November, 0 its first.
func on(n float64) store.Instant {
	return store.At(time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(n * 24 * float64(time.Hour))))
}

// fixture is a service over a database and a warehouse, of which all is sealed.
type fixture struct {
	*Service
	t         *testing.T
	clock     *roomtest.Clock
	warehouse *conform.MemoryWarehouse
	loaded    sealer.Position
	played    map[string]store.Instant // by receipt
	ends      map[uint64]*proof.End    // by size
	spans     []*proof.Span            // a pack each
	key       *sealer.Signer
	recorded  int64 // how many of the database's events the warehouse has
	unloaded  error // of AwaitRecorded
	// meanwhile happens once, while AwaitRecorded waits.
	meanwhile func()
	// revoked says that nothing may be committed that the key signs.
	revoked bool
	// studio gets two thirds of everything in EUR, agency the rest; and all in USD.
	studio, agency string
}

// newFixture is a fixture on the database of a folder, with the rights rgh_a and rgh_b, and rules of a
// euro for a receipt on rgh_a, two for one on rgh_b, and nothing in dollars. Made again on the same
// folder it is another process's.
func newFixture(t *testing.T, dir string) *fixture {
	t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	h := &fixture{t: t, clock: roomtest.NewClock(on(20).Time), warehouse: new(conform.MemoryWarehouse), loaded: sealer.Position{Generation: 1}, played: map[string]store.Instant{}, ends: map[uint64]*proof.End{}, key: &sealer.Signer{KeyID: keydir.KeyID(public), Key: private}}
	db := roomtest.Open(t, dir, h.clock.Now)
	h.Service, err = New(Config{
		DB: db, Sums: h.warehouse, Checked: h.warehouse, Warehouse: h.warehouse, Log: new(conform.MemoryLog), Packs: h, Keys: h,
		Titles:  func(context.Context, string, []string) (map[string]paper.Right, error) { return nil, nil },
		Purpose: func(context.Context, store.Querier, string) (string, error) { return keydir.PackPurpose(false), nil },
	})
	require.NoError(t, err)
	h.change(`INSERT INTO tenants (tenant_id, org_id, created_at, updated_at, revision) VALUES ($1, 'org_b', 0, 0, 0) ON CONFLICT DO NOTHING`, tenantID)
	h.change(`INSERT INTO bases (basis_id, tenant_id, kind, title, holder_org_id, created_at, updated_at, revision)
		VALUES ('bas_b', $1, 'CONTRACT', 'Frame agreement', 'org_b', 0, 0, 0) ON CONFLICT DO NOTHING`, tenantID)
	for _, right := range []string{"rgh_a", "rgh_b"} {
		h.change(`INSERT INTO rights (right_id, tenant_id, basis_id, substrate, scope, effective_from, ancestors, holder_org_id, state, created_at, updated_at, revision)
			VALUES ($1, $2, 'bas_b', 'CTV', '{}', 0, '', 'org_b', 'ACTIVE', 0, 0, 0) ON CONFLICT DO NOTHING`, right, tenantID)
	}
	require.NoError(t, db.Change(t.Context(), func(tx *store.Tx) error {
		for at, name := range map[*string]string{&h.studio: "Studio North", &h.agency: "Agency South"} {
			c, err := settle.CreateCounterparty(t.Context(), tx, settle.Counterparty{TenantID: tenantID, Name: name, Kind: settle.Publisher, Currency: "EUR"}, byKey)
			if err != nil {
				return err
			}
			*at = c.ID
		}
		for right, price := range map[string]string{"rgh_a": "1", "rgh_b": "2"} {
			_, err := settle.CreateRule(t.Context(), tx, settle.Rule{
				TenantID: tenantID, Match: settle.Match{RightID: &right}, Unit: rate.Event, Price: price, Currency: "EUR", EffectiveFrom: on(0),
				Shares: []settle.Share{{CounterpartyID: h.studio, Bps: 7_500}, {CounterpartyID: h.agency, Bps: 2_500}},
			}, byKey)
			if err != nil {
				return err
			}
		}
		return nil
	}))
	return h
}

// SealToEnd implements Packs: the pack ends behind all that is loaded.
func (h *fixture) SealToEnd(ctx context.Context, of string, _ sealer.Ref) (*proof.End, error) {
	if h.loaded.Offset == 0 {
		return nil, nil
	}
	rules, err := settle.Rules(ctx, h.db.Read(), of, store.Instant{})
	if err != nil {
		return nil, err
	}
	records, err := settle.Records(rules)
	var newest int64 // a rule that is new or changed makes something to seal, too
	for i, r := range rules {
		newest = max(newest, r.Revision)
		records[i].Leaf = uint64(r.Revision) << 10
		for _, other := range rules { // the leaf of a text is always the same
			if other.Revision == r.Revision && other.ID < r.ID {
				records[i].Leaf++
			}
		}
	}
	size := uint64(h.loaded.Offset)<<32 + uint64(newest+1)<<10
	end := &proof.End{PackID: fmt.Sprintf("ppk_%d_%d", h.loaded.Offset, newest), RootHash: "root", TreeSize: size, Position: h.loaded, Rules: records}
	h.ends[size] = end
	next := sealer.Position{Generation: 1}
	if n := len(h.spans); n > 0 {
		next = h.spans[n-1].To.Next()
	}
	if next.Compare(h.loaded) < 0 {
		n := int64(len(h.spans) + 1)
		span := &proof.Span{First: n, Last: n, FirstID: end.PackID, LastID: end.PackID, From: next, To: h.loaded}
		span.To.Offset--
		var lines []pipeline.MeterRow
		if span.Entries, lines, err = h.warehouse.Sum(ctx, of, span.From, span.To); err != nil {
			return nil, err
		}
		for i := range lines {
			span.Metering = append(span.Metering, lines[i].Sealed())
		}
		h.spans = append(h.spans, span)
	}
	return end, err
}

// SealedIn implements Packs: all packs are of any period.
func (h *fixture) SealedIn(context.Context, string, time.Time, time.Time, []string) (first, last int64, err error) {
	return min(1, int64(len(h.spans))), int64(len(h.spans)), nil
}

// Span implements Packs.
func (h *fixture) Span(_ context.Context, _ string, first, last int64) (*proof.Span, error) {
	run := h.spans[first-1 : last]
	all := *run[0]
	all.Last, all.LastID, all.To, all.Entries, all.Metering = last, run[len(run)-1].LastID, run[len(run)-1].To, 0, nil
	lines := map[pack.MeterRow][3]int64{}
	for _, s := range run {
		all.Entries += s.Entries
		for _, l := range s.Metering {
			kind := l
			kind.Receipts, kind.QuantityMs, kind.Impressions = 0, 0, 0
			sum := lines[kind]
			lines[kind] = [3]int64{sum[0] + l.Receipts, sum[1] + l.QuantityMs, sum[2] + l.Impressions}
		}
	}
	for l, sum := range lines {
		l.Receipts, l.QuantityMs, l.Impressions = sum[0], sum[1], sum[2]
		all.Metering = append(all.Metering, l)
	}
	return &all, nil
}

// RulesAt implements Packs.
func (h *fixture) RulesAt(_ context.Context, _ string, size uint64) ([]settlement.Rule, error) {
	if h.ends[size] == nil {
		return nil, api.NotFound("proof pack")
	}
	return h.ends[size].Rules, nil
}

// Signer implements Keys.
func (h *fixture) Signer(context.Context, string) (*sealer.Signer, error) { return h.key, nil }

// Vouches implements Keys.
func (h *fixture) Vouches(_ context.Context, _ *store.Tx, keyID string) (bool, error) {
	return keyID == h.key.KeyID && !h.revoked, nil
}

// play loads a metered delivery, and returns its receipt.
func (h *fixture) play(rightID string, at store.Instant) (receiptID string) {
	h.t.Helper()
	id := strings.TrimPrefix(api.NewID(api.PrefixEvent, at.Time), string(api.PrefixEvent))
	next := h.loaded
	next.Offset++
	receiptID = string(api.PrefixReceipt) + id
	h.played[receiptID] = at
	require.NoError(h.t, h.warehouse.Load(h.t.Context(), pipeline.Batch{From: h.loaded, Next: next, Rows: []pipeline.Row{{
		Entry: sealer.Entry{Position: h.loaded, Record: sealer.Record{TenantID: tenantID, EventID: string(api.PrefixEvent) + id}}, Type: "delivery.recorded", At: at.Time,
		Delivery: &pipeline.Delivery{
			ReceiptID: receiptID, RightID: rightID, BasisID: "bas_b", Substrate: "CTV", RenderedAt: at.Time, IssuedAt: at.Time,
			Metered: true, Reason: sealer.ReasonMetered, MeteringBasis: "dwell", QuantityMs: 1500, Impressions: 10_000, Completion: "none",
		},
	}}}))
	h.loaded = next
	return receiptID
}

// Scopes implements Packs: no right has campaigns or labels.
func (h *fixture) Scopes(context.Context, string, *settlement.ScopeNames, []string) ([]settlement.Right, error) {
	return nil, nil
}

// AwaitRecorded implements Packs: it loads the events of statements, into another partition than what
// is sealed.
func (h *fixture) AwaitRecorded(ctx context.Context, _ string) error {
	if h.unloaded != nil {
		return h.unloaded
	}
	if happens := h.meanwhile; happens != nil {
		h.meanwhile = nil
		happens()
	}
	for n, e := range roomtest.Events(h.t, h.db) {
		if e.Subject.Kind != statements.Noun || int64(n) < h.recorded {
			continue
		}
		text, err := sealer.AppendEvent(nil, &e)
		require.NoError(h.t, err)
		from := sealer.Position{Partition: 7, Generation: 9, Offset: h.recorded}
		h.recorded = int64(n) + 1
		next := sealer.Position{Partition: 7, Generation: 9, Offset: h.recorded}
		at := next
		at.Offset--
		require.NoError(h.t, h.warehouse.Load(ctx, pipeline.Batch{Partition: 7, From: from, Next: next, Rows: []pipeline.Row{{
			Entry: sealer.Entry{Position: at, Record: sealer.Record{TenantID: e.TenantID, EventID: e.EventID, Event: text}}, Type: e.Type, At: e.At,
			SubjectKind: e.Subject.Kind, SubjectID: e.Subject.ID,
		}}}))
	}
	return nil
}

// dispute opens one about receipts, or with no receipts about a right on a day.
func (h *fixture) dispute(id, rightID string, day float64, receipts ...string) {
	h.t.Helper()
	var right, from, to any
	first, last := on(day), on(day+1)
	if len(receipts) == 0 {
		right, from, to = rightID, first, last
		last = store.At(last.Add(-time.Millisecond))
	} else {
		first = h.played[receipts[0]]
		last = first
		for _, id := range receipts {
			if at := h.played[id]; at.Before(first.Time) {
				first = at
			} else if at.After(last.Time) {
				last = at
			}
		}
	}
	h.change(`INSERT INTO disputes (dispute_id, tenant_id, receipt_ids, right_id, window_from, window_to, first_rendered_at, last_rendered_at, raised_by_org_id, reason, evidence, state, created_at, updated_at, revision)
		VALUES ($1, '`+tenantID+`', $2, $3, $4, $5, $6, $7, 'org_a', 'dark', '[]', 'OPEN', 0, 0, 0)`, id, strings.Join(receipts, " "), right, from, to, first, last)
}

func (h *fixture) resolve(id, outcome string) {
	h.t.Helper()
	h.change(`UPDATE disputes SET state = 'RESOLVED', outcome = $2 WHERE dispute_id = $1`, id, outcome)
}

func (h *fixture) change(statement string, args ...any) {
	h.t.Helper()
	require.NoError(h.t, h.db.Change(h.t.Context(), func(tx *store.Tx) error {
		_, err := tx.ExecContext(h.t.Context(), statement, args...)
		return err
	}))
}

func statementFor(from, to float64) Statement {
	return Statement{TenantID: tenantID, From: on(from), To: on(to), Currency: "EUR"}
}

func (h *fixture) mustDraft(requested Statement) Statement {
	h.t.Helper()
	s, err := h.draft(h.t.Context(), requested, byKey)
	require.NoError(h.t, err)
	return s
}

// read is a statement with its document.
func (h *fixture) read(id string) *fullStatement {
	h.t.Helper()
	s, err := statements.Find(h.t.Context(), h.db.Read(), tenantID, id)
	require.NoError(h.t, err)
	return s
}

func (h *fixture) mustIssue(requested Statement) Statement {
	h.t.Helper()
	s, err := h.issue(h.t.Context(), tenantID, h.mustDraft(requested).ID, byKey)
	require.NoError(h.t, err)
	return s
}

func (h *fixture) emitted() (list []string) {
	for _, e := range roomtest.Events(h.t, h.db) {
		if e.Subject.Kind == "statement" {
			list = append(list, e.Type+" "+e.Subject.ID)
		}
	}
	return list
}

func conflict(t *testing.T, err error, says string) {
	t.Helper()
	require.Equal(t, api.StateConflict, api.From(err).Code, "%v", err)
	require.ErrorContains(t, err, says)
}

// payment pays all of a statement.
func payment(reference string) payable.Payments {
	return payable.Payments{Date: "2026-11-20", Reference: reference}
}

func part(amount string) payable.Payments {
	of := payment("a part")
	of.Amount = &amount
	return of
}

// shown is a statement as a file for people.
func (h *fixture) shown(id string, in getInput) string {
	h.t.Helper()
	found, document := h.read(id), h.document(id)
	p, err := h.paper(h.t.Context(), found, &document, in.Payee)
	require.NoError(h.t, err)
	text, _, err := in.shown(p)
	require.NoError(h.t, err)
	return string(text)
}
