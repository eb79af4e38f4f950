package pipeline_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/bench/waittest"
	"muniment.example/pipeline"
	"muniment.example/pipeline/trace"
	"muniment.example/pipeline/trace/tracetest"
	"muniment.example/sealer"
)

// traceparentOf is that of the n-th record's append.
func traceparentOf(n int) string {
	return fmt.Sprintf("00-%032x-%016x-01", n+1, n+1)
}

// spansOf loads records and returns the spans of that.
func spansOf(t *testing.T, kept *pipeline.Traceparents, records []sealer.Record) []tracetest.Span {
	collector := tracetest.New(t)
	tracer, err := trace.New(trace.Config{Endpoint: collector.URL, Service: "loader"})
	require.NoError(t, err)
	m := newMemory()
	m.cfg.BatchSize, m.cfg.Tracer, m.cfg.Traceparents = 1000, tracer, kept
	for i := range records {
		_, err := m.log.Append(t.Context(), &records[i])
		require.NoError(t, err)
	}
	loader, err := pipeline.NewLoader(m.cfg)
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- loader.Run(ctx) }()
	waittest.Until(t, func() bool { at, ok := loader.Loaded(); return ok && at.Offset == int64(len(records)) })
	stop()
	require.NoError(t, <-ended)
	rows, err := m.warehouse.Events(t.Context(), pipeline.EventQuery{TenantID: "tnt_a", Limit: len(records) + 1})
	require.NoError(t, err)
	require.Len(t, rows, len(records), "all are loaded")

	flushed, stop := context.WithCancel(t.Context())
	stop()
	require.NoError(t, tracer.Run(flushed))
	return collector.Spans()
}

// TestLoaderTraces: each record that is traced has a span once it is loaded, and whatever else stands where its
// traceparent does, it is loaded.
func TestLoaderTraces(t *testing.T) {
	notSampled := strings.TrimSuffix(traceparentOf(7), "1") + "0"
	var records []sealer.Record
	for n, given := range []string{traceparentOf(0), "", notSampled, "nonsense", strings.Repeat("0", 1<<20), traceparentOf(5)} {
		records = append(records, delivered(t, "tnt_a", n))
		records[n].Traceparent = given
	}
	spans := spansOf(t, nil, records)
	require.Len(t, spans, 2)
	require.Equal(t, tracetest.Span{
		Service: "loader", Trace: traceparentOf(0)[3:35], ID: spans[0].ID, Parent: traceparentOf(0)[36:52], Name: "load into the warehouse", Kind: 5, Began: spans[0].Began, Ended: spans[0].Ended,
		Attributes: map[string]string{"muniment.tenant.id": "tnt_a", "muniment.event.id": records[0].EventID, "muniment.log.position": "1.0.0", "muniment.batch.records": "6"},
	}, spans[0])
	require.Equal(t, traceparentOf(5)[3:35], spans[1].Trace)
}

// TestFewOfABatchAreTraced: who may write to the topic does not decide how much the loader exports.
func TestFewOfABatchAreTraced(t *testing.T) {
	var records []sealer.Record
	for n := range 150 {
		records = append(records, delivered(t, "tnt_a", n))
		records[n].Traceparent = traceparentOf(n)
	}
	require.Len(t, spansOf(t, nil, records), 100)
}

// TestTraceparentsOfALogWithout: they are kept beside it, those of the newest records.
func TestTraceparentsOfALogWithout(t *testing.T) {
	kept := pipeline.NewTraceparents()
	records := []sealer.Record{delivered(t, "tnt_a", 0), delivered(t, "tnt_a", 1), delivered(t, "tnt_a", 2)}
	for n, r := range records[:2] {
		r.Traceparent = traceparentOf(n)
		kept.Keep(&r)
	}
	for n := range 1023 { // of records that are not loaded
		kept.Keep(&sealer.Record{EventID: fmt.Sprint(n), Traceparent: traceparentOf(9)})
	}
	spans := spansOf(t, kept, records)
	require.Len(t, spans, 1)
	require.Equal(t, traceparentOf(1)[3:35], spans[0].Trace)
}
