package service

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

	"muniment/bench/system/systemtest"
	"muniment/bench/waittest"
)

// TestIngest uploads a backlog of 30 days, in random order, by a command that is killed twice:
// each row is in once, in its own period.
func TestIngest(t *testing.T) {
	t.Parallel()
	s := systemtest.NewService(t)
	rows := systemtest.Times(6_000, 300_000)
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
			i, played.Format(time.RFC3339Nano), s.Rights["DOOH"], random.IntN(500))
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
		cmd := exec.Command("muniment", "ingest", "--url", s.Client.API, "--concurrency", "2", "--json", file)
		cmd.Env = append(os.Environ(), "MUNIMENT_API_KEY="+s.Client.Key)
		return cmd
	}
	for _, part := range []int{rows / 6, rows / 2} {
		cmd := upload()
		require.NoError(t, cmd.Start())
		waittest.Until(t, func() bool { text, _ := os.ReadFile(results); return bytes.Count(text, []byte{'\n'}) >= part }, "%d rows are in", part)
		require.NoError(t, cmd.Process.Kill())
		require.Error(t, cmd.Wait(), "it was still at work")
	}
	done := func() (response struct{ Accepted, Duplicate, Rejected, Skipped int }) {
		out, err := upload().Output()
		require.NoError(t, err)
		printed := strings.Split(strings.TrimSpace(string(out)), "\n")
		return systemtest.Parse[struct{ Accepted, Duplicate, Rejected, Skipped int }](t, printed[len(printed)-1])
	}
	last := done()
	require.Zero(t, last.Rejected)
	require.GreaterOrEqual(t, last.Skipped, rows/2)
	require.Equal(t, rows, last.Accepted+last.Duplicate+last.Skipped)
	receipts := map[string]bool{}
	for line := range strings.Lines(string(systemtest.ReadFile(t, results))) {
		receipts[systemtest.Parse[struct{ ReceiptID string }](t, line).ReceiptID] = true
	}
	require.Len(t, receipts, rows, "a row whose answer was lost got the same receipt again")
	require.Equal(t, rows, done().Skipped, "there is nothing left to do")
	require.NoError(t, os.Remove(results))
	require.Equal(t, rows, done().Duplicate, "without the results file too each row is in once")

	s.Seal()
	var metering struct {
		Rows []struct {
			Bucket   time.Time
			Reason   string
			Receipts int
		}
		Totals struct{ Metered int }
	}
	s.Get("/v1/metering?bucket=day&limit=500", &metering)
	got := map[string]int{}
	for _, r := range metering.Rows {
		if r.Reason == "METERED" { // a batch that a slow machine gave up may have left duplicates, which count for nothing
			got[r.Bucket.UTC().Format(time.DateOnly)] += r.Receipts
		}
	}
	require.Equal(t, days, got)
	require.Equal(t, rows, metering.Totals.Metered)
}

// TestIngestFormats uploads a table with columns of its own, in local time, and a vendor's
// document, whose player has a mapping: what the command makes of files is what the route takes.
func TestIngestFormats(t *testing.T) {
	t.Parallel()
	s := systemtest.NewService(t)
	right, day := s.Rights["DOOH"], time.Now().UTC().AddDate(0, 0, -2).Truncate(24*time.Hour)
	s.Post("/v1/delivery/mappings", map[string]any{"vendor": "vistar", "idType": "venue_id", "vendorId": "venue-0042",
		"target": map[string]any{"rightId": right, "spatialAnchorId": "screen-42"}, "effectiveFrom": day}, nil)
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	var table strings.Builder
	table.WriteString("Start,Length,rightId,spatialAnchorId,Note\n")
	for n := range 1500 {
		fmt.Fprintf(&table, "%s,8.5,%s,\"wall, %d\",x\n", day.Add(time.Duration(n)*time.Second).Format("2006-01-02 15:04:05"), right, n%3)
	}
	plays := write("plays.csv", table.String())
	document := write("ads.json", fmt.Sprintf(`{"venue_id":"venue-0042","advertisement":[{"id":"a","length_in_seconds":15,"display_time":%d},{"id":"b","length_in_seconds":15}]}`, day.Add(time.Hour).Unix()))
	upload := func(args ...string) (response struct{ Accepted, Duplicate, Rejected, Skipped int }, err error) {
		cmd := exec.Command("muniment", append([]string{"ingest", "--url", s.Client.API, "--json"}, args...)...)
		cmd.Env = append(os.Environ(), "MUNIMENT_API_KEY="+s.Client.Key)
		out, err := cmd.Output()
		printed := strings.Split(strings.TrimSpace(string(out)), "\n")
		return systemtest.Parse[struct{ Accepted, Duplicate, Rejected, Skipped int }](t, printed[len(printed)-1]), err
	}
	asTable := []string{"--option", "column.playedAt=Start", "--option", "column.dwellSeconds=Length", "--option", "tz=UTC", plays}
	response, err := upload(asTable...)
	require.NoError(t, err)
	// A batch that a slow machine gave up is sent again, and its rows are duplicates then.
	require.Equal(t, []int{1500, 0}, []int{response.Accepted + response.Duplicate, response.Rejected})
	response, err = upload(asTable...)
	require.NoError(t, err)
	require.Equal(t, 1500, response.Skipped)

	response, err = upload("--format", "vistar", document)
	require.Error(t, err, "not every row was taken")
	require.Equal(t, []int{1, 1}, []int{response.Accepted, response.Rejected})
	require.Contains(t, string(systemtest.ReadFile(t, document+".results.ndjson")), `advertisement[1].display_time`)
}
