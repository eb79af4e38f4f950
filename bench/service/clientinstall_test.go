//go:build httpclients

package service

import (
	"debug/buildinfo"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/bench/system/systemtest"
)

// shut are the variables with which a program that is not content with this machine fails: there is
// nothing at these proxies.
var shut = []string{
	"HTTP_PROXY=http://127.0.0.1:9", "HTTPS_PROXY=http://127.0.0.1:9", "http_proxy=http://127.0.0.1:9", "https_proxy=http://127.0.0.1:9",
	"npm_config_registry=http://127.0.0.1:9", "PIP_INDEX_URL=http://127.0.0.1:9", "NO_PROXY=127.0.0.1", "no_proxy=127.0.0.1",
}

// TestClientsInstall makes what the clients are installed from, and installs each into an empty project
// from that folder alone, by the commands of integrating.md. What its page shows then runs against a
// service. The short form leaves the Go client out, whose size TestClientIsSmall bounds.
func TestClientsInstall(t *testing.T) {
	python := os.Getenv("MUNIMENT_TEST_PYTHON")
	require.NotEmpty(t, python, "make test-http-clients says which Python has cryptography")
	s := systemtest.NewService(t)
	release := filepath.Join(t.TempDir(), "release")
	newest := regexp.MustCompile(`(?m)^## (v(\S+))`).FindStringSubmatch(string(systemtest.ReadFile(t, "deploy/CHANGELOG.md")))
	require.NotNil(t, newest)
	tag, version := newest[1], newest[2]
	full := os.Getenv("MUNIMENT_TEST_FULL") != ""
	languages := "typescript,python"
	if full {
		languages += ",go"
	}
	made, err := exec.CommandContext(t.Context(), "go", "run", "./deploy/release", "--clients", languages, "--version", tag, "--revision", "none", "--time", "1795000000", "--out", release).CombinedOutput()
	require.NoError(t, err, string(made))
	modules, err := filepath.Abs("gateway/client/typescript/node_modules")
	require.NoError(t, err)
	page := string(systemtest.ReadFile(t, "gateway/integrating.md"))
	install := regexp.MustCompile("(?s)<!-- a test runs these commands, a paragraph for each client -->\n```sh\n(.*?)```").FindStringSubmatch(page)
	require.NotNil(t, install)
	paragraphs := strings.Split(install[1], "\n\n")
	require.Len(t, paragraphs, 3)
	root := string(systemtest.ReadFile(t, filepath.Join(s.Data, "keys", "root.vkey")))
	environment := append(os.Environ(), append(shut, "RELEASE="+release, "MUNIMENT_URL="+s.Client.API, "MUNIMENT_API_KEY="+s.Client.Key, "RIGHT_ID="+s.Rights["DOOH"],
		"ROOT_KEY="+root, "WEBHOOK_SECRET=whsec_c2VjcmV0")...)
	// project is an empty one, with a client in it.
	project := func(t *testing.T, paragraph string, env ...string) (dir string, run func(env []string, command ...string) string) {
		dir = t.TempDir()
		run = func(more []string, command ...string) string {
			t.Helper()
			cmd := exec.CommandContext(t.Context(), command[0], command[1:]...)
			cmd.Dir, cmd.Env = dir, append(append(append([]string{}, environment...), append(env, "PLAYS="+filepath.Join(t.TempDir(), "plays"))...), more...)
			out, err := cmd.CombinedOutput()
			require.NoError(t, err, "%q: %s", command, out)
			return string(out)
		}
		require.Contains(t, paragraph, version, "the page has another version")
		run(nil, "sh", "-ec", paragraph)
		return dir, run
	}
	// examples are a page's programs in a language, and what each prints.
	examples := func(page, language string) (programs, prints []string) {
		for _, m := range regexp.MustCompile("(?ms)^```"+language+"\n(.*?)^```$").FindAllStringSubmatch(string(systemtest.ReadFile(t, page)), -1) {
			says := regexp.MustCompile(`(?m)(?://|#) prints: (.*)$`).FindStringSubmatch(m[1])
			require.NotNil(t, says, m[1])
			programs, prints = append(programs, m[1]), append(prints, says[1])
		}
		require.GreaterOrEqual(t, len(programs), 5)
		return programs, prints
	}

	t.Run("TypeScript", func(t *testing.T) {
		programs, prints := examples("gateway/client/typescript/README.md", "ts")
		dir, run := project(t, paragraphs[0])
		require.NoError(t, os.WriteFile(filepath.Join(dir, "package.json"), []byte(`{"type": "module"}`), 0o600))
		compile := []string{"node", filepath.Join(modules, "typescript", "bin", "tsc"), "--strict", "--target", "es2022", "--module", "nodenext", "--types", "node",
			"--typeRoots", filepath.Join(modules, "@types")}
		for i, program := range programs {
			name := "example" + string(rune('a'+i)) + ".ts"
			require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(program), 0o600))
			compile = append(compile, name)
		}
		run(nil, compile...)
		for i, says := range prints {
			require.Contains(t, run(nil, "node", "example"+string(rune('a'+i))+".js"), says)
		}
		require.Contains(t, run(nil, "npm", "ls", "--offline"), "muniment-client@"+version)
	})
	t.Run("Python", func(t *testing.T) {
		programs, prints := examples("gateway/client/python/README.md", "python")
		installed := t.TempDir()
		path := "PATH=" + filepath.Dir(python) + string(os.PathListSeparator) + os.Getenv("PATH")
		_, run := project(t, paragraphs[1], path, "PIP_TARGET="+installed)
		for i, program := range programs {
			require.Contains(t, run([]string{"PYTHONPATH=" + installed}, python, "-c", program), prints[i])
		}
		require.Equal(t, version+" Muniment authors Apache-2.0 >=3.11 ['cryptography>=42; extra == \"verify\"']\n", run([]string{"PYTHONPATH=" + installed}, python, "-c", `
import importlib.metadata, muniment_client.version
m = importlib.metadata.metadata("muniment-client")
assert m["Version"] == muniment_client.version.VERSION
print(m["Version"], m["Author"], m["License-Expression"], m["Requires-Python"], m.get_all("Requires-Dist"))`))
	})
	t.Run("Go", func(t *testing.T) {
		if !full {
			t.Skip("packs the libraries too: MUNIMENT_TEST_FULL=1")
		}
		program := regexp.MustCompile("(?s)<!-- a test runs this program[^\n]* -->\n```go\n(.*?)```").FindStringSubmatch(page)
		require.NotNil(t, program)
		dir, run := project(t, paragraphs[2], "GOMODCACHE="+filepath.Join(t.TempDir(), "modules"), "GOFLAGS=-trimpath -modcacherw", "GOWORK=off", "CGO_ENABLED=0", "GOTOOLCHAIN=local")
		require.NoError(t, os.WriteFile(filepath.Join(dir, "main.go"), []byte(program[1]), 0o600))
		own := []string{"GOPROXY=off", "GONOSUMDB=*", "GOSUMDB=off"}
		run(own, "go", "build", "-o", "program")
		require.Contains(t, run(nil, "./program"), "METERED")
		agent := make(chan string, 1)
		refusing := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			agent <- r.UserAgent()
			w.WriteHeader(http.StatusNotFound)
		}))
		t.Cleanup(refusing.Close)
		refused := exec.CommandContext(t.Context(), filepath.Join(dir, "program"))
		refused.Env = append(append([]string{}, environment...), "MUNIMENT_URL="+refusing.URL)
		require.Error(t, refused.Run())
		require.Equal(t, "muniment-go/"+tag, <-agent)
		info, err := buildinfo.ReadFile(filepath.Join(dir, "program"))
		require.NoError(t, err)
		require.LessOrEqual(t, len(info.Deps), 20, "a user of the client links many modules: %v", info.Deps)
		size, err := os.Stat(filepath.Join(dir, "program"))
		require.NoError(t, err)
		require.LessOrEqual(t, size.Size(), int64(15_000_000), "a user of the client links more than 15 MB")
		t.Logf("a user of the Go client links %d modules, %.1f MB", len(info.Deps), float64(size.Size())/1e6)
	})
}
