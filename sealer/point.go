package sealer

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/mod/sumdb/note"
)

// ReadPublicKey reads an Ed25519 public key, 32 bytes in base64url, in its one spelling. It
// refuses a key of small order, and one that is not the canonical encoding of its point.
func ReadPublicKey(text string) (ed25519.PublicKey, error) {
	pub, err := DecodeBase64(text, ed25519.PublicKeySize)
	if err == nil {
		err = checkPoint(pub)
	}
	if err != nil {
		return nil, err
	}
	return pub, nil
}

// ReadRoot reads a root key, a C2SP vkey, with the same demands on its public key.
func ReadRoot(vkey string) (note.Verifier, error) {
	root, err := note.NewVerifier(vkey)
	if err != nil {
		return nil, err
	}
	parts := strings.SplitN(vkey, "+", 3)
	key, err := base64.StdEncoding.DecodeString(parts[len(parts)-1])
	if err != nil || len(key) != 1+ed25519.PublicKeySize {
		return nil, errors.New("its key is no Ed25519 public key")
	}
	if err := checkPoint(key[1:]); err != nil {
		return nil, err
	}
	return root, nil
}

// smallOrder are the y-coordinates of the eight points whose order divides 8, little-endian.
// Signatures by such a key can be made for any message by anybody.
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

// checkPoint refuses the encodings of points of small order, whatever their sign bit, and
// all y-coordinates that are not reduced.
func checkPoint(pub []byte) error {
	y := bytes.Clone(pub)
	y[31] &= 0x7f
	for _, small := range smallOrder {
		if bytes.Equal(y, small) {
			return fmt.Errorf("the public key %s is of small order: anybody can sign with it", base64url.EncodeToString(pub))
		}
	}
	for i := 31; i >= 0 && y[i] >= fieldPrime[i]; i-- {
		if i == 0 || y[i] > fieldPrime[i] {
			return fmt.Errorf("the public key %s is no canonical encoding of a point", base64url.EncodeToString(pub))
		}
	}
	return nil
}
