package proof

import (
	"encoding/json"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment/sealer"
)

// TestRevokedPackKey revokes the key of all packs of a tenant that has nothing new:
// whatever it is handed afterwards is sound.
func TestRevokedPackKey(t *testing.T) {
	h := build(t, Config{MaxEntries: 3})
	server := h.serve()
	h.deliver(deliveries(4)...)
	h.seal()
	events := h.check()
	ids, old := receipts(events), h.packs()
	require.Len(t, old, 2)
	leaving := h.keys.pack
	h.advance(time.Minute)
	h.keys.pack = h.keys.add(t, sealer.PurposePack, h.Now())
	require.Len(t, h.seal(), 1, "nothing is new")
	require.Len(t, h.packs(), 2)
	for range 2 { // once is enough
		require.NoError(t, h.room.Vouch(t.Context(), tenant, leaving.KeyID, operator))
		require.NoError(t, h.db.Drain(t.Context(), tenant))
		require.Len(t, h.packs(), 3)
	}
	h.advance(time.Minute)
	h.keys.revoke(leaving.KeyID, h.Now())
	h.revokedButSound(t, old, ids)
	require.Len(t, h.seal(), 1)
	require.Len(t, h.packs(), 3, "the pack by the present key has to be vouched for by none")

	// Once more, with a receipt key that is revoked behind it: a proof of a receipt has
	// to be older than that.
	h.advance(time.Minute)
	h.keys.revoke(h.keys.receipt.KeyID, h.Now())
	h.keys.receipt = h.keys.add(t, sealer.PurposeReceipt, h.Now())
	h.deliver(deliveries(1)...)
	h.seal()
	for _, id := range ids {
		proof, _ := get(t, server, "/v1/receipts/"+id+"/proof")
		h.sound(proof)
		latest, _ := get(t, server, "/v1/receipts/"+id+"/proof?checkpoint=latest")
		report, exit := h.verify("", latest)
		require.Equal(t, sealer.ExitUnsound, exit, report)
		require.Contains(t, report, sealer.KeyRevoked)
	}
}

// TestSealMendsWhatARevocationLeft: the key of the packs was revoked without another
// pack on top, as a forced revocation may. The next seal makes one, news or not.
func TestSealMendsWhatARevocationLeft(t *testing.T) {
	h := build(t)
	h.deliver(deliveries(4)...)
	h.seal()
	ids, old := receipts(h.check()), h.packs()
	h.advance(time.Minute)
	leaving := h.keys.pack
	h.keys.pack = h.keys.add(t, sealer.PurposePack, h.Now())
	h.advance(time.Minute)
	h.keys.revoke(leaving.KeyID, h.Now())
	proof, _ := get(t, h.serve(), "/v1/receipts/"+ids[0]+"/proof")
	_, exit := h.verify("", proof)
	require.Equal(t, sealer.ExitUnsound, exit)
	h.seal()
	h.revokedButSound(t, old, ids)
	h.seal()
	require.Len(t, h.packs(), 2)
}

// revokedButSound asks for everything that is made of packs of a revoked key.
func (h *house) revokedButSound(t *testing.T, old []Pack, ids []string) {
	server := h.serve()
	h.check()
	for _, id := range ids {
		proof, _ := get(t, server, "/v1/receipts/"+id+"/proof")
		h.sound(proof)
	}
	_, data := get(t, server, "/v1/proof-packs/checkpoint")
	var checkpoint string
	require.NoError(t, json.Unmarshal(data["checkpoint"], &checkpoint))
	h.sound([]byte(checkpoint))
	for _, p := range old {
		grown, _ := get(t, server, "/v1/proof-packs/"+h.packs()[len(old)].ID+"/consistency?from="+p.ID)
		h.sound(grown)
		text, err := os.ReadFile(h.room.folder.path(tenant, p.ID))
		require.NoError(t, err)
		report, exit := h.verify("", text)
		require.Equal(t, sealer.ExitUnsound, exit, report)
		require.Contains(t, report, sealer.KeyRevoked, "by itself: it takes the packs behind it, as check does")
		for _, query := range []string{"", "?upTo=" + p.Last.String(), "?after=" + p.First.String()} {
			text, _, _ := exportOf(t, server, query)
			h.sound(text)
		}
	}
}
