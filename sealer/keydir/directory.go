// Package keydir has the key directory: the public keys that ever signed, each with its purpose and its window, signed by
// a key to which the root has delegated. A signature is judged by it: which key, for what, and when.
// Package sealer specifies its text. Private keys are not here: they are passed in as crypto.Signer
// (package keyfile keeps them on disk, package control/signing those of control).
//
// It keeps no state and reads no clock; only GenerateRoot uses randomness.
package keydir

import (
	"crypto"
	"crypto/ed25519"
	"errors"
	"fmt"
	"time"

	"golang.org/x/mod/sumdb/note"

	"muniment.example/sealer"
	"muniment.example/sealer/canonical"
)

// Directory lists every key that ever signed, with its purpose and its window.
// It is signed by an online directory key, to which a root key has delegated in
// the directory itself.
type Directory struct {
	// Keys hold each key id once; the directory key is among them.
	Keys     []Key
	IssuedAt time.Time
	// SnapshotID is how the issuer names this state of the directory.
	SnapshotID string
	// Delegation is what Delegate returned.
	Delegation string

	delegated *Delegation // Delegation as it was read; nil if it was not
	byID      map[string]int
}

// Sign returns the canonical text of d, signed by the delegated key:
//
//	{"delegation":…,"issuedAt":…,"keys":[…],"signature":{…},"snapshotId":…}
//
// The signature is over the same object without its member signature. Sign fails
// when Delegation is for another key, a key is malformed, or an id is twice there.
func Sign(d *Directory, key crypto.Signer) ([]byte, error) {
	text, err := d.sign(key)
	if err != nil {
		return nil, fmt.Errorf("cannot sign key directory: %w", err)
	}
	return text, nil
}

func (d *Directory) sign(key crypto.Signer) ([]byte, error) {
	pub, err := sealer.PublicKey(key)
	if err != nil {
		return nil, err
	}
	signature, err := sealer.Sign(key, d.append(nil, nil))
	if err != nil {
		return nil, err
	}
	text := d.append(nil, func(dst []byte) []byte { return sealer.AppendSignature(dst, KeyID(pub), signature) })
	// No directory is published that readers refuse.
	if _, err := Read(text); err != nil {
		return nil, err
	}
	return text, nil
}

// append appends the canonical text, with a signature member if there is one.
func (d *Directory) append(dst []byte, signature func([]byte) []byte) []byte {
	dst = append(dst, `{"delegation":`...)
	dst = canonical.AppendString(dst, d.Delegation)
	dst = append(dst, `,"issuedAt":`...)
	dst = canonical.AppendQuotedTime(dst, d.IssuedAt)
	dst = append(dst, `,"keys":[`...)
	for i := range d.Keys {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = d.Keys[i].append(dst)
	}
	dst = append(dst, ']')
	if signature != nil {
		dst = append(dst, `,"signature":`...)
		dst = signature(dst)
	}
	dst = append(dst, `,"snapshotId":`...)
	dst = canonical.AppendString(dst, d.SnapshotID)
	return append(dst, '}')
}

func (k *Key) append(dst []byte) []byte {
	dst = append(dst, `{"algorithm":`...)
	dst = canonical.AppendString(dst, k.Algorithm)
	dst = append(dst, `,"keyId":`...)
	dst = canonical.AppendString(dst, k.KeyID)
	dst = append(dst, `,"notAfter":`...)
	dst = appendNullTime(dst, k.NotAfter)
	dst = append(dst, `,"notBefore":`...)
	dst = canonical.AppendQuotedTime(dst, k.NotBefore)
	dst = append(dst, `,"publicKey":`...)
	dst = canonical.AppendString(dst, k.PublicKey)
	dst = append(dst, `,"purpose":`...)
	dst = canonical.AppendString(dst, k.Purpose)
	dst = append(dst, `,"revokedAt":`...)
	dst = appendNullTime(dst, k.RevokedAt)
	return append(dst, '}')
}

func appendNullTime(dst []byte, t *time.Time) []byte {
	if t == nil {
		return append(dst, "null"...)
	}
	return canonical.AppendQuotedTime(dst, *t)
}

// Read reads a signed directory strictly and verifies its signature by the directory
// key that its delegation names. It does not verify the delegation's signature: see
// Verify.
func Read(text []byte) (*Directory, error) {
	d, err := read(text)
	if err != nil {
		return nil, fmt.Errorf("cannot read key directory: %w", err)
	}
	return d, nil
}

// ErrOtherRoot: a directory is sound by itself, and does not claim that this root has delegated to it.
var ErrOtherRoot = errors.New("the directory is of another root key")

// Verify reads as Read does, and verifies that the root key, a C2SP vkey,
// has delegated to the directory key for the moment of issue; ErrOtherRoot if another one has.
func Verify(text []byte, rootVkey string) (*Directory, error) {
	root, err := ReadRoot(rootVkey)
	if err != nil {
		return nil, fmt.Errorf("cannot read root key: %w", err)
	}
	d, err := read(text)
	if err == nil {
		err = checkRoot(d.Delegation, root)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot verify key directory: %w", err)
	}
	return d, nil
}

func read(text []byte) (*Directory, error) {
	d := new(Directory)
	s := sealer.NewScanner(string(text))
	s.Lit(`{"delegation":`)
	d.Delegation = s.Name()
	s.Lit(`,"issuedAt":`)
	d.IssuedAt = s.Time()
	s.Lit(`,"keys":`)
	s.List(func() { d.Keys = append(d.Keys, readKey(&s)) })
	signatureFrom := s.At
	s.Lit(`,"signature":`)
	keyID, signature := s.Signature()
	signatureTo := s.At
	s.Lit(`,"snapshotId":`)
	d.SnapshotID = s.Name()
	s.Lit(`}`)
	if err := s.End(); err != nil {
		return nil, err
	}

	for i := range d.Keys {
		if _, err := d.Keys[i].Public(); err != nil {
			return nil, err
		}
	}
	if err := d.index(); err != nil {
		return nil, err
	}
	pub, code := d.Find(keyID, PurposeDirectory, d.IssuedAt)
	if code != "" {
		return nil, fmt.Errorf("directory key %s: %s", keyID, code)
	}
	signed := s.Text[:signatureFrom] + s.Text[signatureTo:]
	if !ed25519.Verify(pub, []byte(signed), signature) {
		return nil, errors.New("signature of the directory key is invalid")
	}
	return d, d.checkDelegation(pub)
}

// New returns an unsigned directory of keys that are taken on trust. It fails if a
// key id is there twice.
func New(keys []Key, issuedAt time.Time, snapshotID string) (*Directory, error) {
	d := &Directory{Keys: keys, IssuedAt: issuedAt, SnapshotID: snapshotID}
	return d, d.index()
}

// index prepares the search for keys by id.
func (d *Directory) index() error {
	d.byID = make(map[string]int, len(d.Keys))
	for i := range d.Keys {
		id := d.Keys[i].KeyID
		if _, twice := d.byID[id]; twice {
			return fmt.Errorf("key %s is listed twice", id)
		}
		d.byID[id] = i
	}
	return nil
}

// checkDelegation checks that the delegation is for pub at the moment of issue.
func (d *Directory) checkDelegation(pub ed25519.PublicKey) error {
	to, err := parseDelegation(d.Delegation)
	switch {
	case err != nil:
		return err
	case !to.Key.Equal(pub):
		return errors.New("the delegation is for another key")
	case !to.covers(d.IssuedAt):
		return fmt.Errorf("the delegation does not cover %s", canonical.FormatTime(d.IssuedAt))
	}
	d.delegated = to
	return nil
}

// SigningKeyID names the key that signed a directory which was read.
func (d *Directory) SigningKeyID() string { return KeyID(d.delegated.Key) }

// Delegated returns what the root let the directory key do, of a directory which was read.
func (d *Directory) Delegated() Delegation { return *d.delegated }

// NamedRoot returns how the root key begins that the delegation names as its signer, up to its second "+": its name and its
// hash, which people can compare. It is what the directory says: only Verify shows that this root has signed it.
func (d *Directory) NamedRoot() string {
	_, err := note.Open([]byte(d.Delegation), note.VerifierList())
	unverified, ok := errors.AsType[*note.UnverifiedNoteError](err)
	if !ok || len(unverified.Note.UnverifiedSigs) == 0 {
		return ""
	}
	by := unverified.Note.UnverifiedSigs[0]
	return fmt.Sprintf("%s+%08x", by.Name, by.Hash)
}

// Outranks reports whether d decides where it differs from other, both being under one root
// key: the directory whose key was delegated to later does; of one delegation, the one that was
// issued later. Only the root can sign delegations, while a thief of a directory key can write
// any issuedAt and any list. Both directories must have been read.
func (d *Directory) Outranks(other *Directory) bool {
	if c := d.delegated.NotBefore.Compare(other.delegated.NotBefore); c != 0 {
		return c > 0
	}
	return d.IssuedAt.After(other.IssuedAt)
}

func readKey(s *sealer.Scanner) (k Key) {
	s.Lit(`{"algorithm":`)
	k.Algorithm = s.Name()
	s.Lit(`,"keyId":`)
	k.KeyID = s.Name()
	s.Lit(`,"notAfter":`)
	k.NotAfter = s.NullTime()
	s.Lit(`,"notBefore":`)
	k.NotBefore = s.Time()
	s.Lit(`,"publicKey":`)
	k.PublicKey = s.Name()
	s.Lit(`,"purpose":`)
	k.Purpose = s.Name()
	s.Lit(`,"revokedAt":`)
	k.RevokedAt = s.NullTime()
	s.Lit(`}`)
	return k
}

// ReadAnsweredKey consumes a key as the sandbox returns it, whose members are in another order.
func ReadAnsweredKey(s *sealer.Scanner) (k Key) {
	s.Lit(`{"keyId":`)
	k.KeyID = s.Name()
	s.Lit(`,"algorithm":`)
	k.Algorithm = s.Name()
	s.Lit(`,"publicKey":`)
	k.PublicKey = s.Name()
	s.Lit(`,"notBefore":`)
	k.NotBefore = s.Time()
	s.Lit(`,"notAfter":`)
	k.NotAfter = s.NullTime()
	s.Lit(`,"revokedAt":`)
	k.RevokedAt = s.NullTime()
	s.Lit(`,"purpose":`)
	k.Purpose = s.Name()
	s.Lit(`}`)
	return k
}

// Find returns the public key if it may have signed for purpose at the moment at, and
// otherwise sealer.KeyUnknown, KeyPurpose, KeyOutsideWindow or KeyRevoked. After the end of its
// delegation the directory is valid for no key. A revoked key is refused at every moment,
// because a thief of the key can write any; see FindSealed.
func (d *Directory) Find(keyID, purpose string, at time.Time) (ed25519.PublicKey, sealer.Code) {
	return d.find(keyID, purpose, at, nil)
}

// FindSealed is Find for a signature that a checkpoint of sealedAt covers: a key that was
// revoked only after that is accepted.
func (d *Directory) FindSealed(keyID, purpose string, at, sealedAt time.Time) (ed25519.PublicKey, sealer.Code) {
	return d.find(keyID, purpose, at, &sealedAt)
}

func (d *Directory) find(keyID, purpose string, at time.Time, sealedAt *time.Time) (ed25519.PublicKey, sealer.Code) {
	k := d.Key(keyID)
	if k == nil {
		return nil, sealer.KeyUnknown
	}
	pub, err := k.Public()
	switch {
	case err != nil:
		return nil, sealer.KeyUnknown
	case k.Purpose != purpose:
		return nil, sealer.KeyPurpose
	case at.Before(k.NotBefore), k.NotAfter != nil && !at.Before(*k.NotAfter),
		d.delegated != nil && !at.Before(d.delegated.NotAfter):
		return nil, sealer.KeyOutsideWindow
	case k.RevokedAt != nil && (sealedAt == nil || !sealedAt.Before(*k.RevokedAt) || !at.Before(*k.RevokedAt)):
		return nil, sealer.KeyRevoked
	}
	return pub, ""
}

// Key returns the entry of an id, nil if there is none.
func (d *Directory) Key(keyID string) *Key {
	if i, ok := d.byID[keyID]; ok {
		return &d.Keys[i]
	}
	if d.byID == nil { // assembled by hand, not read
		for i := range d.Keys {
			if d.Keys[i].KeyID == keyID {
				return &d.Keys[i]
			}
		}
	}
	return nil
}

// OfSandbox reports whether d lists a key as one of the sandbox.
func (d *Directory) OfSandbox(keyID string) bool {
	k := d.Key(keyID)
	return k != nil && PurposeOf(k.Purpose).Sandbox
}
