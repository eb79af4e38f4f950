package compare

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/bench/measure"
)

// TestDelays follows receipts of two partitions: the n-th of a partition is loaded when
// the loader is n records behind where the partition ended before.
func TestDelays(t *testing.T) {
	began := time.Now()
	at := func(ms int) time.Time { return began.Add(time.Duration(ms) * time.Millisecond) }
	due := map[int32][]time.Time{0: {at(30), at(10), at(20)}, 1: {at(15)}}
	before := map[int32]int64{0: 100, 1: 7}
	seen := []lagSample{
		{at(0), map[int32]int64{0: 100, 1: 7}},
		{at(40), map[int32]int64{0: 101, 1: 7}},
		{at(60), map[int32]int64{0: 103, 1: 7}},
		{at(90), map[int32]int64{0: 103, 1: 8}},
	}
	ms := time.Millisecond
	require.Equal(t, []time.Duration{30 * ms, 30 * ms, 40 * ms, 75 * ms}, delays(due, before, seen))
}

// TestStackBounds: each number of connections has its own bound, and every round of it
// counts apart.
func TestStackBounds(t *testing.T) {
	r := Report{Connections: []int{64, 256, 1024}, Wanted: 1, lineup: stackLineup(), Loading: &Loading{
		AllMicros: 100, PerSecond: 15_999, Lag: Lag{PerSecond: 1000, P50: 699, P99: 1501, Loss: measure.Loss{Steal: 0.5}},
	}}
	for _, n := range r.Connections {
		for v, rate := range map[Variant]float64{Signed: 100, Topical: 70, Edge: 62} {
			r.Rounds = append(r.Rounds, Round{Variant: v, Connections: n, PerSecond: rate, CPUMicros: 1000 / rate})
		}
	}
	r.Rounds[0].Steal = 0.5
	r.summarise()
	r.judge()
	found := map[string]measure.State{}
	for _, v := range r.Verdicts {
		found[v.What+" "+v.Bound] = v.State
	}
	require.Equal(t, measure.Missed, found["receipts/s, (s) to (a), 256 connections ≥ 0.65"])
	require.Equal(t, measure.Missed, found["receipts/s, (s) to (a), 1024 connections ≥ 0.65"])
	require.Contains(t, found, "receipts/s, (s) to (a), 64 connections ≥ 0.5")
	require.Equal(t, measure.Holds, found["receipts/s, (s) to (k), 1024 connections ≥ 0.85"])
	require.Equal(t, measure.Missed, found["server CPU, (s) to (a), 256 connections ≤ 1.5"])
	require.Equal(t, measure.Holds, found["CPU of a row of a backlog, loader, warehouse and broker ≤ 100 µs"])
	require.Equal(t, measure.Missed, found["rows/s of a backlog ≥ 16000"])
	require.Equal(t, measure.Unclear, found["lag at 1,000/s, p50 ≤ 700 ms"], "it was disturbed")
	require.Equal(t, measure.Unclear, found["lag at 1,000/s, p99 ≤ 1500 ms"])
	require.Len(t, found, 13)
	require.Equal(t, 0, r.calm(64, r.lineup.variants...))
	require.Equal(t, 1, r.calm(256, r.lineup.variants...))
}
