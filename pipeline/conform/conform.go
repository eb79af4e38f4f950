// Package conform holds the suites that every log and every warehouse passes:
// what the interfaces of pipeline promise in words, as tests.
//
// An engine's package calls Log or Warehouse from one test with a function that
// opens a fresh engine. The suites use nothing but the interfaces and the hooks
// of LogEngine and WarehouseEngine, so that the embedded and the scaled engines
// pass the same tests. MemoryLog and MemoryWarehouse are the smallest engines
// that pass. Imported by tests only.
package conform

import (
	"context"
	"flag"
	"os"
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/pipeline"
)

// LogEngine is a log under test.
type LogEngine struct {
	pipeline.Log
	// Reopen ends the log as a crash would, as far as the engine can be made to
	// crash in process, and returns it opened again.
	Reopen func() pipeline.Log
	// Retire drops at least the oldest record, and only records before the given offset,
	// and returns when Bounds shows that. nil: the engine can't.
	Retire func(before int64)
}

// WarehouseEngine is a warehouse under test.
type WarehouseEngine struct {
	pipeline.Warehouse
	// Reopen ends the warehouse as a crash would, as far as the engine can be made
	// to crash in process, and returns it opened again.
	Reopen func() pipeline.Warehouse
	// Other opens the same warehouse beside the first, as another process does. nil: the
	// engine belongs to one process.
	Other func() pipeline.Warehouse
}

// Log runs the suite of pipeline.Log. Each case opens an empty log of its own, beside those
// of other cases; open leaves closing it to tb.Cleanup.
func Log(t *testing.T, open func(tb testing.TB) LogEngine) {
	run(t, logCases, open)
}

// Warehouse runs the suite of pipeline.Warehouse. Each case opens an empty
// warehouse of its own, beside those of other cases; open leaves closing it to tb.Cleanup. draws is
// how many random cases a promise is held against: Draws, or fewer where an insert costs a server ten
// times what it costs a file; the first suite of a process decides it. With MUNIMENT_TEST_FULL it is
// ten times as many.
func Warehouse(t *testing.T, draws int, open func(tb testing.TB) WarehouseEngine) {
	drawn.Do(func() {
		if os.Getenv("MUNIMENT_TEST_FULL") != "" {
			draws *= 10
		}
		require.NoError(t, flag.Set("rapid.checks", strconv.Itoa(draws)))
	})
	run(t, warehouseCases, open)
}

// drawn is done once rapid knows how many cases to draw: it has one number for all suites, which run
// beside each other.
var drawn sync.Once

// Draws is how many random cases an engine in a file is held against.
const Draws = 40

// testCase is one promise. Its check fails tb when the engine breaks it.
type testCase[E any] struct {
	name  string
	check func(tb testing.TB, ctx context.Context, e E)
}

func run[E any](t *testing.T, cases []testCase[E], open func(tb testing.TB) E) {
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel() // an engine that is a server waits most of the time
			c.check(t, t.Context(), open(t))
		})
	}
}
