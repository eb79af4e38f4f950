package sealer

import (
	"crypto/ed25519"

	"muniment.example/sealer/canonical"
	"muniment.example/sealer/merkle"
)

// scanner reads canonical texts of this package.
type scanner struct{ canonical.Scanner }

func newScanner(text string) scanner { return scanner{canonical.Scanner{Text: text}} }

// packID consumes the id of a pack.
func (s *scanner) packID() string {
	id := s.Str()
	if _, err := ParseID(PackPrefix, id); err != nil {
		s.Fail("the id of a pack")
	}
	return id
}

// tenantID consumes the id of a tenant.
func (s *scanner) tenantID() string {
	id := s.Str()
	if checkTenant(id) != nil {
		s.Fail("the id of a tenant")
	}
	return id
}

// hash consumes a base64url SHA-256.
func (s *scanner) hash() merkle.Hash { return merkle.Hash(s.Bytes(len(merkle.Hash{}))) }

// signature consumes what appendSignature writes.
func (s *scanner) signature() (keyID string, value []byte) {
	s.Lit(`{"algorithm":"` + Algorithm + `","keyId":`)
	keyID = s.Name()
	s.Lit(`,"value":`)
	value = s.Bytes(ed25519.SignatureSize)
	s.Lit(`}`)
	return keyID, value
}
