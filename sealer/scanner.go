package sealer

import (
	"muniment.example/sealer/canonical"
	"muniment.example/sealer/merkle"
)

// Scanner reads canonical texts of the formats: besides all that canonical.Scanner reads, ids, hashes, signatures
// and impressions.
type Scanner struct{ canonical.Scanner }

// NewScanner returns the scanner of a text.
func NewScanner(text string) Scanner { return Scanner{canonical.Scanner{Text: text}} }

// PackID consumes the id of a pack.
func (s *Scanner) PackID() string {
	id := s.Str()
	if _, err := ParseID(PackPrefix, id); err != nil {
		s.Fail("the id of a pack")
	}
	return id
}

// TenantID consumes the id of a tenant.
func (s *Scanner) TenantID() string {
	id := s.Str()
	if CheckTenant(id) != nil {
		s.Fail("the id of a tenant")
	}
	return id
}

// Hash consumes a base64url SHA-256.
func (s *Scanner) Hash() merkle.Hash { return merkle.Hash(s.Bytes(len(merkle.Hash{}))) }

// AppendHashes appends a list of hashes, as JSON.
func AppendHashes(dst []byte, list []merkle.Hash) []byte {
	dst = append(dst, '[')
	for i, h := range list {
		dst = canonical.AppendComma(dst, i)
		dst = AppendHash(dst, h)
	}
	return append(dst, ']')
}

// Hashes consumes a list of hashes.
func (s *Scanner) Hashes() (list []merkle.Hash) {
	s.List(func() { list = append(list, s.Hash()) })
	return list
}

// AppendHash appends a hash, as a string in JSON.
func AppendHash(dst []byte, h merkle.Hash) []byte {
	dst = append(dst, '"')
	dst = canonical.Base64.AppendEncode(dst, h[:])
	return append(dst, '"')
}
