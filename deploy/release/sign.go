package main

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/mod/sumdb/note"

	"muniment.example/sealer/verify"
)

// makeKey makes a key that signs releases: the private half, a text of C2SP, in a file that is not there
// yet and that only its owner may read, the public half, a vkey, beside it.
func makeKey(file, name string) error {
	private, public, err := note.GenerateKey(rand.Reader, name)
	if err != nil {
		return fmt.Errorf("cannot make a key of the name %q: %w", name, err)
	}
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(private + "\n")
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.WriteFile(file+".vkey", []byte(public+"\n"), 0o644)
}

// readSigner reads the private half of a key.
func readSigner(file string) (note.Signer, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	signer, err := note.NewSigner(strings.TrimSpace(string(text)))
	if err != nil {
		return nil, fmt.Errorf("%s holds no key that signs releases: %w", file, err)
	}
	return signer, nil
}

// signSums signs the checksums of a folder.
func signSums(dir string, signer note.Signer) error {
	sums, err := os.ReadFile(filepath.Join(dir, verify.ReleaseSums))
	if err != nil {
		return err
	}
	signed, err := note.Sign(&note.Note{Text: string(sums)}, signer)
	if err != nil {
		return fmt.Errorf("cannot sign %s: %w", verify.ReleaseSums, err)
	}
	return os.WriteFile(filepath.Join(dir, verify.SignedReleaseSums), signed, 0o644)
}
