package statement

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment/control/roomtest"
	"muniment/control/settle"
	"muniment/control/settle/rate"
	"muniment/control/store"
	"muniment/deploy/stack/stacktest"
	"muniment/gateway/api"
)

// TestTransitions is the whole table.
func TestTransitions(t *testing.T) {
	want := map[string]State{"discard DRAFT": Discarded, "issue DRAFT": Issued, "settle ISSUED": Settled}
	for _, from := range []State{Draft, Discarded, Issued, Settled} {
		for _, a := range []Action{Discard, Issue, Settle, "withdraw"} {
			name := fmt.Sprintf("%s %s", a, from)
			t.Run(name, func(t *testing.T) {
				was := documented{Statement: Statement{ID: "stm_a", State: from, UpdatedAt: on(0)}}
				next, _, err := statements.After(was, a, on(1))
				if want[name] == "" {
					conflict(t, err, string(from))
					require.Equal(t, was, next)
					return
				}
				require.NoError(t, err)
				require.Equal(t, want[name], next.State)
				require.Equal(t, on(1), next.UpdatedAt)
				require.Equal(t, from, was.State, "the record before stays as it was")
				require.False(t, transitions[a].Stops)
			})
		}
	}
}

func TestStatementTakesItsCourse(t *testing.T) {
	h := newFixture(t, t.TempDir())
	_, err := h.draft(t.Context(), statementFor(1, 3), byKey)
	conflict(t, err, "nothing has been delivered yet")
	h.play("rgh_a", on(1))
	h.play("rgh_b", on(2))
	h.play("rgh_b", on(3)) // the first moment behind
	draft := h.mustDraft(statementFor(1, 3))
	require.Equal(t, []any{Draft, "3", "0", int64(2), h.loaded.String()}, []any{draft.State, draft.Total, draft.HeldAmount, draft.Receipts, draft.AsOf})
	_, err = h.settle(t.Context(), tenantID, draft.ID, "transfer 7", byKey)
	conflict(t, err, "statement is DRAFT, not ISSUED")

	h.revoked = true
	_, err = h.issue(t.Context(), tenantID, draft.ID, byKey)
	require.Equal(t, api.NoSigningKey, api.From(err).Reason, "%v", err)
	h.revoked = false
	drafted := h.read(draft.ID)
	_, err = h.issue(t.Context(), tenantID, draft.ID, byKey)
	require.NoError(t, err)
	issued := h.read(draft.ID)
	text, line, _ := strings.Cut(issued.Document, "\n")
	sum := sha256.Sum256([]byte(text))
	require.Equal(t, base64.RawURLEncoding.EncodeToString(sum[:]), *issued.SHA256)
	require.Contains(t, line, h.key.KeyID)
	document, err := issued.document()
	require.NoError(t, err)
	require.Equal(t, issued.IssuedAt.Time, document.IssuedAt.Time)
	was, err := drafted.document()
	require.NoError(t, err)
	was.IssuedAt = document.IssuedAt
	require.Equal(t, was, document, "but for the moment it is what was drafted")

	h.play("rgh_a", on(1.5)) // too late
	settled, err := h.settle(t.Context(), tenantID, draft.ID, "transfer 7", byKey)
	require.NoError(t, err)
	found, err := statements.Find(t.Context(), h.db.Read(), tenantID, draft.ID)
	require.NoError(t, err)
	require.Equal(t, settled, found.Statement)
	want := issued.Statement
	want.State, want.Reference, want.SettledAt, want.UpdatedAt, want.Revision = Settled, new("transfer 7"), settled.UpdatedAt, settled.UpdatedAt, settled.Revision
	require.Equal(t, want, settled, "what was issued stays")
	require.Equal(t, []string{"statement.created " + draft.ID, "statement.issued " + draft.ID, "statement.settled " + draft.ID}, h.emitted())
	for _, e := range roomtest.Events(t, h.db) {
		require.False(t, bytes.Contains(e.Data, []byte(`"lines"`)), "a document is in no event")
	}
	for _, foreign := range [][2]string{{"tnt_b", draft.ID}, {tenantID, "stm_none"}} {
		_, err = h.issue(t.Context(), foreign[0], foreign[1], byKey)
		require.True(t, err != nil)
		_, err = h.settle(t.Context(), foreign[0], foreign[1], "x", byKey)
		require.True(t, store.IsNone(err), "%v", err)
	}
}

// TestDrafts are bounded, and a discarded one makes space for another.
func TestDrafts(t *testing.T) {
	h := newFixture(t, t.TempDir())
	h.play("rgh_a", on(1))
	first := h.mustDraft(statementFor(0, 3))
	h.change(`INSERT INTO statements (tenant_id, from_at, to_at, currency, total, held_amount, receipts, as_of, pack_id, document, created_at, updated_at, revision, correction, statement_id, state)
		SELECT tenant_id, from_at, to_at, currency, total, held_amount, receipts, as_of, pack_id, document, 0, 0, 0, 0, 'stm_' || CAST(i AS TEXT), 'DRAFT'
		FROM statements CROSS JOIN (WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ` + fmt.Sprint(mostDrafts-1) + `) SELECT i FROM n) AS numbers`)
	_, err := h.draft(t.Context(), statementFor(0, 3), byKey)
	conflict(t, err, "issue or discard one")
	discarded, err := h.discard(t.Context(), tenantID, first.ID, byKey)
	require.NoError(t, err)
	require.Equal(t, Discarded, discarded.State)
	gone := h.read(first.ID)
	require.Empty(t, gone.Document)
	_, err = gone.document()
	conflict(t, err, "DISCARDED")
	h.mustDraft(statementFor(0, 3))
	require.Contains(t, h.emitted(), "statement.discarded "+first.ID)
}

// TestOverlaps: nothing is billed twice, and statements that bill other receipts are not refused.
func TestOverlaps(t *testing.T) {
	h := newFixture(t, t.TempDir())
	h.play("rgh_a", on(1))
	of := func(from, to float64, currency string, counterpartyID *string) Statement {
		s := statementFor(from, to)
		s.Currency, s.CounterpartyID = currency, counterpartyID
		return s
	}
	h.mustIssue(of(2, 4, "EUR", &h.studio))
	h.mustIssue(of(6, 8, "EUR", nil))
	for name, c := range map[string]struct {
		requested Statement
		free      bool
	}{
		"the same":                             {of(2, 4, "EUR", &h.studio), false},
		"its last moment":                      {of(3.99, 5, "EUR", &h.studio), false},
		"its first moment":                     {of(1, 2.01, "EUR", &h.studio), false},
		"around it":                            {of(1, 5, "EUR", &h.studio), false},
		"within it":                            {of(2.5, 3, "EUR", &h.studio), false},
		"before it":                            {of(1, 2, "EUR", &h.studio), true},
		"behind it":                            {of(4, 5, "EUR", &h.studio), true},
		"in another currency":                  {of(2, 4, "USD", &h.studio), true},
		"of another counterparty":              {of(2, 4, "EUR", &h.agency), true},
		"of all, where there is one's":         {of(3, 5, "EUR", nil), false},
		"of one, where there is that of all":   {of(7, 9, "EUR", &h.agency), false},
		"of all, where there is that of all":   {of(5, 6.5, "EUR", nil), false},
		"of all, in another currency":          {of(6, 8, "USD", nil), true},
		"of one, between those that there are": {of(4, 6, "EUR", &h.studio), true},
	} {
		t.Run(name, func(t *testing.T) {
			draft := h.mustDraft(c.requested) // drafts may overlap as they like
			err := refuseOverlap(t.Context(), h.db.Read(), &draft)
			if c.free {
				require.NoError(t, err)
				return
			}
			conflict(t, err, "overlaps")
			_, err = h.issue(t.Context(), tenantID, draft.ID, byKey)
			conflict(t, err, "overlaps")
		})
	}
	h.change(`UPDATE statements SET state = 'SETTLED' WHERE state = 'ISSUED'`)
	_, err := h.issue(t.Context(), tenantID, h.mustDraft(of(2, 4, "EUR", &h.studio)).ID, byKey)
	conflict(t, err, "overlaps")
}

// TestNothingIsBilledTwice: no later rule of another currency or with other shares, and no earlier
// draft, states receipts that were stated.
func TestNothingIsBilledTwice(t *testing.T) {
	h := newFixture(t, t.TempDir())
	h.play("rgh_a", on(1))
	inDollars, ofAgency := statementFor(0, 3), statementFor(0, 3)
	inDollars.Currency, ofAgency.CounterpartyID = "USD", &h.agency
	ofStudio := ofAgency
	ofStudio.CounterpartyID = &h.studio
	require.Equal(t, "0.75", h.mustIssue(ofStudio).Total)
	require.NoError(t, h.db.Change(t.Context(), func(tx *store.Tx) error {
		c, err := settle.CreateCounterparty(t.Context(), tx, settle.Counterparty{TenantID: tenantID, Name: "Dollars", Kind: settle.Publisher, Currency: "USD"}, byKey)
		if err == nil {
			_, err = settle.CreateRule(t.Context(), tx, settle.Rule{
				TenantID: tenantID, Unit: rate.Event, Price: "9", Currency: "USD", Priority: 100, EffectiveFrom: on(0), Shares: []settle.Share{{CounterpartyID: c.ID, Bps: 10_000}},
			}, byKey)
		}
		return err
	}))
	h.play("rgh_a", on(2))
	require.Equal(t, "0", h.mustIssue(inDollars).Total)
	require.Equal(t, "0.25", h.mustIssue(ofAgency).Total)

	h.play("rgh_a", on(5))
	inDollars.From, inDollars.To, ofAgency.From, ofAgency.To = on(4), on(6), on(4), on(6)
	before := h.mustDraft(inDollars)
	h.play("rgh_a", on(5))
	h.mustIssue(ofAgency)
	_, err := h.issue(t.Context(), tenantID, before.ID, byKey)
	conflict(t, err, "draft the statement again")
	h.mustIssue(inDollars)
	both := statementFor(0, 6)
	both.Currency = "CHF"
	_, err = h.draft(t.Context(), both, byKey)
	conflict(t, err, "several")
}

// TestLongerPeriodIsSplit: a period that reaches beyond the sealing of an overlapping statement's log is
// refused, since the statement would silently lack what came after.
func TestLongerPeriodIsSplit(t *testing.T) {
	h := newFixture(t, t.TempDir())
	h.play("rgh_a", on(1))
	h.clock.Set(on(8).Time)
	week := statementFor(0, 7)
	week.CounterpartyID = &h.studio
	issued := h.mustIssue(week)
	h.play("rgh_b", on(7.5))
	h.play("rgh_b", on(12))
	h.clock.Set(on(20).Time)
	month := statementFor(0, 20)
	month.CounterpartyID = &h.agency
	split := issued.CreatedAt.String()
	for _, from := range []float64{0, 6} {
		month.From = on(from)
		_, err := h.draft(t.Context(), month, byKey)
		conflict(t, err, "draft one statement up to "+split+", and another one from "+split+" on")
	}
	first, second := month, month
	first.From, first.To, second.From = on(0), issued.CreatedAt, issued.CreatedAt
	made := h.mustIssue(first)
	require.EqualValues(t, 1, made.Receipts, "what the log held when it was sealed")
	require.EqualValues(t, 2, h.mustCorrect(made.ID).Receipts, "a correction states the rest")

	// What states the same end of the log is newer, but the log is not.
	h.clock.Set(on(21).Time)
	third := month
	third.Currency, third.CounterpartyID, third.From = "USD", nil, on(7)
	_, err := h.draft(t.Context(), third, byKey)
	conflict(t, err, "up to "+split)
	require.EqualValues(t, 1, h.mustIssue(second).Receipts)
}

// TestOneOfManyIssuesWins has callers issue drafts of one period at once, through two processes
// where a database has several.
func TestOneOfManyIssuesWins(t *testing.T) {
	stacktest.Both(t)
	h := newFixture(t, t.TempDir())
	h.play("rgh_a", on(1))
	drafts := make([]Statement, 16)
	for i := range drafts {
		drafts[i] = h.mustDraft(statementFor(float64(i)/100, 3))
	}
	errs := make([]error, 2*len(drafts))
	var callers sync.WaitGroup
	for i := range errs {
		callers.Go(func() { _, errs[i] = h.issue(t.Context(), tenantID, drafts[i%len(drafts)].ID, byKey) })
	}
	callers.Wait()
	require.Len(t, slices.DeleteFunc(slices.Clone(errs), func(err error) bool { return err != nil }), 1)
	for _, err := range errs {
		if err != nil {
			conflict(t, err, "")
		}
	}
	page, _, err := list(t.Context(), h.db.Read(), tenantID, filter{state: "ISSUED"}, store.Slice{Limit: 10})
	require.NoError(t, err)
	require.Len(t, page, 1)
}

// TestStaleDraft: a draft can't be issued once disputes change what it states.
func TestStaleDraft(t *testing.T) {
	h := newFixture(t, t.TempDir())
	first := h.play("rgh_a", on(1))
	h.play("rgh_b", on(2))
	early := h.play("rgh_a", on(0.5))
	draft := h.mustDraft(statementFor(1, 3))
	stale := func(id string) {
		t.Helper()
		_, err := h.issue(t.Context(), tenantID, id, byKey)
		conflict(t, err, "draft it again")
	}
	h.dispute("dsp_1", "", 0, first)
	stale(draft.ID)
	held := h.mustDraft(statementFor(1, 3))
	require.Equal(t, []string{"2", "1"}, []string{held.Total, held.HeldAmount})

	h.dispute("dsp_2", "rgh_b", 2)
	stale(held.ID)
	both := h.mustDraft(statementFor(1, 3))
	require.Equal(t, []string{"0", "3"}, []string{both.Total, both.HeldAmount})

	h.resolve("dsp_1", "UPHELD")
	stale(both.ID)
	upheld := h.mustDraft(statementFor(1, 3))
	require.Equal(t, []string{"0", "2"}, []string{upheld.Total, upheld.HeldAmount})

	h.resolve("dsp_2", "REJECTED")
	stale(upheld.ID)
	last := h.mustDraft(statementFor(1, 3))
	require.Equal(t, []string{"2", "0"}, []string{last.Total, last.HeldAmount})
	require.Equal(t, int64(1), last.Receipts)

	// What is of another time changes nothing, and is not in the text.
	h.dispute("dsp_3", "rgh_b", 3)
	h.dispute("dsp_4", "rgh_a", 0)
	h.dispute("dsp_5", "", 0, early)
	h.dispute("dsp_6", "", 0, h.play("rgh_a", on(15)))
	require.NotContains(t, h.read(h.mustDraft(statementFor(1, 3)).ID).Document, "dsp_6")
	_, err := h.issue(t.Context(), tenantID, last.ID, byKey)
	require.NoError(t, err)
}

// TestStatementOfOne shows no other counterparty's shares.
func TestStatementOfOne(t *testing.T) {
	h := newFixture(t, t.TempDir())
	h.play("rgh_b", on(1))
	requested := statementFor(0, 2)
	requested.CounterpartyID = &h.agency
	s := h.mustDraft(requested)
	require.Equal(t, "0.5", s.Total)
	require.NotContains(t, h.read(s.ID).Document, h.studio)
	requested.CounterpartyID = new("cp_none")
	_, err := h.draft(t.Context(), requested, byKey)
	require.Equal(t, "counterpartyId", api.From(err).Field)
}

func TestLists(t *testing.T) {
	h := newFixture(t, t.TempDir())
	h.play("rgh_a", on(1))
	requested, dollars := statementFor(0, 2), statementFor(0, 2)
	requested.CounterpartyID, dollars.Currency = &h.studio, "USD"
	made := []string{h.mustDraft(statementFor(0, 2)).ID, h.mustDraft(requested).ID, h.mustIssue(dollars).ID}
	newest := slices.Sorted(slices.Values(made))
	slices.Reverse(newest)
	found := func(f filter, behind string, limit int) (ids []string) {
		page, next, err := list(t.Context(), h.db.Read(), tenantID, f, store.Slice{Behind: behind, Limit: limit})
		require.NoError(t, err)
		for _, s := range page {
			ids = append(ids, s.ID)
		}
		if next != "" {
			ids = append(ids, "and more")
		}
		return ids
	}
	require.Equal(t, []string{newest[0], "and more"}, found(filter{}, "", 1))
	require.Equal(t, newest[1:], found(filter{}, newest[0], 2))
	require.ElementsMatch(t, made[:2], found(filter{currency: "EUR"}, "", 10))
	require.Equal(t, made[1:2], found(filter{counterpartyID: h.studio}, "", 10))
	require.Equal(t, made[2:], found(filter{state: "ISSUED"}, "", 10))
	require.Empty(t, found(filter{state: "ISSUED", currency: "EUR"}, "", 10))
	page, _, err := list(t.Context(), h.db.Read(), "tnt_b", filter{}, store.Slice{Limit: 10})
	require.NoError(t, err)
	require.Empty(t, page)
}

// TestFiltersHaveIndexes is as that of rights.
func TestFiltersHaveIndexes(t *testing.T) {
	h := newFixture(t, t.TempDir())
	roomtest.Fill(t, h.db, 5_000, "statements", `tenant_id, from_at, to_at, total, held_amount, receipts, as_of, pack_id, document, created_at, updated_at, revision, correction, statement_id, corrects, currency, counterparty_id, state`,
		`'`+tenantID+`', i, i + 1, '0', '0', 0, '1.0.1', 'ppk_a', '{}', 0, 0, 0, 0, 'stm_' || CAST(i AS TEXT), CASE WHEN i % 400 = 9 THEN 'stm_few' ELSE NULL END, CASE WHEN i % 700 = 3 THEN 'USD' ELSE 'EUR' END,
		CASE WHEN i % 500 = 7 THEN 'cp_few' ELSE NULL END, CASE WHEN i % 600 = 5 THEN 'DRAFT' ELSE 'SETTLED' END`)
	for f, index := range map[filter]string{
		{}:                         "statements_by_tenant",
		{state: "DRAFT"}:           "statements_by_state",
		{currency: "USD"}:          "statements_by_currency",
		{counterpartyID: "cp_few"}: "statements_by_counterparty",
		{corrects: "stm_few"}:      "statements_by_first",
	} {
		require.Contains(t, roomtest.Plans(t, h.db, func(q store.Querier) error {
			_, _, err := list(t.Context(), q, tenantID, f, store.Slice{Behind: "stm_4", Limit: 50})
			return err
		}), index, "%+v", f)
	}
	requested := statementFor(1, 2)
	require.Contains(t, roomtest.Plans(t, h.db, func(q store.Querier) error { return refuseOverlap(t.Context(), q, &requested) }), "statements_that_bill")
}

// TestRetiredBeforeItBegan: a rule that was retired before it began rates nothing, and its minimum is
// not billed.
func TestRetiredBeforeItBegan(t *testing.T) {
	h := newFixture(t, t.TempDir())
	h.play("rgh_a", on(1))
	h.play("rgh_a", on(10))
	h.clock.Set(on(5).Time)
	var r settle.Rule
	require.NoError(t, h.db.Change(t.Context(), func(tx *store.Tx) (err error) {
		r, err = settle.CreateRule(t.Context(), tx, settle.Rule{
			TenantID: tenantID, Unit: rate.Event, Price: "7", Priority: 9, Currency: "EUR", EffectiveFrom: on(10), Minimum: new("500"), Shares: []settle.Share{{CounterpartyID: h.studio, Bps: 10_000}},
		}, byKey)
		return err
	}))
	h.change(`UPDATE settlement_rules SET state = 'RETIRED', effective_until = effective_from WHERE rule_id = $1`, r.ID)
	h.clock.Set(on(20).Time)
	made := h.mustDraft(statementFor(0, 20))
	require.Equal(t, "2", made.Total)
	require.Contains(t, h.read(made.ID).Document, `"adjustments":[]`)
}
