package verify

import (
	"crypto/sha256"
	"encoding/base64"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment/sealer"
)

// issueOf is the data of the event of a statement's issue.
func issueOf(t testing.TB, s *sealer.Statement, change ...string) string {
	t.Helper()
	text, err := s.Text()
	require.NoError(t, err)
	sum := sha256.Sum256(text)
	record := map[string]any{
		"corrects": nil, "counterpartyId": s.CounterpartyID, "currency": s.Currency, "from": s.From, "packId": s.AsOf.PackID,
		"sha256": base64.RawURLEncoding.EncodeToString(sum[:]), "to": s.To,
	}
	if s.Correction != nil {
		record["corrects"] = s.Correction.Of
	}
	data, err := sealer.Canonical(record)
	require.NoError(t, err)
	return strings.NewReplacer(change...).Replace(string(data))
}

// issue seals the event of a statement's issue.
func (b *books) issue(s *sealer.Statement, change ...string) []byte {
	b.TB.Helper()
	return b.event(statementIssuedEvent, sealer.Ref{Kind: "statement", ID: s.StatementID}, issueOf(b.TB, s, change...))
}

// TestIssueIsOfTheText: the event of the issue has the period and all else by which the log shows what
// is billed twice.
func TestIssueIsOfTheText(t *testing.T) {
	for _, change := range [][]string{
		nil, {`"currency":"EUR"`, `"currency":"USD"`}, {`"counterpartyId":null`, `"counterpartyId":"cp_studio"`}, {`"corrects":null`, `"corrects":"stm_0"`},
		{`"from":"2`, `"from":"1`}, {`"to":`, `"too":`}, {`"packId":"ppk_0`, `"packId":"ppk_1`},
	} {
		b := newBooks(t)
		b.statement.IssuedAt = sealer.Moment{Time: b.Now}
		verdicts := b.verify(&b.statement, append(b.packs, b.issue(&b.statement, change...))...).Files[0].Verdicts
		if change == nil {
			require.Empty(t, failures(verdicts))
		} else {
			require.Equal(t, []sealer.Code{sealer.EntryAltered}, failures(verdicts), "%v", change)
		}
	}
}

// TestStatementsOverlap: of two first statements that bill the same receipts, the log shows which is the
// second one.
func TestStatementsOverlap(t *testing.T) {
	studio, agency := "cp_studio", "cp_agency"
	for name, c := range map[string]struct {
		first  func(b *books, s *sealer.Statement) // what was issued before
		billed bool
	}{
		"the same":              {func(*books, *sealer.Statement) {}, true},
		"a part of the period":  {func(b *books, s *sealer.Statement) { s.To.Time = s.From.Add(time.Millisecond) }, true},
		"before it":             {func(b *books, s *sealer.Statement) { s.From.Time, s.To.Time = s.From.Add(-time.Hour), s.From.Time }, false},
		"behind it":             {func(b *books, s *sealer.Statement) { s.From.Time, s.To.Time = s.To.Time, s.To.Add(time.Hour) }, false},
		"in another currency":   {func(b *books, s *sealer.Statement) { s.Currency = "USD" }, false},
		"of one":                {func(b *books, s *sealer.Statement) { s.CounterpartyID = &agency }, true},
		"up to another end":     {func(b *books, s *sealer.Statement) { s.Currency, s.AsOf = "USD", b.asOf(1) }, true},
		"another's, other end":  {func(b *books, s *sealer.Statement) { s.CounterpartyID, s.AsOf = &agency, b.asOf(1) }, true},
		"a correction, of late": {func(b *books, s *sealer.Statement) { s.Correction = &sealer.StatementCorrection{Of: "stm_0"} }, false},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBooks(t)
			s := &b.statement
			s.IssuedAt = sealer.Moment{Time: b.Now}
			first := *s
			first.StatementID = "stm_0"
			c.first(b, &first)
			before := b.issue(&first)
			own := b.issue(s)
			verdicts := b.verify(s, append(b.packs, before, own)...).Files[0].Verdicts
			if c.billed {
				require.Equal(t, []sealer.Code{StatementOverlap}, failures(verdicts), "%+v", verdicts)
			} else {
				require.Empty(t, failures(verdicts), "%+v", verdicts)
			}
			later := b.issue(&first) // what is issued afterwards is that one's fault
			require.Empty(t, failures(b.verify(s, append(b.packs, own, later)...).Files[0].Verdicts))
		})
	}
	b := newBooks(t)
	one, other := b.statement, b.statement
	one.CounterpartyID, other.CounterpartyID, one.StatementID = &studio, &agency, "stm_0"
	b.settle(&one, 2)
	b.settle(&other, 2)
	one.IssuedAt, other.IssuedAt = sealer.Moment{Time: b.Now}, sealer.Moment{Time: b.Now}
	require.Empty(t, failures(b.verify(&other, append(b.packs, b.issue(&one), b.issue(&other))...).Files[0].Verdicts), "each its own shares")
}
