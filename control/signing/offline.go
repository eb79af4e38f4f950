package signing

import (
	"crypto/ed25519"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"time"

	"muniment.example/sealer/keydir"
)

// DelegateOffline signs a delegation with the root key in the file rootFile, to the directory
// key whose public half is in the file keyFile, in PEM. The delegation is in force from
// notBefore on and before notAfter. It needs no server. Its result is for "muniment
// signing-key delegate" or the key folder.
func DelegateOffline(rootFile, keyFile string, notBefore, notAfter time.Time) (string, error) {
	if !notBefore.Before(notAfter) {
		return "", errors.New("cannot delegate: the delegation would end before it begins")
	}
	root, _, err := readRoot(rootFile)
	if err != nil {
		return "", err
	}
	text, err := os.ReadFile(keyFile)
	if err != nil {
		return "", fmt.Errorf("cannot delegate: %w", err)
	}
	pub, err := decodePublic(text)
	if err != nil {
		return "", fmt.Errorf("cannot delegate to %s: %w", keyFile, err)
	}
	return keydir.Delegate(root, pub, notBefore, notAfter)
}

const publicPEM = "PUBLIC KEY"

// encodePublic writes a public key as PEM (PKIX).
func encodePublic(pub ed25519.PublicKey) string {
	der, err := x509.MarshalPKIXPublicKey(pub)
	if err != nil {
		panic(err) // cannot happen: the type is known
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: publicPEM, Bytes: der}))
}

func decodePublic(text []byte) (ed25519.PublicKey, error) {
	block, rest := pem.Decode(text)
	if block == nil || block.Type != publicPEM || len(rest) != 0 {
		return nil, errors.New("not a single PEM block of a public key")
	}
	key, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		return nil, err
	}
	pub, ok := key.(ed25519.PublicKey)
	if !ok {
		return nil, fmt.Errorf("a %T, not an Ed25519 key", key)
	}
	return pub, nil
}
