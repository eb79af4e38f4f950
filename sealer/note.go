package sealer

import (
	"crypto"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

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

// openNote returns a note that all of vs signed, in their order. Signatures of
// others, such as witnesses, may stand behind theirs, one of each; their spelling is
// strict as well.
func openNote(text string, vs ...note.Verifier) (*note.Note, error) {
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
			return nil, fmt.Errorf("two signatures by %s: %w", s.Name, ErrNotCanonical)
		}
		signed[signer{s.Name, s.Hash}] = true
		raw, err := base64.StdEncoding.Strict().DecodeString(s.Base64)
		if err != nil || base64.StdEncoding.EncodeToString(raw) != s.Base64 {
			return nil, fmt.Errorf("signature by %s: %w", s.Name, ErrNotCanonical)
		}
	}
	// Writing it again with the same signatures must give the same bytes.
	same, err := note.Sign(n)
	if err != nil || string(same) != text {
		return nil, errors.Join(err, ErrNotCanonical)
	}
	return n, nil
}

// sealName is the name of the signature that says when a checkpoint was sealed: a
// C2SP cosignature/v1, which is a timestamp and an Ed25519 signature over
//
//	cosignature/v1
//	time SECONDS
//	the lines of the checkpoint
//
// It is the same for all logs, for it names who sealed, not what.
const sealName = "muniment/sealed"

// lastSecond is where the years of four digits end.
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
	pub, err := publicKey(key)
	if err != nil {
		return nil, err
	}
	if at.Unix() < 0 || at.Unix() >= lastSecond {
		return nil, fmt.Errorf("sealed at %s", FormatTime(at))
	}
	return sealSigner{sealVerifier{pub}, key, uint64(at.Unix())}, nil
}

func (s sealSigner) Sign(msg []byte) ([]byte, error) {
	sig, err := sign(s.key, cosigned(msg, s.at))
	if err != nil {
		return nil, err
	}
	return append(binary.BigEndian.AppendUint64(nil, s.at), sig...), nil
}

// cosigned is what a cosignature signs.
func cosigned(msg []byte, at uint64) []byte {
	return fmt.Appendf(nil, "cosignature/v1\ntime %d\n%s", at, msg)
}

// sealedAt reads the moment out of a cosignature that was verified.
func sealedAt(s note.Signature) (time.Time, error) {
	raw, err := base64.StdEncoding.DecodeString(s.Base64)
	if err != nil || len(raw) < 12 {
		return time.Time{}, fmt.Errorf("cosignature: %w", ErrNotCanonical)
	}
	return time.Unix(int64(binary.BigEndian.Uint64(raw[4:])), 0).UTC(), nil
}
