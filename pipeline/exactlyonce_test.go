package pipeline_test

import (
	"bytes"
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/pipeline"
	"muniment.example/pipeline/segment"
	"muniment.example/pipeline/sqlite"
	"muniment.example/sealer"
)

// These tests run the loader between the real embedded engines.

func mustOpenLog(tb testing.TB) *segment.Log {
	tb.Helper()
	log, err := segment.Open(segment.Config{Dir: filepath.Join(tb.TempDir(), "log"), SegmentBytes: 16 << 10})
	require.NoError(tb, err)
	tb.Cleanup(func() { require.NoError(tb, log.Close()) })
	return log
}

func mustOpenWarehouse(tb testing.TB) *sqlite.Warehouse {
	tb.Helper()
	w, err := sqlite.Open(tb.Context(), sqlite.Config{Path: filepath.Join(tb.TempDir(), "warehouse.db")})
	require.NoError(tb, err)
	tb.Cleanup(func() { require.NoError(tb, w.Close()) })
	return w
}

func appendAll(tb testing.TB, log pipeline.Appender, records ...sealer.Record) {
	tb.Helper()
	for _, r := range records {
		_, err := log.Append(tb.Context(), &r)
		require.NoError(tb, err)
	}
}

// loadAll runs a loader over r and w until it waits for the end of the log, or
// until ctx is done.
func loadAll(tb testing.TB, ctx context.Context, r reader, w pipeline.Sink, batch int) {
	tb.Helper()
	_, end, err := r.Reader.Bounds(ctx, 0)
	require.NoError(tb, err)
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	log := &reader{Reader: &r, wait: func(ctx context.Context, at sealer.Position) error {
		if at.Offset >= end.Offset {
			stop()
		}
		return r.Wait(ctx, at)
	}}
	l, err := pipeline.NewLoader(pipeline.LoaderConfig{
		Log: log, Warehouse: w, BatchSize: batch, MinBackoff: time.Nanosecond, MaxBackoff: time.Nanosecond,
	})
	require.NoError(tb, err)
	require.NoError(tb, l.Run(ctx))
}

// amnesia makes a sink forget what was loaded, so that everything comes again.
func amnesia(w pipeline.Sink) pipeline.Sink {
	return &sink{Sink: w, resume: func(context.Context, int32) (sealer.Position, bool, error) {
		return sealer.Position{}, false, nil
	}}
}

// story is a log with deliveries, copies of them, and keys used twice.
const deliveries = 20

func story(tb testing.TB) (log *segment.Log, want []pipeline.MeterRow) {
	log = mustOpenLog(tb)
	total := int64(0)
	for n := range deliveries {
		r := delivered(tb, "tnt_a", n)
		appendAll(tb, log, r)
		total += int64(n + 1)
		if n%5 == 4 {
			appendAll(tb, log, r, delivered(tb, "tnt_a", n-3))
		}
	}
	return log, []pipeline.MeterRow{{
		RightID: "rgh_1", Substrate: "CTV", BasisID: "bas_1", MeteringBasis: "viewable", Reason: "METERED",
		Receipts: deliveries, QuantityMs: total, Impressions: deliveries * sealer.Impression,
	}}
}

func requireStory(tb testing.TB, w pipeline.Warehouse, want []pipeline.MeterRow) {
	tb.Helper()
	requireLoaded(tb, w, deliveries)
	lines, err := w.Metering(tb.Context(), pipeline.MeterQuery{TenantID: "tnt_a"})
	require.NoError(tb, err)
	require.Equal(tb, want, lines)
}

func TestEveryRecordIsLoadedOnceWhereverTheLoaderDies(t *testing.T) {
	log, want := story(t)
	died := errors.New("died")
	for _, kill := range []bool{true, false} {
		for step, last := 0, false; !last; step++ {
			// The step-th call to log or warehouse fails, before it began or after it was
			// done; with kill the loader's process ends there too.
			ctx, cancel := context.WithCancel(t.Context())
			calls := 0
			dies := func(call func() error) error {
				now := calls
				calls++
				if now == step && step%2 == 0 {
					if kill {
						cancel()
					}
					return died
				}
				err := call()
				if now == step {
					if kill {
						cancel()
					}
					return died
				}
				return err
			}
			w := mustOpenWarehouse(t)
			r := reader{Reader: log}
			r.bounds = func(ctx context.Context, p int32) (first, end sealer.Position, err error) {
				err = dies(func() (err error) { first, end, err = log.Bounds(ctx, p); return err })
				return first, end, err
			}
			r.wait = func(ctx context.Context, at sealer.Position) error {
				return dies(func() error { return log.Wait(ctx, at) })
			}
			r.scan = func(ctx context.Context, from, to sealer.Position, fn func(sealer.Entry) error) error {
				return dies(func() error { return log.Scan(ctx, from, to, fn) })
			}
			s := &sink{Sink: w}
			s.load = func(ctx context.Context, b pipeline.Batch) error {
				// Twice: before the load, and after it.
				if err := dies(func() error { return nil }); err != nil {
					return err
				}
				return dies(func() error { return w.Load(ctx, b) })
			}
			s.resume = func(ctx context.Context, p int32) (next sealer.Position, ok bool, err error) {
				err = dies(func() (err error) { next, ok, err = w.Resume(ctx, p); return err })
				return next, ok, err
			}
			loadAll(t, ctx, r, s, 7)
			last = calls <= step
			cancel()
			if kill {
				loadAll(t, t.Context(), reader{Reader: log}, w, 7)
			}
			requireStory(t, w, want)
		}
	}
}

func TestReplayChangesNothing(t *testing.T) {
	log, want := story(t)
	w := mustOpenWarehouse(t)
	for _, batch := range []int{7, 5000, 1} {
		loadAll(t, t.Context(), reader{Reader: log}, amnesia(w), batch)
		requireStory(t, w, want)
	}
}

func TestForgedRecordsAreQuarantined(t *testing.T) {
	genuine, other := delivered(t, "tnt_a", 0), delivered(t, "tnt_a", 1)
	forge := func(change func(*sealer.Record)) sealer.Record {
		r := genuine
		r.Event, r.Private = bytes.Clone(r.Event), bytes.Clone(r.Private)
		change(&r)
		return r
	}
	rewrap := func(old, new string) func(*sealer.Record) {
		return func(r *sealer.Record) {
			require.Contains(t, string(r.Event), old)
			r.Event = bytes.ReplaceAll(r.Event, []byte(old), []byte(new))
		}
	}
	ulid, otherULID := strings.TrimPrefix(genuine.EventID, "evt_"), strings.TrimPrefix(other.EventID, "evt_")
	for name, c := range map[string]struct {
		record sealer.Record
		tenant string // that the record holds; empty: the whole partition
	}{
		"another tenant in the header":   {forge(func(r *sealer.Record) { r.TenantID = "tnt_b" }), "tnt_b"},
		"another tenant throughout":      {forge(func(r *sealer.Record) { r.TenantID = "tnt_b"; rewrap("tnt_a", "tnt_b")(r) }), "tnt_b"},
		"another right":                  {forge(rewrap("rgh_1", "rgh_2")), "tnt_a"},
		"another basis":                  {forge(rewrap("bas_1", "bas_2")), "tnt_a"},
		"another quantity":               {forge(rewrap(`"quantityMs":1`, `"quantityMs":9`)), "tnt_a"},
		"another event id in the header": {forge(func(r *sealer.Record) { r.EventID = other.EventID }), "tnt_a"},
		"another event id throughout": {forge(func(r *sealer.Record) {
			r.EventID = other.EventID
			rewrap(ulid, otherULID)(r)
		}), "tnt_a"},
		"another event id around the receipt": {forge(func(r *sealer.Record) {
			r.EventID = other.EventID
			rewrap("evt_"+ulid, "evt_"+otherULID)(r)
		}), "tnt_a"},
		"another private part": {forge(func(r *sealer.Record) { r.Private = other.Private }), "tnt_a"},
		"another spelling":     {forge(func(r *sealer.Record) { r.Event = append(r.Event, ' ') }), "tnt_a"},
		"no event":             {forge(func(r *sealer.Record) { r.Event = nil }), "tnt_a"},
		"an unreadable record": {sealer.Record{Event: []byte{1, 2, 3}}, ""},
		"an unreadable header": {forge(func(r *sealer.Record) { r.TenantID, r.EventID = "tnt_\xff\x00", "ev" }), ""},
	} {
		t.Run(name, func(t *testing.T) {
			log, w := mustOpenLog(t), mustOpenWarehouse(t)
			before, after := delivered(t, "tnt_a", 10), delivered(t, "tnt_a", 11)
			appendAll(t, log, before, c.record, after)
			loadAll(t, t.Context(), reader{Reader: log}, w, 5000)

			for tenant, want := range map[string]int64{"tnt_a": 2, "tnt_b": 0} {
				n, err := w.CountEvents(t.Context(), tenant)
				require.NoError(t, err)
				require.Equal(t, want, n, tenant)
			}
			for _, e := range []sealer.Record{before, after} {
				_, err := w.Event(t.Context(), "tnt_a", e.EventID)
				require.NoError(t, err)
			}
			tenant := c.tenant
			if tenant == "" {
				tenant = "tnt_a"
			}
			held, err := w.Quarantined(t.Context(), tenant)
			require.NoError(t, err)
			require.Len(t, held, 1)
			require.Equal(t, c.tenant, held[0].TenantID)
			require.Equal(t, int64(1), held[0].Position.Offset)
			require.NotEmpty(t, held[0].Reason)
			require.Equal(t, sealer.AppendRecord(nil, &c.record), held[0].Record)
			next, _, err := w.Resume(t.Context(), 0)
			require.NoError(t, err)
			require.Equal(t, int64(3), next.Offset, "the partition goes on")
		})
	}
}
