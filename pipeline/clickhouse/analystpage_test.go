package clickhouse

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	web "net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"github.com/stretchr/testify/require"

	analysts "muniment.example/control/analyst"
	"muniment.example/control/event"
	"muniment.example/control/export"
	"muniment.example/control/proof"
	"muniment.example/control/store"
	"muniment.example/deploy/stack/stacktest"
	"muniment.example/gateway/api"
	"muniment.example/gateway/auth"
	"muniment.example/pipeline"
	"muniment.example/pipeline/sqlite"
	"muniment.example/sealer"
	"muniment.example/sealer/canonical"
)

// thePage is what analysts read.
const thePage = "../../deploy/analysts.md"

// section is a part of the page under a heading.
func section(t *testing.T, heading string) string {
	t.Helper()
	text, err := os.ReadFile(thePage)
	require.NoError(t, err)
	_, rest, found := strings.Cut(string(text), "\n"+heading+"\n")
	require.True(t, found, heading)
	if end := regexp.MustCompile(`(?m)^` + strings.Repeat("#", strings.Count(heading, "#")) + ` `).FindStringIndex(rest); end != nil {
		rest = rest[:end[0]]
	}
	return rest
}

// fenced are the blocks of a language.
func fenced(text, language string) (blocks []string) {
	for _, match := range regexp.MustCompile("(?s)```"+language+"\n(.*?)```").FindAllStringSubmatch(text, -1) {
		blocks = append(blocks, match[1])
	}
	return blocks
}

// play is a delivery of the page's example.
type play struct {
	right, substrate, rendered, issued, reason, basis string
	ms, impressions                                   int64
	completion, anchor, node, key, idempotency        string
}

// plays are two days of three rights.
var plays = []play{
	{"rgh_ctv", "CTV", "01 08:00:00", "01 08:00:01", "METERED", "viewable", 10_000, 10_000, "complete", "lobby-1", "nod_a", "sig_1", ""},
	{"rgh_ctv", "CTV", "01 08:30:00", "01 08:30:02", "METERED", "viewable", 5_000, 10_000, "midpoint", "lobby-1", "nod_a", "sig_1", "twice"},
	{"rgh_ctv", "CTV", "01 09:00:00", "01 09:00:03", "NOT_VIEWABLE", "none", 0, 0, "complete", "lobby-2", "nod_a", "sig_1", ""},
	{"rgh_ctv", "CTV", "01 08:30:00", "01 08:31:00", "METERED", "viewable", 5_000, 10_000, "midpoint", "lobby-1", "nod_b", "sig_2", "twice"},
	{"rgh_dooh", "DOOH", "01 20:00:00", "01 22:00:00", "METERED", "gross", 30_000, 25_000, "none", "mall-1", "nod_b", "sig_2", ""},
	{"rgh_dooh", "DOOH", "02 20:00:00", "02 20:00:01", "METERED", "gross", 20_000, 25_000, "none", "mall-1", "nod_b", "sig_2", ""},
	{"rgh_audio", "AUDIO", "02 08:15:00", "02 08:15:01", "BELOW_AUDIBLE_BAR", "none", 0, 0, "none", "mall-2", "nod_a", "sig_1", ""},
	{"rgh_ctv", "CTV", "02 08:45:00", "02 08:45:01", "METERED", "viewable", 15_000, 10_000, "started", "lobby-2", "nod_a", "sig_3", ""},
}

// rowsOfThePage are the rows of the page's example, of the analyst's tenant, and the same once more of another. Their
// events have what an export reads of them.
func rowsOfThePage(t *testing.T) (rows []pipeline.Row) {
	for _, tenant := range []string{"tnt_a", "tnt_b"} {
		add := func(r pipeline.Row, kind, data string) {
			text := sealer.Event{
				EventID: api.NewID(api.PrefixEvent, r.At), TenantID: tenant, Type: kind, At: r.At, Actor: sealer.Ref{Kind: "key", ID: "key_1"}, Subject: sealer.Ref{Kind: r.SubjectKind, ID: r.SubjectID},
			}
			var err error
			text.Data, err = canonical.JSON(json.RawMessage(data))
			require.NoError(t, err)
			r.Type, r.EventID = kind, text.EventID
			r.Event, err = sealer.AppendEvent(nil, &text)
			require.NoError(t, err)
			rows = append(rows, r)
		}
		event := func(kind, subject, data string) {
			r := delivery(tenant, int64(len(rows)), midnight.Add(10*time.Hour), "")
			r.Delivery, r.SubjectID = nil, subject
			add(r, kind, data)
		}
		rule := func(kind, id string, change map[string]any) { event(kind, id, string(record(t, id, change))) }
		share := func(counterparty string, bps int) any {
			return map[string]any{"bps": bps, "counterpartyId": counterparty}
		}
		match := func(name, value string) any {
			m := map[string]any{"basisId": nil, "campaign": nil, "completion": nil, "label": nil, "meteringBasis": nil, "rightId": nil, "substrate": nil}
			m[name] = value
			return m
		}
		event("right.issued", "rgh_ctv", `{"id":"rgh_ctv","scope":{"campaigns":["spring"]},"substrate":"CTV"}`)
		event("right.issued", "rgh_dooh", `{"id":"rgh_dooh","scope":{"campaigns":["spring","autumn"]},"substrate":"DOOH"}`)
		event("right.issued", "rgh_audio", `{"id":"rgh_audio","scope":{},"substrate":"AUDIO"}`)
		rule("settlement_rule.created", "rul_view", map[string]any{"price": "0.5", "match": match("meteringBasis", "viewable")})
		rule("settlement_rule.created", "rul_dooh", map[string]any{
			"price": "8", "unit": "CPM", "currency": "EUR", "match": match("substrate", "DOOH"), "shares": []any{share("cp_publisher", 10_000)},
		})
		rule("settlement_rule.changed", "rul_view", map[string]any{
			"price": "0.15", "match": match("meteringBasis", "viewable"), "shares": []any{share("cp_publisher", 7_000), share("cp_platform", 3_000)},
		})
		event(pipeline.TypeRefusals, "nod_a", `{"counts":[{"count":2,"rightId":"rgh_ctv","rule":"messaging-optout"},
			{"count":1,"rightId":"rgh_dooh","rule":"licensed-region-mismatch"},{"count":1,"rightId":"rgh_dooh","rule":"substrate-not-covered"}]}`)
		for _, p := range plays {
			moment := func(text string) time.Time {
				at, err := time.Parse(time.DateTime, "2026-12-"+text)
				require.NoError(t, err)
				return at
			}
			r := delivery(tenant, int64(len(rows)), moment(p.issued), p.idempotency)
			r.Node = p.node
			d := r.Delivery
			d.RightID, d.Substrate, d.RenderedAt, d.Reason, d.MeteringBasis, d.Metered = p.right, p.substrate, moment(p.rendered), p.reason, p.basis, p.reason == "METERED"
			d.QuantityMs, d.Impressions, d.Completion, d.SpatialAnchorID, d.SigningKeyID = p.ms, p.impressions, p.completion, p.anchor, p.key
			receipt := sealer.AppendReceipt(nil, &sealer.Receipt{ReceiptID: d.ReceiptID, SpatialAnchorID: d.SpatialAnchorID, IssuedAt: d.IssuedAt, RenderedAt: d.RenderedAt, Nonce: "AAAAAAAAAAAAAAAAAAAAAA", Witness: new(strings.Repeat("A", 43))})
			add(r, sealer.TypeDelivery, `{"basisId":"bas_1","metering":{},"receipt":`+string(receipt)+`,"rightId":"`+p.right+`","signature":{},"substrate":"`+p.substrate+`"}`)
		}
	}
	return rows
}

// forThePage is a warehouse with the rows of the page.
func forThePage(t *testing.T) *Warehouse {
	const name = "analyst_test"
	cfg := onServer(t, stacktest.ClickHouse(t), name)
	dropped(t, cfg, name)
	_, err := Migrate(t.Context(), cfg, false)
	require.NoError(t, err)
	w := mustOpen(t, cfg)
	require.NoError(t, w.Load(t.Context(), batch(rowsOfThePage(t))))
	return w
}

// oneLog is the log of a warehouse whose rows are in partition 3.
type oneLog struct{ pipeline.Reader }

func (oneLog) PartitionOf(context.Context, string) (int32, error) { return 3, nil }

// exported exports the page's example from a service over an embedded warehouse.
func exported(t *testing.T, format export.Format) (name string) {
	w, err := sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(t.TempDir(), "warehouse.db")})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, w.Close()) })
	require.NoError(t, w.Load(t.Context(), batch(rowsOfThePage(t))))
	var kinds store.Kinds
	for _, kind := range append([]string{sealer.TypeRefusals}, analysts.EventTypes...) {
		kinds = append(kinds, &store.Kind{Noun: &store.Noun{}, Type: kind})
	}
	service, err := event.New(event.Config{DB: &store.DB{}, Warehouse: w, Log: oneLog{}, Packs: &proof.Service{}, Kinds: kinds})
	require.NoError(t, err)
	mux := web.NewServeMux()
	a := humago.New(mux, huma.DefaultConfig("test", "v1"))
	a.UseMiddleware(func(c huma.Context, next func(huma.Context)) {
		next(huma.WithContext(c, auth.WithPrincipal(c.Context(), auth.Principal{Key: &api.Key{ID: "key_test", TenantID: "tnt_a"}})))
	})
	service.Routes(a)
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	name = filepath.Join(t.TempDir(), "export")
	require.NoError(t, export.Run(t.Context(), export.Config{URL: server.URL, Key: "key", Format: format, Out: name, RetryFor: time.Second}))
	return name
}

// queriesOfThePage are the statements that the page has for an engine, and the answers: those that are headed by its name,
// or the one for all.
func queriesOfThePage(t *testing.T, engine string) (statements, answers []string) {
	for _, part := range regexp.MustCompile(`(?m)^### \d+\. `).Split(section(t, "## Queries"), -1)[1:] {
		for _, kind := range map[string][]string{"duckdb": {"sql duckdb", "sql elsewhere", "sql"}, "sqlite": {"sql sqlite", "sql elsewhere", "sql"}, "clickhouse": {"sql"}}[engine] {
			if blocks := fenced(part, kind); len(blocks) > 0 {
				require.Len(t, blocks, 1)
				statements = append(statements, blocks[0])
				break
			}
		}
		answer := fenced(part, "text")
		require.Len(t, answer, 1)
		answers = append(answers, answer[0])
	}
	require.Len(t, statements, 11)
	require.Len(t, answers, len(statements))
	return statements, answers
}

// requireAnswer requires an answer of the page, of which numbers may be spelt in another way.
func requireAnswer(t *testing.T, query, want, got string) {
	t.Helper()
	words := func(text string) (lines [][]string) {
		for line := range strings.Lines(text) {
			words := strings.Fields(line)
			for i, word := range words {
				if n, err := strconv.ParseFloat(word, 64); err == nil {
					words[i] = strconv.FormatFloat(n, 'g', 12, 64)
				}
			}
			lines = append(lines, words)
		}
		return lines
	}
	require.Equal(t, words(want), words(got), query)
}

// Each query of the page has the answer that the page shows below it: run by an analyst in ClickHouse, and in DuckDB
// and SQLite on what is exported of a service without it. MUNIMENT_TEST_PYTHON names a Python that has DuckDB.
func TestThePagesQueries(t *testing.T) {
	t.Run("clickhouse", func(t *testing.T) {
		forThePage(t)
		conn := asAnalyst(t)
		statements, answers := queriesOfThePage(t, "clickhouse")
		for i, query := range statements {
			rows, err := conn.Query(t.Context(), query)
			require.NoError(t, err, query)
			got := strings.Join(rows.Columns(), " ") + "\n"
			require.NoError(t, rows.Close())
			rows, err = conn.Query(t.Context(), "SELECT formatRow('TSV', *) FROM ("+query+")")
			require.NoError(t, err, query)
			for rows.Next() {
				var line string
				require.NoError(t, rows.Scan(&line))
				got += line
			}
			require.NoError(t, rows.Err())
			require.NoError(t, rows.Close())
			requireAnswer(t, query, answers[i], got)
		}
	})
	t.Run("sqlite", func(t *testing.T) {
		db, err := sql.Open("sqlite", "file:"+exported(t, export.SQLite)+"?mode=ro")
		require.NoError(t, err)
		defer db.Close()
		statements, answers := queriesOfThePage(t, "sqlite")
		for i, query := range statements {
			rows, err := db.QueryContext(t.Context(), query)
			require.NoError(t, err, query)
			columns, err := rows.Columns()
			require.NoError(t, err)
			got := strings.Join(columns, " ") + "\n"
			cells, into := make([]sql.NullString, len(columns)), make([]any, len(columns))
			for n := range cells {
				into[n] = &cells[n]
			}
			for rows.Next() {
				require.NoError(t, rows.Scan(into...))
				for _, cell := range cells {
					got += cell.String + " "
				}
				got += "\n"
			}
			require.NoError(t, errors.Join(rows.Err(), rows.Close()), query)
			requireAnswer(t, query, answers[i], got)
		}
		var exact int64
		require.NoError(t, db.QueryRowContext(t.Context(), `SELECT sum(amount_e6) FROM settlement_lines WHERE currency = 'USD'`).Scan(&exact))
		require.EqualValues(t, 450_000, exact)
	})
	t.Run("duckdb", func(t *testing.T) {
		python := os.Getenv("MUNIMENT_TEST_PYTHON")
		if python == "" {
			t.Skip("MUNIMENT_TEST_PYTHON is not set")
		}
		python, err := filepath.Abs(python)
		require.NoError(t, err)
		script, err := filepath.Abs("testdata/duckdb_queries.py")
		require.NoError(t, err)
		statements, answers := queriesOfThePage(t, "duckdb")
		setup := fenced(section(t, "## Without ClickHouse"), "sql duckdb")
		require.Len(t, setup, 1)
		input, err := json.Marshal(map[string]any{"setup": setup[0], "statements": statements})
		require.NoError(t, err)
		run := exec.CommandContext(t.Context(), python, script)
		run.Dir, run.Stdin, run.Stderr = exported(t, export.Parquet), bytes.NewReader(input), os.Stderr
		run.Env = append(os.Environ(), "TZ=Asia/Kathmandu") // an analyst's own zone changes nothing
		out, err := run.Output()
		require.NoError(t, err)
		var got []string
		require.NoError(t, json.Unmarshal(out, &got))
		require.Len(t, got, len(answers))
		for i, query := range statements {
			requireAnswer(t, query, answers[i], got[i])
		}
	})
}

// The page lists the columns that the views have, and of the table events those that analysts have everywhere.
func TestThePagesColumns(t *testing.T) {
	w := mustOpen(t, fresh(t, stacktest.ClickHouse(t)))
	rows, err := w.conn.Query(t.Context(), `SELECT table, name, type FROM system.columns
		WHERE database = currentDatabase() AND table IN (SELECT name FROM system.tables WHERE database = currentDatabase() AND (engine = 'View' OR name = 'events')) ORDER BY table, position`)
	require.NoError(t, err)
	defer rows.Close()
	have := map[string][]string{}
	for rows.Next() {
		var view, name, kind string
		require.NoError(t, rows.Scan(&view, &name, &kind))
		if kind == "LowCardinality(String)" { // to a client, a String
			kind = "String"
		}
		have[view] = append(have[view], name+" "+kind)
	}
	require.NoError(t, rows.Err())
	require.Len(t, have, 6)
	exported := map[string]bool{}
	for _, column := range analysts.Events.Columns {
		exported[column.Name] = true
	}
	have["events"] = slices.DeleteFunc(have["events"], func(column string) bool { name, _, _ := strings.Cut(column, " "); return !exported[name] })
	require.Len(t, have["events"], len(exported))
	for view, columns := range have {
		var listed []string
		for _, match := range regexp.MustCompile("(?m)^\\| `(.*?)` \\| `(.*?)` \\|").FindAllStringSubmatch(section(t, "### "+view), -1) {
			listed = append(listed, match[1]+" "+match[2])
		}
		require.Equal(t, columns, listed, view)
	}
}

// aged is a warehouse with a rule and two deliveries, one of which and the rule are years old.
func aged(t *testing.T) (w *Warehouse, database string, now time.Time) {
	cfg := fresh(t, stacktest.ClickHouse(t))
	w, now = mustOpen(t, cfg), time.Now().UTC().Truncate(time.Second)
	long := time.Date(2020, 1, 15, 12, 0, 0, 0, time.UTC)
	rule := ruleRow(t, "tnt_a", 1, "settlement_rule.created", record(t, "rul_1", map[string]any{"effectiveFrom": "2020-01-01T00:00:00.000Z"}))
	rule.EventID, rule.At = "evt_rule", long
	require.NoError(t, w.Load(t.Context(), batch([]pipeline.Row{delivery("tnt_a", 0, long, "long ago"), rule, delivery("tnt_a", 2, now, "now")})))
	opt, err := cfg.options()
	require.NoError(t, err)
	return w, opt.Auth.Database, now
}

// requireAged requires that the old delivery is gone, and neither the rule nor what is young.
func requireAged(t *testing.T, w *Warehouse, now time.Time) {
	t.Helper()
	require.Equal(t, map[string]int64{"settlement_rule.created": 1, "delivery.recorded": 1}, twoColumns(t, w.conn, `SELECT type, toInt64(count()) FROM events GROUP BY type`))
	require.Equal(t, map[string]int64{now.Format(time.DateOnly): 1}, twoColumns(t, w.conn, `SELECT toString(toDate(at)), toInt64(count()) FROM private_parts GROUP BY at`))
	require.Equal(t, map[string]int64{"rul_1": 1}, twoColumns(t, w.conn, `SELECT rule_id, receipts FROM settlement_lines`), "the old rule rates what is left")
}

// What the page says of retention deletes old deliveries, and no rule.
func TestThePagesRetention(t *testing.T) {
	blocks := fenced(section(t, "## Retention"), "sql")
	require.Len(t, blocks, 2)
	run := func(w *Warehouse, database, block string) {
		block = strings.NewReplacer("muniment.", quoted(database)+".", "'muniment'", "'"+database+"'", "202511", "202001").Replace(block)
		for statement := range strings.SplitSeq(strings.TrimSuffix(strings.TrimSpace(block), ";"), ";") {
			require.NoError(t, w.conn.Exec(t.Context(), statement+" SETTINGS mutations_sync = 2"), statement)
		}
	}
	t.Run("by age", func(t *testing.T) {
		w, database, now := aged(t)
		run(w, database, blocks[0])
		requireAged(t, w, now)
	})
	t.Run("by hand", func(t *testing.T) {
		w, database, now := aged(t)
		run(w, database, blocks[1])
		requireAged(t, w, now)
	})
}

// The queries for sizes run on any warehouse.
func TestThePagesSizes(t *testing.T) {
	w, database, _ := aged(t)
	text := section(t, "## A billion receipts a month")
	statements, answers := fenced(text, "sql"), fenced(text, "text")
	require.Len(t, statements, 2)
	require.Len(t, answers, len(statements))
	for i, query := range statements {
		query = strings.NewReplacer("muniment.", quoted(database)+".", "'muniment'", "'"+database+"'").Replace(query)
		rows, err := w.conn.Query(t.Context(), query)
		require.NoError(t, err, query)
		header, _, _ := strings.Cut(answers[i], "\n")
		require.Equal(t, strings.Fields(header), rows.Columns())
		require.NoError(t, rows.Close())
	}
}
