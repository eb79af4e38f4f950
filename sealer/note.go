package sealer

import (
	"crypto"
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"fmt"

	"golang.org/x/mod/sumdb/note"
)

// noteSigner signs C2SP notes with a key that may live outside this process.
type noteSigner struct {
	note.Verifier
	key crypto.Signer
}

// Sign signs the text of a note.
func (s noteSigner) Sign(msg []byte) ([]byte, error) { return sign(s.key, msg) }

// newNoteSigner signs notes as name.
func newNoteSigner(name string, key crypto.Signer) (note.Signer, error) {
	pub, err := publicKey(key)
	if err != nil {
		return nil, err
	}
	v, err := newNoteVerifier(name, pub)
	if err != nil {
		return nil, err
	}
	return noteSigner{v, key}, nil
}

// newNoteVerifier verifies notes that pub signed as name.
func newNoteVerifier(name string, pub ed25519.PublicKey) (note.Verifier, error) {
	vkey, err := note.NewEd25519VerifierKey(name, pub)
	if err != nil {
		return nil, err
	}
	return note.NewVerifier(vkey)
}

// openNote returns the text of a note that v signed. Signatures of others, such
// as witnesses, may stand beside it; their spelling is strict as well.
func openNote(text string, v note.Verifier) (string, error) {
	n, err := note.Open([]byte(text), note.VerifierList(v))
	if err != nil {
		return "", err
	}
	for _, s := range append(n.Sigs, n.UnverifiedSigs...) {
		raw, err := base64.StdEncoding.Strict().DecodeString(s.Base64)
		if err != nil || base64.StdEncoding.EncodeToString(raw) != s.Base64 {
			return "", fmt.Errorf("signature by %s: %w", s.Name, ErrNotCanonical)
		}
	}
	// Writing it again with the same signatures must give the same bytes.
	same, err := note.Sign(n)
	if err != nil || string(same) != text {
		return "", errors.Join(err, ErrNotCanonical)
	}
	return n.Text, nil
}
