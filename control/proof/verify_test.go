package proof

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"muniment/gate"
	"muniment/gateway/api"
	"muniment/pipeline"
	"muniment/pipeline/segment"
	"muniment/sealer"
)

// TestForgedReceiptIsNeverSealed slips receipts past the loader, which does not
// check signatures, and looks at what sealing makes of them.
func TestForgedReceiptIsNeverSealed(t *testing.T) {
	for name, c := range map[string]struct {
		signer func(t *testing.T, h *house) *sealer.Signer
		reason sealer.Code
	}{
		"by a key that nobody knows": {
			func(t *testing.T, h *house) *sealer.Signer { return newSigner(t) }, sealer.KeyUnknown,
		},
		"under the id of the node's key": {
			func(t *testing.T, h *house) *sealer.Signer {
				return &sealer.Signer{KeyID: h.keys.receipt.KeyID, Node: "nod_test", Key: newSigner(t).Key}
			}, sealer.SignatureInvalid,
		},
		"by a key for something else": {
			func(t *testing.T, h *house) *sealer.Signer { return h.keys.pack }, sealer.KeyPurpose,
		},
		"before the key was valid": {
			func(t *testing.T, h *house) *sealer.Signer {
				return h.keys.add(t, sealer.PurposeReceipt, h.Now().Add(time.Minute))
			}, sealer.KeyOutsideWindow,
		},
		"by a revoked key": {
			func(t *testing.T, h *house) *sealer.Signer {
				s := h.keys.add(t, sealer.PurposeReceipt, h.Now().Add(-time.Minute))
				h.keys.revoke(s.KeyID, h.Now())
				return s
			}, sealer.KeyRevoked,
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := build(t)
			h.deliver(deliveries(3)...)
			h.seal()
			h.deliver(deliveries(4)...)
			forged := h.event(delivery{substrate: gate.DOOH, dwellMs: 5, signer: c.signer(t, h)})
			h.append(forged)
			h.deliver(deliveries(2)...)

			for range 2 { // found by the first seal, remembered by the second
				refused := h.sealErr()
				require.Equal(t, 503, refused.GetStatus())
				require.Equal(t, api.SetAside, refused.Reason)
				require.Equal(t, 60, refused.RetryAfterSeconds())
			}
			require.Len(t, h.packs(), 1)
			require.Len(t, h.files(), 1)
			require.EqualValues(t, 1, testutil.ToFloat64(h.room.metrics.forged))
			aside, err := h.warehouse.SetAsides(t.Context(), tenant)
			require.NoError(t, err)
			require.Len(t, aside, 1)
			require.Equal(t, forged.EventID, aside[0].EventID)
			require.Contains(t, aside[0].Reason, string(c.reason))
			kept, err := sealer.ParseRecord(aside[0].Record)
			require.NoError(t, err)
			require.Equal(t, forged.Event, kept.Event)

			roots, err := promised(t.Context(), h.db.Read(), tenant, 3)
			require.NoError(t, err)
			require.Empty(t, roots, "no root over a forged receipt is ever promised")
			h.check()
		})
	}
}

func TestForgeryOfOneTenantHoldsNoOther(t *testing.T) {
	h := build(t)
	const other = "tnt_01ARZ3NDEKTSV4RRFFQ69G5FAW"
	h.deliver(delivery{tenant: other, dwellMs: 1, signer: newSigner(t)})
	h.deliver(deliveries(2)...)
	require.Len(t, h.seal(), 1)
	_, err := h.room.sealWhole(t.Context(), other, operator)
	require.Equal(t, api.SetAside, api.From(err).Reason)
	h.deliver(deliveries(2)...)
	require.Len(t, h.seal(), 1)
	require.Len(t, deliveriesOf(h.check()), 4)
}

// TestRecordSetAsideByTheLoaderHolds moves a genuine event under another id.
func TestRecordSetAsideByTheLoaderHolds(t *testing.T) {
	h := build(t)
	moved := h.event(delivery{dwellMs: 5})
	moved.EventID = api.NewID(api.PrefixEvent, h.Now())
	h.append(moved)
	h.deliver(deliveries(2)...)
	require.Equal(t, api.SetAside, h.sealErr().Reason)
	require.Empty(t, h.packs())
}

// TestKeyRevokedBeforeSealing: what the key signed while it was good is not
// sealed either, because its thief can date a receipt as he likes.
func TestKeyRevokedBeforeSealing(t *testing.T) {
	h := build(t)
	h.deliver(deliveries(2)...)
	h.seal()
	h.deliver(deliveries(2)...)
	h.advance(time.Minute)
	h.keys.revoke(h.keys.receipt.KeyID, h.Now())
	require.Equal(t, api.SetAside, h.sealErr().Reason)
	aside, err := h.warehouse.SetAsides(t.Context(), tenant)
	require.NoError(t, err)
	require.Len(t, aside, 2)
	require.Len(t, h.packs(), 1)
}

// TestEveryForgeryIsFound forges more than one page of rows.
func TestEveryForgeryIsFound(t *testing.T) {
	h := build(t)
	stranger := newSigner(t)
	rows := make([]pipeline.Row, 0, pageRows+200)
	for i := range cap(rows) {
		d := delivery{dwellMs: 1}
		if i%100 == 7 {
			d.signer = stranger
		}
		row, err := pipeline.NewRow(sealer.Entry{Position: sealer.Position{Generation: 1, Offset: int64(i)}, Record: *h.event(d)})
		require.NoError(t, err)
		rows = append(rows, row)
	}
	next := rows[len(rows)-1].Position.Next()
	require.NoError(t, h.warehouse.Load(t.Context(), pipeline.Batch{From: rows[0].Position, Rows: rows, Next: next}))
	s := &session{Room: h.room, tenantID: tenant, by: operator, end: next}
	require.NoError(t, s.prepare(t.Context()))
	_, err := s.sealNext(t.Context())
	require.ErrorIs(t, err, errHeld)
	aside, err := h.warehouse.SetAsides(t.Context(), tenant)
	require.NoError(t, err)
	require.Len(t, aside, 42)
	resume, _, err := h.warehouse.Resume(t.Context(), segment.Partition)
	require.NoError(t, err)
	require.Equal(t, next, resume, "setting aside leaves the loader where it is")
}
