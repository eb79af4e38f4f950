package node

import (
	"context"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment/sealer"
)

var packRole = role{sealer.PurposePack, control}

// TestAnotherPurpose adds a row to the table, and needs nothing else: control has a key for
// it, which is in the directory, signs, rotates, is revoked, and outlives a start.
func TestAnotherPurpose(t *testing.T) {
	before := uses
	t.Cleanup(func() { uses = before })
	uses = append(slices.Clone(uses), use{purpose: sealer.PurposeWebhook, files: "webhook", control: true})

	p := newPlace(t)
	r, stop := p.mustStart(t)
	find := func(keyID string) sealer.Code {
		_, code := r.verified(t).Find(keyID, sealer.PurposeWebhook, p.now)
		return code
	}
	first := r.mustSigner(t, sealer.PurposeWebhook)
	require.Equal(t, control, first.Node)
	require.Empty(t, find(first.KeyID))
	require.Contains(t, p.files(t), "webhook-"+first.KeyID+".key")
	_, err := r.Enrol(t.Context(), "nod_a")
	require.NoError(t, err)
	_, err = r.ReceiptSigner("nod_a", sealer.PurposeWebhook)
	require.ErrorContains(t, err, "not enrolled", "it is control's alone")

	s, err := r.Rotate(t.Context(), first.KeyID, operator)
	require.NoError(t, err)
	require.Equal(t, first.KeyID, s.Replaced.KeyID)
	p.now = s.Key.NotBefore.Time
	require.Equal(t, s.Key.KeyID, r.mustSigner(t, sealer.PurposeWebhook).KeyID)
	require.Empty(t, find(s.Key.KeyID))
	require.Empty(t, find(first.KeyID), "what it has in hand it may still sign")

	var sealed string
	v, err := r.Revoke(t.Context(), s.Key.KeyID, Revocation{Seal: func(_ context.Context, _, purpose string) ([]Unsealed, error) {
		sealed = purpose
		return nil, nil
	}}, operator)
	require.NoError(t, err)
	require.Equal(t, sealer.PurposeWebhook, sealed)
	require.Equal(t, sealer.KeyRevoked, find(s.Key.KeyID))
	next := r.mustSigner(t, sealer.PurposeWebhook).KeyID
	require.Equal(t, v.Successor.KeyID, next)

	stop()
	r, _ = p.mustStart(t)
	require.Equal(t, next, r.mustSigner(t, sealer.PurposeWebhook).KeyID)
	require.Equal(t, sealer.KeyRevoked, find(s.Key.KeyID))
}
