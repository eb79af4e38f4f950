package stack

import (
	"testing"

	"muniment.example/bench/system/storytest"
	"muniment.example/pipeline/trace/tracetest"
)

// TestTraceOnTheStack follows a delivery from its caller through a gateway, Kafka and a loader into ClickHouse.
func TestTraceOnTheStack(t *testing.T) {
	t.Parallel()
	collector := tracetest.New(t)
	s, _ := scaledOut(t, "MUNIMENT_TRACES_ENDPOINT="+collector.URL, "MUNIMENT_TRACES_SAMPLE=0")
	s.Settle()
	storytest.Trace(t, s, collector, "muniment-gateway", "muniment-control", "muniment-pipeline")
}
