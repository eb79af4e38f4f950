package systemtest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// systemPath is PATH without the commands of Main: the scripts find the system's curl there.
var systemPath = os.Getenv("PATH")

// Engine is a server of a test's own, which it may kill.
type Engine struct {
	*testing.T
	name, dir string
	env       []string
}

// StartEngine starts one by its script in deploy/stack.
func StartEngine(t *testing.T, name string, env ...string) *Engine {
	t.Helper()
	e := &Engine{T: t, name: name, dir: t.TempDir()}
	require.NoError(t, os.Chmod(filepath.Dir(e.dir), 0o755)) // PostgreSQL runs as another user
	cache := os.Getenv("MUNIMENT_TEST_KAFKA_CACHE")
	require.NotEmpty(t, cache, "deploy/stack/stack.sh env names it")
	e.env = append(append(os.Environ(), "MUNIMENT_STACK="+e.dir, "MUNIMENT_STACK_CACHE="+cache, "PATH="+systemPath), env...)
	t.Cleanup(func() { e.Do("down") })
	e.Do("up")
	return e
}

// Do runs the script, and returns what it printed.
func (e *Engine) Do(arg ...string) string {
	e.Helper()
	// A file: what the script starts inherits it, and a pipe would be waited for.
	out, err := os.CreateTemp(e.dir, "said")
	require.NoError(e, err)
	defer out.Close()
	cmd := exec.Command(filepath.Join("deploy", "stack", e.name+".sh"), arg...)
	cmd.Env, cmd.Stdout, cmd.Stderr = e.env, out, out
	err = cmd.Run()
	said, readErr := os.ReadFile(out.Name())
	require.NoError(e, readErr)
	require.NoError(e, err, "%s.sh %v: %s", e.name, arg, said)
	return string(said)
}

// PID is in a file of the engine.
func (e *Engine) PID(file string) int {
	e.Helper()
	text, err := os.ReadFile(filepath.Join(e.dir, e.name, file))
	require.NoError(e, err)
	first, _, _ := strings.Cut(string(text), "\n")
	pid, err := strconv.Atoi(first)
	require.NoError(e, err)
	return pid
}

// Variable is one of those that the script's env prints.
func (e *Engine) Variable(name string) string {
	e.Helper()
	for line := range strings.Lines(e.Do("env")) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), "export "+name+"="); ok {
			return strings.Trim(value, "'")
		}
	}
	require.Fail(e, name+" is not printed")
	return ""
}
