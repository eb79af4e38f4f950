package node

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"muniment/sealer"
	"muniment/sealer/keyfile"
)

// role is what is signed, and as whom. A role has one current key.
type role struct {
	purpose string
	node    string // or control
}

func (r role) String() string { return r.purpose + " of " + r.node }

// signsPacks says whether packs are what is signed, which overlap (handOver).
func (r role) signsPacks() bool { return r == packRole || r == sandboxRole }

// stem begins the names of a role's key files: <stem>-<key id>.key.
func (r role) stem() string {
	switch r.purpose {
	case sealer.PurposeDirectory:
		return "directory"
	case sealer.PurposePack:
		return "pack"
	case sealer.PurposeSandbox:
		return "sandbox-" + r.node
	}
	return "node-" + r.node
}

func (r role) path(dir, keyID string) string {
	return filepath.Join(dir, r.stem()+"-"+keyID+".key")
}

// files lists the ids that the role's key files bear.
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

// private is a private key of a role.
type private struct {
	*keyfile.Key
	// waited is set if the key waited for the root: it outlives whatever fails.
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

// loadKey reads a key of a role; the error is fs.ErrNotExist if its file is gone.
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
