package main

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/mod/sumdb/note"
)

const (
	sumsName = "SHA256SUMS"
	// signedName is the file of the checksums as a C2SP signed note: the text of SHA256SUMS, an empty
	// line, and a line for each signature.
	signedName = "SHA256SUMS.note"
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
	sums, err := os.ReadFile(filepath.Join(dir, sumsName))
	if err != nil {
		return err
	}
	signed, err := note.Sign(&note.Note{Text: string(sums)}, signer)
	if err != nil {
		return fmt.Errorf("cannot sign %s: %w", sumsName, err)
	}
	return os.WriteFile(filepath.Join(dir, signedName), signed, 0o644)
}

// check holds a folder against its signed checksums: they are signed by the key, and every file is listed,
// present, and as it was. It returns how many files there are.
func check(dir, vkey string) (files int, err error) {
	verifier, err := note.NewVerifier(strings.TrimSpace(vkey))
	if err != nil {
		return 0, fmt.Errorf("the key is no vkey: %w", err)
	}
	signed, err := os.ReadFile(filepath.Join(dir, signedName))
	if err != nil {
		return 0, err
	}
	n, err := note.Open(signed, note.VerifierList(verifier))
	if err != nil {
		return 0, fmt.Errorf("%s is not signed by %s: %w", signedName, verifier.Name(), err)
	}
	listed := map[string]string{}
	for line := range strings.Lines(n.Text) {
		sum, name, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "  ")
		if !ok || listed[name] != "" || name == "" || name != filepath.Base(name) {
			return 0, fmt.Errorf("%s has a line that is none of checksums: %q", signedName, line)
		}
		listed[name] = sum
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return 0, err
	}
	var wrong []error
	for _, e := range entries {
		if e.Name() == signedName {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		switch {
		case err != nil:
			wrong = append(wrong, err)
		case e.Name() == sumsName:
			if !bytes.Equal(text, []byte(n.Text)) {
				wrong = append(wrong, fmt.Errorf("%s is not what was signed", sumsName))
			}
		case listed[e.Name()] == "":
			wrong = append(wrong, fmt.Errorf("%s is not a file of this release", e.Name()))
		case listed[e.Name()] != fmt.Sprintf("%x", sha256.Sum256(text)):
			wrong = append(wrong, fmt.Errorf("%s was changed", e.Name()))
		default:
			files++
		}
		delete(listed, e.Name())
	}
	for name := range listed {
		wrong = append(wrong, fmt.Errorf("%s is missing", name))
	}
	return files, errors.Join(wrong...)
}
