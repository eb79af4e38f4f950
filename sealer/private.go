package sealer

import (
	"crypto/sha256"
	"fmt"
)

// Private is the part of a record that erasure deletes. The event holds only its
// commitment: without the salt nothing can be told from that, so every proof
// stays valid and says nothing about the erased person.
type Private struct {
	// Salt is 128 random bits, fresh for every record.
	Salt [16]byte
	// DataSubject is the caller's reference to a person; empty for none.
	DataSubject string
	// Telemetry is the consent-projected telemetry, an RFC 8785 object; nil for none.
	Telemetry []byte
	// AttentionMs is derived from eye tracking; −1 for none.
	AttentionMs int64
	// RequestHash is a salted hash of the request's body; empty for none.
	RequestHash string
}

// AppendPrivate appends the canonical text of p. What p lacks is left out; the
// salt is always there:
//
//	{"attentionMs":…,"dataSubject":…,"requestHash":…,"salt":…,"telemetry":{…}}
func AppendPrivate(dst []byte, p *Private) []byte {
	dst = append(dst, '{')
	if p.AttentionMs >= 0 {
		dst = append(dst, `"attentionMs":`...)
		dst = appendNumber(dst, float64(p.AttentionMs))
		dst = append(dst, ',')
	}
	if p.DataSubject != "" {
		dst = append(dst, `"dataSubject":`...)
		dst = appendString(dst, p.DataSubject)
		dst = append(dst, ',')
	}
	if p.RequestHash != "" {
		dst = append(dst, `"requestHash":`...)
		dst = appendString(dst, p.RequestHash)
		dst = append(dst, ',')
	}
	dst = append(dst, `"salt":"`...)
	dst = base64url.AppendEncode(dst, p.Salt[:])
	dst = append(dst, '"')
	if p.Telemetry != nil {
		dst = append(dst, `,"telemetry":`...)
		dst = append(dst, p.Telemetry...)
	}
	return append(dst, '}')
}

// ParsePrivate reads exactly what AppendPrivate writes. Telemetry aliases b.
func ParsePrivate(b []byte) (Private, error) {
	p := Private{AttentionMs: -1}
	s := scanner{text: string(b)}
	s.lit(`{`)
	if s.has(`"attentionMs":`) {
		p.AttentionMs = s.integer()
		s.lit(`,`)
	}
	if s.has(`"dataSubject":`) {
		p.DataSubject = s.name()
		s.lit(`,`)
	}
	if s.has(`"requestHash":`) {
		p.RequestHash = s.name()
		s.lit(`,`)
	}
	s.lit(`"salt":`)
	p.Salt = [16]byte(s.bytes(len(p.Salt)))
	if s.has(`,"telemetry":`) {
		telemetryAt := s.at
		s.object()
		p.Telemetry = b[telemetryAt:s.at:s.at]
	}
	s.lit(`}`)
	err := s.end()
	if err == nil && p.Telemetry != nil && !isCanonical(p.Telemetry) {
		err = fmt.Errorf("telemetry: %w", ErrNotCanonical)
	}
	if err != nil {
		return Private{}, fmt.Errorf("cannot read private part: %w", err)
	}
	return p, nil
}

// Commit returns base64url SHA-256(salt ‖ private).
func Commit(salt [16]byte, private []byte) string {
	return string(AppendCommitment(nil, append(salt[:], private...)))
}

// AppendCommitment appends Commit of a salt and a private part that stand one
// behind the other already.
func AppendCommitment(dst, salted []byte) []byte {
	sum := sha256.Sum256(salted)
	return base64url.AppendEncode(dst, sum[:])
}

// CheckPrivate asks that private is a private part and that commitment is its
// Commit.
func CheckPrivate(private []byte, commitment string) error {
	p, err := ParsePrivate(private)
	if err != nil {
		return err
	}
	if Commit(p.Salt, private) != commitment {
		return fmt.Errorf("private part does not match its commitment %q", commitment)
	}
	return nil
}

// isHash reports whether s is a base64url SHA-256.
func isHash(s string) bool { return isBase64(s, sha256.Size) }
