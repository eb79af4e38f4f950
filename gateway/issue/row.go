package issue

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"muniment.example/gateway/api"
	"muniment.example/gateway/issue/idempotency"
	"muniment.example/sealer"
)

const (
	maxRow        = 64 << 10 // bytes of a row's JSON, as of a delivery's body
	maxTime       = 64       // bytes of playedAt
	maxDecimals   = 4        // of a multiplier
	msgBeside     = "can't be given with vendorId: a row has rightId and spatialAnchorId, or a vendor's id"
	msgOfVendor   = "is missing: vendorId is one of a vendor's ids of a type"
	msgUnnamed    = "is missing: a row names rightId and spatialAnchorId, or vendorId"
	msgPlayed     = "must be a time with its zone, as 2026-10-24T18:00:00Z"
	msgRowTime    = "is not accepted: the time of a row is playedAt"
	msgMultiplier = "must be a number, or a decimal in a string, above 0 and at most 10000, with at most four decimals"
)

var (
	errRowNotJSON = &api.Error{Code: api.BadRequest, Message: "the row is not one JSON value in UTF-8"}
	errRowTooDeep = &api.Error{Code: api.BadRequest, Message: "the row nests deeper than 32 levels"}
	errRowTooLong = api.TooLarge("the row is longer than 64 KiB")
	errRowReused  = api.Conflict("a row of this identity was delivered with other content")
)

// row is one row of a batch: an observation, whose RightID and SpatialAnchorID are empty if it
// has a vendor's id, and the other fields of a row. Like an Observation it is reused, and its
// strings are views.
type row struct {
	Observation
	rowID, vendor, idType, vendorID string // "": not given
	playedAt                        string // as it was sent
	played                          time.Time
	multiplier                      int64 // in ten-thousandths; 0: not given
}

// decode reads the JSON text of a row. vendor is that of a row which names none. The error is
// an *api.Error.
func (r *row) decode(text []byte, vendor string) error {
	r.reset(text)
	r.rowID, r.vendor, r.idType, r.vendorID, r.playedAt = "", "", "", "", ""
	r.played, r.multiplier = time.Time{}, 0
	switch {
	case len(text) > maxRow:
		return errRowTooLong
	case TooDeep(text):
		return errRowTooDeep
	}
	if err := r.object(r.field, r.whole); err != nil {
		if err = r.refusal(err); err == errNotJSON {
			return errRowNotJSON
		}
		return err
	}
	if len(r.faults) > 0 {
		return invalid(r.faults)
	}
	if r.vendor == "" {
		r.vendor = vendor
	}
	if r.vendorID != "" && r.vendor == "" {
		return api.InvalidField(fieldVendor, msgOfVendor)
	}
	return nil
}

// field reads the value of a member.
func (r *row) field(name []byte) (err error) {
	switch string(name) {
	case fieldPlayed:
		r.saw |= sawPlayed
		err = r.time()
	case fieldRowID:
		_, err = r.string(&r.rowID, fieldRowID, true, maxText)
	case fieldVendor:
		_, err = r.string(&r.vendor, fieldVendor, true, maxText)
	case fieldIDType:
		_, err = r.string(&r.idType, fieldIDType, true, maxText)
	case fieldVendorID:
		_, err = r.string(&r.vendorID, fieldVendorID, true, maxText)
	case fieldRight:
		err = r.named(&r.RightID, fieldRight, sawRight)
	case fieldAnchor:
		err = r.named(&r.SpatialAnchorID, fieldAnchor, sawAnchor)
	case fieldMultiplier:
		err = r.factor()
	case fieldRendered, fieldIssued:
		r.fault(string(name), msgRowTime)
		_, err = r.decoder.ReadValue()
	default:
		err = r.member(name, api.RowNames)
	}
	return err
}

// named reads a field that only rows of one kind have.
func (r *row) named(dst *string, field string, bit int) error {
	given, err := r.string(dst, field, true, maxText)
	if given {
		r.saw |= bit
	}
	return err
}

// whole checks that the required members are there, and that the row has one kind of identity.
func (r *row) whole() {
	r.require(sawPlayed, fieldPlayed)
	r.require(sawDwell, fieldDwell)
	switch {
	case r.vendorID != "":
		if r.idType == "" {
			r.fault(fieldIDType, msgOfVendor)
		}
		if r.saw&sawRight != 0 {
			r.fault(fieldRight, msgBeside)
		}
		if r.saw&sawAnchor != 0 {
			r.fault(fieldAnchor, msgBeside)
		}
	case r.saw&(sawRight|sawAnchor) == 0:
		r.fault(fieldRight, msgUnnamed)
	default:
		r.require(sawRight, fieldRight)
		r.require(sawAnchor, fieldAnchor)
	}
}

// time reads playedAt: RFC 3339, as strict as time.Time.UnmarshalText is, with t and z of either case.
func (r *row) time() error {
	if given, err := r.string(&r.playedAt, fieldPlayed, false, maxTime); !given || err != nil {
		return err
	}
	if r.played.UnmarshalText(bytes.ToUpper([]byte(r.playedAt))) != nil {
		r.fault(fieldPlayed, msgPlayed)
	}
	return nil
}

// factor reads the multiplier.
func (r *row) factor() error {
	raw, err := r.value()
	if err != nil {
		return err
	}
	text := raw
	switch raw.Kind() {
	case jsontext.KindNull:
		return nil
	case jsontext.KindString:
		if text, err = r.unquote(raw); err != nil {
			return err
		}
	case jsontext.KindNumber:
	default:
		text = nil
	}
	var ok bool
	if r.multiplier, ok = parseMultiplier(view(text)); !ok {
		r.fault(fieldMultiplier, msgMultiplier)
	}
	return nil
}

// parseMultiplier reads a decimal, in ten-thousandths; zeros behind its last digit are taken.
func parseMultiplier(text string) (n int64, ok bool) {
	whole, part, point := strings.Cut(text, ".")
	if point && part == "" || !digits(whole) || point && !digits(part) {
		return 0, false
	}
	if part = strings.TrimRight(part, "0"); len(part) > maxDecimals {
		return 0, false
	}
	units, err := strconv.ParseUint(whole, 10, 32)
	if err != nil {
		return 0, false
	}
	n = int64(units) * sealer.Impression
	for unit := int64(sealer.Impression / 10); part != ""; part, unit = part[1:], unit/10 {
		n += int64(part[0]-'0') * unit
	}
	return n, n > 0 && n <= sealer.MaxMultiplier
}

func digits(text string) bool {
	for i := range len(text) {
		if text[i] < '0' || text[i] > '9' {
			return false
		}
	}
	return text != ""
}

// # The identity of a row
//
// Two rows of a tenant are the same play if what names them is the same, as it was sent and
// before any mapping:
//
//	SHA-256(tenantId ‖ 1 ‖ kind ‖ fields)
//	kind "rowId"    vendor, rowId
//	kind "vendorId" vendor, idType, vendorId, playedAt, spatialPlacementId
//	kind "rightId"  vendor, rightId, spatialAnchorId, playedAt, spatialPlacementId
//	kind "beacon"   what a single delivery is named by (Delivery.Identity)
//
// where kind and each field stand behind their length in bytes, an unsigned varint, and a
// field that was not given is empty.

// identity is the row's, within a tenant; scratch is what it may write to, and returns.
func (r *row) identity(scratch []byte, tenantID string) (h idempotency.Hash, _ []byte) {
	b := append(append(scratch[:0], tenantID...), 1)
	placement := ""
	if r.SpatialPlacementID != nil {
		placement = *r.SpatialPlacementID
	}
	switch {
	case r.rowID != "":
		b = appendLengths(b, fieldRowID, r.vendor, r.rowID)
	case r.vendorID != "":
		b = appendLengths(b, fieldVendorID, r.vendor, r.idType, r.vendorID, r.playedAt, placement)
	default:
		b = appendLengths(b, fieldRight, r.vendor, r.RightID, r.SpatialAnchorID, r.playedAt, placement)
	}
	return sha256.Sum256(b), b
}

// nameBy takes a delivery's own fields for its identity: nothing else of it must be the same.
func (w *work) nameBy(fields []string) idempotency.Hash {
	w.named, w.day, w.body = true, w.day[:0], nil
	w.scratch = appendLengths(append(append(w.scratch[:0], w.by.TenantID...), 1), "beacon")
	w.scratch = appendLengths(w.scratch, fields...)
	return sha256.Sum256(w.scratch)
}

// appendDay appends the UTC day of the play, as it was sent, where that is part of the
// identity; else nothing.
func (r *row) appendDay(dst []byte) []byte {
	if r.rowID != "" {
		return dst
	}
	return r.played.UTC().AppendFormat(dst, time.DateOnly)
}

// appendContent appends what a row of the same identity must say, too: every field, each
// behind its length, and the telemetry as it was sent. Spaces between fields, their order and
// unknown fields make no difference.
func (r *row) appendContent(dst []byte) []byte {
	dst = appendLengths(dst, r.rowID, r.vendor, r.idType, r.vendorID, r.playedAt, r.RightID, r.SpatialAnchorID)
	var persons [1 + mostSubjects]string // in whatever order they were named
	n := copy(persons[:], r.DataSubjectIDs)
	slices.Sort(persons[:n])
	dst = appendLengths(binary.AppendUvarint(dst, uint64(n)), persons[:n]...)
	for _, given := range [...]*string{r.SpatialPlacementID, r.CorrelationID} {
		if given == nil {
			dst = append(dst, 0)
		} else {
			dst = appendLengths(append(dst, 1), *given)
		}
	}
	dst = binary.AppendVarint(dst, r.multiplier)
	dst = strconv.AppendFloat(dst, r.DwellMs, 'g', -1, 64)
	return append(append(dst, ' '), r.telemetry...)
}

func appendLengths(dst []byte, texts ...string) []byte {
	for _, text := range texts {
		dst = append(binary.AppendUvarint(dst, uint64(len(text))), text...)
	}
	return dst
}

// inDays formats the age that a row may have.
func inDays(age time.Duration) string {
	if days := age / (24 * time.Hour); age == days*24*time.Hour {
		return strconv.Itoa(int(days)) + " days"
	}
	return age.String()
}
