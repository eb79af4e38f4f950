package soak

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/bench/abuse"
	"muniment.example/bench/measure"
	"muniment.example/bench/system"
)

// calm is a pair of windows in which nothing is felt, on a machine of its own.
var calm = pair{window{p50: 1, p99: 2}, window{p50: 2, p99: 4}}

// unhurt is what is found when everything holds.
func unhurt() findings {
	var f findings
	f.slowdown("drips", maxSlowdown, []pair{calm})
	f.drips(abuse.Counts{Closed: 100, Longest: 10 * time.Second})
	f.bombs(abuse.Counts{Refused: 50}, 50)
	f.crowd(abuse.Counts{OK: 10, Refused: 10})
	f.level("after it", 100<<20, 300<<20, 116<<20, time.Second)
	f.leaks(leaked{lines: 10})
	return f
}

func TestAbuseNotFelt(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, unhurt().report(&out))
	require.NotContains(t, out.String(), "MISSED")
	require.ErrorIs(t, findings{}.report(io.Discard), errSoak, "nothing was looked at")
}

// TestEveryMissedLineFails spoils one thing at a time.
func TestEveryMissedLineFails(t *testing.T) {
	for name, spoil := range map[string]func(f *findings){
		"slow":                 func(f *findings) { f.slowdown("x", maxSlowdown, []pair{{window{p99: 2}, window{p99: 4.1}}}) },
		"not measured":         func(f *findings) { f.slowdown("x", maxSlowdown, nil) },
		"no baseline":          func(f *findings) { f.slowdown("x", maxSlowdown, []pair{{}}) },
		"drip lives on":        func(f *findings) { f.drips(abuse.Counts{Closed: 99, Longest: 15 * time.Second}) },
		"drips never closed":   func(f *findings) { f.drips(abuse.Counts{Longest: 9 * time.Second}) },
		"bomb taken":           func(f *findings) { f.bombs(abuse.Counts{Refused: 49, Other: 1}, 50) },
		"bomb not sent":        func(f *findings) { f.bombs(abuse.Counts{Refused: 49}, 50) },
		"crowd fails":          func(f *findings) { f.crowd(abuse.Counts{OK: 10, Refused: 10, Other: 1}) },
		"crowd is not refused": func(f *findings) { f.crowd(abuse.Counts{OK: 10}) },
		"crowd is shut out":    func(f *findings) { f.crowd(abuse.Counts{Refused: 10}) },
		"leak":                 func(f *findings) { f.level("x", 100<<20, 100<<20, 117<<20, time.Minute) },
		"secret in the log":    func(f *findings) { f.leaks(leaked{10, []string{"a line"}}) },
		"no log":               func(f *findings) { f.leaks(leaked{}) },
	} {
		t.Run(name, func(t *testing.T) {
			f := unhurt()
			spoil(&f)
			var out bytes.Buffer
			require.ErrorIs(t, f.report(&out), errSoak)
			require.Equal(t, 1, strings.Count(out.String(), "MISSED"), out.String())
		})
	}
}

// TestDisturbedPairsDoNotCount: not for the better and not for the worse, unless there
// are no others; then the line says so.
func TestDisturbedPairsDoNotCount(t *testing.T) {
	slow := pair{window{p99: 1}, window{p99: 9}}
	stolen, shared := slow, slow
	stolen.quiet.Steal, shared.loud.Others = 2*measure.MaxSteal, 2*measure.MaxOthers
	require.False(t, slow.disturbed())
	require.Contains(t, shared.disturbance(), "12 % others")

	var f findings
	f.slowdown("x", maxSlowdown, []pair{stolen, calm, shared})
	require.True(t, f[0].ok)
	require.Contains(t, f[0].figure, "2.00 × (2.00 ms → 4.00 ms; 1 of 3 pairs)")
	f.slowdown("x", maxSlowdown, []pair{stolen, shared})
	require.False(t, f[1].ok)
	require.Contains(t, f[1].figure, "doubtful")
}

func TestWindow(t *testing.T) {
	latencies := make([]time.Duration, 1000)
	for i := range latencies {
		latencies[i] = time.Duration(1000-i) * time.Millisecond
	}
	before := measure.Meters{Server: time.Second, Client: time.Second, Machine: measure.MachineCPU{Total: 10 * time.Second, Stolen: time.Second, Worked: 5 * time.Second}}
	after := measure.Meters{Server: 2 * time.Second, Client: 3 * time.Second, Machine: measure.MachineCPU{Total: 20 * time.Second, Stolen: 2 * time.Second, Worked: 9 * time.Second}}
	w := newWindow(latencies, before, after)
	require.Equal(t, window{p50: 501, p99: 991, Loss: measure.Loss{Steal: 0.1, Others: 0.1}}, w)
}

// TestALeakIsFound lets this process be the server whose memory is watched.
func TestALeakIsFound(t *testing.T) {
	var held atomic.Pointer[[]byte]
	var looks atomic.Int32 // until what is held is let go
	admin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/metrics" {
			fmt.Fprintf(w, "%s 7\n%s 7\n", system.MetricLoaded, system.MetricEnd)
			return
		}
		if looks.Add(-1) == 0 {
			held.Store(nil)
		}
		debug.FreeOSMemory()
	}))
	defer admin.Close()
	data := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(data, "admin.json"), []byte(`{"token":"TOKEN"}`), 0o600))
	r := &soaking{server: &system.Server{Admin: admin.URL, Data: data}, pid: os.Getpid(), limit: 300 * time.Millisecond}
	level, err := r.memory(t.Context())
	require.NoError(t, err)
	require.NoError(t, r.settle(t.Context(), "before", level))
	require.True(t, r.findings[0].ok, r.findings)

	hold := func(b []byte) { held.Store(&b) }
	hold(bytes.Repeat([]byte{1}, 8*memorySlack))
	require.NoError(t, r.settle(t.Context(), "while it leaks", level))
	require.False(t, r.findings[1].ok, r.findings)

	r.limit = time.Hour
	looks.Store(2)
	require.NoError(t, r.settle(t.Context(), "when it is let go", level))
	require.True(t, r.findings[2].ok, r.findings)
}

func TestLeaksInTheLog(t *testing.T) {
	data := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(data, "admin.json"), []byte(`{"url":"http://127.0.0.1:1","token":"TOKENTOKENTOKENTOKEN"}`), 0o600))
	var said bytes.Buffer
	r := &soaking{out: &said, server: &system.Server{Data: data}}
	require.NoError(t, r.hide("mun_test_KEYID_FIRSTHALFSECONDHALF_crc", [][]byte{
		[]byte(`{"rightId":"rgt_1","telemetry":{"speedMph":5,"player":{"os":"linux-6","trace":"7c0f9a52"},"list":["spring-a"]}}`),
	}))
	const harmless = "level=INFO msg=\"muniment has stopped\" keyId=KEYID rightId=rgt_1 os=x\n"
	for _, line := range []string{
		"the secret firsthalf", "SECONDHALF", "TOKENTOKEN", "speedMph", "Linux-6", "7c0f9a52", "spring-a", "Authorization: x", "Bearer",
		"mun_test_", "Content-Length", "X-Drip", strings.Repeat("x", 40), "X-Bomb: 1",
	} {
		l, err := search(strings.NewReader(harmless+line+"\n"), r.hidden)
		require.NoError(t, err)
		require.NotEmpty(t, l.leaking, line)
	}
	file := filepath.Join(data, "log")
	require.NoError(t, os.WriteFile(file, []byte(harmless+harmless), 0o600))
	require.NoError(t, r.searchLog(file))
	require.NoError(t, os.WriteFile(file, []byte(harmless+"speedMph without an end of its line"), 0o600))
	require.NoError(t, r.searchLog(file))
	require.Equal(t, []string{"0 of 2", "1 of 2"}, []string{r.findings[0].figure, r.findings[1].figure})
	require.Equal(t, []bool{true, false}, []bool{r.findings[0].ok, r.findings[1].ok})
	require.Equal(t, "the log says: speedMph without an end of its line\n", said.String())

	require.Error(t, r.hide("no key", nil))
	require.True(t, slices.IsSorted(r.hidden))
}
