package sealer

import (
	"crypto"
	"crypto/ed25519"
	"fmt"
	"time"

	"github.com/transparency-dev/formats/log"
	"golang.org/x/mod/sumdb/note"
)

// Origin names a tenant's Merkle log: the first line of its checkpoints, and the
// name under which they are signed.
func Origin(tenantID string) string { return "muniment/" + tenantID }

// Checkpoint states the size and the root of a log, and when that was sealed.
type Checkpoint struct {
	Origin string
	Size   uint64
	Root   Hash
	// SealedAt is a whole second in UTC: that in which it was signed.
	SealedAt time.Time
}

// text is the C2SP tlog-checkpoint: origin, size in decimal, root in standard
// base64, each on its line.
func (c *Checkpoint) text() string {
	return string(log.Checkpoint{Origin: c.Origin, Size: c.Size, Hash: c.Root[:]}.Marshal())
}

// SignCheckpoint returns c, whose origin must be of Origin, as a C2SP signed note with two signatures by key: that
// of the log, under the origin's name, and a C2SP cosignature/v1 under the name
// muniment/sealed, which states SealedAt, of which the fraction of a second is cut.
func SignCheckpoint(c Checkpoint, key crypto.Signer) (string, error) {
	text, err := c.sign(key)
	if err != nil {
		return "", fmt.Errorf("cannot sign checkpoint of %s: %w", c.Origin, err)
	}
	return text, nil
}

func (c *Checkpoint) sign(key crypto.Signer) (string, error) {
	if err := CheckOrigin(c.Origin); err != nil {
		return "", err
	}
	signer, err := newNoteSigner(c.Origin, key)
	if err != nil {
		return "", err
	}
	seal, err := newSealSigner(key, c.SealedAt)
	if err != nil {
		return "", err
	}
	text, err := note.Sign(&note.Note{Text: c.text()}, signer, seal)
	return string(text), err
}

// OpenCheckpoint reads a signed checkpoint of origin and verifies that pub
// signed it, twice. Extension lines are refused, further signatures are not.
func OpenCheckpoint(text, origin string, pub ed25519.PublicKey) (Checkpoint, error) {
	c, err := openCheckpoint(text, origin, pub)
	if err != nil {
		return Checkpoint{}, fmt.Errorf("cannot open checkpoint of %s: %w", origin, err)
	}
	return c, nil
}

func openCheckpoint(text, origin string, pub ed25519.PublicKey) (Checkpoint, error) {
	log, err := newNoteVerifier(origin, pub)
	if err != nil {
		return Checkpoint{}, err
	}
	signed, err := openNote(text, log, newSealVerifier(pub))
	if err != nil {
		return Checkpoint{}, err
	}
	c, err := ParseCheckpoint(signed.Text)
	switch {
	case err != nil:
		return Checkpoint{}, err
	case c.Origin != origin:
		return Checkpoint{}, fmt.Errorf("it is of %s", c.Origin)
	}
	c.SealedAt, err = sealedAt(signed.Sigs[1])
	return c, err
}

// ParseCheckpoint reads the three lines of a checkpoint, without SealedAt, which stands in a
// signature. It verifies nothing.
func ParseCheckpoint(body string) (Checkpoint, error) {
	var parsed log.Checkpoint
	if _, err := parsed.Unmarshal([]byte(body)); err != nil {
		return Checkpoint{}, err
	}
	if len(parsed.Hash) != len(Hash{}) {
		return Checkpoint{}, fmt.Errorf("a root of %d bytes", len(parsed.Hash))
	}
	c := Checkpoint{Origin: parsed.Origin, Size: parsed.Size, Root: Hash(parsed.Hash)}
	if c.text() != body {
		return Checkpoint{}, ErrNotCanonical
	}
	return c, CheckOrigin(c.Origin)
}
