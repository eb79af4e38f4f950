package sealer

import (
	"crypto"
	"crypto/sha256"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"muniment.example/gate"
	"muniment.example/sealer/canonical"
	"muniment.example/sealer/merkle"
)

// MaxDwellMs is the longest dwell that a receipt may state, two years and a bit.
// It keeps every total of a pack exact: 2^36 ms times fewer than 2^17 entries is
// below 2^53, up to which every JSON reader counts exactly.
const MaxDwellMs = 1 << 36

// Receipt is what a caller keeps as evidence of a delivery: ten fields, the tenth being the
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
	dst = canonical.AppendNullString(dst, r.CorrelationID)
	dst = append(dst, `,"dwellMs":`...)
	dst = canonical.AppendNumber(dst, r.DwellMs)
	dst = append(dst, `,"issuedAt":`...)
	dst = canonical.AppendQuotedTime(dst, r.IssuedAt)
	dst = append(dst, `,"nonce":`...)
	dst = canonical.AppendString(dst, r.Nonce)
	dst = append(dst, `,"receiptId":`...)
	dst = canonical.AppendString(dst, r.ReceiptID)
	dst = append(dst, `,"renderedAt":`...)
	dst = canonical.AppendQuotedTime(dst, r.RenderedAt)
	dst = append(dst, `,"spatialAnchorId":`...)
	dst = canonical.AppendString(dst, r.SpatialAnchorID)
	dst = append(dst, `,"spatialPlacementId":`...)
	dst = canonical.AppendNullString(dst, r.SpatialPlacementID)
	dst = append(dst, `,"version":"1","witness":`...)
	dst = canonical.AppendNullString(dst, r.Witness)
	return append(dst, '}')
}

// ParseReceipt reads exactly what AppendReceipt writes; anything else is
// ErrNotCanonical. The receipt owns its strings.
func ParseReceipt(b []byte) (Receipt, error) {
	s := NewScanner(string(b))
	r := readReceipt(&s)
	if err := s.End(); err != nil {
		return Receipt{}, fmt.Errorf("cannot read receipt: %w", err)
	}
	return r, nil
}

func readReceipt(s *Scanner) (r Receipt) {
	s.Lit(`{"correlationId":`)
	r.CorrelationID = s.NullStr()
	s.Lit(`,"dwellMs":`)
	r.DwellMs = s.Number()
	s.Lit(`,"issuedAt":`)
	r.IssuedAt = s.Time()
	s.Lit(`,"nonce":`)
	r.Nonce = s.Str()
	s.Lit(`,"receiptId":`)
	r.ReceiptID = s.Str()
	s.Lit(`,"renderedAt":`)
	r.RenderedAt = s.Time()
	s.Lit(`,"spatialAnchorId":`)
	r.SpatialAnchorID = s.Str()
	s.Lit(`,"spatialPlacementId":`)
	r.SpatialPlacementID = s.NullStr()
	s.Lit(`,"version":"1","witness":`)
	r.Witness = s.NullStr()
	s.Lit(`}`)
	return r
}

const (
	// TypeDelivery is the type of the event that carries a receipt.
	TypeDelivery = "delivery.recorded"
	// TypeRefusals is the type of the event that counts a tenant's deliveries that the gate
	// refused, with nothing of what was observed: data.counts is a list of {count,
	// rule, rightId?}. rightId is missing where the node had too many counts to keep.
	TypeRefusals = "gate.refusals"
	// TypeRightIssued is the type of the event of a new right, whose data has its scope.
	TypeRightIssued = "right.issued"
	// SubjectRight is the kind of the subject of events about rights.
	SubjectRight = "right"
)

// Delivery is what a delivery.recorded event states besides the receipt. Its strings
// may be borrowed from a request's buffer.
type Delivery struct {
	TenantID      string
	Actor         Ref
	RightID       string
	RightRevision int64
	BasisID       string
	// Substrate is the effective one, under whose rules it was decided.
	Substrate gate.Substrate
	Metering  gate.Metering
	// Idempotency is base64url SHA-256(tenantId ‖ 0 ‖ key); empty without a key.
	Idempotency string
	// Identity is that of a row of a batch, which has no Idempotency.
	Identity RowIdentity
	// Multiplier is the impressions of the play in ten-thousandths, at most MaxMultiplier.
	// 0 means that none was given, and counts as one impression. A delivery that is not
	// metered has no impressions.
	Multiplier int64
	// PrivateCommitment is Commit of the private part; empty for none.
	PrivateCommitment string
}

// Signer seals deliveries for one node. It is safe for concurrent use if its key is.
type Signer struct {
	// KeyID is keydir.KeyID of the key's public half.
	KeyID string
	// Node is the id of the node, as it stands in each witness.
	Node string
	// Key is an Ed25519 key.
	Key crypto.Signer
	// NotBefore is when the window of one of control's keys begins, up to a millisecond after it
	// became current; a clock that was set back may be before it. Zero if nobody asked.
	NotBefore time.Time
}

// SealDelivery signs the receipt and appends the canonical text of its
// delivery.recorded event to dst.
//
// It first sets r.Witness to "edge:<node>:<hash>", the hash being base64url
// SHA-256 over the event's canonical text without data.receipt and
// data.signature. The signature covers the receipt with its witness, and so
// tenant, right, revision, gate and metering too: a receipt can't be moved under
// another event. The event's id is "evt_" + the ULID of the receipt, its moment
// is IssuedAt.
//
// On an error dst is not extended. It fails if the receipt is out of bounds (the id is
// not of IssuedAt, RenderedAt is after IssuedAt, the dwell is not within 0 to MaxDwellMs,
// a string is not UTF-8), if the delivery is (a malformed hash or day, both Identity and
// Idempotency, Multiplier not within 0 to MaxMultiplier), or if the key fails.
func (s *Signer) SealDelivery(dst []byte, d *Delivery, r *Receipt) ([]byte, error) {
	if err := CheckReceipt(r); err != nil {
		return dst, fmt.Errorf("cannot seal delivery: %w", err)
	}
	e := Event{
		EventID:           EventPrefix + r.ReceiptID[len(ReceiptPrefix):],
		TenantID:          d.TenantID,
		Type:              TypeDelivery,
		At:                r.IssuedAt,
		Actor:             d.Actor,
		Subject:           Ref{SubjectRight, d.RightID},
		PrivateCommitment: d.PrivateCommitment,
	}
	if err := e.checkText(); err != nil { // CheckReceipt has checked the id
		return dst, fmt.Errorf("cannot seal delivery: %w", err)
	}
	if err := d.check(); err != nil {
		return dst, fmt.Errorf("cannot seal delivery: %w", err)
	}

	// Write the event as the witness hashes it; then insert receipt and signature
	// before and after the members of the right.
	start := len(dst)
	dst = d.appendDecision(e.appendHead(dst))
	receipt := len(dst)
	dst = d.appendRight(dst)
	right := len(dst) - receipt
	dst = e.appendTail(d.appendSubstrate(dst))
	sum := sha256.Sum256(dst[start:])
	var text [128]byte
	witness := string(appendWitness(text[:0], s.Node, sum))
	r.Witness = &witness

	var buf [512]byte
	rest := append(buf[:0], dst[receipt:]...)
	dst = append(dst[:receipt], `,"receipt":`...)
	receipt = len(dst)
	dst = AppendReceipt(dst, r)
	signature, err := Sign(s.Key, dst[receipt:])
	if err != nil {
		return dst[:start], fmt.Errorf("cannot sign receipt: %w", err)
	}
	dst = append(dst, rest[:right]...)
	dst = append(dst, `,"signature":`...)
	dst = AppendSignature(dst, s.KeyID, signature)
	return append(dst, rest[right:]...), nil
}

// check checks what Event.check does not.
func (d *Delivery) check() error {
	switch {
	case !utf8.ValidString(d.BasisID) || d.BasisID == "":
		return errors.New("basis is empty or not UTF-8")
	case d.Idempotency != "" && !isHash(d.Idempotency):
		return errors.New("idempotency hash is not a base64url SHA-256")
	case d.Idempotency != "" && d.Identity != RowIdentity{}:
		return errors.New("both an identity and an idempotency hash are set")
	case d.Multiplier < 0 || d.Multiplier > MaxMultiplier:
		return fmt.Errorf("multiplier is %d ten-thousandths, want 0 to %d", d.Multiplier, MaxMultiplier)
	}
	return d.Identity.check()
}

// CheckReceipt checks the bounds of a receipt, except its witness.
func CheckReceipt(r *Receipt) error {
	if err := checkID(ReceiptPrefix, r.ReceiptID, r.IssuedAt); err != nil {
		return err
	}
	switch {
	case !(r.DwellMs >= 0 && r.DwellMs <= MaxDwellMs): // catches NaN too
		return fmt.Errorf("dwellMs %v is not within 0 and %d", r.DwellMs, int64(MaxDwellMs))
	case r.IssuedAt.UnixMilli() < r.RenderedAt.UnixMilli():
		return fmt.Errorf("issued at %s, before it was rendered at %s", canonical.FormatTime(r.IssuedAt), canonical.FormatTime(r.RenderedAt))
	case r.SpatialAnchorID == "":
		return errors.New("spatialAnchorId is empty")
	case !utf8.ValidString(r.SpatialAnchorID),
		r.SpatialPlacementID != nil && !utf8.ValidString(*r.SpatialPlacementID),
		r.CorrelationID != nil && !utf8.ValidString(*r.CorrelationID):
		return errors.New("a string is not UTF-8")
	}
	if !canonical.IsBase64(r.Nonce, nonceBytes) {
		return fmt.Errorf("nonce %q is not %d bytes in base64url", r.Nonce, nonceBytes)
	}
	return nil
}

const nonceBytes = 16

// The members of data in their order: appendDecision, receipt, appendRight,
// signature, appendSubstrate.

func (d *Delivery) appendDecision(dst []byte) []byte {
	dst = append(dst, `{"basisId":`...)
	dst = canonical.AppendString(dst, d.BasisID)
	dst = append(dst, `,"gate":{"ruleset":`...)
	dst = canonical.AppendString(dst, gate.RulesetHash())
	dst = append(dst, `,"version":`...)
	dst = canonical.AppendString(dst, gate.Version)
	dst = append(dst, '}')
	if d.Idempotency != "" {
		dst = append(dst, `,"idempotency":`...)
		dst = canonical.AppendString(dst, d.Idempotency)
	}
	if d.Identity != (RowIdentity{}) {
		dst = d.Identity.append(append(dst, `,"identity":`...))
	}
	m := &d.Metering
	dst = append(dst, `,"metering":{"basis":`...)
	dst = canonical.AppendString(dst, m.Basis.String())
	dst = append(dst, `,"completion":`...)
	dst = canonical.AppendString(dst, m.Completion.String())
	dst = append(dst, `,"impressions":"`...)
	dst = AppendImpressions(dst, CountImpressions(m.Metered, d.Multiplier))
	dst = append(dst, `","metered":`...)
	dst = strconv.AppendBool(dst, m.Metered)
	dst = append(dst, `,"quantityMs":`...)
	dst = strconv.AppendInt(dst, m.QuantityMs, 10)
	dst = append(dst, `,"reason":`...)
	dst = canonical.AppendString(dst, m.Reason.String())
	dst = append(dst, `,"reasons":`...)
	dst = m.Reasons.AppendJSON(dst)
	return append(dst, '}')
}

func (d *Delivery) appendRight(dst []byte) []byte {
	dst = append(dst, `,"rightId":`...)
	dst = canonical.AppendString(dst, d.RightID)
	dst = append(dst, `,"rightRevision":`...)
	return strconv.AppendInt(dst, d.RightRevision, 10)
}

func (d *Delivery) appendSubstrate(dst []byte) []byte {
	dst = append(dst, `,"substrate":`...)
	dst = canonical.AppendString(dst, d.Substrate.String())
	return append(dst, '}')
}

func appendWitness(dst []byte, node string, sum merkle.Hash) []byte {
	dst = append(dst, "edge:"...)
	dst = append(dst, node...)
	dst = append(dst, ':')
	return canonical.Base64.AppendEncode(dst, sum[:])
}

const (
	// Impression is one impression. Multipliers and impressions are counted in
	// ten-thousandths, so that sums are exact.
	Impression = 10_000
	// MaxMultiplier is the most impressions of one delivery.
	MaxMultiplier = 10_000 * Impression
)

// CountImpressions is how many impressions a delivery counts as: its multiplier, or one where none was
// given; nothing if it is not metered.
func CountImpressions(metered bool, multiplier int64) int64 {
	switch {
	case !metered:
		return 0
	case multiplier == 0:
		return Impression
	}
	return multiplier
}

// AppendImpressions appends n ten-thousandths, which must not be negative, as the shortest
// decimal: 0, 0.5, 12.
func AppendImpressions(dst []byte, n int64) []byte {
	dst = strconv.AppendInt(dst, n/Impression, 10)
	part := n % Impression
	if part == 0 {
		return dst
	}
	dst = append(dst, '.')
	for unit := int64(Impression / 10); part > 0; unit /= 10 {
		dst = append(dst, byte('0'+part/unit))
		part %= unit
	}
	return dst
}

// FormatImpressions returns what AppendImpressions appends.
func FormatImpressions(n int64) string { return string(AppendImpressions(nil, n)) }

// ParseImpressions reads exactly what AppendImpressions writes.
func ParseImpressions(s string) (int64, error) {
	whole, part, _ := strings.Cut(s, ".")
	n, err := strconv.ParseInt(whole+(part + "0000")[:max(4, len(part))], 10, 64)
	var again [24]byte
	if err != nil || n < 0 || string(AppendImpressions(again[:0], n)) != s {
		return 0, fmt.Errorf("%q is not a decimal of at most four digits after the point, without needless zeros", s)
	}
	return n, nil
}

// Impressions consumes a quoted decimal.
func (s *Scanner) Impressions() int64 {
	n, err := ParseImpressions(s.Str())
	if err != nil {
		s.Fail("impressions")
	}
	return n
}
