package statement

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/control/route"
	"muniment.example/control/settle"
	"muniment.example/gateway/api"
	"muniment.example/gateway/auth"
	"muniment.example/pipeline"
)

func (h *fixture) reconcile(from, to float64) Reconciliation {
	h.t.Helper()
	ctx := auth.WithPrincipal(h.t.Context(), auth.Principal{Key: &api.Key{TenantID: tenantID}})
	r, err := h.getReconciliation(ctx, &reconcileInput{route.Window{From: on(from).String(), To: on(to).String()}})
	require.NoError(h.t, err)
	return r
}

// TestReconciliation reports exactly what does not agree.
func TestReconciliation(t *testing.T) {
	h := newFixture(t, t.TempDir())
	none := h.reconcile(0, 3)
	require.Equal(t, ReconciledPacks{Sealed: Counted{Impressions: "0"}, Loaded: Counted{Impressions: "0"}}, none.Packs)
	require.Empty(t, none.Statements)

	first := h.play("rgh_a", on(1))
	h.play("rgh_b", on(2))
	s := h.mustIssue(statementFor(0, 3))
	h.play("rgh_a", on(4))
	h.mustIssue(statementFor(3, 5))
	h.play("rgh_a", on(2.5)) // late
	later := h.play("rgh_a", on(5.5))
	h.mustDraft(statementFor(5, 6))

	r := h.reconcile(0, 3)
	require.Equal(t, Counted{5, 5, 5, 7500, "5"}, r.Packs.Sealed)
	require.Equal(t, r.Packs.Sealed, r.Packs.Loaded)
	require.EqualValues(t, 3, r.Packs.Count)
	require.Equal(t, []ReconciledStatement{{
		StatementID: s.ID, State: Issued, From: s.From, To: s.To, Currency: "EUR", Stated: Stated{2, "3", "0"}, Recomputed: &Recomputed{Stated: Stated{2, "3", "0"}}, Months: []MonthDue{}, Late: 1,
	}}, r.Statements)
	require.Empty(t, r.Differences)
	require.Len(t, h.reconcile(0, 6).Statements, 2)
	require.Len(t, r.Unstated, 1)
	require.Equal(t, []any{"rgh_a", int64(1), "1"}, []any{r.Unstated[0].RightID, r.Unstated[0].Receipts, r.Unstated[0].Amount})
	require.Empty(t, h.reconcile(3, 6).Unstated, "what is of no stated time is not missing")

	spoil := h.warehouse.Spoiled()
	row := h.row(later)
	spoil.Alter(row, 1)
	r = h.reconcile(0, 3)
	require.Len(t, r.Differences, 1)
	require.Equal(t, []string{packDiffers, h.spans[2].FirstID}, []string{r.Differences[0].Code, r.Differences[0].ID})
	require.Contains(t, r.Differences[0].Message, "with 3 s")
	require.NotEqual(t, r.Packs.Sealed, r.Packs.Loaded)
	spoil.Alter(row, row.Delivery.QuantityMs)
	spoil.Delete(h.row(first))
	r = h.reconcile(0, 3)
	require.Len(t, r.Differences, 2)
	require.Equal(t, []string{h.spans[0].FirstID, s.ID}, []string{r.Differences[0].ID, r.Differences[1].ID})
	require.Contains(t, r.Differences[1].Message, "has 2 receipts, a total of 3 EUR and 0 held; recomputed from the warehouse it has 1 receipts, 2 and 0")
	require.Equal(t, &Recomputed{Stated: Stated{1, "2", "0"}}, r.Statements[0].Recomputed)

	// Neither its text nor another one is compared with rows.
	h.change(`UPDATE statements SET document = replace(document, '"total":"3"', '"total":"9"') WHERE statement_id = $1`, s.ID)
	r = h.reconcile(0, 3)
	require.Nil(t, r.Statements[0].Recomputed)
	require.Contains(t, r.Differences[1].Message, "not the signed one")

	// Without its text a statement is listed as it is.
	h.change(`UPDATE statements SET document = '' WHERE statement_id = $1`, s.ID)
	r = h.reconcile(0, 3)
	require.Nil(t, r.Statements[0].Recomputed)
	require.Len(t, r.Differences, 1)

	ctx := auth.WithPrincipal(t.Context(), auth.Principal{Key: &api.Key{TenantID: tenantID}})
	open, err := h.getReconciliation(ctx, &reconcileInput{})
	require.NoError(t, err)
	require.Len(t, open.Statements, 2)
	require.EqualValues(t, 3, open.Packs.Count)
	h.spans[0].To.Offset, h.spans[2].To.Offset = 0, 99
	_, err = h.getReconciliation(ctx, &reconcileInput{})
	require.Equal(t, api.WarehouseBehind, api.From(err).Reason, "%v", err)
}

// TestReconciliationOfManyPacks: packs are compared some at a time, and counted together.
func TestReconciliationOfManyPacks(t *testing.T) {
	h := newFixture(t, t.TempDir())
	var last string
	for range 2*packsAtOnce + 1 {
		last = h.play("rgh_a", on(1))
		_, err := h.SealToEnd(t.Context(), tenantID, byKey)
		require.NoError(t, err)
	}
	r := h.reconcile(0, 3)
	require.EqualValues(t, 2*packsAtOnce+1, r.Packs.Count)
	require.EqualValues(t, 2*packsAtOnce+1, r.Packs.Sealed.Receipts)
	require.Equal(t, r.Packs.Sealed, r.Packs.Loaded)
	require.Equal(t, []string{h.spans[0].FirstID, h.spans[2*packsAtOnce].LastID}, []string{*r.Packs.FirstPackID, *r.Packs.LastPackID})
	require.Empty(t, r.Differences)

	h.warehouse.Spoiled().Delete(h.row(last))
	r = h.reconcile(0, 3)
	require.Len(t, r.Differences, 1)
	require.Equal(t, h.spans[2*packsAtOnce].FirstID, r.Differences[0].ID)
	require.Equal(t, r.Packs.Sealed.Receipts-1, r.Packs.Loaded.Receipts)
}

// lostSums are sums that nobody may read.
type lostSums struct{}

var errLostSums = errors.New("these are sums")

// Metering implements Sums.
func (lostSums) Metering(context.Context, pipeline.MeterQuery) ([]pipeline.MeterRow, error) {
	return nil, errLostSums
}

// TestReconciliationReadsNoSums: packs, statements, months that are due and what is unstated are computed from rows,
// and so is what the check for drift compares.
func TestReconciliationReadsNoSums(t *testing.T) {
	h := newFixture(t, t.TempDir())
	h.clock.Set(on(40).Time)
	h.monthly("UTC", func(*settle.Rule) {})
	h.play("rgh_a", on(1))
	disputed := h.play("rgh_a", on(20))
	h.dispute("dsp_1", "", 0, disputed)
	first, second := h.mustIssue(statementFor(0, 15)), h.mustIssue(statementFor(15, 30))
	h.play("rgh_a", on(2))
	require.NotEmpty(t, h.mustDraft(statementFor(30, 40)).ID)
	require.NoError(t, h.AwaitRecorded(t.Context(), tenantID))
	cfg := h.cfg
	cfg.Sums, cfg.Checked = lostSums{}, lostSums{}
	var err error
	h.Service, err = New(cfg)
	require.NoError(t, err)
	_, err = h.draft(t.Context(), statementFor(30, 40), byKey)
	require.ErrorIs(t, err, errLostSums)

	r := h.reconcile(0, 31)
	require.Empty(t, r.Differences)
	require.Len(t, r.Statements, 2)
	require.EqualValues(t, 1, r.Statements[0].Late)
	require.Equal(t, "999", r.Statements[1].Months[0].Stated)
	require.NotEmpty(t, r.Unstated)
	for _, s := range []Statement{first, second} {
		apart, err := h.Restate(t.Context(), tenantID, s.ID)
		require.NoError(t, err)
		require.Nil(t, apart)
	}
}
