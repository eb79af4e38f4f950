// Package rapidtest says on how many random cases a test holds a service against its
// model: a few that keep a test quick, or, with MUNIMENT_TEST_FULL, many.
package rapidtest

import (
	"flag"
	"os"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// Check runs a property on a number of cases, and with MUNIMENT_TEST_FULL on a larger one.
// Tests of one package that call it must not run in parallel.
func Check(t *testing.T, usual, full int, property func(*rapid.T)) {
	t.Helper()
	n := usual
	if os.Getenv("MUNIMENT_TEST_FULL") != "" {
		n = full
	}
	const name = "rapid.checks"
	before := flag.Lookup(name).Value.String()
	require.NoError(t, flag.Set(name, strconv.Itoa(n)))
	defer func() { require.NoError(t, flag.Set(name, before)) }()
	rapid.Check(t, property)
}
