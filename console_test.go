package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment/control/access"
	"muniment/control/console"
	"muniment/control/node"
	"muniment/control/proof"
)

// operator has a session of the operators' page, as a browser has it.
type operator struct {
	t       *testing.T
	admin   string
	browser *http.Client
}

// openConsole opens the page by the link that the command prints, which it returns, too.
func openConsole(t *testing.T, data, admin string) (operator, string) {
	t.Helper()
	link := parse[struct{ URL string }](t, muniment(t, "console", "--json", "--data", data, "--admin", hostPort(admin))).URL
	at, token, _ := strings.Cut(link, "#")
	require.Equal(t, admin+"/console", at)
	jar, err := cookiejar.New(nil)
	require.NoError(t, err)
	o := operator{t, admin, &http.Client{Jar: jar}}
	page := o.send("GET", "", "")
	require.Equal(t, 200, page.status)
	require.Contains(t, page.header.Get("Content-Security-Policy"), "default-src 'none'")
	begun := o.send("POST", "/api/session", `{"token":"`+token+`"}`)
	require.Equal(t, 200, begun.status, begun.body)
	return o, token
}

func (o operator) send(method, path, body string) response {
	o.t.Helper()
	r, err := http.NewRequestWithContext(o.t.Context(), method, o.admin+"/console"+path, strings.NewReader(body))
	require.NoError(o.t, err)
	a, err := o.browser.Do(r)
	require.NoError(o.t, err)
	defer a.Body.Close()
	text, err := io.ReadAll(a.Body)
	require.NoError(o.t, err)
	return response{a.StatusCode, a.Header, string(text)}
}

// panelOf reads the data of a panel.
func panelOf[T any](o operator, path string) (data T) {
	o.t.Helper()
	a := o.send("GET", "/api/"+path, "")
	require.Equal(o.t, 200, a.status, a.body)
	var envelope struct{ Data json.RawMessage }
	require.NoError(o.t, json.Unmarshal([]byte(a.body), &envelope))
	require.NoError(o.t, json.Unmarshal(envelope.Data, &data))
	return data
}

// sees reads every panel of a service that is in order, and waits until everything is loaded.
func (o operator) sees(nodes int) {
	o.t.Helper()
	until(o.t, func() bool { return len(panelOf[node.Overview](o, "nodes").Nodes) >= nodes }, "the nodes have polled")
	live := 0
	for _, n := range panelOf[node.Overview](o, "nodes").Nodes {
		require.Less(o.t, n.AgeMs, panelOf[node.Overview](o, "nodes").LeaseMs)
		require.True(o.t, n.Live)
		live++
	}
	require.GreaterOrEqual(o.t, live, nodes)
	until(o.t, func() bool { return panelOf[console.Lag](o, "lag").Behind == 0 }, "everything is loaded")
	require.NotEmpty(o.t, panelOf[console.Lag](o, "lag").Partitions[0].End)
	for _, n := range panelOf[console.Drift](o, "drift").Drift {
		require.Zero(o.t, n)
	}
	require.Zero(o.t, panelOf[proof.QuarantinedList](o, "quarantine").Total)
	require.Empty(o.t, panelOf[console.Refusals](o, "refusals?hours=24").Rules)
}

// approves has somebody apply, and approves that on the page.
func (o operator) approves(a applicant, email string) {
	o.t.Helper()
	require.Contains(o.t, a.post("/apply", fmt.Sprintf(`{"email":%q,"organisation":"Example Ltd","use":"Trying it out"}`, email)), "RECEIVED")
	waiting := func() []access.Listed {
		return panelOf[console.Applications](o, "applications?state=RECEIVED").Applications
	}
	until(o.t, func() bool { return len(waiting()) == 1 }, "the application is there")
	one := waiting()[0]
	require.Equal(o.t, email, one.Email)
	approved := o.send("POST", "/api/applications/"+one.ID+"/approve", `{"state":"RECEIVED"}`)
	require.Equal(o.t, 200, approved.status, approved.body)
	require.Empty(o.t, waiting())
	require.NotEmpty(o.t, a.written(one.ID))
}

// TestConsoleOfAService: the page shows what there is, releases a record that holds sealing, and none
// of its secrets is in the log.
func TestConsoleOfAService(t *testing.T) {
	t.Parallel()
	s := newService(t)
	o, token := openConsole(t, s.data, s.server.Admin)
	o.sees(1)
	o.approves(applicant{t, s.client.API, s.data}, "ada@example.org")
	until(t, func() bool { return panelOf[console.Drift](o, "drift").Checking }, "it checks for drift")
	s.receipts(3)
	refused := call(t, s.client.API, s.client.Key, operation{method: "POST", path: "/v1/delivery", body: strings.TrimSuffix(delivery(s.rights["AUTOMOTIVE"]), "}") + `,"telemetry":{"speedMph":65}}`})
	require.Equal(t, 412, refused.status, refused.body)
	s.stop() // which makes an event of the refusal
	misplace(t, s.data, s.tenant.TenantID)
	s.startAgain()

	require.Equal(t, 401, o.send("GET", "/api/session", "").status, "a session ends with the process")
	o, second := openConsole(t, s.data, s.server.Admin)
	require.Equal(t, 401, o.send("POST", "/api/session", `{"token":"`+second+`"}`).status, "a link works once")
	until(t, func() bool { return panelOf[proof.QuarantinedList](o, "quarantine").Total == 1 }, "it is quarantined")
	held := panelOf[proof.QuarantinedList](o, "quarantine").Records[0]
	require.Equal(t, s.tenant.TenantID, held.TenantID)
	require.ErrorContains(t, s.client.Do(t.Context(), "POST", "/v1/proof-packs/seal", map[string]any{}, nil), "QUARANTINED")
	released := o.send("POST", "/api/quarantine/release", fmt.Sprintf(`{"positions":[%q],"reason":"drill"}`, held.Position))
	require.Equal(t, 200, released.status, released.body)
	require.Zero(t, panelOf[proof.QuarantinedList](o, "quarantine").Total)
	s.seal()
	require.Equal(t, []console.Rule{{Rule: "automotive-speed", Refusals: 1}}, panelOf[console.Refusals](o, "refusals?hours=1").Rules)

	log := s.log()
	require.NotContains(t, log, token)
	require.NotContains(t, log, second)
	require.NotContains(t, log, "ada@example.org")
}

// TestConsoleOnTheStack has two control processes, each with links and sessions of its own, which
// show the same service. One of them checks for drift.
func TestConsoleOnTheStack(t *testing.T) {
	t.Setenv("MUNIMENT_PUBLIC_URL", "https://muniment.example")
	s, c := scaledOut(t)
	first, token := openConsole(t, s.data, c.Controls[0].Admin)
	second, _ := openConsole(t, s.data, c.Controls[1].Admin)
	require.Equal(t, 401, second.send("POST", "/api/session", `{"token":"`+token+`"}`).status)
	second.browser.Jar = first.browser.Jar // as a browser sends cookies to every port of a host
	require.Equal(t, 401, second.send("GET", "/api/nodes", "").status)
	second, _ = openConsole(t, s.data, c.Controls[1].Admin)

	tenant := createTenant(t, s.data)
	s.client.Key = tenant.APIKey
	s.rights = issueRights(t, s.client)
	s.receipts(3)
	for _, o := range []operator{first, second} {
		o.sees(2)
	}
	until(t, func() bool {
		return panelOf[console.Drift](first, "drift").Checking != panelOf[console.Drift](second, "drift").Checking
	}, "one of them checks for drift")
	second.approves(applicant{t, s.client.API, s.data}, "ada@example.org")
	require.Equal(t, "APPROVED", string(panelOf[console.Applications](first, "applications").Applications[0].State))
	ids := map[string]bool{}
	for _, n := range panelOf[node.Overview](first, "nodes").Nodes {
		ids[n.NodeID] = true
	}
	for _, n := range panelOf[node.Overview](second, "nodes").Nodes {
		require.True(t, ids[n.NodeID])
	}
}

// TestConsoleReadme: the page about the console opens it by its own command, names flags and commands
// that there are, and describes every panel.
func TestConsoleReadme(t *testing.T) {
	t.Parallel()
	text := string(read(t, "control/console/README.md"))
	dir := t.TempDir()
	s := notStarted(t, filepath.Join(dir, "muniment-data"))
	s.start()
	require.Contains(t, text, "`http://127.0.0.1:9090/console#…`")
	command, _, ok := strings.Cut(strings.SplitN(text, "```sh\n", 2)[1], "\n```")
	require.True(t, ok && strings.HasPrefix(command, "muniment console "), command)
	cmd := exec.CommandContext(t.Context(), "sh", "-eu", "-c", command)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	require.Contains(t, string(out), s.server.Admin+"/console#")
	help := muniment(t, "control", "--help") + muniment(t, "console", "--help") + muniment(t, "node", "expel", "--help") + muniment(t, "quarantine", "--help")
	for _, flag := range regexp.MustCompile(`--[a-z][a-z-]+`).FindAllString(text, -1) {
		require.Contains(t, help, flag)
	}
	script := string(read(t, "control/console/page/pictures.js")) + string(read(t, "control/console/page/decisions.js"))
	panels := regexp.MustCompile(`id: '[a-z]+', name: '([A-Za-z]+)'`).FindAllStringSubmatch(script, -1)
	require.Len(t, panels, 8)
	for _, panel := range panels {
		require.Contains(t, text, "\n| "+panel[1]+" | ")
	}
}

// TestBaseOfEveryAddress: a link leads to localhost where the server listens on every address.
func TestBaseOfEveryAddress(t *testing.T) {
	for url, base := range map[string]string{
		"http://127.0.0.1:9090": "http://127.0.0.1:9090", "http://[::]:9090": "http://localhost:9090", "https://0.0.0.0:9090": "https://localhost:9090", "https://[::1]:1": "https://[::1]:1",
	} {
		dir := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(dir, adminFile), []byte(`{"url":"`+url+`","token":"x"}`), 0o600))
		got, err := (&running{Data: dir}).Base()
		require.NoError(t, err)
		require.Equal(t, base, got)
	}
	_, err := (&running{Data: t.TempDir()}).Base()
	require.ErrorContains(t, err, "no server runs on")
}
