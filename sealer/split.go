package sealer

import (
	"bytes"
	"errors"
)

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

// SplitDelivery cuts the parts that an HTTP answer shows out of an event's text
// and refuses other events. It allocates nothing and checks nothing else: the
// text must be one that SealDelivery wrote or ReadDelivery accepted.
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

// cutObject cuts an object off: sep begins with its last brace, of which there are far
// fewer to look at than commas.
func cutObject(text, sep []byte) (object, rest []byte, found bool) {
	i := bytes.Index(text, sep)
	if i < 0 {
		return nil, nil, false
	}
	return text[:i+1], text[i+len(sep):], true
}
