package node

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/mod/sumdb/note"

	"muniment/sealer"
)

// Files of the root key.
const (
	rootSecretFile = "root.skey" // the signing half, may be kept offline
	rootPublicFile = "root.vkey" // the verifying half, for whoever wants it
)

const pemType = "PRIVATE KEY"

// LoadKey reads the Ed25519 key in the file dir/name, PKCS #8 in PEM, and makes
// both when the file is missing. A new key is on disk, with mode 0600, before it
// is returned. A key file that others may read is refused.
func LoadKey(dir, name string) (ed25519.PrivateKey, error) {
	path := filepath.Join(dir, name)
	key, err := readKey(path)
	if errors.Is(err, fs.ErrNotExist) {
		key, err = makeKey(path)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot load the key %s: %w", path, err)
	}
	return key, nil
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

func makeKey(path string) (ed25519.PrivateKey, error) {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	return key, writeFile(path, pem.EncodeToMemory(&pem.Block{Type: pemType, Bytes: der}), 0o600)
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

// writeFile makes a file that is wholly on disk under its name, or not there.
func writeFile(path string, text []byte, mode fs.FileMode) error {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, ".new-*") // mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // fails once it is renamed
	_, err = f.Write(text)
	if err := errors.Join(err, f.Chmod(mode), f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// errRootOffline says that the root key is needed and was taken away.
var errRootOffline = errors.New("the root key is offline: put " + rootSecretFile + " back for one start, to delegate to a new directory key")

// loadRoot reads the root's signing half. It makes a root key when there is no
// trace of one, and mends a missing public file.
func loadRoot(dir, name string) (note.Signer, error) {
	secretPath, publicPath := filepath.Join(dir, rootSecretFile), filepath.Join(dir, rootPublicFile)
	secret, err := readSecret(secretPath)
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Stat(publicPath); err == nil {
			return nil, errRootOffline
		}
		made, _, err := sealer.GenerateRoot(name)
		if err != nil {
			return nil, err
		}
		secret = []byte(made + "\n")
		if err := writeFile(secretPath, secret, 0o600); err != nil {
			return nil, err
		}
	} else if err != nil {
		return nil, fmt.Errorf("cannot load the root key %s: %w", secretPath, err)
	}
	skey := strings.TrimSpace(string(secret))
	root, err := note.NewSigner(skey)
	if err != nil {
		return nil, fmt.Errorf("cannot load the root key %s: %w", secretPath, err)
	}
	vkey, err := verifyingHalf(skey, root.Name())
	if err != nil {
		return nil, fmt.Errorf("cannot load the root key %s: %w", secretPath, err)
	}
	known, err := readRootVkey(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return root, writeFile(publicPath, []byte(vkey+"\n"), 0o644)
	case err != nil:
		return nil, err
	case known != vkey:
		return nil, fmt.Errorf("%s is not the verifying half of %s", publicPath, secretPath)
	}
	return root, nil
}

// verifyingHalf is the vkey of a C2SP skey, which ends in the algorithm's byte and
// the Ed25519 seed, 33 bytes and so 44 digits of base64.
func verifyingHalf(skey, name string) (string, error) {
	const digits = 44
	raw, err := base64.StdEncoding.DecodeString(skey[max(0, len(skey)-digits):])
	if err != nil || len(raw) != 1+ed25519.SeedSize {
		return "", errors.New("it is no C2SP signing key of Ed25519")
	}
	pub := ed25519.NewKeyFromSeed(raw[1:]).Public().(ed25519.PublicKey)
	return note.NewEd25519VerifierKey(name, pub)
}

func readRootVkey(dir string) (string, error) {
	text, err := os.ReadFile(filepath.Join(dir, rootPublicFile))
	return strings.TrimSpace(string(text)), err
}
