package service

import (
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"muniment.example/bench/system"
	"muniment.example/bench/waittest"
)

// TestCommands runs the scripts of bench/service/testdata/commands, in the form of testscript, which has
// three commands more here: "serve DIR FLAG …" runs muniment up on a data folder until the
// script ends, its log in DIR.log, and sets $API, $LISTEN and $ADMIN; "await TEXT FILE" waits
// until a file holds a text; "status N COMMAND …" runs a command that must exit with N.
// $EVIDENCE is the sealer's test data.
func TestCommands(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: filepath.Join("bench", "service", "testdata", "commands"),
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
				waittest.Until(t, func() bool { return strings.Contains(ts.ReadFile(args[1]), args[0]) })
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
