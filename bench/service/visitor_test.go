package service

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/bench/system/systemtest"
	"muniment.example/bench/waittest"
)

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
	server := systemtest.Shared(t).Server
	v, other := &systemtest.Browser{T: t, URL: server.API}, &systemtest.Browser{T: t, URL: server.API}
	v.Does("POST", "/tenant", "", &struct{}{})
	other.Does("POST", "/tenant", "", &struct{}{})

	var first, again, elsewhere, another, usual visitorsRun
	v.Does("POST", "/run-demo", `{"eventCount":40,"seed":17}`, &first)
	require.Len(t, first.Deliveries, 40)
	require.Empty(t, first.Refused)
	v.Does("POST", "/run-demo", `{"eventCount":40,"seed":17}`, &again)
	require.Equal(t, first.sequence(), again.sequence())
	require.NotEqual(t, first.PackID, again.PackID, "a fresh pack")
	other.Does("POST", "/run-demo", `{"eventCount":40,"seed":17}`, &elsewhere)
	require.Equal(t, first.sequence(), elsewhere.sequence(), "of another tenant")
	other.Does("POST", "/run-demo", `{"eventCount":40,"seed":17.5}`, &another)
	require.NotEqual(t, first.sequence(), another.sequence())
	other.Does("POST", "/run-demo", "", &usual)
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
	require.NoError(t, os.WriteFile(keys, []byte(v.Does("GET", "/runtime-keys", "", &directory)), 0o600))
	var full struct {
		Pack            json.RawMessage
		VerificationKey struct{ KeyID, Purpose string }
	}
	var packs struct{ Packs []struct{ ID string } }
	v.Does("GET", "/proof-packs", "", &packs)
	require.Len(t, packs.Packs, 2)
	require.Equal(t, again.PackID, packs.Packs[1].ID, "newest last")
	var files []string
	for _, p := range packs.Packs {
		v.Does("GET", "/proof-packs/"+p.ID, "", &full)
		require.Equal(t, directory.SnapshotID, full.VerificationKey.KeyID)
		require.Equal(t, "sandbox_proof_signing", full.VerificationKey.Purpose)
		files = append(files, filepath.Join(t.TempDir(), p.ID+".json"))
		require.NoError(t, os.WriteFile(files[len(files)-1], full.Pack, 0o600))
	}
	out := systemtest.Command(t, append([]string{"verify", "--json", "--keys", keys}, files...)...)
	require.Contains(t, out, `"settlement.ok"`)
	require.NotRegexp(t, `"ok": *false`, out)

	var inspected struct {
		Packs []struct {
			PackID     string
			Settlement []struct{ Lines []any }
		}
	}
	v.Does("GET", "/inspect", "", &inspected)
	require.Equal(t, again.PackID, inspected.Packs[1].PackID)
	require.NotEmpty(t, inspected.Packs[0].Settlement[0].Lines, "the seed's rule rates what was billed")
}

// TestSandboxCountsEvents: the first response counts every event, as does the first inspection.
func TestSandboxCountsEvents(t *testing.T) {
	t.Parallel()
	v := &systemtest.Browser{T: t, URL: systemtest.Shared(t).Server.API}
	var tenant struct{ Counts struct{ Events int } }
	v.Does("POST", "/tenant", "", &tenant)
	require.Equal(t, 11, tenant.Counts.Events, "of tenant, key, 3 bases, 4 rights, counterparty, and settlement rule")
	var inspected struct {
		Tenant struct{ Counts struct{ Events int } }
		Events []any
	}
	v.Does("POST", "/run-demo", `{"eventCount":5}`, &struct{}{})
	v.Does("GET", "/inspect", "", &inspected)
	require.Equal(t, 17, inspected.Tenant.Counts.Events, "and 5 deliveries, and the pack")
	require.Len(t, inspected.Events, 17)
}

// TestSandboxOtherSites: a gateway forwards to control where a request comes from, as the browser states it.
func TestSandboxOtherSites(t *testing.T) {
	t.Parallel()
	server := systemtest.Shared(t).Server
	for _, c := range []struct {
		header, value string
		status        int
	}{
		{"Sec-Fetch-Site", "cross-site", 403}, {"Origin", "https://evil.example", 403},
		{"Sec-Fetch-Site", "same-origin", 200}, {"Origin", server.API, 200}, {"User-Agent", "curl/8.5.0", 200},
	} {
		a := systemtest.Call(t, server.API, "", systemtest.Operation{Method: "POST", Path: "/api/sandbox/reset"}, c.header, c.value)
		require.Equal(t, c.status, a.Status, "%s: %s: %s", c.header, c.value, a.Body)
	}
}

// TestSandboxIsBounded: the events of a visitor are counted and bounded, each takes no more than the page for operators says, and
// what they take goes with the visitor.
func TestSandboxIsBounded(t *testing.T) {
	t.Parallel()
	h := systemtest.NewService(t, "--sandbox-burst", "1000", "--sandbox-sustained", "1000", "--sandbox-free", "0",
		"--sandbox-events", "64000") // 1,000 each
	v, next := &systemtest.Browser{T: t, URL: h.Server.API}, &systemtest.Browser{T: t, URL: h.Server.API}
	var made struct{ TenantID string }
	v.Does("POST", "/tenant", "", &made)
	started := h.Taken(made.TenantID)
	runs := 0
	for {
		a := v.Send("POST", "/run-demo", `{"eventCount":100}`)
		if a.Status != 200 {
			require.Equal(t, 429, a.Status, a.Body)
			require.Contains(t, a.Body, "all the events that an address may")
			break
		}
		runs++
		require.Less(t, runs, 20, "nothing bounds a visitor")
	}
	require.Equal(t, 9, runs)
	v.Does("GET", "/proof-packs", "", &struct{}{})
	took := h.Taken(made.TenantID)
	counted := h.Query("control.db", `SELECT SUM(events) FROM sandbox_events`)
	require.Equal(t, int64(12+9*101), counted)
	require.InDelta(t, 4000, (took.Sum()-started.Sum())/counted, 2000)

	v.Does("POST", "/reset", "", &struct{}{})
	waittest.Until(t, func() bool {
		_, err := os.Stat(filepath.Join(h.Data, "packs", made.TenantID))
		return errors.Is(err, fs.ErrNotExist) // a job deletes its packs
	})
	waittest.Until(t, func() bool {
		return h.Query("warehouse.db", `SELECT COUNT(*) FROM events JOIN tenants USING (tenant) WHERE tenant_id = ?`, made.TenantID) == 0
	})
	require.Zero(t, h.Query("control.db", `SELECT COUNT(*) FROM proof_packs WHERE tenant_id = ?`, made.TenantID))
	require.Equal(t, int64(runs), h.Query("control.db", `SELECT COUNT(*) FROM proof_roots WHERE tenant_id = ?`, made.TenantID))
	next.Does("POST", "/tenant", "", &made)
	next.Does("POST", "/run-demo", "", &struct{}{})

	// A backup takes time, and visitors leave meanwhile.
	files, err := filepath.Glob(filepath.Join(h.Data, "packs", made.TenantID, "*.ndjson.zst"))
	require.NoError(t, err)
	require.Len(t, files, 1)
	require.NoError(t, os.Remove(files[0]))
	to := filepath.Join(t.TempDir(), "backup")
	h.BackUp(to)
	h.Stop()
	other, _ := h.Restored(to)
	other.Start()
}
