package faults

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/bench/load"
	"muniment.example/bench/system/systemtest"
	"muniment.example/bench/waittest"
	"muniment.example/control/store"
	"muniment.example/sealer"
)

// TestKillUnderLoad kills the server again and again, at random moments, under
// 256 clients that keep every answer and send again what was not answered. In the
// end the log, the warehouse and the packs hold each acknowledged receipt once,
// byte for byte, and no others.
func TestKillUnderLoad(t *testing.T) {
	t.Parallel()
	h := systemtest.NewService(t)
	kills, deliveries := systemtest.Times(4, 20), systemtest.Times(1000, 2500)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 1))
	acknowledged := map[string]string{} // receipt id → answer
	fastest := time.Hour
	for round := range kills {
		sent, err := load.Deliveries(deliveries, seed+uint64(round), load.Profiles(), h.Rights)
		require.NoError(t, err)
		killAt, reached := 1+random.IntN(deliveries*7/8), make(chan struct{})
		posting := &load.Load{
			Addrs: []string{systemtest.HostPort(h.Client.API)}, Key: h.Client.Key, Clients: 256, Name: "round-" + string(rune('a'+round)), Deliveries: sent,
			Answered: func(n int) {
				if n == killAt {
					close(reached)
				}
			},
		}
		type result struct {
			answers []load.Answer
			err     error
		}
		done := make(chan result, 1)
		go func() {
			answers, err := posting.Run(t.Context())
			done <- result{answers, err}
		}()
		<-reached
		h.Server.Kill()
		start := time.Now()
		h.StartAgain()
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

	packs := systemtest.SealAndExport(t, h.Client)
	inWarehouse := systemtest.Metered(t, h.Client)
	h.Stop()
	systemtest.VerifyPacks(t, h.Data, packs)

	inLog := map[string]int{}
	systemtest.ScanLog(t, h.Data, func(e sealer.Entry) error {
		check(t, acknowledged, inLog, e.Event)
		return nil
	})
	inPacks := map[string]int{}
	for _, file := range packs {
		for line := range strings.Lines(string(systemtest.ReadFile(t, file))) {
			check(t, acknowledged, inPacks, []byte(strings.TrimSuffix(line, "\n")))
		}
	}
	require.Len(t, acknowledged, inWarehouse, "in the warehouse")
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

// TestKillWhileOffersExpire kills the server as soon as it has logged the first of many
// offers that have expired at once, while it was down. In the end it has logged each once.
func TestKillWhileOffersExpire(t *testing.T) {
	t.Parallel()
	offers := systemtest.Times(60, 300)
	h := systemtest.NewService(t)
	for range offers {
		h.Post("/v1/offers", map[string]any{"rightId": h.Rights["DOOH"], "toOrgId": "org_b", "scope": map[string]any{}}, nil)
	}
	h.Stop()
	db, err := sql.Open("sqlite", filepath.Join(h.Data, "control.db"))
	require.NoError(t, err)
	_, err = db.ExecContext(t.Context(), "UPDATE offers SET expires_at = 0")
	require.NoError(t, errors.Join(err, db.Close()))
	h.Start()
	response := func() (ids []string) {
		var list struct {
			Events []struct {
				Event struct{ Subject struct{ ID string } }
			}
		}
		if h.Client.Do(t.Context(), "GET", "/v1/events?type=offer.expired&limit=500", nil, &list) == nil {
			for _, e := range list.Events {
				ids = append(ids, e.Event.Subject.ID)
			}
		}
		return ids
	}
	waittest.Until(t, func() bool { return len(response()) > 0 })
	before := len(response())
	h.Server.Kill()
	h.Start()
	waittest.Until(t, func() bool { return len(response()) >= offers })
	h.Stop()
	h.Start() // no event is repeated
	ids := response()
	require.Len(t, ids, offers)
	slices.Sort(ids)
	require.Len(t, slices.Compact(ids), offers)
	t.Logf("%d of %d were logged when it was killed", before, offers)
}

// TestKillWhileVisitorsCome kills the server again and again while visitors of the
// sandbox come. Every tenant that was made for one is among those that are evicted when
// they are not used.
func TestKillWhileVisitorsCome(t *testing.T) {
	t.Parallel()
	const visitors = 16
	kills := systemtest.Times(2, 5)
	h := systemtest.NewService(t, "--sandbox-burst", "100000", "--sandbox-sustained", "100000")
	for range kills {
		var came atomic.Int64
		var coming sync.WaitGroup
		ctx, stop := context.WithCancel(t.Context())
		for range visitors {
			coming.Go(func() {
				for ctx.Err() == nil {
					req, _ := http.NewRequestWithContext(ctx, http.MethodPost, h.Client.API+"/api/sandbox/tenant", nil)
					resp, err := http.DefaultClient.Do(req)
					if err != nil {
						return
					}
					_ = resp.Body.Close()
					came.Add(1)
				}
			})
		}
		waittest.Until(t, func() bool { return came.Load() > 2*visitors })
		h.Server.Kill()
		stop()
		coming.Wait()
		h.StartAgain()
	}
	h.Stop()
	db, err := store.Open(t.Context(), store.Config{Path: filepath.Join(h.Data, "control.db"), Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	defer db.Close()
	var made, kept int
	require.NoError(t, db.Read().QueryRowContext(t.Context(), `SELECT count(*), count(s.tenant_id) FROM tenants t
		LEFT JOIN sandbox_tenants s ON s.tenant_id = t.tenant_id WHERE t.sandbox = 1`).Scan(&made, &kept))
	require.Greater(t, made, kills*visitors)
	require.Equal(t, made, kept)
	t.Logf("%d tenants of visitors over %d kills", made, kills)
}
