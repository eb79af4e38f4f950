package service

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf16"

	"github.com/klauspost/compress/gzip"
	"github.com/stretchr/testify/require"

	"muniment.example/bench/system/systemtest"
	"muniment.example/bench/waittest"
)

// TestIngest uploads a backlog of 30 days, in random order, which a player has kept in one document, by a
// command that is killed twice: each play is in once, in its own period.
func TestIngest(t *testing.T) {
	t.Parallel()
	s := systemtest.NewService(t)
	rows := systemtest.Times(6_000, 300_000)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 1))
	newest := time.Now().Add(-time.Minute).Truncate(time.Millisecond)
	s.Post("/v1/delivery/mappings", map[string]any{"vendor": "broadsign", "idType": "display_unit_id", "vendorId": "4456",
		"target": map[string]any{"rightId": s.Rights["DOOH"], "spatialAnchorId": "screen-42"}, "effectiveFrom": newest.AddDate(0, 0, -31)}, nil)
	lines := make([]string, rows)
	days := map[string]int{}
	for i := range lines {
		played := newest.Add(-time.Duration(random.Int64N(int64(30*24*time.Hour-time.Hour)/1e6) * 1e6)).UTC()
		days[played.Format(time.DateOnly)]++
		lines[i] = fmt.Sprintf(`[4456,%d,1,5001,5002,5003,1,0,%q,8000,"\\ud800","",""]`, i, played.Add(8*time.Second).Format("2006-01-02T15:04:05.999"))
	}
	random.Shuffle(rows, func(i, j int) { lines[i], lines[j] = lines[j], lines[i] })
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	_, err := io.WriteString(w, `{"api_key":"x","pop":[`+strings.Join(lines, ",\n")+`],"player_id":71}`)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	file := filepath.Join(t.TempDir(), "backlog.json.gz")
	require.NoError(t, os.WriteFile(file, packed.Bytes(), 0o600))
	results := file + ".results.ndjson"

	upload := func() *exec.Cmd {
		cmd := exec.Command("muniment", "ingest", "--url", s.Client.API, "--concurrency", "2", "--json", "--format", "broadsign", "--option", "tz=UTC", file)
		cmd.Env = append(os.Environ(), "MUNIMENT_API_KEY="+s.Client.Key)
		return cmd
	}
	for parts := []int{rows / 6, rows / 2}; len(parts) > 0; {
		cmd := upload()
		require.NoError(t, cmd.Start())
		waittest.Until(t, func() bool { text, _ := os.ReadFile(results); return bytes.Count(text, []byte{'\n'}) >= parts[0] }, "%d rows are in", parts[0])
		_ = cmd.Process.Kill()
		if cmd.Wait() == nil { // it was done before: once more
			require.NoError(t, os.Remove(results))
			continue
		}
		parts = parts[1:]
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
		of := systemtest.Parse[struct {
			RowID     string
			Receipt   struct{ ReceiptID string }
			Signature struct{ Value string }
		}](t, line)
		require.NotEmpty(t, of.Signature.Value)
		require.True(t, strings.HasPrefix(of.RowID, "71/4456/"), of.RowID)
		receipts[of.Receipt.ReceiptID] = true
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

// TestIngestTables: tables as people export them, each by one command: what parts their cells, how they are
// encoded, how their times and durations are written.
func TestIngestTables(t *testing.T) {
	t.Parallel()
	s := systemtest.NewService(t)
	day := time.Now().UTC().AddDate(0, 0, -3).Truncate(24 * time.Hour)
	s.Post("/v1/delivery/mappings", map[string]any{"vendor": "acme", "idType": "screen", "vendorId": "7",
		"target": map[string]any{"rightId": s.Rights["DOOH"], "spatialAnchorId": "screen-7"}, "effectiveFrom": day.AddDate(0, 0, -30)}, nil)
	encodings := map[string]func(string) []byte{
		"UTF-8":           func(text string) []byte { return []byte(text) },
		"UTF-8 with mark": func(text string) []byte { return []byte("\ufeff" + text) },
		"UTF-16 LE":       func(text string) []byte { return utf16Of(binary.LittleEndian, "\ufeff"+text) },
		"UTF-16 BE":       func(text string) []byte { return utf16Of(binary.BigEndian, text) },
	}
	times := map[string]func(time.Time) string{
		"ISO":      func(at time.Time) string { return at.Format("2006-01-02T15:04:05Z") },
		"local":    func(at time.Time) string { return at.Format("2006-01-02 15:04:05") },
		"US":       func(at time.Time) string { return at.Format("01/02/2006 03:04:05 PM") },
		"European": func(at time.Time) string { return at.Format("02.01.2006 15:04:05") },
		"slashes":  func(at time.Time) string { return at.Format("02/01/2006 15:04:05") },
		"epoch":    func(at time.Time) string { return fmt.Sprint(at.Unix()) },
		"epoch ms": func(at time.Time) string { return fmt.Sprint(at.UnixMilli()) },
		"offset":   func(at time.Time) string { return at.Format("2006-01-02T15:04:05+0000") },
	}
	durations := []struct {
		field string
		of    func(from time.Time, write func(time.Time) string, separator string) string
	}{
		{"dwellSeconds", func(time.Time, func(time.Time) string, string) string { return "8.2" }},
		{"dwellSeconds", func(_ time.Time, _ func(time.Time) string, separator string) string {
			return strings.ReplaceAll("8,2", ",", map[bool]string{true: ".", false: ","}[separator == ","])
		}},
		{"dwellSeconds", func(time.Time, func(time.Time) string, string) string { return "00:00:08.2" }},
		{"dwellMs", func(time.Time, func(time.Time) string, string) string { return "8200" }},
	}
	dir, n := t.TempDir(), 0
	for encoding, encode := range encodings {
		for form, write := range times {
			for _, separator := range []string{",", ";", "\t"} {
				n++
				duration := durations[n%len(durations)]
				var text strings.Builder
				fmt.Fprintf(&text, "No%[1]sScreen%[1]sName%[1]sStart%[1]sLength\r\n", separator)
				for i := range 3 {
					from := day.AddDate(0, 0, -i*9).Add(time.Duration(n)*time.Minute + 13*time.Hour)
					fmt.Fprintf(&text, "%[2]d-%[3]d%[1]s7%[1]sCaf\u00e9 55\" wall%[1]s%[4]s%[1]s%[5]s\r\n", separator, n, i, write(from), duration.of(from, write, separator))
				}
				name := fmt.Sprintf("%d %s %s", n, encoding, form)
				path := filepath.Join(dir, fmt.Sprintf("%d.csv", n))
				require.NoError(t, os.WriteFile(path, encode(text.String()), 0o600))
				cmd := exec.Command("muniment", "ingest", "--url", s.Client.API, "--json", "--option", "vendor=acme", "--option", "idType=screen", "--option", "tz=UTC",
					"--option", "column.rowId=No", "--option", "column.vendorId=Screen", "--option", "column.playedAt=Start", "--option", "column."+duration.field+"=Length", path)
				cmd.Env = append(os.Environ(), "MUNIMENT_API_KEY="+s.Client.Key)
				out, err := cmd.CombinedOutput()
				require.NoError(t, err, "%s: %s\n%s\n%s", name, out, text.String(), systemtest.ReadFile(t, path+".results.ndjson"))
				i := 0
				for line := range strings.Lines(string(systemtest.ReadFile(t, path+".results.ndjson"))) {
					got := systemtest.Parse[struct {
						RowID   string
						Receipt struct {
							RenderedAt time.Time
							DwellMs    float64
						}
					}](t, line)
					from := day.AddDate(0, 0, -i*9).Add(time.Duration(n)*time.Minute + 13*time.Hour)
					require.Equal(t, fmt.Sprintf("%d-%d", n, i), got.RowID, name)
					require.True(t, from.Equal(got.Receipt.RenderedAt), "%s: %s is not %s", name, got.Receipt.RenderedAt, from)
					require.Equal(t, 8200.0, got.Receipt.DwellMs, name)
					i++
				}
				require.Equal(t, 3, i, name)
			}
		}
	}
	require.Greater(t, n, 40)
}

func utf16Of(order binary.AppendByteOrder, text string) (out []byte) {
	for _, unit := range utf16.Encode([]rune(text)) {
		out = order.AppendUint16(out, unit)
	}
	return out
}
