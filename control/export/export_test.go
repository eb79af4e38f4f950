package export

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"
	"github.com/stretchr/testify/require"

	"muniment.example/control/analyst"
	"muniment.example/control/right"
	"muniment.example/control/route"
	"muniment.example/control/settle"
	"muniment.example/control/store"
	"muniment.example/control/table"
	"muniment.example/gateway/api"
	"muniment.example/gateway/remote"
	"muniment.example/sealer"
)

// service answers for a log of receipts of tnt_a only, as GET /v1/receipts does; every tenant has the event of its creation.
type service struct {
	*httptest.Server
	receipts int
	tenant   string
	// cutAfter is how many rows a transfer has before it breaks; 0: it does not.
	cutAfter int
	// refuse, if there is one, answers instead; rows does so to GET /v1/receipts.
	refuse, rows func(http.ResponseWriter) bool
	asked        atomic.Int64
}

func serve(t *testing.T, receipts int) *service {
	s := &service{receipts: receipts, tenant: "tnt_a"}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.asked.Add(1)
	if s.refuse != nil && s.refuse(w) {
		return
	}
	if r.URL.Path == "/v1/events" {
		list := ""
		if r.URL.Query().Get("type") == "" {
			list = created(s.tenant)
		}
		fmt.Fprintf(w, `{"ok":true,"data":{"events":[%s]}}`, list)
		return
	}
	if s.rows != nil && s.rows(w) {
		return
	}
	end := int64(s.receipts)
	if at, err := sealer.ParsePosition(r.URL.Query().Get("asOf")); err == nil {
		end = at.Offset
	}
	w.Header().Set(route.HeaderAsOf, sealer.Position{Generation: 1, Offset: end}.String())
	out := table.NDJSON.New(w, analyst.Receipts.Columns, false)
	for n := range end {
		if s.tenant != "tnt_a" {
			break
		}
		if s.cutAfter > 0 && n == int64(s.cutAfter) {
			_ = out.Close()
			io.WriteString(w, `{"tenant_id":"tnt`)
			panic(http.ErrAbortHandler)
		}
		at := end - 1 - n
		shown := time.Date(2026, 11, 1, 0, 0, int(at), 0, time.UTC)
		_ = out.Write([]any{s.tenant, fmt.Sprint("rcp_", at), fmt.Sprint("evt_", at), "rgh_a", int64(1), "bas_a", "CTV", shown, shown.Add(time.Second), "sig_1", false, true,
			"METERED", "viewable", int64(1000), "0.1", "none", int64(1), int64(0), at, "viewable", "METERED", "nod_a", "=anchor", ""})
	}
	_ = out.Close()
}

// created is the first event of a tenant, as a list has it.
func created(tenant string) string {
	at := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	text, err := sealer.AppendEvent(nil, &sealer.Event{EventID: api.NewID(api.PrefixEvent, at), At: at, TenantID: tenant, Type: "tenant.created", Data: []byte(`{}`),
		Actor: sealer.Ref{Kind: "operator", ID: "cli"}, Subject: sealer.Ref{Kind: "tenant", ID: tenant}})
	if err != nil {
		panic(err)
	}
	return fmt.Sprintf(`{"position":"1.0.0","event":%s}`, text)
}

func (s *service) config(t *testing.T, format Format) Config {
	return Config{URL: s.URL, Key: "mnk_secret", Format: format, Out: filepath.Join(t.TempDir(), "out"), RetryFor: 5 * time.Second}
}

// requireWhole requires an export of n receipts, each once.
func requireWhole(t *testing.T, cfg Config, n int) {
	t.Helper()
	left, err := filepath.Glob(cfg.Out + ".*")
	require.NoError(t, err)
	require.Empty(t, left, "nothing stays beside it")
	if cfg.Format == Parquet {
		for _, table := range analyst.Tables {
			text, err := os.ReadFile(filepath.Join(cfg.Out, table.Name+".parquet"))
			require.NoError(t, err)
			file, err := parquet.OpenFile(bytes.NewReader(text), int64(len(text)))
			require.NoError(t, err, table.Name)
			if table.Name == "receipts" {
				require.EqualValues(t, n, file.NumRows())
			}
		}
		about, err := os.ReadFile(filepath.Join(cfg.Out, "export.json"))
		require.NoError(t, err)
		require.Contains(t, string(about), `"tenant": "tnt_a"`)
		return
	}
	db, err := sql.Open("sqlite", "file:"+cfg.Out+"?mode=ro")
	require.NoError(t, err)
	defer db.Close()
	var receipts, different, hourly, daily, exact, lines int64
	require.NoError(t, db.QueryRow(`SELECT count(*), count(DISTINCT receipt_id), (SELECT sum(receipts) FROM metering_hourly), (SELECT sum(receipts) FROM metering_daily),
		(SELECT sum(impressions_e4) FROM metering_daily), (SELECT sum(receipts) FROM settlement_lines WHERE unrated = 'NO_RULE') FROM receipts`).Scan(&receipts, &different, &hourly, &daily, &exact, &lines))
	require.Equal(t, []int64{int64(n), int64(n), int64(n), int64(n), int64(n) * 1000, int64(n)}, []int64{receipts, different, hourly, daily, exact, lines})
}

// TestBrokenTransfers: transfers that break, and services that are away for a while, cost no row and repeat none.
func TestBrokenTransfers(t *testing.T) {
	for _, format := range []Format{SQLite, Parquet} {
		s := serve(t, 20_000)
		s.cutAfter = 7001 // not at the end of a commit
		var away atomic.Int64
		s.refuse = func(w http.ResponseWriter) bool {
			if away.Add(1) != 2 {
				return false
			}
			w.WriteHeader(http.StatusServiceUnavailable)
			return true
		}
		cfg := s.config(t, format)
		var trouble []string
		cfg.Progress = func(p Progress) {
			if p.Trouble != "" {
				trouble = append(trouble, p.Trouble)
			}
		}
		require.NoError(t, Run(t.Context(), cfg))
		requireWhole(t, cfg, 20_000)
		require.Len(t, trouble, 3, "two breaks, and one 503")
	}
}

// TestInterrupted: an export that ends before it is whole has not its name, and the same one continues, as of the same
// position; another one does not, nor one with the key of another tenant, even if that has nothing in the log until there.
func TestInterrupted(t *testing.T) {
	for _, format := range []Format{SQLite, Parquet} {
		s := serve(t, 20_000)
		cfg := s.config(t, format)
		ctx, stop := context.WithCancel(t.Context())
		s.cutAfter = 12_000
		s.refuse = func(http.ResponseWriter) bool { // at the second request for receipts
			if s.asked.Load() == 3 {
				stop()
			}
			return false
		}
		require.ErrorIs(t, Run(ctx, cfg), context.Canceled)
		require.NoFileExists(t, cfg.Out)
		require.NoDirExists(t, cfg.Out)
		require.FileExists(t, cfg.Out+".partial")
		s.cutAfter, s.refuse, s.receipts = 0, nil, 30_000 // more came meanwhile

		other := cfg
		other.From = "2026-11-01"
		require.ErrorIs(t, Run(t.Context(), other), ErrOther)
		before, err := os.ReadFile(cfg.Out + ".partial")
		require.NoError(t, err)
		s.tenant = "tnt_b"
		require.ErrorIs(t, Run(t.Context(), cfg), ErrOther)
		after, err := os.ReadFile(cfg.Out + ".partial")
		require.NoError(t, err)
		require.True(t, bytes.Equal(before, after), "what is left stays as it is")
		s.tenant = "tnt_a"
		asked := s.asked.Load()
		require.NoError(t, Run(t.Context(), cfg))
		requireWhole(t, cfg, 20_000)
		require.EqualValues(t, 4, s.asked.Load()-asked, "whose the key is, the rest of the receipts, and two pages of events")
		require.ErrorContains(t, Run(t.Context(), cfg), "exists already")
	}
}

// TestKilled: a run that is killed while it writes the files leaves nothing that looks whole, and the next one is not
// hindered by what is left.
func TestKilled(t *testing.T) {
	s := serve(t, 100)
	cfg := s.config(t, Parquet)
	r, err := newRun(cfg)
	require.NoError(t, err)
	require.NoError(t, r.ofTenant(t.Context()))
	r.work, err = openWork(t.Context(), r.partial(), r.identity())
	require.NoError(t, err)
	for _, step := range []func(context.Context) error{r.receipts, r.events, r.sums} {
		require.NoError(t, step(t.Context()))
	}
	require.ErrorContains(t, Run(t.Context(), cfg), "being written by another export")
	require.NoError(t, r.work.close())
	require.NoError(t, os.Mkdir(cfg.Out+".partial-files", 0o700))
	require.NoError(t, os.WriteFile(cfg.Out+".partial-files/receipts.parquet", []byte("PAR1"), 0o600))
	require.NoError(t, Run(t.Context(), cfg))
	requireWhole(t, cfg, 100)
}

// TestNothing: a tenant that has delivered nothing has an export with empty tables, once its first event is loaded.
func TestNothing(t *testing.T) {
	for _, format := range []Format{SQLite, Parquet} {
		s := serve(t, 0)
		s.refuse = func(w http.ResponseWriter) bool {
			if s.asked.Load() > 1 {
				return false
			}
			io.WriteString(w, `{"ok":true,"data":{"events":[]}}`)
			return true
		}
		cfg := s.config(t, format)
		require.NoError(t, Run(t.Context(), cfg))
		if format == Parquet {
			requireWhole(t, cfg, 0)
		} else {
			db, err := sql.Open("sqlite", "file:"+cfg.Out+"?mode=ro")
			require.NoError(t, err)
			for _, table := range analyst.Tables {
				var n int
				require.NoError(t, db.QueryRow("SELECT count(*) FROM "+table.Name).Scan(&n))
				require.Zero(t, n)
			}
			require.NoError(t, db.Close())
		}
	}
}

// TestRefusedExports: what can't succeed is said at once, with the reason, and leaves no export.
func TestRefusedExports(t *testing.T) {
	for about, c := range map[string]struct {
		change func(*Config)
		answer func(http.ResponseWriter) bool
		rows   func(http.ResponseWriter) bool
		want   string
	}{
		"no key":      {change: func(c *Config) { c.Key = "" }, want: "the API key is missing"},
		"a bad key":   {change: func(c *Config) { c.Key = "a b" }, want: "malformed"},
		"a bad URL":   {change: func(c *Config) { c.URL = "ftp://x" }, want: "must be like https://"},
		"no day":      {change: func(c *Config) { c.From = "yesterday" }, want: "must be a day"},
		"days turned": {change: func(c *Config) { c.From, c.To = "2026-11-02", "2026-11-02" }, want: "to must be a later day than from"},
		"a format":    {change: func(c *Config) { c.Format = "xlsx" }, want: "must be parquet or sqlite"},
		"a full disk": {change: func(c *Config) { c.LeastFree = 1 << 60 }, want: "free some"},
		"no folder":   {change: func(c *Config) { c.Out += "/no/such" }, want: "no such file"},
		"a wrong key": {answer: func(w http.ResponseWriter) bool {
			http.Error(w, `{"error":"UNAUTHORIZED","message":"no such\u001b[31m key"}`, http.StatusUnauthorized)
			return true
		}, want: "the service answers 401 UNAUTHORIZED: no such"},
		"other rows": {rows: func(w http.ResponseWriter) bool {
			w.Header().Set(route.HeaderAsOf, "1.0.5")
			io.WriteString(w, "<html>\n")
			return true
		}, want: "can't be read"},
		"rows turned": {rows: func(w http.ResponseWriter) bool {
			w.Header().Set(route.HeaderAsOf, "1.0.5")
			io.WriteString(w, `{"generation":1,"position":6}`+"\n")
			return true
		}, want: "the service sends the receipt at 1.0.6 behind that at 1.0.5"},
		"another tenant's rows": {rows: func(w http.ResponseWriter) bool {
			w.Header().Set(route.HeaderAsOf, "1.0.5")
			io.WriteString(w, `{"generation":1,"position":4,"tenant_id":"tnt_b"}`+"\n")
			return true
		}, want: "the receipt at 1.0.4, of another tenant"},
		"another site":   {answer: func(w http.ResponseWriter) bool { io.WriteString(w, "<html>"); return true }, want: "is the URL that of the service"},
		"another header": {rows: func(w http.ResponseWriter) bool { w.Header().Set(route.HeaderAsOf, "now"); return true }, want: "is the URL that of the service"},
		"a redirect": {answer: func(w http.ResponseWriter) bool {
			w.Header().Set("Location", "https://example.org")
			w.WriteHeader(302)
			return true
		}, want: "the service answers 302"},
	} {
		t.Run(about, func(t *testing.T) {
			s := serve(t, 5)
			s.refuse, s.rows = c.answer, c.rows
			cfg := s.config(t, Parquet)
			if c.change != nil {
				c.change(&cfg)
			}
			err := Run(t.Context(), cfg)
			require.ErrorContains(t, err, c.want)
			require.NotContains(t, err.Error(), "\x1b")
			require.NotContains(t, err.Error(), "mnk_secret")
			require.NoDirExists(t, cfg.Out)
			if strings.HasPrefix(about, "a ") {
				require.NoFileExists(t, cfg.Out+".partial", "nothing came")
			}
		})
	}
}

// TestGivenUp: a service that stays away ends the run after RetryFor.
func TestGivenUp(t *testing.T) {
	s := serve(t, 5)
	s.refuse = func(w http.ResponseWriter) bool { w.WriteHeader(http.StatusServiceUnavailable); return true }
	cfg := s.config(t, SQLite)
	cfg.RetryFor = time.Millisecond
	err := Run(t.Context(), cfg)
	require.ErrorContains(t, err, "given up after 1ms")
	require.ErrorContains(t, err, "503")
	require.True(t, errors.As(err, new(*remote.Refusal)))
}

// TestEventTypes: the events of rights and rules that are exported are kinds of these packages, and no rule has others.
func TestEventTypes(t *testing.T) {
	var have []string
	for _, kind := range store.KindsOf(append(append([]*store.Noun{}, right.Nouns...), settle.Nouns...)) {
		if kind.Type == "right.issued" || strings.HasPrefix(kind.Type, "settlement_rule.") {
			have = append(have, kind.Type)
		}
	}
	require.ElementsMatch(t, have, analyst.EventTypes)
}

// TestDecimals: a whole number is written as the decimal that it stands for.
func TestDecimals(t *testing.T) {
	for text, n := range map[string]int64{"0.0000": 0, "0.0001": 1, "-0.0001": -1, "922337203685477.5807": 1<<63 - 1, "-12.5000": -125_000} {
		require.Equal(t, text, decimal(n, 4), strconv.FormatInt(n, 10))
	}
}
