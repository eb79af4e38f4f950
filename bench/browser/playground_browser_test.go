//go:build browser

package browser

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/bench/system/systemtest"
	"muniment.example/bench/waittest"
)

// TestPlaygroundInABrowser has Chromium visit the page of a running service: control/playground/browser
// is what it does there.
func TestPlaygroundInABrowser(t *testing.T) {
	s := systemtest.NewService(t, "--sandbox-burst", "100000", "--sandbox-sustained", "100000")
	root, err := os.ReadFile("sealer/testdata/root.vkey")
	require.NoError(t, err)
	pack, err := filepath.Abs("sealer/testdata/good/chain-1.ndjson")
	require.NoError(t, err)
	inBrowser(t, "story.js", "URL="+s.Client.API, "PACK="+pack, "ROOT="+strings.TrimSpace(string(root)))
}

// inBrowser runs one of the scripts of control/playground/browser.
func inBrowser(t *testing.T, script string, env ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "node", "--test", script)
	cmd.Dir = "control/playground/browser"
	cmd.Env = append(os.Environ(), env...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	require.NoError(t, cmd.Run(), "what is above")
}

// TestAccessInABrowser is a stranger's whole way: an application on the page, an operator's approval,
// the mail by SMTP, its link, a key, a delivery, a pack, and both verifiers of it, that of the page and
// muniment verify.
func TestAccessInABrowser(t *testing.T) {
	box, address := systemtest.OpenMailbox(t)
	s := systemtest.NewService(t, "--mail-smtp", address, "--mail-from", "keys@muniment.example", "--mail-tls", "none", "--public-url", "https://muniment.example")
	a := systemtest.Applicant{T: t, URL: s.Client.API, Data: s.Data}
	inBrowser(t, "access.js", "URL="+a.URL)
	waittest.Until(t, func() bool { return len(a.List()) == 1 }, "the application is there")
	token := box.Token(t, "ada@example.org", "https://muniment.example", "confirm")
	inBrowser(t, "access.js", "URL="+a.URL, "LINK="+a.URL+"/playground#confirm="+token)
	systemtest.Command(t, "access", "approve", "--data", a.Data, a.List()[0].ID)
	token = box.Token(t, "ada@example.org", "https://muniment.example", "activate")

	rootFile, pack := filepath.Join(s.Data, "keys", "root.vkey"), filepath.Join(t.TempDir(), "pack.ndjson")
	root, err := os.ReadFile(rootFile)
	require.NoError(t, err)
	inBrowser(t, "access.js", "URL="+a.URL, "LINK="+a.URL+"/playground#activate="+token, "ROOT="+strings.TrimSpace(string(root)), "PACK="+pack)
	require.Contains(t, systemtest.Command(t, "verify", "--root", rootFile, pack), "signature.ok")
}

// TestDocsInABrowser searches the documentation, and tries a request from there.
func TestDocsInABrowser(t *testing.T) {
	s := systemtest.NewService(t)
	inBrowser(t, "docs.js", "URL="+s.Client.API, "KEY="+s.Client.Key)
}
