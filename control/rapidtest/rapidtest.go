// Package rapidtest says on how many random cases a test holds a room against its
// model: a few that keep a test quick, or, with MUNIMENT_CASES, as many as that says.
package rapidtest

import (
	"flag"
	"os"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// Check runs a property on as many cases as usual, or as MUNIMENT_CASES says. Tests of
// one package that call it must not run in parallel.
func Check(t *testing.T, usual int, property func(*rapid.T)) {
	t.Helper()
	n := strconv.Itoa(usual)
	if asked := os.Getenv("MUNIMENT_CASES"); asked != "" {
		n = asked
	}
	const name = "rapid.checks"
	before := flag.Lookup(name).Value.String()
	require.NoError(t, flag.Set(name, n), "MUNIMENT_CASES")
	defer func() { require.NoError(t, flag.Set(name, before)) }()
	rapid.Check(t, property)
}
