package clickhouse

import (
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/stretchr/testify/require"

	"muniment.example/deploy/stack/stacktest"
	"muniment.example/pipeline"
)

// analyst is the address of a server as a user who may read the rows of tnt_a in
// the database analyst_test, and no others.
const analyst = "MUNIMENT_TEST_CLICKHOUSE_ANALYST"

// forAnalysts is a warehouse of two tenants in which every view has rows.
func forAnalysts(t *testing.T) (Config, *Warehouse) {
	const name = "analyst_test"
	cfg := onServer(t, stacktest.ClickHouse(t), name)
	dropped(t, cfg, name)
	_, err := Migrate(t.Context(), cfg, false)
	require.NoError(t, err)
	w := mustOpen(t, cfg)
	var rows []pipeline.Row
	for i, tenant := range []string{"tnt_a", "tnt_b"} {
		from := int64(10 * i)
		refused := delivery(tenant, from+3, midnight, "")
		refused.Type, refused.Delivery = pipeline.TypeRefusals, nil
		refused.Event = []byte(`{"data":{"counts":[{"count":7,"rightId":"rgh_1","rule":"it's \"closed\""},{"count":"7","rule":"odd"}]}}`)
		rows = append(rows,
			delivery(tenant, from, midnight.Add(-time.Hour), "key"),
			delivery(tenant, from+1, midnight.Add(time.Hour), "key"),
			delivery(tenant, from+2, midnight.Add(time.Hour), ""),
			refused)
		rows[len(rows)-4].Delivery.Impressions, rows[len(rows)-3].Delivery.Impressions = 25_000, 25_000
	}
	require.NoError(t, w.Load(t.Context(), batch(rows)))
	return cfg, w
}

// twoColumns runs a query for a text and a number, and sums the numbers by text.
func twoColumns(t *testing.T, conn driver.Conn, query string) map[string]int64 {
	t.Helper()
	rows, err := conn.Query(t.Context(), query)
	require.NoError(t, err, query)
	defer rows.Close()
	found := map[string]int64{}
	for rows.Next() {
		var name string
		var n int64
		require.NoError(t, rows.Scan(&name, &n))
		found[name] += n
	}
	require.NoError(t, rows.Err())
	return found
}

// The queries of each view that an analyst may run.
func TestAnalystViews(t *testing.T) {
	_, w := forAnalysts(t)
	for query, want := range map[string]map[string]int64{
		`SELECT reason, toInt64(count()) FROM receipts WHERE tenant_id = 'tnt_a' GROUP BY reason`:                  {"METERED": 2, "DUPLICATE": 1},
		`SELECT metering_basis, sum(quantity_ms) FROM receipts WHERE tenant_id = 'tnt_a' GROUP BY 1`:               {"viewable": 2002, "none": 0},
		`SELECT toString(duplicate), toInt64(countIf(metered)) FROM receipts WHERE tenant_id = 'tnt_a' GROUP BY 1`: {"1": 0, "0": 2},
		`SELECT toString(toStartOfHour(rendered_at)), toInt64(count()) FROM receipts
			WHERE tenant_id = 'tnt_a' AND rendered_at >= '2026-12-01 00:00:00' GROUP BY 1`: {"2026-12-01 00:00:00": 2},
		`SELECT toString(hour), receipts FROM metering_hourly WHERE tenant_id = 'tnt_a'`:                          {"2026-11-30 22:00:00": 1, "2026-12-01 00:00:00": 2},
		`SELECT reason, toInt64(impressions * 10000) FROM metering_hourly WHERE tenant_id = 'tnt_a'`:              {"METERED": 35_000, "DUPLICATE": 0},
		`SELECT completion, toInt64(count()) FROM receipts WHERE tenant_id = 'tnt_a' GROUP BY 1`:                  {"none": 3},
		`SELECT reason, quantity_ms FROM metering_hourly WHERE tenant_id = 'tnt_a'`:                               {"METERED": 2002, "DUPLICATE": 0},
		`SELECT toString(day), receipts FROM metering_daily WHERE tenant_id = 'tnt_a'`:                            {"2026-11-30": 1, "2026-12-01": 2},
		`SELECT right_id, quantity_ms FROM metering_daily WHERE tenant_id = 'tnt_a' AND metering_basis != 'none'`: {"rgh_0": 1000, "rgh_2": 1002},
		`SELECT rule, refusals FROM refusals WHERE tenant_id = 'tnt_a'`:                                           {`it's "closed"`: 7},
		`SELECT right_id, refusals FROM refusals WHERE tenant_id = 'tnt_a' AND at >= '2026-12-01 00:00:00'`:       {"rgh_1": 7},
	} {
		require.Equal(t, want, twoColumns(t, w.conn, query), query)
	}
}

// The view that ClickHouse refreshes itself shows what the plain one does.
func TestDashboardsAreRefreshed(t *testing.T) {
	_, w := forAnalysts(t)
	days := func(view string) map[string]int64 {
		return twoColumns(t, w.conn, `SELECT concat(tenant_id, toString(day), right_id, reason), receipts + quantity_ms FROM analyst_test.`+view)
	}
	for _, statement := range statements(t, "dashboards.sql") {
		statement = strings.NewReplacer("muniment.", "analyst_test.", "'muniment'", "'analyst_test'").Replace(statement)
		require.NoError(t, w.conn.Exec(t.Context(), statement), statement)
	}
	require.Len(t, days("metering_days"), 6)
	require.Equal(t, days("metering_daily"), days("metering_days"))

	more := delivery("tnt_a", 20, midnight, "")
	b := batch([]pipeline.Row{more})
	b.From = at(14)
	require.NoError(t, w.Load(t.Context(), b))
	require.NotEqual(t, days("metering_daily"), days("metering_days"))
	for _, statement := range statements(t, "dashboards.sql")[2:] {
		require.NoError(t, w.conn.Exec(t.Context(), strings.ReplaceAll(statement, "muniment.", "analyst_test.")))
	}
	require.Equal(t, days("metering_daily"), days("metering_days"))
}

// asAnalyst connects as the analyst of tnt_a.
func asAnalyst(t *testing.T) driver.Conn {
	t.Helper()
	opt, err := Config{URL: inDatabase(t, stacktest.Variable(t, analyst), "analyst_test")}.options()
	require.NoError(t, err)
	opt.Settings = nil // an analyst may not change settings either
	conn, err := clickhouse.Open(opt)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, conn.Close()) })
	return conn
}

// statements are those of a file of SQL, without the lines that are comments.
func statements(t *testing.T, file string) []string {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	var lines []string
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(line, "--") {
			lines = append(lines, line)
		}
	}
	all := strings.Split(strings.TrimSpace(strings.Join(lines, "")), ";")
	return all[:len(all)-1]
}

// An analyst sees the rows of one tenant in every view and table, nothing of
// another's, and can write nothing.
func TestAnalystSeesOneTenant(t *testing.T) {
	forAnalysts(t)
	conn := asAnalyst(t)
	for _, table := range []string{"receipts", "metering_hourly", "metering_daily", "refusals", "settlement_lines", "events", "duplicates"} {
		got := twoColumns(t, conn, `SELECT tenant_id, toInt64(count()) FROM `+table+` GROUP BY tenant_id`)
		require.Len(t, got, 1, table)
		require.Positive(t, got["tnt_a"], table)
		require.Empty(t, twoColumns(t, conn, `SELECT tenant_id, toInt64(1) FROM `+table+` WHERE tenant_id = 'tnt_b'`), table)
	}
	for _, statement := range []string{
		`SELECT * FROM private_parts`, `SELECT * FROM idempotency_keys`, `SELECT * FROM keys_dropped`, `SELECT * FROM row_identities`, `SELECT * FROM set_aside`, `SELECT * FROM subject_key`, `SELECT * FROM tombstones`, `SELECT * FROM positions`,
		`INSERT INTO positions (log_partition) VALUES (1)`, `ALTER TABLE events DELETE WHERE 1`, `DROP TABLE events`,
		`SELECT * FROM file('/etc/passwd', 'LineAsString')`,
	} {
		require.ErrorContains(t, conn.Exec(t.Context(), statement), "analyst", statement)
	}
}

// The SQL for servers that store users can at least be parsed by one that doesn't.
func TestAnalystSQLIsSQL(t *testing.T) {
	w := mustOpen(t, fresh(t, stacktest.ClickHouse(t)))
	all := statements(t, "analyst.sql")
	require.Len(t, all, 14)
	name := regexp.MustCompile(`(EXISTS|GRANT SELECT ON) \S+`)
	for _, statement := range all {
		require.NoError(t, w.conn.Exec(t.Context(), "EXPLAIN AST "+statement), statement)
		statement = name.ReplaceAllString(statement, "$0 ON CLUSTER muniment")
		require.Contains(t, statement, "ON CLUSTER")
		require.NoError(t, w.conn.Exec(t.Context(), "EXPLAIN AST "+statement), statement)
	}
	require.Error(t, w.conn.Exec(t.Context(), "EXPLAIN AST GRANT ON muniment.receipts analyst"), "what is no SQL is noticed")
}
