package main

import (
	"database/sql"
	"encoding/json"
	"errors"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment/sealer"
)

// browser is a visitor of the sandbox of a running service.
type browser struct {
	t      *testing.T
	url    string
	client http.Client
	cookie string
}

// send sends a request to the sandbox.
func (v *browser) send(method, path, body string) response {
	v.t.Helper()
	return callBy(v.t, &v.client, v.url, "", operation{method: method, path: "/api/sandbox" + path, body: body}, "Cookie", v.cookie)
}

// does sends a request to the sandbox, and reads the data of a success. The text is the whole response.
func (v *browser) does(method, path, body string, data any) (text string) {
	v.t.Helper()
	a := v.send(method, path, body)
	require.Equal(v.t, 200, a.status, a.body)
	v.cookie = a.cookie(v.cookie)
	require.NoError(v.t, json.Unmarshal([]byte(a.body), &struct{ Data any }{data}))
	return a.body
}

// visitorsRun is what a run of the demo answers to a visitor.
type visitorsRun struct {
	Seed       float64
	Deliveries []struct {
		RightID, Substrate, SpatialAnchorID string
		DwellMs                             float64
		Receipt                             struct{ SpatialAnchorID string }
	}
	Refused []any
	PackID  string
}

// sequence is what a seed determines.
func (d visitorsRun) sequence() (list []any) {
	for _, x := range d.Deliveries {
		list = append(list, []any{x.Substrate, x.SpatialAnchorID, x.DwellMs})
	}
	return list
}

// TestSandboxDemo: what a visitor gets from the demo can be verified by a stranger who
// has the list of runtime keys and nothing else.
func TestSandboxDemo(t *testing.T) {
	t.Parallel()
	server := shared(t).server
	v, other := &browser{t: t, url: server.API}, &browser{t: t, url: server.API}
	v.does("POST", "/tenant", "", &struct{}{})
	other.does("POST", "/tenant", "", &struct{}{})

	var first, again, elsewhere, another, usual visitorsRun
	v.does("POST", "/run-demo", `{"eventCount":40,"seed":17}`, &first)
	require.Len(t, first.Deliveries, 40)
	require.Empty(t, first.Refused)
	v.does("POST", "/run-demo", `{"eventCount":40,"seed":17}`, &again)
	require.Equal(t, first.sequence(), again.sequence())
	require.NotEqual(t, first.PackID, again.PackID, "a fresh pack")
	other.does("POST", "/run-demo", `{"eventCount":40,"seed":17}`, &elsewhere)
	require.Equal(t, first.sequence(), elsewhere.sequence(), "of another tenant")
	other.does("POST", "/run-demo", `{"eventCount":40,"seed":17.5}`, &another)
	require.NotEqual(t, first.sequence(), another.sequence())
	other.does("POST", "/run-demo", "", &usual)
	require.Len(t, usual.Deliveries, 12)
	substrates := map[string]bool{}
	for _, d := range first.Deliveries {
		substrates[d.Substrate] = true
		require.Equal(t, d.SpatialAnchorID, d.Receipt.SpatialAnchorID)
	}
	require.Len(t, substrates, 4)

	keys := filepath.Join(t.TempDir(), "keys.json")
	var directory struct {
		Keys       []struct{ KeyID, Purpose string }
		SnapshotID string
	}
	require.NoError(t, os.WriteFile(keys, []byte(v.does("GET", "/runtime-keys", "", &directory)), 0o600))
	var full struct {
		Pack            json.RawMessage
		VerificationKey struct{ KeyID, Purpose string }
	}
	var packs struct{ Packs []struct{ ID string } }
	v.does("GET", "/proof-packs", "", &packs)
	require.Len(t, packs.Packs, 2)
	require.Equal(t, again.PackID, packs.Packs[1].ID, "newest last")
	var files []string
	for _, p := range packs.Packs {
		v.does("GET", "/proof-packs/"+p.ID, "", &full)
		require.Equal(t, directory.SnapshotID, full.VerificationKey.KeyID)
		require.Equal(t, "sandbox_proof_signing", full.VerificationKey.Purpose)
		files = append(files, filepath.Join(t.TempDir(), p.ID+".json"))
		require.NoError(t, os.WriteFile(files[len(files)-1], full.Pack, 0o600))
	}
	out := muniment(t, append([]string{"verify", "--json", "--keys", keys}, files...)...)
	require.Contains(t, out, `"settlement.ok"`)
	require.NotRegexp(t, `"ok": *false`, out)

	var inspected struct {
		Packs []struct {
			PackID     string
			Settlement []struct{ Lines []any }
		}
	}
	v.does("GET", "/inspect", "", &inspected)
	require.Equal(t, again.PackID, inspected.Packs[1].PackID)
	require.NotEmpty(t, inspected.Packs[0].Settlement[0].Lines, "the seed's rule rates what was billed")
}

// TestSandboxCountsEvents: the first response counts every event, as does the first inspection.
func TestSandboxCountsEvents(t *testing.T) {
	t.Parallel()
	v := &browser{t: t, url: shared(t).server.API}
	var tenant struct{ Counts struct{ Events int } }
	v.does("POST", "/tenant", "", &tenant)
	require.Equal(t, 11, tenant.Counts.Events, "of tenant, key, 3 bases, 4 rights, counterparty, and settlement rule")
	var inspected struct {
		Tenant struct{ Counts struct{ Events int } }
		Events []any
	}
	v.does("POST", "/run-demo", `{"eventCount":5}`, &struct{}{})
	v.does("GET", "/inspect", "", &inspected)
	require.Equal(t, 17, inspected.Tenant.Counts.Events, "and 5 deliveries, and the pack")
	require.Len(t, inspected.Events, 17)
}

// TestSandboxOtherSites: a gateway forwards to control where a request comes from, as the browser states it.
func TestSandboxOtherSites(t *testing.T) {
	t.Parallel()
	server := shared(t).server
	for _, c := range []struct {
		header, value string
		status        int
	}{
		{"Sec-Fetch-Site", "cross-site", 403}, {"Origin", "https://evil.example", 403},
		{"Sec-Fetch-Site", "same-origin", 200}, {"Origin", server.API, 200}, {"User-Agent", "curl/8.5.0", 200},
	} {
		a := call(t, server.API, "", operation{method: "POST", path: "/api/sandbox/reset"}, c.header, c.value)
		require.Equal(t, c.status, a.status, "%s: %s: %s", c.header, c.value, a.body)
	}
}

// TestSandboxTakesWhatItCounts: what a visitor takes on disk is not more than what is
// counted, is bounded, and goes with the visitor.
func TestSandboxTakesWhatItCounts(t *testing.T) {
	t.Parallel()
	h := newService(t, "--sandbox-burst", "1000", "--sandbox-sustained", "1000", "--sandbox-free", "0",
		"--sandbox-bytes", "268435456") // 4 MiB each
	v, next := &browser{t: t, url: h.server.API}, &browser{t: t, url: h.server.API}
	var made struct{ TenantID string }
	v.does("POST", "/tenant", "", &made)
	started := h.taken(made.TenantID)
	runs := 0
	for {
		a := v.send("POST", "/run-demo", `{"eventCount":100}`)
		if a.status != 200 {
			require.Equal(t, 503, a.status, a.body)
			require.Contains(t, a.body, "all the space that a visitor has")
			break
		}
		runs++
		require.Less(t, runs, 20, "nothing bounds a visitor")
	}
	require.Greater(t, runs, 4)
	v.does("GET", "/proof-packs", "", &struct{}{})
	took := h.taken(made.TenantID)
	counted := h.query("control.db", `SELECT SUM(bytes) FROM sandbox_log`)
	require.GreaterOrEqual(t, counted, took.log-started.log, "in the log")
	counted += h.query("control.db", `SELECT kept_bytes FROM sandbox_tenants`)
	require.GreaterOrEqual(t, counted, took.sum()-started.sum())
	require.Less(t, counted, 2*(took.sum()-started.sum()), "nor is it far more")

	v.does("POST", "/reset", "", &struct{}{})
	until(t, func() bool {
		_, err := os.Stat(filepath.Join(h.data, "packs", made.TenantID))
		return errors.Is(err, fs.ErrNotExist) // a job deletes its packs
	})
	until(t, func() bool {
		return h.query("warehouse.db", `SELECT COUNT(*) FROM events JOIN tenants USING (tenant) WHERE tenant_id = ?`, made.TenantID) == 0
	})
	require.Zero(t, h.query("control.db", `SELECT COUNT(*) FROM proof_packs WHERE tenant_id = ?`, made.TenantID))
	require.Equal(t, int64(runs), h.query("control.db", `SELECT COUNT(*) FROM proof_roots WHERE tenant_id = ?`, made.TenantID))
	next.does("POST", "/tenant", "", &made)
	next.does("POST", "/run-demo", "", &struct{}{})

	// A backup takes time, and visitors leave meanwhile.
	files, err := filepath.Glob(filepath.Join(h.data, "packs", made.TenantID, "*.ndjson.zst"))
	require.NoError(t, err)
	require.Len(t, files, 1)
	require.NoError(t, os.Remove(files[0]))
	to := filepath.Join(t.TempDir(), "backup")
	h.backUp(to)
	h.stop()
	other, _ := h.restored(to)
	other.start()
}

// taken is what a tenant's events and packs take on disk.
type taken struct{ log, warehouse, packs int64 }

func (x taken) sum() int64 { return x.log + x.warehouse + x.packs }

func (s *service) taken(tenantID string) (x taken) {
	s.t.Helper()
	s.metered() // so that all is loaded
	scanLog(s.t, s.data, func(e sealer.Entry) error {
		if e.TenantID == tenantID {
			x.log += int64(len(sealer.AppendRecord(nil, &e.Record)))
		}
		return nil
	})
	x.warehouse = s.query("warehouse.db", `SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()`)
	names, err := filepath.Glob(filepath.Join(s.data, "packs", tenantID, "*"))
	require.NoError(s.t, err)
	for _, name := range names {
		info, err := os.Stat(name)
		require.NoError(s.t, err)
		x.packs += info.Size()
	}
	return x
}

// query reads a number from a database of the running service.
func (s *service) query(file, query string, args ...any) (n int64) {
	s.t.Helper()
	db, err := sql.Open("sqlite", "file:"+filepath.Join(s.data, file)+"?_pragma=busy_timeout(5000)&_pragma=query_only(1)")
	require.NoError(s.t, err)
	defer db.Close()
	require.NoError(s.t, db.QueryRow(query, args...).Scan(&n))
	return n
}
