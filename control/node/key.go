package node

import (
	"crypto"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"

	"muniment/control/store"
	"muniment/sealer"
)

// role is what is signed, and as whom. A role has one current key.
type role struct {
	purpose string
	node    string // or control
}

func (r role) String() string { return r.purpose + " of " + r.node }

// stem begins the names of a role's key files: <stem>-<key id>.key.
func (r role) stem() string {
	switch r.purpose {
	case sealer.PurposeDirectory:
		return "directory"
	case sealer.PurposePack:
		return "pack"
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

// private is a private key and the file that holds it: a crypto.Signer until it is
// destroyed.
type private struct {
	path string
	pub  ed25519.PublicKey
	// waited is set if the key waited for the root: it outlives whatever fails.
	waited bool

	mu  sync.RWMutex
	key ed25519.PrivateKey // nil once destroyed
}

// errDestroyed refuses to sign with a key that is out of use for good.
var errDestroyed = errors.New("the key is out of use and was destroyed")

// Public is the key's public half.
func (p *private) Public() crypto.PublicKey { return p.pub }

// Sign signs message itself, not a hash of it.
func (p *private) Sign(_ io.Reader, message []byte, opts crypto.SignerOpts) ([]byte, error) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if p.key == nil {
		return nil, errDestroyed
	}
	return p.key.Sign(nil, message, opts)
}

// destroy makes the key sign nothing any more, also for whoever holds it, and
// destroys its file. Destroying it again is no error.
func (p *private) destroy() error {
	p.mu.Lock()
	clear(p.key)
	p.key = nil
	p.mu.Unlock()
	return destroyFile(p.path)
}

const pemType = "PRIVATE KEY"

// makeKey makes a key of a role. Its file, PKCS #8 in PEM with mode 0600, is on
// disk when it returns.
func makeKey(dir string, r role) (*private, error) {
	pub, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	path := r.path(dir, sealer.KeyID(pub))
	if err := writeFile(path, pem.EncodeToMemory(&pem.Block{Type: pemType, Bytes: der}), 0o600); err != nil {
		return nil, fmt.Errorf("cannot make a key for %s: %w", r, err)
	}
	return &private{path: path, pub: pub, key: key}, nil
}

// loadKey reads a key of a role; the error is fs.ErrNotExist if its file is gone. A
// file that others may read, or that holds another key, is refused.
func loadKey(dir string, r role, keyID string) (*private, error) {
	path := r.path(dir, keyID)
	key, err := readKey(path)
	if err == nil && sealer.KeyID(key.Public().(ed25519.PublicKey)) != keyID {
		err = errors.New("it holds another key than its name says")
	}
	if err != nil {
		return nil, fmt.Errorf("cannot load the key %s: %w", path, err)
	}
	return &private{path: path, pub: key.Public().(ed25519.PublicKey), key: key}, nil
}

func readKey(path string) (ed25519.PrivateKey, error) {
	text, err := readSecret(path)
	if err != nil {
		return nil, err
	}
	block, rest := pem.Decode(text)
	if block == nil || block.Type != pemType || len(rest) != 0 {
		return nil, errors.New("it is not one PEM block of a private key")
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, err
	}
	ed, ok := key.(ed25519.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("it is a %T, not an Ed25519 key", key)
	}
	return ed, nil
}

func readSecret(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("others may read it (mode %04o): it may be known; make it 0600 if it is not", info.Mode().Perm())
	}
	return os.ReadFile(path)
}

func readTrimmed(path string) (string, error) {
	text, err := os.ReadFile(path)
	return strings.TrimSpace(string(text)), err
}

// writeFile and syncDir are the store's, for the files of keys.
func writeFile(path string, text []byte, mode fs.FileMode) error {
	return store.WriteFile(path, text, mode)
}

// destroyFile overwrites a key file with zeros, waits until the disk has them, and
// removes it. That defeats whoever reads the file system or the block device later.
// It does not reach copies that others made: a backup, a snapshot, the old blocks
// of a copy-on-write file system, the spare cells of a flash disk.
func destroyFile(path string) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = overwrite(f)
	}
	if err == nil {
		err = os.Remove(path)
	}
	if err == nil {
		err = syncDir(filepath.Dir(path))
	}
	if err != nil {
		return fmt.Errorf("cannot destroy the key file %s: %w", path, err)
	}
	return nil
}

func overwrite(f *os.File) error {
	info, err := f.Stat()
	if err == nil {
		_, err = f.WriteAt(make([]byte, info.Size()), 0)
	}
	return errors.Join(err, f.Sync(), f.Close())
}

func syncDir(dir string) error { return store.Sync(dir) }
