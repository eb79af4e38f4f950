package main

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestTestingNamesRealTests: every test that .ci/TESTING.md names is there.
func TestTestingNamesRealTests(t *testing.T) {
	page, err := os.ReadFile(".ci/TESTING.md")
	require.NoError(t, err)
	named := regexp.MustCompile("`([a-z./-]+)/(Test[A-Za-z]+)`").FindAllStringSubmatch(string(page), -1)
	require.NotEmpty(t, named)
	for _, n := range named {
		files, err := filepath.Glob(filepath.Join(n[1], "*_test.go"))
		require.NoError(t, err)
		found := false
		for _, file := range files {
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			found = found || regexp.MustCompile(`(?m)^func `+n[2]+`\(`).Match(text)
		}
		require.True(t, found, "TESTING.md names %s of %s, which is not there", n[2], n[1])
	}
}
