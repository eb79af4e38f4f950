package verify

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/sealer"
	"muniment.example/sealer/canonical"
	"muniment.example/sealer/statement"
)

// issueOf is the data of the event of a statement's issue.
func (b *books) issueOf(s *statement.Statement, change ...string) string {
	b.TB.Helper()
	record := map[string]any{
		"corrects": nil, "counterpartyId": s.CounterpartyID, "currency": s.Currency, "from": s.From, "packId": s.AsOf.PackID, "rootHash": s.AsOf.RootHash, "treeSize": s.AsOf.TreeSize, "voidReason": nil,
		"sha256": b.naming(s).SHA256, "to": s.To,
	}
	if s.Correction != nil {
		record["corrects"], record["voidReason"] = s.Correction.Of, s.Correction.VoidReason
	}
	data, err := canonical.JSON(record)
	require.NoError(b.TB, err)
	return strings.NewReplacer(change...).Replace(string(data))
}

// issue seals the event of a statement's issue.
func (b *books) issue(s *statement.Statement, change ...string) []byte {
	b.TB.Helper()
	return b.event(statementIssuedEvent, sealer.Ref{Kind: "statement", ID: s.StatementID}, b.issueOf(s, change...))
}

// TestIssueIsOfTheText: the event of the issue has the period and all else by which the log shows what
// is billed twice.
func TestIssueIsOfTheText(t *testing.T) {
	for _, change := range [][]string{
		nil, {`"currency":"EUR"`, `"currency":"USD"`}, {`"counterpartyId":null`, `"counterpartyId":"cp_studio"`}, {`"corrects":null`, `"corrects":"stm_0"`},
		{`"from":"2`, `"from":"1`}, {`"to":`, `"too":`}, {`"packId":"ppk_0`, `"packId":"ppk_1`}, {`"treeSize":`, `"treeSize":1`}, {`"voidReason":null`, `"voidReason":"none"`},
	} {
		b := newBooks(t)
		b.statement.IssuedAt = canonical.Moment{Time: b.Now}
		verdicts := b.verify(&b.statement, append(b.packs, b.issue(&b.statement, change...))...).Files[0].Verdicts
		if change == nil {
			require.Empty(t, failures(verdicts))
		} else {
			require.Equal(t, []sealer.Code{sealer.EntryAltered}, failures(verdicts), "%v", change)
		}
	}
}

// TestStatementsOverlap: of two first statements that bill the same receipts, the log shows which is the
// second one. It lists the others that overlap.
func TestStatementsOverlap(t *testing.T) {
	agency := "cp_agency"
	for name, c := range map[string]struct {
		first            func(b *books, s *statement.Statement) // what was issued before
		overlaps, billed bool
	}{
		"the same":              {func(*books, *statement.Statement) {}, true, true},
		"a part of the period":  {func(b *books, s *statement.Statement) { s.To.Time = s.From.Add(time.Millisecond) }, true, true},
		"before it":             {func(b *books, s *statement.Statement) { s.From.Time, s.To.Time = s.From.Add(-time.Hour), s.From.Time }, false, false},
		"behind it":             {func(b *books, s *statement.Statement) { s.From.Time, s.To.Time = s.To.Time, s.To.Add(time.Hour) }, false, false},
		"in another currency":   {func(b *books, s *statement.Statement) { s.Currency = "USD" }, true, false},
		"of one":                {func(b *books, s *statement.Statement) { s.CounterpartyID = &agency }, true, true},
		"up to another end":     {func(b *books, s *statement.Statement) { s.Currency, s.AsOf = "USD", b.asOf(1) }, true, false},
		"a correction, of late": {func(b *books, s *statement.Statement) { s.Correction = &statement.Correction{Of: "stm_9"} }, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBooks(t)
			first := b.statement
			first.StatementID = "stm_0"
			c.first(b, &first)
			b.pack([][]byte{b.issueEvent(&first)})
			s := &b.statement
			s.IssuedAt = canonical.Moment{Time: b.Now}
			if b.overlap(s, 3); !c.overlaps {
				s.Overlaps = nil
			}
			b.settle(s)
			own := b.issue(s)
			verdicts := b.verify(s, append(b.packs, own)...).Files[0].Verdicts
			if c.billed {
				require.Equal(t, []sealer.Code{StatementOverlap}, failures(verdicts), "%+v", verdicts)
			} else {
				require.Empty(t, failures(verdicts), "%+v", verdicts)
			}
			if c.overlaps {
				unlisted := *s
				unlisted.Overlaps = nil
				require.Equal(t, []sealer.Code{StatementOverlap}, failures(b.verify(&unlisted, b.packs...).Files[0].Verdicts))
			}
			later := first // what is issued afterwards is that one's fault
			later.StatementID = "stm_3"
			require.Equal(t, c.billed, len(failures(b.verify(s, append(b.packs, own, b.issue(&later))...).Files[0].Verdicts)) > 0)
		})
	}
	b := newBooks(t)
	one, other := b.statement, b.statement
	one.CounterpartyID, other.CounterpartyID, one.StatementID = new("cp_studio"), &agency, "stm_0"
	b.settle(&one)
	b.pack([][]byte{b.issueEvent(&one)})
	b.overlap(&other, 3)
	b.settle(&other)
	other.IssuedAt = canonical.Moment{Time: b.Now}
	require.Empty(t, failures(b.verify(&other, append(b.packs, b.issue(&other))...).Files[0].Verdicts), "each its own shares")
}
