package statement

import (
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/control/dispute"
	"muniment.example/control/settle"
	"muniment.example/control/store"
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
