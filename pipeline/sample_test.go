package pipeline_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"muniment.example/pipeline"
	"muniment.example/pipeline/conform"
	"muniment.example/sealer"
)

// TestBacklog: while the warehouse is away, operators see which partitions are behind, and whose records wait there.
func TestBacklog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := make(shelves, 3)
		log.fill(t, 0, 3)
		var w conform.MemoryWarehouse
		away := &sink{Sink: &w, load: func(context.Context, pipeline.Batch) error { return errors.New("away") }}
		f, stop := muster(t, pipeline.FleetConfig{
			Loader:     pipeline.LoaderConfig{Log: log, Warehouse: away},
			Assignment: pipeline.AllPartitions(log),
		})
		for n := range 3_999 { // three of four records in partition 1 are one tenant's
			tenant := "tnt_greedy"
			if n%4 == 3 {
				tenant = fmt.Sprint("tnt_", n)
			}
			_, err := log[1].Append(t.Context(), &sealer.Record{TenantID: tenant})
			require.NoError(t, err)
		}
		_, err := log[2].Append(t.Context(), &sealer.Record{TenantID: "\x00"})
		require.NoError(t, err)
		all := f.Backlog(t.Context())
		require.Len(t, all, 3)
		greedy := all[0]
		require.Equal(t, pipeline.PartitionBacklog{Partition: 1, Records: 4_000, Sampled: 1_000, Tenants: greedy.Tenants}, greedy)
		require.Len(t, greedy.Tenants, 20, "of some 250")
		require.Equal(t, "tnt_greedy", greedy.Tenants[0].TenantID)
		require.InDelta(t, 3_000, greedy.Tenants[0].Records, 40)
		require.LessOrEqual(t, greedy.Tenants[1].Sampled, 1)
		require.Equal(t, []pipeline.PartitionBacklog{
			{Partition: 2, Records: 2, Sampled: 2, Tenants: []pipeline.BacklogTenant{{Sampled: 1, Records: 1}, {TenantID: "tnt_2", Sampled: 1, Records: 1}}},
			{Partition: 0, Records: 1, Sampled: 1, Tenants: []pipeline.BacklogTenant{{TenantID: "tnt_0", Sampled: 1, Records: 1}}},
		}, all[1:])
		require.NoError(t, stop())
		require.Empty(t, f.Backlog(t.Context()))
	})
}

// TestBacklogOfALoader: one that has loaded all has none, and what can't be read is said.
func TestBacklogOfALoader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		m.fill(t, 0, 4)
		l, err := pipeline.NewLoader(m.cfg)
		require.NoError(t, err)
		require.Contains(t, l.Backlog(t.Context()).Error, "has not found the position")
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- l.Run(ctx) }()
		synctest.Wait()
		require.Equal(t, pipeline.PartitionBacklog{Tenants: []pipeline.BacklogTenant{}}, l.Backlog(t.Context()))
		cancel()
		require.NoError(t, <-done)
		m.fill(t, 4, 6)
		m.reader.scan = func(context.Context, sealer.Position, sealer.Position, func(sealer.Entry) error) error {
			return errors.New("the brokers are away")
		}
		require.Equal(t, pipeline.PartitionBacklog{Records: 2, Tenants: []pipeline.BacklogTenant{}, Error: "the brokers are away"}, l.Backlog(t.Context()))
	})
}

// TestBacklogIsBounded: of many partitions the longest backlogs are read, and of each no more than the sample.
func TestBacklogIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := make(shelves, 12)
		var w conform.MemoryWarehouse
		var read int
		r := &reader{Reader: log}
		away := &sink{Sink: &w, load: func(context.Context, pipeline.Batch) error { return errors.New("away") }}
		f, stop := muster(t, pipeline.FleetConfig{
			Loader:     pipeline.LoaderConfig{Log: r, Warehouse: away},
			Assignment: pipeline.AllPartitions(r),
		})
		for p := range log {
			for range 1_000 + 10*p {
				_, err := log[p].Append(t.Context(), &sealer.Record{TenantID: "tnt_a"})
				require.NoError(t, err)
			}
		}
		synctest.Wait() // the loaders have read their batches
		r.scan = func(ctx context.Context, from, to sealer.Position, fn func(sealer.Entry) error) error {
			return log.Scan(ctx, from, to, func(e sealer.Entry) error { read++; return fn(e) })
		}
		all := f.Backlog(t.Context())
		require.Len(t, all, 10)
		require.EqualValues(t, 11, all[0].Partition)
		require.EqualValues(t, 2, all[9].Partition)
		require.Equal(t, 10_000, read)
		require.Equal(t, []pipeline.BacklogTenant{{TenantID: "tnt_a", Sampled: 1_000, Records: 1_110}}, all[0].Tenants)
		require.NoError(t, stop())
	})
}
