// Package keyfile keeps private keys in files, one key a file: PKCS #8 in PEM, mode
// 0600. Control and nodes both use it.
//
// A file is complete and durable before its key is used, or it does not exist. A file that
// other users may read, or whose key is not the one in its name, is refused and never replaced.
// A key that is out of use is destroyed with its file (see Destroy). One process at a time owns
// a folder of keys (Claim).
//
// Non-goals: keys in hardware, which are crypto.Signer as well, and passphrases.
package keyfile

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
	"sync"

	"muniment.example/sealer/keydir"
)

// Key is a private key and the file that holds it: a crypto.Signer until it is
// destroyed. Safe for concurrent use.
type Key struct {
	Path string
	Pub  ed25519.PublicKey

	mu  sync.RWMutex
	key ed25519.PrivateKey // nil once forgotten
}

var _ crypto.Signer = (*Key)(nil)

// ErrDestroyed says that the key was permanently taken out of use.
var ErrDestroyed = errors.New("the key is out of use and was destroyed")

// Make makes a key, and its file at the path that its id gets.
func Make(path func(keyID string) string) (*Key, error) {
	pub, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	k := &Key{Path: path(keydir.KeyID(pub)), Pub: pub, key: key}
	return k, Write(k.Path, pem.EncodeToMemory(&pem.Block{Type: pemType, Bytes: der}), 0o600)
}

const pemType = "PRIVATE KEY"

// Load reads the key of an id; the error is fs.ErrNotExist if its file is gone. A
// file that others may read, or that holds another key, is refused.
func Load(path, keyID string) (*Key, error) {
	key, err := read(path)
	if err == nil && keydir.KeyID(key.Public().(ed25519.PublicKey)) != keyID {
		err = errors.New("it holds another key than its name says")
	}
	if err != nil {
		return nil, fmt.Errorf("cannot load the key %s: %w", path, err)
	}
	return &Key{Path: path, Pub: key.Public().(ed25519.PublicKey), key: key}, nil
}

func read(path string) (ed25519.PrivateKey, error) {
	text, err := ReadSecret(path)
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

// Public is the key's public half.
func (k *Key) Public() crypto.PublicKey { return k.Pub }

// Sign signs message itself, not a hash of it. It fails with ErrDestroyed from the
// moment on at which Forget or Destroy has returned.
func (k *Key) Sign(_ io.Reader, message []byte, opts crypto.SignerOpts) ([]byte, error) {
	k.mu.RLock()
	defer k.mu.RUnlock()
	if k.key == nil {
		return nil, ErrDestroyed
	}
	return k.key.Sign(nil, message, opts)
}

// Forget makes Sign fail from now on, also through copies of the pointer. The file remains.
func (k *Key) Forget() {
	k.mu.Lock()
	defer k.mu.Unlock()
	clear(k.key)
	k.key = nil
}

// Destroy forgets the key and destroys its file. Destroying it again is no error.
func (k *Key) Destroy() error {
	k.Forget()
	return Destroy(k.Path)
}

// Destroy overwrites a key file with zeros, waits until the disk has them, and
// removes it. A later reader of the file system or the block device finds no key.
// It does not reach copies that others made: a backup, a snapshot, the old blocks
// of a copy-on-write file system, the spare cells of a flash disk. A file that is not
// there is no error.
func Destroy(path string) error {
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
		err = Sync(filepath.Dir(path))
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
