//go:build tools

package deploy

import (
	"crypto/tls"
	"crypto/x509"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/types"
	"github.com/stretchr/testify/require"
)

// TestReadme runs what the README says comes first, and uses what that leaves behind.
func TestReadme(t *testing.T) {
	text, err := os.ReadFile("README.md")
	require.NoError(t, err)
	block := regexp.MustCompile("(?s)<!-- a test runs these commands -->\n```sh\n(.*?)```").FindSubmatch(text)
	require.NotNil(t, block)
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "deploy"), 0o700))
	cmd := exec.Command("bash", "-euo", "pipefail", "-c", string(block[1]))
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))

	env := types.Mapping{}
	variables, err := os.ReadFile(filepath.Join(dir, "deploy", ".env"))
	require.NoError(t, err)
	for line := range strings.Lines(string(variables)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		env[name] = value
	}
	project, err := compose(t, env)
	require.NoError(t, err)
	at := func(secret string) string {
		return filepath.Join(dir, "deploy", "tls", filepath.Base(project.Secrets[secret].File))
	}
	pair, err := tls.LoadX509KeyPair(at("control.pem"), at("control.key"))
	require.NoError(t, err)
	authority, err := os.ReadFile(at("ca.pem"))
	require.NoError(t, err)
	trusted := x509.NewCertPool()
	require.True(t, trusted.AppendCertsFromPEM(authority))
	_, err = pair.Leaf.Verify(x509.VerifyOptions{Roots: trusted, DNSName: "control"})
	require.NoError(t, err)
}
