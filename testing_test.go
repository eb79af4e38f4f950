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

// TestLinksLeadSomewhere: what the pages for contributors, operators and auditors link to is there.
func TestLinksLeadSomewhere(t *testing.T) {
	pages, err := filepath.Glob(".github/*.md")
	require.NoError(t, err)
	require.NotEmpty(t, pages)
	for _, page := range append(pages, "deploy/CHANGELOG.md", "deploy/stability.md", "deploy/systemd/README.md", "bench/service/testdata/upgrade/README.md") {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		for _, link := range regexp.MustCompile(`\]\(([^):#]+)(#[^)]*)?\)`).FindAllStringSubmatch(string(text), -1) {
			require.FileExists(t, filepath.Join(filepath.Dir(page), link[1]), "%s links to it", page)
		}
	}
}
