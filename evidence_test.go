package main

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// saver is a visitor of the sandbox who keeps what was answered in files, as curl does.
type saver struct {
	browser
	dir     string
	signers map[string]bool // key ids of the demo's receipts
}

// newSaver sends requests to a service through a transport; nil is the default one.
func newSaver(t *testing.T, url string, through http.RoundTripper) *saver {
	return &saver{browser{t: t, url: url, client: http.Client{Transport: through}}, t.TempDir(), map[string]bool{}}
}

// save sends a request to the sandbox, reads the data of a success, and returns the file of the response.
func (s *saver) save(name, method, path, body string, data any) (file string) {
	s.t.Helper()
	file = filepath.Join(s.dir, name)
	require.NoError(s.t, os.WriteFile(file, []byte(s.does(method, path, body, data)), 0o600))
	return file
}

// evidence is what a visitor takes home from the demo: the answers about two packs, the
// second of which names a right for which JSON has many spellings, and the list of keys.
func (s *saver) evidence() (packs []string, keys string) {
	s.t.Helper()
	var tenant struct{ Rights []struct{ ID string } }
	s.save("tenant", "POST", "/tenant", "", &tenant)
	first, _ := s.play(`{"eventCount":30,"seed":4}`, 30)
	s.save("suspended", "POST", "/rights/suspend", `{"rightId":"`+tenant.Rights[0].ID+`","reason":"<&>\u2028\u00e9😀\"\\"}`, new(struct{}))
	second, _ := s.play("", 12)
	return []string{first, second}, s.save("runtime-keys.json", "GET", "/runtime-keys", "", new(struct{}))
}

// play runs the demo. It returns the answer about the pack, and the key of the last receipt.
func (s *saver) play(body string, deliveries int) (pack, keyID string) {
	s.t.Helper()
	var demo struct {
		PackID     string
		Deliveries []struct{ Signature struct{ KeyID string } }
	}
	s.save("demo", "POST", "/run-demo", body, &demo)
	require.Len(s.t, demo.Deliveries, deliveries)
	for _, d := range demo.Deliveries {
		keyID = d.Signature.KeyID
		s.signers[keyID] = true
	}
	return s.save(demo.PackID+".json", "GET", "/proof-packs/"+demo.PackID, "", new(struct{})), keyID
}

// strangers have two verifiers judge what a visitor saved, given nothing but that: our
// command, and, where MUNIMENT_TEST_PYTHON names a Python that has its packages, the one
// that shares no code with ours. Neither lets a pack pass with another's keys.
func strangers(t *testing.T, packs []string, keys string) {
	t.Helper()
	foreign := filepath.Join(t.TempDir(), "foreign.json")
	require.NoError(t, os.WriteFile(foreign, []byte(`{"ok":true,"data":{"keys":[{"keyId":"21fe31dfa154a261626bf854046fd227","algorithm":"ed25519",`+
		`"publicKey":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo","notBefore":"2026-01-01T00:00:00.000Z","notAfter":null,"revokedAt":null,`+
		`"purpose":"sandbox_proof_signing"}],"issuedAt":"2026-01-01T00:00:00.000Z","snapshotId":"21fe31dfa154a261626bf854046fd227"},"contractVersion":"ws30.v1"}`), 0o600))

	verify := func(keys string) []string { return append([]string{"verify", "--json", "--keys", keys}, packs...) }
	require.Contains(t, muniment(t, verify(keys)...), `"settlement.ok"`)
	require.Contains(t, fails(t, verify(foreign)...), `"key.unknown"`)

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

// TestEvidenceOfTheSandbox: who has saved packs and runtime keys over HTTP has all that
// it takes to verify them, also after keys were rotated.
func TestEvidenceOfTheSandbox(t *testing.T) {
	t.Parallel()
	h := newService(t, "--sandbox-burst", "1000")
	s := newSaver(t, h.client.API, nil)
	packs, keys := s.evidence()
	strangers(t, packs, keys)

	var before, after struct {
		SnapshotID string
		Keys       []struct{ KeyID string }
	}
	s.save("before", "GET", "/runtime-keys", "", &before)
	for _, k := range before.Keys {
		muniment(t, "signing-key", "rotate", "--data", h.data, k.KeyID)
	}
	newer := s.save("newer.json", "GET", "/runtime-keys", "", &after)
	require.NotEqual(t, before.SnapshotID, after.SnapshotID)
	strangers(t, packs, newer)
	for i, file := range packs {
		packs[i] = s.save("again-"+filepath.Base(file), "GET", "/proof-packs/"+strings.TrimSuffix(filepath.Base(file), ".json"), "", new(struct{}))
	}
	strangers(t, packs, keys) // which do not know of the rotation
	strangers(t, packs, newer)
}
