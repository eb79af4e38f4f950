package sealer

import (
	"crypto"
	"crypto/ed25519"
	"errors"

	"muniment.example/sealer/canonical"
)

// Algorithm is the only signature algorithm, RFC 8032.
const Algorithm = "ed25519"

// PublicKey returns the public half of an Ed25519 signer.
func PublicKey(key crypto.Signer) (ed25519.PublicKey, error) {
	if pub, ok := key.Public().(ed25519.PublicKey); ok && len(pub) == ed25519.PublicKeySize {
		return pub, nil
	}
	return nil, errors.New("not an Ed25519 key")
}

// Sign signs msg itself, not a hash of it.
func Sign(key crypto.Signer, msg []byte) ([]byte, error) {
	return key.Sign(nil, msg, crypto.Hash(0))
}

// AppendSignature appends {"algorithm":…,"keyId":…,"value":…}.
func AppendSignature(dst []byte, keyID string, signature []byte) []byte {
	dst = append(dst, `{"algorithm":"`+Algorithm+`","keyId":`...)
	dst = canonical.AppendString(dst, keyID)
	dst = append(dst, `,"value":"`...)
	dst = canonical.Base64.AppendEncode(dst, signature)
	return append(dst, `"}`...)
}

// Signature consumes what AppendSignature writes.
func (s *Scanner) Signature() (keyID string, value []byte) {
	s.Lit(`{"algorithm":"` + Algorithm + `","keyId":`)
	keyID = s.Name()
	s.Lit(`,"value":`)
	value = s.Bytes(ed25519.SignatureSize)
	s.Lit(`}`)
	return keyID, value
}

// SignatureLine is the last line of a bundle or a statement, without its newline.
func SignatureLine(keyID string, signature []byte) []byte {
	return append(AppendSignature([]byte(`{"signature":`), keyID, signature), '}')
}

// ParseSignatureLine reads the last line of a bundle or a statement, without its newline.
func ParseSignatureLine(line []byte) (keyID string, signature []byte, err error) {
	s := NewScanner(string(line))
	s.Lit(`{"signature":`)
	keyID, signature = s.Signature()
	s.Lit(`}`)
	return keyID, signature, s.End()
}
