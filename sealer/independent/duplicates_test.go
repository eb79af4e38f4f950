//go:build independent

package independent_test

import (
	"math"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/pipeline"
	"muniment.example/pipeline/conform"
	"muniment.example/pipeline/sqlite"
	"muniment.example/sealer"
	"muniment.example/sealer/pack"
	"muniment.example/sealer/verify"
)

// TestDuplicatesAlike holds all who decide what is a duplicate to one model: warehouses when
// they load, the builder when it seals, and both verifiers when they recompute. The model is
// one sentence: a delivery repeats the lowest event before it that has its row's identity, or
// has its hash and is at most a day older by the events' own times, each event at its lowest
// position.
func TestDuplicatesAlike(t *testing.T) {
	s := newService(t, "duplicates")
	f := newFolder(t, s)
	embedded, err := sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(t.TempDir(), "warehouse.db")})
	require.NoError(t, err)
	defer func() { require.NoError(t, embedded.Close()) }()
	warehouses := []pipeline.Warehouse{embedded, new(conform.MemoryWarehouse)}

	var sets [][]string
	var repeated int
	for range size(400) {
		l := s.newLog()
		l.sealing, l.signers = s.sealing, s.nodes
		base := l.now.AddDate(0, 0, 40)
		l.now = base.AddDate(0, 0, 5)
		hash := l.hash() // which all three kinds of keys may have
		keys := []key{{}, {idempotency: hash}, {idempotency: l.hash()}, {row: sealer.RowIdentity{Hash: hash}}, {row: sealer.RowIdentity{Hash: hash, Day: "2026-02-27"}},
			{row: sealer.RowIdentity{Hash: hash, Day: "2026-02-28"}}}[s.IntN(3):]

		// The log has copies of events; its leaves are what stands there first.
		var records, leaves []pipeline.Row
		for range 40 {
			if n := len(records); n > 0 && s.IntN(5) == 0 {
				records = append(records, records[s.IntN(n)])
				continue
			}
			days := time.Duration([]int{-1, 0, 1, 2, -29}[s.IntN(5)]) * sealer.DuplicateWindow
			event := l.keyed(keys[s.IntN(len(keys))], base.Add(days+time.Duration(s.IntN(3)-1)*time.Millisecond))
			row, err := pipeline.NewRow(sealer.Entry{Record: sealer.Record{TenantID: l.tenant, EventID: eventID(s, event), Node: "nod_1", Event: event}})
			require.NoError(t, err)
			records, leaves = append(records, row), append(leaves, row)
		}
		want := modelled(leaves)
		repeated += len(want)

		for _, w := range warehouses {
			next, _, err := w.Resume(t.Context(), 0)
			require.NoError(t, err)
			rows := slices.Clone(records)
			for i := range rows {
				rows[i].Position = sealer.Position{Generation: 1, Offset: next.Offset + int64(i)}
			}
			for from, to := 0, 0; to < len(rows); from = s.IntN(to + 1) {
				to = max(to, min(len(rows), from+1+s.IntN(20)))
				require.NoError(t, w.Load(t.Context(), pipeline.Batch{From: rows[from].Position, Rows: rows[from:to], Next: rows[to-1].Next()}))
			}
			list, err := w.Duplicates(t.Context(), l.tenant, sealer.Position{}, sealer.Position{Generation: 1, Offset: math.MaxInt64})
			require.NoError(t, err)
			leaf := map[string]uint64{}
			for i, r := range leaves {
				leaf[r.EventID] = uint64(i)
			}
			decided := []pack.Duplicate{}
			for _, d := range list {
				decided = append(decided, pack.Duplicate{Leaf: leaf[d.EventID], First: leaf[d.FirstEventID]})
			}
			require.Equal(t, want, decided)
		}

		// Packs of any cut. Each gets what its deliveries repeat of packs before, as sealing
		// is by the warehouse.
		var set []string
		var stated []pack.Duplicate
		metering := map[pipeline.MeterRow]pipeline.MeterRow{}
		for from, to := 0, 0; to < len(leaves); from = to {
			to = min(len(leaves), from+1+s.IntN(20))
			var events [][]byte
			earlier := map[string]uint64{}
			for i := from; i < to; i++ {
				events = append(events, leaves[i].Event)
			}
			for _, d := range want {
				if int(d.Leaf) >= from && int(d.Leaf) < to && int(d.First) < from {
					earlier[leaves[d.Leaf].EventID] = d.First
				}
			}
			p := l.sealed(events, earlier)
			require.False(t, p.refused)
			stated = append(stated, p.Header.Duplicates...)
			for _, r := range p.Header.Metering {
				line := pipeline.MeterRow{RightID: r.RightID, Substrate: r.Substrate, BasisID: r.BasisID, MeteringBasis: r.MeteringBasis, Reason: r.Reason}
				sum := metering[line]
				metering[line] = pipeline.MeterRow{Receipts: sum.Receipts + r.Receipts, QuantityMs: sum.QuantityMs + r.QuantityMs, Impressions: sum.Impressions + r.Impressions}
			}
			set = append(set, f.put(p.file))
		}
		require.Equal(t, want, append([]pack.Duplicate{}, stated...))
		sets = append(sets, set)

		// The packs of a tenant sum up to what the warehouse says.
		for _, w := range warehouses {
			lines, err := w.Metering(t.Context(), pipeline.MeterQuery{TenantID: l.tenant})
			require.NoError(t, err)
			require.Len(t, lines, len(metering))
			for _, line := range lines {
				sum := line
				line.Receipts, line.QuantityMs, line.Impressions = 0, 0, 0
				require.Equal(t, pipeline.MeterRow{Receipts: sum.Receipts, QuantityMs: sum.QuantityMs, Impressions: sum.Impressions}, metering[line], "%+v", line)
			}
		}
	}
	require.Positive(t, repeated)
	for i, theirs := range stranger(t, f.root, sets) {
		for n, v := range ours(t, f.root, sets[i]) {
			require.True(t, v.OK, "%v: sealer %v", sets[i], v.Codes)
			require.True(t, theirs[n].OK, "%v: verify.py %v", sets[i], theirs[n].Codes)
			require.NotContains(t, v.Unproven, verify.DuplicatesUnproven)
			require.NotContains(t, theirs[n].Unproven, verify.DuplicatesUnproven)
		}
	}
	t.Logf("%d logs with %d duplicates", len(sets), repeated)
}

// modelled lists what repeats what, by leaf.
func modelled(leaves []pipeline.Row) []pack.Duplicate {
	list := []pack.Duplicate{}
	for i, r := range leaves {
		for j, before := range leaves[:i] {
			is, was := key{r.Delivery.Idempotency, r.Delivery.Identity}, key{before.Delivery.Idempotency, before.Delivery.Identity}
			if is.repeats(was, r.At.Sub(before.At)) {
				list = append(list, pack.Duplicate{Leaf: uint64(i), First: uint64(j)})
				break
			}
		}
	}
	return list
}
