package statement

import (
	"encoding/csv"
	"math/big"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/control/settle"
	"muniment.example/control/store"
	"muniment.example/deploy/stack/stacktest"
	"muniment.example/gateway/api"
	"muniment.example/pipeline/conform"
	"muniment.example/sealer/rate"
	"muniment.example/sealer/statement"
)

func (h *fixture) mustCorrect(id string) Statement {
	h.t.Helper()
	s, err := h.correct(h.t.Context(), tenantID, id, byKey)
	require.NoError(h.t, err)
	return s
}

func (h *fixture) issued(id string) Statement {
	h.t.Helper()
	s, err := h.issue(h.t.Context(), tenantID, id, byKey)
	require.NoError(h.t, err)
	return s
}

func (h *fixture) document(id string) statement.Statement {
	h.t.Helper()
	s, err := h.read(id).document()
	require.NoError(h.t, err)
	return s
}

// TestCorrectionTakesItsCourse: a chain of corrections states late receipts and the effects of
// disputes and rules. What is stated keeps its rule.
func TestCorrectionTakesItsCourse(t *testing.T) {
	h := newFixture(t, t.TempDir())
	h.play("rgh_a", on(1))
	disputed := h.play("rgh_b", on(1))
	h.play("rgh_c", on(1)) // which no rule rates yet
	draft := h.mustDraft(statementFor(0, 3))
	_, err := h.correct(t.Context(), tenantID, draft.ID, byKey)
	conflict(t, err, "statement is DRAFT: only an issued statement can be corrected")
	first := h.issued(draft.ID)
	require.Equal(t, []any{"3", (*string)(nil), (*string)(nil)}, []any{first.Total, first.Corrects, first.Difference})
	document := h.read(first.ID).Document
	_, err = h.correct(t.Context(), tenantID, first.ID, byKey)
	conflict(t, err, "nothing has changed since "+first.ID)

	// A rule that is changed later changes nothing of what is stated, and one that is made later rates the rest.
	h.reprice("100")
	_, err = h.correct(t.Context(), tenantID, first.ID, byKey)
	conflict(t, err, "nothing has changed")
	h.rule("EUR", "9")
	require.Equal(t, "9", *h.mustCorrect(first.ID).Difference)
	h.play("rgh_a", on(2))
	h.play("rgh_a", on(3)) // behind the period
	h.dispute("dsp_1", "", 0, disputed)
	one := h.mustCorrect(first.ID)
	require.Equal(t, []any{Draft, "19", "2", int64(3), first.ID, "16", first.From, first.To}, []any{one.State, one.Total, one.HeldAmount, one.Receipts, *one.Corrects, *one.Difference, one.From, one.To})
	c := h.document(one.ID).Correction
	rule := h.document(first.ID).Lines
	require.Equal(t, []statement.Change{
		{Amount: "9", MeteringBasis: "dwell", Reason: "LATE", Receipts: 1, RightID: "rgh_a", RuleID: h.document(one.ID).Lines[2].RuleID},
		{Amount: "-2", MeteringBasis: "dwell", Reason: "DISPUTE", Receipts: -1, RightID: "rgh_b", RuleID: rule[1].RuleID},
		{Amount: "9", MeteringBasis: "dwell", Reason: "RULES", Receipts: 1, RightID: "rgh_c", RuleID: h.document(one.ID).Lines[2].RuleID},
	}, c.Changes)
	payees := []statement.Payee{{Amount: "16.5", CounterpartyID: h.studio, Name: "Studio North"}, {Amount: "-0.5", CounterpartyID: h.agency, Name: "Agency South"}}
	slices.SortFunc(payees, func(a, b statement.Payee) int {
		return map[bool]int{true: -1, false: 1}[a.CounterpartyID < b.CounterpartyID]
	})
	require.Equal(t, payees, c.Payees)
	require.Equal(t, statement.Predecessor{AsOf: h.document(first.ID).AsOf, SHA256: *first.SHA256, StatementID: first.ID, Total: "3"}, c.Previous)
	require.Equal(t, first.ID, c.Of)
	require.Empty(t, h.document(one.ID).Unrated)
	b, err := h.receiptFinder(t.Context(), h.read(one.ID), line{})
	require.NoError(t, err)
	behind, _, err := b.page(t.Context(), h.warehouse, nil, 10)
	require.NoError(t, err)
	require.Len(t, behind, 3)
	_, err = h.correct(t.Context(), tenantID, one.ID, byKey)
	conflict(t, err, "statement is DRAFT")

	// Of several drafts one is issued. The next correction continues from it, whichever statement of
	// the chain the request names.
	other := h.mustCorrect(first.ID)
	h.issued(one.ID)
	_, err = h.issue(t.Context(), tenantID, other.ID, byKey)
	conflict(t, err, "were issued or voided since this one was drafted: draft it again")
	_, err = h.correct(t.Context(), tenantID, first.ID, byKey)
	conflict(t, err, "nothing has changed since "+one.ID)
	h.resolve("dsp_1", "REJECTED")
	two := h.mustCorrect(one.ID)
	require.Equal(t, []string{"21", first.ID, "2"}, []string{two.Total, *two.Corrects, *two.Difference})
	require.Equal(t, one.ID, h.document(two.ID).Correction.Previous.StatementID)
	h.dispute("dsp_2", "rgh_a", 1)
	_, err = h.issue(t.Context(), tenantID, two.ID, byKey)
	conflict(t, err, "disputes were opened or resolved")
	h.resolve("dsp_2", "REJECTED")
	h.issued(two.ID)
	settled, err := h.settle(t.Context(), tenantID, two.ID, payment("transfer 9"), byKey)
	require.NoError(t, err)
	require.Equal(t, []string{"transfer 9", "2"}, []string{*settled.Reference, *settled.Difference})

	// What was upheld takes away from what is settled, too.
	h.dispute("dsp_3", "rgh_a", 1)
	h.resolve("dsp_3", "UPHELD")
	three := h.issued(h.mustCorrect(two.ID).ID)
	require.Equal(t, []string{"20", "0", "-1"}, []string{three.Total, three.HeldAmount, *three.Difference})
	require.Equal(t, document, h.read(first.ID).Document, "what was issued stays")
	for _, id := range []string{first.ID, one.ID, two.ID, three.ID} {
		difference, err := h.Restate(t.Context(), tenantID, id)
		require.NoError(t, err)
		require.Nil(t, difference, "computed again, each has the same amounts")
	}
	agrees := h.reconcile(0, 3)
	require.Len(t, agrees.Statements, 4)
	require.Empty(t, agrees.Differences)
	require.Equal(t, []any{(*string)(nil), &first.ID}, []any{agrees.Statements[0].Corrects, agrees.Statements[3].Corrects})
	require.Equal(t, Issued, h.read(first.ID).State)

	page, _, err := list(t.Context(), h.db.Read(), tenantID, filter{corrects: first.ID}, store.Slice{Limit: 10})
	require.NoError(t, err)
	require.Len(t, page, 5)
	discarded, err := h.discard(t.Context(), tenantID, other.ID, byKey)
	require.NoError(t, err)
	require.Equal(t, "16", *discarded.Difference)
	_, err = h.correct(t.Context(), tenantID, other.ID, byKey)
	conflict(t, err, "statement is DISCARDED")
	for _, foreign := range [][2]string{{"tnt_b", first.ID}, {tenantID, "stm_none"}} {
		_, err = h.correct(t.Context(), foreign[0], foreign[1], byKey)
		require.True(t, store.IsNone(err), "%v", err)
	}
}

// TestRemovedRowsAreNoCorrection: rows that were removed from the warehouse don't reduce payments.
func TestRemovedRowsAreNoCorrection(t *testing.T) {
	h := newFixture(t, t.TempDir())
	h.play("rgh_a", on(1))
	held := h.play("rgh_a", on(1))
	h.dispute("dsp_1", "", 0, held)
	first := h.mustIssue(statementFor(0, 2))
	h.play("rgh_b", on(1))
	h.mustCorrect(first.ID)
	h.cfg.Warehouse = new(conform.MemoryWarehouse)
	_, err := h.correct(t.Context(), tenantID, first.ID, byKey)
	conflict(t, err, "recomputing "+first.ID+" from the warehouse gives other amounts")
}

// TestPagesOfACorrection: HTML and CSV show the changes and their reasons.
func TestPagesOfACorrection(t *testing.T) {
	h := newFixture(t, t.TempDir())
	disputed := h.play("rgh_b", on(1))
	first := h.mustIssue(statementFor(0, 3))
	h.play("rgh_a", on(2))
	h.dispute("dsp_1", "", 0, disputed)
	one := h.issued(h.mustCorrect(first.ID).ID)
	document := h.document(one.ID)
	rules := []string{document.Correction.Changes[0].RuleID, document.Correction.Changes[1].RuleID}
	text := h.shown(one.ID, getInput{Format: "html"})
	for _, want := range []string{
		"<h1>Correction</h1>", "Corrects statement <code>" + first.ID + "</code>", "What is due is the difference to that statement", "<strong>2.00 EUR</strong>", "<strong>1.00 EUR</strong>", "<strong>−1.00 EUR</strong>",
		"<td>came late</td>", "<td>dispute opened or resolved</td>", `<td class="n">&#43;1</td>`, `<td class="n">−2.00</td>`, `<td class="n">−0.75</td>`, "Who is paid in all",
	} {
		require.Contains(t, text, want)
	}
	table := h.shown(one.ID, getInput{Format: "csv", Table: "changes"})
	begin := "," + one.ID + ",,2026-11-01T00:00:00.000Z,2026-11-04T00:00:00.000Z,UTC,EUR," + first.ID
	require.Contains(t, table, begin+",,,LATE,rgh_a,,,dwell,"+rules[0]+",1,1\n")
	require.Contains(t, table, begin+",,,DISPUTE,rgh_b,,,dwell,"+rules[1]+",-1,-2\n")
	text = h.shown(first.ID, getInput{Format: "html"})
	require.NotContains(t, text, "Correct")
	require.NotContains(t, text, "in all")

	h.resolve("dsp_1", "REJECTED")
	two := h.mustCorrect(one.ID)
	require.Contains(t, h.shown(two.ID, getInput{Format: "html"}), "the correction before this one, <code>"+one.ID+"</code>")
}

// changesOf are the amounts and the reasons of a payee's changes, by right, and their sum with others'.
func (h *fixture) changesOf(id, payee string, all *big.Rat) map[string]string {
	h.t.Helper()
	rows, err := csv.NewReader(strings.NewReader(h.shown(id, getInput{Format: "csv", Table: "changes", Payee: payee}))).ReadAll()
	require.NoError(h.t, err)
	changes := map[string]string{}
	for _, row := range rows[1:] {
		named := map[string]string{}
		for i, name := range rows[0] {
			named[name] = row[i]
		}
		n, ok := new(big.Rat).SetString(named["amount"])
		require.True(h.t, ok)
		all.Add(all, n)
		changes[named["rightId"]] = named["amount"] + " " + named["reason"]
	}
	return changes
}

// TestChangesOfOnePayee: those of all payees sum to the difference, of a correction and of a void. Without
// the text that is corrected there are none.
func TestChangesOfOnePayee(t *testing.T) {
	h := newFixture(t, t.TempDir())
	disputed := h.play("rgh_b", on(1))
	h.play("rgh_a", on(1))
	first := h.mustIssue(statementFor(0, 3))
	h.play("rgh_a", on(2))
	h.play("rgh_b", on(2))
	h.play("rgh_b", on(2))
	h.dispute("dsp_1", "", 0, disputed)
	one := h.issued(h.mustCorrect(first.ID).ID)
	all := new(big.Rat)
	require.Equal(t, map[string]string{"rgh_a": "0.75 LATE", "rgh_b": "1.5 DISPUTE LATE"}, h.changesOf(one.ID, h.studio, all))
	require.Equal(t, map[string]string{"rgh_a": "0.25 LATE", "rgh_b": "0.5 DISPUTE LATE"}, h.changesOf(one.ID, h.agency, all))
	require.Equal(t, *one.Difference, all.RatString())
	require.Contains(t, h.shown(one.ID, getInput{Format: "html", Payee: h.studio}), "<td>dispute opened or resolved, came late</td>")

	require.NoError(t, h.voids(first.ID))
	void, err := store.One(t.Context(), h.db.Read(), "the void", store.Text, `SELECT statement_id FROM statements WHERE void_reason IS NOT NULL`)
	require.NoError(t, err)
	all = new(big.Rat)
	require.Equal(t, map[string]string{"rgh_a": "-1.5 VOID", "rgh_b": "-3 VOID"}, h.changesOf(*void, h.studio, all))
	h.changesOf(*void, h.agency, all)
	require.Equal(t, *h.read(*void).Difference, all.RatString())

	for _, text := range []string{"", "{}"} { // restored, edited
		h.change(`UPDATE statements SET document = $1 WHERE statement_id = $2`, text, first.ID)
		found, document := h.read(one.ID), h.document(one.ID)
		p, err := h.paper(t.Context(), found, &document, h.studio)
		require.NoError(t, err)
		in := getInput{Format: "csv", Table: "changes", Payee: h.studio}
		_, _, err = in.shown(p)
		conflict(t, err, "computed from the text of "+first.ID)
		require.Contains(t, h.shown(one.ID, getInput{Format: "html", Payee: h.studio}), "Corrects statement")
	}
}

// rule makes one for everything, which goes before all others.
func (h *fixture) rule(currency, price string) {
	h.t.Helper()
	require.NoError(h.t, h.db.Change(h.t.Context(), func(tx *store.Tx) error {
		payee := h.studio
		if currency != "EUR" {
			c, err := settle.CreateCounterparty(h.t.Context(), tx, settle.Counterparty{TenantID: tenantID, Name: currency, Kind: settle.Publisher, Currency: currency}, byKey)
			if payee = c.ID; err != nil {
				return err
			}
		}
		_, err := settle.CreateRule(h.t.Context(), tx, settle.Rule{
			TenantID: tenantID, Unit: rate.Event, Price: price, Currency: currency, Priority: 100, EffectiveFrom: on(0), Shares: []settle.Share{{CounterpartyID: payee, Bps: 10_000}},
		}, byKey)
		return err
	}))
}

// reprice changes all rules.
func (h *fixture) reprice(price string) {
	h.t.Helper()
	h.change(`UPDATE settlement_rules SET price = $2, revision = revision + 1 WHERE tenant_id = $1`, tenantID, price)
}

// TestHeldAmountIsCorrected: a correction may change the held amount alone.
func TestHeldAmountIsCorrected(t *testing.T) {
	h := newFixture(t, t.TempDir())
	disputed := h.play("rgh_a", on(1))
	h.dispute("dsp_1", "", 0, disputed)
	first := h.mustIssue(statementFor(0, 2))
	require.Equal(t, []string{"0", "1"}, []string{first.Total, first.HeldAmount})
	h.resolve("dsp_1", "UPHELD")
	s := h.issued(h.mustCorrect(first.ID).ID)
	require.Equal(t, []string{"0", "0", "0"}, []string{s.Total, s.HeldAmount, *s.Difference})
	require.Empty(t, h.document(s.ID).Correction.Changes)
}

// TestCorrectionOfOne shows the difference of one counterparty.
func TestCorrectionOfOne(t *testing.T) {
	h := newFixture(t, t.TempDir())
	h.play("rgh_b", on(1))
	requested := statementFor(0, 2)
	requested.CounterpartyID = &h.agency
	first := h.mustIssue(requested)
	h.play("rgh_b", on(1))
	s := h.mustCorrect(first.ID)
	require.Equal(t, []string{"1", "0.5", h.agency}, []string{s.Total, *s.Difference, *s.CounterpartyID})
	require.Equal(t, "0.5", h.document(s.ID).Correction.Changes[0].Amount)
	require.NotContains(t, h.read(s.ID).Document, h.studio)
}

// TestOneOfManyCorrectionsWins: concurrent callers issue corrections of one statement.
func TestOneOfManyCorrectionsWins(t *testing.T) {
	stacktest.Both(t)
	h := newFixture(t, t.TempDir())
	h.play("rgh_a", on(1))
	first := h.mustIssue(statementFor(0, 2))
	h.play("rgh_a", on(1))
	drafts := make([]Statement, 8)
	for i := range drafts {
		drafts[i] = h.mustCorrect(first.ID)
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
			require.Equal(t, api.StateConflict, api.From(err).Code, "%v", err)
		}
	}
}

// TestCorrectionOfAnOlderStatement: a correction that was computed from a statement which another request
// corrected or voided meanwhile is not issued, though it lists that one's statement.
func TestCorrectionOfAnOlderStatement(t *testing.T) {
	for _, meanwhile := range []string{"correct", "void"} {
		h := newFixture(t, t.TempDir())
		h.play("rgh_a", on(1))
		first := h.mustIssue(statementFor(0, 3))
		h.play("rgh_a", on(2))
		previous := h.document(first.ID)
		then, position, err := h.termsOf(t.Context(), &first, &previous)
		require.NoError(t, err)
		if meanwhile == "void" {
			require.NoError(t, h.voids(first.ID))
		} else {
			h.issued(h.mustCorrect(first.ID).ID)
		}
		issued, err := issuedAround(t.Context(), h.db.Read(), &first)
		require.NoError(t, err)
		end, err := h.end(t.Context(), tenantID, byKey)
		require.NoError(t, err)
		late, err := h.create(t.Context(), Statement{
			TenantID: tenantID, From: first.From, To: first.To, TimeZone: first.TimeZone, Currency: first.Currency, Corrects: &first.ID, Correction: 1, CreatedAt: store.At(h.db.Now()),
		}, source{end, issued, nil, &chain{first.ID, &previous, *first.SHA256, position, then}}, byKey)
		require.NoError(t, err)
		_, err = h.issue(t.Context(), tenantID, late.ID, byKey)
		conflict(t, err, "was corrected or voided since")
	}
}
