package verify

import (
	"bytes"
	"context"
	"crypto/sha256"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"

	"muniment.example/sealer"
	"muniment.example/sealer/canonical"
	"muniment.example/sealer/keydir"
	"muniment.example/sealer/merkle"
	"muniment.example/sealer/pack"
	"muniment.example/sealer/rate"
	"muniment.example/sealer/sealertest"
	"muniment.example/sealer/settlement"
	"muniment.example/sealer/statement"
)

// books is a log with rules, deliveries and a dispute, and a statement of all of it.
type books struct {
	*world
	events    [][][]byte // of each pack
	sealed    []*pack.Pack
	packs     [][]byte
	receipt   string // is disputed
	statement statement.Statement
	issues    []loggedIssue // that packs hold
}

// loggedIssue is the event of a statement's issue.
type loggedIssue struct {
	statement.Issue
	statement.Overlap
	end statement.PackRef
}

func newBooks(t *testing.T) *books {
	month := sealertest.Epoch.Truncate(24 * time.Hour)
	w := newWorld(t)
	b := &books{world: w}
	first := slices.Concat(w.Run(8), [][]byte{
		w.rule(ruleCreated, w.record(1)),
		w.rule(ruleCreated, w.record(2, `"rightId":null`, `"rightId":"rgh_1"`, `"unit":"SECOND"`, `"unit":"EVENT"`, `"minimum":null`, `"minimum":"5"`)),
	})
	b.pack(first)
	disputed, err := sealer.ParseEvent(first[2])
	require.NoError(t, err)
	b.receipt = "rcp_" + strings.TrimPrefix(disputed.EventID, "evt_")
	opened, err := sealer.AppendEvent(nil, &sealer.Event{
		EventID: w.ID("evt_"), TenantID: w.Tenant, Type: disputeOpened, At: w.Now, Actor: sealer.Ref{Kind: "key", ID: "key_fixture"}, Subject: sealer.Ref{Kind: "dispute", ID: "dsp_1"},
		Data: []byte(`{"receiptIds":["` + b.receipt + `"],"rightId":null,"window":null}`),
	})
	require.NoError(t, err)
	b.pack(append(w.Run(9), opened))
	b.statement = statement.Statement{
		AsOf: b.asOf(2), Currency: "EUR", From: canonical.Moment{Time: month}, To: canonical.Moment{Time: month.AddDate(0, 1, 0)}, IssuedAt: canonical.Moment{Time: w.Now},
		Excluded:    []statement.Exclusion{{DisputeID: "dsp_1", ReceiptIDs: []string{b.receipt}, State: statement.ExclusionHeld}},
		StatementID: "stm_1", TenantID: w.Tenant, V: 1,
	}
	require.Len(t, b.settle(&b.statement), 1)
	return b
}

// pack seals the next one.
func (b *books) pack(events [][]byte) {
	b.TB.Helper()
	p := b.Seal(events)
	b.events, b.sealed, b.packs = append(b.events, events), append(b.sealed, p), append(b.packs, sealertest.Bundle(b.TB, p, events))
}

// asOf is the end of the n-th pack, from 1 on.
func (b *books) asOf(n int) statement.PackRef {
	h := b.sealed[n-1].Header
	return statement.PackRef{PackID: h.PackID, RootHash: h.RootHash.String(), TreeSize: h.TreeSize}
}

// everybody is all who may be paid.
var everybody = []statement.Payee{{CounterpartyID: "cp_studio", Name: "Studio"}, {CounterpartyID: "cp_agency", Name: "Agency"}}

// rulesAt are those at the end of one of the packs.
func (b *books) rulesAt(end statement.PackRef) []settlement.Rule {
	i := slices.IndexFunc(b.sealed, func(p *pack.Pack) bool { return p.Header.TreeSize == end.TreeSize })
	return b.sealed[i].Header.Rules()
}

// terms are those of a statement.
func (b *books) terms(s *statement.Statement) *statement.Terms {
	b.TB.Helper()
	var issues []statement.Issue
	for _, e := range b.issues {
		if slices.Contains(s.Overlaps, e.Overlap) {
			e.Rules = b.rulesAt(e.end)
			issues = append(issues, e.Issue)
		}
	}
	t, err := statement.NewTerms(rate.Rating, issues, b.rulesAt(s.AsOf))
	require.NoError(b.TB, err)
	return t
}

// settle computes a statement, and returns what is held.
func (b *books) settle(s *statement.Statement) []settlement.Metered {
	b.TB.Helper()
	return b.settleBy(s, b.terms(s), s.AsOf.TreeSize)
}

// settleBy computes a statement by terms, from the packs up to a size, and returns what is held.
func (b *books) settleBy(s *statement.Statement, terms *statement.Terms, size uint64) (held []settlement.Metered) {
	b.TB.Helper()
	out, err := newExclusions(s.Excluded)
	require.NoError(b.TB, err)
	require.NoError(b.TB, s.Local(time.UTC))
	require.NoError(b.TB, s.Reach(rate.Rating, terms))
	var free []settlement.Metered
	repeats := make(map[uint64]bool)
	leaf := uint64(0)
	for i, p := range b.sealed {
		for _, d := range p.Header.Duplicates {
			repeats[d.Leaf] = true
		}
		for _, text := range b.events[i] {
			at := leaf
			leaf++
			d, err := sealer.ReadDelivery(text)
			if err != nil || !d.Metered || repeats[at] || at >= size || d.Receipt.RenderedAt.Before(s.Since.Time) || !d.Receipt.RenderedAt.Before(s.To.Time) {
				continue
			}
			m := settlement.Metered{
				RightID: d.RightID, BasisID: d.BasisID, Substrate: d.Substrate, MeteringBasis: d.Basis, Completion: d.Completion, RenderedAt: d.Receipt.RenderedAt, Leaf: at,
				Receipts: 1, QuantityMs: d.QuantityMs, Impressions: d.Impressions,
			}
			if n := slices.IndexFunc(b.Scopes, func(r settlement.Right) bool { return r.RightID == d.RightID }); n >= 0 {
				m.Right = &b.Scopes[n]
			}
			id, err := sealer.ParseID("rcp_", d.Receipt.ReceiptID)
			require.NoError(b.TB, err)
			switch out.receipts[id] {
			case statement.ExclusionHeld:
				held = append(held, m)
			case "":
				free = append(free, m)
			}
		}
	}
	s.Payees = everybody
	require.NoError(b.TB, statement.Settle(rate.Rating, terms, slices.Values(free), slices.Values(held), s))
	return held
}

// issueEvent is the event of a statement's issue, for the next pack.
func (b *books) issueEvent(s *statement.Statement) []byte {
	b.TB.Helper()
	kind, e := statementIssuedEvent, loggedIssue{Overlap: b.naming(s), end: s.AsOf}
	e.Of, e.From, e.To, e.Currency, e.CounterpartyID, e.TreeSize = s.StatementID, s.From.Time, s.To.Time, s.Currency, s.CounterpartyID, s.AsOf.TreeSize
	if c := s.Correction; c != nil {
		if e.Of = c.Of; c.VoidReason != nil {
			kind, e.Voids = statementVoidedEvent, true
		}
	}
	b.issues = append(b.issues, e)
	return b.entry(kind, sealer.Ref{Kind: "statement", ID: s.StatementID}, b.issueOf(s))
}

// overlap makes a statement one up to the n-th pack, which lists all that were issued.
func (b *books) overlap(s *statement.Statement, n int) {
	b.TB.Helper()
	s.AsOf, s.Overlaps = b.asOf(n), nil
	for _, e := range b.issues {
		s.Overlaps = append(s.Overlaps, e.Overlap)
	}
	slices.SortFunc(s.Overlaps, func(a, b statement.Overlap) int { return strings.Compare(a.StatementID, b.StatementID) })
}

// naming is how others name a statement.
func (b *books) naming(s *statement.Statement) statement.Overlap {
	b.TB.Helper()
	return statement.Overlap{SHA256: merkle.Hash(sha256.Sum256(b.signed(s))).String(), StatementID: s.StatementID}
}

// verify signs a statement and verifies it with packs.
func (b *books) verify(s *statement.Statement, packs ...[]byte) Report {
	b.TB.Helper()
	return b.verifyText(b.signed(s), packs...)
}

// signed is a statement as a file, however wrong it is.
func (b *books) signed(s *statement.Statement) []byte {
	b.TB.Helper()
	text, err := s.Text()
	require.NoError(b.TB, err)
	signature, err := sign(b.PackKey, text)
	require.NoError(b.TB, err)
	return slices.Concat(text, []byte("\n"), signatureLine(keydir.KeyID(sealertest.Public(b.PackKey)), signature), []byte("\n"))
}

// clone is a statement of its own.
func clone(t *testing.T, s *statement.Statement) (c statement.Statement) {
	t.Helper()
	text, err := s.Text()
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &c))
	return c
}

// exit is the exit status of verifying it.
func (b *books) exit(s *statement.Statement, packs ...[]byte) int {
	b.TB.Helper()
	_, status := b.run(b.signed(s), packs...)
	return status
}

func (b *books) verifyText(signed []byte, packs ...[]byte) Report {
	b.TB.Helper()
	r, _ := b.run(signed, packs...)
	return r
}

func (b *books) run(signed []byte, packs ...[]byte) (r Report, status int) {
	b.TB.Helper()
	dir := b.TB.TempDir()
	o := Options{Root: b.VKey, Rating: rate.Rating, JSON: true}
	for i, text := range append([][]byte{signed}, packs...) {
		o.Files = append(o.Files, filepath.Join(dir, string(rune('a'+i))))
		require.NoError(b.TB, os.WriteFile(o.Files[i], text, 0o600))
	}
	var out bytes.Buffer
	status = Files(context.Background(), o, &out)
	require.NoError(b.TB, json.Unmarshal(out.Bytes(), &r, json.MatchCaseInsensitiveNames(true)))
	return r, status
}

func codesOf(f FileReport) (codes []sealer.Code) {
	for _, v := range f.Verdicts {
		codes = append(codes, v.Code)
	}
	return codes
}

func TestStatement(t *testing.T) {
	b := newBooks(t)
	s := &b.statement
	require.NotEmpty(t, s.Lines)
	require.Len(t, s.Adjustments, 1)
	require.NotEqual(t, "0", s.HeldAmount)
	r := b.verify(s, b.packs...)
	require.True(t, r.OK, "%+v", r.Files)
	require.Equal(t, []sealer.Code{SignatureOK, IssueUnproven, StatementOK}, codesOf(r.Files[0]), "the event of its issue is not sealed")
	require.Contains(t, codesOf(b.verify(s, b.packs[1]).Files[0]), StatementUnproven)
	require.NotContains(t, codesOf(b.verify(s, b.packs[1]).Files[0]), StatementOK)
	require.False(t, b.verify(s, b.packs[1]).OK, "it is not judged")
	require.Equal(t, ExitUnjudged, b.exit(s, b.packs[1]))
	require.Equal(t, ExitUnjudged, b.exit(s))
	require.Equal(t, ExitSound, b.exit(s, b.packs...))
	require.Equal(t, ExitUnsound, b.exit(s, append(b.packs[1:], []byte("muniment/x\n"))...), "what is wrong comes first")

	// What it says is found, though its own key has signed it again.
	raise := func(amount *string) { // the last micro-unit of something
		n, err := parseMicros(*amount)
		require.NoError(t, err)
		*amount = formatMicros(n + 1)
	}
	for name, c := range map[string]struct {
		change func(s *statement.Statement)
		want   sealer.Code
	}{
		"a price":       {func(s *statement.Statement) { s.Lines[0].Price = "9" }, StatementRule},
		"a unit":        {func(s *statement.Statement) { s.Lines[0].Unit = "MS" }, StatementRule},
		"a rule's leaf": {func(s *statement.Statement) { s.Lines[0].RuleLeaf++ }, StatementReceipts},
		"receipts":      {func(s *statement.Statement) { s.Lines[0].Receipts++ }, StatementReceipts},
		"milliseconds":  {func(s *statement.Statement) { s.Lines[0].QuantityMs-- }, StatementReceipts},
		"impressions":   {func(s *statement.Statement) { s.Lines[0].Impressions = "99" }, StatementReceipts},
		"an amount": {func(s *statement.Statement) {
			raise(&s.Lines[0].Amount)
			raise(&s.Lines[0].Shares[0].Amount)
			raise(&s.Payees[1].Amount)
			raise(&s.Total)
		}, StatementAmount},
		"a share": {func(s *statement.Statement) {
			one, two := s.Lines[0].Shares[0], s.Lines[0].Shares[1]
			s.Lines[0].Shares[0].Amount, s.Lines[0].Shares[1].Amount = two.Amount, one.Amount
			a, err := parseMicros(one.Amount)
			require.NoError(t, err)
			z, err := parseMicros(two.Amount)
			require.NoError(t, err)
			for i := range s.Payees {
				n, err := parseMicros(s.Payees[i].Amount)
				require.NoError(t, err)
				if s.Payees[i].CounterpartyID == one.CounterpartyID {
					s.Payees[i].Amount = formatMicros(n + z - a)
				} else {
					s.Payees[i].Amount = formatMicros(n + a - z)
				}
			}
		}, StatementShares},
		"what is held":       {func(s *statement.Statement) { raise(&s.HeldAmount) }, StatementTotal},
		"a total":            {func(s *statement.Statement) { raise(&s.Total) }, FormatInvalid},
		"a dispute":          {func(s *statement.Statement) { s.Excluded[0].ReceiptIDs = []string{sealertest.Named("rcp_", "another")} }, StatementExcluded},
		"an upheld dispute":  {func(s *statement.Statement) { s.Excluded[0].State = statement.ExclusionUpheld }, StatementExcluded},
		"the end of the log": {func(s *statement.Statement) { s.AsOf.TreeSize-- }, StatementLog},
		"nothing left out":   {func(s *statement.Statement) { s.Excluded = []statement.Exclusion{} }, StatementReceipts},
		"another order":      {func(s *statement.Statement) { slices.Reverse(s.Lines) }, FormatInvalid},
		"a month less":       {func(s *statement.Statement) { s.Months, s.Adjustments = s.Months[:0], nil }, FormatInvalid},
		"a month's name":     {func(s *statement.Statement) { s.Months[0].Month, s.Adjustments[0].Month = "2026-04", "2026-04" }, StatementRule},
		"a month's zone":     {func(s *statement.Statement) { s.Months[0].TimeZone, s.Adjustments[0].TimeZone = "Etc/UTC", "Etc/UTC" }, StatementRule},
		"an earlier month":   {func(s *statement.Statement) { s.Since.Time = s.Since.Add(-time.Hour); s.Months[0].From = s.Since }, ""},
		"since":              {func(s *statement.Statement) { s.Since.Time = s.Since.Add(-time.Hour) }, StatementRule},
		"a local time":       {func(s *statement.Statement) { s.LocalTo = s.LocalFrom }, FormatInvalid},
		"another reason":     {func(s *statement.Statement) { s.Adjustments[0].Reason = "TIER" }, StatementRule},
	} {
		changed := clone(t, &b.statement)
		c.change(&changed)
		r := b.verify(&changed, b.packs...)
		if c.want == "" { // its moments may be those of other rules of time zones
			require.NotContains(t, codesOf(r.Files[0]), StatementOK, name)
			require.Contains(t, codesOf(r.Files[0]), StatementUnproven, name)
			continue
		}
		require.Contains(t, failures(r.Files[0].Verdicts), c.want, "%s: %+v", name, r.Files[0].Verdicts)
	}
}

// TestStatementIsSigned: a byte that was changed is found.
func TestStatementIsSigned(t *testing.T) {
	b := newBooks(t)
	signed, err := statement.Sign(&b.statement, b.PackKey)
	require.NoError(t, err)
	require.True(t, b.verifyText(signed, b.packs...).OK)
	for at := 0; at < len(signed); at += 37 {
		changed := bytes.Clone(signed)
		changed[at] ^= 1
		require.False(t, b.verifyText(changed).OK, "byte %d", at)
	}
}

// event seals one more event in a pack of its own.
func (b *books) event(kind string, subject sealer.Ref, data string) []byte {
	b.TB.Helper()
	event := b.entry(kind, subject, data)
	return sealertest.Bundle(b.TB, b.Seal([][]byte{event}), [][]byte{event})
}

// entry is one more event.
func (b *books) entry(kind string, subject sealer.Ref, data string) []byte {
	b.TB.Helper()
	b.Now = b.Now.Add(time.Second)
	event, err := sealer.AppendEvent(nil, &sealer.Event{
		EventID: b.ID("evt_"), TenantID: b.Tenant, Type: kind, At: b.Now, Actor: sealer.Ref{Kind: "key", ID: "key_fixture"}, Subject: subject, Data: []byte(data),
	})
	require.NoError(b.TB, err)
	return event
}
