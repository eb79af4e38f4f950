package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/mod/modfile"
)

// TestReplace: a path is replaced where it is one.
func TestReplace(t *testing.T) {
	for text, want := range map[string]string{
		"module a.example\n":                       "module b.example/m\n",
		`import "a.example/gateway/client"`:        `import "b.example/m/gateway/client"`,
		"a.example":                                "b.example/m",
		"It is a.example. Then":                    "It is b.example/m. Then",
		"a.example/x a.example/y":                  "b.example/m/x b.example/m/y",
		"https://a.example/v1 keys@a.example":      "https://a.example/v1 keys@a.example",
		"not-a.example aa.example x.a.example":     "not-a.example aa.example x.a.example",
		"a.example.org a.examples a.example-1 a.e": "a.example.org a.examples a.example-1 a.e",
	} {
		require.Equal(t, want, string(replace([]byte(text), "a.example", "b.example/m")), text)
	}
}

// TestModuleIsRenamed gives a copy of the checkout another path. The old one stands nowhere as that of
// a module then; what users import and run builds, and each import is there. The long form compiles and
// vets all of it.
func TestModuleIsRenamed(t *testing.T) {
	text, err := os.ReadFile("../../go.mod")
	require.NoError(t, err)
	old, name := modfile.ModulePath(text), "git.example.org/ledgers"+"/ours" // which stands nowhere yet
	before, dir := copyOf(t), copyOf(t)
	command := func(args ...string) string {
		cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%q: %s", args, out)
		return string(out)
	}
	changed, err := rename(dir, old, name)
	require.NoError(t, err)
	require.Greater(t, changed, 100)

	for _, file := range strings.Split(strings.TrimSpace(command("find", ".", "-type", "f")), "\n") {
		text, err := os.ReadFile(filepath.Join(dir, file))
		require.NoError(t, err)
		require.Equal(t, bytes.Count(text, []byte(old)), bytes.Count(text, []byte("//"+old))+bytes.Count(text, []byte("@"+old)), "%s names the old module", file)
	}
	require.Empty(t, command("gofmt", "-l", "."))
	command("go", "list", "-deps", "-test", "-f", "{{.ImportPath}}", "./...")
	command("go", "build", "-o", filepath.Join(t.TempDir(), "verify"), "./sealer/verify/muniment-verify")
	if os.Getenv("MUNIMENT_TEST_FULL") != "" {
		command("go", "vet", "./...")
		command("go", "test", "-run", "^(TestImportMap|TestParts|TestFigures|TestDependsOnNoServer)", ".", "./bench/compare", "./sealer/verify/muniment-verify")
	}
	back, err := rename(dir, name, old)
	require.NoError(t, err)
	require.Equal(t, changed, back)
	require.Empty(t, command("git", "diff", "--no-index", "--stat", before, dir))
}

// copyOf copies the files that git knows.
func copyOf(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	out, err := exec.CommandContext(t.Context(), "git", "-C", "../..", "ls-files", "-z").Output()
	require.NoError(t, err)
	for name := range strings.SplitSeq(strings.Trim(string(out), "\x00"), "\x00") {
		text, err := os.ReadFile(filepath.Join("../..", name))
		if os.IsNotExist(err) {
			continue // deleted, and not committed yet
		}
		require.NoError(t, err)
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), text, 0o644))
	}
	return dir
}
