package signing

import (
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/mod/sumdb/note"

	"muniment.example/sealer/keydir"
	"muniment.example/sealer/keyfile"
)

// Files of the root key.
const (
	rootSecretFile = "root.skey" // the signing half, which may be kept offline
	rootPublicFile = "root.vkey" // the verifying half, which is public
)

// errRootOffline says that the root's signing half is not in the key folder.
var errRootOffline = errors.New("the root key is offline")

// root is the root key: its verifying half, and where its signing half may be.
type root struct {
	dir  string
	vkey string
}

// openRoot reads the verifying half of the root key, and makes a root key if the service has
// none and has never signed: verifiers know the root key that it signed under before.
func openRoot(cfg *Config, signedBefore bool) (r root, err error) {
	r = root{dir: cfg.Dir}
	public, secret := filepath.Join(r.dir, rootPublicFile), filepath.Join(r.dir, rootSecretFile)
	if _, err := os.Stat(public); err == nil {
		r.vkey, err = readTrimmed(public)
		if err == nil {
			_, err = keydir.ReadRoot(r.vkey)
		}
		if err != nil {
			return r, fmt.Errorf("cannot read the root key %s: %w", public, err)
		}
		return r, nil
	}
	_, r.vkey, err = readRoot(secret)
	switch {
	case err == nil: // the public file is written again below
	case !errors.Is(err, fs.ErrNotExist):
		return r, err
	case signedBefore:
		return r, fmt.Errorf("%s has no %s, but the database has signing keys: it is not the key folder of this database", r.dir, rootPublicFile)
	default:
		if r.vkey, err = GenerateRoot(secret, "muniment"); err != nil {
			return r, err
		}
		cfg.Logger.Warn("a root key was made: keep its signing half offline", "file", secret, "root", r.vkey)
	}
	return r, keyfile.Write(public, []byte(r.vkey+"\n"), 0o644)
}

// load reads the root's signing half from the key folder; the error is errRootOffline if it
// is not there.
func (r root) load() (note.Signer, error) {
	signer, vkey, err := readRoot(filepath.Join(r.dir, rootSecretFile))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, errRootOffline
	case err != nil:
		return nil, err
	case vkey != r.vkey:
		return nil, fmt.Errorf("%s is not the verifying half of %s", rootPublicFile, rootSecretFile)
	}
	return signer, nil
}

// GenerateRoot makes a root key for offline use. It writes the signing half, a C2SP skey, to
// a new file of mode 0600, durably, and returns the verifying half, a C2SP vkey. It never
// replaces a file.
func GenerateRoot(path, name string) (vkey string, err error) {
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		return "", errors.Join(fmt.Errorf("cannot make a root key: %s exists already", path), err)
	}
	skey, vkey, err := keydir.GenerateRoot(name)
	if err == nil {
		err = keyfile.Write(path, []byte(skey+"\n"), 0o600)
	}
	if err != nil {
		return "", fmt.Errorf("cannot make a root key: %w", err)
	}
	return vkey, nil
}

// readRoot reads a root's signing half and derives the verifying one.
func readRoot(path string) (root note.Signer, vkey string, err error) {
	if _, err := keyfile.ReadSecret(path); err != nil {
		return nil, "", fmt.Errorf("cannot load the root key %s: %w", path, err)
	}
	skey, err := readTrimmed(path)
	if err == nil {
		root, err = note.NewSigner(skey)
	}
	if err == nil {
		vkey, err = verifyingHalf(skey, root.Name())
	}
	if err != nil {
		return nil, "", fmt.Errorf("cannot load the root key %s: %w", path, err)
	}
	return root, vkey, nil
}

// verifyingHalf derives the vkey from a C2SP skey, which ends in the algorithm's byte and the
// Ed25519 seed: 33 bytes, and so 44 digits of base64.
func verifyingHalf(skey, name string) (string, error) {
	const digits = 44
	raw, err := base64.StdEncoding.DecodeString(skey[max(0, len(skey)-digits):])
	if err != nil || len(raw) != 1+ed25519.SeedSize {
		return "", errors.New("not a C2SP signing key of Ed25519")
	}
	pub := ed25519.NewKeyFromSeed(raw[1:]).Public().(ed25519.PublicKey)
	return note.NewEd25519VerifierKey(name, pub)
}
