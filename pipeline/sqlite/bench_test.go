package sqlite

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/stretchr/testify/require"

	"muniment.example/pipeline"
	"muniment.example/sealer"
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
				QuantityMs: 15000, Impressions: sealer.Impression, Completion: "none", Idempotency: base64.RawURLEncoding.EncodeToString(hash[:]),
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

// benchRights is how many rights BenchmarkQueries delivers under.
const benchRights = 1000

// BenchmarkQueries queries a warehouse of deliveries of one tenant, 1.5 million with
// MUNIMENT_TEST_FULL, 50 a second, one in two with an idempotency key, one in five rendered up
// to 30 days before, one in a hundred a duplicate, for what each answer costs.
func BenchmarkQueries(b *testing.B) {
	n, batch := 200_000, 10_000
	if os.Getenv("MUNIMENT_TEST_FULL") != "" {
		n = 1_500_000
	}
	w, err := Open(b.Context(), Config{Path: filepath.Join(b.TempDir(), "warehouse.db")})
	require.NoError(b, err)
	defer w.Close()
	const tenant = "tnt_01234567890123456789012345"
	start := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	for from := 0; from < n; from += batch {
		rows := deliveries(from, batch)
		for i := range rows {
			r, n := &rows[i], from+i
			r.TenantID, r.At = tenant, start.Add(time.Duration(n)*20*time.Millisecond)
			d := r.Delivery
			d.RenderedAt, d.IssuedAt = r.At, r.At
			r.SubjectID = fmt.Sprintf("rgh_%026d", n*7919%benchRights)
			d.RightID = r.SubjectID
			r.ActorKind, r.ActorID = "key", fmt.Sprintf("key_%d", n%3)
			switch {
			case n%100 == 57:
				d.Idempotency = deliveries(n-7, 1)[0].Delivery.Idempotency
			case n%2 == 1:
				d.Idempotency = ""
			}
			if n%5 == 0 {
				d.RenderedAt = r.At.Add(-time.Duration(n*7919%(30*86400)) * time.Second)
			}
			if n == 1000 || n%100_000 == 99_999 {
				r.ActorID, d.SpatialAnchorID, r.SubjectID = "key_rare", "rare", "rgh_rare"
				d.RightID = "rgh_rare"
			}
		}
		require.NoError(b, w.Load(b.Context(), pipeline.Batch{Rows: rows, Next: rows[batch-1].Next()}))
	}
	b.Logf("%d receipts", n)
	middle := sealer.Position{Generation: 1, Offset: int64(n) / 2}
	last := sealer.Position{Generation: 1, Offset: int64(n) - 1}
	var seconds, hours []time.Time
	for i := range 200 {
		seconds = append(seconds, start.Add(time.Duration(i)*time.Second))
		hours = append(hours, start.Add(time.Duration(i-192)*time.Hour))
	}
	for name, query := range map[string]func() error{
		"metering": func() error {
			_, err := w.Metering(b.Context(), pipeline.MeterQuery{TenantID: tenant, Limit: 51})
			return err
		},
		"totals": func() error {
			_, err := w.MeterTotals(b.Context(), pipeline.MeterQuery{TenantID: tenant})
			return err
		},
		"totals as of a position": func() error {
			_, err := w.MeterTotals(b.Context(), pipeline.MeterQuery{TenantID: tenant, AsOf: &last})
			return err
		},
		"as of the last position": func() error {
			_, err := w.Metering(b.Context(), pipeline.MeterQuery{TenantID: tenant, Limit: 51, AsOf: &last})
			return err
		},
		"200 hours": func() error {
			_, err := w.Metering(b.Context(), pipeline.MeterQuery{TenantID: tenant, Limit: 51, Buckets: hours})
			return err
		},
		"200 seconds": func() error {
			_, err := w.Metering(b.Context(), pipeline.MeterQuery{TenantID: tenant, Limit: 51, Buckets: seconds, To: seconds[199]})
			return err
		},
		"one right": func() error {
			_, err := w.Metering(b.Context(), pipeline.MeterQuery{TenantID: tenant, Limit: 51, RightID: "rgh_rare"})
			return err
		},
		"one minute": func() error {
			_, err := w.Metering(b.Context(), pipeline.MeterQuery{TenantID: tenant, From: seconds[50], To: seconds[110]})
			return err
		},
		"count": func() error {
			_, err := w.CountEvents(b.Context(), tenant)
			return err
		},
		"duplicates of 100,000": func() error {
			_, err := w.Duplicates(b.Context(), tenant, middle, sealer.Position{Generation: 1, Offset: middle.Offset + 100_000})
			return err
		},
		"1,000 events to seal": func() error {
			_, err := w.Events(b.Context(), pipeline.EventQuery{TenantID: tenant, After: &middle, Limit: 1000})
			return err
		},
		"5,000 events to seal": func() error {
			_, err := w.Events(b.Context(), pipeline.EventQuery{TenantID: tenant, After: &middle, Limit: 5000})
			return err
		},
		"events of a rare key": func() error {
			_, err := w.Events(b.Context(), pipeline.EventQuery{TenantID: tenant, Newest: true, ActorID: "key_rare", Limit: 51})
			return err
		},
		"events of a right": func() error {
			_, err := w.Events(b.Context(), pipeline.EventQuery{TenantID: tenant, Newest: true, RightID: fmt.Sprintf("rgh_%026d", 7), Limit: 51})
			return err
		},
		"events of a right oldest first": func() error {
			_, err := w.Events(b.Context(), pipeline.EventQuery{TenantID: tenant, RightID: fmt.Sprintf("rgh_%026d", 7), Limit: 51})
			return err
		},
		"events of an anchor": func() error {
			_, err := w.Events(b.Context(), pipeline.EventQuery{TenantID: tenant, Newest: true, SpatialAnchorID: "rare", Limit: 51})
			return err
		},
		"events of a correlation": func() error {
			list, err := w.Events(b.Context(), pipeline.EventQuery{TenantID: tenant, Newest: true, CorrelationID: deliveries(777, 1)[0].Delivery.CorrelationID, Limit: 51})
			require.Len(b, list, 1)
			return err
		},
		"events rendered in a minute": func() error {
			_, err := w.Events(b.Context(), pipeline.EventQuery{TenantID: tenant, Newest: true, RenderedFrom: seconds[50], RenderedTo: seconds[110], Limit: 51})
			return err
		},
		"events rendered in an hour of last week": func() error {
			_, err := w.Events(b.Context(), pipeline.EventQuery{TenantID: tenant, Newest: true, RenderedFrom: hours[20], RenderedTo: hours[21], Limit: 51})
			return err
		},
		"an event of a week by the end of its id": func() error {
			list, err := w.Events(b.Context(), pipeline.EventQuery{TenantID: tenant, Newest: true, RenderedFrom: hours[32], RenderedTo: hours[199], EventIDEnd: "ZZZZZZ", Limit: 51})
			require.Empty(b, list)
			return err
		},
		"events rendered in an hour": func() error {
			_, err := w.Events(b.Context(), pipeline.EventQuery{TenantID: tenant, Newest: true, RenderedFrom: hours[192], RenderedTo: hours[193], Limit: 51})
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
				require.NoError(b, query())
			}
		})
	}
}
