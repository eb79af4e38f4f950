package alerttest

import (
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestType: a command that a server refuses fails, as does one that prints nothing; what is not ready says so.
func TestType(t *testing.T) {
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("there is no curl")
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/readyz":
			http.Error(w, `{"ready":false}`, http.StatusServiceUnavailable)
		case "/metrics":
			_, _ = w.Write([]byte("muniment_rights_lease_age_seconds 1\n"))
		default:
			http.Error(w, "the token is wrong", http.StatusUnauthorized)
		}
	}))
	defer server.Close()
	if line := os.Getenv("MUNIMENT_TEST_TYPED"); line != "" {
		Terminal{Dir: t.TempDir(), Env: []string{"ADMIN=" + server.URL, "NO_PROXY=127.0.0.1"}}.Type(t, "<!-- a test runs these commands -->\n```sh\n"+line+"\n```\n", true)
		return
	}
	for line, works := range map[string]bool{
		"curl -s $ADMIN/readyz":                                      true,
		"curl -s $ADMIN/metrics | grep lease_age":                    true,
		"curl -sS http://127.0.0.1:1/readyz    # fails as long as x": true,
		"curl -s -H 'Authorization: Bearer x' $ADMIN/debug/tenants":  false,
		"curl -s $ADMIN/metrics | grep nothing":                      false,
		"true":                                                       false,
	} {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestType$")
		cmd.Env = append(os.Environ(), "MUNIMENT_TEST_TYPED="+line)
		out, err := cmd.CombinedOutput()
		require.Equal(t, works, err == nil, "%s\n%s", line, out)
		require.Contains(t, string(out), strings.ToUpper(map[bool]string{true: "pass", false: "fail"}[works]))
	}
}
