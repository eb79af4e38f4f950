package systemtest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/bench/waittest"
	"muniment.example/control/access"
	"muniment.example/control/node"
	"muniment.example/control/operator"
	"muniment.example/control/proof"
)

// Operator has a session of the operators' page, as a browser has it.
type Operator struct {
	t       *testing.T
	admin   string
	Browser *http.Client
}

// OpenConsole opens the page by the link that the command prints, which it returns, too.
func OpenConsole(t *testing.T, data, admin string) (Operator, string) {
	t.Helper()
	link := Parse[struct{ URL string }](t, Command(t, "console", "--json", "--data", data, "--admin", HostPort(admin))).URL
	at, token, _ := strings.Cut(link, "#")
	require.Equal(t, admin+"/console", at)
	jar, err := cookiejar.New(nil)
	require.NoError(t, err)
	o := Operator{t, admin, &http.Client{Jar: jar}}
	page := o.Send("GET", "", "")
	require.Equal(t, 200, page.Status)
	require.Contains(t, page.Header.Get("Content-Security-Policy"), "default-src 'none'")
	begun := o.Send("POST", "/api/session", `{"token":"`+token+`"}`)
	require.Equal(t, 200, begun.Status, begun.Body)
	return o, token
}

func (o Operator) Send(method, path, body string) Response {
	o.t.Helper()
	r, err := http.NewRequestWithContext(o.t.Context(), method, o.admin+"/console"+path, strings.NewReader(body))
	require.NoError(o.t, err)
	a, err := o.Browser.Do(r)
	require.NoError(o.t, err)
	defer a.Body.Close()
	text, err := io.ReadAll(a.Body)
	require.NoError(o.t, err)
	return Response{a.StatusCode, a.Header, string(text)}
}

// PanelOf reads the data of a panel.
func PanelOf[T any](o Operator, path string) (data T) {
	o.t.Helper()
	a := o.Send("GET", "/api/"+path, "")
	require.Equal(o.t, 200, a.Status, a.Body)
	var envelope struct{ Data json.RawMessage }
	require.NoError(o.t, json.Unmarshal([]byte(a.Body), &envelope))
	require.NoError(o.t, json.Unmarshal(envelope.Data, &data))
	return data
}

// Sees reads every panel of a service that is in order, and waits until everything is loaded.
func (o Operator) Sees(nodes int) {
	o.t.Helper()
	waittest.Until(o.t, func() bool { return len(PanelOf[node.Overview](o, "nodes").Nodes) >= nodes }, "the nodes have polled")
	live := 0
	for _, n := range PanelOf[node.Overview](o, "nodes").Nodes {
		require.Less(o.t, n.AgeMs, PanelOf[node.Overview](o, "nodes").LeaseMs)
		require.True(o.t, n.Live)
		live++
	}
	require.GreaterOrEqual(o.t, live, nodes)
	waittest.Until(o.t, func() bool { return PanelOf[operator.Lag](o, "lag").Behind == 0 }, "everything is loaded")
	require.NotEmpty(o.t, PanelOf[operator.Lag](o, "lag").Partitions[0].End)
	for _, n := range PanelOf[operator.Drift](o, "drift").Drift {
		require.Zero(o.t, n)
	}
	require.Zero(o.t, PanelOf[proof.QuarantinedList](o, "quarantine").Total)
	require.Empty(o.t, PanelOf[operator.Refusals](o, "refusals?hours=24").Rules)
}

// Approves has somebody apply, and approves that on the page.
func (o Operator) Approves(a Applicant, email string) {
	o.t.Helper()
	require.Contains(o.t, a.Post("/apply", fmt.Sprintf(`{"email":%q,"organisation":"Example Ltd","use":"Trying it out"}`, email)), "RECEIVED")
	waiting := func() []access.Listed {
		return PanelOf[operator.Applications](o, "applications?state=RECEIVED").Applications
	}
	waittest.Until(o.t, func() bool { return len(waiting()) == 1 }, "the application is there")
	one := waiting()[0]
	require.Equal(o.t, email, one.Email)
	approved := o.Send("POST", "/api/applications/"+one.ID+"/approve", `{"state":"RECEIVED"}`)
	require.Equal(o.t, 200, approved.Status, approved.Body)
	require.Empty(o.t, waiting())
	require.NotEmpty(o.t, a.Written(one.ID))
}
