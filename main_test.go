package main

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

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

// curl does what the sessions of the pages use of the real one: -s, -X, -H, -d, --data-binary
// with a file, -o, and -c and -b with a file of cookies.
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
		case "--data-binary":
			text, err := os.ReadFile(strings.TrimPrefix(value, "@"))
			if err != nil {
				return err
			}
			body = string(text)
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
