package dispute

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/gateway/api"
	"muniment.example/gateway/auth"
)

// TestHeldAmount: a dispute has an amount while it is unresolved and once it is upheld, and none once
// it is rejected. Two disputes about one receipt both have its amount.
func TestHeldAmount(t *testing.T) {
	r := newService(t, t.TempDir())
	var requested []Exclusion
	r.heldAmount = func(_ context.Context, of string, x *Exclusion) ([]Amount, error) {
		require.Equal(t, tenantID, of)
		requested = append(requested, *x)
		return []Amount{{"EUR", "7"}}, nil
	}
	ids := r.loaded().receipts(2)
	first, second := r.mustOpen(t, ofReceipts(ids...)), r.mustOpen(t, ofReceipts(ids[0]))
	ctx := auth.WithPrincipal(t.Context(), auth.Principal{Key: &api.Key{TenantID: tenantID}})
	held := func(id string) []Amount {
		t.Helper()
		d, err := r.get(ctx, &getInput{DisputeID: id})
		require.NoError(t, err)
		require.Equal(t, id, d.Dispute.ID)
		return d.Dispute.HeldAmount
	}
	require.Equal(t, []Amount{{"EUR", "7"}}, held(first.ID))
	require.Equal(t, []Amount{{"EUR", "7"}}, held(second.ID))
	require.Equal(t, []Exclusion{{ID: first.ID, State: Open, ReceiptIDs: ids}, {ID: second.ID, State: Open, ReceiptIDs: ids[:1]}}, requested)
	upheld, rejected := Upheld, Rejected
	for id, outcome := range map[string]*Outcome{first.ID: &upheld, second.ID: &rejected} {
		_, err := r.move(t.Context(), move{tenantID: tenantID, id: id, action: Resolve, outcome: outcome, byOrgID: "org_c", tenantOrgID: "org_c", by: byKey})
		require.NoError(t, err)
	}
	require.Equal(t, []Amount{{"EUR", "7"}}, held(first.ID))
	require.Equal(t, []Amount{}, held(second.ID), "its deliveries are settled")

	r.heldAmount = func(context.Context, string, *Exclusion) ([]Amount, error) {
		return []Amount{{"EUR", "7"}}, errors.New("away")
	}
	require.Nil(t, held(first.ID), "the dispute is answered")
}
