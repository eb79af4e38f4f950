package service

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/bench/system"
	"muniment.example/bench/system/systemtest"
)

// A page's session is the blocks of commands behind <!-- session -->. All pages continue the
// session of README.md, each in a subshell of its own, in one folder and against one service.

// sessionPages are the pages with a session, in the order in which they run: the last one
// changes keys, which the others need as they are.
var sessionPages = []string{
	"gateway/integrating.md", "sealer/README.md", "control/rights.md", "control/settlement.md", "control/money.md", "control/webhooks.md",
	"control/personal-data.md", "control/sandbox.md", "deploy/operating.md", "deploy/procedures.md",
}

// answered is a part of what the session of a page that does not show what it prints must print, in this order.
var answered = map[string][]string{
	"sealer/README.md":     {"Sound: 6 files.", "Sound: 3 files.", `"ok": true`, "nothing is open"},
	"control/sandbox.md":   {`"rebound":false`, `"refused":true`, "Sound: 1 file.", `"status":"RECEIVED"`, `"apiKey":"mun_test_`},
	"deploy/operating.md":  {`"loader"`, "muniment_build_info", `"backlog":[{"partition":0`, `"limited":{"since":`, "No record holds sealing.", "receipt_signing", `"apiKey":"mun_test_`, "was revoked at"},
	"deploy/procedures.md": {"backed up to", "checkpoint.json: tenant tnt_", "restored ", "the root key is offline: run muniment root delegate", "is valid until", "signs from"},
}

var (
	session = regexp.MustCompile("(?ms)^( *)<!-- session([^\n]*) -->\n *```sh\n(.*?)^ *```$(?:\n\n *```text\n(.*?)^ *```$)?")
	// remark is a comment of a command.
	remark = regexp.MustCompile(`(?m)(?:^ *|  +)# (.*)$`)
	// announced is a status in a remark: "422: …", "…: 412, with …".
	announced = regexp.MustCompile(`(?:^|[:,] )([45]\d\d)(?:[:,.]|$)`)
	// written begins a file within commands.
	written = regexp.MustCompile(`<<'?([A-Z]+)'?`)
	// money is an amount with its currency.
	money = regexp.MustCompile(`(\d+\.\d+) [A-Z]{3}\b`)
)

// block is a block of commands of a session.
type block struct {
	commands string
	python   bool     // it needs Python, and is not run
	shown    []string // the parts of its output that the page shows behind it, in order
}

// sessionOf returns the blocks of a page's session. A block of text behind one is what it prints; "…" in
// it stands for anything.
func sessionOf(t *testing.T, page string) (blocks []block) {
	text, shown := string(systemtest.ReadFile(t, page)), 0
	for _, m := range session.FindAllStringSubmatch(text, -1) {
		b := block{commands: m[3], python: strings.Contains(m[2], "Python")}
		for _, part := range strings.FieldsFunc(m[4], func(r rune) bool { return r == '\n' || r == '…' }) {
			if part = strings.TrimSpace(part); part != "" {
				b.shown = append(b.shown, part)
			}
		}
		if m[4] != "" {
			shown++
		}
		blocks = append(blocks, b)
	}
	require.Equal(t, strings.Count(text, "```text\n"), shown, "%s: a block of text is not behind a block of the session", page)
	return blocks
}

// stanzas are the commands of a block between blank lines. A file that is written there may have blank lines.
func (b block) stanzas() []string {
	all, end := []string{""}, ""
	for line := range strings.Lines(b.commands) {
		switch text := strings.TrimSpace(line); {
		case text == "" && end == "":
			all = append(all, "")
		case text == end:
			end = ""
		default:
			if m := written.FindStringSubmatch(text); m != nil && end == "" {
				end = m[1]
			}
		}
		all[len(all)-1] += line
	}
	return all
}

// remarks are the comments of commands.
func remarks(commands string) (all []string) {
	for _, m := range remark.FindAllStringSubmatch(commands, -1) {
		all = append(all, m[1])
	}
	return all
}

// run is the session of all pages, as it runs in a folder. What a block prints is in the folder said,
// and what each of its stanzas was answered in the folder statuses.
type run struct{ dir string }

func newRun(t *testing.T) run {
	r := run{t.TempDir()}
	for _, folder := range []string{"said", "statuses"} {
		require.NoError(t, os.Mkdir(filepath.Join(r.dir, folder), 0o700))
	}
	return r
}

func (r run) said(page string, block int) string {
	return filepath.Join(r.dir, "said", fmt.Sprintf("%s.%d", strings.ReplaceAll(page, "/", "_"), block))
}

func (r run) statuses(page string, block, stanza int) string {
	return filepath.Join(r.dir, "statuses", fmt.Sprintf("%s.%d.%d", strings.ReplaceAll(page, "/", "_"), block, stanza))
}

// script returns the commands of a page's session, or of its part that needs Python.
func (r run) script(page string, blocks []block, python bool) (script string) {
	for i, b := range blocks {
		if b.python != python {
			continue
		}
		script += "{\n"
		for j, stanza := range b.stanzas() {
			script += systemtest.CurlStatuses + "=" + r.statuses(page, i, j) + "\n" + stanza + "\n"
		}
		script += "} > " + r.said(page, i) + " 2>&1\n"
	}
	return script
}

// sh runs a script in the folder of the run.
func (r run) sh(t *testing.T, script string) (out []byte, err error) {
	cmd := exec.CommandContext(t.Context(), "sh", "-eu")
	cmd.Dir, cmd.Stdin = r.dir, strings.NewReader("export "+systemtest.CurlStatuses+"\n"+script)
	cmd.Env = append(os.Environ(), "PATH="+systemtest.RecordingCurl(t)+string(os.PathListSeparator)+os.Getenv("PATH"))
	return cmd.CombinedOutput()
}

// requirePromises fails unless a page's blocks did what the page says: each error is announced by a remark of its
// stanza, and occurs; so is a rejected row, by one of the block; what is shown behind a block was printed, and so were the amounts in its remarks.
func (r run) requirePromises(t *testing.T, page string, blocks []block, python bool) {
	for i, b := range blocks {
		if b.python != python {
			continue
		}
		text := string(systemtest.ReadFile(t, r.said(page, i)))
		requireInOrder(t, text, b.shown, page)
		if strings.Contains(text, `"status":"rejected"`) {
			require.Contains(t, strings.Join(remarks(b.commands), "\n"), "rejected", "%s: a row was rejected, which no remark announces, in\n%s\nwhich printed\n%s", page, b.commands, text)
		}
		for j, stanza := range b.stanzas() {
			expected, failed := map[string]bool{}, map[string]bool{}
			for _, comment := range remarks(stanza) {
				for _, m := range announced.FindAllStringSubmatch(comment, -1) {
					expected[m[1]] = true
				}
				if money.MatchString(comment) {
					for _, m := range money.FindAllStringSubmatch(comment, -1) {
						sum := m[1]
						require.Regexp(t, `"-?`+strings.TrimRight(sum, "0")+`0*"`, text, "%s: nothing prints the %s of: %s", page, sum, comment)
					}
				}
			}
			answers, err := os.ReadFile(r.statuses(page, i, j))
			require.True(t, err == nil || os.IsNotExist(err), err)
			for _, m := range regexp.MustCompile(`(?m)^([045]\d\d) (.*)$`).FindAllStringSubmatch(string(answers), -1) {
				require.True(t, expected[m[1]], "%s: %s was answered %s, which no remark announces, in\n%s\nwhich printed\n%s", page, m[2], m[1], stanza, text)
				failed[m[1]] = true
			}
			require.Equal(t, expected, failed, "%s announces statuses of\n%s", page, stanza)
		}
	}
}

// requireInOrder fails unless a text has all parts, one behind the other.
func requireInOrder(t *testing.T, text string, parts []string, page string) {
	rest := text
	for _, part := range parts {
		_, after, found := strings.Cut(rest, part)
		require.True(t, found, "%s: no %s in\n%s\nof\n%s", page, part, rest, text)
		rest = after
	}
}

// TestSessions runs every session as it stands on its page.
func TestSessions(t *testing.T) {
	t.Parallel()
	r := newRun(t)
	exe, err := exec.LookPath("muniment")
	require.NoError(t, err)
	require.NoError(t, os.Mkdir(filepath.Join(r.dir, "bin"), 0o700)) // as make run leaves it
	require.NoError(t, os.Symlink(exe, filepath.Join(r.dir, "bin", "muniment")))
	examples, err := filepath.Abs(filepath.Join("gateway", "adapter", "examples"))
	require.NoError(t, err)
	require.NoError(t, os.MkdirAll(filepath.Join(r.dir, "gateway", "adapter"), 0o700))
	require.NoError(t, os.Symlink(examples, filepath.Join(r.dir, "gateway", "adapter", "examples")))
	s := systemtest.NotStarted(t, filepath.Join(r.dir, "muniment-data"))
	s.Start()

	pages := append([]string{"README.md"}, sessionPages...)
	script := ""
	for _, page := range pages {
		commands := r.script(page, sessionOf(t, page), false)
		require.NotEmpty(t, commands, page)
		if page != "README.md" {
			commands = "(\n" + commands + ")\n"
		}
		script += commands
	}
	script = strings.NewReplacer("http://127.0.0.1:8080", s.Client.API, "http://127.0.0.1:9090", s.Server.Admin).Replace(script)
	out, failed := r.sh(t, script)
	for _, page := range pages {
		t.Run(page, func(t *testing.T) {
			blocks, said := sessionOf(t, page), ""
			for i, b := range blocks {
				if !b.python {
					text, err := os.ReadFile(r.said(page, i))
					require.NoError(t, err, "the session before has failed: %v, %s", failed, out)
					said += string(text)
				}
			}
			r.requirePromises(t, page, blocks, false)
			requireInOrder(t, said, answered[page], page)
		})
	}
	require.NoError(t, failed, string(out))
	require.NoFileExists(t, filepath.Join(r.dir, "muniment-data", "keys", "root.skey"))
	for _, data := range []string{"fresh", "restored"} { // which procedures.md has made
		started := systemtest.NotStarted(t, filepath.Join(r.dir, data))
		started.Start()
	}
	requireOperations(t, s)
}

// TestSessionOnYourOwnMachine runs the receiver that the page of webhooks shows, at a service that may send to it.
func TestSessionOnYourOwnMachine(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("there is no Python")
	}
	const page = "control/webhooks.md"
	s := systemtest.NewService(t, "--webhook-allow", "127.0.0.1")
	port, err := system.FreePort()
	require.NoError(t, err)
	r, blocks := newRun(t), sessionOf(t, page)
	script := "URL=" + s.Client.API + "\nKEY=" + s.Client.Key + "\n" + strings.ReplaceAll(r.script(page, blocks, true), "9000", port)
	out, err := r.sh(t, script)
	require.NoError(t, err, string(out))
	r.requirePromises(t, page, blocks, true)
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
		for _, b := range sessionOf(t, page) {
			if b.python {
				python += b.commands
			}
			made += b.commands
		}
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
			require.Regexp(t, `(-o|tee|>) `+regexp.QuoteMeta(name)+`\b`, made)
		}
	}
}
