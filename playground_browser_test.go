//go:build browser

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestPlaygroundInABrowser has Chromium visit the page of a running service: control/playground/browser
// is what it does there.
func TestPlaygroundInABrowser(t *testing.T) {
	s := newService(t, "--sandbox-burst", "100000", "--sandbox-sustained", "100000")
	root, err := os.ReadFile("sealer/testdata/root.vkey")
	require.NoError(t, err)
	pack, err := filepath.Abs("sealer/testdata/good/chain-1.ndjson")
	require.NoError(t, err)
	inBrowser(t, "story.js", "URL="+s.client.API, "PACK="+pack, "ROOT="+strings.TrimSpace(string(root)))
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
	box, address := openMailbox(t)
	s := newService(t, "--mail-smtp", address, "--mail-from", "keys@muniment.example", "--mail-tls", "none", "--public-url", "https://muniment.example")
	a := applicant{t, s.client.API, s.data}
	inBrowser(t, "access.js", "URL="+a.url)
	until(t, func() bool { return len(a.list()) == 1 }, "the application is there")
	muniment(t, "access", "approve", "--data", a.data, a.list()[0].ID)
	token := box.token(t, "ada@example.org", "https://muniment.example")

	rootFile, pack := filepath.Join(s.data, "keys", "root.vkey"), filepath.Join(t.TempDir(), "pack.ndjson")
	root, err := os.ReadFile(rootFile)
	require.NoError(t, err)
	inBrowser(t, "access.js", "URL="+a.url, "LINK="+a.url+"/playground#activate="+token, "ROOT="+strings.TrimSpace(string(root)), "PACK="+pack)
	require.Contains(t, muniment(t, "verify", "--root", rootFile, pack), "signature.ok")
}

// TestDocsInABrowser searches the documentation, and tries a request from there.
func TestDocsInABrowser(t *testing.T) {
	s := newService(t)
	inBrowser(t, "docs.js", "URL="+s.client.API, "KEY="+s.client.Key)
}
