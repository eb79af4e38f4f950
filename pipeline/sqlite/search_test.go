package sqlite

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/pipeline"
	"muniment.example/sealer"
)

// A listing finds, by each filter alone and by two, what walking all rows finds: what is in
// many blocks, in one, and in none.
func TestListingsFindWhatWalkingFinds(t *testing.T) {
	const n, tenant = 5 * blockRows, "tnt_a"
	noon := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	searched := mustOpen(t, filepath.Join(t.TempDir(), "searched.db"))
	walked, err := Open(t.Context(), Config{Path: filepath.Join(t.TempDir(), "walked.db"), Unsearched: true})
	require.NoError(t, err)
	defer walked.Close()
	rows := deliveries(0, n)
	for i := range rows {
		r := &rows[i]
		r.Event, r.Private = []byte("{}"), nil
		r.TenantID, r.At = tenant, noon.Add(time.Duration(i)*time.Second)
		r.ActorKind, r.ActorID = "key", fmt.Sprint("key_", i/600)
		r.Delivery.RightID, r.Delivery.SpatialAnchorID = fmt.Sprint("rgh_", i%700), fmt.Sprint("screen ", i/400)
		r.Delivery.RenderedAt = r.At.Add(-time.Duration(i%7*i%5000) * time.Minute)
		if i == n/2 {
			r.Type, r.SubjectID, r.ActorKind, r.Delivery = "right.issued", "rgh_3", "operator", nil
		}
	}
	for _, w := range []*Warehouse{searched, walked} {
		for from := 0; from < n; from += 1000 {
			part := rows[from:min(from+1000, n)]
			require.NoError(t, w.Load(t.Context(), pipeline.Batch{From: part[0].Position, Rows: part, Next: part[len(part)-1].Next()}))
		}
	}
	filters := []func(*pipeline.EventQuery){
		func(q *pipeline.EventQuery) {},
		func(q *pipeline.EventQuery) { q.ActorID = "key_2" },
		func(q *pipeline.EventQuery) { q.ActorKind = "operator" },
		func(q *pipeline.EventQuery) { q.SubjectID = "rgh_3" },
		func(q *pipeline.EventQuery) { q.RightID = "rgh_3" },
		func(q *pipeline.EventQuery) { q.SpatialAnchorID = "screen 3" },
		func(q *pipeline.EventQuery) { q.SpatialAnchorID = "nowhere" },
		func(q *pipeline.EventQuery) { q.CorrelationID = rows[1500].Delivery.CorrelationID },
		func(q *pipeline.EventQuery) { q.From = noon.Add(25 * time.Minute) },
		func(q *pipeline.EventQuery) { q.To = noon.Add(25 * time.Minute) },
		func(q *pipeline.EventQuery) { q.RenderedFrom, q.RenderedTo = noon.Add(-time.Hour), noon },
		func(q *pipeline.EventQuery) { q.Types = []string{"right.issued"} },
		func(q *pipeline.EventQuery) { q.After, q.Before = &rows[1000].Position, &rows[1600].Position },
	}
	found := 0
	for a := range filters {
		for b := range a + 1 {
			for _, newest := range []bool{false, true} {
				q := pipeline.EventQuery{TenantID: tenant, Newest: newest, Limit: 40}
				filters[a](&q)
				filters[b](&q)
				want, err := walked.Events(t.Context(), q)
				require.NoError(t, err)
				got, err := searched.Events(t.Context(), q)
				require.NoError(t, err)
				require.Equal(t, positions(want), positions(got), "filters %d and %d", a, b)
				found += len(got)
			}
		}
	}
	require.Greater(t, found, 2000)
}

func positions(rows []pipeline.Row) (list []sealer.Position) {
	for _, r := range rows {
		list = append(list, r.Position)
	}
	return list
}
