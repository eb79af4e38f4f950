package erasure

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"time"
)

// tokenLife is how long a confirmation token is valid.
const tokenLife = 10 * time.Minute

// token returns a token for the API key that got the preview, which confirms the erasure of a subject
// until a moment. It is not stored: it is the moment in milliseconds, and a MAC over everything that
// it is bound to.
func (s *Service) token(tenantID, keyID, dataSubjectID string, until time.Time) string {
	at := binary.BigEndian.AppendUint64(nil, uint64(until.UnixMilli()))
	mac := hmac.New(sha256.New, s.key[:])
	mac.Write([]byte("confirm an erasure\x00"))
	mac.Write(at)
	for _, part := range []string{tenantID, keyID, dataSubjectID} {
		mac.Write(binary.BigEndian.AppendUint64(nil, uint64(len(part))))
		mac.Write([]byte(part))
	}
	return base64.RawURLEncoding.EncodeToString(mac.Sum(at))
}

// confirms reports whether a token is valid for these arguments now.
func (s *Service) confirms(token, tenantID, keyID, dataSubjectID string, now time.Time) bool {
	b, err := base64.RawURLEncoding.Strict().DecodeString(token)
	if err != nil || len(b) != 8+sha256.Size {
		return false
	}
	until := time.UnixMilli(int64(binary.BigEndian.Uint64(b)))
	return now.Before(until) && hmac.Equal([]byte(token), []byte(s.token(tenantID, keyID, dataSubjectID, until)))
}
