package sealer

import (
	"crypto"
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/mod/sumdb/note"

	"muniment.example/sealer/canonical"
)

// noteSigner signs C2SP notes with a key that may live outside this process.
type noteSigner struct {
	note.Verifier
	key crypto.Signer
}

// Sign signs the text of a note.
func (s noteSigner) Sign(msg []byte) ([]byte, error) { return Sign(s.key, msg) }

// NewNoteSigner returns a signer of notes as name.
func NewNoteSigner(name string, key crypto.Signer) (note.Signer, error) {
	pub, err := PublicKey(key)
	if err != nil {
		return nil, err
	}
	v, err := NewNoteVerifier(name, pub)
	if err != nil {
		return nil, err
	}
	return noteSigner{v, key}, nil
}

// NewNoteVerifier returns a verifier of notes that pub signed as name.
func NewNoteVerifier(name string, pub ed25519.PublicKey) (note.Verifier, error) {
	vkey, err := note.NewEd25519VerifierKey(name, pub)
	if err != nil {
		return nil, err
	}
	return note.NewVerifier(vkey)
}

// OpenNote returns a note that all of vs signed, in their order. Signatures of others,
// such as witnesses, may follow theirs, one of each; their base64 is read strictly as well.
func OpenNote(text string, vs ...note.Verifier) (*note.Note, error) {
	n, err := note.Open([]byte(text), note.VerifierList(vs...))
	if err != nil {
		return nil, err
	}
	for i, v := range vs {
		if len(n.Sigs) <= i || n.Sigs[i].Name != v.Name() || n.Sigs[i].Hash != v.KeyHash() {
			return nil, fmt.Errorf("signature %d is not by %s", i, v.Name())
		}
	}
	type signer struct {
		name string
		hash uint32
	}
	signed := make(map[signer]bool)
	for _, s := range slices.Concat(n.Sigs, n.UnverifiedSigs) {
		if signed[signer{s.Name, s.Hash}] {
			return nil, fmt.Errorf("two signatures by %s: %w", s.Name, canonical.ErrNotCanonical)
		}
		signed[signer{s.Name, s.Hash}] = true
		raw, err := base64.StdEncoding.Strict().DecodeString(s.Base64)
		if err != nil || base64.StdEncoding.EncodeToString(raw) != s.Base64 {
			return nil, fmt.Errorf("signature by %s: %w", s.Name, canonical.ErrNotCanonical)
		}
	}
	// Serialised again with the same signatures, the note must give the same bytes.
	again, err := note.Sign(n)
	if err != nil || string(again) != text {
		return nil, errors.Join(err, canonical.ErrNotCanonical)
	}
	return n, nil
}
