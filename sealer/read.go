package sealer

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"muniment.example/gate"
	"muniment.example/sealer/canonical"
	"muniment.example/sealer/merkle"
)

// ErrWitness says that a receipt's witness is not that of the event that holds it:
// the receipt was moved, or the event was changed.
var ErrWitness = errors.New("witness does not match the event")

// ReasonMetered is the reason of a delivery that is billed.
const ReasonMetered = "METERED"

// RecordedDelivery is a parsed delivery.recorded event.
type RecordedDelivery struct {
	Event   Event
	Receipt Receipt
	// ReceiptText is the signed text; it aliases the event's text.
	ReceiptText []byte
	KeyID       string
	Signature   []byte

	RightID       string
	RightRevision int64
	BasisID       string
	Substrate     string
	RecordedMetering
	// Idempotency and Identity are as in Delivery; at most one is set.
	Idempotency string
	Identity    RowIdentity
	// Node is the node that the witness names.
	Node string
}

// ReadDelivery parses a delivery.recorded event and checks all that can be checked without a
// key: the text is canonical (ErrNotCanonical), the witness is that of this event (ErrWitness),
// event and receipt share their ULID and moment, the subject is the right, the metering is
// consistent and agrees with the dwell.
func ReadDelivery(event []byte) (RecordedDelivery, error) {
	e, err := parseEnvelope(event)
	if err == nil && e.Type != TypeDelivery {
		err = fmt.Errorf("the event is of type %s", e.Type)
	}
	if err == nil {
		var d *RecordedDelivery
		if d, err = e.delivery(event); err == nil {
			return *d, nil
		}
	}
	return RecordedDelivery{}, fmt.Errorf("cannot read delivery: %w", err)
}

// delivery parses the data that parseEnvelope has delimited.
func (e *envelope) delivery(event []byte) (*RecordedDelivery, error) {
	d := &RecordedDelivery{Event: e.Event}
	s := NewScanner(e.text[:e.dataAt+len(e.Data)])
	s.At = e.dataAt
	s.Lit(`{"basisId":`)
	d.BasisID = s.Name()
	s.Lit(`,"gate":{"ruleset":`)
	s.Name()
	s.Lit(`,"version":`)
	s.Name()
	s.Lit(`}`)
	if s.Has(`,"idempotency":`) {
		h := s.Hash()
		d.Idempotency = h.String()
	} else if s.Has(`,"identity":`) {
		d.Identity = readIdentity(&s)
	}
	s.Lit(`,"metering":`)
	d.RecordedMetering = readMetering(&s)
	receiptFrom := s.At
	s.Lit(`,"receipt":`)
	receipt := s.At
	d.Receipt = readReceipt(&s)
	receiptTo := s.At
	s.Lit(`,"rightId":`)
	d.RightID = s.Name()
	s.Lit(`,"rightRevision":`)
	d.RightRevision = s.Integer()
	signatureFrom := s.At
	s.Lit(`,"signature":`)
	d.KeyID, d.Signature = s.Signature()
	signatureTo := s.At
	s.Lit(`,"substrate":`)
	d.Substrate = s.Name()
	s.Lit(`}`)
	if err := s.End(); err != nil {
		return nil, fmt.Errorf("data: %w", err)
	}
	d.ReceiptText = event[receipt:receiptTo:receiptTo]

	// The witness covers the event's text without receipt and signature.
	h := sha256.New()
	h.Write(event[:receiptFrom])
	h.Write(event[receiptTo:signatureFrom])
	h.Write(event[signatureTo:])
	if err := d.checkWitness(merkle.Hash(h.Sum(nil))); err != nil {
		return nil, err
	}
	if err := d.check(); err != nil {
		return nil, err
	}
	return d, nil
}

// RecordedMetering is the member metering of a delivery's data.
type RecordedMetering struct {
	Metered    bool
	Reason     string
	Reasons    []string
	Basis      string
	Completion string // of gate.Completion: one of few constants
	QuantityMs int64
	// Impressions are in ten-thousandths, 0 unless it is metered.
	Impressions int64
}

// Equal reports whether both are the same.
func (m *RecordedMetering) Equal(o *RecordedMetering) bool {
	return m.Basis == o.Basis && m.Completion == o.Completion && m.Impressions == o.Impressions && m.Metered == o.Metered &&
		m.QuantityMs == o.QuantityMs && m.Reason == o.Reason && slices.Equal(m.Reasons, o.Reasons)
}

// ParseMetering reads the canonical text of a delivery's metering.
func ParseMetering(text []byte) (RecordedMetering, error) {
	s := NewScanner(string(text))
	m := readMetering(&s)
	return m, s.End()
}

func readMetering(s *Scanner) (m RecordedMetering) {
	s.Lit(`{"basis":`)
	m.Basis = s.Name()
	s.Lit(`,"completion":`)
	m.Completion = s.completion()
	s.Lit(`,"impressions":`)
	if m.Impressions = s.Impressions(); m.Impressions > MaxMultiplier {
		s.Fail("impressions of one delivery")
	}
	s.Lit(`,"metered":`)
	m.Metered = s.Bool()
	s.Lit(`,"quantityMs":`)
	m.QuantityMs = s.Integer()
	s.Lit(`,"reason":`)
	m.Reason = s.Name()
	s.Lit(`,"reasons":`)
	s.List(func() { m.Reasons = append(m.Reasons, s.Name()) })
	s.Lit(`}`)
	return m
}

// completion consumes the name of a completion.
func (s *Scanner) completion() string {
	c, ok := gate.ParseCompletion(s.Str())
	if !ok {
		s.Fail("a completion")
	}
	return c.String()
}

func (d *RecordedDelivery) checkWitness(sum merkle.Hash) error {
	if d.Receipt.Witness == nil {
		return fmt.Errorf("%w: there is none", ErrWitness)
	}
	node, ok := strings.CutPrefix(*d.Receipt.Witness, "edge:")
	hash := strings.LastIndexByte(node, ':')
	if !ok || hash < 1 || node[hash+1:] != sum.String() {
		return ErrWitness
	}
	d.Node = node[:hash]
	return nil
}

// check compares what an event states twice. The moments of event and receipt need no
// comparison: each is that of the ULID, which they share.
func (d *RecordedDelivery) check() error {
	r, e := &d.Receipt, &d.Event
	switch {
	case e.EventID[len(EventPrefix):] != strings.TrimPrefix(r.ReceiptID, ReceiptPrefix):
		return fmt.Errorf("event %s carries receipt %s", e.EventID, r.ReceiptID)
	case e.Subject != Ref{SubjectRight, d.RightID}:
		return fmt.Errorf("subject %s %s is not the right %s", e.Subject.Kind, e.Subject.ID, d.RightID)
	}
	if err := CheckReceipt(r); err != nil {
		return err
	}
	switch {
	case d.Metered != (d.Reason == ReasonMetered), d.Metered != (len(d.Reasons) == 0),
		!d.Metered && d.Reasons[0] != d.Reason:
		return fmt.Errorf("metered %t for reason %s of %v", d.Metered, d.Reason, d.Reasons)
	case d.Metered && d.QuantityMs != int64(math.Floor(r.DwellMs)), !d.Metered && d.QuantityMs != 0:
		return fmt.Errorf("a quantity of %d ms, metered %t, dwell %v ms", d.QuantityMs, d.Metered, r.DwellMs)
	case d.Metered != (d.Impressions > 0):
		return fmt.Errorf("impressions of %s, metered %t", FormatImpressions(d.Impressions), d.Metered)
	}
	return nil
}

// CheckRecord checks, for a loader, that the parts of a record agree: headers with the event,
// the private part with its commitment, and for a delivery the witness with the event. It
// returns the event, and the delivery if it is one; both alias the record. A missing private
// part is not a fault, because erasure removes it. It does not verify signatures.
func CheckRecord(r *Record) (Event, *RecordedDelivery, error) {
	e, d, err := ReadEvent(r.Event)
	switch {
	case err != nil:
	case e.TenantID != r.TenantID:
		err = fmt.Errorf("the header names tenant %s, the event %s", r.TenantID, e.TenantID)
	case e.EventID != r.EventID:
		err = fmt.Errorf("the header names event %s, the event %s", r.EventID, e.EventID)
	case len(r.Private) != 0:
		err = CheckPrivate(r.Private, e.PrivateCommitment)
	}
	if err != nil {
		return Event{}, nil, fmt.Errorf("cannot trust record %s: %w", r.EventID, err)
	}
	return e, d, nil
}

// ReadEvent reads any event, a delivery as ReadDelivery does. For others the delivery is nil.
func ReadEvent(text []byte) (Event, *RecordedDelivery, error) {
	e, err := parseEnvelope(text)
	if err != nil {
		return Event{}, nil, err
	}
	if e.Type != TypeDelivery {
		if !canonical.IsJSON(e.Data) {
			return Event{}, nil, fmt.Errorf("data: %w", canonical.ErrNotCanonical)
		}
		return e.Event, nil, nil
	}
	d, err := e.delivery(text)
	if err != nil {
		return Event{}, nil, err
	}
	return e.Event, d, nil
}

// DeliveryParts are raw JSON texts of a delivery.recorded event; they alias it.
type DeliveryParts struct{ Receipt, Signature, Metering, Substrate []byte }

var (
	errNoDelivery = errors.New("not the text of a " + TypeDelivery + " event")

	deliveryEnd = []byte(`,"type":"` + TypeDelivery + `","v":1}`)
	toMetering  = []byte(`,"metering":`)
	toReceipt   = []byte(`,"receipt":`)
	toRight     = []byte(`},"rightId":`)
	toSignature = []byte(`,"signature":`)
	toSubstrate = []byte(`},"substrate":`)
	toEventID   = []byte(`},"eventId":`)
)

// SplitDelivery returns the parts of an event's text that an HTTP response shows, and refuses
// other events. It allocates nothing and checks nothing else: the text must be one that
// SealDelivery wrote or ReadDelivery accepted.
//
// It may search for member names because a quotation mark inside a JSON string
// always has a backslash before it: `,"receipt":` can't stand inside one.
func SplitDelivery(event []byte) (DeliveryParts, error) {
	var p DeliveryParts
	_, rest, ok1 := bytes.Cut(event, toMetering)
	metering, rest, ok2 := bytes.Cut(rest, toReceipt)
	receipt, rest, ok3 := cutObject(rest, toRight)
	_, rest, ok4 := bytes.Cut(rest, toSignature)
	signature, rest, ok5 := cutObject(rest, toSubstrate)
	substrate, _, ok6 := bytes.Cut(rest, toEventID)
	if !(ok1 && ok2 && ok3 && ok4 && ok5 && ok6 && bytes.HasSuffix(event, deliveryEnd)) {
		return p, errNoDelivery
	}
	return DeliveryParts{receipt, signature, metering, substrate}, nil
}

// cutObject returns the object before sep and what comes after sep. sep begins with the last
// brace of the object, because a text has far fewer braces to search through than commas.
func cutObject(text, sep []byte) (object, rest []byte, found bool) {
	i := bytes.Index(text, sep)
	if i < 0 {
		return nil, nil, false
	}
	return text[:i+1], text[i+len(sep):], true
}

// A delivery is a duplicate if a lower leaf holds a delivery with the same identity, however
// old; or one with the same idempotency hash that is at most DuplicateWindow older, by the
// events' own times, or younger, as a clock may be ahead. A warehouse decides by the same rule
// while it loads (pipeline.Sink): the order of leaves is that of the events' lowest positions.
// A duplicate is kept as evidence and metered zero, with ReasonDuplicate and BasisNone in
// place of its own reason and basis.
const (
	DuplicateWindow = 24 * time.Hour
	ReasonDuplicate = "DUPLICATE"
	BasisNone       = "none"
)

// Keyed reports whether a delivery can be a duplicate.
func (d *RecordedDelivery) Keyed() bool { return d.Idempotency != "" || d.Identity != RowIdentity{} }

// RowIdentity identifies the row of a vendor's report that a delivery is: all deliveries with
// one identity are the same play, whenever they are sent. The zero value is for a delivery that
// is not a row.
type RowIdentity struct {
	// Hash is base64url SHA-256(tenantId ‖ 1 ‖ what names the row, as it was sent).
	Hash string
	// Day is the UTC day of the play, as in 2026-10-24, where that is part of what names the
	// row; empty for a row with an id of its own.
	Day string
}

// dayLayout is the form of a day, of the years 1 to 9999.
const dayLayout = "2006-01-02"

// check accepts the zero value as well.
func (i RowIdentity) check() error {
	switch {
	case i == RowIdentity{}:
		return nil
	case !isHash(i.Hash):
		return errors.New("identity hash is not a base64url SHA-256")
	case i.Day != "" && !isDay(i.Day):
		return errors.New("identity day is not a day of the form " + dayLayout)
	}
	return nil
}

func isDay(s string) bool {
	t, err := time.Parse(dayLayout, s)
	return err == nil && t.Year() > 0
}

func (i RowIdentity) append(dst []byte) []byte {
	dst = append(dst, '{')
	if i.Day != "" {
		dst = append(dst, `"day":`...)
		dst = append(canonical.AppendString(dst, i.Day), ',')
	}
	dst = append(dst, `"hash":`...)
	return append(canonical.AppendString(dst, i.Hash), '}')
}

// readIdentity reads what RowIdentity.append writes.
func readIdentity(s *Scanner) (i RowIdentity) {
	s.Lit(`{`)
	if s.Has(`"day":`) {
		if i.Day = s.Str(); !isDay(i.Day) {
			s.Fail("a day")
		}
		s.Lit(`,`)
	}
	s.Lit(`"hash":`)
	hash := s.Hash()
	i.Hash = hash.String()
	s.Lit(`}`)
	return i
}
