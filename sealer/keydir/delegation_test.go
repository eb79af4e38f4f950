package keydir

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/mod/sumdb/note"
)

func TestReadDelegation(t *testing.T) {
	root, vkey := rootKey(t, "root.example")
	key, until := pub(testKey("directory")), epoch.Add(time.Hour)
	good, err := Delegate(root, key, epoch, until)
	require.NoError(t, err)
	d, err := ReadDelegation(good, vkey)
	require.NoError(t, err)
	require.Equal(t, &Delegation{key, epoch, until}, d)
	_, err = Delegate(root, key, epoch, epoch)
	require.ErrorContains(t, err, "ends before it begins")
	_, other := rootKey(t, "other.example")
	_, err = ReadDelegation(good, other)
	require.ErrorContains(t, err, "delegation by the root")
	_, err = ReadDelegation(good, "no vkey")
	require.ErrorContains(t, err, "root key")

	// What the root signed, but not as a delegation is written.
	lines := strings.Split(good, "\n")[:5]
	for name, spoil := range map[string]func([]string) []string{
		"another header": func(l []string) []string { l[0] = "muniment/directory-key.v2"; return l },
		"another id":     func(l []string) []string { l[1] = KeyID(pub(testKey("pack"))); return l },
		"no key":         func(l []string) []string { l[2] = "AA"; return l },
		"no time":        func(l []string) []string { l[3] = "now"; return l },
		"no end":         func(l []string) []string { l[4] = ""; return l },
		"an open end":    func(l []string) []string { l[4] = "-"; return l },
		"an end before":  func(l []string) []string { l[3], l[4] = l[4], l[3]; return l },
		"a sixth line":   func(l []string) []string { return append(l, "x") },
		"four lines":     func(l []string) []string { return l[:4] },
		"a blank line":   func(l []string) []string { return append(l, "", "x") },
	} {
		text := strings.Join(spoil(append([]string(nil), lines...)), "\n") + "\n"
		signed, err := note.Sign(&note.Note{Text: text}, root)
		require.NoError(t, err)
		_, err = ReadDelegation(string(signed), vkey)
		require.ErrorContains(t, err, "cannot read delegation", name)
	}
	for i := range good {
		_, err := ReadDelegation(good[:i]+string(good[i]^1)+good[i+1:], vkey)
		require.Error(t, err, "byte %d", i)
	}
}
