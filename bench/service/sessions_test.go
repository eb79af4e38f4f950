package service

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment/bench/system/systemtest"
)

// A page's session is the blocks of commands behind <!-- session -->. All pages continue the
// session of README.md, each in a subshell of its own, in one folder and against one service.

// sessionPages are the pages with a session, in the order in which they run: the last one
// changes keys, which the others need as they are.
var sessionPages = []string{
	"gateway/integrating.md", "sealer/README.md", "control/rights.md", "control/settlement.md", "control/webhooks.md",
	"control/personal-data.md", "control/sandbox.md", "deploy/operating.md", "deploy/procedures.md",
}

// answered is a part of what the session of each page must print, in this order.
var answered = map[string][]string{
	"README.md": {`"metered":true`, `"error":"PRECONDITION_FAILED"`, "LICENSED_REGION_MISMATCH", `"receipts":1`, "This play, 8.2 s, was recorded before ", "Sound: 2 files."},
	"gateway/integrating.md": {
		`"status":"accepted"`, `LICENSED_REGION_MISMATCH`, `"status":"unmapped"`, `"state":"HELD"`, `"vendorId":"8"`,
		`"vendorId":"4456"`, `"status":"accepted"`, `"results"`, `"results"`, `"results"`, `"results"`, `"results"`, `"results"`, `"results"`, `"results"`, `"status":"accepted"`,
	},
	"sealer/README.md": {"Sound: 6 files.", "Sound: 3 files.", `"ok": true`},
	"control/rights.md": {
		`"state":"SUSPENDED"`, `"state":"ACTIVE"`, `"state":"REVOKED"`, `"holderOrgId":"org_transit"`, `"state":"UPHELD"`, `"state":"INVESTIGATING"`,
		`"state":"RESPONDED"`, `"outcome":"REJECTED"`,
	},
	"control/settlement.md": {
		`"rows":[{`, "campaign", `"refusals":`, `"field":"shares","message":"must add up`, `"lines":[{`, `"price":"0.006"`, `"state":"RETIRED"`,
		`"state":"ISSUED"`, "statement.ok", `"state":"SETTLED"`,
	},
	"control/webhooks.md":      {`"eventType":"webhook.tested"`, "whsec_"},
	"control/personal-data.md": {`"state":"READY"`, "Sound: 1 file.", `"state":"COMPLETED"`},
	"control/sandbox.md":       {`"rebound":false`, `"refused":true`, "Sound: 1 file.", `"status":"RECEIVED"`, `"apiKey":"mun_test_`},
	"deploy/operating.md":      {`"loader"`, "muniment_build_info", `"backlog":[{"partition":0`, `"limited":{"since":`, "No record holds sealing.", "receipt_signing", `"apiKey":"mun_test_`, "was revoked at"},
	"deploy/procedures.md":     {"backed up to", "checkpoint.json: tenant tnt_", "restored ", "the root key is offline: run muniment root delegate", "is valid until", "signs from"},
}

var session = regexp.MustCompile("(?ms)^( *)<!-- session([^\n]*) -->\n *```sh\n(.*?)^ *```$")

// sessionOf returns a page's session; python is its part that needs Python.
func sessionOf(t *testing.T, page string) (shell, python string) {
	for _, m := range session.FindAllStringSubmatch(string(systemtest.ReadFile(t, page)), -1) {
		if strings.Contains(m[2], "Python") {
			python += m[3]
		} else {
			shell += m[3]
		}
	}
	return shell, python
}

// TestSessions runs every session as it stands on its page.
func TestSessions(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	exe, err := exec.LookPath("muniment")
	require.NoError(t, err)
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "said"), 0o700))
	require.NoError(t, os.Mkdir(filepath.Join(dir, "bin"), 0o700)) // as make run leaves it
	require.NoError(t, os.Symlink(exe, filepath.Join(dir, "bin", "muniment")))
	examples, err := filepath.Abs(filepath.Join("gateway", "adapter", "examples"))
	require.NoError(t, err)
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "gateway", "adapter"), 0o700))
	require.NoError(t, os.Symlink(examples, filepath.Join(dir, "gateway", "adapter", "examples")))
	s := systemtest.NotStarted(t, filepath.Join(dir, "muniment-data"))
	s.Start()

	first, _ := sessionOf(t, "README.md")
	script := "{\n" + first + "} > said/README.md 2>&1\n"
	for _, page := range sessionPages {
		commands, _ := sessionOf(t, page)
		require.NotEmpty(t, commands, page)
		script += "(\n" + commands + ") > said/" + strings.ReplaceAll(page, "/", "_") + " 2>&1\n"
	}
	script = strings.NewReplacer("http://127.0.0.1:8080", s.Client.API, "http://127.0.0.1:9090", s.Server.Admin).Replace(script)
	cmd := exec.CommandContext(t.Context(), "sh", "-eu")
	cmd.Dir, cmd.Stdin = dir, strings.NewReader(script)
	out, failed := cmd.CombinedOutput()
	for _, page := range append([]string{"README.md"}, sessionPages...) {
		said, err := os.ReadFile(filepath.Join(dir, "said", strings.ReplaceAll(page, "/", "_")))
		require.NoError(t, err, "the session before has failed: %v, %s", failed, out)
		rest := string(said)
		for _, part := range answered[page] {
			_, after, found := strings.Cut(rest, part)
			require.True(t, found, "%s: no %s in\n%s\nof\n%s", page, part, rest, said)
			rest = after
		}
	}
	require.NoError(t, failed, string(out))
	require.NoFileExists(t, filepath.Join(dir, "muniment-data", "keys", "root.skey"))
	for _, data := range []string{"fresh", "restored"} { // which procedures.md has made
		started := systemtest.NotStarted(t, filepath.Join(dir, data))
		started.Start()
	}
	requireOperations(t, s)
}

// requireOperations fails if a page names a path under /v1 that the service doesn't document.
func requireOperations(t *testing.T, s *systemtest.Service) {
	known := map[string]bool{"/v1": true}
	for _, o := range systemtest.Document(t, s.Server) {
		path, _, _ := strings.Cut(o.Path, "?")
		known[path] = true
	}
	for _, page := range systemtest.Pages(t) {
		for _, m := range regexp.MustCompile("`(?:[A-Z]+ )?(/v1/[a-z][^` ?]*)").FindAllStringSubmatch(string(systemtest.ReadFile(t, page)), -1) {
			require.True(t, known[m[1]], "%s names %s, which is not documented", page, m[1])
		}
	}
}

// TestSessionsPython reads the commands that need Python, without running them: they are
// sound, and every file that they name is there or made by the sessions.
func TestSessionsPython(t *testing.T) {
	made, python := "", ""
	for _, page := range append([]string{"README.md"}, sessionPages...) {
		shell, needing := sessionOf(t, page)
		made, python = made+shell, python+needing
	}
	check := exec.CommandContext(t.Context(), "sh", "-n")
	check.Stdin = strings.NewReader(python)
	out, err := check.CombinedOutput()
	require.NoError(t, err, string(out))
	require.Contains(t, python, "/bin/python sealer/independent/verify.py ")
	for _, name := range strings.Fields(python) {
		switch {
		case strings.HasPrefix(name, "sealer/"):
			require.FileExists(t, name)
		case strings.HasSuffix(name, "json"):
			require.Regexp(t, `(-o|tee) `+regexp.QuoteMeta(name)+`\b`, made)
		}
	}
}
