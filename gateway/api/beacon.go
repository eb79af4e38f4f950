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

// PathBeacon begins the path of a beacon; its token follows.
const PathBeacon = "/beacon/"

// Beacon is the right to report plays of one anchor under one right by calling a URL. Nothing
// of it is stored: its token holds all of it, and is signed by a key of control's.
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

// maxBeaconToken bounds a token: an anchor of 512 bytes, spelt by escapes, fits.
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

// SignedBeacon is a token as it came in. What it says is to be believed only if it is Signed.
type SignedBeacon struct {
	Beacon
	// Text is what was signed. There is no other token with the same one: it names the beacon.
	Text      []byte
	signature []byte
}

var errNoBeacon = errors.New("it is no beacon's token")

// ReadBeacon reads a token, strictly: one token has one spelling.
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

// SignedBy says whether a key has signed the token, and could at the time when it says so.
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
