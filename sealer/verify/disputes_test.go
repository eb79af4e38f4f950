package verify

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/sealer"
	"muniment.example/sealer/canonical"
	"muniment.example/sealer/pack"
	"muniment.example/sealer/sealertest"
	"muniment.example/sealer/statement"
)

// billed is a receipt of the statement that was rendered before it was issued.
func (b *books) billed() *sealer.Receipt {
	b.TB.Helper()
	repeated := make(map[uint64]bool)
	for _, d := range b.sealed[0].Header.Duplicates {
		repeated[d.Leaf] = true
	}
	for leaf, text := range b.events[0] {
		d, err := sealer.ReadDelivery(text)
		if err == nil && d.Metered && !repeated[uint64(leaf)] && d.Receipt.ReceiptID != b.receipt && d.Receipt.RenderedAt.Before(d.Receipt.IssuedAt) {
			return &d.Receipt
		}
	}
	b.TB.Fatal("there is none")
	return nil
}

// opened seals the event of another dispute, about a receipt.
func (b *books) opened(r *sealer.Receipt) []byte {
	b.TB.Helper()
	return b.event(disputeOpened, sealer.Ref{Kind: "dispute", ID: "dsp_2"}, `{"receiptIds":["`+r.ReceiptID+`"],"rightId":null,"window":null}`)
}

// TestDisputeBehindTheIssue: the log's order decides what was before the issue, not clocks.
func TestDisputeBehindTheIssue(t *testing.T) {
	for name, behind := range map[string]time.Duration{"same millisecond": time.Second, "clock behind": 3 * time.Second} {
		t.Run(name, func(t *testing.T) {
			b := newBooks(t)
			s := &b.statement
			s.IssuedAt = canonical.Moment{Time: b.Now}
			packs := append(b.packs, b.issue(s))
			b.Now = s.IssuedAt.Add(-behind)
			packs = append(packs, b.opened(b.billed()))
			require.Empty(t, failures(b.verify(s, packs...).Files[0].Verdicts))
		})
	}

	// One that is earlier in the log counts, even if its clock was ahead.
	b := newBooks(t)
	s := &b.statement
	s.IssuedAt = canonical.Moment{Time: b.Now}
	b.Now = b.Now.Add(time.Minute)
	packs := append(b.packs, b.opened(b.billed()), b.issue(s))
	require.Contains(t, failures(b.verify(s, packs...).Files[0].Verdicts), StatementExcluded)
}

// TestDisputeOfAnotherTime: a dispute about receipts that were rendered before the period is not of the
// statement, whenever they were issued.
func TestDisputeOfAnotherTime(t *testing.T) {
	b := newBooks(t)
	disputed, s := b.billed(), &b.statement
	s.From.Time, s.To.Time = disputed.RenderedAt.Add(time.Millisecond), sealertest.Epoch.AddDate(0, 0, 20) // it reaches the end of no month
	b.settle(s)
	require.False(t, disputed.IssuedAt.Before(s.From.Time))
	s.IssuedAt = canonical.Moment{Time: b.Now.Add(time.Minute)}
	packs := append(b.packs, b.opened(disputed), b.issue(s))
	require.NotContains(t, failures(b.verify(s, packs...).Files[0].Verdicts), StatementExcluded)
	s.From.Time = disputed.RenderedAt
	b.settle(s)
	packs[len(packs)-1] = b.issue(s)
	require.Contains(t, failures(b.verify(s, packs...).Files[0].Verdicts), StatementExcluded)
}

// TestManyWindows: windows are looked up in a time that grows with their logarithm, so no statement
// costs its auditor minutes.
func TestManyWindows(t *testing.T) {
	right, other := "rgh_1", "rgh_2"
	var list []statement.Exclusion
	window := func(rightID string, from, to int, state string) {
		at := func(n int) *string {
			return new(canonical.FormatTime(sealertest.Epoch.Add(time.Duration(n) * time.Millisecond)))
		}
		list = append(list, statement.Exclusion{DisputeID: fmt.Sprint(len(list)), State: state, RightID: &rightID, From: at(from), To: at(to), ReceiptIDs: []string{}})
	}
	for i := range 200 {
		window(right, 7*i%200*10, 7*i%200*10+5+i%9, []string{statement.ExclusionHeld, statement.ExclusionUpheld}[i%2])
	}
	window(right, 0, 2000, statement.ExclusionHeld)
	window(other, 3, 4, statement.ExclusionUpheld)
	e, err := newExclusions(list)
	require.NoError(t, err)
	for _, rightID := range []string{right, other, "rgh_3"} {
		for n := -1; n < 2100; n++ {
			r := &keptReceipt{renderedAt: sealertest.Epoch.UnixMilli() + int64(n)}
			want, now := "", canonical.FormatTime(time.UnixMilli(r.renderedAt))
			for _, x := range list {
				if *x.RightID == rightID && *x.From <= now && now < *x.To {
					want = max(want, x.State)
				}
			}
			require.Equal(t, want, e.state(r, rightID), "%s at %d", rightID, n)
		}
	}
	list = nil
	for i := range 90_000 {
		window(right, 0, 1, []string{statement.ExclusionHeld, statement.ExclusionUpheld}[i%2])
	}
	e, err = newExclusions(list)
	require.NoError(t, err)
	require.Len(t, e.windows[right].held, 1)
	require.Len(t, e.windows[right].upheld, 1)
}

// TestForgedStatementIsNotCounted: receipts are kept only for a statement that a key has signed.
func TestForgedStatementIsNotCounted(t *testing.T) {
	b := newBooks(t)
	signed := b.signed(&b.statement)
	file := filepath.Join(t.TempDir(), "pack")
	require.NoError(t, os.WriteFile(file, b.packs[1], 0o600))
	for name, c := range map[string]struct {
		text []byte
		want int
	}{"signed": {signed, 1}, "forged": {bytes.Replace(signed, []byte("stm_1"), []byte("stm_9"), 1), 0}} {
		anchor, err := readTrust(b.VKey, "")
		require.NoError(t, err)
		v := verification{trust: anchor, statements: map[string][]*statementFile{}}
		p := v.openPack(&FileReport{File: file})
		v.openStatement(new(FileReport), c.text)
		s := v.statements[b.Tenant][0]
		s.prepare(&v)
		kept := packCheck{header: &p.header, statements: v.statements, ledger: &pack.Ledger{Rated: []pack.Rated{{Row: new(pack.MeterRow), RenderedAt: s.said.From.UnixMilli()}}}}
		kept.keepReceipts()
		require.Len(t, kept.receipts, c.want, name)
	}
}

// TestStatementOfAnotherDispute holds what is left out against what the log says of disputes: one
// that is resolved is not held, and one that is not left out was rejected.
func TestStatementOfAnotherDispute(t *testing.T) {
	dispute := sealer.Ref{Kind: "dispute", ID: "dsp_1"}
	for name, c := range map[string]struct {
		outcome string      // of dsp_1, before the issue
		state   string      // as the statement has it; empty: it is not left out
		issued  bool        // the event of the issue is at hand
		code    sealer.Code // empty: sound
		remark  sealer.Code
	}{
		"open, held":                   {"", statement.ExclusionHeld, true, "", ""},
		"open, billed":                 {"", "", true, StatementExcluded, ""},
		"open, billed, and not proven": {"", "", false, "", StatementUnproven},
		"rejected, billed":             {"REJECTED", "", true, "", ""},
		"rejected, held":               {"REJECTED", statement.ExclusionHeld, true, StatementExcluded, ""},
		"upheld, billed":               {"UPHELD", "", false, StatementExcluded, ""},
		"upheld, held":                 {"UPHELD", statement.ExclusionHeld, true, StatementExcluded, ""},
		"upheld":                       {"UPHELD", statement.ExclusionUpheld, true, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBooks(t)
			packs := b.packs
			if c.outcome != "" {
				packs = append(packs, b.event(disputeResolved, dispute, `{"outcome":"`+c.outcome+`"}`))
			}
			s := &b.statement
			s.IssuedAt = canonical.Moment{Time: b.Now}
			s.Excluded[0].State = c.state
			if c.state == "" {
				s.Excluded = []statement.Exclusion{}
			}
			if c.issued {
				packs = append(packs, b.issue(s))
			}
			verdicts := b.verify(s, packs...).Files[0].Verdicts
			if c.code == "" {
				require.NotContains(t, failures(verdicts), StatementExcluded, "%+v", verdicts)
			} else {
				require.Contains(t, failures(verdicts), c.code, "%+v", verdicts)
			}
			if c.remark != "" {
				require.Contains(t, codesOf(FileReport{Verdicts: verdicts}), c.remark)
			}
		})
	}
}
