package verify

import (
	"bytes"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/sealer"
	"muniment.example/sealer/canonical"
	"muniment.example/sealer/sealertest"
	"muniment.example/sealer/statement"
)

// corrected is a log whose statement was issued and corrected twice: for a dispute that was upheld
// and for receipts that came late, which a new price rates; then for late ones alone.
type corrected struct {
	*books
	first, second, third statement.Statement
}

func newCorrected(t *testing.T) *corrected {
	c := &corrected{books: newBooks(t)}
	c.first = c.statement
	c.Now = c.Now.Add(time.Second)
	upheld, err := sealer.AppendEvent(nil, &sealer.Event{
		EventID: c.ID("evt_"), TenantID: c.Tenant, Type: disputeResolved, At: c.Now, Actor: sealer.Ref{Kind: "key", ID: "key_fixture"}, Subject: sealer.Ref{Kind: "dispute", ID: "dsp_1"}, Data: []byte(`{"outcome":"UPHELD"}`),
	})
	require.NoError(t, err)
	c.pack(append(c.Run(7), c.rule("settlement_rule.changed", c.record(1, `"0.125"`, `"9"`)), c.issueEvent(&c.first)))
	c.second = c.correct("stm_2", &c.first, 3)
	c.pack(append(c.Run(5), upheld, c.issueEvent(&c.second)))
	c.third = c.correct("stm_3", &c.second, 4)
	return c
}

// correct restates up to the n-th pack what was stated before.
func (c *corrected) correct(id string, previous *statement.Statement, n int) statement.Statement {
	c.TB.Helper()
	s := *previous
	s.StatementID, s.IssuedAt = id, canonical.Moment{Time: c.Now}
	c.overlap(&s, n)
	s.Excluded = []statement.Exclusion{{DisputeID: "dsp_1", ReceiptIDs: []string{c.receipt}, State: statement.ExclusionUpheld}}
	s.Correction = &statement.Correction{
		Of: c.first.StatementID, Payees: everybody,
		Previous: statement.Predecessor{AsOf: previous.AsOf, SHA256: c.naming(previous).SHA256, StatementID: previous.StatementID, Total: previous.Total},
	}
	disputed, ruled := s, s
	require.Empty(c.TB, c.settleBy(&disputed, c.terms(previous), previous.AsOf.TreeSize))
	require.Empty(c.TB, c.settleBy(&ruled, c.terms(&s), previous.AsOf.TreeSize))
	c.settle(&s)
	require.NoError(c.TB, s.Correct(previous, statement.Step{Statement: &disputed, Reason: statement.ChangedByDispute}, statement.Step{Statement: &ruled, Reason: statement.ChangedByRules}, statement.Step{Statement: &s, Reason: statement.ChangedLate}))
	return s
}

// beside is a correction with the packs and the statements before it.
func (c *corrected) beside(s *statement.Statement, before ...*statement.Statement) Report {
	c.TB.Helper()
	files := slices.Clone(c.packs)
	for _, p := range before {
		files = append(files, c.signed(p))
	}
	return c.verify(s, files...)
}

func TestCorrection(t *testing.T) {
	c := newCorrected(t)
	for _, s := range []*statement.Statement{&c.second, &c.third} {
		require.NotEqual(t, "0", s.Correction.Difference)
		require.NotEmpty(t, s.Correction.Payees)
	}
	reasons := func(s *statement.Statement) (n [2]int) {
		for _, change := range s.Correction.Changes {
			n[map[string]int{statement.ChangedByDispute: 0, statement.ChangedLate: 1}[change.Reason]]++
		}
		return n
	}
	require.Zero(t, reasons(&c.second)[0], "what was held is paid no more and no less once that is upheld")
	require.Positive(t, reasons(&c.second)[1])
	require.Zero(t, reasons(&c.third)[0])

	r := c.beside(&c.third, &c.second, &c.first)
	require.True(t, r.OK, "%+v", r.Files)
	require.Equal(t, []sealer.Code{SignatureOK, IssueUnproven, StatementOK}, codesOf(r.Files[0]), "the event of its issue is not sealed")

	// Without the statement before it, and without packs, less is proven.
	alone := c.verify(&c.third, c.packs...).Files[0]
	require.Equal(t, []sealer.Code{SignatureOK, IssueUnproven, StatementUnproven, StatementOK}, codesOf(alone), "%+v", alone)
	for _, without := range []int{1, 2, 3} { // the packs of the first rules, of the statement before, and of its own
		packs := slices.Delete(slices.Clone(c.packs), without, without+1)
		f := c.verify(&c.third, append(packs, c.signed(&c.second))...).Files[0]
		require.Equal(t, VerdictUnjudged, f.Verdict, "%+v", f)
		require.NotContains(t, codesOf(f), StatementOK, "without pack %d", without+1)
	}
}

// TestLieInACorrection: what a correction says is found, though its own key has signed it.
func TestLieInACorrection(t *testing.T) {
	c := newCorrected(t)
	lateOf := func(s *statement.Statement) *statement.Change {
		i := slices.IndexFunc(s.Correction.Changes, func(c statement.Change) bool { return c.RuleID == s.Lines[0].RuleID })
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
		lie  func(s *statement.Statement)
		want sealer.Code
	}{
		"a price":      {func(s *statement.Statement) { s.Lines[0].Price = "9" }, StatementRule},
		"receipts":     {func(s *statement.Statement) { s.Lines[0].Receipts++ }, StatementReceipts},
		"an amount":    {func(s *statement.Statement) { s.Lines[0].Amount = "9" }, FormatInvalid},
		"a total":      {func(s *statement.Statement) { raise(1, &s.Total) }, FormatInvalid},
		"rules":        {func(s *statement.Statement) { lateOf(s).Reason = statement.ChangedByRules }, StatementCorrected},
		"a void":       {func(s *statement.Statement) { s.Correction.VoidReason = new("why not") }, FormatInvalid},
		"less listed":  {func(s *statement.Statement) { s.Overlaps = s.Overlaps[:1] }, StatementOverlap},
		"a difference": {func(s *statement.Statement) { raise(1, &s.Correction.Difference) }, FormatInvalid},
		"a reason":     {func(s *statement.Statement) { lateOf(s).Reason = statement.ChangedByDispute }, StatementCorrected},
		"no reason":    {func(s *statement.Statement) { lateOf(s).Reason = "ERROR" }, FormatInvalid},
		"its receipts": {func(s *statement.Statement) { lateOf(s).Receipts++ }, StatementCorrected},
		"a change":     {func(s *statement.Statement) { raise(1, &lateOf(s).Amount) }, FormatInvalid},
		"changes": {func(s *statement.Statement) {
			raise(1, &s.Correction.Changes[0].Amount)
			raise(-1, &s.Correction.Changes[1].Amount)
		}, StatementCorrected},
		"another order": {func(s *statement.Statement) { slices.Reverse(s.Correction.Changes) }, FormatInvalid},
		"no change": {func(s *statement.Statement) {
			s.Correction.Changes = append(s.Correction.Changes, statement.Change{Amount: "0", Reason: statement.ChangedLate, RightID: "zzz", RuleID: "zzz"})
		}, FormatInvalid},
		"payees": {func(s *statement.Statement) {
			raise(1, &s.Correction.Payees[0].Amount)
			raise(-1, &s.Correction.Payees[1].Amount)
		}, StatementCorrected},
		"a payee": {func(s *statement.Statement) { raise(1, &s.Correction.Payees[0].Amount) }, FormatInvalid},
		"of an unknown payee": {func(s *statement.Statement) {
			s.Correction.Payees = append(s.Correction.Payees, statement.Payee{Amount: "0", CounterpartyID: "zzz", Name: ""})
		}, FormatInvalid},
		"another first": {func(s *statement.Statement) { s.Correction.Of = "stm_0" }, StatementCorrected},
		"its own id":    {func(s *statement.Statement) { s.Correction.Of = s.StatementID }, FormatInvalid},
		"the one before": {func(s *statement.Statement) {
			s.Correction.Previous.StatementID = "stm_0"
		}, StatementCorrected},
		"its total": {func(s *statement.Statement) {
			raise(1, &s.Correction.Previous.Total, &s.Correction.Payees[0].Amount, &lateOf(s).Amount)
			raise(-1, &s.Correction.Difference)
			raise(-2, &s.Correction.Payees[0].Amount, &lateOf(s).Amount)
		}, StatementCorrected},
		"its end":     {func(s *statement.Statement) { s.Correction.Previous.AsOf = c.asOf(2) }, StatementCorrected},
		"its hash":    {func(s *statement.Statement) { s.Correction.Previous.SHA256 = "x" }, FormatInvalid},
		"a later end": {func(s *statement.Statement) { s.Correction.Previous.AsOf.TreeSize = s.AsOf.TreeSize + 1 }, FormatInvalid},
		"another period": {func(s *statement.Statement) {
			s.To = canonical.Moment{Time: s.To.Add(time.Hour)}
			_ = s.Local(time.UTC)
		}, StatementCorrected},
		"of one":         {func(s *statement.Statement) { s.CounterpartyID = new("cp_studio") }, FormatInvalid},
		"first again":    {func(s *statement.Statement) { s.Correction = nil }, StatementOverlap},
		"upheld, billed": {func(s *statement.Statement) { s.Excluded = []statement.Exclusion{} }, StatementExcluded},
	} {
		lie := clone(t, &c.third)
		l.lie(&lie)
		r := c.beside(&lie, &c.second)
		require.Contains(t, failures(r.Files[0].Verdicts), l.want, "%s: %+v", name, r.Files[0].Verdicts)
	}

	// Without the statement before it, what was late is recomputed all the same.
	for _, lie := range []func(s *statement.Statement){func(s *statement.Statement) { lateOf(s).Receipts++ }, func(s *statement.Statement) { lateOf(s).Reason = statement.ChangedByDispute }} {
		s := clone(t, &c.third)
		lie(&s)
		require.Contains(t, failures(c.verify(&s, c.packs...).Files[0].Verdicts), StatementCorrected)
	}
}

// TestOneStatementIsCorrectedOnce: of two corrections of one statement it is unknown which counts.
func TestOneStatementIsCorrectedOnce(t *testing.T) {
	c := newCorrected(t)
	c.issues = c.issues[:1]
	other := c.correct("stm_4", &c.first, 4)
	r := c.beside(&other, &c.first, &c.second)
	require.Equal(t, []sealer.Code{StatementCorrected}, failures(r.Files[0].Verdicts))
	require.Equal(t, []sealer.Code{StatementCorrected}, failures(r.Files[len(r.Files)-1].Verdicts))

	twice := clone(t, &c.second) // its id, issued once more
	twice.IssuedAt = canonical.Moment{Time: twice.IssuedAt.Add(time.Second)}
	require.Contains(t, failures(c.beside(&twice, &c.first, &c.second).Files[0].Verdicts), StatementCorrected)

	// An unsigned one is no other correction.
	forged := append(slices.Clone(c.packs), c.signed(&c.first), bytes.Replace(c.signed(&c.second), []byte("stm_2"), []byte("stm_9"), 1))
	r = c.verify(&c.second, forged...)
	require.Empty(t, failures(r.Files[0].Verdicts))
	require.Equal(t, []sealer.Code{sealer.SignatureInvalid}, failures(r.Files[len(r.Files)-1].Verdicts))
}

// TestLogKnowsTheChain: a correction that skips an earlier one in the log is found, without the
// file of that one.
func TestLogKnowsTheChain(t *testing.T) {
	for name, o := range map[string]struct {
		change func(c *corrected) *statement.Statement
		want   []sealer.Code
	}{
		"a chain": {func(c *corrected) *statement.Statement { return &c.third }, nil},
		"corrected before": {func(c *corrected) *statement.Statement {
			s := c.correct("stm_4", &c.first, 4)
			return &s
		}, []sealer.Code{StatementCorrected}},
		"corrected before, not listed": {func(c *corrected) *statement.Statement {
			c.issues = c.issues[:1]
			s := c.correct("stm_4", &c.first, 4)
			return &s
		}, []sealer.Code{StatementOverlap}},
		"another text before": {func(c *corrected) *statement.Statement {
			c.third.Overlaps[0].SHA256 = c.third.Overlaps[1].SHA256
			return &c.third
		}, []sealer.Code{StatementOverlap}},
		"one that is not listed": {func(c *corrected) *statement.Statement {
			c.third.Correction.Previous.StatementID = "stm_9"
			return &c.third
		}, []sealer.Code{StatementCorrected}},
		"voided before": {func(c *corrected) *statement.Statement {
			void := c.void(&c.second)
			c.pack([][]byte{c.issueEvent(&void)})
			s := c.correct("stm_4", &c.second, 5)
			return &s
		}, []sealer.Code{StatementCorrected}},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCorrected(t)
			s := o.change(c)
			missing := []sealer.Code{StatementUnproven} // what it corrects
			require.Equal(t, append(missing, o.want...), failures(c.verify(s, append(c.packs, c.issue(s))...).Files[0].Verdicts))
		})
	}

	// The log shows what was issued between a draft and its issue.
	c := newCorrected(t)
	other := c.third
	other.StatementID = "stm_4"
	packs := append(c.packs, c.issue(&other), c.issue(&c.third))
	require.Equal(t, []sealer.Code{StatementUnproven, StatementOverlap}, failures(c.verify(&c.third, packs...).Files[0].Verdicts))
	require.Equal(t, []sealer.Code{StatementUnproven}, failures(c.verify(&other, packs...).Files[0].Verdicts))
}

// void is the end of the chain of a statement.
func (c *corrected) void(previous *statement.Statement) statement.Statement {
	c.TB.Helper()
	s := statement.Statement{
		AsOf: previous.AsOf, Currency: previous.Currency, CounterpartyID: previous.CounterpartyID, From: previous.From, To: previous.To, HeldAmount: "0", IssuedAt: canonical.Moment{Time: c.Now},
		Since: previous.From, LocalFrom: previous.LocalFrom, LocalTo: previous.LocalTo, TimeZone: previous.TimeZone, StatementID: "stm_void", TenantID: previous.TenantID, Total: "0", V: 1,
		Correction: &statement.Correction{
			Of: c.first.StatementID, Payees: everybody, VoidReason: new("a wrong price"),
			Previous: statement.Predecessor{AsOf: previous.AsOf, SHA256: c.naming(previous).SHA256, StatementID: previous.StatementID, Total: previous.Total},
		},
	}
	require.NoError(c.TB, s.Correct(previous, statement.Step{Statement: &s, Reason: statement.Voided}))
	return s
}

// TestVoid: a void takes back all that was stated; afterwards the period can be stated again, and what was
// voided says so.
func TestVoid(t *testing.T) {
	c := newCorrected(t)
	void := c.void(&c.second)
	require.Equal(t, "-"+c.second.Total, void.Correction.Difference)
	c.pack([][]byte{c.issueEvent(&void)})
	again := clone(t, &c.third)
	again.StatementID, again.Correction, again.IssuedAt = "stm_5", nil, canonical.Moment{Time: c.Now}
	c.overlap(&again, 5)
	c.settle(&again)
	require.Contains(t, again.Lines[0].Price, "9", "the rules of now rate all")

	r := c.beside(&void, &c.second, &c.first, &again)
	require.True(t, r.OK, "%+v", r.Files)
	require.Equal(t, []sealer.Code{SignatureOK, InclusionOK, StatementOK}, sorted(codesOf(r.Files[0])), "%+v", r.Files[0])
	for _, f := range r.Files[len(r.Files)-3 : len(r.Files)-1] {
		require.Contains(t, codesOf(f), StatementVoided, "%+v", f)
	}
	require.Contains(t, codesOf(r.Files[len(r.Files)-1]), StatementOK)
	require.NotContains(t, codesOf(c.verify(&void, c.packs...).Files[0]), StatementOK, "what it voids is not at hand")
	for name, lie := range map[string]struct {
		lie  func(s *statement.Statement)
		want sealer.Code
	}{
		"no reason":  {func(s *statement.Statement) { s.Correction.VoidReason = new("") }, FormatInvalid},
		"a total":    {func(s *statement.Statement) { s.Total = "1" }, FormatInvalid},
		"late":       {func(s *statement.Statement) { s.Correction.Changes[0].Reason = statement.ChangedLate }, FormatInvalid},
		"receipts":   {func(s *statement.Statement) { s.Correction.Changes[0].Receipts++ }, StatementCorrected},
		"another":    {func(s *statement.Statement) { s.Correction.Previous.SHA256 = c.naming(&c.first).SHA256 }, StatementCorrected},
		"its period": {func(s *statement.Statement) { s.To.Time = s.To.Add(time.Hour); _ = s.Local(time.UTC) }, StatementCorrected},
	} {
		s := clone(t, &void)
		lie.lie(&s)
		require.Contains(t, failures(c.beside(&s, &c.second).Files[0].Verdicts), lie.want, name)
	}
}

func sorted(codes []sealer.Code) []sealer.Code {
	order := []sealer.Code{SignatureOK, InclusionOK, StatementOK}
	slices.SortStableFunc(codes, func(a, b sealer.Code) int { return slices.Index(order, a) - slices.Index(order, b) })
	return codes
}

// TestPacksCutElsewhere: what a statement keeps of another one's rules follows from the log, wherever
// that is cut into packs; without the packs of it nothing is said.
func TestPacksCutElsewhere(t *testing.T) {
	w := newWorld(t)
	before := w.World
	b := &books{world: w}
	b.pack(append(w.Run(9), w.rule(ruleCreated, w.record(1))))
	short := statement.Statement{
		Currency: "EUR", CounterpartyID: new("cp_agency"), From: canonical.Moment{Time: sealertest.Epoch}, To: canonical.Moment{Time: w.Now.Add(time.Hour)}, IssuedAt: canonical.Moment{Time: w.Now},
		StatementID: "stm_1", TenantID: w.Tenant, V: 1,
	}
	b.overlap(&short, 1)
	b.settle(&short)
	require.NotEmpty(t, short.Lines)
	b.pack([][]byte{w.rule("settlement_rule.changed", w.record(1, `"0.125"`, `"9"`))})
	b.pack(append(w.Run(9), b.issueEvent(&short)))
	b.pack(w.Run(1))
	s := short
	s.StatementID, s.CounterpartyID, s.IssuedAt = "stm_2", new("cp_studio"), canonical.Moment{Time: w.Now}
	b.overlap(&s, 4)
	b.settle(&s)
	prices := make(map[string]bool)
	for _, l := range s.Lines {
		prices[l.Price] = true
	}
	require.Equal(t, map[string]bool{"0.125": true, "9": true}, prices, "what is stated keeps its price")
	r := b.verify(&s, b.packs...)
	require.Contains(t, codesOf(r.Files[0]), StatementOK, "%+v", r.Files[0])

	// The same log, in other packs.
	all, last := slices.Concat(b.events[:3]...), b.events[3]
	w.Tree, w.Previous, w.Rules = before.Tree, before.Previous, before.Rules
	cut := &books{world: w, issues: b.issues}
	for _, at := range [][2]int{{0, 4}, {4, len(all)}} {
		cut.pack(all[at[0]:at[1]])
	}
	cut.pack(last)
	restored := s
	restored.AsOf = cut.asOf(3)
	require.Equal(t, s.AsOf.RootHash, restored.AsOf.RootHash)
	r = cut.verify(&restored, cut.packs...)
	require.Contains(t, codesOf(r.Files[0]), StatementOK, "%+v", r.Files[0])
	r = cut.verify(&restored, cut.packs[1:]...)
	require.Equal(t, VerdictUnjudged, r.Files[0].Verdict, "%+v", r.Files[0])
	require.NotContains(t, codesOf(r.Files[0]), StatementOK)
	lie := clone(t, &restored)
	lie.Overlaps = []statement.Overlap{}
	require.Equal(t, []sealer.Code{StatementOverlap}, failures(cut.verify(&lie, cut.packs...).Files[0].Verdicts))
}

// TestDisputeInACorrection: what was paid and is disputed since is taken back, and paid once the
// dispute comes to nothing.
func TestDisputeInACorrection(t *testing.T) {
	c := &corrected{books: newBooks(t)}
	paid, s := c.statement, c.statement
	s.StatementID, s.Excluded = "stm_0", []statement.Exclusion{}
	require.Empty(t, c.settle(&s))
	c.first = s // in which nothing was disputed yet
	c.pack(append(c.Run(7), c.issueEvent(&s)))
	back := c.correct("stm_5", &s, 3)
	changes := slices.DeleteFunc(slices.Clone(back.Correction.Changes), func(c statement.Change) bool { return c.Reason != statement.ChangedByDispute })
	require.NotEmpty(t, changes)
	require.Negative(t, changes[len(changes)-1].Receipts)
	require.Equal(t, s.Total, added(t, paid.Total, paid.HeldAmount))
	require.NotContains(t, failures(c.beside(&back, &s).Files[0].Verdicts), StatementCorrected)
	r := c.beside(&back, &s)
	require.Contains(t, codesOf(r.Files[0]), StatementOK, "%+v", r.Files[0])
	lie := clone(t, &back)
	for i := range lie.Correction.Changes {
		if change := &lie.Correction.Changes[i]; change.Reason == statement.ChangedByDispute {
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
