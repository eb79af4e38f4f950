package compare

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/bench/measure"
)

// TestRatios pairs synthetic rounds. A measurement is variant, round, receipts/s,
// p99, and what disturbed it.
func TestRatios(t *testing.T) {
	at := func(v Variant, round int, rate, p99 float64, lost ...float64) Round {
		r := Round{Variant: v, Round: round, Connections: 256, PerSecond: rate, P99: p99}
		if len(lost) > 0 {
			r.Steal, r.Others = lost[0], lost[1]
		}
		return r
	}
	for _, test := range []struct {
		name      string
		rounds    []Round
		ratio     string
		value     float64
		of        int
		met       bool
		disturbed int
	}{
		{"the median of ratios, not the ratio of medians",
			[]Round{at(Logged, 0, 100, 1), at(Full, 0, 90, 1), at(Logged, 1, 10, 1), at(Full, 1, 8, 1), at(Logged, 2, 50, 1), at(Full, 2, 50, 1)},
			"receipts/s, (c) to (b)", 0.9, 3, true, 0},
		{"the mean of the two in the middle",
			[]Round{at(Logged, 0, 100, 1), at(Full, 0, 80, 1), at(Logged, 1, 100, 1), at(Full, 1, 70, 1)},
			"receipts/s, (c) to (b)", 0.75, 2, false, 0},
		{"a disturbed half leaves the pair out",
			[]Round{at(Signed, 0, 100, 1, 0.1, 0), at(Full, 0, 90, 1), at(Signed, 1, 100, 1), at(Full, 1, 61, 1), at(Signed, 2, 100, 1), at(Full, 2, 5, 1, 0, 0.2)},
			"receipts/s, (c) to (a)", 0.61, 1, true, 2},
		{"nothing but disturbed pairs is better than none",
			[]Round{at(Signed, 0, 100, 1, 0.5, 0), at(Full, 0, 30, 1)},
			"receipts/s, (c) to (a)", 0.3, 1, false, 1},
		{"latency has an upper bound", []Round{at(Logged, 0, 1, 10), at(Full, 0, 1, 15)}, "p99, (c) to (b)", 1.5, 1, true, 0},
		{"latency above its bound", []Round{at(Logged, 0, 1, 10), at(Full, 0, 1, 16)}, "p99, (c) to (b)", 1.6, 1, false, 0},
		{"no pair meets no target", []Round{at(Logged, 0, 1, 10), at(Full, 1, 1, 10)}, "p99, (c) to (b)", 0, 0, false, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := Report{Rounds: test.rounds, Connections: []int{1, 256}}
			r.summarise()
			require.Equal(t, test.disturbed, r.Disturbed)
			for _, ratio := range r.Ratios {
				if ratio.Name != test.ratio {
					continue
				}
				if ratio.Connections == 1 {
					require.Zero(t, ratio.Bound, "bounds are for the most connections")
					continue
				}
				require.InDelta(t, test.value, ratio.Value, 1e-9)
				require.Equal(t, test.of, ratio.Of)
				require.Equal(t, test.met, ratio.Met)
			}
		})
	}
}

// TestVerdicts: a bound that is met, missed, or not shown for want of quiet.
func TestVerdicts(t *testing.T) {
	quiet, loud := measure.Loss{}, measure.Loss{Others: 0.2}
	report := func(full, appended float64, calmAppends int, grown float64, losses ...measure.Loss) *Report {
		r := &Report{
			Connections: []int{1, 256}, Wanted: 3, Append: &Append{Writers: 256, Bytes: 1000, Micros: appended, Of: 3, Calm: calmAppends},
			Sustained: &Sustained{Seconds: 100, Connections: 256, Receipts: 1000, PerSecond: 50},
		}
		for i, l := range losses {
			r.Rounds = append(r.Rounds,
				Round{Variant: Signed, Round: i, Connections: 256, PerSecond: 125, P99: 1},
				Round{Variant: Logged, Round: i, Connections: 256, PerSecond: 100, P99: 1},
				Round{Variant: Full, Round: i, Connections: 256, PerSecond: full, P99: 1, Loss: l, CPUMicros: 60},
				Round{Variant: Loaded, Round: i, Connections: 256, PerSecond: 50, P99: 1, CPUMicros: 100 + grown})
		}
		for second := range 101 {
			keys := float64(second) / 2
			r.Sustained.Memory = append(r.Sustained.Memory, Memory{
				Second: float64(second), MiB: 100 + 60*min(1, float64(second)/10) + grown*float64(second)/100 + keys, KeysMiB: keys,
				Behind: 7 + int(grown*float64(second)/50),
			})
		}
		r.summarise()
		r.judge()
		return r
	}
	states := func(r *Report) (all []measure.State) {
		for _, v := range r.Verdicts {
			all = append(all, v.State)
		}
		return all
	}

	good := report(90, 3, 3, 10, quiet, quiet, quiet)
	require.Equal(t, []measure.State{measure.Holds, measure.Holds, measure.Holds, measure.Holds, measure.Holds, measure.Holds, measure.Holds, measure.Holds}, states(good))
	require.NoError(t, good.Failed())
	require.Equal(t, 3, good.calm(256, Signed, Logged, Full))
	var text strings.Builder
	require.NoError(t, good.WriteText(&text))
	require.Contains(t, text.String(), "| receipts/s, (c) to (b), 256 connections                     | 0.90 (0.90 to 0.90 in 3 pairs) | ≥ 0.85    | holds |")
	require.Contains(t, text.String(), "| ≤ +15 %   | holds |")
	require.Contains(t, text.String(), "| loaded of what (d) answers                                  | 0.98                           | ≥ 0.98    | holds |")
	require.Contains(t, text.String(), "| receipts/s of (d), sustained, to (c)                        | 0.56                           | ≥ 0.55    | holds |")
	require.Contains(t, text.String(), "| CPU of (d) for a row beyond that of (c), until it is loaded | 50.0 µs                        | ≤ 50.0 µs | holds |")

	bad := report(70, 3.01, 2, 40, quiet, quiet, loud)
	require.Equal(t, []measure.State{measure.Missed, measure.Missed, measure.Holds, measure.Missed, measure.Missed, measure.Missed, measure.Holds, measure.Missed}, states(bad))
	require.ErrorContains(t, bad.Failed(), "receipts/s, (c) to (b), 256 connections is 0.70 (0.70 to 0.70 in 2 pairs), must be ≥ 0.85: missed")
	require.NotContains(t, bad.Failed().Error(), "quiet")
	require.Equal(t, 2, bad.calm(256, Signed, Logged, Full))

	noisy := report(90, 1, 1, 0, loud, quiet, loud)
	require.Equal(t, []measure.State{measure.Unclear, measure.Unclear, measure.Unclear, measure.Unclear, measure.Holds, measure.Holds, measure.Holds, measure.Holds}, states(noisy))
	require.ErrorContains(t, noisy.Failed(), "not shown needs a quieter machine")
	deaf := report(90, 1, 0, 0, loud, loud)
	require.Contains(t, deaf.Verdicts[0].Figure, "in 2 pairs, all disturbed")
}

func TestRoundFigures(t *testing.T) {
	latencies := make([]time.Duration, 1000)
	for i := range latencies {
		latencies[len(latencies)-1-i] = time.Duration(i+1) * time.Millisecond
	}
	began := time.Now()
	begin := measure.Meters{At: began, Server: time.Second, Client: time.Second, Machine: measure.MachineCPU{Total: 10 * time.Second, Stolen: time.Second, Worked: 5 * time.Second}}
	end := measure.Meters{At: began.Add(2 * time.Second), Server: 2 * time.Second, Client: 1500 * time.Millisecond,
		Machine: measure.MachineCPU{Total: 14 * time.Second, Stolen: 1200 * time.Millisecond, Worked: 7 * time.Second}}
	r := newRound(Full, 64, latencies, begin, end)
	require.InDelta(t, 500, r.PerSecond, 1e-9)
	require.InDelta(t, 1000, r.CPUMicros, 1e-9)
	require.InDelta(t, 500, r.ClientMicros, 1e-9)
	require.InDelta(t, 501, r.P50, 1e-9)
	require.InDelta(t, 991, r.P99, 1e-9)
	require.InDelta(t, 1000, r.P999, 1e-9)
	require.InDelta(t, 0.05, r.Steal, 1e-9)
	require.InDelta(t, 0.125, r.Others, 1e-9)
	require.True(t, r.Disturbed())
}

func TestUsage(t *testing.T) {
	const traces = `File: muniment
Type: cpu
Duration: 5s, Total samples = 100us
-----------+-------------------------------------------------------
      60us   crypto/internal/fips140/edwards25519/field.feMul
             crypto/ed25519.Sign
             muniment.example/sealer.(*Signer).SealDelivery
             muniment.example/gateway.(*Gateway).deliver
-----------+-------------------------------------------------------
     label:  x
      10us   runtime.memmove
             muniment.example/pipeline/segment.(*group).add
             muniment.example/gateway.(*Gateway).deliver
-----------+-------------------------------------------------------
      20us   internal/runtime/syscall.Syscall6
             syscall.write
             internal/poll.(*FD).Write (inline)
             github.com/valyala/fasthttp.(*Server).serveConn
-----------+-------------------------------------------------------
      10us   runtime.futex
             runtime.mcall
-----------+-------------------------------------------------------
`
	all, err := usageOf(traces, 50)
	require.NoError(t, err)
	got := map[string]Usage{}
	for _, s := range all {
		got[s.What] = s
	}
	require.Len(t, got, 4)
	require.InDelta(t, 0.6, got["Ed25519 signature"].Part, 1e-9)
	require.InDelta(t, 30, got["Ed25519 signature"].Micros, 1e-9)
	require.InDelta(t, 0.1, got["log append (encode, checksum, write, fdatasync)"].Part, 1e-9)
	require.InDelta(t, 0.2, got["socket reads and writes"].Part, 1e-9)
	require.InDelta(t, 0.1, got[scheduling].Part, 1e-9)
	require.Equal(t, "Ed25519 signature", all[0].What, "the greatest first")

	_, err = usageOf("File: muniment\n", 1)
	require.Error(t, err)
}

func TestPublish(t *testing.T) {
	jsonFile := filepath.Join(t.TempDir(), "figures.json")
	r := &Report{
		Machine: "a machine", Connections: []int{256}, Rounds: []Round{{Variant: Full, Connections: 256, PerSecond: 25000}},
		Sustained: &Sustained{Connections: 256, Memory: []Memory{{MiB: 90}}}, Where: []Usage{{What: "signature", Part: 0.5, Micros: 20, Less: 19}},
	}
	r.summarise()
	r.judge()
	var text strings.Builder
	require.NoError(t, r.Publish(&text, jsonFile))
	require.Contains(t, text.String(), "| 256         | (c) full, loader paused | 25,000 ")
	require.Contains(t, text.String(), "90 MiB")
	require.Contains(t, text.String(), "| 50.0 % | 20.0 µs        | 19.0 µs |")

	b, err := os.ReadFile(jsonFile)
	require.NoError(t, err)
	var back Report
	require.NoError(t, json.Unmarshal(b, &back))
	require.Equal(t, r.Ratios, back.Ratios)
	require.Equal(t, r.Verdicts, back.Verdicts)
}
