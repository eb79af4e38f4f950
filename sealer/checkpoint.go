package sealer

import (
	"crypto"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/transparency-dev/formats/log"
	tlogproof "github.com/transparency-dev/formats/proof"
	"golang.org/x/mod/sumdb/note"

	"muniment.example/sealer/canonical"
	"muniment.example/sealer/merkle"
)

// Origin names a tenant's Merkle log: the first line of its checkpoints, and the
// name under which they are signed.
func Origin(tenantID string) string { return "muniment/" + tenantID }

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

// SignCheckpoint returns c as a C2SP signed note with two signatures by key: that of the log,
// under the origin's name, and a C2SP cosignature/v1 under the name muniment/sealed, which
// states SealedAt, truncated to the second. The origin must be one that Origin returns.
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
	signer, err := NewNoteSigner(c.Origin, key)
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

// OpenCheckpoint reads a signed checkpoint of origin and verifies both signatures by pub.
// It refuses extension lines, but accepts further signatures.
func OpenCheckpoint(text, origin string, pub ed25519.PublicKey) (Checkpoint, error) {
	c, err := openCheckpoint(text, origin, pub)
	if err != nil {
		return Checkpoint{}, fmt.Errorf("cannot open checkpoint of %s: %w", origin, err)
	}
	return c, nil
}

func openCheckpoint(text, origin string, pub ed25519.PublicKey) (Checkpoint, error) {
	log, err := NewNoteVerifier(origin, pub)
	if err != nil {
		return Checkpoint{}, err
	}
	signed, err := OpenNote(text, log, newSealVerifier(pub))
	if err != nil {
		return Checkpoint{}, err
	}
	c, err := parseCheckpoint(signed.Text)
	switch {
	case err != nil:
		return Checkpoint{}, err
	case c.Origin != origin:
		return Checkpoint{}, fmt.Errorf("it is a checkpoint of %s", c.Origin)
	}
	c.SealedAt, err = sealedAt(signed.Sigs[1].Base64)
	return c, err
}

// parseCheckpoint reads the three lines of a checkpoint. SealedAt stays zero, because only a
// signature states it. It verifies nothing.
func parseCheckpoint(body string) (Checkpoint, error) {
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

// ReadCheckpoint reads a signed checkpoint and verifies nothing. SealedAt is zero if no signature states it.
func ReadCheckpoint(note string) (Checkpoint, error) {
	body, signatures, _ := strings.Cut(note, "\n\n")
	c, err := parseCheckpoint(body + "\n")
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

// InclusionProof proves that an event is under a signed checkpoint of its log.
type InclusionProof struct {
	// Index is the leaf of the event.
	Index uint64
	// Hashes are the RFC 6962 inclusion proof.
	Hashes []merkle.Hash
	// Checkpoint is the signed note, verbatim.
	Checkpoint string
}

// Text is the C2SP tlog-proof, https://c2sp.org/tlog-proof. It has no extra line,
// because no signature would cover that.
func (p *InclusionProof) Text() string {
	hashes := make([][len(merkle.Hash{})]byte, len(p.Hashes))
	for i, h := range p.Hashes {
		hashes[i] = h
	}
	return string(tlogproof.TLogProof{Index: p.Index, Hashes: hashes, Checkpoint: []byte(p.Checkpoint)}.Marshal())
}

// ParseInclusionProof reads exactly what Text writes. It verifies nothing.
func ParseInclusionProof(text string) (InclusionProof, error) {
	p, err := parseInclusionProof(text)
	if err != nil {
		return InclusionProof{}, fmt.Errorf("cannot read inclusion proof: %w", err)
	}
	return p, nil
}

func parseInclusionProof(text string) (p InclusionProof, err error) {
	var parsed tlogproof.TLogProof
	if err := parsed.Unmarshal([]byte(text)); err != nil {
		return p, err
	}
	p = InclusionProof{Index: parsed.Index, Checkpoint: string(parsed.Checkpoint)}
	for _, h := range parsed.Hashes {
		p.Hashes = append(p.Hashes, h)
	}
	if p.Text() != text {
		return p, canonical.ErrNotCanonical
	}
	return p, nil
}

// ConsistencyProof shows that one checkpoint of a log extends another.
type ConsistencyProof struct {
	// Hashes are the RFC 6962 consistency proof between the two sizes.
	Hashes []merkle.Hash
	// From and To are the signed notes, verbatim.
	From, To string
}

// Append appends the canonical text: {"consistency":[…],"from":NOTE,"to":NOTE}.
func (p *ConsistencyProof) Append(dst []byte) []byte {
	dst = append(dst, `{"consistency":`...)
	dst = AppendHashes(dst, p.Hashes)
	dst = append(dst, `,"from":`...)
	dst = canonical.AppendString(dst, p.From)
	dst = append(dst, `,"to":`...)
	dst = canonical.AppendString(dst, p.To)
	return append(dst, '}')
}

// ParseConsistencyProof reads exactly what Append writes. It verifies nothing.
func ParseConsistencyProof(text []byte) (p ConsistencyProof, err error) {
	s := NewScanner(string(text))
	s.Lit(`{"consistency":`)
	p.Hashes = s.Hashes()
	s.Lit(`,"from":`)
	p.From = s.Name()
	s.Lit(`,"to":`)
	p.To = s.Name()
	s.Lit(`}`)
	if err := s.End(); err != nil {
		return ConsistencyProof{}, fmt.Errorf("cannot read consistency proof: %w", err)
	}
	return p, nil
}

// ParseProvenEvent reads {"event":…,"proof":…}, as the service returns it. The event is
// verbatim: it is the leaf. It verifies nothing.
func ParseProvenEvent(text string) (event []byte, p InclusionProof, err error) {
	s := NewScanner(text)
	s.Lit(`{"event":`)
	event = []byte(s.Object())
	s.Lit(`,"proof":`)
	proof := s.Name()
	s.Lit(`}`)
	if err := s.End(); err != nil {
		return nil, p, fmt.Errorf("cannot read inclusion proof: %w", err)
	}
	p, err = ParseInclusionProof(proof)
	return event, p, err
}

// FormatProvenEvent writes what ParseProvenEvent reads.
func FormatProvenEvent(event []byte, p *InclusionProof) ([]byte, error) {
	proof, err := canonical.JSON(p.Text())
	if err != nil {
		return nil, err
	}
	return slices.Concat([]byte(`{"event":`), event, []byte(`,"proof":`), proof, []byte("}")), nil
}

// ParseNote reads {"checkpoint":NOTE}, as the service returns it. It verifies nothing.
func ParseNote(text string) (note string, err error) {
	s := NewScanner(text)
	s.Lit(`{"checkpoint":`)
	note = s.Name()
	s.Lit(`}`)
	return note, s.End()
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
	pub, err := PublicKey(key)
	if err != nil {
		return nil, err
	}
	if at.Unix() < 0 || at.Unix() >= lastSecond {
		return nil, fmt.Errorf("%s is not a time of the years 1970 to 9999", at.UTC().Format(time.RFC3339))
	}
	return sealSigner{sealVerifier{pub}, key, uint64(at.Unix())}, nil
}

func (s sealSigner) Sign(msg []byte) ([]byte, error) {
	sig, err := Sign(s.key, cosigned(msg, s.at))
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
