package sealer

import (
	"crypto"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"golang.org/x/mod/sumdb/note"
)

// Key is one entry of the key directory.
type Key struct {
	KeyID     string // KeyID of the public key
	Algorithm string // Algorithm
	PublicKey string // 32 bytes, base64url
	// NotBefore ≤ moment of signing < NotAfter; a nil NotAfter is open.
	NotBefore time.Time
	NotAfter  *time.Time
	// RevokedAt is set once the key is no longer to be trusted at all.
	RevokedAt *time.Time
	Purpose   string
}

// NewKey returns the entry of a public key that is valid from notBefore on.
func NewKey(pub ed25519.PublicKey, purpose string, notBefore time.Time) Key {
	return Key{
		KeyID:     KeyID(pub),
		Algorithm: Algorithm,
		PublicKey: base64url.EncodeToString(pub),
		NotBefore: notBefore,
		Purpose:   purpose,
	}
}

// KeyID names a public key by itself: the first 16 bytes of its SHA-256 in
// lower-case hex. An id can't be given to another key.
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
	if k.KeyID != KeyID(pub) || k.Algorithm != Algorithm {
		return nil, fmt.Errorf("key %s: id or algorithm is not that of its public key", k.KeyID)
	}
	return pub, nil
}

// GenerateRoot makes the root key of a key directory: the signing half as C2SP
// skey, to be kept offline, and the verifying half as C2SP vkey, the one thing
// that a verifier has to be given. The name must be without spaces and "+".
func GenerateRoot(name string) (skey, vkey string, err error) {
	skey, vkey, err = note.GenerateKey(rand.Reader, name)
	if err == nil {
		_, err = note.NewSigner(skey) // refuses a name that no note can bear
	}
	if err != nil {
		return "", "", fmt.Errorf("cannot generate root key: %w", err)
	}
	return skey, vkey, nil
}

// publicKey returns the public half of an Ed25519 signer.
func publicKey(key crypto.Signer) (ed25519.PublicKey, error) {
	if pub, ok := key.Public().(ed25519.PublicKey); ok && len(pub) == ed25519.PublicKeySize {
		return pub, nil
	}
	return nil, errors.New("not an Ed25519 key")
}

// sign signs msg itself, not a hash of it.
func sign(key crypto.Signer, msg []byte) ([]byte, error) {
	return key.Sign(nil, msg, crypto.Hash(0))
}
