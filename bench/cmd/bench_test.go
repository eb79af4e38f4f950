package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/bench/compare"
	"muniment.example/deploy/stack/stacktest"
)

// read returns the figures of --json.
func read(t *testing.T, file string) (report compare.Report) {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &report))
	return report
}

// TestBench runs all of the comparison for a moment. The command itself fails on
// any answer but 200, and on any receipt that it kept and can't verify.
func TestBench(t *testing.T) {
	t.Parallel()
	figures := filepath.Join(t.TempDir(), "figures.json")
	args := []string{"compare", "--muniment", built, "--quick", "--dir", t.TempDir(), "--json", figures}
	if long {
		args = append(args, "--connections", "1,16")
	} else {
		args = append(args, "--connections", "4", "--profile", "0s")
	}
	require.Contains(t, bench(t, args...), "| (c) full, loader paused |")

	report := read(t, figures)
	variants := 4
	if long {
		variants = 8 // with two numbers of connections
	}
	require.GreaterOrEqual(t, len(report.Rounds), variants)
	require.Len(t, report.Medians, variants)
	for _, r := range report.Rounds {
		require.Positive(t, r.Receipts, r)
		require.Positive(t, r.P99, r)
		require.LessOrEqual(t, r.P50, r.P99, r)
		require.LessOrEqual(t, r.P99, r.P999, r)
		require.Equal(t, r.Variant == compare.Loaded, r.SustainedPerSecond > 0, r)
		require.False(t, r.LoaderRan, r)
	}
	for _, ratio := range report.Ratios {
		if ratio.Name != "server CPU, (c) to (b)" { // a tick is too coarse for so short a time
			require.Positive(t, ratio.Value, ratio)
		}
	}
	require.Positive(t, report.Sustained.Receipts)
	require.Positive(t, report.Sustained.SustainedPerSecond)
	require.GreaterOrEqual(t, len(report.Sustained.Memory), 2)
	require.Greater(t, report.Sustained.Memory[0].MiB, 5.0)
	require.Equal(t, long, len(report.Where) > 0)
	require.Positive(t, report.Append.PerSecond)
	require.Empty(t, report.Verdicts, "a moment proves nothing")
}

// TestBenchLoad loads a few rows in each way.
func TestBenchLoad(t *testing.T) {
	t.Parallel()
	said := bench(t, "load", "--quick", "--dir", t.TempDir())
	require.Contains(t, said, "bare insert")
	require.Contains(t, said, "| SQLite    | 1,000 | together")
}

// TestBenchScale measures a service that holds little.
func TestBenchScale(t *testing.T) {
	t.Parallel()
	said := bench(t, "scale", "--muniment", built, "--quick", "--dir", t.TempDir())
	require.Contains(t, said, "| ready after SIGKILL ")
	require.Contains(t, said, "| peak memory of verify, the chain ")
}

// TestBenchOnTheStack runs all of the scaled comparison for a moment.
func TestBenchOnTheStack(t *testing.T) {
	kafka, clickHouse, database := stacktest.Kafka(t), stacktest.ClickHouse(t), stacktest.Postgres(t)
	figures := filepath.Join(t.TempDir(), "figures.json")
	args := []string{"stack", "--muniment", built, "--quick", "--dir", t.TempDir(), "--kafka", kafka, "--clickhouse", clickHouse, "--database", database, "--json", figures}
	if long {
		args = append(args, "--connections", "16,64")
	} else {
		args = append(args, "--connections", "16", "--profile", "0s")
	}
	bench(t, args...)
	require.Contains(t, bench(t, "load", "--quick", "--no-sqlite", "--dir", t.TempDir(), "--clickhouse", clickHouse), "bare copy of events")
	require.Contains(t, bench(t, "scale", "--muniment", built, "--quick", "--no-embedded", "--dir", t.TempDir(), "--clickhouse", clickHouse), "hourly sums of ten days")
	require.Contains(t, bench(t, "settlement", "--quick", "--clickhouse", clickHouse), "a tenant's month settled, to the bare sum FINAL")

	require.Contains(t, bench(t, "tenant", "--muniment", built, "--quick", "--dir", t.TempDir(), "--kafka", kafka, "--clickhouse", clickHouse, "--database", database),
		"median of 1 rounds: one tenant in one partition ")

	report := read(t, figures)
	variants := 3
	if long {
		variants = 6
	}
	require.Len(t, report.Medians, variants)
	require.Empty(t, report.Verdicts, "a moment proves nothing")
	require.Equal(t, long, len(report.Where) > 0)
	l := report.Loading
	require.Positive(t, l.PerSecond)
	if l.Rows > 0 { // or all was loaded when it was first looked at
		require.Positive(t, l.LoaderMicros)
		require.Greater(t, l.AllMicros, l.LoaderMicros)
	}
	require.Positive(t, l.Lag.P50)
	require.LessOrEqual(t, l.Lag.P99, l.Lag.Most)
	require.Equal(t, int(l.Lag.Seconds)*l.Lag.PerSecond, l.Lag.Receipts)
}
