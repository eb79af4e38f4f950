package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment/bench"
	"muniment/control/store"
	"muniment/pipeline/segment"
	"muniment/sealer"
)

// kills is how often the server is killed.
const kills = 20

// TestKillUnderLoad kills the server again and again, at random moments, under
// 256 clients that keep every answer and send again what was not answered. In the
// end the log, the warehouse and the packs hold each acknowledged receipt once,
// byte for byte, and no others.
func TestKillUnderLoad(t *testing.T) {
	exe, data := muniment(t), filepath.Join(t.TempDir(), "data")
	server := startServer(t, exe, data)
	tenant := createTenant(t, exe, data)
	client := bench.Client{API: server.API, Key: tenant.APIKey}
	rights := issueRights(t, client)

	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 1))
	acknowledged := map[string]string{} // receipt id → answer
	fastest := time.Hour
	for round := range kills {
		deliveries, err := bench.Deliveries(2500, seed+uint64(round), bench.Profiles(), rights)
		require.NoError(t, err)
		killAt, reached := 1+random.IntN(2200), make(chan struct{})
		load := &bench.Load{
			Addrs: []string{hostPort(client.API)}, Key: client.Key, Clients: 256, Name: "round-" + string(rune('a'+round)), Deliveries: deliveries,
			Answered: func(n int) {
				if n == killAt {
					close(reached)
				}
			},
		}
		type result struct {
			answers []bench.Answer
			err     error
		}
		done := make(chan result, 1)
		go func() {
			answers, err := load.Run(t.Context())
			done <- result{answers, err}
		}()
		<-reached
		server.Kill()
		start := time.Now()
		server, err = bench.StartServer(t.Context(), exe, data, hostPort(server.API), hostPort(server.Admin))
		require.NoError(t, err, "round %d", round)
		t.Cleanup(server.Kill)
		fastest = min(fastest, time.Since(start))
		r := <-done
		require.NoError(t, r.err)
		for _, a := range r.answers {
			if a.Status == 200 {
				keep(t, acknowledged, a.Body)
			}
		}
	}
	t.Logf("%d receipts acknowledged over %d kills; fastest start %v", len(acknowledged), kills, fastest)
	require.Less(t, fastest, 5*time.Second)

	packs := sealAndExport(t, client)
	var metering struct{ Totals struct{ Receipts int } }
	require.NoError(t, client.Do(t.Context(), "GET", "/v1/metering", nil, &metering))
	require.NoError(t, server.Stop())
	verifyPacks(t, exe, data, packs)

	inLog := map[string]int{}
	log, err := segment.OpenReader(filepath.Join(data, "log"))
	require.NoError(t, err)
	defer log.Close()
	first, end, err := log.Bounds(t.Context(), 0)
	require.NoError(t, err)
	require.NoError(t, log.Scan(t.Context(), first, end, func(e sealer.Entry) error {
		check(t, acknowledged, inLog, e.Event)
		return nil
	}))
	inPacks := map[string]int{}
	for _, file := range packs {
		b, err := os.ReadFile(file)
		require.NoError(t, err)
		for line := range strings.Lines(string(b)) {
			check(t, acknowledged, inPacks, []byte(strings.TrimSuffix(line, "\n")))
		}
	}
	require.Len(t, acknowledged, metering.Totals.Receipts, "in the warehouse")
	require.Len(t, inLog, len(acknowledged))
	require.Len(t, inPacks, len(acknowledged))
	for id := range acknowledged {
		require.Equal(t, 1, inLog[id], "%s in the log", id)
		require.Equal(t, 1, inPacks[id], "%s in the packs", id)
	}
}

// keep remembers the verbatim receipt of an answer.
func keep(t *testing.T, acknowledged map[string]string, body []byte) {
	t.Helper()
	var answer struct {
		Data struct{ Receipt json.RawMessage }
	}
	require.NoError(t, json.Unmarshal(body, &answer))
	var id struct{ ReceiptID string }
	require.NoError(t, json.Unmarshal(answer.Data.Receipt, &id))
	_, again := acknowledged[id.ReceiptID]
	require.False(t, again, "one receipt for two requests")
	acknowledged[id.ReceiptID] = string(answer.Data.Receipt)
}

// check counts the receipt of an event and compares its text with the acknowledged one.
func check(t *testing.T, acknowledged map[string]string, count map[string]int, event []byte) {
	t.Helper()
	parts, err := sealer.SplitDelivery(event)
	if err != nil {
		return // an event of another type, or a pack's first or last line
	}
	var id struct{ ReceiptID string }
	require.NoError(t, json.Unmarshal(parts.Receipt, &id))
	count[id.ReceiptID]++
	require.Equal(t, acknowledged[id.ReceiptID], string(parts.Receipt))
}

type tenantKey struct{ TenantID, OrgID, DeveloperID, KeyID, APIKey string }

func startServer(t *testing.T, exe, data string, flags ...string) *bench.Server {
	t.Helper()
	s, err := bench.StartServer(t.Context(), exe, data, "127.0.0.1:0", "127.0.0.1:0", flags...)
	require.NoError(t, err)
	t.Cleanup(s.Kill)
	return s
}

func createTenant(t *testing.T, exe, data string) tenantKey {
	t.Helper()
	out, err := exec.Command(exe, "tenant", "create", "--data", data, "--org", "org_test", "--another", "--json").Output()
	require.NoError(t, err)
	var tn tenantKey
	require.NoError(t, json.Unmarshal(out, &tn))
	return tn
}

// issueRights issues a right for each profile on one basis.
func issueRights(t *testing.T, client bench.Client) map[string]string {
	t.Helper()
	var basis struct{ Basis struct{ ID string } }
	require.NoError(t, client.Do(t.Context(), "POST", "/v1/bases", map[string]any{
		"kind": "LICENSE", "title": "Test", "holderOrgId": "org_test", "effectiveFrom": "2026-01-01T00:00:00Z",
	}, &basis))
	rights := map[string]string{}
	for _, p := range bench.Profiles() {
		var data struct{ Right struct{ ID string } }
		body := map[string]any{"basisId": basis.Basis.ID, "substrate": p.Substrate, "effectiveFrom": "2026-01-01T00:00:00Z", "scope": map[string]any{}}
		if p.Scope != nil {
			body["scope"] = p.Scope
		}
		require.NoError(t, client.Do(t.Context(), "POST", "/v1/rights", body, &data))
		rights[p.Substrate] = data.Right.ID
	}
	return rights
}

// sealAndExport seals and downloads every pack, oldest first.
func sealAndExport(t *testing.T, client bench.Client) []string {
	t.Helper()
	seal(t, client, nil)
	var list struct{ Packs []struct{ ID string } }
	require.NoError(t, client.Do(t.Context(), "GET", "/v1/proof-packs?limit=500", nil, &list))
	require.NotEmpty(t, list.Packs)
	var files []string
	for _, p := range list.Packs {
		file := filepath.Join(t.TempDir(), p.ID+".ndjson")
		require.NoError(t, client.Download(t.Context(), "/v1/proof-packs/"+p.ID+"/bundle", file))
		files = append(files, file)
	}
	return files
}

// verifyPacks runs the auditor's command on the packs.
func verifyPacks(t *testing.T, exe, data string, packs []string) {
	t.Helper()
	out, err := exec.Command(exe, append([]string{"verify", "--root", filepath.Join(data, "keys", "root.vkey")}, packs...)...).CombinedOutput()
	require.NoError(t, err, string(out))
}

func hostPort(url string) string { return strings.TrimPrefix(url, "http://") }

// TestKillWhileOffersExpire kills the server as soon as it has told of the first of many
// offers that have expired at once, while it was away. In the end it has told of each once.
func TestKillWhileOffersExpire(t *testing.T) {
	const offers = 300
	h := newHouse(t)
	for range offers {
		require.NoError(t, h.client.Do(t.Context(), "POST", "/v1/offers", map[string]any{
			"rightId": h.rights["DOOH"], "toOrgId": "org_b", "scope": map[string]any{},
		}, nil))
	}
	h.stop()
	db, err := sql.Open("sqlite", filepath.Join(h.data, "control.db"))
	require.NoError(t, err)
	_, err = db.ExecContext(t.Context(), "UPDATE offers SET expires_at = 0")
	require.NoError(t, errors.Join(err, db.Close()))
	h.start()
	told := func() (ids []string) {
		var list struct {
			Events []struct {
				Event struct{ Subject struct{ ID string } }
			}
		}
		if h.client.Do(t.Context(), "GET", "/v1/events?type=offer.expired&limit=500", nil, &list) == nil {
			for _, e := range list.Events {
				ids = append(ids, e.Event.Subject.ID)
			}
		}
		return ids
	}
	require.Eventually(t, func() bool { return len(told()) > 0 }, time.Minute, time.Millisecond)
	before := len(told())
	h.server.Kill()
	h.start()
	require.Eventually(t, func() bool { return len(told()) >= offers }, time.Minute, 10*time.Millisecond)
	h.stop()
	h.start() // nothing is told once more
	ids := told()
	require.Len(t, ids, offers)
	slices.Sort(ids)
	require.Len(t, slices.Compact(ids), offers)
	t.Logf("%d of %d were told when it was killed", before, offers)
}

// TestKillWhileVisitorsCome kills the server again and again while visitors of the
// sandbox come. Every tenant that was made for one is among those that are evicted when
// nobody uses them.
func TestKillWhileVisitorsCome(t *testing.T) {
	const kills, visitors = 5, 16
	t.Setenv("MUNIMENT_SANDBOX_BURST", "100000")
	t.Setenv("MUNIMENT_SANDBOX_SUSTAINED", "100000")
	exe, data := muniment(t), filepath.Join(t.TempDir(), "data")
	server := startServer(t, exe, data)
	for range kills {
		var came atomic.Int64
		var coming sync.WaitGroup
		ctx, stop := context.WithCancel(t.Context())
		for range visitors {
			coming.Go(func() {
				for ctx.Err() == nil {
					req, _ := http.NewRequestWithContext(ctx, http.MethodPost, server.API+"/api/sandbox/tenant", nil)
					resp, err := http.DefaultClient.Do(req)
					if err != nil {
						return
					}
					_ = resp.Body.Close()
					came.Add(1)
				}
			})
		}
		require.Eventually(t, func() bool { return came.Load() > 2*visitors }, time.Minute, time.Millisecond)
		server.Kill()
		stop()
		coming.Wait()
		var err error
		server, err = bench.StartServer(t.Context(), exe, data, hostPort(server.API), hostPort(server.Admin))
		require.NoError(t, err)
		t.Cleanup(server.Kill)
	}
	require.NoError(t, server.Stop())
	db, err := store.Open(t.Context(), store.Config{Path: filepath.Join(data, "control.db"), Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	defer db.Close()
	var made, kept int
	require.NoError(t, db.Read().QueryRowContext(t.Context(), `SELECT count(*), count(s.tenant_id) FROM tenants t
		LEFT JOIN sandbox_tenants s ON s.tenant_id = t.tenant_id WHERE t.sandbox = 1`).Scan(&made, &kept))
	require.Greater(t, made, kills*visitors)
	require.Equal(t, made, kept)
	t.Logf("%d tenants of visitors over %d kills", made, kills)
}
