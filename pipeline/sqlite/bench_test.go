package sqlite

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/stretchr/testify/require"

	"muniment/pipeline"
	"muniment/sealer"
)

// deliveries makes rows of the size and shape of real ones, from offset on.
func deliveries(from, n int) []pipeline.Row {
	rows := make([]pipeline.Row, n)
	for i := range rows {
		n := from + i
		issued := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC).Add(time.Duration(n) * time.Millisecond)
		var id ulid.ULID
		_ = id.SetTime(uint64(issued.UnixMilli()))
		hash := sha256.Sum256(binary.AppendVarint(nil, int64(n)))
		_ = id.SetEntropy(hash[:10])
		rows[i] = pipeline.Row{
			Entry: sealer.Entry{Position: sealer.Position{Generation: 1, Offset: int64(n)}, Record: sealer.Record{
				TenantID: fmt.Sprintf("tnt_%026d", n%64), EventID: "evt_" + id.String(), Node: "nod_01234567890123456789012345",
				Epoch: 1, Seq: uint64(n), Event: make([]byte, 1100), Private: make([]byte, 250),
			}},
			Type: "delivery.recorded", At: issued, SubjectKind: "right", SubjectID: "rgh_01234567890123456789012345",
			Delivery: &pipeline.Delivery{
				ReceiptID: "rcp_" + id.String(), RightID: "rgh_01234567890123456789012345", RightRevision: 7,
				BasisID: "bas_01234567890123456789012345", Substrate: "CTV", RenderedAt: issued, IssuedAt: issued,
				SigningKeyID: "0123456789012345678901", Metered: true, Reason: "METERED", MeteringBasis: "viewable",
				QuantityMs: 15000, Idempotency: base64.RawURLEncoding.EncodeToString(hash[:]),
				SpatialAnchorID: fmt.Sprintf("screen %d of the west side", hash[11]), CorrelationID: id.String(),
			},
		}
	}
	return rows
}

// BenchmarkLoad loads full batches; look at rows/s.
func BenchmarkLoad(b *testing.B) {
	const batch = 5000
	w, err := Open(b.Context(), Config{Path: filepath.Join(b.TempDir(), "warehouse.db")})
	require.NoError(b, err)
	defer w.Close()
	n := 0
	for b.Loop() {
		b.StopTimer()
		rows := deliveries(n, batch)
		n += batch
		b.StartTimer()
		require.NoError(b, w.Load(b.Context(), pipeline.Batch{Rows: rows, Next: rows[batch-1].Next()}))
	}
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "rows/s")
}

// BenchmarkQueries asks a warehouse of 200,000 deliveries of one tenant, one in two
// with an idempotency key, for what a page of each list costs.
func BenchmarkQueries(b *testing.B) {
	const n, batch = 200_000, 10_000
	w, err := Open(b.Context(), Config{Path: filepath.Join(b.TempDir(), "warehouse.db")})
	require.NoError(b, err)
	defer w.Close()
	for from := 0; from < n; from += batch {
		rows := deliveries(from, batch)
		for i := range rows {
			rows[i].TenantID = "tnt_01234567890123456789012345"
			if i%2 == 0 {
				rows[i].Delivery.Idempotency = ""
			}
		}
		require.NoError(b, w.Load(b.Context(), pipeline.Batch{Rows: rows, Next: rows[batch-1].Next()}))
	}
	const tenant = "tnt_01234567890123456789012345"
	start := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	var seconds []time.Time
	for i := range 200 {
		seconds = append(seconds, start.Add(time.Duration(i)*time.Second))
	}
	for name, ask := range map[string]func() error{
		"metering": func() error {
			_, err := w.Metering(b.Context(), pipeline.MeterQuery{TenantID: tenant, Limit: 51})
			return err
		},
		"totals": func() error {
			_, err := w.MeterTotals(b.Context(), pipeline.MeterQuery{TenantID: tenant})
			return err
		},
		"200 buckets": func() error {
			_, err := w.Metering(b.Context(), pipeline.MeterQuery{TenantID: tenant, Limit: 51, Buckets: seconds})
			return err
		},
		"one second": func() error {
			_, err := w.Metering(b.Context(), pipeline.MeterQuery{TenantID: tenant, From: seconds[50], To: seconds[51]})
			return err
		},
		"events": func() error {
			_, err := w.Events(b.Context(), pipeline.EventQuery{TenantID: tenant, Newest: true, Limit: 51})
			return err
		},
		"events of an old second": func() error {
			_, err := w.Events(b.Context(), pipeline.EventQuery{TenantID: tenant, Newest: true, Limit: 51, From: seconds[1], To: seconds[2]})
			return err
		},
		"events of a rare type": func() error {
			_, err := w.Events(b.Context(), pipeline.EventQuery{TenantID: tenant, Types: []string{"right.revoked"}, Limit: 51})
			return err
		},
		"events of a rare subject": func() error {
			_, err := w.Events(b.Context(), pipeline.EventQuery{TenantID: tenant, SubjectKind: "right", SubjectID: "rgh_x", Limit: 51})
			return err
		},
		"events of a rare actor": func() error {
			_, err := w.Events(b.Context(), pipeline.EventQuery{TenantID: tenant, ActorKind: "operator", Limit: 51})
			return err
		},
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				require.NoError(b, ask())
			}
		})
	}
}
