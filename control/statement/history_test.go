package statement

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/big"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"muniment.example/control/paper"
	"muniment.example/control/proof"
	"muniment.example/control/proof/prooftest"
	packsums "muniment.example/control/proof/sums"
	"muniment.example/control/rapidtest"
	"muniment.example/control/roomtest"
	"muniment.example/control/settle"
	"muniment.example/control/store"
	"muniment.example/deploy/stack/stacktest"
	"muniment.example/gate"
	"muniment.example/gateway/api"
	"muniment.example/pipeline"
	"muniment.example/pipeline/clickhouse"
	"muniment.example/pipeline/conform"
	"muniment.example/pipeline/kafka"
	"muniment.example/pipeline/sqlite"
	"muniment.example/sealer"
	"muniment.example/sealer/canonical"
	"muniment.example/sealer/keydir"
	"muniment.example/sealer/merkle"
	"muniment.example/sealer/pack"
	"muniment.example/sealer/rate"
	"muniment.example/sealer/settlement"
	"muniment.example/sealer/statement"
	"muniment.example/sealer/verify"
)

// TestHistories holds the service and both verifiers against the model, in random histories of plays, late
// ones, rules, statements in any currency and for anybody, disputes, corrections, voids, and restores after
// which the log is cut into other packs.
func TestHistories(t *testing.T) {
	warehouse, err := sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(t.TempDir(), "warehouse.db")})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, warehouse.Close()) })
	require.NoError(t, warehouse.Erase(t.Context(), pipeline.SubjectKey{}, nil))
	histories(t, warehouse, 4, 3000)
}

// TestHistoriesOnClickHouse is TestHistories on the other warehouse.
func TestHistoriesOnClickHouse(t *testing.T) {
	warehouse, _ := onClickHouse(t, "histories")
	histories(t, warehouse, 5, 100)
}

// onClickHouse is a warehouse in a database of its own, in which change runs statements.
func onClickHouse(t *testing.T, of string) (warehouse *clickhouse.Warehouse, change func(statement string)) {
	server := stacktest.ClickHouse(t)
	over, name := stacktest.Variable(t, "MUNIMENT_TEST_CLICKHOUSE_HTTP"), fmt.Sprintf("muniment_test_%s_%d", of, os.Getpid())
	post := func(url, statement string) {
		done, err := http.Post(url, "text/plain", strings.NewReader(statement))
		require.NoError(t, err)
		text, err := io.ReadAll(done.Body)
		require.NoError(t, err)
		require.NoError(t, done.Body.Close())
		require.Equal(t, http.StatusOK, done.StatusCode, "%s: %s", statement, text)
	}
	t.Cleanup(func() { post(over, "DROP DATABASE IF EXISTS "+name) })
	scheme, rest, _ := strings.Cut(server, "://")
	hosts, _, _ := strings.Cut(rest, "/")
	cfg := clickhouse.Config{URL: scheme + "://" + hosts + "/" + name}
	_, err := clickhouse.Migrate(t.Context(), cfg, false)
	require.NoError(t, err)
	warehouse, err = clickhouse.Open(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, warehouse.Close()) })
	into, err := url.Parse(over)
	require.NoError(t, err)
	query := into.Query()
	query.Set("database", name)
	into.RawQuery = query.Encode()
	return warehouse, func(statement string) { post(into.String(), statement) }
}

// loadable is a warehouse that a test loads itself.
type loadable interface {
	Warehouse
	Load(ctx context.Context, b pipeline.Batch) error
}

func histories(t *testing.T, warehouse loadable, usual, full int) {
	rapidtest.Check(t, usual, full, newHistory(t, warehouse).run)
}

func newHistory(t *testing.T, warehouse loadable) *history {
	h := &history{warehouse: warehouse, dir: t.TempDir(), end: sealer.Position{Generation: 1}, loaded: sealer.Position{Generation: 1}, python: os.Getenv("MUNIMENT_TEST_PYTHON")}
	h.stage = prooftest.NewStage(t, kafka.Config{})
	db := roomtest.Open(t, t.TempDir(), h.stage.Now)
	sums, err := proof.NewSums(db, warehouse)
	require.NoError(t, err)
	h.Service, err = New(Config{
		DB: db, Sums: sums, Checked: sums.Checked(), Warehouse: warehouse, Log: new(conform.MemoryLog), Packs: h, Keys: h.stage.Keys,
		Titles:  func(context.Context, string, []string) (map[string]paper.Right, error) { return nil, nil },
		Purpose: func(context.Context, store.Querier, string) (string, error) { return keydir.PackPurpose(false), nil },
	})
	require.NoError(t, err)
	return h
}

// history is the history of one tenant: the service, over a warehouse and a log that the test loads and
// seals by itself, and the model.
type history struct {
	*Service
	Packs
	t         *rapid.T
	stage     *prooftest.Stage
	warehouse loadable
	// end is the position behind the log, loaded that behind what the warehouse has.
	end, loaded sealer.Position
	dir         string
	python      string // its interpreter; empty: none
	sampled     bool   // by the verifier in Python
	tenant      string
	model
	drafts []modelDraft
	payees map[string][]string // by currency
	known  int                 // of historyRights, whose events are in the log

	log    [][]byte // events
	logged []settlement.Rule
	rows   []pipeline.Row
	pulled int // of the database's events
	packs  []sealedPack
	stated []string // ids of what was issued since the log was cut
	texts  map[string][]byte
}

// modelDraft is a draft, and what the model knew when it was made.
type modelDraft struct {
	id    string
	chain *modelChain // of a first statement: one that is not among the model's
	since time.Time
	said  modelStatement
	rules map[*modelPlay]*modelRule
	basis []any
}

// sealedPack is a pack with its events.
type sealedPack struct {
	*pack.Pack
	bundle []byte
}

var (
	currencies    = []string{"EUR", "USD"}
	historyRights = []string{"rgh_01ARZ3NDEKTSV4RRFFQ69G5FAA", "rgh_01ARZ3NDEKTSV4RRFFQ69G5FAB", "rgh_01ARZ3NDEKTSV4RRFFQ69G5FAC"}
)

// scopes are the campaigns and labels of rights; one has none.
var scopes = map[string]string{
	historyRights[0]: `{"campaigns":["spring"],"labels":{"venue":"north"}}`,
	historyRights[1]: `{"campaigns":["winter","spring"],"labels":{"team":"","venue":"south"}}`,
	historyRights[2]: `{}`,
	auditedRights[3]: `{"labels":{"venue":"north"}}`,
	auditedRights[4]: `{"campaigns":["winter"],"labels":{"team":"east","venue":"south"}}`,
}

// Scopes implements Packs.
func (h *history) Scopes(_ context.Context, _ string, names *settlement.ScopeNames, rightIDs []string) ([]settlement.Right, error) {
	return names.Of(scopesOf(rightIDs)), nil
}

func scopesOf(rightIDs []string) (list []settlement.Right) {
	for _, id := range rightIDs {
		if r, err := settlement.ScopeOf(id, []byte(scopes[id])); err == nil {
			list = append(list, r)
		}
	}
	return list
}

// issueRights puts the events of rights into the log.
func (h *history) issueRights(rights []string) {
	h.known += len(rights)
	h.change(func(tx *store.Tx) (err error) {
		for _, id := range rights {
			err = errors.Join(err, tx.EmitRecord(h.t.Context(), &store.Kind{Type: sealer.TypeRightIssued}, sealer.Event{TenantID: h.tenant, Actor: byKey, Subject: sealer.Ref{Kind: "right", ID: id}},
				map[string]any{"revision": 1, "scope": jsontext.Value(scopes[id])}))
		}
		return err
	})
	h.pull()
}

// days is how many days receipts may be of.
const days = 4

func (h *history) run(t *rapid.T) {
	h.begin(t)
	h.sampled = rapid.IntRange(0, 19).Draw(t, "sampled") == 7
	h.issueRights(historyRights[:rapid.IntRange(0, len(historyRights)).Draw(t, "rights in the log")])
	h.play()
	h.createRule()
	for range rapid.IntRange(3, 18).Draw(t, "moves") {
		h.stage.Advance(time.Second)
		moves := []func(){h.play, h.play, h.createRule, h.changeRule, h.changeRule, h.openDispute, h.resolveDispute, h.draftOne, h.issueOne, h.issueOne, h.issueOne, h.correctOne, h.correctOne, h.voidOne, h.restore}
		moves[rapid.IntRange(0, len(moves)-1).Draw(t, "move")]()
	}
	h.finish()
	h.judge()
}

// begin makes another tenant, with two counterparties for each currency.
func (h *history) begin(t *rapid.T) {
	h.t, h.stage.T, h.tenant = t, t, api.NewID(api.PrefixTenant, h.stage.Now())
	h.known = 0
	h.model, h.drafts, h.payees, h.log, h.logged, h.rows, h.pulled, h.packs, h.stated, h.texts, h.end = model{}, nil, map[string][]string{}, nil, nil, nil, 0, nil, nil, map[string][]byte{}, h.loaded
	h.change(func(tx *store.Tx) error {
		_, err := tx.ExecContext(t.Context(), `INSERT INTO tenants (tenant_id, org_id, created_at, updated_at, revision) VALUES ($1, 'org_b', 0, 0, 0)`, h.tenant)
		for _, currency := range currencies {
			for _, name := range []string{"Studio", "Agency"} {
				var c settle.Counterparty
				if err == nil {
					c, err = settle.CreateCounterparty(t.Context(), tx, settle.Counterparty{TenantID: h.tenant, Name: name, Kind: settle.Publisher, Currency: currency}, byKey)
				}
				h.payees[currency] = append(h.payees[currency], c.ID)
			}
		}
		return err
	})
}

func (h *history) change(fn func(tx *store.Tx) error) {
	require.NoError(h.t, h.db.Change(h.t.Context(), fn))
}

// nth is a moment of the histories, 0 their beginning: a month ends on the second day, or near it.
func nth(n float64) store.Instant { return on(n - 2) }

// moment draws one: the beginning of a day, a millisecond before it, or within a day.
func (h *history) moment(label string) time.Time {
	at := nth(float64(rapid.IntRange(0, days-1).Draw(h.t, label+" day")))
	return at.Add([]time.Duration{0, 24*time.Hour - time.Millisecond, 7 * time.Hour}[rapid.IntRange(0, 2).Draw(h.t, label+" hour")])
}

// period draws one of whole days.
func (h *history) period() (from, to time.Time) {
	if rapid.Bool().Draw(h.t, "whole") {
		return nth(0).Time, nth(days).Time
	}
	first := rapid.IntRange(0, days-1).Draw(h.t, "from")
	return nth(float64(first)).Time, nth(float64(rapid.IntRange(first+1, days).Draw(h.t, "to"))).Time
}

func (h *history) play() {
	for range rapid.IntRange(1, 3).Draw(h.t, "plays") {
		p := &modelPlay{right: rapid.SampledFrom(historyRights).Draw(h.t, "right"), at: h.moment("rendered"), statedBy: map[*modelChain]bool{}}
		h.pull() // what was before it in the log
		record := h.stage.Event(prooftest.Delivery{Tenant: h.tenant, Right: p.right, Substrate: gate.DOOH, DwellMs: 1500, Rendered: h.stage.Now().Sub(p.at)})
		d, err := sealer.ReadDelivery(record.Event)
		require.NoError(h.t, err)
		p.id = d.Receipt.ReceiptID
		h.plays = append(h.plays, p)
		h.load(record)
	}
}

func (h *history) createRule() {
	currency := rapid.SampledFrom(currencies).Draw(h.t, "currency")
	r := settle.Rule{
		TenantID: h.tenant, Unit: rate.Event, Price: fmt.Sprint(rapid.IntRange(1, 9).Draw(h.t, "price")), Currency: currency, EffectiveFrom: store.At(h.moment("effective")),
		Priority: int64(rapid.IntRange(0, 2).Draw(h.t, "priority")), Shares: h.shares(currency),
		TimeZone: rapid.SampledFrom(slices.Sorted(maps.Keys(months))).Draw(h.t, "zone"),
	}
	h.bound(&r)
	if rapid.Bool().Draw(h.t, "ends") {
		r.EffectiveUntil = store.At(r.EffectiveFrom.Add(30 * time.Hour))
	}
	if rapid.Bool().Draw(h.t, "of a right") {
		r.Match.RightID = new(rapid.SampledFrom(historyRights).Draw(h.t, "its right"))
	}
	h.scope(&r)
	h.makeRule(r)
}

// makeRule makes a rule. Its right need not be in the database.
func (h *history) makeRule(r settle.Rule) {
	h.change(func(tx *store.Tx) error {
		right := r.Match.RightID
		r.Match.RightID = nil
		made, err := settle.CreateRule(h.t.Context(), tx, r, byKey)
		if made.Match.RightID = right; err == nil && right != nil {
			err = h.rewrite(tx, &made)
		}
		return err
	})
	h.pull()
}

// scope draws what a rule matches of the scopes of rights.
func (h *history) scope(r *settle.Rule) {
	r.Match.Campaign, r.Match.Label = nil, nil
	if rapid.IntRange(0, 2).Draw(h.t, "of a campaign") == 0 {
		r.Match.Campaign = new(rapid.SampledFrom([]string{"spring", "winter", "autumn"}).Draw(h.t, "its campaign"))
	}
	if rapid.IntRange(0, 2).Draw(h.t, "of a label") == 0 {
		r.Match.Label = &settle.Label{Name: rapid.SampledFrom([]string{"venue", "team"}).Draw(h.t, "its label"), Value: rapid.SampledFrom([]string{"", "north"}).Draw(h.t, "its value")}
	}
}

// bound draws what a rule changes of a month.
func (h *history) bound(r *settle.Rule) {
	amount := func(label string) *string { return new(fmt.Sprint(rapid.IntRange(0, 20).Draw(h.t, label))) }
	r.Tiers, r.TiersMode, r.Minimum, r.Cap = []settle.Tier{}, nil, nil, nil
	switch rapid.IntRange(0, 4).Draw(h.t, "bound") {
	case 0:
		r.Minimum = amount("minimum")
	case 1:
		r.Cap = amount("cap")
	case 2:
		r.Cap = amount("cap")
		fallthrough
	case 3:
		r.TiersMode = new(rapid.SampledFrom([]rate.Mode{rate.Graduated, rate.Volume}).Draw(h.t, "mode"))
		r.Tiers = []settle.Tier{{Above: int64(rapid.IntRange(1, 3).Draw(h.t, "above")), Price: *amount("its price")}}
	}
}

func (h *history) shares(currency string) []settle.Share {
	of := h.payees[currency]
	switch rapid.IntRange(0, 2).Draw(h.t, "shares") {
	case 0:
		return []settle.Share{{CounterpartyID: of[0], Bps: 10_000}}
	case 1:
		return []settle.Share{{CounterpartyID: of[0], Bps: 7_500}, {CounterpartyID: of[1], Bps: 2_500}}
	}
	return []settle.Share{{CounterpartyID: of[1], Bps: 4_000}, {CounterpartyID: of[0], Bps: 6_000}}
}

// rewrite stores a rule as it is now, with an event.
func (h *history) rewrite(tx *store.Tx, r *settle.Rule) error {
	r.Revision, r.UpdatedAt = r.Revision+1, store.At(h.stage.Now())
	match, err := canonical.JSON(r.Match)
	if err != nil {
		return err
	}
	shares, err := canonical.JSON(r.Shares)
	if err != nil {
		return err
	}
	tiers, err := canonical.JSON(r.Tiers)
	if err != nil {
		return err
	}
	if _, err = tx.ExecContext(h.t.Context(), `UPDATE settlement_rules SET matches = $2, price = $3, currency = $4, shares = $5, effective_until = $6, state = $7, revision = $8, updated_at = $9,
		tiers = $10, tiers_mode = $11, minimum = $12, cap = $13 WHERE rule_id = $1`,
		r.ID, string(match), r.Price, r.Currency, string(shares), r.EffectiveUntil, r.State, r.Revision, r.UpdatedAt, string(tiers), r.TiersMode, r.Minimum, r.Cap); err != nil {
		return err
	}
	return tx.EmitRecord(h.t.Context(), &store.Kind{Type: "settlement_rule.changed"}, sealer.Event{TenantID: h.tenant, Actor: byKey, Subject: sealer.Ref{Kind: "settlement_rule", ID: r.ID}}, r)
}

func (h *history) changeRule() {
	rules, err := settle.Rules(h.t.Context(), h.db.Read(), h.tenant, store.Instant{})
	require.NoError(h.t, err)
	r := rapid.SampledFrom(rules).Draw(h.t, "rule")
	switch rapid.IntRange(0, 5).Draw(h.t, "change") {
	case 5:
		h.scope(&r)
	case 0:
		r.Currency = rapid.SampledFrom(currencies).Draw(h.t, "currency")
		r.Shares = h.shares(r.Currency)
	case 1:
		r.State = settle.Retired
		if until := store.At(r.EffectiveFrom.Add(12 * time.Hour)); r.EffectiveUntil.IsZero() || until.Before(r.EffectiveUntil.Time) {
			r.EffectiveUntil = until
		}
	case 2:
		h.bound(&r)
	default:
		r.Price = fmt.Sprint(rapid.IntRange(1, 9).Draw(h.t, "price"))
	}
	h.change(func(tx *store.Tx) error { return h.rewrite(tx, &r) })
	h.pull()
}

func (h *history) openDispute() {
	d := &modelDispute{id: api.NewID("dsp_", h.stage.Now()), state: "HELD"}
	if rapid.Bool().Draw(h.t, "of a window") {
		d.right = rapid.SampledFrom(historyRights).Draw(h.t, "disputed right")
		d.from, d.to = h.period()
	} else {
		p := rapid.SampledFrom(h.plays).Draw(h.t, "disputed")
		d.receipts, d.from, d.to = []string{p.id}, p.at, p.at.Add(time.Millisecond)
	}
	h.disputes = append(h.disputes, d)
	h.dispute(d)
}

// dispute opens a dispute.
func (h *history) dispute(d *modelDispute) {
	var right, from, to any
	if d.right != "" {
		right, from, to = d.right, store.At(d.from), store.At(d.to)
	}
	window := map[string]any{"from": from, "to": to}
	h.change(func(tx *store.Tx) error {
		_, err := tx.ExecContext(h.t.Context(), `INSERT INTO disputes (dispute_id, tenant_id, receipt_ids, right_id, window_from, window_to, first_rendered_at, last_rendered_at, raised_by_org_id, reason, evidence, state, created_at, updated_at, revision)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, 'org_a', 'dark', '[]', 'OPEN', 0, 0, 0)`, d.id, h.tenant, strings.Join(d.receipts, " "), right, from, to, store.At(d.from), store.At(d.to.Add(-time.Millisecond)))
		if err != nil {
			return err
		}
		return tx.EmitRecord(h.t.Context(), &store.Kind{Type: "dispute.opened"}, sealer.Event{TenantID: h.tenant, Actor: byKey, Subject: sealer.Ref{Kind: "dispute", ID: d.id}},
			map[string]any{"receiptIds": append([]string{}, d.receipts...), "rightId": right, "window": window})
	})
	h.pull()
}

func (h *history) resolveDispute() {
	for _, d := range h.disputes {
		if d.state == "HELD" {
			h.decide(d, rapid.SampledFrom([]string{"UPHELD", "REJECTED", "REJECTED"}).Draw(h.t, "outcome"))
			return
		}
	}
}

// decide resolves a dispute.
func (h *history) decide(d *modelDispute, outcome string) {
	d.state = outcome
	h.change(func(tx *store.Tx) error {
		if _, err := tx.ExecContext(h.t.Context(), `UPDATE disputes SET state = 'RESOLVED', outcome = $2 WHERE dispute_id = $1`, d.id, d.state); err != nil {
			return err
		}
		return tx.EmitRecord(h.t.Context(), &store.Kind{Type: "dispute.resolved"}, sealer.Event{TenantID: h.tenant, Actor: byKey, Subject: sealer.Ref{Kind: "dispute", ID: d.id}}, map[string]any{"outcome": d.state})
	})
	h.pull()
}

func (h *history) draftOne() {
	c := &modelChain{currency: rapid.SampledFrom(currencies).Draw(h.t, "in")}
	c.from, c.to = h.period()
	if one := rapid.IntRange(0, 2).Draw(h.t, "for"); one < 2 {
		c.payee = h.payees[c.currency][one]
	}
	h.draftOf(c)
}

// draftOf drafts a first statement, as the model says.
func (h *history) draftOf(c *modelChain) (d modelDraft, ok bool) {
	requested := Statement{TenantID: h.tenant, From: store.At(c.from), To: store.At(c.to), Currency: c.currency}
	if c.payee != "" {
		requested.CounterpartyID = &c.payee
	}
	made, err := h.draft(h.t.Context(), requested, byKey)
	if other := h.bills(c); other != nil {
		require.ErrorContains(h.t, err, other.first)
		return d, false
	}
	require.NoError(h.t, err)
	return h.drafted(c, made.ID), true
}

// drafted notes a draft, which says what the model says.
func (h *history) drafted(c *modelChain, id string) modelDraft {
	since := h.counts(c)
	d := modelDraft{id, c, since, h.states(c), h.rulesOf(c.from, c.to), h.basis(since, c.to)}
	require.Equal(h.t, d.said, said(h.micros, new(h.document(id))))
	h.drafts = append(h.drafts, d)
	return d
}

func (h *history) document(id string) statement.Statement {
	s, err := statements.Find(h.t.Context(), h.db.Read(), h.tenant, id)
	require.NoError(h.t, err)
	document, err := s.document()
	require.NoError(h.t, err)
	return document
}

func (h *history) issueOne() {
	if len(h.drafts) == 0 {
		h.draftOne()
	}
	if len(h.drafts) > 0 {
		h.issueDraft(rapid.SampledFrom(h.drafts).Draw(h.t, "draft"))
	}
}

// issueDraft issues a draft, unless it is stale.
func (h *history) issueDraft(d modelDraft) {
	h.drafts = slices.DeleteFunc(slices.Clone(h.drafts), func(other modelDraft) bool { return other.id == d.id })
	issued, err := h.issue(h.t.Context(), h.tenant, d.id, byKey)
	if !slices.Equal(d.basis, h.basis(d.since, d.chain.to)) {
		require.Equal(h.t, api.StateConflict, api.From(err).Code, "%v", err)
		return
	}
	require.NoError(h.t, err)
	if d.chain.first == "" {
		d.chain.first = d.id
		h.chains = append(h.chains, d.chain)
	}
	d.chain.last, d.chain.since = d.id, d.since
	h.nowStated(d.chain, d.said, d.rules)
	document := h.document(d.id)
	require.Equal(h.t, h.micros(document.Total), d.chain.sum, "the first total and all differences")
	if c := document.Correction; c != nil {
		require.Equal(h.t, *issued.Difference, c.Difference)
	}
	h.note(d.id)
}

// note keeps what was signed, for the verifiers.
func (h *history) note(id string) {
	s, err := statements.Find(h.t.Context(), h.db.Read(), h.tenant, id)
	require.NoError(h.t, err)
	h.stated, h.texts[id] = append(h.stated, id), []byte(s.Document)
	h.pull()
}

func (h *history) correctOne() {
	if live := h.live(); len(live) > 0 {
		h.correctChain(rapid.SampledFrom(live).Draw(h.t, "chain"))
	}
}

// correctChain drafts a correction, if there is one, and may issue it.
func (h *history) correctChain(c *modelChain) (changed bool) {
	before := h.document(c.last)
	made, err := h.correct(h.t.Context(), h.tenant, c.last, byKey)
	if now := h.states(c); sameStatements(now, said(h.micros, &before)) {
		require.ErrorContains(h.t, err, "nothing has changed")
		return false
	}
	require.NoError(h.t, err)
	d := h.drafted(c, made.ID)
	h.requireReasons(c, &before)
	h.issueDraft(d)
	return true
}

func sameStatements(a, b modelStatement) bool {
	return fmt.Sprint(a) == fmt.Sprint(b)
}

// requireReasons: what came late is due for no other reason, and what the statement before could count has
// not come late.
func (h *history) requireReasons(c *modelChain, before *statement.Statement) {
	d := h.document(h.drafts[len(h.drafts)-1].id)
	leaves := map[*modelPlay]uint64{}
	for i, p := range h.plays {
		leaves[p] = h.leafOf(i)
	}
	earlier := func(p *modelPlay) bool { return h.disputed(p) == "" && leaves[p] < before.AsOf.TreeSize }
	late, all := h.states(c).total-h.statesOf(c, earlier).total, int64(0)
	for _, change := range d.Correction.Changes {
		if change.Reason == statement.ChangedLate {
			all += h.micros(change.Amount)
		}
	}
	require.Equal(h.t, late, all)
}

// leafOf is the leaf of the n-th play.
func (h *history) leafOf(n int) uint64 {
	return uint64(slices.IndexFunc(h.log, func(event []byte) bool {
		return bytes.Contains(event, []byte(h.plays[n].id)) && bytes.Contains(event, []byte(sealer.TypeDelivery))
	}))
}

func (h *history) voidOne() {
	live := h.live()
	if len(live) == 0 || rapid.Bool().Draw(h.t, "not now") {
		return
	}
	c := rapid.SampledFrom(live).Draw(h.t, "voided")
	voided, err := h.void(h.t.Context(), h.tenant, c.last, "a mistake", byKey)
	require.NoError(h.t, err)
	require.Zero(h.t, c.sum+h.micros(*voided.Difference), "it takes back all")
	h.takeBack(c)
	h.note(voided.ID)
}

// restore cuts the log into packs anew, once what was stated is judged by the old ones. Drafts are lost.
func (h *history) restore() {
	h.judge()
	h.packs, h.stated, h.drafts = nil, nil, nil
	h.change(func(tx *store.Tx) error {
		for _, table := range []string{"proof_packs", "proof_sums"} {
			if _, err := tx.ExecContext(h.t.Context(), `DELETE FROM `+table+` WHERE tenant_id = $1`, h.tenant); err != nil {
				return err
			}
		}
		return nil
	})
}

// finish issues whatever can be, and compares all of it with the receipts.
func (h *history) finish() {
	h.stage.Advance(time.Second)
	for _, d := range slices.Clone(h.drafts) {
		h.issueDraft(d)
	}
	for n := range 2 {
		h.changeRule()
		for _, currency := range currencies {
			payee := h.payees[currency][n]
			for i := range days {
				if d, ok := h.draftOf(&modelChain{currency: currency, payee: payee, from: nth(float64(i)).Time, to: nth(float64(i + 1)).Time}); ok {
					h.issueDraft(d)
				}
			}
		}
	}
	h.requireUnstated()
	for _, c := range h.live() {
		h.correctChain(c)
	}
	require.Zero(h.t, h.requireUnstated())

	// Each receipt has at most one rule in all that is stated, and pays each of its payees once.
	type paid struct{ receipt, payee string }
	rules, times := map[string]map[string]bool{}, map[paid]int{}
	total, adjusted := map[string]int64{}, map[string]int64{}
	for _, c := range h.live() {
		document := h.document(c.last)
		total[c.currency] += h.micros(document.Total)
		for of, amount := range said(h.micros, &document).adjusted {
			adjusted[of] += amount
		}
		b, err := h.receiptFinder(h.t.Context(), &fullStatement{Statement{TenantID: h.tenant, From: store.At(c.from), To: store.At(c.to), AsOf: h.find(c.last).AsOf}, string(h.texts[c.last])}, line{})
		require.NoError(h.t, err)
		receipts, next, err := b.page(h.t.Context(), h.warehouse, nil, 10_000)
		require.NoError(h.t, err)
		require.Empty(h.t, next)
		for _, r := range receipts {
			if rules[r.ReceiptID] == nil {
				rules[r.ReceiptID] = map[string]bool{}
			}
			rules[r.ReceiptID][r.RuleID] = true
			i := slices.IndexFunc(h.plays, func(p *modelPlay) bool { return p.id == r.ReceiptID })
			require.Equal(h.t, h.rated(h.plays[i]).leaf, r.RuleLeaf, "it is behind the line of its rule's text")
			if c.payee != "" {
				times[paid{r.ReceiptID, c.payee}]++
				continue
			}
			for _, payee := range h.payees[c.currency] {
				times[paid{r.ReceiptID, payee}]++
			}
		}
	}
	want := map[string]int64{}
	for _, p := range h.plays {
		r := h.rated(p)
		if r == nil || h.disputed(p) != "" {
			require.Empty(h.t, rules[p.id])
			continue
		}
		require.Equal(h.t, map[string]bool{r.id: true}, rules[p.id], "once all that can be issued is issued, each rated receipt is stated, by one rule")
		want[r.currency] += r.price
		for _, payee := range r.payees {
			require.Equal(h.t, 1, times[paid{p.id, payee}], "%s for %s", p.id, payee)
		}
	}
	months := map[string]int64{}
	for _, currency := range currencies {
		// A month is adjusted once, by whichever statements reach its end: as one for all would.
		whole := h.states(&modelChain{from: nth(0).Time, to: nth(days).Time, currency: currency}).adjusted
		for of, amount := range whole {
			months[of] += amount
			want[currency] += amount
		}
		require.Equal(h.t, want[currency], total[currency], "shares sum to what the receipts and months are worth")
	}
	maps.DeleteFunc(adjusted, func(_ string, amount int64) bool { return amount == 0 }) // of one payee
	require.Equal(h.t, months, adjusted)
}

// requireUnstated requires that reconciliation lists what the model finds, and returns how many receipts.
func (h *history) requireUnstated() (n int64) {
	_, err := h.SealToEnd(h.t.Context(), h.tenant, byKey)
	require.NoError(h.t, err)
	rules, err := h.rulesNow(h.t.Context(), h.tenant)
	require.NoError(h.t, err)
	lines, err := h.unstated(h.t.Context(), h.tenant, nth(0).Time, nth(days).Time, rules, &h.loaded)
	require.NoError(h.t, err)
	got, want := map[modelLine]int64{}, map[modelLine]int64{}
	for _, l := range lines {
		got[modelLine{l.RightID, l.RuleID, 0}] += l.Receipts
	}
	for _, p := range h.plays {
		if r := h.rated(p); r != nil && h.disputed(p) != "UPHELD" && h.lacking(p, r) {
			want[modelLine{p.right, r.id, 0}]++
			n++
		}
	}
	require.Equal(h.t, want, got)
	return n
}

func (h *history) find(id string) *fullStatement {
	s, err := statements.Find(h.t.Context(), h.db.Read(), h.tenant, id)
	require.NoError(h.t, err)
	return s
}

// judge has the verifiers judge all that was issued since the log was cut.
func (h *history) judge() {
	if len(h.stated) == 0 {
		return
	}
	h.issueRights(historyRights[min(h.known, len(historyRights)):]) // the log may have them later than their receipts
	_, err := h.SealToEnd(h.t.Context(), h.tenant, byKey)           // with the events of the issues
	require.NoError(h.t, err)
	dir, err := os.MkdirTemp(h.dir, "judged-")
	require.NoError(h.t, err)
	defer os.RemoveAll(dir)
	put := func(name string, text []byte) string {
		name = filepath.Join(dir, name)
		require.NoError(h.t, os.WriteFile(name, text, 0o600))
		return name
	}
	directory, err := h.stage.Keys.Directory(h.t.Context())
	require.NoError(h.t, err)
	o := verify.Options{Root: h.stage.Keys.Vkey, Keys: put("keys", directory), Rating: settle.Rating, JSON: false}
	var packs []string
	for i, p := range h.packs {
		packs = append(packs, put(fmt.Sprintf("%d.ndjson", i), p.bundle))
	}
	o.Files = slices.Clone(packs)
	for id, text := range h.texts {
		o.Files = append(o.Files, put(id, text))
	}
	var report bytes.Buffer
	exit := verify.Files(h.t.Context(), o, &report)
	if len(h.stated) == len(h.texts) {
		require.Equal(h.t, verify.ExitSound, exit, report.String())
	} else { // the packs that earlier statements name were cut anew
		require.NotEqual(h.t, verify.ExitUnsound, exit, report.String())
	}
	recut := false
	for _, text := range h.texts {
		line, _, _ := bytes.Cut(text, []byte("\n"))
		said, err := statement.Parse(line)
		require.NoError(h.t, err)
		recut = recut || !slices.ContainsFunc(h.packs, func(p sealedPack) bool { return p.Header.TreeSize == said.AsOf.TreeSize })
	}
	for _, id := range h.stated {
		_, own, _ := strings.Cut(report.String(), id+": ")
		own, _, _ = strings.Cut(own, "\n\n")
		require.Contains(h.t, own, "statement.ok", report.String())
		if !recut { // else a rule's text may be in no header, so what it names of rights was not kept
			require.NotContains(h.t, own, "statement.unproven", report.String())
		}
	}
	if h.python == "" || !h.sampled {
		return
	}
	for _, id := range h.stated {
		document := h.document(id)
		args := []string{"../../sealer/independent/settle.py", "--statement", filepath.Join(dir, id)}
		if document.Correction != nil {
			args = append(args, "--previous", filepath.Join(dir, document.Correction.Previous.StatementID))
		}
		for i, p := range h.packs {
			if p.Header.TreeSize <= document.AsOf.TreeSize || i == 0 { // a void may be of an end before the first
				args = append(args, packs[i])
			}
		}
		out, err := exec.Command(h.python, args...).CombinedOutput()
		require.NoError(h.t, err, "%s", out)
	}
}

// micros is an amount in millionths.
func (h *history) micros(amount string) int64 {
	n, ok := new(big.Rat).SetString(amount)
	require.True(h.t, ok, amount)
	n.Mul(n, big.NewRat(1_000_000, 1))
	require.True(h.t, n.IsInt(), amount)
	return n.Num().Int64()
}

// load appends a record to the log.
func (h *history) load(r *sealer.Record) {
	row, err := pipeline.NewRow(sealer.Entry{Position: h.end, Record: *r})
	require.NoError(h.t, err)
	h.log, h.rows, h.end = append(h.log, r.Event), append(h.rows, row), h.end.Next()
}

// pull moves the database's events into the log.
func (h *history) pull() {
	texts, err := store.List(h.t.Context(), h.db.Read(), "the outbox", store.Text, `SELECT event FROM outbox WHERE tenant_id = $1 ORDER BY epoch, seq`, h.tenant)
	require.NoError(h.t, err)
	for _, text := range texts[h.pulled:] {
		e, err := sealer.ParseEvent([]byte(text))
		require.NoError(h.t, err)
		if strings.HasPrefix(e.Type, "settlement_rule.") {
			h.ruled(&e)
		}
		h.load(&sealer.Record{TenantID: e.TenantID, EventID: e.EventID, Event: []byte(text)})
	}
	h.pulled = len(texts)
}

// ruled notes a rule that comes into the log.
func (h *history) ruled(e *sealer.Event) {
	rule, err := rate.ParseRule(e.Data)
	require.NoError(h.t, err)
	h.logged = append(h.logged, *settlement.RuleIn(e, uint64(len(h.log))))
	r := modelRule{id: rule.ID, right: rule.Match.RightID, currency: rule.Currency, price: int64(rule.Price) / 1000, priority: rule.Priority, from: rule.EffectiveFrom, until: rule.EffectiveUntil, leaf: uint64(len(h.log))}
	r.zone, r.campaign, r.label = rule.TimeZone, rule.Match.Campaign, rule.Match.Label
	if rule.Minimum != nil {
		r.minimum = new(int64(*rule.Minimum))
	}
	if rule.Cap != nil {
		r.cap = new(int64(*rule.Cap))
	}
	if len(rule.Tiers) > 0 {
		r.tier = &modelTier{rule.Tiers[0].Above, int64(rule.Tiers[0].Price) / 1000, rule.TiersMode == rate.Volume}
	}
	for _, s := range rule.Shares {
		r.payees, r.bps = append(r.payees, s.CounterpartyID), append(r.bps, s.Bps)
	}
	h.rules = append(slices.DeleteFunc(h.rules, func(other modelRule) bool { return other.id == r.id }), r)
}

// SealToEnd implements Packs: it seals all that is loaded, in one pack or two.
func (h *history) SealToEnd(ctx context.Context, _ string, _ sealer.Ref) (*proof.End, error) {
	h.pull()
	if h.loaded != h.end {
		n := int(h.end.Offset - h.loaded.Offset)
		require.NoError(h.t, h.warehouse.Load(ctx, pipeline.Batch{From: h.loaded, Next: h.end, Rows: h.rows[len(h.rows)-n:]}))
		h.loaded = h.end
	}
	first := uint64(0)
	if n := len(h.packs); n > 0 {
		first = h.packs[n-1].Header.TreeSize
	}
	for size := uint64(len(h.log)); first < size; {
		end := size
		if rapid.Bool().Draw(h.t, "cut") {
			end = uint64(rapid.IntRange(int(first)+1, int(size)).Draw(h.t, "end"))
		}
		h.seal(ctx, h.log[first:end])
		first = end
	}
	p := h.packs[len(h.packs)-1].Header
	return &proof.End{PackID: p.PackID, RootHash: p.RootHash.String(), TreeSize: p.TreeSize, Position: h.rows[p.TreeSize-1].Position.Next(), Rules: p.Rules()}, nil
}

func (h *history) seal(ctx context.Context, events [][]byte) {
	h.stage.Advance(time.Millisecond)
	directory, err := h.stage.Keys.Directory(ctx)
	require.NoError(h.t, err)
	cfg := pack.Config{
		PackID: api.NewID(api.PrefixPack, h.stage.Now()), TenantID: h.tenant, Before: merkle.NewTree(), SealedAt: h.stage.Now(), Directory: directory, Key: h.stage.Keys.Pack.Key, Rate: settle.Rating.Rate, Workers: 1,
		Rights: func(_ *settlement.ScopeNames, ids []string) ([]settlement.Right, error) { return scopesOf(ids), nil },
	}
	if n := len(h.packs); n > 0 {
		last := h.packs[n-1]
		cfg.Before, cfg.Previous, cfg.Rules = last.Tree, new(last.Header.Ref()), last.Header.Rules()
	}
	var table packsums.Table
	cfg.Counted = table.Count
	b, err := pack.NewBuilder(cfg)
	require.NoError(h.t, err)
	for _, e := range events {
		b.Add(e)
	}
	p, err := b.Seal()
	require.NoError(h.t, err)
	var out bytes.Buffer
	w := pack.NewBundleWriter(&out, p)
	for _, e := range events {
		require.NoError(h.t, w.Add(e))
	}
	require.NoError(h.t, w.Close())
	h.packs = append(h.packs, sealedPack{p, out.Bytes()})
	h.record(&p.Header, &table)
}

// record writes into the database what of a pack its sums are read from.
func (h *history) record(p *pack.Header, table *packsums.Table) {
	codec, err := packsums.NewCodec()
	require.NoError(h.t, err)
	last := h.rows[p.TreeSize-1].Position
	h.change(func(tx *store.Tx) error {
		_, err := tx.ExecContext(h.t.Context(), `INSERT INTO proof_packs (pack_id, tenant_id, sequence, revision, first_index, entries, root_hash, first_position, last_generation, last_offset,
				sealed_at, signing_key_id, bytes, sha256, file_bytes, file_sha256, duplicates, rated, unrated, header)
			VALUES ($1, $2, $3, 0, $4, $5, '', $6, $7, $8, 0, '', 0, '', 0, '', 0, 0, 0, '')`,
			p.PackID, h.tenant, len(h.packs), int64(p.FirstIndex), p.Count, h.rows[p.FirstIndex].Position.String(), int64(last.Generation), last.Offset)
		for _, d := range table.Days(codec) {
			if err == nil {
				_, err = tx.ExecContext(h.t.Context(), `INSERT INTO proof_sums (tenant_id, day, sequence, hours, whole) VALUES ($1, $2, $3, $4, $5)`, h.tenant, d.Day, len(h.packs), d.Hours, d.Whole)
			}
		}
		return err
	})
}

// RulesAt implements Packs.
func (h *history) RulesAt(_ context.Context, _ string, size uint64) ([]settlement.Rule, error) {
	return settlement.RulesAt(size, nil, h.logged), nil
}
