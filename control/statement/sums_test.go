package statement

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"muniment.example/control/dispute"
	"muniment.example/control/rapidtest"
	"muniment.example/control/settle"
	"muniment.example/control/store"
	"muniment.example/gateway/api"
	"muniment.example/pipeline"
	"muniment.example/pipeline/conform"
	"muniment.example/sealer"
	"muniment.example/sealer/canonical"
	"muniment.example/sealer/rate"
	"muniment.example/sealer/settlement"
	"muniment.example/sealer/statement"
)

var (
	month   = time.Date(2026, 10, 1, 0, 0, 0, 0, time.UTC)
	rights  = []string{"rgh_a", "rgh_b"}
	periods = []time.Time{month.Add(-24 * time.Hour), month, month.Add(24 * time.Hour), month.Add(15 * 24 * time.Hour), month.Add(31 * 24 * time.Hour), month.Add(40 * 24 * time.Hour)}
)

// moment is one around the period, often at an edge of something.
func moment(t *rapid.T, label string) time.Time {
	return rapid.SampledFrom(periods).Draw(t, label).Add(time.Duration(rapid.Int64Range(-1, 1).Draw(t, label+" beside")) * time.Millisecond)
}

// rows are deliveries as the log may have them, with copies of some.
func rows(t *rapid.T) (rows []pipeline.Row) {
	for i := range rapid.IntRange(1, 40).Draw(t, "deliveries") {
		id := api.NewID("", month.Add(50*24*time.Hour))
		d := &pipeline.Delivery{
			ReceiptID: "rcp_" + id, RightID: rapid.SampledFrom(rights).Draw(t, "right"), BasisID: "bas_a", Substrate: rapid.SampledFrom([]string{"CTV", "DOOH"}).Draw(t, "substrate"),
			RenderedAt: moment(t, "rendered"), Metered: true, Reason: sealer.ReasonMetered, MeteringBasis: rapid.SampledFrom([]string{"gross", "viewable"}).Draw(t, "basis"),
			QuantityMs: rapid.Int64Range(0, 100_000).Draw(t, "ms"), Impressions: rapid.Int64Range(1, 50_000).Draw(t, "impressions"),
			Completion:  rapid.SampledFrom([]string{"none", "complete"}).Draw(t, "completion"),
			Idempotency: rapid.SampledFrom([]string{"", "a key", "another"}).Draw(t, "key"),
		}
		if rapid.IntRange(0, 4).Draw(t, "suppressed") == 0 {
			d.Metered, d.Reason, d.MeteringBasis, d.QuantityMs, d.Impressions = false, "NOT_VISIBLE", "none", 0, 0
		}
		rows = append(rows, pipeline.Row{
			Entry: sealer.Entry{Position: sealer.Position{Generation: 1, Offset: int64(i)}, Record: sealer.Record{TenantID: "tnt_a", EventID: "evt_" + id}},
			Type:  sealer.TypeDelivery, At: month.Add(50 * 24 * time.Hour), Delivery: d,
		})
	}
	return rows
}

// rules are random ones of two currencies.
func rules(t *rapid.T) (list []settle.Rule) {
	text := func(label string) *string {
		if rapid.Bool().Draw(t, label+" is there") {
			return new(rate.Money(rapid.Int64Range(0, 200_000_000).Draw(t, label)).String())
		}
		return nil
	}
	for i := range rapid.IntRange(0, 5).Draw(t, "rules") {
		r := settle.Rule{
			ID: fmt.Sprintf("rule_%d", i), Unit: rapid.SampledFrom([]rate.Unit{rate.Event, rate.Impression, rate.CPM, rate.MS, rate.Second}).Draw(t, "unit"),
			Price: rate.Price(rapid.Int64Range(0, 3_000_000_000).Draw(t, "price")).String(), Currency: rapid.SampledFrom([]string{"EUR", "USD"}).Draw(t, "currency"),
			EffectiveFrom: store.At(moment(t, "effective")), Priority: rapid.Int64Range(0, 2).Draw(t, "priority"), State: settle.Active,
			CreatedAt: store.At(month), UpdatedAt: store.At(month), Minimum: text("minimum"), Tiers: []settle.Tier{}, TimeZone: rapid.SampledFrom([]string{"UTC", "America/New_York", "Pacific/Kiritimati"}).Draw(t, "zone"),
		}
		if rapid.Bool().Draw(t, "tiered") {
			r.TiersMode = new(rapid.SampledFrom([]rate.Mode{rate.Graduated, rate.Volume}).Draw(t, "mode"))
			r.Tiers = []settle.Tier{{Above: rapid.Int64Range(1, 5000).Draw(t, "above"), Price: rate.Price(rapid.Int64Range(0, 3_000_000_000).Draw(t, "tier's price")).String()}}
		}
		if rapid.Bool().Draw(t, "ends") {
			r.EffectiveUntil = store.At(r.EffectiveFrom.Add(time.Duration(rapid.Int64Range(0, 40*24*3600*1000).Draw(t, "long")) * time.Millisecond))
			if r.EffectiveUntil == r.EffectiveFrom { // retired before it began
				r.State = settle.Retired
			}
		}
		if r.Minimum == nil {
			r.Cap = text("cap")
		}
		if rapid.Bool().Draw(t, "for a right") {
			r.Match.RightID = new(rapid.SampledFrom(rights).Draw(t, "its right"))
		}
		if rapid.Bool().Draw(t, "for a completion") {
			r.Match.Completion = new("complete")
		}
		left := int64(10_000)
		for _, id := range []string{"cp_c", "cp_a", "cp_b"} {
			part := left
			if id != "cp_b" {
				part = rapid.Int64Range(1, left-2).Draw(t, "bps")
			}
			r.Shares, left = append(r.Shares, settle.Share{CounterpartyID: id, Bps: part}), left-part
			if left < 3 {
				r.Shares[len(r.Shares)-1].Bps += left
				break
			}
		}
		list = append(list, r)
	}
	return list
}

// disputes are about some of the rows, and about others.
func disputes(t *rapid.T, rows []pipeline.Row) (all dispute.Excluded) {
	for i := range rapid.IntRange(0, 4).Draw(t, "disputes") {
		x := dispute.Exclusion{ID: fmt.Sprintf("dsp_%d", i), State: dispute.Open}
		if rapid.Bool().Draw(t, "upheld") {
			x.State, x.Outcome = dispute.Resolved, dispute.Upheld
		}
		if rapid.Bool().Draw(t, "of a window") {
			from, to := moment(t, "from"), moment(t, "to")
			if !from.Before(to) {
				continue
			}
			x.RightID, x.Window = rapid.SampledFrom(rights).Draw(t, "disputed"), dispute.Window{From: store.At(from), To: store.At(to)}
		} else {
			for range rapid.IntRange(1, 5).Draw(t, "receipts") {
				x.ReceiptIDs = append(x.ReceiptIDs, rapid.SampledFrom(rows).Draw(t, "receipt").Delivery.ReceiptID)
			}
		}
		all = append(all, x)
	}
	return all
}

func load(t *rapid.T, w *conform.MemoryWarehouse, rows []pipeline.Row) {
	from, next := rows[0].Position, rows[len(rows)-1].Position.Next()
	require.NoError(t, w.Load(t.Context(), pipeline.Batch{From: from, Rows: rows, Next: next}))
}

// TestStatementsAddUp compares statements from a warehouse's sums with a model that rates each
// receipt by itself: random receipts, copies, rules, currencies and disputes give the same statement
// to the micro-unit; shares sum to lines, lines and adjustments to the total, and a statement of one
// counterparty is its part of the whole. Later arrivals change nothing.
func TestStatementsAddUp(t *testing.T) {
	rapidtest.Check(t, 300, 20_000, func(t *rapid.T) {
		all := rows(t)
		stated := all[:rapid.IntRange(1, len(all)).Draw(t, "loaded")]
		w := &conform.MemoryWarehouse{}
		load(t, w, stated)
		excluded, priced := disputes(t, all), rules(t)
		records, err := settle.Records(priced)
		require.NoError(t, err)
		own, err := statement.NewTerms(settle.Rating, nil, records)
		require.NoError(t, err)
		by := &terms{Terms: own}
		blank := func(currency string, of *string) statement.Statement {
			s := statement.Statement{StatementID: "stm_a", TenantID: "tnt_system", Currency: currency, CounterpartyID: of, From: canonical.Moment{Time: month}, To: canonical.Moment{Time: month.Add(31 * 24 * time.Hour)}, V: 1}
			require.NoError(t, s.Local(time.UTC))
			require.NoError(t, reach(&s, records))
			return s
		}
		q := question{tenantID: "tnt_a", from: month, to: month.Add(31 * 24 * time.Hour), asOf: new(stated[len(stated)-1].Position.Next()), terms: []*terms{by}, excluded: excluded}
		for _, currency := range []string{"EUR", "USD"} {
			s := blank(currency, nil)
			q.edges = append(q.edges, s.Edges()...)
			if s.Since.Before(q.from) {
				q.from = s.Since.Time
			}
		}
		sums, err := count(t.Context(), w, q)
		require.NoError(t, err)

		var free, held []settlement.Metered
		behind := map[string][]string{} // the receipts of each line
		in, out := split(excluded)
		repeats, err := w.Duplicates(t.Context(), "tnt_a", sealer.Position{}, *q.asOf)
		require.NoError(t, err)
		for _, row := range stated {
			d := row.Delivery
			copied := slices.ContainsFunc(repeats, func(d pipeline.Duplicate) bool { return d.EventID == row.EventID })
			if !d.Metered || copied || d.RenderedAt.Before(q.from) || !d.RenderedAt.Before(q.to) || out.Has(d.ReceiptID, d.RightID, d.RenderedAt) {
				continue
			}
			m := settlement.Metered{
				RightID: d.RightID, BasisID: d.BasisID, Substrate: d.Substrate, MeteringBasis: d.MeteringBasis, Completion: d.Completion, RenderedAt: d.RenderedAt,
				Receipts: 1, QuantityMs: d.QuantityMs, Impressions: d.Impressions,
			}
			if in.Has(d.ReceiptID, d.RightID, d.RenderedAt) {
				held = append(held, m)
			} else {
				if free = append(free, m); d.RenderedAt.Before(month) {
					continue // it counts in a month alone
				}
				lines, _, err := settle.Rating.Rate(records, slices.Values([]settlement.Metered{m}))
				require.NoError(t, err)
				for _, l := range lines {
					behind[l.RuleID+l.RightID+l.MeteringBasis] = append(behind[l.RuleID+l.RightID+l.MeteringBasis], d.ReceiptID)
				}
			}
		}
		make := func(currency string, of *string, free, held []settlement.Metered) statement.Statement {
			s := blank(currency, of)
			require.NoError(t, periodSums{free, held}.settle(settle.Rating, by, &s))
			text, err := s.Text()
			require.NoError(t, err)
			_, err = statement.Parse(text) // adds everything up
			require.NoError(t, err)
			return s
		}
		for _, currency := range []string{"EUR", "USD"} {
			s := make(currency, nil, sums.free, sums.held)
			requireReceipts(t, w, &s, &q, behind)
			require.Equal(t, make(currency, nil, rapid.Permutation(free).Draw(t, "in any order"), held), s)
			for _, p := range s.Payees {
				require.Equal(t, p.Amount, make(currency, &p.CounterpartyID, sums.free, sums.held).Total)
			}
		}
		if len(stated) < len(all) {
			load(t, w, all[len(stated):])
			again, err := count(t.Context(), w, q)
			require.NoError(t, err)
			require.ElementsMatch(t, sums.free, again.free)
			require.ElementsMatch(t, sums.held, again.held)
		}
	})
}

// requireReceipts requires the given receipts behind each line of a statement, page by page.
func requireReceipts(t *rapid.T, w *conform.MemoryWarehouse, s *statement.Statement, q *question, behind map[string][]string) {
	list, err := exclusions(q.excluded)
	require.NoError(t, err)
	document := *s
	document.Excluded, document.TenantID = list, q.tenantID
	limit := rapid.IntRange(1, 5).Draw(t, "limit")
	for _, l := range s.Lines {
		b, err := newReceiptFinder(&document, q.terms[0], *q.asOf, line{rightID: l.RightID, meteringBasis: l.MeteringBasis, ruleID: l.RuleID})
		require.NoError(t, err)
		b.atOnce = rapid.IntRange(1, 5).Draw(t, "at once")
		var found []string
		for after := (*sealer.Position)(nil); ; {
			page, next, err := b.page(t.Context(), w, after, limit)
			require.NoError(t, err)
			require.LessOrEqual(t, len(page), limit)
			for _, receipt := range page {
				found = append(found, receipt.ReceiptID)
			}
			if next == "" {
				break
			}
			at, err := sealer.ParsePosition(next)
			require.NoError(t, err)
			after = &at
		}
		require.Equal(t, behind[l.RuleID+l.RightID+l.MeteringBasis], found)
	}
}

// TestSpaceForDisputes: whatever is UPHELD after a first statement is issued, its correction has the
// space for it.
func TestSpaceForDisputes(t *testing.T) {
	period := dispute.Window{From: store.At(month), To: store.At(month.AddDate(0, 1, 0))}
	windows := func(n, first int) (all dispute.Excluded) {
		for i := range n {
			from := month.Add(time.Duration(2*(first+i)) * time.Minute)
			all = append(all, dispute.Exclusion{ID: fmt.Sprint("dsp_", i), RightID: "rgh_a", Window: dispute.Window{From: store.At(from), To: store.At(from.Add(time.Minute))}})
		}
		return all
	}
	own, err := statement.NewTerms(settle.Rating, nil, nil)
	require.NoError(t, err)
	most := 0
	ask := func(excluded dispute.Excluded) *question {
		return &question{tenantID: "tnt_a", from: period.From.Time, to: period.To.Time, asOf: &sealer.Position{}, terms: []*terms{{Terms: own}}, excluded: excluded}
	}
	for n := 990; n < 1010; n++ {
		if leavesSpace(ask(windows(n, 1))) == nil {
			most = n
		}
	}
	require.Positive(t, most)
	require.Equal(t, "from", api.From(leavesSpace(ask(windows(most+1, 1)))).Field)
	_, err = count(t.Context(), new(conform.MemoryWarehouse), *ask(append(windows(most, 1), windows(dispute.MaxUpheldWindows, most+1)...)))
	require.NoError(t, err)

	many := make([]string, dispute.MaxUpheldReceipts)
	for i := range many {
		many[i] = fmt.Sprint("rcp_", i)
	}
	upheld := dispute.Exclusion{ID: "dsp_a", State: dispute.Resolved, Outcome: dispute.Upheld, ReceiptIDs: many}
	held := dispute.Exclusion{ID: "dsp_b", State: dispute.Open, ReceiptIDs: many}
	_, err = exclusions(dispute.Excluded{upheld, held})
	require.NoError(t, err)
	_, err = exclusions(dispute.Excluded{upheld, held, {ID: "dsp_c", ReceiptIDs: many[:1]}})
	conflict(t, err, "resolve some")
}
