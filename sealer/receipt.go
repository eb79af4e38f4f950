package sealer

import (
	"fmt"
	"time"
)

// MaxDwellMs is the longest dwell that a receipt may state, two years and a bit.
// It keeps every total of a pack exact: 2^36 ms times fewer than 2^17 entries is
// below 2^53, up to which every JSON reader counts exactly.
const MaxDwellMs = 1 << 36

// Receipt is what a caller holds in hand: ten fields, the tenth being the
// constant version "1". Its strings may be borrowed from a request's buffer and
// then live as long as that. They must be valid UTF-8.
type Receipt struct {
	ReceiptID          string
	CorrelationID      *string
	SpatialAnchorID    string
	SpatialPlacementID *string
	// IssuedAt is when the receipt was signed, RenderedAt when the delivery was
	// observed, never later. Both count in milliseconds.
	IssuedAt, RenderedAt time.Time
	// DwellMs is finite and not negative; it may have a fraction.
	DwellMs float64
	// Nonce is 128 random bits, base64url.
	Nonce string
	// Witness binds the receipt to its event; see Signer.SealDelivery.
	Witness *string
}

// AppendReceipt appends the RFC 8785 text of r: the bytes that are signed. It
// allocates nothing.
func AppendReceipt(dst []byte, r *Receipt) []byte {
	dst = append(dst, `{"correlationId":`...)
	dst = appendNullString(dst, r.CorrelationID)
	dst = append(dst, `,"dwellMs":`...)
	dst = AppendNumber(dst, r.DwellMs)
	dst = append(dst, `,"issuedAt":`...)
	dst = appendQuotedTime(dst, r.IssuedAt)
	dst = append(dst, `,"nonce":`...)
	dst = AppendString(dst, r.Nonce)
	dst = append(dst, `,"receiptId":`...)
	dst = AppendString(dst, r.ReceiptID)
	dst = append(dst, `,"renderedAt":`...)
	dst = appendQuotedTime(dst, r.RenderedAt)
	dst = append(dst, `,"spatialAnchorId":`...)
	dst = AppendString(dst, r.SpatialAnchorID)
	dst = append(dst, `,"spatialPlacementId":`...)
	dst = appendNullString(dst, r.SpatialPlacementID)
	dst = append(dst, `,"version":"1","witness":`...)
	dst = appendNullString(dst, r.Witness)
	return append(dst, '}')
}

// ParseReceipt reads exactly what AppendReceipt writes; anything else is
// ErrNotCanonical. The receipt owns its strings.
func ParseReceipt(b []byte) (Receipt, error) {
	s := scanner{text: string(b)}
	r := readReceipt(&s)
	if err := s.end(); err != nil {
		return Receipt{}, fmt.Errorf("cannot read receipt: %w", err)
	}
	return r, nil
}

func readReceipt(s *scanner) (r Receipt) {
	s.lit(`{"correlationId":`)
	r.CorrelationID = s.nullStr()
	s.lit(`,"dwellMs":`)
	r.DwellMs = s.number()
	s.lit(`,"issuedAt":`)
	r.IssuedAt = s.time()
	s.lit(`,"nonce":`)
	r.Nonce = s.str()
	s.lit(`,"receiptId":`)
	r.ReceiptID = s.str()
	s.lit(`,"renderedAt":`)
	r.RenderedAt = s.time()
	s.lit(`,"spatialAnchorId":`)
	r.SpatialAnchorID = s.str()
	s.lit(`,"spatialPlacementId":`)
	r.SpatialPlacementID = s.nullStr()
	s.lit(`,"version":"1","witness":`)
	r.Witness = s.nullStr()
	s.lit(`}`)
	return r
}
