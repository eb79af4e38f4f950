package verify

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment/sealer"
)

// corrected is a log whose statement was issued and corrected twice: for a dispute that was upheld
// and for receipts that came late, which a new price would rate otherwise; then for late ones alone.
type corrected struct {
	*books
	first, second, third sealer.Statement
}

func newCorrected(t *testing.T) *corrected {
	c := &corrected{books: newBooks(t)}
	c.first = c.statement
	c.Now = c.Now.Add(time.Second)
	upheld, err := sealer.AppendEvent(nil, &sealer.Event{
		EventID: c.ID("evt_"), TenantID: c.Tenant, Type: disputeResolved, At: c.Now, Actor: sealer.Ref{Kind: "key", ID: "key_fixture"}, Subject: sealer.Ref{Kind: "dispute", ID: "dsp_1"}, Data: []byte(`{"outcome":"UPHELD"}`),
	})
	require.NoError(t, err)
	c.pack(append(c.Run(7), c.rule("settlement_rule.changed", c.record(1, `"0.125"`, `"9"`))))
	c.second = c.correct("stm_2", &c.first, 2, 3)
	c.pack(append(c.Run(5), upheld))
	c.third = c.correct("stm_3", &c.second, 3, 4)
	return c
}

// correct restates up to the n-th pack what was stated up to another one before.
func (c *corrected) correct(id string, previous *sealer.Statement, before, n int) sealer.Statement {
	c.TB.Helper()
	text, err := previous.Text()
	require.NoError(c.TB, err)
	sum := sha256.Sum256(text)
	s := *previous
	s.StatementID, s.AsOf, s.IssuedAt = id, c.asOf(n), sealer.Moment{Time: c.Now}
	s.Excluded = []sealer.StatementExclusion{{DisputeID: "dsp_1", ReceiptIDs: []string{c.receipt}, State: sealer.ExclusionUpheld}}
	s.Correction = &sealer.StatementCorrection{
		Of: c.first.StatementID, Rules: c.first.AsOf, Payees: everybody,
		Previous: sealer.StatementPrevious{AsOf: previous.AsOf, SHA256: base64.RawURLEncoding.EncodeToString(sum[:]), StatementID: previous.StatementID, Total: previous.Total},
	}
	then := s
	require.Empty(c.TB, c.settle(&then, before))
	c.settle(&s, n)
	require.NoError(c.TB, s.Correct(previous, &then))
	return s
}

// beside is a correction with the packs and the statements before it.
func (c *corrected) beside(s *sealer.Statement, before ...*sealer.Statement) Report {
	c.TB.Helper()
	files := slices.Clone(c.packs)
	for _, p := range before {
		files = append(files, c.signed(p))
	}
	return c.verify(s, files...)
}

func TestCorrection(t *testing.T) {
	c := newCorrected(t)
	for _, s := range []*sealer.Statement{&c.second, &c.third} {
		require.NotEqual(t, "0", s.Correction.Difference)
		require.NotEmpty(t, s.Correction.Payees)
	}
	reasons := func(s *sealer.Statement) (n [2]int) {
		for _, change := range s.Correction.Changes {
			n[map[string]int{sealer.ChangedByDispute: 0, sealer.ChangedLate: 1}[change.Reason]]++
		}
		return n
	}
	require.Zero(t, reasons(&c.second)[0], "what was held is paid no more and no less once that is upheld")
	require.Positive(t, reasons(&c.second)[1])
	require.Zero(t, reasons(&c.third)[0])

	r := c.beside(&c.third, &c.second, &c.first)
	require.True(t, r.OK, "%+v", r.Files)
	require.Equal(t, []sealer.Code{SignatureOK, StatementUnproven, StatementOK}, codesOf(r.Files[0]), "the event of its issue is not sealed")

	// Without the statement before it, and without packs, less is proven.
	alone := c.verify(&c.third, c.packs...).Files[0]
	require.Equal(t, []sealer.Code{SignatureOK, StatementUnproven, StatementUnproven, StatementOK}, codesOf(alone), "%+v", alone)
	for _, without := range []int{1, 2, 3} { // the packs of the rules, of the statement before, and of its own
		packs := slices.Delete(slices.Clone(c.packs), without, without+1)
		f := c.verify(&c.third, append(packs, c.signed(&c.second))...).Files[0]
		require.True(t, f.ok(), "%+v", f)
		require.NotContains(t, codesOf(f), StatementOK, "without pack %d", without+1)
	}
}

// TestLieInACorrection: what a correction says is found, though its own key has signed it.
func TestLieInACorrection(t *testing.T) {
	c := newCorrected(t)
	lateOf := func(s *sealer.Statement) *sealer.StatementChange {
		i := slices.IndexFunc(s.Correction.Changes, func(c sealer.StatementChange) bool { return c.RuleID == s.Lines[0].RuleID })
		return &s.Correction.Changes[i]
	}
	raise := func(by int64, amounts ...*string) {
		for _, amount := range amounts {
			n, err := parseMicros(*amount)
			require.NoError(t, err)
			*amount = formatMicros(n + by)
		}
	}
	for name, l := range map[string]struct {
		lie  func(s *sealer.Statement)
		want sealer.Code
	}{
		"a price":      {func(s *sealer.Statement) { s.Lines[0].Price = "9" }, StatementRule},
		"receipts":     {func(s *sealer.Statement) { s.Lines[0].Receipts++ }, StatementReceipts},
		"an amount":    {func(s *sealer.Statement) { s.Lines[0].Amount = "9" }, FormatInvalid},
		"a total":      {func(s *sealer.Statement) { raise(1, &s.Total) }, FormatInvalid},
		"its rules":    {func(s *sealer.Statement) { s.Correction.Rules = c.asOf(1) }, StatementCorrected},
		"rules' root":  {func(s *sealer.Statement) { s.Correction.Rules.RootHash = c.asOf(1).RootHash }, StatementCorrected},
		"rules' size":  {func(s *sealer.Statement) { s.Correction.Rules.TreeSize-- }, StatementCorrected},
		"a difference": {func(s *sealer.Statement) { raise(1, &s.Correction.Difference) }, FormatInvalid},
		"a reason":     {func(s *sealer.Statement) { lateOf(s).Reason = sealer.ChangedByDispute }, StatementCorrected},
		"no reason":    {func(s *sealer.Statement) { lateOf(s).Reason = "ERROR" }, FormatInvalid},
		"its receipts": {func(s *sealer.Statement) { lateOf(s).Receipts++ }, StatementCorrected},
		"a change":     {func(s *sealer.Statement) { raise(1, &lateOf(s).Amount) }, FormatInvalid},
		"changes": {func(s *sealer.Statement) {
			raise(1, &s.Correction.Changes[0].Amount)
			raise(-1, &s.Correction.Changes[1].Amount)
		}, StatementCorrected},
		"another order": {func(s *sealer.Statement) { slices.Reverse(s.Correction.Changes) }, FormatInvalid},
		"no change": {func(s *sealer.Statement) {
			s.Correction.Changes = append(s.Correction.Changes, sealer.StatementChange{Amount: "0", Reason: sealer.ChangedLate, RightID: "zzz", RuleID: "zzz"})
		}, FormatInvalid},
		"payees": {func(s *sealer.Statement) {
			raise(1, &s.Correction.Payees[0].Amount)
			raise(-1, &s.Correction.Payees[1].Amount)
		}, StatementCorrected},
		"a payee": {func(s *sealer.Statement) { raise(1, &s.Correction.Payees[0].Amount) }, FormatInvalid},
		"of an unknown payee": {func(s *sealer.Statement) {
			s.Correction.Payees = append(s.Correction.Payees, sealer.StatementPayee{Amount: "0", CounterpartyID: "zzz", Name: ""})
		}, FormatInvalid},
		"another first": {func(s *sealer.Statement) { s.Correction.Of = "stm_0" }, StatementCorrected},
		"its own id":    {func(s *sealer.Statement) { s.Correction.Of = s.StatementID }, FormatInvalid},
		"the one before": {func(s *sealer.Statement) {
			s.Correction.Previous.StatementID = "stm_0"
		}, StatementCorrected},
		"its total": {func(s *sealer.Statement) {
			raise(1, &s.Correction.Previous.Total, &s.Correction.Payees[0].Amount, &lateOf(s).Amount)
			raise(-1, &s.Correction.Difference)
			raise(-2, &s.Correction.Payees[0].Amount, &lateOf(s).Amount)
		}, StatementCorrected},
		"its end":        {func(s *sealer.Statement) { s.Correction.Previous.AsOf = c.asOf(2) }, StatementCorrected},
		"its hash":       {func(s *sealer.Statement) { s.Correction.Previous.SHA256 = "x" }, FormatInvalid},
		"a later end":    {func(s *sealer.Statement) { s.Correction.Previous.AsOf.TreeSize = s.AsOf.TreeSize + 1 }, FormatInvalid},
		"another period": {func(s *sealer.Statement) { s.To = sealer.Moment{Time: s.To.Add(time.Hour)} }, StatementCorrected},
		"of one":         {func(s *sealer.Statement) { s.CounterpartyID = new("cp_studio") }, FormatInvalid},
		"first again":    {func(s *sealer.Statement) { s.Correction = nil }, StatementRule},
		"upheld, billed": {func(s *sealer.Statement) { s.Excluded = []sealer.StatementExclusion{} }, StatementExcluded},
	} {
		lie := clone(t, &c.third)
		l.lie(&lie)
		r := c.beside(&lie, &c.second)
		require.Contains(t, failures(r.Files[0].Verdicts), l.want, "%s: %+v", name, r.Files[0].Verdicts)
	}

	// Without the statement before it, what was late is recomputed all the same.
	for _, lie := range []func(s *sealer.Statement){func(s *sealer.Statement) { lateOf(s).Receipts++ }, func(s *sealer.Statement) { lateOf(s).Reason = sealer.ChangedByDispute }} {
		s := clone(t, &c.third)
		lie(&s)
		require.Contains(t, failures(c.verify(&s, c.packs...).Files[0].Verdicts), StatementCorrected)
	}
}

// TestOneStatementIsCorrectedOnce: of two corrections of one statement it is unknown which counts.
func TestOneStatementIsCorrectedOnce(t *testing.T) {
	c := newCorrected(t)
	other := c.correct("stm_4", &c.first, 2, 4)
	require.True(t, c.beside(&other, &c.first).OK)
	r := c.beside(&other, &c.first, &c.second)
	require.Equal(t, []sealer.Code{StatementCorrected}, failures(r.Files[0].Verdicts))
	require.Equal(t, []sealer.Code{StatementCorrected}, failures(r.Files[len(r.Files)-1].Verdicts))

	twice := clone(t, &c.second) // its id, issued once more
	twice.IssuedAt = sealer.Moment{Time: twice.IssuedAt.Add(time.Second)}
	require.Equal(t, []sealer.Code{StatementCorrected}, failures(c.beside(&twice, &c.first, &c.second).Files[0].Verdicts))

	// An unsigned one is no other correction.
	forged := append(slices.Clone(c.packs), c.signed(&c.first), bytes.Replace(c.signed(&c.second), []byte("stm_2"), []byte("stm_9"), 1))
	r = c.verify(&c.second, forged...)
	require.Empty(t, failures(r.Files[0].Verdicts))
	require.Equal(t, []sealer.Code{sealer.SignatureInvalid}, failures(r.Files[len(r.Files)-1].Verdicts))
}

// TestLogKnowsTheChain: a correction that skips an earlier one in the log is found, without the
// file of that one.
func TestLogKnowsTheChain(t *testing.T) {
	c := newCorrected(t)
	again, edited := c.correct("stm_4", &c.first, 2, 4), c.second
	edited.IssuedAt = sealer.Moment{Time: edited.IssuedAt.Add(time.Second)}
	for name, o := range map[string]struct {
		log  []*sealer.Statement // issued, in this order
		one  *sealer.Statement
		want []sealer.Code
	}{
		"a chain":                {[]*sealer.Statement{&c.first, &c.second, &c.third}, &c.third, nil},
		"corrected before":       {[]*sealer.Statement{&c.first, &c.second, &again}, &again, []sealer.Code{StatementCorrected}},
		"corrected later":        {[]*sealer.Statement{&c.first, &again, &c.second}, &again, nil},
		"one passed over":        {[]*sealer.Statement{&c.first, &c.second, &again, &c.third}, &c.third, []sealer.Code{StatementCorrected}},
		"the one before unknown": {[]*sealer.Statement{&c.first, &c.third}, &c.third, nil},
		"another text before":    {[]*sealer.Statement{&c.first, &edited, &c.third}, &c.third, []sealer.Code{StatementCorrected}},
		"its issue unknown":      {[]*sealer.Statement{&c.first, &c.second}, &again, nil},
	} {
		t.Run(name, func(t *testing.T) {
			files := slices.Clone(c.packs)
			for _, s := range o.log {
				files = append(files, c.issue(s))
			}
			require.Equal(t, o.want, failures(c.verify(o.one, files...).Files[0].Verdicts))
		})
	}
}

// TestFirstCorrection is by the rules of the end of the log that the first statement names.
func TestFirstCorrection(t *testing.T) {
	c := newCorrected(t)
	lie := clone(t, &c.second)
	lie.Correction.Rules = c.asOf(1)
	require.Contains(t, failures(c.beside(&lie, &c.first).Files[0].Verdicts), FormatInvalid)
}

// TestDisputeInACorrection: what was paid and is disputed since is taken back, and paid once the
// dispute comes to nothing.
func TestDisputeInACorrection(t *testing.T) {
	c := newCorrected(t)
	s := c.first
	s.StatementID, s.Excluded = "stm_0", []sealer.StatementExclusion{}
	require.Empty(t, c.settle(&s, 2))
	paid := c.first
	c.first = s // in which nothing was disputed yet
	back := c.correct("stm_5", &s, 2, 3)
	changes := slices.DeleteFunc(slices.Clone(back.Correction.Changes), func(c sealer.StatementChange) bool { return c.Reason != sealer.ChangedByDispute })
	require.NotEmpty(t, changes)
	require.Negative(t, changes[len(changes)-1].Receipts)
	require.Equal(t, s.Total, added(t, paid.Total, paid.HeldAmount))
	require.NotContains(t, failures(c.beside(&back, &s).Files[0].Verdicts), StatementCorrected)
	r := c.beside(&back, &s)
	require.Contains(t, codesOf(r.Files[0]), StatementOK, "%+v", r.Files[0])
	lie := clone(t, &back)
	for i := range lie.Correction.Changes {
		if change := &lie.Correction.Changes[i]; change.Reason == sealer.ChangedByDispute {
			change.Receipts--
		}
	}
	require.Contains(t, failures(c.beside(&lie, &s).Files[0].Verdicts), StatementCorrected)
	require.NotContains(t, failures(c.verify(&lie, c.packs...).Files[0].Verdicts), StatementCorrected, "which needs the statement before it")
}

func added(t *testing.T, a, b string) string {
	t.Helper()
	one, err := parseMicros(a)
	require.NoError(t, err)
	two, err := parseMicros(b)
	require.NoError(t, err)
	return formatMicros(one + two)
}
