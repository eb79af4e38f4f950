package main

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/stretchr/testify/require"

	"muniment/bench/system"
)

// TestCommands runs the scripts of testdata/commands, in the form of testscript, which has
// three commands more here: "serve DIR FLAG …" runs muniment up on a data folder until the
// script ends, its log in DIR.log, and sets $API, $LISTEN and $ADMIN; "await TEXT FILE" waits
// until a file holds a text; "status N COMMAND …" runs a command that must exit with N.
// $EVIDENCE is the sealer's test data.
func TestCommands(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: filepath.Join("testdata", "commands"),
		Setup: func(env *testscript.Env) error {
			evidence, err := filepath.Abs(filepath.Join("sealer", "testdata"))
			env.Setenv("EVIDENCE", evidence)
			return err
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"serve": func(ts *testscript.TestScript, neg bool, args []string) {
				server, err := system.StartServer(t.Context(), "muniment", ts.MkAbs(args[0]), "127.0.0.1:0", "127.0.0.1:0", args[1:]...)
				ts.Check(err)
				ts.Defer(server.Kill)
				ts.Setenv("API", server.API)
				ts.Setenv("LISTEN", strings.TrimPrefix(server.API, "http://"))
				ts.Setenv("ADMIN", strings.TrimPrefix(server.Admin, "http://"))
			},
			"await": func(ts *testscript.TestScript, neg bool, args []string) {
				until(t, func() bool { return strings.Contains(ts.ReadFile(args[1]), args[0]) })
			},
			"status": func(ts *testscript.TestScript, neg bool, args []string) {
				err := ts.Exec(args[1], args[2:]...)
				status := 0
				if exit, ok := errors.AsType[*exec.ExitError](err); ok {
					status = exit.ExitCode()
				} else {
					ts.Check(err)
				}
				if fmt.Sprint(status) != args[0] {
					ts.Fatalf("it exited with %d, not %s", status, args[0])
				}
			},
		},
	})
}

// sessions are the README's blocks of commands that go on where the one before ended,
// those that need Python apart.
func sessions(t *testing.T) (shell, python string) {
	for _, m := range regexp.MustCompile("(?s)<!-- session([^\n]*) -->\n```sh\n(.*?)```").FindAllStringSubmatch(string(read(t, "README.md")), -1) {
		if strings.Contains(m[1], "Python") {
			python += m[2]
		} else {
			shell += m[2]
		}
	}
	return shell, python
}

// TestReadmeSession runs the README's session as it stands there, against a
// server of its own.
func TestReadmeSession(t *testing.T) {
	t.Parallel()
	session, _ := sessions(t)
	dir := t.TempDir()
	exe, err := exec.LookPath("muniment")
	require.NoError(t, err)
	require.NoError(t, os.Mkdir(filepath.Join(dir, "bin"), 0o700)) // as make run leaves it
	require.NoError(t, os.Symlink(exe, filepath.Join(dir, "bin", "muniment")))
	s := notStarted(t, filepath.Join(dir, "muniment-data"))
	s.start()

	script := strings.Replace(session, "http://127.0.0.1:8080", s.client.API, 1)
	require.Contains(t, script, s.client.API)
	cmd := exec.CommandContext(t.Context(), "sh", "-eu")
	cmd.Dir, cmd.Stdin = dir, strings.NewReader(script)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	said := string(out)
	require.Contains(t, said, `"metered":true`, "the first delivery")
	require.Contains(t, said, `"error":"PRECONDITION_FAILED"`, "the second")
	require.Contains(t, said, "AUTOMOTIVE_SPEED_EXCEEDED")
	require.Contains(t, said, `"receipts":1`, "metering")
	_, said, verdict := strings.Cut(said, "Sound: 1 file.")
	require.True(t, verdict, "of the pack")
	for _, response := range []string{`"status":"accepted"`, `AUTOMOTIVE_SPEED_EXCEEDED`, `"status":"unmapped"`, `"state":"HELD"`, `"vendorId":"8"`} {
		require.Contains(t, said, response, "plays in bulk")
	}
	for _, response := range []string{`"field":"shares","message":"must add up`, `"price":"0.006"`, `"state":"RETIRED"`} {
		require.Contains(t, said, response, "rules and who is paid")
	}
	for _, response := range []string{`"state":"ISSUED"`, "statement.ok", `"state":"SETTLED"`} {
		require.Contains(t, said, response, "statements")
	}
	require.NotContains(t, said, "statement.unproven")
	for _, response := range []string{`"holderOrgId":"org_transit"`, `"state":"UPHELD"`, `"state":"REVOKED"`, `"rebound":false`, `"refused":true`} {
		require.Contains(t, said, response)
	}
	_, said, verdict = strings.Cut(said, "Sound: 1 file.")
	require.True(t, verdict, "of the visitor's pack")
	said, after, verdict := strings.Cut(said, "Sound: 6 files.")
	require.True(t, verdict, "of all proofs")
	for _, code := range []string{"signature.ok", "inclusion.ok", "checkpoint.ok", "consistency.ok", "witness.ok"} {
		require.Contains(t, said, code)
	}
	for _, response := range []string{
		"was revoked at", "on every live node", "signs from", "is valid until", "backed up to", "checkpoint.json: tenant tnt_", "restored ",
	} {
		require.Contains(t, after, response)
	}
	require.NoFileExists(t, filepath.Join(dir, "muniment-data", "keys", "root.skey"))
}

// TestReadmePython reads the commands that need Python, without running them: they are
// sound, and every file that they name is there or made by the session.
func TestReadmePython(t *testing.T) {
	session, python := sessions(t)
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
			require.Regexp(t, `(-o|tee) `+regexp.QuoteMeta(name)+`\b`, session)
		}
	}
}

// TestReadmeNamesRealTargets holds the make targets that the README shows against
// the Makefile.
func TestReadmeNamesRealTargets(t *testing.T) {
	readme, makefile := read(t, "README.md"), read(t, "Makefile")
	targets := regexp.MustCompile("(?m)(?:^|`)make ([a-z-]+)").FindAllSubmatch(readme, -1)
	require.NotEmpty(t, targets)
	for _, m := range targets {
		require.Regexp(t, `(?m)^`+string(m[1])+`:`, string(makefile))
	}
	require.Regexp(t, `(?s)^# Muniment\n\n`+"```sh\nmake demo .*\nmake test ", string(readme), "the README starts with two commands")
}

// curl does what the README's session uses of the real one: -s, -X, -H, -d, -o, and
// -c and -b with a file of cookies.
func curl(args []string) error {
	method, url, body, file, jar := "", "", "", "", ""
	header := http.Header{}
	for i := 0; i < len(args); i++ {
		if args[i] == "-s" {
			continue
		}
		if !strings.HasPrefix(args[i], "-") {
			url = args[i]
			continue
		}
		if i+1 == len(args) {
			return fmt.Errorf("%s lacks its value", args[i])
		}
		switch flag, value := args[i], args[i+1]; flag {
		case "-X":
			method = value
		case "-H":
			name, v, _ := strings.Cut(value, ": ")
			header.Set(name, v)
		case "-d":
			body = value
		case "-o":
			file = value
		case "-c":
			jar = value
		case "-b":
			cookies, err := os.ReadFile(value)
			if err != nil {
				return err
			}
			header.Set("Cookie", string(cookies))
		default:
			return fmt.Errorf("the session may not use %s", flag)
		}
		i++
	}
	if body != "" {
		header.Set("Content-Type", "application/x-www-form-urlencoded") // as curl does
		if method == "" {
			method = http.MethodPost
		}
	}
	req, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		return err
	}
	req.Header = header
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if jar != "" {
		var kept []string
		for _, c := range resp.Cookies() {
			kept = append(kept, c.Name+"="+c.Value)
		}
		if err := os.WriteFile(jar, []byte(strings.Join(kept, "; ")), 0o600); err != nil {
			return err
		}
	}
	out := os.Stdout
	if file != "" {
		if out, err = os.Create(file); err != nil {
			return err
		}
		defer out.Close()
	}
	_, err = io.Copy(out, resp.Body)
	return err
}
