package bench

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// calm is a pair of windows in which nothing is felt, on a machine of its own.
var calm = pair{window{p50: 1, p99: 2}, window{p50: 2, p99: 4}}

// unhurt is what is found when everything holds.
func unhurt() findings {
	var f findings
	f.slowdown("drips", []pair{calm})
	f.drips(Abused{Closed: 100, Longest: 10 * time.Second})
	f.bombs(Abused{Refused: 50}, 50)
	f.crowd(Abused{OK: 10, Refused: 10})
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
		"slow":                 func(f *findings) { f.slowdown("x", []pair{{window{p99: 2}, window{p99: 4.1}}}) },
		"not measured":         func(f *findings) { f.slowdown("x", nil) },
		"no baseline":          func(f *findings) { f.slowdown("x", []pair{{}}) },
		"drip lives on":        func(f *findings) { f.drips(Abused{Closed: 99, Longest: 15 * time.Second}) },
		"drips never closed":   func(f *findings) { f.drips(Abused{Longest: 9 * time.Second}) },
		"bomb taken":           func(f *findings) { f.bombs(Abused{Refused: 49, Other: 1}, 50) },
		"bomb not sent":        func(f *findings) { f.bombs(Abused{Refused: 49}, 50) },
		"crowd fails":          func(f *findings) { f.crowd(Abused{OK: 10, Refused: 10, Other: 1}) },
		"crowd is not refused": func(f *findings) { f.crowd(Abused{OK: 10}) },
		"crowd is shut out":    func(f *findings) { f.crowd(Abused{Refused: 10}) },
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
	stolen.quiet.steal, shared.loud.others = 2*maxSteal, 2*maxOthers
	require.False(t, slow.disturbed())
	require.Contains(t, shared.disturbance(), "12 % others")

	var f findings
	f.slowdown("x", []pair{stolen, calm, shared})
	require.True(t, f[0].ok)
	require.Contains(t, f[0].figure, "2.00 × (2.00 ms → 4.00 ms; 1 of 3 pairs)")
	f.slowdown("x", []pair{stolen, shared})
	require.False(t, f[1].ok)
	require.Contains(t, f[1].figure, "doubtful")
}

func TestWindow(t *testing.T) {
	latencies := make([]time.Duration, 1000)
	for i := range latencies {
		latencies[i] = time.Duration(1000-i) * time.Millisecond
	}
	before := meters{server: time.Second, client: time.Second, machine: machineCPU{total: 10 * time.Second, stolen: time.Second, worked: 5 * time.Second}}
	after := meters{server: 2 * time.Second, client: 3 * time.Second, machine: machineCPU{total: 20 * time.Second, stolen: 2 * time.Second, worked: 9 * time.Second}}
	w := newWindow(latencies, before, after)
	require.Equal(t, window{p50: 501, p99: 991, steal: 0.1, others: 0.1}, w)
}

// speaker is a server on a port of its own that treats each connection in the same way.
func speaker(t *testing.T, treat func(conn net.Conn)) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var conns sync.WaitGroup
	t.Cleanup(func() {
		require.NoError(t, ln.Close())
		conns.Wait()
	})
	conns.Go(func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			conns.Go(func() {
				defer conn.Close()
				treat(conn)
			})
		}
	})
	return ln.Addr().String()
}

// answering treats a connection to an answer for each request.
func answering(status func(n int) int) func(net.Conn) {
	return func(conn net.Conn) {
		in := bufio.NewReader(conn)
		for n := 0; ; n++ {
			req, err := http.ReadRequest(in)
			if err != nil {
				return
			}
			if _, err := io.Copy(io.Discard, req.Body); err != nil {
				return
			}
			if _, err := fmt.Fprintf(conn, "HTTP/1.1 %d x\r\nContent-Length: 2\r\n\r\n{}", status(n)); err != nil {
				return
			}
		}
	}
}

// TestSteadyTrafficFeelsAStall: requests that are due while the server stalls count
// from when they were due, not from when they could be sent.
func TestSteadyTrafficFeelsAStall(t *testing.T) {
	const stall = 300 * time.Millisecond
	addr := speaker(t, answering(func(n int) int {
		if n == 0 {
			<-time.After(stall)
		}
		return 200
	}))
	got, err := steady(t.Context(), addr, requests("key", [][]byte{[]byte("{}")}), 1, 100, 600*time.Millisecond)
	require.NoError(t, err)
	require.Len(t, got, 60)
	late := 0
	for _, took := range got {
		if took > stall/3 {
			late++
		}
	}
	require.GreaterOrEqual(t, late, 15, "of about 20 that were due in the first two thirds of the stall: %v", got)
}

func TestSteadyTrafficTakesNothingButSuccess(t *testing.T) {
	addr := speaker(t, answering(func(n int) int {
		if n == 3 {
			return 429
		}
		return 200
	}))
	_, err := steady(t.Context(), addr, requests("key", [][]byte{[]byte("{}")}), 2, 100, 200*time.Millisecond)
	require.ErrorContains(t, err, "answered 429")
}

// abuseFor runs an abuse until enough says so, and returns what came of it.
func abuseFor(t *testing.T, a Abuse, enough func()) Abused {
	t.Helper()
	orders, err := json.Marshal(a)
	require.NoError(t, err)
	in, give := io.Pipe()
	hear, out := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- RunAbuse(t.Context(), in, out); out.Close() }()
	_, err = give.Write(orders)
	require.NoError(t, err)
	said := bufio.NewReader(hear)
	ready, err := said.ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "ready\n", ready)
	enough()
	require.NoError(t, give.Close())
	var got Abused
	require.NoError(t, json.NewDecoder(said).Decode(&got))
	_, err = io.Copy(io.Discard, said)
	require.NoError(t, err)
	require.NoError(t, <-ended)
	return got
}

func TestDrips(t *testing.T) {
	t.Run("against a server that never closes", func(t *testing.T) {
		dripped := make(chan struct{})
		addr := speaker(t, func(conn net.Conn) {
			_, err := io.ReadFull(conn, make([]byte, len("Gxx")))
			if err == nil {
				close(dripped)
			}
			_, _ = io.Copy(io.Discard, conn)
		})
		got := abuseFor(t, Abuse{Kind: Drips, Addr: addr, Connections: 1}, func() { <-dripped })
		require.Zero(t, got.Closed)
		require.Greater(t, got.Longest, 2*time.Second, "two drips, a second apart")
	})
	t.Run("against a server that closes", func(t *testing.T) {
		came := make(chan struct{}, 100_000)
		addr := speaker(t, func(conn net.Conn) {
			_, _ = io.ReadFull(conn, make([]byte, 1))
			came <- struct{}{}
		})
		got := abuseFor(t, Abuse{Kind: Drips, Addr: addr, Connections: 1}, func() { <-came; <-came; <-came })
		require.GreaterOrEqual(t, got.Closed, 2)
		require.Less(t, got.Longest, maxDrip)
	})
}

func TestBombs(t *testing.T) {
	for status, want := range map[int]Abused{431: {Refused: 50}, 400: {Refused: 50}, 200: {Other: 50}, 503: {Other: 50}} {
		addr := speaker(t, answering(func(int) int { return status }))
		got := abuseFor(t, Abuse{Kind: Bombs, Addr: addr, Connections: 50, During: 10 * time.Millisecond}, func() {})
		require.Equal(t, want, got, "%d", status)
	}
}

func TestCrowd(t *testing.T) {
	const each = 30
	var answered sync.WaitGroup
	answered.Add(2 * each)
	addr := speaker(t, answering(func(n int) int {
		if n < each {
			answered.Done()
		}
		return []int{200, 429, 503}[n%3]
	}))
	got := abuseFor(t, Abuse{Kind: Crowd, Addr: addr, Connections: 2, Requests: requests("key", [][]byte{[]byte("{}")})}, answered.Wait)
	for _, n := range []int{got.OK, got.Refused, got.Other} {
		require.GreaterOrEqual(t, n, 2*each/3-2)
	}
}

// TestALeakIsFound lets this process be the server whose memory is watched.
func TestALeakIsFound(t *testing.T) {
	self, err := os.FindProcess(os.Getpid())
	require.NoError(t, err)
	var held atomic.Pointer[[]byte]
	var looks atomic.Int32 // until what is held is let go
	admin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/metrics" {
			fmt.Fprintf(w, "%s 7\n%s 7\n", metricLoaded, metricEnd)
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
	r := &soaking{server: &Server{Admin: admin.URL, Data: data, cmd: &exec.Cmd{Process: self}}, patience: 300 * time.Millisecond}
	level, err := r.memory(t.Context())
	require.NoError(t, err)
	require.NoError(t, r.settle(t.Context(), "before", level))
	require.True(t, r.findings[0].ok, r.findings)

	hold := func(b []byte) { held.Store(&b) }
	hold(bytes.Repeat([]byte{1}, 8*memorySlack))
	require.NoError(t, r.settle(t.Context(), "while it leaks", level))
	require.False(t, r.findings[1].ok, r.findings)

	r.patience = time.Minute
	looks.Store(2)
	require.NoError(t, r.settle(t.Context(), "when it is let go", level))
	require.True(t, r.findings[2].ok, r.findings)
}

func TestLeaksInTheLog(t *testing.T) {
	data := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(data, "admin.json"), []byte(`{"url":"http://127.0.0.1:1","token":"TOKENTOKENTOKENTOKEN"}`), 0o600))
	var said bytes.Buffer
	r := &soaking{out: &said, server: &Server{Data: data}}
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

func TestUntilEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	asked := 0
	require.ErrorIs(t, until(ctx, func() (bool, error) {
		if asked++; asked == 2 {
			cancel()
		}
		return false, nil
	}), context.Canceled)
	require.Equal(t, 2, asked)
}
