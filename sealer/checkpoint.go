package sealer

import (
	"crypto"
	"crypto/ed25519"
	"fmt"

	"github.com/transparency-dev/formats/log"
	"golang.org/x/mod/sumdb/note"
)

// Origin names a tenant's Merkle log: the first line of its checkpoints, and the
// name under which they are signed.
func Origin(tenantID string) string { return "muniment/" + tenantID }

// Checkpoint states the size and the root of a log.
type Checkpoint struct {
	Origin string
	Size   uint64
	Root   Hash
}

// text is the C2SP tlog-checkpoint: origin, size in decimal, root in standard
// base64, each on its line.
func (c Checkpoint) text() string {
	return string(log.Checkpoint{Origin: c.Origin, Size: c.Size, Hash: c.Root[:]}.Marshal())
}

// SignCheckpoint returns c as a C2SP signed note; its one signature is by key,
// under the origin's name.
func SignCheckpoint(c Checkpoint, key crypto.Signer) (string, error) {
	signer, err := newNoteSigner(c.Origin, key)
	if err != nil {
		return "", fmt.Errorf("cannot sign checkpoint of %s: %w", c.Origin, err)
	}
	text, err := note.Sign(&note.Note{Text: c.text()}, signer)
	if err != nil {
		return "", fmt.Errorf("cannot sign checkpoint of %s: %w", c.Origin, err)
	}
	return string(text), nil
}

// OpenCheckpoint reads a signed checkpoint of origin and verifies that pub
// signed it. Extension lines are refused, further signatures are not.
func OpenCheckpoint(text, origin string, pub ed25519.PublicKey) (Checkpoint, error) {
	c, err := openCheckpoint(text, origin, pub)
	if err != nil {
		return Checkpoint{}, fmt.Errorf("cannot open checkpoint of %s: %w", origin, err)
	}
	return c, nil
}

func openCheckpoint(text, origin string, pub ed25519.PublicKey) (Checkpoint, error) {
	v, err := newNoteVerifier(origin, pub)
	if err != nil {
		return Checkpoint{}, err
	}
	body, err := openNote(text, v)
	if err != nil {
		return Checkpoint{}, err
	}
	var parsed log.Checkpoint
	if _, err := parsed.Unmarshal([]byte(body)); err != nil {
		return Checkpoint{}, err
	}
	if len(parsed.Hash) != len(Hash{}) {
		return Checkpoint{}, fmt.Errorf("a root of %d bytes", len(parsed.Hash))
	}
	c := Checkpoint{Origin: parsed.Origin, Size: parsed.Size, Root: Hash(parsed.Hash)}
	switch {
	case c.Origin != origin:
		return Checkpoint{}, fmt.Errorf("it is of %s", c.Origin)
	case c.text() != body:
		return Checkpoint{}, ErrNotCanonical
	}
	return c, nil
}
