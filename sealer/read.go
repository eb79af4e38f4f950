package sealer

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
)

// ErrWitness says that a receipt's witness is not that of the event around it:
// the receipt was moved, or something of the event was changed.
var ErrWitness = errors.New("witness does not match the event")

// reasonMetered is the reason of a delivery that is billed.
const reasonMetered = "METERED"

// ReadDelivery takes a delivery.recorded event apart and checks all that can be
// checked without a key: the text is canonical (ErrNotCanonical), the witness is
// that of this event (ErrWitness), event and receipt share their ULID and moment,
// the subject is the right, the metering agrees with itself and with the dwell.
func ReadDelivery(event []byte) (RecordedDelivery, error) {
	e, err := parseEnvelope(event)
	if err == nil && e.Type != TypeDelivery {
		err = fmt.Errorf("an event of type %s", e.Type)
	}
	if err == nil {
		var d *RecordedDelivery
		if d, err = e.delivery(event); err == nil {
			return *d, nil
		}
	}
	return RecordedDelivery{}, fmt.Errorf("cannot read delivery: %w", err)
}

// delivery goes on where parseEnvelope stopped.
func (e *envelope) delivery(event []byte) (*RecordedDelivery, error) {
	d := &RecordedDelivery{Event: e.Event}
	s := scanner{text: e.text[:e.dataAt+len(e.Data)], at: e.dataAt}
	s.lit(`{"basisId":`)
	d.BasisID = s.name()
	s.lit(`,"gate":{"ruleset":`)
	s.name()
	s.lit(`,"version":`)
	s.name()
	s.lit(`}`)
	if s.has(`,"idempotency":`) {
		h := s.hash()
		d.Idempotency = h.String()
	} else if s.has(`,"identity":`) {
		d.Identity = s.identity()
	}
	s.lit(`,"metering":`)
	m := s.metering()
	d.Basis, d.Metered, d.QuantityMs, d.Reason, d.Reasons = m.basis, m.metered, m.quantityMs, m.reason, m.reasons
	if s.has(`,"multiplier":`) {
		d.Multiplier = s.multiplier()
	}
	receiptFrom := s.at
	s.lit(`,"receipt":`)
	receipt := s.at
	d.Receipt = s.receipt()
	receiptTo := s.at
	s.lit(`,"rightId":`)
	d.RightID = s.name()
	s.lit(`,"rightRevision":`)
	d.RightRevision = s.integer()
	signatureFrom := s.at
	s.lit(`,"signature":`)
	d.KeyID, d.Signature = s.signature()
	signatureTo := s.at
	s.lit(`,"substrate":`)
	d.Substrate = s.name()
	s.lit(`}`)
	if err := s.end(); err != nil {
		return nil, fmt.Errorf("data: %w", err)
	}
	d.ReceiptText = event[receipt:receiptTo:receiptTo]

	// The witness covers the event's text without receipt and signature.
	h := sha256.New()
	h.Write(event[:receiptFrom])
	h.Write(event[receiptTo:signatureFrom])
	h.Write(event[signatureTo:])
	if err := d.checkWitness(Hash(h.Sum(nil))); err != nil {
		return nil, err
	}
	if err := d.check(); err != nil {
		return nil, err
	}
	return d, nil
}

// statedMetering is the member metering of a delivery.
type statedMetering struct {
	basis      string
	metered    bool
	quantityMs int64
	reason     string
	reasons    []string
}

func (m *statedMetering) equal(o *statedMetering) bool {
	return m.basis == o.basis && m.metered == o.metered && m.quantityMs == o.quantityMs && m.reason == o.reason && slices.Equal(m.reasons, o.reasons)
}

func (s *scanner) metering() (m statedMetering) {
	s.lit(`{"basis":`)
	m.basis = s.name()
	s.lit(`,"metered":`)
	m.metered = s.bool()
	s.lit(`,"quantityMs":`)
	m.quantityMs = s.integer()
	s.lit(`,"reason":`)
	m.reason = s.name()
	s.lit(`,"reasons":`)
	s.list(func() { m.reasons = append(m.reasons, s.name()) })
	s.lit(`}`)
	return m
}

func (d *RecordedDelivery) checkWitness(sum Hash) error {
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

// check asks that what is said twice is said alike. That event and receipt are of
// one moment follows: each is of the moment of its ULID.
func (d *RecordedDelivery) check() error {
	r, e := &d.Receipt, &d.Event
	switch {
	case e.EventID[len(eventPrefix):] != strings.TrimPrefix(r.ReceiptID, receiptPrefix):
		return fmt.Errorf("event %s carries receipt %s", e.EventID, r.ReceiptID)
	case e.Subject != Ref{subjectRight, d.RightID}:
		return fmt.Errorf("subject %s %s is not the right %s", e.Subject.Kind, e.Subject.ID, d.RightID)
	}
	if err := checkReceipt(r); err != nil {
		return err
	}
	switch {
	case d.Metered != (d.Reason == reasonMetered), d.Metered != (len(d.Reasons) == 0),
		!d.Metered && d.Reasons[0] != d.Reason:
		return fmt.Errorf("metered %t for reason %s of %v", d.Metered, d.Reason, d.Reasons)
	case d.Metered && d.QuantityMs != int64(math.Floor(r.DwellMs)), !d.Metered && d.QuantityMs != 0:
		return fmt.Errorf("a quantity of %d ms, metered %t, dwell %v ms", d.QuantityMs, d.Metered, r.DwellMs)
	}
	return nil
}

// CheckRecord asks that the parts of a record agree, as a loader needs it:
// headers with the event, the private part with its commitment, and for a
// delivery the witness with the event. It returns the event, and the delivery
// when it is one; both alias the record. A private part that is gone is no
// fault: erasure removes it. Signatures are not checked here.
func CheckRecord(r *Record) (Event, *RecordedDelivery, error) {
	e, d, err := checkEvent(r.Event)
	switch {
	case err != nil:
	case e.TenantID != r.TenantID:
		err = fmt.Errorf("header names tenant %s, the event %s", r.TenantID, e.TenantID)
	case e.EventID != r.EventID:
		err = fmt.Errorf("header names event %s, the event %s", r.EventID, e.EventID)
	case len(r.Private) != 0:
		err = CheckPrivate(r.Private, e.PrivateCommitment)
	}
	if err != nil {
		return Event{}, nil, fmt.Errorf("cannot trust record %s: %w", r.EventID, err)
	}
	return e, d, nil
}

// checkEvent reads any event, and checks a delivery.
func checkEvent(text []byte) (Event, *RecordedDelivery, error) {
	e, err := parseEnvelope(text)
	if err != nil {
		return Event{}, nil, err
	}
	if e.Type != TypeDelivery {
		if !isCanonical(e.Data) {
			return Event{}, nil, fmt.Errorf("data: %w", ErrNotCanonical)
		}
		return e.Event, nil, nil
	}
	d, err := e.delivery(text)
	if err != nil {
		return Event{}, nil, err
	}
	return e.Event, d, nil
}
