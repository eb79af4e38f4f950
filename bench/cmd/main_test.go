package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/stretchr/testify/require"
)

// TestMain lets the test binary be muniment-bench when it is called by that name, and finds the
// muniment that it measures: the one that MUNIMENT_TEST_BINARY names, or one that it builds into
// the top folder's bin.
func TestMain(m *testing.M) {
	testscript.Main(withProduct{m}, map[string]func(){"muniment-bench": main})
}

// built is the muniment binary.
var built string

type withProduct struct{ *testing.M }

func (m withProduct) Run() int {
	if built = os.Getenv("MUNIMENT_TEST_BINARY"); built != "" {
		return m.M.Run()
	}
	top, err := filepath.Abs("../..")
	if err != nil {
		panic(err)
	}
	built = filepath.Join(top, "bin", "muniment")
	if out, err := exec.Command("make", "--silent", "-C", top, "build").CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "make build: %s\n%s", err, out)
		return 1
	}
	return m.M.Run()
}

// long is whether tests have their long forms (make test-full).
var long = os.Getenv("MUNIMENT_TEST_FULL") != ""

// bench runs a measurement that has to succeed, and returns its standard output.
func bench(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "muniment-bench", args...)
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.Output()
	require.NoError(t, err, "%q: %s", args, &said)
	return string(out)
}
