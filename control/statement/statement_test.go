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
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/control/roomtest"
	"muniment.example/control/route"
	"muniment.example/control/settle"
	"muniment.example/control/store"
	"muniment.example/deploy/stack/stacktest"
	"muniment.example/gateway/api"
	"muniment.example/gateway/auth"
	"muniment.example/sealer/canonical"
	"muniment.example/sealer/rate"
	"muniment.example/sealer/settlement"
	"muniment.example/sealer/statement"
)

// TestTransitions is the whole table.
func TestTransitions(t *testing.T) {
	want := map[string]State{"discard DRAFT": Discarded, "issue DRAFT": Issued, "settle ISSUED": Settled, "void ISSUED": Voided, "void SETTLED": Voided,
		"pay ISSUED": Issued, "pay SETTLED": Settled, "pay VOIDED": Voided, "reopen SETTLED": Issued}
	for _, from := range []State{Draft, Discarded, Issued, Settled, Voided} {
		for _, a := range []Action{Discard, Issue, Pay, Settle, Reopen, Void, "withdraw"} {
			name := fmt.Sprintf("%s %s", a, from)
			t.Run(name, func(t *testing.T) {
				was := fullStatement{Statement: Statement{ID: "stm_a", State: from, UpdatedAt: on(0)}}
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
	_, err = h.settle(t.Context(), tenantID, draft.ID, payment("transfer 7"), byKey)
	conflict(t, err, "statement is DRAFT, not ISSUED")

	h.revoked = true
	_, err = h.issue(t.Context(), tenantID, draft.ID, byKey)
	require.Equal(t, api.NoSigningKey, api.From(err).Reason, "%v", err)
	h.revoked = false
	drafted := h.read(draft.ID)
	_, err = h.issue(t.Context(), tenantID, draft.ID, byKey)
	require.NoError(t, err)
	issued := h.read(draft.ID)
	_, line, _ := strings.Cut(issued.Document, "\n")
	sum := sha256.Sum256([]byte(issued.Document))
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
	settled, err := h.settle(t.Context(), tenantID, draft.ID, payment("transfer 7"), byKey)
	require.NoError(t, err)
	found, err := statements.Find(t.Context(), h.db.Read(), tenantID, draft.ID)
	require.NoError(t, err)
	require.Equal(t, settled, found.Statement)
	require.Nil(t, drafted.DueAmount)
	require.Equal(t, "3.00", *issued.DueAmount)
	want := issued.Statement
	want.State, want.PaidAmount, want.DueAmount, want.Reference, want.SettledAt, want.UpdatedAt, want.Revision = Settled, "3.00", new("0.00"), new("transfer 7"), settled.UpdatedAt, settled.UpdatedAt, settled.Revision
	require.Equal(t, want, settled, "what was issued stays")
	require.Equal(t, []string{"statement.created " + draft.ID, "statement.issued " + draft.ID, "statement.settled " + draft.ID}, h.emitted())
	for _, e := range roomtest.Events(t, h.db) {
		require.False(t, bytes.Contains(e.Data, []byte(`"lines"`)), "a document is in no event")
	}
	for _, foreign := range [][2]string{{"tnt_b", draft.ID}, {tenantID, "stm_none"}} {
		_, err = h.issue(t.Context(), foreign[0], foreign[1], byKey)
		require.True(t, err != nil)
		_, err = h.settle(t.Context(), foreign[0], foreign[1], payment("x"), byKey)
		require.True(t, store.IsNone(err), "%v", err)
	}
}

// TestDrafts are bounded, and a discarded one makes space for another.
func TestDrafts(t *testing.T) {
	h := newFixture(t, t.TempDir())
	h.play("rgh_a", on(1))
	first := h.mustDraft(statementFor(0, 3))
	h.change(`INSERT INTO statements (tenant_id, from_at, to_at, time_zone, currency, total, held_amount, receipts, as_of, pack_id, tree_size, root_hash, paid_amount, sequence, document, created_at, updated_at, revision, correction, statement_id, state)
		SELECT tenant_id, from_at, to_at, time_zone, currency, total, held_amount, receipts, as_of, pack_id, 0, '', '0.00', 0, document, 0, 0, 0, 0, 'stm_' || CAST(i AS TEXT), 'DRAFT'
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
			draft, err := h.draft(t.Context(), c.requested, byKey)
			if c.free {
				require.NoError(t, err)
				_, err = h.discard(t.Context(), tenantID, draft.ID, byKey)
				require.NoError(t, err)
				return
			}
			conflict(t, err, "overlaps with that of")
			conflict(t, err, "or void it, and draft another one")
		})
	}
	h.change(`UPDATE statements SET state = 'SETTLED' WHERE state = 'ISSUED'`)
	_, err := h.draft(t.Context(), of(2, 4, "EUR", &h.studio), byKey)
	conflict(t, err, "overlaps with that of")
}

// TestStatedOnce: a receipt keeps the rule by which it was stated, in each currency and for each
// counterparty, and what no statement states is rated by today's rules.
func TestStatedOnce(t *testing.T) {
	h := newFixture(t, t.TempDir())
	h.play("rgh_a", on(1))
	inDollars, ofAgency := statementFor(0, 3), statementFor(0, 3)
	inDollars.Currency, ofAgency.CounterpartyID = "USD", &h.agency
	ofStudio := ofAgency
	ofStudio.CounterpartyID = &h.studio
	require.Equal(t, "0.75", h.mustIssue(ofStudio).Total)
	h.reprice("1") // no other amounts, and other texts
	h.rule("USD", "9")
	h.play("rgh_a", on(2))
	h.play("rgh_c", on(2))
	require.Equal(t, "18", h.mustDraft(inDollars).Total, "what is stated in euros is left out")
	agency := h.mustIssue(ofAgency)
	require.Equal(t, "0.25", agency.Total, "the rule by which it was stated has its share, and dollars have none")
	require.Len(t, h.document(h.mustIssue(inDollars).ID).Overlaps, 2)
	conflict(t, h.correctErr(agency.ID), "nothing has changed")
	require.Equal(t, []Total{{"EUR", "1", "0", nil}, {"USD", "18", "0", nil}}, h.totals(0, 3))
}

// totals are those of now, without payees.
func (h *fixture) totals(from, to float64) (list []Total) {
	h.t.Helper()
	rules, err := h.rulesNow(h.t.Context(), tenantID)
	require.NoError(h.t, err)
	t, err := h.current(h.t.Context(), tenantID, on(from).Time, on(to).Time, rules)
	require.NoError(h.t, err)
	l, err := h.load(h.t.Context(), tenantID, on(from).Time, on(to).Time, nil, &h.loaded, nil, t)
	require.NoError(h.t, err)
	p, err := l.rated(t, ratingOf)
	require.NoError(h.t, err)
	for _, total := range p.totals() {
		total.Payees = nil
		list = append(list, total)
	}
	return list
}

// TestSettlementOfSomeRights has the receipts of these alone, in lines, totals, what is held and what no rule rates.
func TestSettlementOfSomeRights(t *testing.T) {
	h := newFixture(t, t.TempDir())
	h.play("rgh_a", on(1))
	disputed := h.play("rgh_a", on(1))
	for range 3 {
		h.play("rgh_b", on(1))
	}
	h.play("rgh_c", on(1)) // which no rule rates
	h.dispute("dsp_1", "", 1, disputed)
	ctx := auth.WithPrincipal(t.Context(), auth.Principal{Key: &api.Key{TenantID: tenantID}})
	of := func(rightIDs ...string) (made []string) {
		s, err := h.getSettlement(ctx, &settlementInput{Window: route.Window{From: on(0).String(), To: on(3).String()}, RightID: rightIDs, By: "right", Page: route.Page{Limit: 10}})
		require.NoError(t, err)
		for _, l := range s.Lines {
			made = append(made, fmt.Sprint(l.RightID, " ", l.Receipts, " ", l.Amount))
		}
		for _, u := range s.Unrated {
			made = append(made, fmt.Sprint(u.RightID, " ", u.Receipts, " unrated"))
		}
		return append(made, s.Totals[0].Amount, s.Totals[0].HeldAmount)
	}
	require.Equal(t, []string{"rgh_a 1 1", "rgh_b 3 6", "rgh_c 1 unrated", "7", "1"}, of())
	require.Equal(t, []string{"rgh_a 1 1", "1", "1"}, of("rgh_a"))
	require.Equal(t, []string{"rgh_b 3 6", "rgh_c 1 unrated", "6", "0"}, of("rgh_c", "rgh_b"))
	require.Equal(t, []string{"0", "0"}, of("rgh_none"))
}

func (h *fixture) correctErr(id string) error {
	_, err := h.correct(h.t.Context(), tenantID, id, byKey)
	return err
}

// TestLateRuleOfAnotherCurrency: a rule in dollars that is made after the statement in euros rates what
// that does not state.
func TestLateRuleOfAnotherCurrency(t *testing.T) {
	h := newFixture(t, t.TempDir())
	h.play("rgh_a", on(1))
	for range 9 {
		h.play("rgh_c", on(2)) // which no rule rates
	}
	euros := h.mustIssue(statementFor(0, 20))
	require.Equal(t, "1", euros.Total)
	h.rule("USD", "9")
	dollars := statementFor(0, 20)
	dollars.Currency = "USD"
	require.Equal(t, "81", h.mustIssue(dollars).Total)
	require.Equal(t, "0", *h.mustCorrect(euros.ID).Difference, "they are not unrated any more")
}

// TestMillisecond: a statement of a millisecond, for one counterparty, keeps the rules of what it states
// and of nothing else.
func TestMillisecond(t *testing.T) {
	h := newFixture(t, t.TempDir())
	h.play("rgh_a", on(1))
	h.play("rgh_a", on(2))
	short := statementFor(1, 1)
	short.To, short.CounterpartyID = store.At(short.From.Add(time.Millisecond)), &h.studio
	require.Equal(t, "0.75", h.mustIssue(short).Total)
	h.reprice("10")
	h.play("rgh_a", on(3))
	rest := statementFor(0, 20)
	rest.CounterpartyID = &h.agency
	require.Equal(t, "5.25", h.mustIssue(rest).Total, "a quarter of 1 + 10 + 10")
	other := statementFor(0, 20)
	other.Currency = "USD"
	h.rule("USD", "3")
	require.Equal(t, "0", h.mustIssue(other).Total, "all are stated")
}

// TestPaymentTakenBack: a statement of which something is open again is ISSUED again, with an event that says so,
// and the log agrees. What a waiting credit pays instead stays SETTLED, and a VOIDED one stays VOIDED.
func TestPaymentTakenBack(t *testing.T) {
	h := newFixture(t, t.TempDir())
	disputed := h.play("rgh_a", on(1))
	requested := statementFor(0, 3)
	requested.CounterpartyID = &h.studio // gets 0.75
	first := h.mustIssue(requested)
	settle := func(id, amount, reference string) Statement {
		t.Helper()
		of := payment(reference)
		if amount != "" {
			of.Amount = &amount
		}
		s, err := h.settle(t.Context(), tenantID, id, of, byKey)
		require.NoError(t, err)
		difference, err := h.Restate(t.Context(), tenantID, id)
		require.NoError(t, err)
		require.Nil(t, difference)
		return s
	}
	_, err := h.settle(t.Context(), tenantID, h.mustDraft(statementFor(5, 6)).ID, part("-1"), byKey)
	conflict(t, err, "statement is DRAFT")
	require.Equal(t, Settled, settle(first.ID, "", "transfer 1").State)
	_, err = h.settle(t.Context(), tenantID, first.ID, part("-0.76"), byKey)
	require.Equal(t, "amount", api.From(err).Field, "%v", err)
	_, err = h.settle(t.Context(), tenantID, first.ID, part("0.75"), byKey)
	conflict(t, err, "nothing of the statement is open")
	open := settle(first.ID, "-0.5", "transfer 1 came back")
	require.Equal(t, []any{Issued, "0.25", "0.50", "transfer 1 came back", store.Instant{}}, []any{open.State, open.PaidAmount, *open.DueAmount, *open.Reference, open.SettledAt})
	require.Equal(t, "statement.reopened "+first.ID, h.emitted()[len(h.emitted())-1])
	require.Equal(t, "0.00", settle(first.ID, "-0.25", "the rest came back").PaidAmount)
	require.Equal(t, "statement.paid "+first.ID, h.emitted()[len(h.emitted())-1])
	require.Equal(t, Settled, settle(first.ID, "", "transfer 2").State)

	h.dispute("dsp_1", "", 0, disputed)
	h.resolve("dsp_1", "UPHELD")
	credit := h.issued(h.mustCorrect(first.ID).ID)
	require.Equal(t, []any{Issued, "0.00", "-0.75"}, []any{credit.State, credit.PaidAmount, *credit.DueAmount})
	require.Equal(t, []any{Settled, "0.75"}, []any{settle(first.ID, "-0.75", "transfer 2 came back").State, h.read(first.ID).PaidAmount})
	require.Equal(t, []any{Settled, "-0.75", "0.00"}, []any{h.read(credit.ID).State, h.read(credit.ID).PaidAmount, *h.read(credit.ID).DueAmount})

	h.play("rgh_b", on(5))
	requested.From, requested.To = on(4), on(6)
	other := h.mustIssue(requested)
	settle(other.ID, "", "transfer 3")
	require.NoError(t, h.voids(other.ID))
	require.Equal(t, "0.00", *h.read(other.ID).DueAmount)
	void := settle(other.ID, "-1.5", "transfer 3 came back")
	require.Equal(t, []any{Voided, "1.50", "0.00"}, []any{void.State, void.PaidAmount, *void.DueAmount}, "set off against its own void")
}

// TestPartPayments: a statement is ISSUED until nothing of it is open, whether a payment, a credit of another
// statement or a void is what pays a part of it.
func TestPartPayments(t *testing.T) {
	h := newFixture(t, t.TempDir())
	disputed := h.play("rgh_a", on(1))
	h.play("rgh_b", on(5))
	h.play("rgh_b", on(9))
	ofStudio := func(from, to float64) Statement {
		requested := statementFor(from, to)
		requested.CounterpartyID = &h.studio
		return requested
	}
	stands := func(s Statement, state State, paid, due string, settled bool) {
		t.Helper()
		require.Equal(t, []any{state, paid, due, settled}, []any{s.State, s.PaidAmount, *s.DueAmount, !s.SettledAt.IsZero()})
		require.Equal(t, s, h.read(s.ID).Statement)
	}
	pay := func(id, amount, reference string) Statement {
		t.Helper()
		of := part(amount)
		of.Reference = reference
		s, err := h.settle(t.Context(), tenantID, id, of, byKey)
		require.NoError(t, err)
		return s
	}
	newest := func() string { all := h.emitted(); return all[len(all)-1] }

	first := h.mustIssue(ofStudio(0, 3))
	stands(first, Issued, "0.00", "0.75", false)
	stands(pay(first.ID, "0.25", "transfer 1"), Issued, "0.25", "0.50", false)
	require.Equal(t, "statement.paid "+first.ID, newest())
	stands(pay(first.ID, "0.49", "transfer 2"), Issued, "0.74", "0.01", false)
	stands(pay(first.ID, "0.01", "transfer 3"), Settled, "0.75", "0.00", true)
	require.Equal(t, "statement.settled "+first.ID, newest())

	// A credit of another statement pays a part.
	second := h.mustIssue(ofStudio(4, 6))
	h.dispute("dsp_1", "", 0, disputed)
	h.resolve("dsp_1", "UPHELD")
	credit := h.issued(h.mustCorrect(first.ID).ID)
	stands(credit, Settled, "-0.75", "0.00", true)
	stands(h.read(second.ID).Statement, Issued, "0.75", "0.75", false)
	require.Contains(t, h.emitted(), "statement.paid "+second.ID)
	require.NotContains(t, h.emitted(), "statement.settled "+second.ID)

	// A void after a part was paid: the payee owes that, until another statement is due.
	stands(pay(second.ID, "0.5", "transfer 4"), Issued, "1.25", "0.25", false)
	void, err := h.void(t.Context(), tenantID, second.ID, "a wrong price", byKey)
	require.NoError(t, err)
	stands(void, Voided, "-0.25", "-1.25", false)
	stands(h.read(second.ID).Statement, Voided, "1.50", "0.00", false)
	third := h.mustIssue(ofStudio(8, 10))
	stands(third, Issued, "1.25", "0.25", false)
	stands(h.read(void.ID).Statement, Voided, "-1.50", "0.00", false)
	stands(pay(third.ID, "0.25", "transfer 5"), Settled, "1.50", "0.00", true)
}

// TestVoid: a void takes back what was stated; the period can be stated again, and what others state of it
// stands.
func TestVoid(t *testing.T) {
	h := newFixture(t, t.TempDir())
	h.play("rgh_a", on(1))
	h.play("rgh_b", on(1))
	ofStudio, ofAgency := statementFor(0, 3), statementFor(0, 3)
	ofStudio.CounterpartyID, ofAgency.CounterpartyID = &h.studio, &h.agency
	draft := h.mustDraft(ofStudio)
	_, err := h.void(t.Context(), tenantID, draft.ID, "a wrong price", byKey)
	conflict(t, err, "statement is DRAFT")
	first := h.issued(draft.ID)
	h.play("rgh_a", on(2))
	one := h.issued(h.mustCorrect(first.ID).ID)
	require.Equal(t, "3", one.Total)
	_, err = h.settle(t.Context(), tenantID, first.ID, payment("transfer 1"), byKey)
	require.NoError(t, err)
	agency := h.mustIssue(ofAgency)
	h.reprice("10")
	stale := h.mustDraft(statementFor(5, 6))
	late := h.play("rgh_a", on(2.5))
	pending := h.mustCorrect(first.ID)

	voided, err := h.void(t.Context(), tenantID, one.ID, "a wrong price", byKey)
	require.NoError(t, err)
	require.Equal(t, []any{Voided, "0", "-3", first.ID, "a wrong price", int64(2)}, []any{voided.State, voided.Total, *voided.Difference, *voided.Corrects, *voided.VoidReason, voided.Correction})
	document := h.document(voided.ID)
	require.Equal(t, []statement.Payee{{Amount: "-3", CounterpartyID: h.studio, Name: "Studio North"}}, document.Correction.Payees)
	require.Len(t, document.Correction.Changes, 2)
	for _, id := range []string{first.ID, one.ID} {
		s := h.read(id)
		require.Equal(t, []any{Voided, "0.00"}, []any{s.State, *s.DueAmount})
		require.NotEmpty(t, s.Document)
		_, err = h.void(t.Context(), tenantID, id, "again", byKey)
		conflict(t, err, "statement is VOIDED")
		conflict(t, h.correctErr(id), "statement is VOIDED")
		_, err = h.settle(t.Context(), tenantID, id, payment("x"), byKey)
		conflict(t, err, "nothing of the statement is open")
	}
	require.Equal(t, "transfer 1", *h.read(first.ID).Reference)
	_, err = h.issue(t.Context(), tenantID, pending.ID, byKey)
	conflict(t, err, "draft it again")
	h.issued(stale.ID) // of another time
	for _, event := range []string{"statement.voided " + voided.ID, "statement.voided " + first.ID, "statement.voided " + one.ID} {
		require.Contains(t, h.emitted(), event)
	}

	// What the agency's states keeps the first price; the late one has the new one.
	again := h.mustIssue(ofStudio)
	require.Equal(t, "10.5", again.Total, "three quarters of 1 + 2 + 1 + 10: %s", late)
	require.Equal(t, "3.5", h.mustCorrect(agency.ID).Total)
	require.Empty(t, h.reconcile(0, 10).Differences)
	require.Len(t, h.reconcile(0, 4).Statements, 2)
	require.Equal(t, "14", h.totals(0, 3)[0].Amount)
}

// TestNotYetOver: a draft of a period that is not over shows what there is, and can't be issued.
func TestNotYetOver(t *testing.T) {
	h := newFixture(t, t.TempDir())
	h.play("rgh_a", on(1))
	s := h.mustDraft(statementFor(0, 30))
	for _, day := range []float64{21, 31} {
		h.clock.Set(on(day).Time)
		_, err := h.issue(t.Context(), tenantID, s.ID, byKey)
		conflict(t, err, "drafted before its period ended")
	}
	h.mustIssue(statementFor(0, 30))
}

// TestManyOverlaps: a statement lists at most so many others.
func TestManyOverlaps(t *testing.T) {
	h := newFixture(t, t.TempDir())
	h.play("rgh_a", on(1))
	dollars := statementFor(0, 3)
	dollars.Currency = "USD"
	s := h.mustIssue(dollars)
	h.change(`INSERT INTO statements (tenant_id, from_at, to_at, time_zone, currency, total, held_amount, receipts, as_of, pack_id, tree_size, root_hash, sha256, document, created_at, updated_at, revision, correction, statement_id, state, paid_amount, sequence)
		SELECT tenant_id, from_at, to_at, time_zone, currency, total, held_amount, receipts, as_of, pack_id, tree_size, root_hash, sha256, document, 0, 0, 0, 0, 'stm_' || CAST(i AS TEXT), 'ISSUED', '0.00', i + 1
		FROM statements CROSS JOIN (WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ` + fmt.Sprint(mostOverlaps) + `) SELECT i FROM n) AS numbers`)
	_, err := h.draft(t.Context(), statementFor(0, 3), byKey)
	require.Equal(t, "from", api.From(err).Field, "%v", err)
	h.change(`DELETE FROM statements WHERE statement_id = 'stm_1'`)
	require.Len(t, h.document(h.mustDraft(statementFor(0, 3)).ID).Overlaps, mostOverlaps)
	conflict(t, h.correctErr(s.ID), "")
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
	roomtest.Fill(t, h.db, 5_000, "statements", `tenant_id, from_at, to_at, time_zone, total, held_amount, receipts, as_of, pack_id, tree_size, root_hash, paid_amount, sequence, document, created_at, updated_at, revision, correction, statement_id, corrects, currency, counterparty_id, state`,
		`'`+tenantID+`', i, i + 1, 'UTC', '0', '0', 0, '1.0.1', 'ppk_a', 0, '', '0.00', CASE WHEN i % 600 = 5 THEN 0 ELSE i END, '{}', 0, 0, 0, 0, 'stm_' || CAST(i AS TEXT), CASE WHEN i % 400 = 9 THEN 'stm_few' ELSE NULL END, CASE WHEN i % 700 = 3 THEN 'USD' ELSE 'EUR' END,
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
	require.Contains(t, roomtest.Plans(t, h.db, func(q store.Querier) error {
		_, err := issuedIn(t.Context(), q, &requested)
		return err
	}), "statements_that_bill")
	require.Contains(t, roomtest.Plans(t, h.db, func(q store.Querier) error {
		_, err := nextSequence(t.Context(), q, tenantID)
		return err
	}), "statements_by_sequence")
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
	made := h.mustDraft(statementFor(0, 30))
	require.Equal(t, "2", made.Total)
	require.Contains(t, h.read(made.ID).Document, `"adjustments":[]`)
}

// TestTooLong: who can't make a statement shorter by a counterparty is not told to choose one.
func TestTooLong(t *testing.T) {
	s := statement.Statement{Rights: []settlement.Right{{RightID: "rgh_a", Campaigns: []string{"spring"}, Labels: map[string]string{}}}}
	text, err := canonical.JSON(s.Rights)
	require.NoError(t, err)
	require.ErrorContains(t, tooLong(&s, 2*len(text)), "or one counterparty")
	require.ErrorContains(t, tooLong(&s, 2*len(text)-1), "have rules match fewer of them")
}
