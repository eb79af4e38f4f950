package api

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"strings"
)

const secretBytes = 32

// NewBearer makes a bearer token for an id, <id>.<secret>, and the hash that is stored to check
// it: a secret of 256 random bits needs no slow hash.
func NewBearer(id string) (token, hash string) {
	secret := NewSecret()
	return id + "." + secret, HashSecret(secret)
}

// NewSecret makes 256 random bits that nobody guesses, in base64url.
func NewSecret() string {
	var random [secretBytes]byte
	rand.Read(random[:]) // never fails: crypto/rand crashes the process instead
	return base64.RawURLEncoding.EncodeToString(random[:])
}

// ReadBearer returns the id of a bearer token and its hash; ok is false, and both are empty, for
// a text that NewBearer can't have made.
func ReadBearer(prefix Prefix, token string) (id, hash string, ok bool) {
	id, secret, _ := strings.Cut(token, ".")
	raw, err := base64.RawURLEncoding.DecodeString(secret)
	if err != nil || len(raw) != secretBytes || strings.ContainsAny(secret, "\r\n") || !IsID(prefix, id) {
		return "", "", false
	}
	return id, HashSecret(secret), true
}

// IsHash says whether a text is as a hash of NewBearer's.
func IsHash(text string) bool {
	sum, err := hex.DecodeString(text)
	return err == nil && len(sum) == sha256.Size && text == strings.ToLower(text)
}

// HashSecret is what is stored of a secret: the SHA-256, in hexadecimal digits.
func HashSecret(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])
}
