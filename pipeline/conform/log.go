package conform

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/pipeline"
	"muniment.example/sealer"
)

var logCases = []testCase[LogEngine]{
	{"an empty log ends where it begins", checkEmptyLog},
	{"a tenant's records stand in its partition", checkPartitions},
	{"records come back as they were appended", checkWholeRecords},
	{"positions are contiguous", checkContiguous},
	{"concurrent appends get positions of their own", checkConcurrentAppends},
	{"many at once stand in their order", checkAppendAll},
	{"many at once share the log with others", checkAppendAllBesideAppends},
	{"many at once are each for itself", checkAppendAllInPart},
	{"many at once survive a crash", checkAppendAllSurvives},
	{"in order nothing stands behind a record that is refused", checkAppendInOrder},
	{"the caller keeps the record", checkCallerKeepsRecord},
	{"the reader owns what it read", checkReaderOwns},
	{"a scan is exactly its range", checkScanRange},
	{"a scan stops with the caller", checkScanStops},
	{"a scan misses nothing beside appends", checkScanBesideAppends},
	{"other generations are gone or to come", checkGenerations},
	{"waiting ends with the record or the caller", checkWait},
	{"a cancelled append leaves the log sound", checkCancelledAppend},
	{"what was appended survives a crash", checkLogSurvives},
	{"what was retired is gone", checkRetired},
}

// record makes the n-th record of a test; all are of one tenant, so they share a
// partition.
func record(n int) sealer.Record {
	return sealer.Record{
		TenantID: "tnt_conform",
		EventID:  fmt.Sprintf("evt_%026d", n),
		Node:     "nod_conform",
		Epoch:    1,
		Seq:      uint64(n + 1),
		Event:    fmt.Appendf(nil, `{"n":%d}`, n),
		Private:  fmt.Appendf(nil, `{"secret":%d}`, n),
	}
}

// fill appends n records and returns the entries that the log must hold then.
func fill(tb testing.TB, ctx context.Context, log pipeline.Log, n int) []sealer.Entry {
	tb.Helper()
	var entries []sealer.Entry
	for i := range n {
		r := record(i)
		at, err := log.Append(ctx, &r)
		require.NoError(tb, err)
		entries = append(entries, sealer.Entry{Position: at, Record: r})
	}
	return entries
}

// scan copies what a scan brings.
func scan(ctx context.Context, log pipeline.Reader, from, to sealer.Position) ([]sealer.Entry, error) {
	var entries []sealer.Entry
	err := log.Scan(ctx, from, to, func(e sealer.Entry) error {
		e.Event, e.Private = slices.Clone(e.Event), slices.Clone(e.Private)
		entries = append(entries, e)
		return nil
	})
	return entries, err
}

// requireEntries compares entries, and takes no private part for an empty one.
func requireEntries(tb testing.TB, want, got []sealer.Entry) {
	tb.Helper()
	require.Len(tb, got, len(want))
	for i := range want {
		require.Equal(tb, want[i].Position, got[i].Position, "entry %d", i)
		require.Equal(tb, sealer.AppendRecord(nil, &want[i].Record), sealer.AppendRecord(nil, &got[i].Record),
			"record at %s", want[i].Position)
	}
}

// requireHolds requires that the log holds exactly these entries, read both ways: all at once,
// and one by one a hundred of them and the last.
func requireHolds(tb testing.TB, ctx context.Context, log pipeline.Reader, want []sealer.Entry) {
	tb.Helper()
	first, end, err := log.Bounds(ctx, want[0].Partition)
	require.NoError(tb, err)
	require.Equal(tb, want[0].Position, first)
	require.Equal(tb, want[len(want)-1].Next(), end)

	got, err := scan(ctx, log, first, end)
	require.NoError(tb, err)
	requireEntries(tb, want, got)
	for i, e := range want {
		if i%(len(want)/100+1) > 0 && i < len(want)-1 {
			continue
		}
		one, err := log.Read(ctx, e.Position)
		require.NoError(tb, err)
		requireEntries(tb, []sealer.Entry{e}, []sealer.Entry{one})
	}
}

func checkEmptyLog(tb testing.TB, ctx context.Context, log LogEngine) {
	first, end, err := log.Bounds(ctx, 0)
	require.NoError(tb, err)
	require.Equal(tb, first, end)
	_, err = log.Read(ctx, end)
	require.ErrorIs(tb, err, pipeline.ErrBeyondEnd)
	got, err := scan(ctx, log, first, end)
	require.NoError(tb, err)
	require.Empty(tb, got)
}

func checkPartitions(tb testing.TB, ctx context.Context, log LogEngine) {
	n, err := log.Partitions(ctx)
	require.NoError(tb, err)
	for p := range int32(n) {
		first, end, err := log.Bounds(ctx, p)
		require.NoError(tb, err)
		require.Equal(tb, p, first.Partition)
		require.Equal(tb, p, end.Partition)
	}
	for _, p := range []int32{-1, int32(n)} {
		_, _, err = log.Bounds(ctx, p)
		require.Error(tb, err, "there is no partition %d", p)
	}
	tenant := func(i int) string { return fmt.Sprintf("tnt_%d", i) }
	var home []int32
	for i := range 50 {
		p, err := log.PartitionOf(ctx, tenant(i))
		require.NoError(tb, err)
		for again := range 2 {
			r := record(2*i + again)
			r.TenantID = tenant(i)
			at, err := log.Append(ctx, &r)
			require.NoError(tb, err)
			require.Equal(tb, p, at.Partition)
		}
		home = append(home, p)
	}
	opened := log.Reopen()
	again, err := opened.Partitions(ctx)
	require.NoError(tb, err)
	require.Equal(tb, n, again)
	for i, want := range home {
		p, err := opened.PartitionOf(ctx, tenant(i))
		require.NoError(tb, err)
		require.Equal(tb, want, p)
	}
}

func checkWholeRecords(tb testing.TB, ctx context.Context, log LogEngine) {
	large := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
	records := []sealer.Record{
		record(0),
		{TenantID: "tnt_conform", EventID: "no private part", Event: []byte("{}")},
		{TenantID: "tnt_conform", EventID: "empty private part", Event: []byte("{}"), Private: []byte{}},
		{TenantID: "tnt_conform", EventID: "one mebibyte", Event: large, Private: []byte("x")},
		{TenantID: "tnt_conform", EventID: "bytes", Event: []byte{0, 255, '\n', 0}, Private: []byte{0}},
		{TenantID: "tnt_conform", EventID: "numbers", Node: "ñ", Epoch: math.MaxUint64, Seq: math.MaxUint64, Event: []byte("1")},
	}
	var want []sealer.Entry
	for _, r := range records {
		at, err := log.Append(ctx, &r)
		require.NoError(tb, err, r.EventID)
		want = append(want, sealer.Entry{Position: at, Record: r})
	}
	requireHolds(tb, ctx, log, want)
	requireHolds(tb, ctx, log.Reopen(), want)
}

func checkContiguous(tb testing.TB, ctx context.Context, log LogEngine) {
	entries := fill(tb, ctx, log, 50)
	next := entries[0].Position
	for _, e := range entries {
		require.Equal(tb, next, e.Position)
		next = next.Next()
	}
	requireHolds(tb, ctx, log, entries)
	_, err := log.Read(ctx, next)
	require.ErrorIs(tb, err, pipeline.ErrBeyondEnd)
}

func checkConcurrentAppends(tb testing.TB, ctx context.Context, log LogEngine) {
	const writers, each = 16, 25
	stands := make([]sealer.Position, writers*each)
	errs := make([]error, writers)
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := range each {
				n := w*each + i
				r := record(n)
				at, err := log.Append(ctx, &r)
				if err == nil {
					// What was acknowledged is there to be read.
					_, err = log.Read(ctx, at)
				}
				errs[w] = errors.Join(errs[w], err)
				stands[n] = at
			}
		})
	}
	wg.Wait()
	require.NoError(tb, errors.Join(errs...))

	want := make([]sealer.Entry, len(stands))
	for n, at := range stands {
		want[n] = sealer.Entry{Position: at, Record: record(n)}
		if n%each > 0 {
			require.Negative(tb, stands[n-1].Compare(at), "one writer's records keep their order")
		}
	}
	slices.SortFunc(want, func(a, b sealer.Entry) int { return a.Compare(b.Position) })
	requireHolds(tb, ctx, log, want)
}

func checkCallerKeepsRecord(tb testing.TB, ctx context.Context, log LogEngine) {
	var r sealer.Record
	var want []sealer.Entry
	for n := range 50 {
		fresh := record(n)
		event, private := append(r.Event[:0], fresh.Event...), append(r.Private[:0], fresh.Private...)
		r = fresh
		r.Event, r.Private = event, private
		at, err := log.Append(ctx, &r)
		require.NoError(tb, err)
		want = append(want, sealer.Entry{Position: at, Record: record(n)})
		clear(r.Event)
		clear(r.Private)
		r.EventID = "reused"
	}
	requireHolds(tb, ctx, log, want)
}

func checkReaderOwns(tb testing.TB, ctx context.Context, log LogEngine) {
	want := fill(tb, ctx, log, 3)
	for _, e := range want {
		got, err := log.Read(ctx, e.Position)
		require.NoError(tb, err)
		clear(got.Event)
		clear(got.Private)
	}
	requireHolds(tb, ctx, log, want)
}

func checkScanRange(tb testing.TB, ctx context.Context, log LogEngine) {
	entries := fill(tb, ctx, log, 8)
	first := entries[0].Position
	at := func(i int) sealer.Position {
		p := first
		p.Offset += int64(i)
		return p
	}
	for from := range len(entries) + 1 {
		for to := from; to <= len(entries)+2; to++ {
			got, err := scan(ctx, log, at(from), at(to))
			require.NoError(tb, err, "from %d to %d", from, to)
			requireEntries(tb, entries[from:min(to, len(entries))], got)
		}
	}
	_, err := scan(ctx, log, at(len(entries)+1), at(len(entries)+2))
	require.ErrorIs(tb, err, pipeline.ErrBeyondEnd)
}

func checkScanStops(tb testing.TB, ctx context.Context, log LogEngine) {
	entries := fill(tb, ctx, log, 8)
	from, to := entries[0].Position, entries[7].Next()
	enough := errors.New("enough")
	calls := 0
	err := log.Scan(ctx, from, to, func(sealer.Entry) error {
		if calls++; calls == 5 {
			return enough
		}
		return nil
	})
	require.ErrorIs(tb, err, enough)
	require.Equal(tb, 5, calls)

	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	_, err = scan(cancelled, log, from, to)
	require.ErrorIs(tb, err, context.Canceled)
}

func checkScanBesideAppends(tb testing.TB, ctx context.Context, log LogEngine) {
	const n = 200
	first := fill(tb, ctx, log, 1)[0].Position
	appended := make(chan error, 1)
	go func() {
		for i := 1; i < n; i++ {
			r := record(i)
			if _, err := log.Append(ctx, &r); err != nil {
				appended <- err
				return
			}
		}
		appended <- nil
	}()
	next := first
	for count := 0; count < n; {
		require.NoError(tb, log.Wait(ctx, next))
		_, end, err := log.Bounds(ctx, first.Partition)
		require.NoError(tb, err)
		require.Negative(tb, next.Compare(end), "the record that was waited for is durable")
		got, err := scan(ctx, log, next, end)
		require.NoError(tb, err)
		for _, e := range got {
			require.Equal(tb, next, e.Position)
			require.Equal(tb, record(count).EventID, e.EventID)
			next = next.Next()
			count++
		}
		require.Equal(tb, end, next)
	}
	require.NoError(tb, <-appended)
}

func checkGenerations(tb testing.TB, ctx context.Context, log LogEngine) {
	at := fill(tb, ctx, log, 1)[0].Position
	to := at.Next()

	future, past := at, at
	future.Generation++
	_, err := log.Read(ctx, future)
	require.ErrorIs(tb, err, pipeline.ErrBeyondEnd)
	_, err = scan(ctx, log, future, future.Next())
	require.ErrorIs(tb, err, pipeline.ErrBeyondEnd)

	if past.Generation == 0 {
		return
	}
	past.Generation--
	_, err = log.Read(ctx, past)
	require.ErrorIs(tb, err, pipeline.ErrGone)
	_, err = scan(ctx, log, past, to)
	require.ErrorIs(tb, err, pipeline.ErrGone)
	require.ErrorIs(tb, log.Wait(ctx, past), pipeline.ErrGone)
}

func checkWait(tb testing.TB, ctx context.Context, log LogEngine) {
	entries := fill(tb, ctx, log, 2)
	for _, e := range entries {
		require.NoError(tb, log.Wait(ctx, e.Position))
	}
	end := entries[1].Next()

	waiting, giveUp := context.WithCancel(ctx)
	gaveUp := make(chan error, 1)
	go func() { gaveUp <- log.Wait(waiting, end) }()
	giveUp()
	require.ErrorIs(tb, <-gaveUp, context.Canceled)

	// A call that returns finds its record.
	positions := []sealer.Position{end, end, end.Next(), end.Next().Next()}
	found := make(chan error, len(positions))
	for _, at := range positions {
		go func() {
			err := log.Wait(ctx, at)
			if err == nil {
				_, err = log.Read(ctx, at)
			}
			found <- err
		}()
	}
	fill(tb, ctx, log, 3)
	for range positions {
		require.NoError(tb, <-found)
	}
}

func checkCancelledAppend(tb testing.TB, ctx context.Context, log LogEngine) {
	want := fill(tb, ctx, log, 2)
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	r := record(2)
	at, err := log.Append(cancelled, &r)
	if err != nil {
		require.ErrorIs(tb, err, context.Canceled)
	}
	clear(r.Event)

	// The record may be in the log or not; if it is, it is complete and there once.
	after := record(3)
	last, err2 := log.Append(ctx, &after)
	require.NoError(tb, err2)
	got, err2 := scan(ctx, log, want[0].Position, last.Next())
	require.NoError(tb, err2)
	if len(got) == 4 {
		at = want[1].Next()
	} else {
		require.Error(tb, err, "an append that succeeded must stand in the log")
	}
	if len(got) == 4 || err == nil {
		want = append(want, sealer.Entry{Position: at, Record: record(2)})
	}
	requireHolds(tb, ctx, log, append(want, sealer.Entry{Position: last, Record: after}))
}

func checkLogSurvives(tb testing.TB, ctx context.Context, log LogEngine) {
	want := fill(tb, ctx, log, 20)
	var opened pipeline.Log
	for range 3 {
		opened = log.Reopen()
		requireHolds(tb, ctx, opened, want)
		r := record(len(want))
		at, err := opened.Append(ctx, &r)
		require.NoError(tb, err)
		require.Equal(tb, want[len(want)-1].Next(), at, "no position is left out or given twice")
		want = append(want, sealer.Entry{Position: at, Record: r})
	}
	requireHolds(tb, ctx, opened, want)
}

func checkRetired(tb testing.TB, ctx context.Context, log LogEngine) {
	if log.Retire == nil {
		return
	}
	var want []sealer.Entry
	for n := range 400 {
		r := record(n)
		r.Private = bytes.Repeat([]byte("p"), 1000)
		at, err := log.Append(ctx, &r)
		require.NoError(tb, err)
		want = append(want, sealer.Entry{Position: at, Record: r})
	}
	oldest, middle := want[0].Position, want[300].Position
	log.Retire(middle.Offset)
	first, end, err := log.Bounds(ctx, oldest.Partition)
	require.NoError(tb, err)
	require.Positive(tb, first.Compare(oldest), "something was retired")
	require.LessOrEqual(tb, first.Compare(middle), 0, "nothing else was")

	_, err = log.Read(ctx, oldest)
	require.ErrorIs(tb, err, pipeline.ErrGone)
	_, err = scan(ctx, log, oldest, end)
	require.ErrorIs(tb, err, pipeline.ErrGone)
	require.ErrorIs(tb, log.Wait(ctx, oldest), pipeline.ErrGone)
	requireHolds(tb, ctx, log, want[first.Offset-oldest.Offset:])
}
