package systemtest

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/sealer"
)

// Secrets are texts that no log may hold, by what they are.
type Secrets map[string]string

// Plant makes a text that stands nowhere else.
func (s Secrets) Plant(what string) string {
	text := "planted" + rand.Text()
	s[what] = text
	return text
}

// Token remembers the secret half of an API key. The other half is its public id.
func (s Secrets) Token(what, key string) string {
	s[what] = key[strings.LastIndex(key[:len(key)-len("_00000000")], "_")+1:]
	return key
}

// KeyFiles remembers what stands in the files of private keys.
func (s Secrets) KeyFiles(t *testing.T, data string) {
	t.Helper()
	found := 0
	require.NoError(t, filepath.WalkDir(filepath.Join(data, "keys"), func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		if info, err := d.Info(); err != nil || info.Mode().Perm() != 0o600 {
			return err // a public half
		}
		text, err := os.ReadFile(path)
		for line := range strings.Lines(string(text)) {
			if line = strings.TrimSpace(line); !strings.HasPrefix(line, "-----") && line != "" {
				s["key file "+d.Name()] = line
				found++
			}
		}
		return err
	}))
	require.GreaterOrEqual(t, found, 3, "keys of root, directory, packs and node")
}

// Records remembers the salts in a log on disk, and returns how many there are.
func (s Secrets) Records(t *testing.T, data string) (n int) {
	t.Helper()
	ScanLog(t, data, func(e sealer.Entry) error {
		if len(e.Private) == 0 {
			return nil
		}
		p, err := sealer.ParsePrivate(e.Private)
		if err != nil {
			return err
		}
		n++
		s["salt of "+e.EventID] = base64.RawURLEncoding.EncodeToString(p.Salt[:])
		s["salt of "+e.EventID+" in hex"] = hex.EncodeToString(p.Salt[:])
		return nil
	})
	return n
}

// Search looks for each secret, and for either half of it, in whatever case.
func (s Secrets) Search(t *testing.T, log string) {
	t.Helper()
	log = strings.ToLower(log)
	for what, secret := range s {
		secret = strings.ToLower(secret)
		require.GreaterOrEqual(t, len(secret), 16, "%s is too short to be looked for", what)
		parts := []string{secret}
		if len(secret) >= 32 {
			parts = append(parts, secret[:len(secret)/2], secret[len(secret)/2:])
		}
		for _, part := range parts {
			if at := strings.Index(log, part); at >= 0 {
				t.Errorf("%s is there: %q", what, log[max(0, at-200):min(len(log), at+200)])
				break
			}
		}
	}
}
