// Package checkpoint has the signed checkpoints of a tenant's Merkle log, C2SP tlog-checkpoint with a cosignature of the
// second in which they were sealed, and the proofs that belong to them: that an event is under a
// checkpoint, and that a checkpoint extends another. Package sealer specifies their texts, package merkle has
// the hashes; package verify judges them. It is pure and keeps no state.
package checkpoint

import (
	"crypto"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"strings"
	"time"

	"github.com/transparency-dev/formats/log"
	"golang.org/x/mod/sumdb/note"

	"muniment.example/sealer"
	"muniment.example/sealer/canonical"
	"muniment.example/sealer/merkle"
)

// Origin names a tenant's Merkle log: the first line of its checkpoints, and the
// name under which they are signed.
func Origin(tenantID string) string { return originPrefix + tenantID }

// originPrefix begins the name of every log of ours.
const originPrefix = "muniment/"

// CheckOrigin checks that origin names the log of a tenant.
func CheckOrigin(origin string) error {
	tenantID, ok := strings.CutPrefix(origin, originPrefix)
	if !ok {
		return fmt.Errorf("%q is not an origin of the form %s + tenant", origin, originPrefix)
	}
	return sealer.CheckTenant(tenantID)
}

// Checkpoint states the size and the root of a log, and when that was sealed.
type Checkpoint struct {
	Origin string
	Size   uint64
	Root   merkle.Hash
	// SealedAt is a whole second in UTC: that in which it was signed.
	SealedAt time.Time
}

// text is the C2SP tlog-checkpoint: origin, size in decimal, root in standard
// base64, each on its line.
func (c *Checkpoint) text() string {
	return string(log.Checkpoint{Origin: c.Origin, Size: c.Size, Hash: c.Root[:]}.Marshal())
}

// Sign returns c as a C2SP signed note with two signatures by key: that of the log,
// under the origin's name, and a C2SP cosignature/v1 under the name muniment/sealed, which
// states SealedAt, truncated to the second. The origin must be one that Origin returns.
func Sign(c Checkpoint, key crypto.Signer) (string, error) {
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
	signer, err := sealer.NewNoteSigner(c.Origin, key)
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

// Open reads a signed checkpoint of origin and verifies both signatures by pub.
// It refuses extension lines, but accepts further signatures.
func Open(text, origin string, pub ed25519.PublicKey) (Checkpoint, error) {
	c, err := open(text, origin, pub)
	if err != nil {
		return Checkpoint{}, fmt.Errorf("cannot open checkpoint of %s: %w", origin, err)
	}
	return c, nil
}

func open(text, origin string, pub ed25519.PublicKey) (Checkpoint, error) {
	log, err := sealer.NewNoteVerifier(origin, pub)
	if err != nil {
		return Checkpoint{}, err
	}
	signed, err := sealer.OpenNote(text, log, newSealVerifier(pub))
	if err != nil {
		return Checkpoint{}, err
	}
	c, err := parse(signed.Text)
	switch {
	case err != nil:
		return Checkpoint{}, err
	case c.Origin != origin:
		return Checkpoint{}, fmt.Errorf("it is a checkpoint of %s", c.Origin)
	}
	c.SealedAt, err = sealedAt(signed.Sigs[1].Base64)
	return c, err
}

// parse reads the three lines of a checkpoint. SealedAt stays zero, because only a
// signature states it. It verifies nothing.
func parse(body string) (Checkpoint, error) {
	var parsed log.Checkpoint
	if _, err := parsed.Unmarshal([]byte(body)); err != nil {
		return Checkpoint{}, err
	}
	if len(parsed.Hash) != len(merkle.Hash{}) {
		return Checkpoint{}, fmt.Errorf("the root has %d bytes, want %d", len(parsed.Hash), len(merkle.Hash{}))
	}
	c := Checkpoint{Origin: parsed.Origin, Size: parsed.Size, Root: merkle.Hash(parsed.Hash)}
	if c.text() != body {
		return Checkpoint{}, canonical.ErrNotCanonical
	}
	return c, CheckOrigin(c.Origin)
}

// Read reads a signed checkpoint and verifies nothing. SealedAt is zero if no signature states it.
func Read(note string) (Checkpoint, error) {
	body, signatures, _ := strings.Cut(note, "\n\n")
	c, err := parse(body + "\n")
	if err != nil {
		return Checkpoint{}, err
	}
	for line := range strings.Lines(signatures) {
		if text, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "— "+sealName+" "); ok {
			c.SealedAt, err = sealedAt(text)
		}
	}
	return c, err
}

// sealName is the name of the signature that states when a checkpoint was sealed: a
// C2SP cosignature/v1, which is a timestamp and an Ed25519 signature over
//
//	cosignature/v1
//	time SECONDS
//	the lines of the checkpoint
//
// It is the same for all logs, because it names the signer, not the log.
const sealName = "muniment/sealed"

// lastSecond is the first second after the year 9999.
const lastSecond = 253402300800

// sealVerifier verifies cosignatures by one key.
type sealVerifier struct{ pub ed25519.PublicKey }

func newSealVerifier(pub ed25519.PublicKey) note.Verifier { return sealVerifier{pub} }

func (v sealVerifier) Name() string { return sealName }

func (v sealVerifier) KeyHash() uint32 {
	sum := sha256.Sum256(append([]byte(sealName+"\n\x04"), v.pub...))
	return binary.BigEndian.Uint32(sum[:])
}

func (v sealVerifier) Verify(msg, sig []byte) bool {
	if len(sig) != 8+ed25519.SignatureSize {
		return false
	}
	at := binary.BigEndian.Uint64(sig)
	return at < lastSecond && ed25519.Verify(v.pub, cosigned(msg, at), sig[8:])
}

// sealSigner makes cosignatures of one moment.
type sealSigner struct {
	sealVerifier
	key crypto.Signer
	at  uint64
}

func newSealSigner(key crypto.Signer, at time.Time) (note.Signer, error) {
	pub, err := sealer.PublicKey(key)
	if err != nil {
		return nil, err
	}
	if at.Unix() < 0 || at.Unix() >= lastSecond {
		return nil, fmt.Errorf("%s is not a time of the years 1970 to 9999", at.UTC().Format(time.RFC3339))
	}
	return sealSigner{sealVerifier{pub}, key, uint64(at.Unix())}, nil
}

func (s sealSigner) Sign(msg []byte) ([]byte, error) {
	sig, err := sealer.Sign(s.key, cosigned(msg, s.at))
	if err != nil {
		return nil, err
	}
	return append(binary.BigEndian.AppendUint64(nil, s.at), sig...), nil
}

// cosigned is what a cosignature signs.
func cosigned(msg []byte, at uint64) []byte {
	return fmt.Appendf(nil, "cosignature/v1\ntime %d\n%s", at, msg)
}

// sealedAt reads the timestamp of a cosignature.
func sealedAt(cosignature string) (time.Time, error) {
	raw, err := base64.StdEncoding.DecodeString(cosignature)
	if err != nil || len(raw) < 12 {
		return time.Time{}, fmt.Errorf("cosignature: %w", canonical.ErrNotCanonical)
	}
	return time.Unix(int64(binary.BigEndian.Uint64(raw[4:])), 0).UTC(), nil
}
