package proof

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"muniment.example/control/proof/prooftest"
	"muniment.example/gate"
	"muniment.example/gateway/api"
	"muniment.example/pipeline"
	"muniment.example/pipeline/segment"
	"muniment.example/sealer"
	"muniment.example/sealer/keydir"
)

// TestForgedReceiptIsNeverSealed slips receipts past the loader, which does not
// check signatures, and looks at what sealing makes of them.
func TestForgedReceiptIsNeverSealed(t *testing.T) {
	for name, c := range map[string]struct {
		signer func(t *testing.T, h *fixture) *sealer.Signer
		reason sealer.Code
	}{
		"by an unknown key": {
			func(t *testing.T, h *fixture) *sealer.Signer { return prooftest.NewSigner(t) }, sealer.KeyUnknown,
		},
		"under the id of the node's key": {
			func(t *testing.T, h *fixture) *sealer.Signer {
				return &sealer.Signer{KeyID: h.Keys.Receipt.KeyID, Node: "nod_test", Key: prooftest.NewSigner(t).Key}
			}, sealer.SignatureInvalid,
		},
		"by a key for something else": {
			func(t *testing.T, h *fixture) *sealer.Signer { return h.Keys.Pack }, sealer.KeyPurpose,
		},
		"before the key was valid": {
			func(t *testing.T, h *fixture) *sealer.Signer {
				return h.Keys.Add(t, keydir.PurposeReceipt, h.Now().Add(time.Minute))
			}, sealer.KeyOutsideWindow,
		},
		"by a revoked key": {
			func(t *testing.T, h *fixture) *sealer.Signer {
				s := h.Keys.Add(t, keydir.PurposeReceipt, h.Now().Add(-time.Minute))
				h.Keys.Revoke(s.KeyID, h.Now())
				return s
			}, sealer.KeyRevoked,
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := build(t)
			h.Deliver(deliveries(3)...)
			h.seal()
			h.Deliver(deliveries(4)...)
			forged := h.Event(delivery{Substrate: gate.DOOH, DwellMs: 5, Signer: c.signer(t, h)})
			h.Append(forged)
			h.Deliver(deliveries(2)...)

			for range 2 { // found by the first seal, remembered by the second
				refused := h.sealErr()
				require.Equal(t, 503, refused.GetStatus())
				require.Equal(t, api.Quarantined, refused.Reason)
				require.Equal(t, 60, refused.RetryAfterSeconds())
			}
			require.Len(t, h.packs(), 1)
			require.Len(t, h.files(), 1)
			require.EqualValues(t, 1, testutil.ToFloat64(h.service.metrics.forged))
			quarantined, err := h.Warehouse.Quarantined(t.Context(), tenant)
			require.NoError(t, err)
			require.Len(t, quarantined, 1)
			require.Equal(t, forged.EventID, quarantined[0].EventID)
			require.Contains(t, quarantined[0].Reason, string(c.reason))
			kept, err := sealer.ParseRecord(quarantined[0].Record)
			require.NoError(t, err)
			require.Equal(t, forged.Event, kept.Event)

			roots, err := promised(t.Context(), h.DB.Read(), tenant, 3)
			require.NoError(t, err)
			require.Empty(t, roots, "no root over a forged receipt is ever promised")
			h.check()
		})
	}
}

func TestForgeryOfOneTenantHoldsNoOther(t *testing.T) {
	h := build(t)
	const other = "tnt_01ARZ3NDEKTSV4RRFFQ69G5FAW"
	h.Deliver(delivery{Tenant: other, DwellMs: 1, Signer: prooftest.NewSigner(t)})
	h.Deliver(deliveries(2)...)
	require.Len(t, h.seal(), 1)
	_, err := h.service.sealWhole(t.Context(), other, operator)
	require.Equal(t, api.Quarantined, api.From(err).Reason)
	h.Deliver(deliveries(2)...)
	require.Len(t, h.seal(), 1)
	require.Len(t, deliveriesOf(h.check()), 4)
}

// TestRecordQuarantinedByTheLoaderHolds moves a genuine event under another id.
func TestRecordQuarantinedByTheLoaderHolds(t *testing.T) {
	h := build(t)
	moved := h.Event(delivery{DwellMs: 5})
	moved.EventID = api.NewID(api.PrefixEvent, h.Now())
	h.Append(moved)
	h.Deliver(deliveries(2)...)
	require.Equal(t, api.Quarantined, h.sealErr().Reason)
	require.Empty(t, h.packs())
}

// TestKeyRevokedBeforeSealing: receipts that the key signed before its revocation are not sealed
// either, because a thief can backdate receipts.
func TestKeyRevokedBeforeSealing(t *testing.T) {
	h := build(t)
	h.Deliver(deliveries(2)...)
	h.seal()
	h.Deliver(deliveries(2)...)
	h.Advance(time.Minute)
	h.Keys.Revoke(h.Keys.Receipt.KeyID, h.Now())
	require.Equal(t, api.Quarantined, h.sealErr().Reason)
	quarantined, err := h.Warehouse.Quarantined(t.Context(), tenant)
	require.NoError(t, err)
	require.Len(t, quarantined, 2)
	require.Len(t, h.packs(), 1)
}

// TestEveryForgeryIsFound forges more than one page of rows.
func TestEveryForgeryIsFound(t *testing.T) {
	h := build(t)
	stranger := prooftest.NewSigner(t)
	rows := make([]pipeline.Row, 0, pageRows+200)
	for i := range cap(rows) {
		d := delivery{DwellMs: 1}
		if i%100 == 7 {
			d.Signer = stranger
		}
		row, err := pipeline.NewRow(sealer.Entry{Position: sealer.Position{Generation: 1, Offset: int64(i)}, Record: *h.Event(d)})
		require.NoError(t, err)
		rows = append(rows, row)
	}
	next := rows[len(rows)-1].Position.Next()
	require.NoError(t, h.Warehouse.Load(t.Context(), pipeline.Batch{From: rows[0].Position, Rows: rows, Next: next}))
	s := &session{packer: h.service.packer, tenantID: tenant, by: operator, end: next}
	require.NoError(t, s.prepare(t.Context()))
	_, err := s.sealNext(t.Context())
	require.ErrorIs(t, err, errHeld)
	quarantined, err := h.Warehouse.Quarantined(t.Context(), tenant)
	require.NoError(t, err)
	require.Len(t, quarantined, 42)
	resume, _, err := h.Warehouse.Resume(t.Context(), segment.Partition)
	require.NoError(t, err)
	require.Equal(t, next, resume, "quarantining leaves the loader where it is")
}
