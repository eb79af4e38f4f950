// Package auth resolves the header "Authorization: Bearer <API_KEY>" to a
// Principal, and owns the format of API keys.
//
// A key is mun_<env>_<key id>_<secret>_<crc>: env is "test" or "live", the key
// id lacks its prefix "key_", the secret is 32 random bytes in base62, and crc is
// the CRC-32 (IEEE) of everything before it, in 8 lower-case hex digits. The crc
// keeps typing errors and random probes away from the look-up. Of the secret only
// its SHA-256 is ever stored: a secret of 256 random bits needs no slow hash. The
// comparison takes the same time for every wrong secret, and an unknown key, a
// wrong secret, an expired and a revoked key get the same answer.
package auth

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"hash/crc32"
	"io"
	"math/big"
	"strings"
	"time"
	"unsafe"

	"muniment.example/gateway/api"
)

const (
	keyIDLen  = 26 // a ULID
	secretLen = 43 // 32 bytes in base62
	crcLen    = 8
)

// Environments of a key.
const (
	EnvTest = "test"
	EnvLive = "live"
)

// NewKey makes an API key for a key id from 32 bytes of random. token is shown
// to its owner once and never stored; prefix and hash are what a record keeps.
func NewKey(random io.Reader, env, keyID string) (token, prefix string, hash [32]byte, err error) {
	if env != EnvTest && env != EnvLive {
		return "", "", hash, fmt.Errorf("%q is not an environment of a key", env)
	}
	if !api.IsID(api.PrefixKey, keyID) {
		return "", "", hash, fmt.Errorf("%q is not a key id", keyID)
	}
	var raw [32]byte
	if _, err := io.ReadFull(random, raw[:]); err != nil {
		return "", "", hash, fmt.Errorf("cannot draw a secret: %w", err)
	}
	digits := new(big.Int).SetBytes(raw[:]).Text(62)
	secret := strings.Repeat("0", secretLen-len(digits)) + digits
	prefix = "mun_" + env + "_" + strings.TrimPrefix(keyID, string(api.PrefixKey))
	body := prefix + "_" + secret
	return fmt.Sprintf("%s_%08x", body, crc32.ChecksumIEEE([]byte(body))), prefix, sha256.Sum256([]byte(secret)), nil
}

// Token is an API key as a caller presented it: well formed, not yet known.
type Token struct {
	KeyID string
	// Prefix is everything before the secret, so that a test key can't be passed
	// off as a live one.
	Prefix     string
	SecretHash [32]byte
}

// ParseToken reads an API key. Whatever is not exactly one is refused, without a
// look-up.
func ParseToken(s string) (Token, bool) {
	rest, ok := strings.CutPrefix(s, "mun_")
	if !ok || len(s) != len("mun_test_")+keyIDLen+1+secretLen+1+crcLen {
		return Token{}, false
	}
	env, rest, _ := strings.Cut(rest, "_")
	if (env != EnvTest && env != EnvLive) || len(rest) != keyIDLen+1+secretLen+1+crcLen {
		return Token{}, false
	}
	id, secret, crc := rest[:keyIDLen], rest[keyIDLen+1:keyIDLen+1+secretLen], rest[len(rest)-crcLen:]
	if rest[keyIDLen] != '_' || rest[len(rest)-crcLen-1] != '_' {
		return Token{}, false
	}
	if !crcMatches(crc, crc32.ChecksumIEEE(bytesOf(s[:len(s)-crcLen-1]))) {
		return Token{}, false
	}
	keyID := string(api.PrefixKey) + id
	if !api.IsID(api.PrefixKey, keyID) {
		return Token{}, false
	}
	prefix := s[:len(s)-1-secretLen-1-crcLen]
	return Token{KeyID: keyID, Prefix: prefix, SecretHash: sha256.Sum256(bytesOf(secret))}, true
}

// bytesOf is s without a copy. It must not be written to.
func bytesOf(s string) []byte { return unsafe.Slice(unsafe.StringData(s), len(s)) }

func crcMatches(text string, sum uint32) bool {
	const hex = "0123456789abcdef"
	for i := range crcLen {
		if text[i] != hex[sum>>(28-4*i)&0xf] {
			return false
		}
	}
	return true
}

// Principal is who calls: the key, and through it developer and tenant. In control a member stands in the place of a
// key: with the member's id and the scopes of the member's role.
type Principal struct {
	*api.Key
	// Unconfirmed says that a person acts in a session and has not signed in recently. Some operations then ask to
	// sign in again. Callers with a key are never unconfirmed.
	Unconfirmed bool
}

// Keys finds keys by id.
type Keys interface {
	// Key returns the key's newest snapshot, nil if there is none. The snapshot is
	// shared and must not be changed. An error means that the look-up failed; it is
	// returned to the caller unchanged.
	Key(ctx context.Context, keyID string) (*api.Key, error)
}

// Errors of authentication. They are shared: copy before changing (api.From does).
var (
	// ErrInvalid refuses a key that is not valid. ErrRevoked and ErrExpired say more, to callers who have
	// the key's secret.
	ErrInvalid = &api.Error{Code: api.AuthInvalid, Message: "the API key is not valid"}
	ErrRevoked = &api.Error{Code: api.AuthInvalid, Message: "the API key was revoked"}
	ErrExpired = &api.Error{Code: api.AuthInvalid, Message: "the API key has expired"}
	// ErrUnconfirmed refuses a caller who is Unconfirmed.
	ErrUnconfirmed = &api.Error{Code: api.AuthRequired, Message: "for this you need to have signed in within the last 10 minutes: sign in again, and repeat it"}

	errRequired = &api.Error{Code: api.AuthRequired, Message: "the header Authorization: Bearer <API_KEY> is missing or malformed"}
)

// Authenticate returns who sent the header. Errors that a caller may see are
// *api.Error: AUTH_REQUIRED for a missing or malformed header, AUTH_INVALID for a
// key that is malformed, unknown, expired or revoked; the message says which of the last two only to a
// caller who has its secret.
func Authenticate(ctx context.Context, header string, keys Keys, now time.Time) (Principal, error) {
	scheme, credentials, found := strings.Cut(header, " ")
	if !found || !strings.EqualFold(scheme, "Bearer") || credentials == "" {
		return Principal{}, errRequired
	}
	if strings.ContainsAny(credentials, " \t,") {
		return Principal{}, errRequired
	}
	return OfKey(ctx, credentials, keys, now)
}

// Shown returns the key whose secret the header has, whether it may still be used or not; nil if there is none. It
// is for those who count what was refused, and authenticates nobody.
func Shown(ctx context.Context, header string, keys Keys) *api.Key {
	scheme, credentials, _ := strings.Cut(header, " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return nil
	}
	key, err := shown(ctx, credentials, keys)
	if err != nil {
		return nil
	}
	return key
}

// shown returns the key whose secret the text has.
func shown(ctx context.Context, text string, keys Keys) (*api.Key, error) {
	token, ok := ParseToken(text)
	if !ok {
		return nil, ErrInvalid
	}
	key, err := keys.Key(ctx, token.KeyID)
	if err == nil && (key == nil || key.Prefix != token.Prefix || subtle.ConstantTimeCompare(key.SecretHash[:], token.SecretHash[:]) != 1) {
		err = ErrInvalid
	}
	return key, err
}

// OfKey is Authenticate for an API key that came by another way.
func OfKey(ctx context.Context, text string, keys Keys, now time.Time) (Principal, error) {
	key, err := shown(ctx, text, keys)
	switch {
	case err != nil:
		return Principal{}, err
	case !key.RevokedAt.IsZero(): // who has the secret may know it
		return Principal{}, ErrRevoked
	case !Live(key, now):
		return Principal{}, ErrExpired
	}
	return Principal{Key: key}, nil
}

// Live says whether the key may be used at a moment. A revocation holds from when
// it is known, whatever this clock says: clocks step back, revocations don't.
func Live(k *api.Key, now time.Time) bool {
	return k.RevokedAt.IsZero() && (k.ExpiresAt.IsZero() || now.Before(k.ExpiresAt))
}

// Require is nil when the principal passes a check for the scope, else 403.
func (p Principal) Require(s api.Scope) error {
	if p.Scopes.Allows(s) {
		return nil
	}
	return api.Missing(s, p.Scopes)
}

type principalKey struct{}

// WithPrincipal returns a context that carries the caller through control.
func WithPrincipal(ctx context.Context, p Principal) context.Context {
	return context.WithValue(ctx, principalKey{}, p)
}

// PrincipalFrom returns the caller that WithPrincipal put there. Control's
// middleware does so on every authenticated route; without it the call panics,
// which is better than serving another tenant's data.
func PrincipalFrom(ctx context.Context) Principal {
	return ctx.Value(principalKey{}).(Principal)
}
