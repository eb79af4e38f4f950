package storytest

import (
	"database/sql"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	_ "modernc.org/sqlite" // the driver "sqlite"

	"muniment.example/bench/system/systemtest"
	"muniment.example/bench/waittest"
)

// Export exports what a service has delivered, so many plays, by a command that is killed: it leaves nothing with the name of
// an export, the next one continues, and has the sums that the API has as of its position, of each day, and what a rule makes of them.
func Export(t *testing.T, s *systemtest.Service, rows int) {
	right := s.Rights["DOOH"]
	var made struct {
		Counterparty struct{ ID string } `json:"counterparty"`
	}
	s.Post("/v1/settlement/counterparties", map[string]any{"name": "Studio", "kind": "RIGHTS_HOLDER", "currency": "EUR"}, &made)
	s.Post("/v1/settlement/rules", map[string]any{"match": map[string]any{"rightId": right}, "unit": "SECOND", "price": "0.005", "currency": "EUR", "effectiveFrom": "2026-01-01T00:00:00Z",
		"shares": []any{map[string]any{"counterpartyId": made.Counterparty.ID, "bps": 10_000}}}, nil)
	newest := time.Now().UTC().Add(-time.Minute).Truncate(time.Second)
	var plays strings.Builder
	for i := range rows {
		fmt.Fprintf(&plays, `{"rowId":"%d","rightId":%q,"spatialAnchorId":"screen %d","playedAt":%q,"dwellMs":8000,"multiplier":2.5}`+"\n", i, right, i%7, newest.Add(-time.Duration(i)*time.Minute/2).Format(time.RFC3339))
	}
	folder := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(folder, "plays.ndjson"), []byte(plays.String()), 0o600))
	run := func(args ...string) *exec.Cmd {
		cmd := exec.Command("muniment", append(args, "--url", s.Client.API)...)
		cmd.Env, cmd.Dir = append(os.Environ(), "MUNIMENT_API_KEY="+s.Client.Key), folder
		return cmd
	}
	out, err := run("ingest", "plays.ndjson").CombinedOutput()
	require.NoError(t, err, "%s", out)
	s.Seal()

	name := filepath.Join(folder, "out.db")
	first := run("export", "--format", "sqlite", "out.db")
	require.NoError(t, first.Start())
	waittest.Until(t, func() bool {
		log, err := os.Stat(name + ".partial-wal")
		_, done := os.Stat(name)
		return err == nil && log.Size() > 100_000 || done == nil
	}, "rows are stored")
	_ = first.Process.Kill()
	_ = first.Wait()
	if _, err := os.Stat(name); err != nil { // it was not done before
		require.FileExists(t, name+".partial")
		out, err := run("export", "--format", "sqlite", "out.db").CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
	require.NoFileExists(t, name+".partial")
	db, err := sql.Open("sqlite", "file:"+name+"?mode=ro")
	require.NoError(t, err)
	defer db.Close()

	type sums struct {
		Receipts, QuantityMs int64
		Impressions          string
	}
	got, want := map[string]sums{}, map[string]sums{}
	found, err := db.Query(`SELECT day || ' ' || right_id || ' ' || reason, sum(receipts), sum(quantity_ms), sum(impressions_e4) FROM metering_daily GROUP BY 1`)
	require.NoError(t, err)
	for found.Next() {
		var of string
		var sum sums
		var impressions int64
		require.NoError(t, found.Scan(&of, &sum.Receipts, &sum.QuantityMs, &impressions))
		sum.Impressions = strings.TrimRight(strings.TrimRight(fmt.Sprintf("%d.%04d", impressions/10_000, impressions%10_000), "0"), ".")
		got[of] = sum
	}
	require.NoError(t, found.Close())
	var metering struct {
		Rows []struct {
			Bucket               time.Time
			RightID, Reason      string
			Receipts, QuantityMs int64
			Impressions          string
		}
	}
	var asOf string
	require.NoError(t, db.QueryRow(`SELECT value FROM export WHERE name = 'asOf'`).Scan(&asOf))
	s.Get("/v1/metering?bucket=day&limit=500&asOf="+asOf, &metering)
	for _, r := range metering.Rows {
		want[r.Bucket.Format(time.DateOnly)+" "+r.RightID+" "+r.Reason] = sums{r.Receipts, r.QuantityMs, r.Impressions}
	}
	require.Equal(t, want, got)
	var rated, micros, shares int64
	require.NoError(t, db.QueryRow(`SELECT sum(receipts), sum(amount_e6), sum(CAST(round(1e6 * (SELECT sum(value) FROM json_each(shares))) AS INTEGER)) FROM settlement_lines WHERE unrated = '' AND right_id = ?`, right).Scan(&rated, &micros, &shares))
	require.EqualValues(t, rows, rated)
	require.EqualValues(t, rows*40_000, micros, "8 s at 0.005 each")
	require.Equal(t, micros, shares)

	out, err = run("export", "out").CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.FileExists(t, filepath.Join(folder, "out", "settlement_lines.parquet"))
}
