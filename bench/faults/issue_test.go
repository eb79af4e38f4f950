package faults

import (
	"fmt"
	"math/big"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/bench/system/systemtest"
)

// due is a payable as this test reads it.
type due struct {
	Number, StatementID, CounterpartyID, Gross, PaidAmount, State string
	Sequence                                                      int
	Payments                                                      []struct {
		Amount, Reference string
		SetOff            bool
	}
}

// request is one that the test sends until it is done.
type request struct {
	statement, action string
	body              any
	// payee and reference are of a payment.
	payee, reference string
	done             bool
}

// TestKillWhileIssuing kills the service again and again while eight issue statements and corrections, void and
// settle others, all of two payees. After each start numbers are unbroken, what is open is what the payments
// leave, and each payment is recorded once, though it is sent again and again.
func TestKillWhileIssuing(t *testing.T) {
	t.Parallel()
	const window, corrected, voided, settled = 10 * time.Minute, 8, 4, 8
	const base = corrected + voided + settled
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 1))
	s := systemtest.NewService(t)
	windows := base + systemtest.Times(24, 100)
	from := time.Now().UTC().Truncate(time.Minute).Add(-time.Duration(windows+1) * window)
	var payees []string
	for _, name := range []string{"Studio", "Agency"} {
		var made struct{ Counterparty struct{ ID string } }
		s.Post("/v1/settlement/counterparties", map[string]any{"name": name, "kind": "PUBLISHER", "currency": "EUR", "taxBps": 1_900}, &made)
		payees = append(payees, made.Counterparty.ID)
	}
	s.Post("/v1/settlement/rules", map[string]any{"unit": "EVENT", "price": "0.333333", "currency": "EUR", "effectiveFrom": from.Format(time.RFC3339),
		"shares": []any{map[string]any{"counterpartyId": payees[0], "bps": 6_667}, map[string]any{"counterpartyId": payees[1], "bps": 3_333}}}, nil)
	s.PlayRows(random, windows*30, from, from.Add(time.Duration(windows)*window))
	s.Seal()

	const path = "/v1/settlement/statements"
	var ids []string
	for n := range windows {
		at := from.Add(time.Duration(n) * window)
		var made struct{ Statement struct{ ID string } }
		s.Post(path, systemtest.PeriodOf(at, at.Add(window)), &made)
		if ids = append(ids, made.Statement.ID); n < base {
			s.Post(path+"/"+made.Statement.ID+"/issue", nil, nil)
		}
	}
	var requests []*request
	for _, id := range ids[base:] {
		requests = append(requests, &request{statement: id, action: "issue"})
	}
	s.PlayRows(random, corrected*40, from, from.Add(corrected*window)) // late
	s.Seal()
	for _, id := range ids[:corrected] {
		var made struct{ Statement struct{ ID string } }
		s.Post(path+"/"+id+"/correct", nil, &made)
		requests = append(requests, &request{statement: made.Statement.ID, action: "issue"})
	}
	for _, id := range ids[corrected : corrected+voided] { // its credits are set off against what is corrected, which is older
		s.Post(path+"/"+id+"/settle", map[string]any{"reference": "all of it"}, nil)
		requests = append(requests, &request{statement: id, action: "void", body: map[string]any{"reason": "a wrong price"}})
	}
	today := time.Now().UTC().Format(time.DateOnly)
	for n, id := range ids[corrected+voided : base] {
		for _, payee := range payees {
			reference := fmt.Sprint("transfer ", n)
			requests = append(requests, &request{statement: id, action: "settle", payee: payee, reference: reference, body: map[string]any{"reference": reference, "amount": "0.01", "date": today, "counterpartyId": payee}})
		}
	}

	rounds := systemtest.Times(3, 12)
	for round, left := 0, len(requests); left > 0 || round <= rounds; round++ {
		random.Shuffle(len(requests), func(i, j int) { requests[i], requests[j] = requests[j], requests[i] })
		queue := make(chan *request, len(requests))
		for _, r := range requests {
			if !r.done || r.action == "settle" { // as if its response was lost
				queue <- r
			}
		}
		close(queue)
		killAt := int64(0) // not any more
		if round < rounds {
			killAt = int64(1 + random.IntN(max(1, len(queue)/2)))
		}
		var answered atomic.Int64
		var wait sync.WaitGroup
		reached, client := make(chan struct{}), s.Client
		for range 8 {
			wait.Go(func() {
				for r := range queue {
					err := client.Do(t.Context(), "POST", path+"/"+r.statement+"/"+r.action, r.body, nil)
					if r.done = r.done || err == nil; answered.Add(1) == killAt {
						close(reached)
					}
				}
			})
		}
		if killAt > 0 {
			<-reached
			s.Server.Kill()
		}
		wait.Wait()
		if killAt > 0 {
			s.StartAgain()
		}
		all := payablesOf(t, s)
		left = 0
		for _, r := range requests {
			was := r.done
			if r.done = r.found(s, all); !r.done {
				left++
			}
			require.True(t, r.done || !was, "%+v was answered, and is lost", r)
		}
		require.True(t, left == 0 || killAt > 0, "%d requests fail", left)
	}
	kinds := map[bool]int{}
	for _, p := range payablesOf(t, s) {
		for _, paid := range p.Payments {
			kinds[paid.SetOff]++
		}
	}
	require.Equal(t, 2*voided+2*settled, kinds[false])
	require.Greater(t, kinds[true], 4*voided)
}

// found reports whether what a request asks for is in the database.
func (r *request) found(s *systemtest.Service, all []due) bool {
	if r.action == "settle" {
		return slices.ContainsFunc(all, func(p due) bool {
			return p.StatementID == r.statement && p.CounterpartyID == r.payee && len(p.Payments) > 0 && p.Payments[0].Reference == r.reference
		})
	}
	var now struct{ Statement struct{ State string } }
	s.Get("/v1/settlement/statements/"+r.statement, &now)
	return now.Statement.State == "VOIDED" || r.action == "issue" && now.Statement.State != "DRAFT"
}

// payablesOf are all payables. Their numbers must be unbroken, and they and their statements agree.
func payablesOf(t *testing.T, s *systemtest.Service) (all []due) {
	t.Helper()
	amount := func(text string) *big.Rat {
		n, ok := new(big.Rat).SetString(text)
		require.True(t, ok, text)
		return n
	}
	var list struct {
		Payables   []due
		NextCursor string
	}
	for list.NextCursor = "first"; list.NextCursor != ""; all = append(all, list.Payables...) {
		cursor := list.NextCursor
		list.Payables, list.NextCursor = nil, ""
		if cursor == "first" {
			cursor = ""
		}
		s.Get("/v1/settlement/payables?limit=500&cursor="+cursor, &list)
	}
	slices.SortFunc(all, func(a, b due) int { return a.Sequence - b.Sequence })
	setOff, paid, open := new(big.Rat), map[string]*big.Rat{}, map[string]*big.Rat{}
	for i, p := range all {
		require.Equal(t, i+1, p.Sequence)
		require.Equal(t, fmt.Sprintf("%06d", p.Sequence), p.Number[len("2026-"):])
		if paid[p.StatementID] == nil {
			paid[p.StatementID], open[p.StatementID] = new(big.Rat), new(big.Rat)
		}
		sum, references := new(big.Rat), map[string]bool{}
		for _, payment := range p.Payments {
			sum.Add(sum, amount(payment.Amount))
			if payment.SetOff {
				setOff.Add(setOff, amount(payment.Amount))
			} else {
				require.False(t, references[payment.Reference], "%s is recorded twice: %+v", payment.Reference, p)
				references[payment.Reference] = true
			}
		}
		require.Zero(t, sum.Cmp(amount(p.PaidAmount)), "%+v", p)
		left := new(big.Rat).Sub(amount(p.Gross), sum)
		require.Equal(t, left.Sign() == 0, p.State == "PAID", "%+v", p)
		paid[p.StatementID].Add(paid[p.StatementID], sum)
		open[p.StatementID].Add(open[p.StatementID], left)
	}
	require.Zero(t, setOff.Sign(), "what is set off is so twice")
	for id := range paid {
		var now struct {
			Statement struct{ PaidAmount, DueAmount, State string }
		}
		s.Get("/v1/settlement/statements/"+id, &now)
		require.Zero(t, paid[id].Cmp(amount(now.Statement.PaidAmount)), "%s: %+v", id, now)
		require.Zero(t, open[id].Cmp(amount(now.Statement.DueAmount)), "%s: %+v", id, now)
	}
	return all
}
