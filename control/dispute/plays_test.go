package dispute

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/gate"
	"muniment.example/gateway/api"
	"muniment.example/gateway/auth"
	"muniment.example/pipeline"
	"muniment.example/sealer"
)

// TestPlaysOfADispute: who may read receipts, too, learns when and where each was, and who may read settlements, what it is worth; of one
// that the warehouse lacks, nothing. While its worth can't be computed, the rest is there.
func TestPlaysOfADispute(t *testing.T) {
	r := newService(t, t.TempDir())
	ids := r.loaded().receipts(2)
	_, key, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	signer := &sealer.Signer{KeyID: "key", Key: key}
	issued := time.Date(2026, 11, 21, 21, 25, 29, 728_000_000, time.UTC) // the time of the ids
	for i, id := range ids {
		receipt := sealer.Receipt{ReceiptID: id, SpatialAnchorID: "screen \"7\"", IssuedAt: issued, RenderedAt: issued, DwellMs: 8000.5, Nonce: base64.RawURLEncoding.EncodeToString(make([]byte, 16))}
		text, err := signer.SealDelivery(nil, &sealer.Delivery{TenantID: tenantID, Actor: sealer.Ref{Kind: "key", ID: "key_a"}, RightID: "rgh_a", RightRevision: 1, BasisID: "bas_a", Substrate: gate.DOOH}, &receipt)
		require.NoError(t, err)
		event := "evt_" + strings.TrimPrefix(id, "rcp_")
		row := r.loaded().events[event]
		row.Event, row.Delivery.RightID, row.Delivery.Metered = text, "rgh_a", i == 0
		r.loaded().events[event] = row
	}
	d := r.mustOpen(t, ofReceipts(ids...))
	get := func(plays string, scopes api.Scope) (PricedDisputeData, error) {
		ctx := auth.WithPrincipal(t.Context(), auth.Principal{Key: &api.Key{TenantID: tenantID, Scopes: api.Scopes(scopes)}})
		return r.get(ctx, &getInput{DisputeID: d.ID, Plays: plays})
	}
	none, err := get("", api.DisputesRead)
	require.NoError(t, err)
	require.Nil(t, none.Dispute.Plays)
	_, err = get("true", api.DisputesRead)
	require.Equal(t, api.ScopeMissing, api.From(err).Code)

	const both = api.DisputesRead | api.AuditRead
	r.worth = func(_ context.Context, of string, rows []pipeline.Row) ([][]Amount, error) {
		require.Equal(t, tenantID, of)
		worth := [][]Amount{{{"EUR", "0.04"}}, {}}
		return worth[:len(rows)], nil
	}
	shown, err := get("true", both)
	require.NoError(t, err)
	for _, p := range shown.Dispute.Plays {
		require.Nil(t, p.Worth)
	}
	const all = both | api.SettlementRead
	shown, err = get("true", all)
	require.NoError(t, err)
	require.Equal(t, []DisputedPlay{
		{ReceiptID: ids[0], RightID: "rgh_a", SpatialAnchorID: "screen \"7\"", RenderedAt: at(0), DwellMs: 8000.5, Metered: true, Worth: []Amount{{"EUR", "0.04"}}},
		{ReceiptID: ids[1], RightID: "rgh_a", SpatialAnchorID: "screen \"7\"", RenderedAt: at(1), DwellMs: 8000.5, Worth: []Amount{}},
	}, shown.Dispute.Plays)

	delete(r.loaded().events, "evt_"+strings.TrimPrefix(ids[1], "rcp_"))
	r.worth = func(context.Context, string, []pipeline.Row) ([][]Amount, error) { return nil, errors.New("away") }
	shown, err = get("true", all)
	require.NoError(t, err)
	require.Len(t, shown.Dispute.Plays, 1)
	require.Nil(t, shown.Dispute.Plays[0].Worth)
}
