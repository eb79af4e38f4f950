package keydir

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"golang.org/x/mod/sumdb/note"

	"muniment.example/sealer"
	"muniment.example/sealer/canonical"
)

// Key is one entry of the key directory.
type Key struct {
	KeyID     string // KeyID of the public key
	Algorithm string // sealer.Algorithm
	PublicKey string // 32 bytes, base64url
	// NotBefore ≤ moment of signing < NotAfter; a nil NotAfter is open.
	NotBefore time.Time
	NotAfter  *time.Time
	// RevokedAt is set once the key must no longer be trusted.
	RevokedAt *time.Time
	Purpose   string
}

// NewKey returns the entry of a public key that is valid from notBefore on.
func NewKey(pub ed25519.PublicKey, purpose string, notBefore time.Time) Key {
	return Key{
		KeyID:     KeyID(pub),
		Algorithm: sealer.Algorithm,
		PublicKey: canonical.Base64.EncodeToString(pub),
		NotBefore: notBefore,
		Purpose:   purpose,
	}
}

// KeyID derives the id from the public key: the first 16 bytes of its SHA-256 in
// lower-case hex. So no other key can have that id.
func KeyID(pub ed25519.PublicKey) string {
	sum := sha256.Sum256(pub)
	return hex.EncodeToString(sum[:16])
}

// Public decodes the key as ReadPublicKey does, and checks that KeyID and Algorithm are its own.
func (k *Key) Public() (ed25519.PublicKey, error) {
	pub, err := ReadPublicKey(k.PublicKey)
	if err != nil {
		return nil, fmt.Errorf("key %s: %w", k.KeyID, err)
	}
	if k.KeyID != KeyID(pub) || k.Algorithm != sealer.Algorithm {
		return nil, fmt.Errorf("key %s: id or algorithm is not that of its public key", k.KeyID)
	}
	return pub, nil
}

// Purposes of keys. A key signs for one purpose only, so that a signature made
// for one purpose is not valid for another.
const (
	PurposeReceipt   = "receipt_signing"
	PurposePack      = "proof_pack_signing"
	PurposeDirectory = "directory_signing"
	PurposeWebhook   = "webhook_signing"
	PurposeBeacon    = "beacon_signing"
	// PurposeSandbox signs receipts and packs of sandbox tenants.
	PurposeSandbox = "sandbox_proof_signing"
)

// Purpose says what keys of a purpose sign.
type Purpose struct {
	Name string
	// Packs includes checkpoints.
	Receipts, Packs, Directories bool
	// Sandbox: the keys sign for tenants of the sandbox only.
	Sandbox bool
}

// purposes has one row a purpose. Receipts and packs each have one row for the sandbox, and one
// for all other tenants. Keys without any flag sign nothing that a verifier checks. A purpose with
// which control signs needs a row in package control/signing as well.
var purposes = [...]Purpose{
	{Name: PurposeReceipt, Receipts: true},
	{Name: PurposePack, Packs: true},
	{Name: PurposeDirectory, Directories: true},
	{Name: PurposeWebhook},
	{Name: PurposeBeacon},
	{Name: PurposeSandbox, Receipts: true, Packs: true, Sandbox: true},
}

// PurposeOf returns the row of a purpose, or the zero Purpose if there is none.
func PurposeOf(name string) Purpose {
	return purposeThat(func(p *Purpose) bool { return p.Name == name })
}

// PackPurpose returns the purpose of the keys that sign packs and checkpoints.
func PackPurpose(sandbox bool) string {
	return purposeThat(func(p *Purpose) bool { return p.Packs && p.Sandbox == sandbox }).Name
}

// ReceiptPurpose returns the purpose of the keys that sign receipts.
func ReceiptPurpose(sandbox bool) string {
	return purposeThat(func(p *Purpose) bool { return p.Receipts && p.Sandbox == sandbox }).Name
}

func purposeThat(is func(*Purpose) bool) Purpose {
	for i := range purposes {
		if is(&purposes[i]) {
			return purposes[i]
		}
	}
	return Purpose{}
}

// ReadPublicKey reads an Ed25519 public key, 32 bytes in base64url. It refuses a key of
// small order, and one that is not the canonical encoding of its point.
func ReadPublicKey(text string) (ed25519.PublicKey, error) {
	pub, err := canonical.DecodeBase64(text, ed25519.PublicKeySize)
	if err == nil {
		err = checkPoint(pub)
	}
	if err != nil {
		return nil, err
	}
	return pub, nil
}

// checkPoint refuses the encodings of points of small order, whatever their sign bit, and
// all y-coordinates that are not reduced.
func checkPoint(pub []byte) error {
	y := bytes.Clone(pub)
	y[31] &= 0x7f
	for _, small := range smallOrder {
		if bytes.Equal(y, small) {
			return fmt.Errorf("the public key %s is of small order: anyone can sign with it", canonical.Base64.EncodeToString(pub))
		}
	}
	for i := 31; i >= 0 && y[i] >= fieldPrime[i]; i-- {
		if i == 0 || y[i] > fieldPrime[i] {
			return fmt.Errorf("the public key %s is not the canonical encoding of a point", canonical.Base64.EncodeToString(pub))
		}
	}
	return nil
}

// smallOrder are the y-coordinates of the eight points whose order divides 8, little-endian.
// Anyone can make a signature by such a key for any message.
var smallOrder = [][]byte{
	{31: 0x00},          // order 4
	{0: 0x01, 31: 0x00}, // the identity
	{ // order 2: −1
		0xec, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
		0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f,
	},
	{ // order 8
		0x26, 0xe8, 0x95, 0x8f, 0xc2, 0xb2, 0x27, 0xb0, 0x45, 0xc3, 0xf4, 0x89, 0xf2, 0xef, 0x98, 0xf0,
		0xd5, 0xdf, 0xac, 0x05, 0xd3, 0xc6, 0x33, 0x39, 0xb1, 0x38, 0x02, 0x88, 0x6d, 0x53, 0xfc, 0x05,
	},
	{ // order 8
		0xc7, 0x17, 0x6a, 0x70, 0x3d, 0x4d, 0xd8, 0x4f, 0xba, 0x3c, 0x0b, 0x76, 0x0d, 0x10, 0x67, 0x0f,
		0x2a, 0x20, 0x53, 0xfa, 0x2c, 0x39, 0xcc, 0xc6, 0x4e, 0xc7, 0xfd, 0x77, 0x92, 0xac, 0x03, 0x7a,
	},
}

// fieldPrime is 2^255 − 19, little-endian: a canonical y-coordinate is smaller.
var fieldPrime = []byte{
	0xed, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
	0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f,
}

// GenerateRoot generates the root key of a key directory: the signing half as C2SP
// skey, to be kept offline, and the verifying half as C2SP vkey, the one thing
// that a verifier must be given. The name must not contain spaces or "+".
func GenerateRoot(name string) (skey, vkey string, err error) {
	skey, vkey, err = note.GenerateKey(rand.Reader, name)
	if err == nil {
		_, err = note.NewSigner(skey) // refuses a name that is invalid in a note
	}
	if err != nil {
		return "", "", fmt.Errorf("cannot generate root key: %w", err)
	}
	return skey, vkey, nil
}

// ReadRoot reads a root key, a C2SP vkey, and checks its public key as ReadPublicKey does.
func ReadRoot(vkey string) (note.Verifier, error) {
	root, err := note.NewVerifier(vkey)
	if err != nil {
		return nil, err
	}
	parts := strings.SplitN(vkey, "+", 3)
	key, err := base64.StdEncoding.DecodeString(parts[len(parts)-1])
	if err != nil || len(key) != 1+ed25519.PublicKeySize {
		return nil, errors.New("its key is not an Ed25519 public key")
	}
	if err := checkPoint(key[1:]); err != nil {
		return nil, err
	}
	return root, nil
}

// Delegation is the content of a delegation by the root: Key may sign directories that
// are issued at NotBefore ≤ t < NotAfter.
type Delegation struct {
	Key                 ed25519.PublicKey
	NotBefore, NotAfter time.Time
}

func (d *Delegation) text() string {
	return strings.Join([]string{
		delegationHeader, KeyID(d.Key), canonical.Base64.EncodeToString(d.Key), canonical.FormatTime(d.NotBefore), canonical.FormatTime(d.NotAfter), "",
	}, "\n")
}

// covers reports whether a directory may be issued at t.
func (d *Delegation) covers(t time.Time) bool { return !t.Before(d.NotBefore) && t.Before(d.NotAfter) }

// delegationHeader is the first line of a delegation, so that no other note that the root
// signs can be taken for one.
const delegationHeader = "muniment/directory-key.v1"

// Delegate lets key sign directories that are issued from notBefore on and before
// notAfter. It returns a C2SP signed note by the root of five lines:
// "muniment/directory-key.v1", key id, public key in base64url, notBefore and
// notAfter. The root must not give two keys the same notBefore, because delegations are
// ordered by it.
func Delegate(root note.Signer, key ed25519.PublicKey, notBefore, notAfter time.Time) (string, error) {
	d := Delegation{key, notBefore, notAfter}
	text, err := note.Sign(&note.Note{Text: d.text()}, root)
	if err == nil {
		_, err = parseDelegation(string(text)) // no delegation is issued that readers refuse
	}
	if err != nil {
		return "", fmt.Errorf("cannot delegate to directory key %s: %w", KeyID(key), err)
	}
	return string(text), nil
}

// ReadDelegation reads what Delegate returned, strictly, and verifies that the
// root key, a C2SP vkey, has signed it.
func ReadDelegation(text, rootVkey string) (*Delegation, error) {
	root, err := ReadRoot(rootVkey)
	if err != nil {
		return nil, fmt.Errorf("cannot read root key: %w", err)
	}
	d, err := parseDelegation(text)
	if err == nil {
		err = checkRoot(text, root)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read delegation: %w", err)
	}
	return d, nil
}

// parseDelegation reads a delegation. It verifies no signature.
func parseDelegation(text string) (*Delegation, error) {
	signed := delegationLines(text)
	lines := strings.Split(signed, "\n")
	if len(lines) != 6 || lines[0] != delegationHeader {
		return nil, errors.New("the delegation is not for a directory key")
	}
	key, err := ReadPublicKey(lines[2])
	if err != nil {
		return nil, err
	}
	d := &Delegation{Key: key}
	if d.NotBefore, err = canonical.ParseTime(lines[3]); err != nil {
		return nil, err
	}
	if d.NotAfter, err = canonical.ParseTime(lines[4]); err != nil {
		return nil, err
	}
	switch {
	case d.text() != signed:
		return nil, canonical.ErrNotCanonical
	case !d.NotBefore.Before(d.NotAfter):
		return nil, errors.New("the delegation ends before it begins")
	}
	return d, nil
}

// delegationLines is the text of the note: all up to the blank line before the signatures.
func delegationLines(text string) string {
	lines, _, _ := strings.Cut(text, "\n\n")
	return lines + "\n"
}

// checkRoot checks that the root has signed the delegation.
func checkRoot(delegation string, root note.Verifier) error {
	signed, err := sealer.OpenNote(delegation, root)
	if _, unsigned := errors.AsType[*note.UnverifiedNoteError](err); unsigned {
		return fmt.Errorf("delegation by the root: %w: it has no signature by %s", ErrOtherRoot, root.Name())
	}
	if err == nil && signed.Text != delegationLines(delegation) {
		err = canonical.ErrNotCanonical
	}
	if err != nil {
		return fmt.Errorf("delegation by the root: %w", err)
	}
	return nil
}
