package signing

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"muniment.example/sealer/keydir"
	"muniment.example/sealer/keyfile"
)

// use is a purpose for which control has keys.
type use struct {
	purpose string
	files   string // prefix of the names of the key files
}

// uses are the purposes for which control has keys. Receipts are signed by nodes.
var uses = []use{
	{purpose: keydir.PurposeDirectory, files: "directory"},
	{purpose: keydir.PurposePack, files: "pack"},
	{purpose: keydir.PurposeBeacon, files: "beacon"},
	{purpose: keydir.PurposeWebhook, files: "webhook"},
	{purpose: keydir.PurposeSandbox, files: "sandbox"},
}

// role is what is signed, and by whom. A role has one current key.
type role struct {
	purpose string
	node    string // node id, or control
}

// directoryRole needs the root's delegation: see delegation.go.
var directoryRole = role{keydir.PurposeDirectory, control}

func (r role) String() string { return r.purpose + " of " + r.node }

// overlaps says whether a key may still sign for a while after its successor has taken
// over, since a seal at work has it from Signer. Only directory keys may not.
func (r role) overlaps() bool { return r != directoryRole }

// stem is the prefix of the role's key files: <stem>-<key id>.key.
func (r role) stem() string {
	return uses[slices.IndexFunc(uses, func(u use) bool { return u.purpose == r.purpose })].files
}

func (r role) path(dir, keyID string) string {
	return filepath.Join(dir, r.stem()+"-"+keyID+".key")
}

// files lists the ids in the names of the role's key files.
func (r role) files(dir string) (keyIDs []string, err error) {
	name := regexp.MustCompile("^" + regexp.QuoteMeta(r.stem()) + `-([0-9a-f]{32})\.key$`)
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, e := range entries {
		if m := name.FindStringSubmatch(e.Name()); m != nil {
			keyIDs = append(keyIDs, m[1])
		}
	}
	return keyIDs, err
}

// private is a private key of control.
type private struct {
	*keyfile.Key
	// waited is set if the key waited for the root: its file is kept when making it current
	// fails.
	waited bool
}

// makeKey makes a key of a role; its file is on disk when it returns.
func makeKey(dir string, r role) (*private, error) {
	key, err := keyfile.Make(func(keyID string) string { return r.path(dir, keyID) })
	if err != nil {
		return nil, fmt.Errorf("cannot make a key for %s: %w", r, err)
	}
	return &private{Key: key}, nil
}

// loadKey reads a key of a role; the error is fs.ErrNotExist if it has no file.
func loadKey(dir string, r role, keyID string) (*private, error) {
	key, err := keyfile.Load(r.path(dir, keyID), keyID)
	if err != nil {
		return nil, err
	}
	return &private{Key: key}, nil
}

func readTrimmed(path string) (string, error) {
	text, err := os.ReadFile(path)
	return strings.TrimSpace(string(text)), err
}
