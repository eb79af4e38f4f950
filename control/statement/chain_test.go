package statement

import (
	"math/big"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"muniment/control/dispute"
	"muniment/control/proof"
	"muniment/control/rapidtest"
	"muniment/control/settle"
	"muniment/pipeline"
	"muniment/pipeline/conform"
	"muniment/sealer"
)

// stages are the states of a log, and of disputes about it, over time.
type stages struct {
	rows []pipeline.Row
	ends []int // how many rows are there
	// opened and resolved are the stages of each dispute; some are never.
	disputes         dispute.Excluded
	opened, resolved []int
}

func drawStages(t *rapid.T) (s stages) {
	s.rows = rows(t)
	s.ends = []int{rapid.IntRange(1, len(s.rows)).Draw(t, "stated first")}
	for range rapid.IntRange(1, 4).Draw(t, "corrections") {
		s.ends = append(s.ends, rapid.IntRange(s.ends[len(s.ends)-1], len(s.rows)).Draw(t, "stated then"))
	}
	for _, x := range disputes(t, s.rows) {
		s.disputes = append(s.disputes, x)
		s.opened = append(s.opened, rapid.IntRange(0, len(s.ends)).Draw(t, "opened"))
		s.resolved = append(s.resolved, rapid.IntRange(s.opened[len(s.opened)-1], len(s.ends)).Draw(t, "resolved"))
	}
	return s
}

// excluded are the disputes that hold out or exclude something at a stage.
func (s *stages) excluded(stage int) (all dispute.Excluded) {
	for i, x := range s.disputes {
		switch upheld := x.Outcome == dispute.Upheld; {
		case stage < s.opened[i] || s.resolved[i] <= stage && !upheld:
			continue
		case stage < s.resolved[i]:
			x.State, x.Outcome = dispute.Open, ""
		}
		all = append(all, x)
	}
	return all
}

// position is the end of the log at a stage.
func (s *stages) position(stage int) sealer.Position { return s.rows[s.ends[stage]-1].Position.Next() }

// micros is an amount in millionths.
func micros(t *rapid.T, amount string) int64 {
	n, ok := new(big.Rat).SetString(amount)
	require.True(t, ok, amount)
	n.Mul(n, big.NewRat(1_000_000, 1))
	require.True(t, n.IsInt(), amount)
	return n.Num().Int64()
}

// TestCorrectionsAddUp corrects random statements repeatedly, while rows arrive late and disputes are
// opened and resolved. The first total plus the differences is the newest total, for each payee too.
// The changes sum to the difference, and count the receipts that a model finds one by one. Earlier
// statements can be recomputed, to the byte.
func TestCorrectionsAddUp(t *testing.T) {
	rapidtest.Check(t, 200, 20_000, func(t *rapid.T) {
		s := drawStages(t)
		records, err := settle.Records(rules(t))
		require.NoError(t, err)
		w := &conform.MemoryWarehouse{}
		r := newService(Config{Warehouse: w})
		var of *string
		if rapid.Bool().Draw(t, "of one") {
			of = new(rapid.SampledFrom([]string{"cp_a", "cp_b", "cp_c"}).Draw(t, "of"))
		}
		payees := []sealer.StatementPayee{{CounterpartyID: "cp_a", Name: "A"}, {CounterpartyID: "cp_b", Name: "B"}, {CounterpartyID: "cp_c", Name: "C"}}
		state := func(stage int, position sealer.Position) (d sealer.Statement) {
			end := proof.End{PackID: "ppk_" + position.String(), TreeSize: uint64(position.Offset), RootHash: "root"}
			d = sealer.Statement{
				StatementID: "stm_" + position.String() + string(rune('a'+stage)), AsOf: asOf(&end), TenantID: "tnt_a", Currency: "EUR", CounterpartyID: of,
				From: sealer.Moment{Time: month}, To: sealer.Moment{Time: month.Add(31 * 24 * time.Hour)}, Payees: payees, V: 1,
			}
			excluded := s.excluded(stage)
			d.Excluded, err = exclusions(excluded)
			require.NoError(t, err)
			require.NoError(t, Compute(t.Context(), r.cfg.Warehouse, position, records, excluded, &d))
			d.TenantID = "tnt_system" // one that may be
			return d
		}
		load(t, w, s.rows[:s.ends[0]])
		first := state(0, s.position(0))
		previous, at := first, 0 // the stage of the newest statement
		total, gets := micros(t, first.Total), map[string]int64{}
		for _, p := range first.Payees {
			gets[p.CounterpartyID] = micros(t, p.Amount)
		}
		restated := map[int]sealer.Statement{0: first}
		for stage := 1; stage < len(s.ends); stage++ {
			if s.ends[stage] > s.ends[stage-1] {
				load(t, w, s.rows[s.ends[stage-1]:s.ends[stage]])
			}
			d, then := state(stage, s.position(stage)), state(stage, s.position(at))
			restated[stage] = d
			c := chain{of: first.StatementID, rules: first.AsOf, previous: &previous, sha256: "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"}
			if err := c.correct(&d, &then, payees); err != nil {
				require.ErrorContains(t, err, "nothing has changed")
				require.Equal(t, previous.Total, d.Total)
				continue
			}
			text, err := d.Text()
			require.NoError(t, err)
			read, err := sealer.ParseStatement(text) // adds everything up
			require.NoError(t, err)
			require.Equal(t, d, read)

			total += micros(t, d.Correction.Difference)
			require.Equal(t, micros(t, d.Total), total)
			for _, p := range d.Correction.Payees {
				gets[p.CounterpartyID] += micros(t, p.Amount)
			}
			for _, p := range d.Payees {
				require.Equal(t, micros(t, p.Amount), gets[p.CounterpartyID])
			}
			for id, amount := range gets {
				require.True(t, amount == 0 || slices.ContainsFunc(d.Payees, func(p sealer.StatementPayee) bool { return p.CounterpartyID == id }))
			}
			requireChanges(t, w, &s, records, &d, at, stage)
			previous, at = d, stage
		}
		for stage, was := range restated {
			require.Equal(t, was.Lines, state(stage, s.position(stage)).Lines)
			was.Correction = nil
			require.Equal(t, was, state(stage, s.position(stage)))
		}
	})
}

// requireChanges requires that the changes count the receipts that the model finds one by one.
func requireChanges(t *rapid.T, w *conform.MemoryWarehouse, s *stages, records []sealer.SettlementRule, d *sealer.Statement, before, now int) {
	repeats, err := w.Duplicates(t.Context(), "tnt_a", sealer.Position{}, s.position(now))
	require.NoError(t, err)
	is := func(n int, stage int) bool {
		row := s.rows[n].Delivery
		held, upheld := split(s.excluded(stage))
		return !held.Has(row.ReceiptID, row.RightID, row.RenderedAt) && !upheld.Has(row.ReceiptID, row.RightID, row.RenderedAt)
	}
	type key struct{ rightID, meteringBasis, ruleID, reason string }
	want, got := map[key]int64{}, map[key]int64{}
	for n, row := range s.rows[:s.ends[now]] {
		m := row.Delivery
		copied := slices.ContainsFunc(repeats, func(d pipeline.Duplicate) bool { return d.EventID == row.EventID })
		if !m.Metered || copied || m.RenderedAt.Before(d.From.Time) || !m.RenderedAt.Before(d.To.Time) {
			continue
		}
		lines, _, err := settle.Rating.Rate(records, slices.Values([]sealer.Metered{{
			RightID: m.RightID, BasisID: m.BasisID, Substrate: m.Substrate, MeteringBasis: m.MeteringBasis, Completion: m.Completion, RenderedAt: m.RenderedAt,
			Receipts: 1, QuantityMs: m.QuantityMs, Impressions: m.Impressions,
		}}))
		require.NoError(t, err)
		for _, l := range lines {
			k, more := key{l.RightID, l.MeteringBasis, l.RuleID, sealer.ChangedLate}, int64(0)
			if is(n, now) {
				more++
			}
			if n < s.ends[before] {
				k.reason = sealer.ChangedByDispute
				if is(n, before) {
					more--
				}
			}
			want[k] += more
		}
	}
	shown := map[string]bool{}
	for _, l := range d.Lines {
		shown[l.RuleID] = true
	}
	for _, c := range d.Correction.Changes {
		if c.RightID != "" {
			got[key{c.RightID, c.MeteringBasis, c.RuleID, c.Reason}], shown[c.RuleID] = c.Receipts, true
		}
	}
	for k, n := range want { // a rule in another currency, or without a share of whose statement it is, has no line
		if shown[k.ruleID] {
			require.Equal(t, n, got[k], "%+v", k)
		}
	}
	for k, n := range got {
		require.Equal(t, n, want[k], "%+v", k)
	}
}
