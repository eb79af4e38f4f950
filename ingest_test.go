package main

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/stretchr/testify/require"
)

// TestIngest uploads a backlog of 30 days, in random order, by a command that is killed twice:
// each row is in once, in its own period.
func TestIngest(t *testing.T) {
	t.Parallel()
	s := newService(t)
	rows := times(6_000, 300_000)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 1))
	newest := time.Now().Add(-time.Minute)
	lines := make([]string, rows)
	days := map[string]int{}
	for i := range lines {
		played := newest.Add(-time.Duration(random.Int64N(int64(30*24*time.Hour - time.Hour)))).UTC()
		days[played.Format(time.DateOnly)]++
		lines[i] = fmt.Sprintf(`{"vendor":"acme","rowId":"play-%d","playedAt":%q,"dwellMs":8000,"rightId":%q,"spatialAnchorId":"screen-%d"}`,
			i, played.Format(time.RFC3339Nano), s.rights["DOOH"], random.IntN(500))
	}
	random.Shuffle(rows, func(i, j int) { lines[i], lines[j] = lines[j], lines[i] })
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	_, err := io.WriteString(w, strings.Join(lines, "\n"))
	require.NoError(t, err)
	require.NoError(t, w.Close())
	file := filepath.Join(t.TempDir(), "backlog.ndjson.gz")
	require.NoError(t, os.WriteFile(file, packed.Bytes(), 0o600))
	results := file + ".results.ndjson"

	upload := func() *exec.Cmd {
		cmd := exec.Command("muniment", "ingest", "--url", s.client.API, "--concurrency", "2", "--json", file)
		cmd.Env = append(os.Environ(), apiKey+"="+s.client.Key)
		return cmd
	}
	for _, part := range []int{rows / 6, rows / 2} {
		cmd := upload()
		require.NoError(t, cmd.Start())
		until(t, func() bool { text, _ := os.ReadFile(results); return bytes.Count(text, []byte{'\n'}) >= part }, "%d rows are in", part)
		require.NoError(t, cmd.Process.Kill())
		require.Error(t, cmd.Wait(), "it was still at work")
	}
	done := func() (told struct{ Accepted, Duplicate, Rejected, Skipped int }) {
		out, err := upload().Output()
		require.NoError(t, err)
		printed := strings.Split(strings.TrimSpace(string(out)), "\n")
		return parse[struct{ Accepted, Duplicate, Rejected, Skipped int }](t, printed[len(printed)-1])
	}
	last := done()
	require.Zero(t, last.Rejected)
	require.GreaterOrEqual(t, last.Skipped, rows/2)
	require.Equal(t, rows, last.Accepted+last.Duplicate+last.Skipped)
	receipts := map[string]bool{}
	for line := range strings.Lines(string(read(t, results))) {
		receipts[parse[struct{ ReceiptID string }](t, line).ReceiptID] = true
	}
	require.Len(t, receipts, rows, "a row whose answer was lost got the same receipt again")
	require.Equal(t, rows, done().Skipped, "there is nothing left to do")
	require.NoError(t, os.Remove(results))
	require.Equal(t, rows, done().Duplicate, "without the results file too each row is in once")

	s.seal()
	var metering struct {
		Rows []struct {
			Bucket   time.Time
			Receipts int
		}
		Totals struct{ Receipts, Metered, Duplicates int }
	}
	s.get("/v1/metering?bucket=day", &metering)
	got := map[string]int{}
	for _, r := range metering.Rows {
		got[r.Bucket.UTC().Format(time.DateOnly)] += r.Receipts
	}
	require.Equal(t, days, got)
	require.Equal(t, rows, metering.Totals.Metered)
	require.Zero(t, metering.Totals.Duplicates)
}
