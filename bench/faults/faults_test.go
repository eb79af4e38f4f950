// Package faults tests what holds whatever fails: kills, full disks, older copies, backups and
// restores under load; and, with make faults, engines and processes that die.
package faults

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/bench/system/systemtest"
	"muniment.example/bench/waittest"
)

func TestMain(m *testing.M) { systemtest.Main(m) }

// needFaults keeps a test for runs by hand (make faults), which break a real disk
// under the real binary: it needs root, strace and mount.
func needFaults(t *testing.T, tools ...string) {
	if os.Getenv("MUNIMENT_TEST_FAULTS") == "" {
		t.Skip("MUNIMENT_TEST_FAULTS is not set")
	}
	require.Zero(t, os.Getuid(), "only root may break disks")
	for _, tool := range tools {
		_, err := exec.LookPath(tool)
		require.NoError(t, err)
	}
}

// requireKept checks that every acknowledged receipt is in a log, once.
func requireKept(t *testing.T, tr *systemtest.Callers, data string) {
	t.Helper()
	found := inLog(t, data)
	acknowledged := 0
	for _, a := range tr.Answers {
		if a.Receipt != "" {
			acknowledged++
			require.Equal(t, 1, found[a.Receipt], a.Receipt)
		}
	}
	t.Logf("%d acknowledged, %d in the log; answers %v", acknowledged, len(found), tr.Since(time.Time{}))
}

// TestFailingSync lets every fdatasync of a serving process fail from a moment on.
// The process ends by itself and says why; nothing is acknowledged from the first
// failure on, and no receipt that was acknowledged is missing.
func TestFailingSync(t *testing.T) {
	needFaults(t, "strace")
	h := systemtest.NewService(t)
	tr := systemtest.StartCallers(t, 64, h.Client.API, h.Client.Key, h.Rights["DOOH"])
	tr.Await("200")

	trace := filepath.Join(t.TempDir(), "trace")
	strace := exec.CommandContext(t.Context(), "strace", "-f", "-qq", "-ttt", "-y", "-s", "0", "-o", trace, "-p", strconv.Itoa(h.Server.PID()),
		"-e", "trace=pwrite64,fdatasync,exit_group", "-e", "inject=fdatasync:error=EIO:when=20+")
	require.NoError(t, strace.Start())
	require.NoError(t, strace.Wait(), "it ends with the process")
	tr.End()
	seen := traced(t, trace, filepath.Join(h.Data, "log"))
	t.Logf("the process ended %v after the first failed sync: %s", seen.ended.Sub(seen.failed), seen.how)
	require.Contains(t, seen.how, "exit_group(1)")
	require.Contains(t, h.Log(), "log has failed")
	require.Contains(t, h.Log(), "input/output error")

	// What was synced ends where the write began whose sync was the first to fail.
	synced := t.TempDir()
	systemtest.CopyAll(t, filepath.Join(h.Data, "log"), filepath.Join(synced, "log"))
	require.NoError(t, os.Truncate(filepath.Join(synced, "log", filepath.Base(seen.file)), seen.at))
	durable, written := inLog(t, synced), inLog(t, h.Data)
	require.Greater(t, len(written), len(durable), "the write that was not synced can be read")
	requireKept(t, tr, synced)
	t.Logf("%d durable before the first failed sync; none of the %d behind it was acknowledged", len(durable), len(written)-len(durable))

	h.Start()
	h.Receipts(1)
	h.Stop()
	requireKept(t, tr, h.Data)
}

// trace is what strace saw of the log and of the process.
type trace struct {
	failed, ended time.Time // the first failed sync of the log, and the last line
	file          string    // that could not be synced
	at            int64     // where it was written to before
	how           string    // it ended
}

var (
	tracedCall  = regexp.MustCompile(`^(\d+) +([\d.]+) (.*)$`)
	tracedWrite = regexp.MustCompile(`pwrite64\(\d+<([^>]+)>, .*, (\d+)(?: <unfinished|\) +=)`)
	tracedSync  = regexp.MustCompile(`fdatasync\(\d+<([^>]+)>`)
)

// traced reads strace's file.
func traced(t *testing.T, file, log string) (seen trace) {
	t.Helper()
	f, err := os.Open(file)
	require.NoError(t, err)
	defer f.Close()
	wrote := map[string]int64{}    // file → where it was last written to
	syncing := map[string]string{} // thread → the file that it syncs
	for lines := bufio.NewScanner(f); lines.Scan(); {
		m := tracedCall.FindStringSubmatch(lines.Text())
		require.NotNil(t, m, lines.Text())
		thread, call := m[1], m[3]
		seconds, err := strconv.ParseFloat(m[2], 64)
		require.NoError(t, err, lines.Text())
		seen.ended, seen.how = time.UnixMicro(int64(seconds*1e6)), call
		if w := tracedWrite.FindStringSubmatch(call); w != nil && seen.file == "" {
			wrote[w[1]], err = strconv.ParseInt(w[2], 10, 64)
			require.NoError(t, err, call)
		}
		if s := tracedSync.FindStringSubmatch(call); s != nil {
			syncing[thread] = s[1]
		}
		if name := syncing[thread]; seen.file == "" && strings.Contains(call, "EIO") && filepath.Dir(name) == log {
			require.Contains(t, wrote, name, "nothing was written before")
			seen.failed, seen.file, seen.at = seen.ended, name, wrote[name]
		}
	}
	require.NotEmpty(t, seen.file, "no sync failed")
	return seen
}

// TestFullDisk fills a small disk under a serving process and frees it again.
// Deliveries are 200 as long as the log has room, then 503, and 200 again soon after
// there is room; control says what is wrong; nothing needs a restart.
func TestFullDisk(t *testing.T) {
	needFaults(t, "mount", "umount")
	h, disk := newOnSmallDisk(t, 1024)

	tr := systemtest.StartCallers(t, 64, h.Client.API, h.Client.Key, h.Rights["DOOH"])
	tr.Await("200")
	ballast := filepath.Join(disk, "ballast")
	fill(t, ballast)
	t.Logf("log full after %v", tr.Await("503 LOG_UNAVAILABLE"))
	require.NoError(t, h.Client.Do(t.Context(), "POST", "/v1/rights/"+h.Rights["CTV"]+"/suspend", map[string]any{}, nil), "stops go on")
	waittest.Until(t, func() bool { return typesInLog(t, h.Data)["right.suspended"] > 0 }, "in a segment of its own")
	for range 20 {
		err := h.Client.Do(t.Context(), "POST", "/v1/rights/"+h.Rights["CTV"]+"/resume", map[string]any{}, nil)
		require.ErrorContains(t, err, "answered 503")
		require.ErrorContains(t, err, "STORAGE_FULL")
	}
	require.NoError(t, h.Client.Do(t.Context(), "GET", "/v1/rights/"+h.Rights["CTV"], nil, nil), "reads go on")

	require.NoError(t, os.Remove(ballast))
	recovered := tr.Await("200")
	t.Logf("deliveries recovered %v after there was room", recovered)
	freed := time.Now()
	h.Move("CTV", "resume")
	tr.End()
	h.Seal()
	t.Logf("the warehouse caught up within %v", time.Since(freed))
	for kind := range tr.Since(time.Time{}) {
		require.Contains(t, []string{"200", "503 LOG_UNAVAILABLE"}, kind)
	}
	require.Equal(t, len(inLog(t, h.Data)), h.Metered())
	h.Stop()
	requireKept(t, tr, h.Data)
}

// fill writes a file until the disk is full.
func fill(t *testing.T, name string) {
	t.Helper()
	f, err := os.Create(name)
	require.NoError(t, err)
	defer f.Close()
	for size := 1 << 20; size > 0; {
		if _, err := f.Write(make([]byte, size)); err != nil {
			require.ErrorIs(t, err, syscall.ENOSPC)
			size /= 2
		}
	}
}
