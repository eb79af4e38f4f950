package webhook

import (
	"bytes"
	"crypto/ed25519"
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/control/roomtest"
	"muniment.example/sealer/keydir"
)

// TestStrangersVerify has libraries that are not ours verify what receivers get, with the new
// secret and with the one before, and refuse it with any part changed. MUNIMENT_TEST_PYTHON
// names a Python that has the packages of sealer/independent.
func TestStrangersVerify(t *testing.T) {
	python := os.Getenv("MUNIMENT_TEST_PYTHON")
	if python == "" {
		t.Skip("MUNIMENT_TEST_PYTHON is not set")
	}
	s := newFixture(t, roomtest.NewClock(time.Now()), nil)
	r := newReceiver(t)
	s.queueing()
	s.run(s.Run)
	w := s.hook(r, "right.*")
	rotated, err := s.rotate(t.Context(), tenantID, w.ID, byKey)
	require.NoError(t, err)
	s.emit("right.revoked", map[string]string{"id": "rgh_a", "title": "Gräfe & Söhne"})
	m := r.await(t, 1)[0]

	key := keydir.NewKey(signingKey.Public().(ed25519.PublicKey), keydir.PurposeWebhook, noon)
	public, err := verifyingKey(&key)
	require.NoError(t, err)
	line := func(secret string, change func(m *message)) map[string]string {
		m := m
		if change != nil {
			change(&m)
		}
		return map[string]string{"id": m.id, "at": m.at, "signature": m.signature, "body": string(m.body), "secret": secret, "public": public}
	}
	var in bytes.Buffer
	var want []string
	for _, c := range []struct {
		line    map[string]string
		verdict string
	}{
		{line(rotated.Secret, nil), "True True"},
		{line(w.Secret, nil), "True True"},
		{line(newSecret(), nil), "False True"},
		{line(w.Secret, func(m *message) { m.id += "x" }), "False False"},
		{line(w.Secret, func(m *message) { m.at = m.at[:len(m.at)-1] + string('0'+(m.at[len(m.at)-1]-'0'+1)%10) }), "False False"},
		{line(w.Secret, func(m *message) { m.body = bytes.Replace(m.body, []byte("rgh_a"), []byte("rgh_b"), 1) }), "False False"},
		{line(w.Secret, func(m *message) { m.signature = strings.Replace(m.signature, "v1a,", "v1,", 1) }), "True False"},
	} {
		text, err := json.Marshal(c.line)
		require.NoError(t, err)
		in.Write(append(text, '\n'))
		want = append(want, c.verdict)
	}
	cmd := exec.Command(python, "testdata/verify.py")
	cmd.Stdin, cmd.Stderr = &in, os.Stderr
	out, err := cmd.Output()
	require.NoError(t, err)
	require.Equal(t, want, strings.Split(strings.TrimSpace(string(out)), "\n"))
}
