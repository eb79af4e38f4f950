package faults

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/bench/system/systemtest"
	"muniment.example/bench/waittest"
	"muniment.example/sealer"
)

// TestNoReceiptOnARevokedRight revokes right after right, itself, by its parent, and by
// a challenge, while clients pace 1,000 deliveries a second on it, all of which send one
// more at the moment at which the revocation is reported as applied. What was begun after
// that is never answered with a receipt, and the log holds no receipt that was.
func TestNoReceiptOnARevokedRight(t *testing.T) {
	t.Parallel()
	const clients, every = 64, 64 * time.Millisecond
	rounds := systemtest.Times(6, 30)
	h := systemtest.NewService(t)
	var basis struct{ Basis struct{ ID string } }
	h.Post("/v1/bases", map[string]any{"kind": "LICENSE", "title": "Test"}, &basis)
	issue := func(parent string) string {
		body := map[string]any{"basisId": basis.Basis.ID, "substrate": "DOOH", "effectiveFrom": "2026-01-01T00:00:00Z", "scope": map[string]any{}}
		if parent != "" {
			body["parentRightId"] = parent
		}
		var data struct{ Right struct{ ID string } }
		h.Post("/v1/rights", body, &data)
		return data.Right.ID
	}
	// stop returns once it is acknowledged and applied: the answer waits for that, but not
	// for ever.
	stop := func(right, path string, body map[string]any) {
		var response struct{ Propagation struct{ Applied bool } }
		h.Post(path, body, &response)
		waittest.Until(t, func() bool {
			return response.Propagation.Applied || h.Client.Do(t.Context(), "GET", "/v1/rights/"+right+"/propagation", nil, &response) == nil && response.Propagation.Applied
		})
	}
	// Each makes a right, and returns how it is revoked.
	ways := []func() (right string, revoke func()){
		func() (string, func()) {
			right := issue("")
			return right, func() { stop(right, "/v1/rights/"+right+"/revoke", map[string]any{"reason": "drill"}) }
		},
		func() (string, func()) {
			parent := issue("")
			return issue(issue(parent)), func() { stop(parent, "/v1/rights/"+parent+"/revoke", map[string]any{}) }
		},
		func() (string, func()) {
			right := issue("")
			var opened struct{ Challenge struct{ ID string } }
			h.Post("/v1/challenges", map[string]any{"rightId": right, "challengerOrgId": "org_other", "reason": "ours"}, &opened)
			return right, func() { stop(right, "/v1/challenges/"+opened.Challenge.ID+"/resolve", map[string]any{"upheld": true}) }
		},
	}

	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 1))
	tried := new(systemtest.Attempts)
	var now atomic.Pointer[systemtest.RevokedRight]
	ctx, halt := context.WithCancel(t.Context())
	var load sync.WaitGroup
	defer load.Wait()
	defer halt()
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: clients}, Timeout: time.Minute}
	defer client.CloseIdleConnections()
	began := time.Now()
	for round := range rounds {
		right, revoke := ways[round%len(ways)]()
		on := &systemtest.RevokedRight{Id: right, Done: make(chan struct{})}
		now.Store(on)
		if round == 0 {
			began = time.Now()
			for i := range clients {
				load.Go(func() { h.Pace(ctx, client, every*time.Duration(i)/clients, every, &now, tried) })
			}
		}
		tried.Until(t, "receipts before it is revoked", 50+random.IntN(100), &on.Receipts)
		revoke()
		on.Acknowledged = time.Now()
		close(on.Done)
		tried.Until(t, "answers after it was revoked", 3*clients, &on.Late)
	}
	halt()
	load.Wait()
	took := time.Since(began)
	h.Stop()

	receipts, after, cut := map[string]int{}, 0, 0 // receipt id → number
	for i := range tried.All {
		x := &tried.All[i]
		late := x.Begun.After(x.On.Acknowledged)
		if late && x.Status != 0 {
			after++
		}
		switch x.Status {
		case 0:
			cut++
		case http.StatusConflict:
		case http.StatusOK:
			require.False(t, late, "%s was begun %v after the revocation was acknowledged, and answered with a receipt: %s", x.On.Id, x.Begun.Sub(x.On.Acknowledged), x.Answer)
			var response struct {
				Data struct {
					Receipt struct {
						ReceiptID, CorrelationID string
						IssuedAt                 time.Time
					}
				}
			}
			require.NoError(t, json.Unmarshal(x.Answer, &response))
			r := response.Data.Receipt
			require.Equal(t, strconv.Itoa(i), r.CorrelationID)
			require.False(t, r.IssuedAt.After(x.On.Acknowledged), "%s is issued after the acknowledgement at %v", x.Answer, x.On.Acknowledged)
			receipts[r.ReceiptID] = i
		default:
			require.Fail(t, "neither a receipt nor a conflict", "%d: %s", x.Status, x.Answer)
		}
	}

	require.LessOrEqual(t, cut, clients, "only the last of each may be unanswered")

	// All that the log holds, answered or not.
	logged := 0
	systemtest.ScanLog(t, h.Data, func(e sealer.Entry) error {
		d, err := sealer.ReadDelivery(e.Event)
		if err != nil {
			return nil // of another type
		}
		number, err := strconv.Atoi(*d.Receipt.CorrelationID)
		require.NoError(t, err)
		x := tried.All[number]
		require.Equal(t, x.On.Id, d.RightID)
		require.False(t, x.Begun.After(x.On.Acknowledged), "the log holds a receipt that was requested %v after the acknowledgement", x.Begun.Sub(x.On.Acknowledged))
		require.False(t, d.Receipt.IssuedAt.After(x.On.Acknowledged), "the log holds a receipt that was issued after the acknowledgement")
		if x.Status == http.StatusOK {
			require.Equal(t, number, receipts[d.Receipt.ReceiptID])
			delete(receipts, d.Receipt.ReceiptID)
		}
		logged++
		return nil
	})
	require.Empty(t, receipts, "answered, and not in the log")
	t.Logf("%d deliveries, %.0f/s; %d rights revoked: %d receipts in the log, all issued before; %d requests begun after an acknowledgement, 0 receipts",
		len(tried.All), float64(len(tried.All))/took.Seconds(), rounds, logged, after)
}
