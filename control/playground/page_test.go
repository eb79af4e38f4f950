package playground

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"os/exec"
	"path"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func service(t *testing.T) *Service {
	t.Helper()
	s, err := New(Config{Visitors: struct{ Visitors }{}, Feed: NewFeed()})
	require.NoError(t, err)
	return s
}

// vendored are files that are not ours, with the SHA-256 of what their registry has.
var vendored = map[string]string{
	"noble-ed25519.js":          "82a4ddf5a0c6d48ee64e3fde32e332ba61f53b6bad2c9a7151266e73b942cf39",
	"noble-ed25519.LICENSE.txt": "394c2e6e5552e5dba202bee6390b9d6aa2754d657f5b9869e83b3d265a315501",
}

func TestVendoredFiles(t *testing.T) {
	files := service(t).files
	for name, want := range vendored {
		sum := sha256.Sum256(files[name].text)
		require.Equal(t, want, hex.EncodeToString(sum[:]), name)
	}
}

// TestEveryFileIsReached from the page, by the names in its files, and everything that they name
// is there.
func TestEveryFileIsReached(t *testing.T) {
	files := service(t).files
	reached := map[string]bool{"noble-ed25519.LICENSE.txt": true} // stands beside it for readers
	var reach func(name string)
	reach = func(name string) {
		if reached[name] {
			return
		}
		f, there := files[name]
		require.True(t, there, "%s is named, and not there", name)
		reached[name] = true
		for _, m := range regexp.MustCompile(`(?:src|href)="/playground/([^"]+)"|from '\./([^']+)'|^import '\./([^']+)'`).FindAllStringSubmatch(string(f.text), -1) {
			reach(m[1] + m[2] + m[3])
		}
	}
	reach("index.html")
	for name := range files {
		require.True(t, reached[name], "nothing leads to %s", name)
	}
}

// TestPolicyHolds: the policy blocks nothing that the page needs, and the page tries nothing that
// the policy is there for.
func TestPolicyHolds(t *testing.T) {
	for name, f := range service(t).files {
		text := string(f.text)
		if path.Ext(name) == ".html" {
			require.NotRegexp(t, `(?i)<style|<script[^>]*>[^<]|\son\w+=|\sstyle=|javascript:`, text, name)
			require.NotRegexp(t, `<script(?: type="module"| src="/playground/[\w.-]+")*\s[^ts]`, text, name)
		}
		if path.Ext(name) == ".js" {
			require.NotRegexp(t, `innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|setAttribute\('style'|\.style\b|localStorage|sessionStorage|indexedDB|document\.cookie`, text, name)
		}
		if vendored[name] != "" {
			continue
		}
		for _, address := range regexp.MustCompile(`(?:https?:|wss?:)?//[\w-]+\.[^\s'")]*`).FindAllString(text, -1) {
			require.Equal(t, "http://www.w3.org/2000/svg", address, "%s names another origin", name)
		}
		require.LessOrEqual(t, strings.Count(text, "\n"), 500, name)
	}
}

// TestVerification has node run the page's own verifier on the vectors of package sealer.
func TestVerification(t *testing.T) {
	node, err := exec.LookPath("node")
	if err != nil && os.Getenv("CI") != "true" {
		t.Skip("node is not installed, and it is what runs the page's verifier here: the tests in nodetest did not run")
	}
	require.NoError(t, err, "CI=true requires node")
	out, err := exec.CommandContext(t.Context(), node, "--test", "nodetest/").CombinedOutput()
	require.NoError(t, err, string(out))
	require.Regexp(t, `# pass \d{3}`, string(out), "the vectors were read")
}
