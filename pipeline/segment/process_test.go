package segment

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/pipeline"
	"muniment.example/sealer"
)

// writerDir in the environment makes the test binary a process that appends
// to the log there and prints each acknowledged record.
const writerDir = "MUNIMENT_SEGMENT_WRITER_DIR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(writerDir); dir != "" {
		fmt.Fprintln(os.Stderr, runWriter(dir))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// runWriter appends until it is killed.
func runWriter(dir string) error {
	log, err := Open(Config{Dir: dir, SegmentBytes: 256 << 10})
	if err != nil {
		return err
	}
	var printing sync.Mutex
	failed := make(chan error)
	for w := range 16 {
		go func() {
			for n := 0; ; n++ {
				id := fmt.Sprintf("evt_%d_%d_%d", os.Getpid(), w, n)
				at, err := log.Append(context.Background(), &sealer.Record{EventID: id, Event: []byte(eventOf(id))})
				if err != nil {
					failed <- err
					return
				}
				printing.Lock()
				fmt.Println(id, at)
				printing.Unlock()
			}
		}()
	}
	return <-failed
}

func writerCommand(t *testing.T, dir string) *exec.Cmd {
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), self)
	cmd.Env = append(os.Environ(), writerDir+"="+dir)
	return cmd
}

// TestKill kills a writing process again and again over one log, each after some
// more acknowledgements, and looks for all that were printed.
func TestKill(t *testing.T) {
	dir := t.TempDir()
	rng := newRand()
	acked := newLedger()
	kills := 6
	if full {
		kills = 20
	}
	for range kills {
		cmd := writerCommand(t, dir)
		out, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		lines := bufio.NewScanner(out)
		for n := 1 + rng.IntN(400); lines.Scan(); n-- {
			id, text, ok := strings.Cut(lines.Text(), " ")
			at, err := sealer.ParsePosition(text)
			if !ok || err != nil {
				break // the line that the kill cut
			}
			acked.add(id, at)
			if n == 0 {
				require.NoError(t, cmd.Process.Kill())
			}
		}
		require.Error(t, cmd.Wait())

		log := mustOpen(t, Config{Dir: dir, SegmentBytes: 256 << 10})
		acked.requireHeld(t, log)
		require.NoError(t, log.Close())
	}
	require.Greater(t, len(acked.acked), 50*kills)
}

func TestSecondOpenIsRefused(t *testing.T) {
	dir := t.TempDir()
	log := mustOpen(t, Config{Dir: dir})
	_, err := Open(Config{Dir: dir})
	require.ErrorIs(t, err, ErrLocked)
	out, err := writerCommand(t, dir).CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(out), ErrLocked.Error())
	require.Contains(t, string(out), dir)

	require.NoError(t, log.Close())
	mustOpen(t, Config{Dir: dir})
}

// TestReaderBesideWriter opens a log for reading again and again while another
// process appends to it.
func TestReaderBesideWriter(t *testing.T) {
	dir := t.TempDir()
	cmd := writerCommand(t, dir)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	lines := bufio.NewScanner(out)
	acked := newLedger()
	for opened := 0; opened < 15 && lines.Scan(); opened++ {
		for range 20 {
			id, text, _ := strings.Cut(lines.Text(), " ")
			at, err := sealer.ParsePosition(text)
			require.NoError(t, err)
			acked.add(id, at)
			require.True(t, lines.Scan())
		}
		r, err := OpenReader(dir)
		require.NoError(t, err)
		acked.requireHeld(t, r)
		require.NoError(t, r.Close())
		_, _, err = r.Bounds(t.Context(), 0)
		require.ErrorIs(t, err, pipeline.ErrClosed)
	}
	require.NoError(t, cmd.Process.Kill())
	require.Error(t, cmd.Wait())
	require.NotEmpty(t, acked.acked)
}
