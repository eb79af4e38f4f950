package faults

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment/bench/system/systemtest"
)

// TestKillWhileIssuing kills the service again and again while eight issue statements at once. In the end
// each statement has one number, and none is missing or there twice.
func TestKillWhileIssuing(t *testing.T) {
	t.Parallel()
	s := systemtest.NewService(t)
	var made struct{ Counterparty, Statement struct{ ID string } }
	s.Post("/v1/settlement/counterparties", map[string]any{"name": "Studio", "kind": "PUBLISHER", "currency": "EUR"}, &made)
	s.Deliver(s.Client.Key, "CTV")
	var ids []string
	for day := range systemtest.Times(24, 120) {
		at := time.Date(2025, 1, 1+day, 0, 0, 0, 0, time.UTC)
		s.Post("/v1/settlement/statements", map[string]any{"period": at.Format(time.DateOnly), "currency": "EUR", "counterpartyId": made.Counterparty.ID}, &made)
		ids = append(ids, made.Statement.ID)
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 1))
	issued := make([]bool, len(ids))
	for round, left := 0, len(ids); left > 0; round++ {
		killAt := int64(1 + random.IntN(max(1, left/2)))
		if round >= systemtest.Times(3, 12) {
			killAt = int64(left) + 1 // not again
		}
		var answered atomic.Int64
		var wait sync.WaitGroup
		queue, reached := make(chan int, len(ids)), make(chan struct{})
		for i, done := range issued {
			if !done {
				queue <- i
			}
		}
		close(queue)
		client := s.Client
		for range 8 {
			wait.Go(func() {
				for i := range queue {
					err := client.Do(t.Context(), "POST", "/v1/settlement/statements/"+ids[i]+"/issue", nil, nil)
					if answered.Add(1) == killAt {
						close(reached)
					}
					issued[i] = err == nil // what was not answered is asked again
				}
			})
		}
		if killAt <= int64(left) {
			<-reached
			s.Server.Kill()
		}
		wait.Wait()
		if killAt <= int64(left) {
			s.StartAgain()
		}
		left = 0
		for i := range issued {
			var now struct {
				Statement struct{ State string }
			}
			s.Get("/v1/settlement/statements/"+ids[i], &now)
			if issued[i] = now.Statement.State == "ISSUED"; !issued[i] {
				left++
			}
		}
	}
	var list struct {
		Payables []struct {
			Number, StatementID string
			Sequence            int
		}
	}
	s.Get("/v1/settlement/payables?limit=500", &list)
	require.Len(t, list.Payables, len(ids))
	numbers := map[string]string{}
	for i, p := range list.Payables {
		require.Equal(t, len(ids)-i, p.Sequence, "newest first")
		require.Equal(t, fmt.Sprintf("%06d", p.Sequence), p.Number[len("2026-"):])
		numbers[p.StatementID] = p.Number
	}
	for _, id := range ids {
		var now struct {
			Statement struct{ Number string }
		}
		s.Get("/v1/settlement/statements/"+id, &now)
		require.Equal(t, numbers[id], now.Statement.Number)
	}
}
