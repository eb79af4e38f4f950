package faults

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/bench/system/systemtest"
)

// TestStatementsOfAnOlderDatabase: a database that is restored from before a statement knows it from
// the log, with the rules and disputes that came with it, and bills nothing a second time.
func TestStatementsOfAnOlderDatabase(t *testing.T) {
	t.Parallel()
	s := systemtest.NewService(t)
	ids := s.Receipts(5)
	s.Seal()
	s.Stop()
	putBack := s.Keep("control.db")
	s.Start()

	now := time.Now()
	s.RegisterRules(now.Add(-2 * time.Hour))
	var opened struct{ Dispute struct{ ID string } }
	s.Post("/v1/disputes", map[string]any{"receiptIds": ids[:1], "reason": "not shown"}, &opened)
	request := systemtest.PeriodOf(now.Add(-time.Hour), now)
	request["to"] = time.Now().UTC().Format(time.RFC3339Nano)
	draft := s.Draft(request)
	require.EqualValues(t, 4, draft.Receipts)
	var before struct{ Statement systemtest.Stated }
	path := "/v1/settlement/statements/" + draft.ID
	s.Post(path+"/issue", nil, &before)
	s.AwaitEvent("statement.issued") // what the relay has not written is lost with the database
	s.Stop()
	putBack()
	require.Contains(t, s.Refused(), "the database is older than the log")
	s.Accepting()
	var after struct{ Statement systemtest.Stated }
	s.Get(path, &after)
	require.Equal(t, before.Statement, after.Statement)
	for _, target := range []string{path + "?format=signed", path + "?format=csv", path + "/receipts"} {
		require.ErrorContains(t, s.Client.Do(t.Context(), http.MethodGet, target, nil, nil), "the signed file that was handed out is the proof", target)
	}
	require.ErrorContains(t, s.Client.Do(t.Context(), http.MethodPost, "/v1/settlement/statements", request, nil), "overlaps with that of "+draft.ID)
	request["currency"] = "USD" // what the log says of the other one is enough to leave out what it states
	s.Post("/v1/settlement/rules", map[string]any{"unit": "EVENT", "price": "9", "currency": "USD", "priority": 9, "effectiveFrom": now.Add(-2 * time.Hour).UTC().Format(time.RFC3339),
		"shares": []any{map[string]any{"counterpartyId": s.DollarPayee(), "bps": 10_000}}}, nil)
	dollars := s.Draft(request)
	require.Zero(t, dollars.Receipts, "all but the disputed one is stated, and that is held by its rule")
	require.Equal(t, "0", dollars.HeldAmount)
	var rules struct {
		Rules    []struct{ ID string }
		Disputes []struct{ ID, State string }
	}
	s.Get("/v1/settlement/rules", &rules)
	require.Len(t, rules.Rules, 5)
	s.Get("/v1/disputes?receiptId="+ids[0], &rules)
	require.Equal(t, []struct{ ID, State string }{{opened.Dispute.ID, "OPEN"}}, rules.Disputes)
	var paid struct{ Statement systemtest.Stated }
	s.Post(path+"/settle", map[string]any{"reference": "transfer 12"}, &paid)
	require.Equal(t, "SETTLED", paid.Statement.State)
}
