package api

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
)

// PathBeacon is the path of a beacon before its token.
const PathBeacon = "/beacon/"

// Beacon permits to report plays of one anchor under one right by calling a URL. It is not
// stored: its token holds all of it, signed by a key of control.
type Beacon struct {
	TenantID string `json:"tenantId"`
	// KeyID is the API key that made it. Once that may not deliver, nor may the beacon.
	KeyID           string    `json:"keyId"`
	RightID         string    `json:"rightId"`
	SpatialAnchorID string    `json:"spatialAnchorId"`
	IssuedAt        time.Time `json:"issuedAt"`
	ExpiresAt       time.Time `json:"expiresAt"`
	// MaxReceiptsPerHour is what a node issues within any hour.
	MaxReceiptsPerHour int `json:"maxReceiptsPerHour"`
	// SigningKeyID is the key of purpose beacon_signing that signed it.
	SigningKeyID string `json:"signingKeyId"`
}

// maxBeaconToken bounds a token: an anchor of 512 bytes, all of them escaped, fits.
const maxBeaconToken = 6 << 10

// beaconContext precedes the signed text, so that the signature is valid for beacons only.
const beaconContext = "muniment beacon/v1\n"

var strict64 = base64.RawURLEncoding.Strict()

// SignBeacon makes the token of a beacon: its text in JSON and the signature of that, both in
// base64url, with a point between them. sign signs the message itself.
func SignBeacon(b *Beacon, sign func(message []byte) ([]byte, error)) (token string, err error) {
	text, err := json.Marshal(b)
	if err != nil {
		return "", fmt.Errorf("cannot write a beacon: %w", err)
	}
	signature, err := sign(append([]byte(beaconContext), text...))
	if err != nil {
		return "", fmt.Errorf("cannot sign a beacon: %w", err)
	}
	return strict64.EncodeToString(text) + "." + strict64.EncodeToString(signature), nil
}

// SignedBeacon is a token as it was received. Its contents can be trusted only after SignedBy.
type SignedBeacon struct {
	Beacon
	// Text is what was signed. There is no other token with the same one: it names the beacon.
	Text      []byte
	signature []byte
}

var errNoBeacon = errors.New("not the token of a beacon")

// ReadBeacon reads a token, strictly: a beacon has one encoding.
func ReadBeacon(token string) (*SignedBeacon, error) {
	text, signature, ok := strings.Cut(token, ".")
	if !ok || len(token) > maxBeaconToken {
		return nil, errNoBeacon
	}
	b := new(SignedBeacon)
	var errs [3]error
	b.Text, errs[0] = strict64.DecodeString(text)
	b.signature, errs[1] = strict64.DecodeString(signature)
	errs[2] = json.Unmarshal(b.Text, &b.Beacon)
	if errors.Join(errs[:]...) != nil || len(b.signature) != ed25519.SignatureSize || bytes.ContainsAny([]byte(token), "\r\n") {
		return nil, errNoBeacon
	}
	return b, nil
}

// SignedBy reports whether a key has signed the token, and was valid at the time that the token states.
func (b *SignedBeacon) SignedBy(k *BeaconKey) bool {
	return k.ID == b.SigningKeyID && len(k.PublicKey) == ed25519.PublicKeySize && k.RevokedAt.IsZero() &&
		!b.IssuedAt.Before(k.NotBefore) && (k.NotAfter.IsZero() || b.IssuedAt.Before(k.NotAfter)) &&
		ed25519.Verify(k.PublicKey, append([]byte(beaconContext), b.Text...), b.signature)
}

// BeaconKey is the snapshot of a key that signs beacons. Beacons outlive the window of the key
// that signed them, and not its revocation.
type BeaconKey struct {
	ID        string            `json:"id"`
	Revision  int64             `json:"revision"`
	PublicKey ed25519.PublicKey `json:"publicKey"`
	NotBefore time.Time         `json:"notBefore"`
	NotAfter  time.Time         `json:"notAfter,omitzero"`
	RevokedAt time.Time         `json:"revokedAt,omitzero"`
}
