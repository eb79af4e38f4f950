package main

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestSoak abuses a server for a moment. Latencies and memory say nothing then, but
// good traffic must be answered, bombs refused, and the log hold nothing it must not.
func TestSoak(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	out := bench(t, "soak", "--muniment", built, "--quick", "--dir", dir)
	for _, line := range []string{
		`\| header bombs answered 4xx +\| (\d+) of \d+ +\| all +\| holds`,
		`\| answers to the crowd +\| [\d,]+ × 200, [\d,]+ × 429, 0 others +\|`,
		`\| log lines that hold a key, a body or a header +\| 0 of [1-9][\d,]* +\| 0 +\| holds`,
		`p99 of good traffic beside 20 drips and 10 header bombs`,
		`p99 of good traffic beside a tenant at 10 × its cap of 16`,
		`memory \(RSS\) after the drips`,
		`memory \(RSS\) after the crowd`,
	} {
		require.Regexp(t, line, out)
	}
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, left)
}
