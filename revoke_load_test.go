package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment/sealer"
)

// revokedRight is a right that is revoked in the middle of the deliveries on it.
type revokedRight struct {
	id           string
	acknowledged time.Time     // by our clock, once done is closed
	done         chan struct{} // closed when the revocation was answered

	// Under the attempts' mutex.
	receipts int // answered
	late     int // answers to what was begun after the acknowledgement
}

// attempt is a delivery that was sent, answered or not.
type attempt struct {
	on     *revokedRight
	begun  time.Time
	status int // 0 without an answer
	answer []byte
}

// attempts are all of them; a delivery's correlationId is its number here.
type attempts struct {
	mu  sync.Mutex
	all []attempt
}

func (a *attempts) begin(on *revokedRight) (number int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.all = append(a.all, attempt{on: on, begun: time.Now()})
	return len(a.all) - 1
}

func (a *attempts) end(number, status int, answer []byte) {
	a.mu.Lock()
	defer a.mu.Unlock()
	x := &a.all[number]
	x.status, x.answer = status, answer
	if status == http.StatusOK {
		x.on.receipts++
	}
	select {
	case <-x.on.done:
		if x.begun.After(x.on.acknowledged) {
			x.on.late++
		}
	default:
	}
}

// until waits until enough was answered on a right.
func (a *attempts) until(t *testing.T, what string, enough int, of *int) {
	t.Helper()
	untilAtMost(t, 2*time.Minute, func() bool {
		a.mu.Lock()
		defer a.mu.Unlock()
		return *of >= enough
	}, "too few %s", what)
}

// TestNoReceiptOnARevokedRight revokes right after right, itself, by its parent, and by
// a challenge, while clients pace 1,000 deliveries a second on it, all of which send one
// more at the moment at which the revocation is reported as applied. What was begun after
// that is never answered with a receipt, and the log holds no receipt that was.
func TestNoReceiptOnARevokedRight(t *testing.T) {
	t.Parallel()
	const clients, every = 64, 64 * time.Millisecond
	rounds := times(6, 30)
	h := newService(t)
	var basis struct{ Basis struct{ ID string } }
	h.post("/v1/bases", map[string]any{"kind": "LICENSE", "title": "Test"}, &basis)
	issue := func(parent string) string {
		body := map[string]any{"basisId": basis.Basis.ID, "substrate": "DOOH", "effectiveFrom": "2026-01-01T00:00:00Z", "scope": map[string]any{}}
		if parent != "" {
			body["parentRightId"] = parent
		}
		var data struct{ Right struct{ ID string } }
		h.post("/v1/rights", body, &data)
		return data.Right.ID
	}
	// stop returns once it is acknowledged and applied: the answer waits for that, but not
	// for ever.
	stop := func(right, path string, body map[string]any) {
		var response struct{ Propagation struct{ Applied bool } }
		h.post(path, body, &response)
		until(t, func() bool {
			return response.Propagation.Applied || h.client.Do(t.Context(), "GET", "/v1/rights/"+right+"/propagation", nil, &response) == nil && response.Propagation.Applied
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
			h.post("/v1/challenges", map[string]any{"rightId": right, "challengerOrgId": "org_other", "reason": "ours"}, &opened)
			return right, func() { stop(right, "/v1/challenges/"+opened.Challenge.ID+"/resolve", map[string]any{"upheld": true}) }
		},
	}

	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 1))
	tried := new(attempts)
	var now atomic.Pointer[revokedRight]
	ctx, halt := context.WithCancel(t.Context())
	var load sync.WaitGroup
	defer load.Wait()
	defer halt()
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: clients}, Timeout: time.Minute}
	defer client.CloseIdleConnections()
	began := time.Now()
	for round := range rounds {
		right, revoke := ways[round%len(ways)]()
		on := &revokedRight{id: right, done: make(chan struct{})}
		now.Store(on)
		if round == 0 {
			began = time.Now()
			for i := range clients {
				load.Go(func() { h.pace(ctx, client, every*time.Duration(i)/clients, every, &now, tried) })
			}
		}
		tried.until(t, "receipts before it is revoked", 50+random.IntN(100), &on.receipts)
		revoke()
		on.acknowledged = time.Now()
		close(on.done)
		tried.until(t, "answers after it was revoked", 3*clients, &on.late)
	}
	halt()
	load.Wait()
	took := time.Since(began)
	h.stop()

	receipts, after, cut := map[string]int{}, 0, 0 // receipt id → number
	for i := range tried.all {
		x := &tried.all[i]
		late := x.begun.After(x.on.acknowledged)
		if late && x.status != 0 {
			after++
		}
		switch x.status {
		case 0:
			cut++
		case http.StatusConflict:
		case http.StatusOK:
			require.False(t, late, "%s was begun %v after the revocation was acknowledged, and answered with a receipt: %s", x.on.id, x.begun.Sub(x.on.acknowledged), x.answer)
			var response struct {
				Data struct {
					Receipt struct {
						ReceiptID, CorrelationID string
						IssuedAt                 time.Time
					}
				}
			}
			require.NoError(t, json.Unmarshal(x.answer, &response))
			r := response.Data.Receipt
			require.Equal(t, strconv.Itoa(i), r.CorrelationID)
			require.False(t, r.IssuedAt.After(x.on.acknowledged), "%s is issued after the acknowledgement at %v", x.answer, x.on.acknowledged)
			receipts[r.ReceiptID] = i
		default:
			require.Fail(t, "neither a receipt nor a conflict", "%d: %s", x.status, x.answer)
		}
	}

	require.LessOrEqual(t, cut, clients, "only the last of each may be unanswered")

	// All that the log holds, answered or not.
	logged := 0
	scanLog(t, h.data, func(e sealer.Entry) error {
		d, err := sealer.ReadDelivery(e.Event)
		if err != nil {
			return nil // of another type
		}
		number, err := strconv.Atoi(*d.Receipt.CorrelationID)
		require.NoError(t, err)
		x := tried.all[number]
		require.Equal(t, x.on.id, d.RightID)
		require.False(t, x.begun.After(x.on.acknowledged), "the log holds a receipt that was requested %v after the acknowledgement", x.begun.Sub(x.on.acknowledged))
		require.False(t, d.Receipt.IssuedAt.After(x.on.acknowledged), "the log holds a receipt that was issued after the acknowledgement")
		if x.status == http.StatusOK {
			require.Equal(t, number, receipts[d.Receipt.ReceiptID])
			delete(receipts, d.Receipt.ReceiptID)
		}
		logged++
		return nil
	})
	require.Empty(t, receipts, "answered, and not in the log")
	t.Logf("%d deliveries, %.0f/s; %d rights revoked: %d receipts in the log, all issued before; %d requests begun after an acknowledgement, 0 receipts",
		len(tried.all), float64(len(tried.all))/took.Seconds(), rounds, logged, after)
}

// pace delivers on the right of the moment, every so often from a first moment on, and
// once more as soon as the right is revoked, until ctx is done.
func (s *service) pace(ctx context.Context, client *http.Client, first, every time.Duration, now *atomic.Pointer[revokedRight], tried *attempts) {
	next := time.Now().Add(first)
	due := time.NewTimer(first)
	defer due.Stop()
	var rushed *revokedRight // that was delivered on since its revocation
	for {
		on := now.Load()
		revoked := on.done
		if rushed == on {
			revoked = nil
		}
		select {
		case <-due.C:
			next = next.Add(every)
			due.Reset(time.Until(next))
		case <-revoked:
			rushed = on
		case <-ctx.Done():
		}
		if ctx.Err() != nil { // also where a tick was due at the same time
			return
		}
		number := tried.begin(on)
		body := fmt.Sprintf(`{"rightId":%q,"spatialAnchorId":"a","dwellMs":4200,"correlationId":"%d"}`, on.id, number)
		req, _ := http.NewRequestWithContext(ctx, http.MethodPost, s.client.API+"/v1/delivery", strings.NewReader(body))
		req.Header.Set("Authorization", "Bearer "+s.client.Key)
		resp, err := client.Do(req)
		if err != nil {
			continue
		}
		answer, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err == nil {
			tried.end(number, resp.StatusCode, answer)
		}
	}
}
