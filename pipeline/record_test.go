package pipeline_test

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/stretchr/testify/require"

	"muniment.example/gate"
	"muniment.example/pipeline"
	"muniment.example/sealer"
	"muniment.example/sealer/keydir"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// delivered seals the n-th delivery of a tenant as a node would: n seconds after
// noon, n+1 ms of dwell, under a key of its own.
func delivered(tb testing.TB, tenant string, n int) sealer.Record {
	tb.Helper()
	seed := sha256.Sum256([]byte("node"))
	key := ed25519.NewKeyFromSeed(seed[:])
	signer := sealer.Signer{KeyID: keydir.KeyID(key.Public().(ed25519.PublicKey)), Node: "nod_1", Key: key}

	issued := noon.Add(time.Duration(n) * time.Second)
	var entropy [16]byte
	binary.BigEndian.PutUint64(entropy[2:], uint64(n))
	var id ulid.ULID
	require.NoError(tb, id.SetTime(uint64(issued.UnixMilli())))
	require.NoError(tb, id.SetEntropy(entropy[:10]))
	private := sealer.AppendPrivate(nil, &sealer.Private{Salt: entropy, Telemetry: []byte(`{"viewable":true}`), AttentionMs: -1})
	hash := sha256.Sum256(fmt.Appendf(nil, "%s\x00key %d", tenant, n))
	event, err := signer.SealDelivery(nil, &sealer.Delivery{
		TenantID: tenant, Actor: sealer.Ref{Kind: "key", ID: "key_1"}, RightID: "rgh_1", RightRevision: 3, BasisID: "bas_1",
		Substrate:         gate.CTV,
		Metering:          gate.Metering{Metered: true, Reason: gate.ReasonMetered, Basis: gate.BasisViewable, QuantityMs: int64(n + 1), AttentionMs: -1},
		Idempotency:       base64.RawURLEncoding.EncodeToString(hash[:]),
		PrivateCommitment: sealer.Commit(entropy, private),
	}, &sealer.Receipt{
		ReceiptID: "rcp_" + id.String(), SpatialAnchorID: "screen 1", IssuedAt: issued, RenderedAt: issued.Add(-time.Second),
		DwellMs: float64(n + 1), Nonce: base64.RawURLEncoding.EncodeToString(entropy[:]),
	})
	require.NoError(tb, err)
	return sealer.Record{
		TenantID: tenant, EventID: "evt_" + id.String(), Node: "nod_1", Epoch: 1, Seq: uint64(n + 1),
		Event: event, Private: private,
	}
}

func TestNewRow(t *testing.T) {
	entry := sealer.Entry{Position: sealer.Position{Generation: 1, Offset: 9}, Record: delivered(t, "tnt_a", 2)}
	row, err := pipeline.NewRow(entry)
	require.NoError(t, err)
	event, d, err := sealer.CheckRecord(&entry.Record)
	require.NoError(t, err)
	issued := noon.Add(2 * time.Second)
	require.Equal(t, pipeline.Row{
		Entry: entry, Type: "delivery.recorded", At: issued, ActorKind: "key", ActorID: "key_1", SubjectKind: "right", SubjectID: "rgh_1",
		Delivery: &pipeline.Delivery{
			ReceiptID: "rcp_" + entry.EventID[4:], RightID: "rgh_1", RightRevision: 3, BasisID: "bas_1", Substrate: "CTV",
			RenderedAt: issued.Add(-time.Second), IssuedAt: issued, SigningKeyID: d.KeyID,
			Metered: true, Reason: "METERED", MeteringBasis: "viewable", QuantityMs: 3, Impressions: sealer.Impression, Completion: "none", Idempotency: d.Idempotency,
			SpatialAnchorID: "screen 1",
		},
	}, row)
	require.NotEmpty(t, d.KeyID)
	require.NotEmpty(t, d.Idempotency)

	event.Type, event.Data, event.PrivateCommitment = "right.revoked", []byte(`{"reason":"sold"}`), ""
	text, err := sealer.AppendEvent(nil, &event)
	require.NoError(t, err)
	entry.Event, entry.Private = text, nil
	row, err = pipeline.NewRow(entry)
	require.NoError(t, err)
	require.Equal(t, pipeline.Row{Entry: entry, Type: "right.revoked", At: issued, ActorKind: "key", ActorID: "key_1", SubjectKind: "right", SubjectID: "rgh_1"}, row)
}
