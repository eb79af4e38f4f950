package statement

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/control/dispute"
	"muniment.example/control/settle"
	"muniment.example/control/store"
	"muniment.example/gateway/api"
	"muniment.example/pipeline"
	"muniment.example/sealer/rate"
)

// TestHeldAmount: the held amount is the value of a dispute's deliveries, and the amount that a
// statement lacks if this is the only dispute.
func TestHeldAmount(t *testing.T) {
	h := newFixture(t, t.TempDir())
	require.NoError(t, h.db.Change(t.Context(), func(tx *store.Tx) error {
		c, err := settle.CreateCounterparty(t.Context(), tx, settle.Counterparty{TenantID: tenantID, Name: "Dollars", Kind: settle.Publisher, Currency: "USD"}, byKey)
		if err == nil {
			_, err = settle.CreateRule(t.Context(), tx, settle.Rule{
				TenantID: tenantID, Unit: rate.Second, Price: "0.333333333", Currency: "USD", Priority: 9, EffectiveFrom: on(2), EffectiveUntil: on(3),
				Match: settle.Match{RightID: new("rgh_b")}, Shares: []settle.Share{{CounterpartyID: c.ID, Bps: 10_000}},
			}, byKey)
		}
		return err
	}))
	first, second, dearer := h.play("rgh_a", on(1)), h.play("rgh_b", on(1.5)), h.play("rgh_b", on(2.5))
	h.play("rgh_b", on(2.9))
	h.play("rgh_b", on(3))
	held := func(x *dispute.Exclusion) (list []string) {
		t.Helper()
		amounts, err := h.HeldAmount(t.Context(), tenantID, x)
		require.NoError(t, err)
		for _, a := range amounts {
			list = append(list, a.Amount+" "+a.Currency)
		}
		return list
	}
	require.Equal(t, []string{"3 EUR", "0.5 USD"}, held(&dispute.Exclusion{ReceiptIDs: []string{first, second, dearer}}))
	require.Equal(t, []string{"1 USD"}, held(&dispute.Exclusion{RightID: "rgh_b", Window: dispute.Window{From: on(2), To: on(3)}}), "two, rounded together")
	require.Equal(t, []string{"2 EUR", "1 USD"}, held(&dispute.Exclusion{RightID: "rgh_b", Window: dispute.Window{From: on(1.6), To: on(4)}}))
	require.Empty(t, held(&dispute.Exclusion{RightID: "rgh_b", Window: dispute.Window{From: on(5), To: on(6)}}))
	require.Empty(t, held(&dispute.Exclusion{ReceiptIDs: []string{}}))

	// A statement holds the same amount, and two disputes about one receipt both have it.
	h.dispute("dsp_1", "", 0, first, second)
	require.Equal(t, "3", h.mustDraft(statementFor(0, 2)).HeldAmount)
	require.Equal(t, []string{"3 EUR"}, held(&dispute.Exclusion{ReceiptIDs: []string{first, second}}))
	h.dispute("dsp_2", "", 0, second)
	require.Equal(t, "3", h.mustDraft(statementFor(0, 2)).HeldAmount)
	require.Equal(t, []string{"2 EUR"}, held(&dispute.Exclusion{ReceiptIDs: []string{second}}))
}

// rows are those of receipts, as the warehouse has them.
func (h *fixture) rows(receiptIDs []string) (list []pipeline.Row) {
	for _, id := range receiptIDs {
		row, err := h.warehouse.Event(h.t.Context(), tenantID, api.EventOf(id))
		require.NoError(h.t, err)
		list = append(list, row)
	}
	return list
}

// repeat loads a delivery again, by another id. All that it repeats repeats each other but the first.
func (h *fixture) repeat(receiptID string) string {
	h.t.Helper()
	next := h.loaded
	next.Offset++
	row := h.rows([]string{receiptID})[0]
	again := *row.Delivery
	again.ReceiptID = string(api.PrefixReceipt) + strings.TrimPrefix(api.NewID(api.PrefixEvent, on(1.9).Time), string(api.PrefixEvent))
	again.Idempotency = "hash"
	row.Entry.Position, row.EventID, row.Delivery = h.loaded, api.EventOf(again.ReceiptID), &again
	require.NoError(h.t, h.warehouse.Load(h.t.Context(), pipeline.Batch{From: h.loaded, Next: next, Rows: []pipeline.Row{row}}))
	h.loaded = next
	return again.ReceiptID
}

// TestWorth: each delivery alone is worth what HeldAmount says of it, whatever else is disputed; what repeats another is worth
// nothing, and what is stated keeps its rule.
func TestWorth(t *testing.T) {
	h := newFixture(t, t.TempDir())
	var ids []string
	for i := range 9 {
		ids = append(ids, h.play([]string{"rgh_a", "rgh_b", "rgh_none"}[i%3], on(1+float64(i)/10)))
	}
	rows := func() []pipeline.Row { return h.rows(ids) }
	// The fifth and the last repeat others.
	for i, of := range map[int]int{4: 1, 8: 1} {
		ids[i] = h.repeat(ids[of])
	}
	h.dispute("dsp_1", "", 0, ids[0], ids[1])
	amounts := func() (all []string) {
		worth, err := h.Worth(t.Context(), tenantID, rows())
		require.NoError(t, err)
		for i, id := range ids {
			of, err := h.HeldAmount(t.Context(), tenantID, &dispute.Exclusion{ReceiptIDs: []string{id}})
			require.NoError(t, err)
			require.Equal(t, of, worth[i], id)
			sum := ""
			for _, a := range worth[i] {
				sum += a.Amount + " " + a.Currency
			}
			all = append(all, sum)
		}
		return all
	}
	first := amounts()
	require.Equal(t, []string{"1 EUR", "2 EUR", "", "1 EUR"}, first[:4])
	require.ElementsMatch(t, []string{"2 EUR", ""}, []string{first[4], first[8]}, "one of both repeats the other")
	h.mustIssue(statementFor(0, 3))
	h.change(`UPDATE settlement_rules SET effective_until = effective_from + 1`)
	require.Equal(t, first, amounts(), "what is stated keeps its rule")
	none, err := h.Worth(t.Context(), tenantID, nil)
	require.NoError(t, err)
	require.Empty(t, none)
}

// counted is a warehouse that counts its queries.
type counted struct {
	Warehouse
	queries int
	until   time.Time // the deadline of the last one
}

func (c *counted) Metering(ctx context.Context, q pipeline.MeterQuery) ([]pipeline.MeterRow, error) {
	c.queries++
	c.until, _ = ctx.Deadline()
	return c.Warehouse.Metering(ctx, q)
}

func (c *counted) MeterTotals(ctx context.Context, q pipeline.MeterQuery) (pipeline.MeterTotals, error) {
	c.queries++
	c.until, _ = ctx.Deadline()
	return c.Warehouse.MeterTotals(ctx, q)
}

// TestWorthAsksLittle: however many of the deliveries repeat others, few queries and seconds tell which, or nothing is said.
func TestWorthAsksLittle(t *testing.T) {
	h := newFixture(t, t.TempDir())
	var apart, together []string
	repeats := map[string]bool{}
	for i := range 100 {
		at := on(1 + float64(i)/1000)
		original := h.play("rgh_a", at)
		again := h.repeat(original)
		repeats[again] = i > 0
		apart = append(apart, original, again)
	}
	for range 30 {
		original := h.play("rgh_a", on(1.5))
		together = append(together, original, h.repeat(original))
	}
	warehouse := &counted{Warehouse: h.warehouse}
	h.core.cfg.Warehouse = warehouse
	worth, err := h.Worth(t.Context(), tenantID, h.rows(apart))
	require.NoError(t, err)
	for i, id := range apart {
		require.Equal(t, repeats[id], len(worth[i]) == 0, i)
	}
	require.LessOrEqual(t, warehouse.queries, 2)
	require.WithinDuration(t, time.Now(), warehouse.until, 10*time.Second)

	warehouse.queries = 0
	_, err = h.Worth(t.Context(), tenantID, h.rows(together))
	require.Error(t, err)
	require.LessOrEqual(t, warehouse.queries, 32)
}
