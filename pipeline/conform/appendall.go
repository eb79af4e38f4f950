package conform

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/pipeline"
	"muniment.example/sealer"
)

// fillAt appends n records from the k-th on in one step, and returns their entries.
func fillAt(tb testing.TB, ctx context.Context, log pipeline.Log, k, n int) []sealer.Entry {
	tb.Helper()
	rs := make([]*sealer.Record, n)
	for i := range rs {
		r := record(k + i)
		rs[i] = &r
	}
	at, errs := log.AppendAll(ctx, rs)
	require.Len(tb, at, n)
	require.Len(tb, errs, n)
	require.NoError(tb, errors.Join(errs...))
	entries := make([]sealer.Entry, n)
	for i, r := range rs {
		entries[i] = sealer.Entry{Position: at[i], Record: record(k + i)}
		clear(r.Event) // which are the caller's again
		clear(r.Private)
	}
	return entries
}

func checkAppendAll(tb testing.TB, ctx context.Context, log LogEngine) {
	at, errs := log.AppendAll(ctx, nil)
	require.Empty(tb, at)
	require.Empty(tb, errs)
	entries := fillAt(tb, ctx, log, 0, 1)
	entries = append(entries, fillAt(tb, ctx, log, 1, 1000)...)
	entries = append(entries, fillAt(tb, ctx, log, 1001, 2)...)
	for i, e := range entries[1:] {
		require.Equal(tb, entries[i].Next(), e.Position)
	}
	requireHolds(tb, ctx, log, entries)
	requireHolds(tb, ctx, log.Reopen(), entries)

	// Of several tenants each stands in its partition.
	log.Log = log.Reopen()
	rs := make([]*sealer.Record, 50)
	for i := range rs {
		r := record(i)
		r.TenantID = fmt.Sprintf("tnt_%d", i%10)
		rs[i] = &r
	}
	at, errs = log.AppendAll(ctx, rs)
	require.NoError(tb, errors.Join(errs...))
	last := map[string]sealer.Position{}
	for i, r := range rs {
		p, err := log.PartitionOf(ctx, r.TenantID)
		require.NoError(tb, err)
		require.Equal(tb, p, at[i].Partition)
		require.Negative(tb, last[r.TenantID].Compare(at[i]), "behind the one before it")
		last[r.TenantID] = at[i]
		e, err := log.Read(ctx, at[i])
		require.NoError(tb, err)
		requireEntries(tb, []sealer.Entry{{Position: at[i], Record: *r}}, []sealer.Entry{e})
	}
}

func checkAppendAllBesideAppends(tb testing.TB, ctx context.Context, log LogEngine) {
	const many, each, single = 8, 60, 50
	entries := make([][]sealer.Entry, 2*many)
	var wg sync.WaitGroup
	for w := range many {
		wg.Go(func() { entries[w] = fillAt(tb, ctx, log, w*each, each) })
		wg.Go(func() {
			for i := range single {
				r := record(many*each + w*single + i)
				at, err := log.Append(ctx, &r)
				if err != nil {
					tb.Error(err)
					return
				}
				entries[many+w] = append(entries[many+w], sealer.Entry{Position: at, Record: r})
			}
		})
	}
	wg.Wait()
	for _, own := range entries {
		require.True(tb, slices.IsSortedFunc(own, func(a, b sealer.Entry) int { return a.Position.Compare(b.Position) }))
	}
	all := slices.Concat(entries...)
	require.Len(tb, all, many*(each+single))
	slices.SortFunc(all, func(a, b sealer.Entry) int { return a.Position.Compare(b.Position) })
	requireHolds(tb, ctx, log, all)
}

// checkAppendAllInPart has one record among others that no log takes.
func checkAppendAllInPart(tb testing.TB, ctx context.Context, log LogEngine) {
	first, huge, last := record(0), record(1), record(2)
	huge.Private = make([]byte, 17<<20)
	at, errs := log.AppendAll(ctx, []*sealer.Record{&first, &huge, &last})
	if errs[1] == nil {
		return // it took that
	}
	require.NoError(tb, errs[0])
	require.NoError(tb, errs[2])
	require.Zero(tb, at[1])
	requireHolds(tb, ctx, log, []sealer.Entry{{Position: at[0], Record: first}, {Position: at[2], Record: last}})

	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	r := record(3)
	stands, errs := log.AppendAll(cancelled, []*sealer.Record{&r})
	if errs[0] != nil {
		require.ErrorIs(tb, errs[0], context.Canceled)
		require.Zero(tb, stands[0])
	}
}

// checkAppendInOrder is for logs whose writers may depend on the order.
func checkAppendInOrder(tb testing.TB, ctx context.Context, log LogEngine) {
	ordered, ok := log.Log.(pipeline.OrderedLog)
	if !ok {
		return
	}
	rs := make([]*sealer.Record, 300)
	for i := range rs {
		r := record(i)
		rs[i] = &r
	}
	for left := rs; len(left) > 0; {
		n, err := ordered.AppendInOrder(ctx, left)
		require.NoError(tb, err)
		require.Positive(tb, n)
		left = left[n:]
	}
	partition, err := log.PartitionOf(ctx, rs[0].TenantID)
	require.NoError(tb, err)
	first, _, err := log.Bounds(ctx, partition)
	require.NoError(tb, err)
	var want []sealer.Entry
	for _, r := range rs {
		want = append(want, sealer.Entry{Position: first, Record: *r})
		first = first.Next()
	}
	requireHolds(tb, ctx, log, want)

	fits, huge, behind := record(len(rs)), record(len(rs)+1), record(len(rs)+2)
	huge.Private = make([]byte, 17<<20)
	n, err := ordered.AppendInOrder(ctx, []*sealer.Record{&fits, &huge, &behind})
	if err == nil {
		return // it took that
	}
	require.Equal(tb, 1, n)
	want = append(want, sealer.Entry{Position: first, Record: fits})
	requireHolds(tb, ctx, log, want)
	requireHolds(tb, ctx, log.Reopen(), want)
}

func checkAppendAllSurvives(tb testing.TB, ctx context.Context, log LogEngine) {
	want := fillAt(tb, ctx, log, 0, 20)
	for range 3 {
		log.Log = log.Reopen()
		requireHolds(tb, ctx, log, want)
		want = append(want, fillAt(tb, ctx, log, len(want), 7)...)
	}
	requireHolds(tb, ctx, log.Reopen(), want)
}
