package service

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/bench/system/systemtest"
	"muniment.example/bench/waittest"
	"muniment.example/control/operator"
	"muniment.example/control/proof"
)

// TestConsoleOfAService: the page shows what there is, releases a record that holds sealing, and none
// of its secrets is in the log.
func TestConsoleOfAService(t *testing.T) {
	t.Parallel()
	s := systemtest.NewService(t)
	o, token := systemtest.OpenConsole(t, s.Data, s.Server.Admin)
	o.Sees(1)
	o.Approves(systemtest.Applicant{T: t, URL: s.Client.API, Data: s.Data}, "ada@example.org")
	waittest.Until(t, func() bool { return systemtest.PanelOf[operator.Drift](o, "drift").Checking }, "it checks for drift")
	s.Receipts(3)
	refused := systemtest.Call(t, s.Client.API, s.Client.Key, systemtest.Operation{Method: "POST", Path: "/v1/delivery", Body: strings.TrimSuffix(systemtest.Delivery(s.Rights["AUTOMOTIVE"]), "}") + `,"telemetry":{"speedMph":65}}`})
	require.Equal(t, 412, refused.Status, refused.Body)
	s.Stop() // which makes an event of the refusal
	systemtest.Misplace(t, s.Data, s.Tenant.TenantID)
	s.StartAgain()

	require.Equal(t, 401, o.Send("GET", "/api/session", "").Status, "a session ends with the process")
	o, second := systemtest.OpenConsole(t, s.Data, s.Server.Admin)
	require.Equal(t, 401, o.Send("POST", "/api/session", `{"token":"`+second+`"}`).Status, "a link works once")
	waittest.Until(t, func() bool { return systemtest.PanelOf[proof.QuarantinedList](o, "quarantine").Total == 1 }, "it is quarantined")
	held := systemtest.PanelOf[proof.QuarantinedList](o, "quarantine").Records[0]
	require.Equal(t, s.Tenant.TenantID, held.TenantID)
	require.ErrorContains(t, s.Client.Do(t.Context(), "POST", "/v1/proof-packs/seal", map[string]any{}, nil), "QUARANTINED")
	released := o.Send("POST", "/api/quarantine/release", fmt.Sprintf(`{"positions":[%q],"reason":"drill"}`, held.Position))
	require.Equal(t, 200, released.Status, released.Body)
	require.Zero(t, systemtest.PanelOf[proof.QuarantinedList](o, "quarantine").Total)
	s.Seal()
	require.Equal(t, []operator.Rule{{Rule: "automotive-speed", Refusals: 1}}, systemtest.PanelOf[operator.Refusals](o, "refusals?hours=1").Rules)

	log := s.Log()
	require.NotContains(t, log, token)
	require.NotContains(t, log, second)
	require.NotContains(t, log, "ada@example.org")
}

// TestConsoleReadme: the page about the console opens it by its own command, names flags and commands
// that there are, and describes every panel.
func TestConsoleReadme(t *testing.T) {
	t.Parallel()
	text := string(systemtest.ReadFile(t, "control/operator/README.md"))
	dir := t.TempDir()
	s := systemtest.NotStarted(t, filepath.Join(dir, "muniment-data"))
	s.Start()
	require.Contains(t, text, "`http://127.0.0.1:9090/console#…`")
	command, _, ok := strings.Cut(strings.SplitN(text, "```sh\n", 2)[1], "\n```")
	require.True(t, ok && strings.HasPrefix(command, "muniment console "), command)
	cmd := exec.CommandContext(t.Context(), "sh", "-eu", "-c", command)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	require.Contains(t, string(out), s.Server.Admin+"/console#")
	help := systemtest.Command(t, "control", "--help") + systemtest.Command(t, "console", "--help") + systemtest.Command(t, "node", "expel", "--help") + systemtest.Command(t, "quarantine", "--help")
	for _, flag := range regexp.MustCompile(`--[a-z][a-z-]+`).FindAllString(text, -1) {
		require.Contains(t, help, flag)
	}
	script := string(systemtest.ReadFile(t, "control/operator/page/pictures.js")) + string(systemtest.ReadFile(t, "control/operator/page/decisions.js"))
	panels := regexp.MustCompile(`id: '[a-z]+', name: '([A-Za-z]+)'`).FindAllStringSubmatch(script, -1)
	require.Len(t, panels, 8)
	for _, panel := range panels {
		require.Contains(t, text, "\n| "+panel[1]+" | ")
	}
}
