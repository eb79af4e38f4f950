package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestAsks: who asks for an engine is listed, by its own call or by another's, and nobody else.
func TestAsks(t *testing.T) {
	t.Chdir("../../..")
	lines, err := run("./pipeline/clickhouse", "./sealer/calendar")
	require.NoError(t, err)
	require.Len(t, lines, 1, "the calendar needs no engine")
	folder, pattern, _ := strings.Cut(lines[0], " ")
	require.Equal(t, "./pipeline/clickhouse", folder)
	tests := strings.Split(strings.TrimSuffix(strings.TrimPrefix(pattern, "^("), ")$"), "|")
	require.Contains(t, tests, "TestLoadAgainAndTwiceAtOnce")
	require.Contains(t, tests, "TestConformance", "by what it hands to the suite")
	require.NotContains(t, tests, "TestConfigBecomesOptions")
	require.NotContains(t, tests, "TestKilledReplicas", "make test-cluster starts what it needs")
}
