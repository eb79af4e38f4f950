package service

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/bench/system/systemtest"
)

// TestFirstDelivery runs the programs of the page for integrators: through refusals that pass and an answer that is lost
// each delivers its play once, and it gives up what is refused for good.
func TestFirstDelivery(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ language, file, runtime string }{{"python", "first.py", "python3"}, {"js", "first.mjs", "node"}} {
		t.Run(c.language, func(t *testing.T) {
			t.Parallel()
			runtime, err := exec.LookPath(c.runtime)
			if err != nil {
				t.Skip("there is no " + c.runtime)
			}
			firstDelivery(t, c.language, c.file, runtime)
		})
	}
}

// firstDelivery runs the program of a language by a command to which the name of its file is added.
func firstDelivery(t *testing.T, language, file string, command ...string) {
	page := string(systemtest.ReadFile(t, "gateway/integrating.md"))
	program := regexp.MustCompile("(?s)<!-- a test runs this program[^\n]* -->\n```" + language + "\n(.*?)```").FindStringSubmatch(page)
	require.NotNil(t, program)
	file = filepath.Join(t.TempDir(), file)
	require.NoError(t, os.WriteFile(file, []byte(program[1]), 0o600))

	s := systemtest.NewService(t)
	service, err := url.Parse(s.Client.API)
	require.NoError(t, err)
	proxy := httputil.NewSingleHostReverseProxy(service)
	type attempt struct {
		key, body string
		at        time.Time
	}
	// run returns the attempts that the program makes of answers, one each, and what it prints.
	run := func(answers ...http.HandlerFunc) (attempts []attempt, printed string, failed error) {
		var mu sync.Mutex
		front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			body, _ := io.ReadAll(req.Body) // the bodies are compared
			req.Body = io.NopCloser(bytes.NewReader(body))
			mu.Lock()
			attempts = append(attempts, attempt{req.Header.Get("Idempotency-Key"), string(body), time.Now()})
			answer := answers[min(len(attempts), len(answers))-1]
			mu.Unlock()
			answer(w, req)
		}))
		defer front.Close()
		cmd := exec.CommandContext(t.Context(), command[0], append(command[1:], file)...)
		cmd.Env = append(os.Environ(), "MUNIMENT_URL="+front.URL, "MUNIMENT_API_KEY="+s.Client.Key, "RIGHT_ID="+s.Rights["DOOH"], "NO_PROXY=127.0.0.1", "no_proxy=127.0.0.1")
		out, err := cmd.CombinedOutput()
		return attempts, string(out), err
	}
	refuse := func(status int, retryAfter string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			if retryAfter != "" {
				w.Header().Set("Retry-After", retryAfter)
			}
			http.Error(w, "refused so", status)
		}
	}
	lost := func(_ http.ResponseWriter, req *http.Request) {
		proxy.ServeHTTP(httptest.NewRecorder(), req)
		panic(http.ErrAbortHandler)
	}

	attempts, printed, err := run(refuse(503, "2"), lost, refuse(409, "1"), proxy.ServeHTTP)
	require.NoError(t, err, printed)
	require.Len(t, attempts, 4)
	require.Regexp(t, `^rcp_[0-9A-Z]{26}\s*$`, printed)
	require.NotEmpty(t, attempts[0].key)
	for _, a := range attempts[1:] {
		require.Equal(t, attempts[0].key, a.key)
		require.Equal(t, attempts[0].body, a.body)
	}
	require.GreaterOrEqual(t, attempts[1].at.Sub(attempts[0].at), 2*time.Second, "retry-after")

	for _, status := range []int{412, 409, 422} {
		attempts, printed, err = run(refuse(status, ""))
		require.Error(t, err, status)
		require.Contains(t, printed, "refused so")
		require.Len(t, attempts, 1, strings.TrimSpace(printed))
	}
}
