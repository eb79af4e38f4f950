package verify

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/sealer/pack"
	"muniment.example/sealer/rate"
)

// memoryFiles is the variable with what a process of the test verifies: a root key and files.
const memoryFiles = "MUNIMENT_TEST_VERIFY"

// TestVerifyMemory verifies a chain of full packs, in which each receipt has an idempotency
// key, in a process of its own, and measures its memory.
func TestVerifyMemory(t *testing.T) {
	if given := os.Getenv(memoryFiles); given != "" {
		files := strings.Split(given, "\n")
		o := Options{Root: files[0], Files: files[1:], Rating: rate.Rating}
		status := Files(t.Context(), o, io.Discard)
		// Its own peak, of which wait4 knows no more than the greater of it and ours.
		own, err := os.ReadFile("/proc/self/status")
		require.NoError(t, err)
		_, peak, _ := strings.Cut(string(own), "VmHWM:")
		fmt.Println(peak)
		os.Exit(status)
	}
	if runtime.GOOS != "linux" {
		t.Skip("only Linux reports the peak of a process")
	}
	packs, entries := 2, 200
	if os.Getenv("MUNIMENT_TEST_FULL") != "" {
		packs, entries = 15, pack.MaxEntries
	}
	vkey, files := writeChain(t, t.TempDir(), packs, entries)
	verify := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestVerifyMemory$")
	verify.Env = append(os.Environ(), memoryFiles+"="+strings.Join(append([]string{vkey}, files...), "\n"))
	out, err := verify.CombinedOutput()
	require.NoError(t, err, "%s", out)
	var used int64
	_, err = fmt.Sscan(string(out), &used)
	require.NoError(t, err, "%s", out)
	t.Logf("%d packs of %d entries: %d KiB, %v of CPU", packs, entries, used, verify.ProcessState.UserTime()+verify.ProcessState.SystemTime())
	require.Positive(t, used)
	require.LessOrEqual(t, used<<10, int64(200_000_000))
}

// writeChain makes a chain of packs, and the root key that they are verified by.
func writeChain(t testing.TB, dir string, packs, entries int) (vkey string, files []string) {
	w := newWorld(t)
	for range packs {
		file := filepath.Join(dir, fmt.Sprint(w.Packs)+".ndjson")
		writePack(t, w, file, entries)
		files = append(files, file)
	}
	return w.VKey, files
}

// writePack seals the next pack of some entries into a file.
func writePack(t testing.TB, w *world, name string, entries int) {
	events := w.Run(entries)
	file, err := os.Create(name)
	require.NoError(t, err)
	to := pack.NewBundleWriter(file, w.Seal(events))
	for _, e := range events {
		require.NoError(t, to.Add(e))
	}
	require.NoError(t, to.Close())
	require.NoError(t, file.Close())
}
