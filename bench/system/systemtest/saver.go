package systemtest

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Saver is a visitor of the sandbox who keeps what was answered in files, as curl does.
type Saver struct {
	Browser
	dir     string
	Signers map[string]bool // key ids of the demo's receipts
}

// NewSaver sends requests to a service through a transport; nil is the default one.
func NewSaver(t *testing.T, url string, through http.RoundTripper) *Saver {
	return &Saver{Browser{T: t, URL: url, client: http.Client{Transport: through}}, t.TempDir(), map[string]bool{}}
}

// Save sends a request to the sandbox, reads the data of a success, and returns the file of the response.
func (s *Saver) Save(name, method, path, body string, data any) (file string) {
	s.T.Helper()
	file = filepath.Join(s.dir, name)
	require.NoError(s.T, os.WriteFile(file, []byte(s.Does(method, path, body, data)), 0o600))
	return file
}

// Evidence is what a visitor takes home from the demo: the answers about two packs, the
// second of which names a right for which JSON has many spellings, and the list of keys.
func (s *Saver) Evidence() (packs []string, keys string) {
	s.T.Helper()
	var tenant struct{ Rights []struct{ ID string } }
	s.Save("tenant", "POST", "/tenant", "", &tenant)
	first, _ := s.Play(`{"eventCount":30,"seed":4}`, 30)
	s.Save("suspended", "POST", "/rights/suspend", `{"rightId":"`+tenant.Rights[0].ID+`","reason":"<&>\u00e9😀\"\\"}`, new(struct{}))
	second, _ := s.Play("", 12)
	return []string{first, second}, s.Save("runtime-keys.json", "GET", "/runtime-keys", "", new(struct{}))
}

// Play runs the demo. It returns the answer about the pack, and the key of the last receipt.
func (s *Saver) Play(body string, deliveries int) (pack, keyID string) {
	s.T.Helper()
	var demo struct {
		PackID     string
		Deliveries []struct{ Signature struct{ KeyID string } }
	}
	s.Save("demo", "POST", "/run-demo", body, &demo)
	require.Len(s.T, demo.Deliveries, deliveries)
	for _, d := range demo.Deliveries {
		keyID = d.Signature.KeyID
		s.Signers[keyID] = true
	}
	return s.Save(demo.PackID+".json", "GET", "/proof-packs/"+demo.PackID, "", new(struct{})), keyID
}

// Strangers have two verifiers judge what a visitor saved, given nothing but that: our
// command, and, where MUNIMENT_TEST_PYTHON names a Python that has its packages, the one
// that shares no code with ours. Neither lets a pack pass with another's keys.
func Strangers(t *testing.T, packs []string, keys string) {
	t.Helper()
	foreign := filepath.Join(t.TempDir(), "foreign.json")
	require.NoError(t, os.WriteFile(foreign, []byte(`{"ok":true,"data":{"keys":[{"keyId":"21fe31dfa154a261626bf854046fd227","algorithm":"ed25519",`+
		`"publicKey":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo","notBefore":"2026-01-01T00:00:00.000Z","notAfter":null,"revokedAt":null,`+
		`"purpose":"sandbox_proof_signing"}],"issuedAt":"2026-01-01T00:00:00.000Z","snapshotId":"21fe31dfa154a261626bf854046fd227"},"contractVersion":"ws30.v1"}`), 0o600))

	verify := func(keys string) []string { return append([]string{"verify", "--json", "--keys", keys}, packs...) }
	require.Contains(t, Command(t, verify(keys)...), `"settlement.ok"`)
	require.Contains(t, Fails(t, verify(foreign)...), `"key.unknown"`)

	python := os.Getenv("MUNIMENT_TEST_PYTHON")
	if python == "" {
		require.Empty(t, os.Getenv("MUNIMENT_TEST_STACK"), "the stack is up, but no Python is named")
		return
	}
	const verifier = "sealer/independent/verify.py"
	out, err := exec.Command(python, append([]string{verifier, "--keys", keys}, packs...)...).CombinedOutput()
	require.NoError(t, err, string(out))
	require.Equal(t, len(packs), strings.Count(string(out), "ok "), string(out))
	out, err = exec.Command(python, append([]string{verifier, "--keys", foreign}, packs...)...).CombinedOutput()
	require.Error(t, err)
	require.Equal(t, len(packs), strings.Count(string(out), " key.unknown\n"), string(out))
	t.Logf("%d packs pass both verifiers", len(packs))
}
