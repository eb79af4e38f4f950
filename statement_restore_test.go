package main

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestStatementsOfAnOlderDatabase: a database that is restored from before a statement knows it from
// the log, with the rules and disputes that came with it, and bills nothing a second time.
func TestStatementsOfAnOlderDatabase(t *testing.T) {
	t.Parallel()
	s := newService(t)
	ids := s.receipts(5)
	s.seal()
	s.stop()
	putBack := s.keep("control.db")
	s.start()

	now := time.Now()
	s.registerRules(now.Add(-2 * time.Hour))
	var opened struct{ Dispute struct{ ID string } }
	s.post("/v1/disputes", map[string]any{"receiptIds": ids[:1], "reason": "not shown"}, &opened)
	request := periodOf(now.Add(-time.Hour), now)
	request["to"] = time.Now().UTC().Format(time.RFC3339Nano)
	draft := s.draft(request)
	require.EqualValues(t, 4, draft.Receipts)
	var before struct{ Statement stated }
	path := "/v1/settlement/statements/" + draft.ID
	s.post(path+"/issue", nil, &before)
	s.awaitEvent("statement.issued") // what the relay has not written is lost with the database
	s.stop()
	putBack()
	require.Contains(t, s.refused(), "the database is older than the log")
	s.accepting()
	var after struct{ Statement stated }
	s.get(path, &after)
	require.Equal(t, before.Statement, after.Statement)
	for _, target := range []string{path + "?format=signed", path + "?format=csv", path + "/receipts"} {
		require.ErrorContains(t, s.client.Do(t.Context(), http.MethodGet, target, nil, nil), "the signed file that was handed out is the proof", target)
	}
	require.ErrorContains(t, s.client.Do(t.Context(), http.MethodPost, "/v1/settlement/statements", request, nil), "lacks its pack")
	var rules struct {
		Rules    []struct{ ID string }
		Disputes []struct{ ID, State string }
	}
	s.get("/v1/settlement/rules", &rules)
	require.Len(t, rules.Rules, 4)
	s.get("/v1/disputes?receiptId="+ids[0], &rules)
	require.Equal(t, []struct{ ID, State string }{{opened.Dispute.ID, "OPEN"}}, rules.Disputes)
	var paid struct{ Statement stated }
	s.post(path+"/settle", map[string]any{"reference": "transfer 12"}, &paid)
	require.Equal(t, "SETTLED", paid.Statement.State)
}
