package proof

import (
	"encoding/json"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/sealer"
	"muniment.example/sealer/keydir"
	auditor "muniment.example/sealer/verify"
)

// TestRevokedPackKey revokes the key of all packs of a tenant that has nothing new:
// all packs and proofs that it gets afterwards are sound.
func TestRevokedPackKey(t *testing.T) {
	h := build(t, Config{MaxEntries: 3})
	h.Deliver(deliveries(4)...)
	h.seal()
	events := h.check()
	ids, old := receipts(events), h.packs()
	require.Len(t, old, 2)
	leaving := h.Keys.Pack
	h.Advance(time.Minute)
	h.Keys.Pack = h.Keys.Add(t, keydir.PurposePack, h.Now())
	require.Len(t, h.seal(), 1, "nothing is new")
	require.Len(t, h.packs(), 2)
	for range 2 { // once is enough
		require.NoError(t, h.service.Vouch(t.Context(), tenant, leaving.KeyID, operator))
		require.NoError(t, h.DB.Outbox.Drain(t.Context(), tenant))
		require.Len(t, h.packs(), 3)
	}
	h.Advance(time.Minute)
	h.Keys.Revoke(leaving.KeyID, h.Now())
	h.revokedButSound(t, old, ids)
	require.Len(t, h.seal(), 1)
	require.Len(t, h.packs(), 3, "the pack by the present key has to be vouched for by none")

	// Once more, with a receipt key that is revoked behind it: a proof of a receipt has
	// to be older than that.
	h.Advance(time.Minute)
	h.Keys.Revoke(h.Keys.Receipt.KeyID, h.Now())
	h.Keys.Receipt = h.Keys.Add(t, keydir.PurposeReceipt, h.Now())
	h.Deliver(deliveries(1)...)
	h.seal()
	for _, id := range ids {
		h.Sound(h.proven(id, false))
		report, exit := h.Verify("", h.proven(id, true))
		require.Equal(t, auditor.ExitUnjudged, exit, report)
		require.Contains(t, report, sealer.KeyRevoked)
	}
}

// TestSealMendsWhatARevocationLeft: the key of the packs was revoked without another
// pack on top, as a forced revocation may. The next seal makes one, news or not.
func TestSealMendsWhatARevocationLeft(t *testing.T) {
	h := build(t)
	h.Deliver(deliveries(4)...)
	h.seal()
	ids, old := receipts(h.check()), h.packs()
	h.Advance(time.Minute)
	leaving := h.Keys.Pack
	h.Keys.Pack = h.Keys.Add(t, keydir.PurposePack, h.Now())
	h.Advance(time.Minute)
	h.Keys.Revoke(leaving.KeyID, h.Now())
	_, exit := h.Verify("", h.proven(ids[0], false))
	require.Equal(t, auditor.ExitUnjudged, exit)
	h.seal()
	h.revokedButSound(t, old, ids)
	h.seal()
	require.Len(t, h.packs(), 2)
}

// revokedButSound requests everything that is derived from packs of a revoked key.
func (h *fixture) revokedButSound(t *testing.T, old []Pack, ids []string) {
	server := h.serve()
	last := uint64(len(h.check()) - 1)
	for _, id := range ids {
		h.Sound(h.proven(id, false))
	}
	_, data := get(t, server, "/v1/proof-packs/checkpoint")
	var checkpoint string
	require.NoError(t, json.Unmarshal(data["checkpoint"], &checkpoint))
	h.Sound([]byte(checkpoint))
	for _, p := range old {
		grown, _ := get(t, server, "/v1/proof-packs/"+h.packs()[len(old)].ID+"/consistency?from="+p.ID)
		h.Sound(grown)
		text, err := os.ReadFile(h.path(p.ID))
		require.NoError(t, err)
		report, exit := h.Verify("", text)
		require.Equal(t, auditor.ExitUnjudged, exit, report)
		require.Contains(t, report, sealer.KeyRevoked, "by itself: it takes the packs behind it, as check does")
		h.Sound(h.exported(0, last))
		h.Sound(h.exported(0, p.end()-1))
		h.Sound(h.exported(p.FirstIndex+1, last))
	}
}
