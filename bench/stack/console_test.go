package stack

import (
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/bench/system/systemtest"
	"muniment.example/bench/waittest"
	"muniment.example/control/node"
	"muniment.example/control/operator"
)

// TestConsoleOnTheStack has two control processes, each with links and sessions of its own, which
// show the same service. One of them checks for drift.
func TestConsoleOnTheStack(t *testing.T) {
	t.Parallel()
	s, c := scaledOut(t, publicURL)
	first, token := systemtest.OpenConsole(t, s.Data, c.Controls[0].Admin)
	second, _ := systemtest.OpenConsole(t, s.Data, c.Controls[1].Admin)
	require.Equal(t, 401, second.Send("POST", "/api/session", `{"token":"`+token+`"}`).Status)
	second.Browser.Jar = first.Browser.Jar // as a browser sends cookies to every port of a host
	require.Equal(t, 401, second.Send("GET", "/api/nodes", "").Status)
	second, _ = systemtest.OpenConsole(t, s.Data, c.Controls[1].Admin)

	tenant := systemtest.CreateTenant(t, s.Data)
	s.Client.Key = tenant.APIKey
	s.Rights = systemtest.IssueRights(t, s.Client)
	s.Receipts(3)
	for _, o := range []systemtest.Operator{first, second} {
		o.Sees(2)
	}
	waittest.Until(t, func() bool {
		return systemtest.PanelOf[operator.Drift](first, "drift").Checking != systemtest.PanelOf[operator.Drift](second, "drift").Checking
	}, "one of them checks for drift")
	second.Approves(systemtest.Applicant{T: t, URL: s.Client.API, Data: s.Data}, "ada@example.org")
	require.Equal(t, "APPROVED", string(systemtest.PanelOf[operator.Applications](first, "applications").Applications[0].State))
	ids := map[string]bool{}
	for _, n := range systemtest.PanelOf[node.Overview](first, "nodes").Nodes {
		ids[n.NodeID] = true
	}
	for _, n := range systemtest.PanelOf[node.Overview](second, "nodes").Nodes {
		require.True(t, ids[n.NodeID])
	}
}
