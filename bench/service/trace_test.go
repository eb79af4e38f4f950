package service

import (
	"testing"

	"muniment/bench/system/storytest"
	"muniment/bench/system/systemtest"
	"muniment/trace/tracetest"
)

// TestTrace follows a delivery into the warehouse of a service in one process.
func TestTrace(t *testing.T) {
	collector := tracetest.New(t)
	s := systemtest.NewService(t, "--traces-endpoint", collector.URL, "--traces-sample", "0")
	storytest.Trace(t, s, collector, "muniment", "muniment", "muniment")
}
