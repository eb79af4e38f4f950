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
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/stretchr/testify/require"

	"muniment/bench"
)

// TestMain lets the test binary be muniment, or the part of curl that the README
// uses, when it is called by that name.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"muniment": main, "curl": func() {
		if err := curl(os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, "curl:", err)
			os.Exit(1)
		}
	}})
}

// TestCommands runs the scripts of testdata/commands, in the form of testscript, which has
// three commands more here: "serve DIR" runs muniment up on a data folder until the script
// ends, its log in DIR.log, and sets $API, $LISTEN and $ADMIN; "await TEXT FILE" waits until
// a file holds a text; "status N COMMAND …" runs a command that must exit with N.
func TestCommands(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: filepath.Join("testdata", "commands"),
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"serve": func(ts *testscript.TestScript, neg bool, args []string) {
				server, err := bench.StartServer(t.Context(), muniment(t), ts.MkAbs(args[0]), "127.0.0.1:0", "127.0.0.1:0")
				ts.Check(err)
				ts.Defer(server.Kill)
				ts.Setenv("API", server.API)
				ts.Setenv("LISTEN", strings.TrimPrefix(server.API, "http://"))
				ts.Setenv("ADMIN", strings.TrimPrefix(server.Admin, "http://"))
			},
			"await": func(ts *testscript.TestScript, neg bool, args []string) {
				require.Eventually(t, func() bool { return strings.Contains(ts.ReadFile(args[1]), args[0]) }, time.Minute, 5*time.Millisecond)
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

// muniment returns the path of a muniment binary: this test binary under another name.
func muniment(t *testing.T) string {
	t.Helper()
	return install(t, t.TempDir(), "muniment")
}

// install links the test binary under a name. A hard link, so that the process
// sees the new name as its own; copied where the folder is on another disk.
func install(t *testing.T, dir, name string) string {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	exe := filepath.Join(dir, name)
	if os.Link(self, exe) == nil {
		return exe
	}
	b, err := os.ReadFile(self)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(exe, b, 0o700))
	return exe
}

// sessions are the README's blocks of commands that go on where the one before ended,
// those that need Python apart.
func sessions(t *testing.T) (shell, python string) {
	readme, err := os.ReadFile("README.md")
	require.NoError(t, err)
	for _, m := range regexp.MustCompile("(?s)<!-- session([^\n]*) -->\n```sh\n(.*?)```").FindAllStringSubmatch(string(readme), -1) {
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
	session, _ := sessions(t)
	dir, tools := t.TempDir(), t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "bin"), 0o700)) // as make run leaves it
	exe := install(t, filepath.Join(dir, "bin"), "muniment")
	install(t, tools, "curl")
	server, err := bench.StartServer(t.Context(), exe, filepath.Join(dir, "muniment-data"), "127.0.0.1:0", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(server.Kill)

	script := strings.Replace(session, "http://127.0.0.1:8080", server.API, 1)
	require.Contains(t, script, server.API)
	cmd := exec.CommandContext(t.Context(), "sh", "-eu")
	cmd.Dir, cmd.Stdin = dir, strings.NewReader(script)
	cmd.Env = append(os.Environ(), "PATH="+tools+":"+os.Getenv("PATH"))
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	said := string(out)
	require.Contains(t, said, `"metered":true`, "the first delivery")
	require.Contains(t, said, `"error":"PRECONDITION_FAILED"`, "the second")
	require.Contains(t, said, "AUTOMOTIVE_SPEED_EXCEEDED")
	require.Contains(t, said, `"receipts":1`, "metering")
	_, said, verdict := strings.Cut(said, "Sound: 1 file.")
	require.True(t, verdict, "of the pack")
	for _, told := range []string{`"holderOrgId":"org_transit"`, `"state":"UPHELD"`, `"state":"REVOKED"`, `"rebound":false`, `"refused":true`} {
		require.Contains(t, said, told)
	}
	_, said, verdict = strings.Cut(said, "Sound: 1 file.")
	require.True(t, verdict, "of the visitor's pack")
	said, after, verdict := strings.Cut(said, "Sound: 6 files.")
	require.True(t, verdict, "of all proofs")
	for _, code := range []string{"signature.ok", "inclusion.ok", "checkpoint.ok", "consistency.ok", "witness.ok"} {
		require.Contains(t, said, code)
	}
	for _, told := range []string{
		"is revoked since", "on every live node", "signs from", "is valid until", "backed up to", "checkpoint.json: tenant tnt_", "restored ",
	} {
		require.Contains(t, after, told)
	}
	require.NoFileExists(t, filepath.Join(dir, "muniment-data", "keys", "root.skey"))
}

// TestOneAnchor: of two lists of keys, two roots or two checkpoints, none is dropped
// without a word, and an empty one is not taken for none.
func TestOneAnchor(t *testing.T) {
	exe := muniment(t)
	const keys, root, pack = "sealer/testdata/good/keys.json", "sealer/testdata/root.vkey", "sealer/testdata/good/chain-1.ndjson"
	for _, c := range []struct {
		args    []string
		refused string
	}{
		{[]string{"--keys", keys}, ""},
		{[]string{"--root", root, "--keys", keys}, ""},
		{[]string{"--root", root, "--expect-checkpoint", pack}, ""},
		{[]string{"--keys", keys, "--keys", keys}, "it is given twice"},
		{[]string{"--keys=/dev/null", "--keys", keys}, "it is given twice"},
		{[]string{"--root=/dev/null", "--root", root}, "it is given twice"},
		{[]string{"--root", root, "--expect-checkpoint=/dev/null", "--expect-checkpoint", pack}, "it is given twice"},
		{[]string{"--root=", "--keys", keys}, "it is empty"},
		{[]string{"--keys=", "--keys", keys}, "it is empty"},
		{[]string{"--root", root, "--keys="}, "it is empty"},
		{[]string{"--root", root, "--expect-checkpoint="}, "it is empty"},
	} {
		out, err := exec.Command(exe, append(append([]string{"verify"}, c.args...), pack)...).CombinedOutput()
		require.Equal(t, c.refused == "", err == nil, "%v: %s", c.args, out)
		require.Contains(t, string(out), c.refused, c.args)
	}
}

// TestVerifyFlags: evidence of the sandbox is refused on demand, and the bound is the user's.
func TestVerifyFlags(t *testing.T) {
	exe := muniment(t)
	const sandbox, late = "sealer/testdata/good/sandbox.json", "sealer/testdata/bad/stops-37-1.ndjson"
	for _, c := range []struct {
		args []string
		exit int
		says string
	}{
		{[]string{sandbox}, 0, "ok    key.sandbox"},
		{[]string{"--no-sandbox", sandbox}, 1, "FAIL  key.sandbox"},
		{[]string{late}, 1, "FAIL  apikey.revoked"},
		{[]string{"--bound=91s", late}, 0, "Sound: 1 file."},
	} {
		cmd := exec.Command(exe, append([]string{"verify", "--root", "sealer/testdata/root.vkey"}, c.args...)...)
		out, _ := cmd.CombinedOutput()
		require.Contains(t, string(out), c.says, c.args)
		require.Equal(t, c.exit, cmd.ProcessState.ExitCode(), "%v: %s", c.args, out)
	}
	out, err := exec.Command(exe, "verify", "--bound=0s", late).CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(out), "--bound must be greater than 0")
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
	readme, err := os.ReadFile("README.md")
	require.NoError(t, err)
	makefile, err := os.ReadFile("Makefile")
	require.NoError(t, err)
	targets := regexp.MustCompile("(?m)(?:^|`)make ([a-z-]+)").FindAllSubmatch(readme, -1)
	require.NotEmpty(t, targets)
	for _, m := range targets {
		require.Regexp(t, `(?m)^`+string(m[1])+`:`, string(makefile))
	}
	require.Regexp(t, `(?s)^# Muniment\n\n`+"```sh\nmake demo .*\nmake test ", string(readme), "the README starts with two commands")
}

// curl does what the README's session asks of the real one: -s, -X, -H, -d, -o, and
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
