package issue

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"
	"unsafe"

	"github.com/go-json-experiment/json/jsontext"

	"muniment.example/gate"
	"muniment.example/gateway/api"
	"muniment.example/sealer"
)

const (
	maxDepth         = 32
	maxText          = 512 // bytes of an id or anchor
	maxSubject       = 256 // bytes of dataSubjectId, and of each of dataSubjectIds
	mostSubjects     = 8   // in dataSubjectIds
	maxFaultPath     = 256 // bytes of a field name in an error
	msgMissing       = "is missing"
	msgTwice         = "is given twice"
	msgNumber        = "must be a number"
	msgString        = "must be a string"
	msgStringOrNull  = "must be a string or null"
	msgEmpty         = "must not be empty"
	msgTooLong       = "must be at most 512 bytes"
	msgSubjectLong   = "must be at most 256 bytes"
	msgSubjects      = "must be a list of at most 8 texts, or null"
	msgTime          = "is not accepted: a delivery is signed as of now; send earlier plays to POST /v1/delivery/ingest-batch"
	fieldBody        = "body"
	fieldRight       = "rightId"
	fieldAnchor      = "spatialAnchorId"
	fieldDwell       = "dwellMs"
	fieldPlacement   = "spatialPlacementId"
	fieldCorrelation = "correlationId"
	fieldSubject     = "dataSubjectId"
	fieldSubjects    = "dataSubjectIds"
	fieldTelemetry   = "telemetry"
	fieldRowID       = "rowId"
	fieldVendor      = "vendor"
	fieldIDType      = "idType"
	fieldVendorID    = "vendorId"
	fieldPlayed      = "playedAt"
	fieldRendered    = "renderedAt"
	fieldIssued      = "issuedAt"
	fieldMultiplier  = "multiplier"
)

// msgDwell names sealer.MaxDwellMs.
var msgDwell = "must be from 0 to " + strconv.Itoa(sealer.MaxDwellMs)

// elements are the fields of the persons of a list.
var elements = [mostSubjects]string{"dataSubjectIds[0]", "dataSubjectIds[1]", "dataSubjectIds[2]", "dataSubjectIds[3]", "dataSubjectIds[4]", "dataSubjectIds[5]", "dataSubjectIds[6]", "dataSubjectIds[7]"}

var (
	errNotJSON = &api.Error{Code: api.BadRequest, Message: "the body is not one JSON value in UTF-8"}
	errTooDeep = &api.Error{Code: api.BadRequest, Message: "the body nests deeper than 32 levels"}
)

// Observation is what a caller reports of one delivery. Decode reads it from the JSON of
// POST /v1/delivery. A caller that fills in the fields keeps the bounds of the package comment:
// they are not checked again.
//
// An Observation is reused: the strings that Decode fills in are views of the body, or of the
// Observation's own memory where the body has escapes. They are valid until the next Decode or
// write to the body; copy what is to be kept.
type Observation struct {
	RightID, SpatialAnchorID          string
	SpatialPlacementID, CorrelationID *string  // nil: not given
	DataSubjectIDs                    []string // each once; a Decode fills it with views
	DwellMs                           float64
	Telemetry                         gate.Telemetry

	placement, correlation string
	subjects               [1 + mostSubjects]string // what Decode fills in
	telemetry              []byte                   // as it was sent
	body                   []byte
	input                  bytes.Buffer
	decoder                jsontext.Decoder
	text                   []byte // unescaped strings; only ever appended to, so that views of it stay true
	saw                    int    // the fields that must be there, as bits
	misspelt               bool   // a known name is
	faults                 []gate.Fault
}

// Decode reads the body of POST /v1/delivery. The error is an *api.Error, 400 or 422.
func (o *Observation) Decode(body []byte) error {
	o.reset(body)
	if TooDeep(body) {
		return errTooDeep
	}
	if err := o.read(); err != nil {
		return o.refusal(err)
	}
	if len(o.faults) > 0 {
		return invalid(o.faults)
	}
	return nil
}

// Describe puts what was seen into a receipt.
func (o *Observation) Describe(r *sealer.Receipt) {
	r.DwellMs, r.SpatialAnchorID = o.DwellMs, o.SpatialAnchorID
	r.SpatialPlacementID, r.CorrelationID = o.SpatialPlacementID, o.CorrelationID
}

func (o *Observation) reset(body []byte) {
	o.RightID, o.SpatialAnchorID, o.DataSubjectIDs = "", "", o.subjects[:0]
	o.SpatialPlacementID, o.CorrelationID, o.DwellMs, o.saw, o.misspelt = nil, nil, 0, 0, false
	o.Telemetry.Reset()
	o.body, o.text, o.faults, o.telemetry = body, o.text[:0], o.faults[:0], nil
	o.input = *bytes.NewBuffer(body)
	// A bytes.Buffer is parsed in place, without a copy.
	o.decoder.Reset(&o.input)
}

// The bits of Observation.saw.
const (
	sawRight = 1 << iota
	sawAnchor
	sawDwell
	sawPlayed
)

// read reads the object in one pass. Its error is the decoder's; faults of fields are collected.
func (o *Observation) read() error {
	return o.object(func(name []byte) error {
		switch string(name) {
		case fieldRendered, fieldIssued, fieldPlayed:
			o.fault(string(name), msgTime)
			_, err := o.decoder.ReadValue()
			return err
		}
		return o.member(name, api.ObservationNames)
	}, func() {
		o.require(sawRight, fieldRight)
		o.require(sawAnchor, fieldAnchor)
		o.require(sawDwell, fieldDwell)
	})
}

// object reads an object that nothing but white space follows: member reads the value of
// each member, and whole is called when all of them were there, unless a name is misspelt: what is
// missing may be what it means.
func (o *Observation) object(member func(name []byte) error, whole func()) error {
	d := &o.decoder
	if d.PeekKind() != jsontext.KindBeginObject {
		if err := d.SkipValue(); err != nil {
			return err
		}
		o.fault(fieldBody, "must be an object")
		return o.end()
	}
	if _, err := d.ReadToken(); err != nil {
		return err
	}
	for d.PeekKind() != jsontext.KindEndObject {
		name, err := o.name()
		if err == nil {
			err = member(name)
		}
		if err != nil {
			return err
		}
	}
	if _, err := d.ReadToken(); err != nil {
		return err
	}
	if !o.misspelt {
		whole()
	}
	return o.end()
}

// member reads the value of a member of an observation, or skips that of any other. An unknown
// name must not be a misspelt one of known, which has every name that is read.
func (o *Observation) member(name []byte, known *api.Names) (err error) {
	switch string(name) {
	case fieldRight:
		o.saw |= sawRight
		_, err = o.string(&o.RightID, fieldRight, false, maxText)
	case fieldAnchor:
		o.saw |= sawAnchor
		_, err = o.string(&o.SpatialAnchorID, fieldAnchor, false, maxText)
	case fieldDwell:
		o.saw |= sawDwell
		err = o.dwell()
	case fieldPlacement:
		o.SpatialPlacementID, err = o.optional(&o.placement, fieldPlacement)
	case fieldCorrelation:
		o.CorrelationID, err = o.optional(&o.correlation, fieldCorrelation)
	case fieldSubject:
		err = o.subject(fieldSubject, true)
	case fieldSubjects:
		err = o.list()
	case fieldTelemetry:
		from := o.decoder.InputOffset()
		o.faults, err = o.Telemetry.Decode(&o.decoder, o.faults)
		o.telemetry = bytes.TrimLeft(o.body[from:o.decoder.InputOffset()], ": \t\r\n")
	default:
		if meant := known.Meant(name); meant != "" {
			o.misspelt = true
			o.fault(string(name), api.Misspelt(meant))
		}
		_, err = o.decoder.ReadValue() // of a body that is all there; SkipValue takes token by token
	}
	return err
}

// unrecognised calls found with each name in the telemetry that is unknown and stands for a field.
// Where there are unknown names it reads the telemetry, which Decode has found whole, once more.
func (o *Observation) unrecognised(found func(name []byte, meant string)) {
	if o.Telemetry.Extra() == 0 {
		return
	}
	body := o.body
	defer func() { o.body = body }()
	o.body, o.input = o.telemetry, *bytes.NewBuffer(o.telemetry)
	o.decoder.Reset(&o.input)
	_ = o.object(func(name []byte) error { // Decode would have failed
		if meant := telemetryNames.Meant(name); meant != "" && meant != string(name) {
			found(name, meant)
		}
		_, err := o.decoder.ReadValue()
		return err
	}, func() {})
}

// require adds a fault if a field was not seen.
func (o *Observation) require(bit int, field string) {
	if o.saw&bit == 0 {
		o.fault(field, msgMissing)
	}
}

// end fails unless only white space follows.
func (o *Observation) end() error {
	switch _, err := o.decoder.ReadToken(); err {
	case io.EOF:
		return nil
	case nil:
		return errNotJSON
	default:
		return err
	}
}

// value reads the next value and returns it as part of the body.
func (o *Observation) value() (jsontext.Value, error) {
	raw, err := o.decoder.ReadValue()
	if err != nil {
		return nil, err
	}
	end := o.decoder.InputOffset()
	return o.body[end-int64(len(raw)) : end], nil
}

// name reads a member's name, valid until the next value.
func (o *Observation) name() ([]byte, error) {
	raw, err := o.value()
	if err != nil {
		return nil, err
	}
	return o.unquote(raw)
}

func (o *Observation) unquote(raw jsontext.Value) ([]byte, error) {
	if bytes.IndexByte(raw, '\\') < 0 {
		return raw[1 : len(raw)-1], nil
	}
	from := len(o.text)
	var err error
	o.text, err = jsontext.AppendUnquote(o.text, raw)
	return o.text[from:], err
}

// string reads a text field into dst; given is false for null.
func (o *Observation) string(dst *string, field string, optional bool, limit int) (given bool, err error) {
	raw, err := o.value()
	if err != nil {
		return false, err
	}
	switch kind := raw.Kind(); {
	case kind == jsontext.KindNull && optional:
		return false, nil
	case kind != jsontext.KindString && optional:
		o.fault(field, msgStringOrNull)
		return false, nil
	case kind != jsontext.KindString:
		o.fault(field, msgString)
		return false, nil
	}
	b, err := o.unquote(raw)
	if err != nil {
		return false, err
	}
	switch {
	case len(b) == 0 && field != fieldPlacement && field != fieldCorrelation:
		o.fault(field, msgEmpty)
	case len(b) > limit && limit == maxSubject:
		o.fault(field, msgSubjectLong)
	case len(b) > limit:
		o.fault(field, msgTooLong)
	}
	*dst = view(b)
	return true, nil
}

// optional is string for a field that may be absent; it returns nil then.
func (o *Observation) optional(dst *string, field string) (*string, error) {
	given, err := o.string(dst, field, true, maxText)
	if !given {
		return nil, err
	}
	return dst, err
}

// subject reads a person. Who was named before counts once.
func (o *Observation) subject(field string, optional bool) error {
	var who string
	given, err := o.string(&who, field, optional, maxSubject)
	if given && err == nil && !slices.Contains(o.DataSubjectIDs, who) && len(o.DataSubjectIDs) < cap(o.DataSubjectIDs) {
		o.DataSubjectIDs = append(o.DataSubjectIDs, who)
	}
	return err
}

// list reads more persons. Of a list that is too long the rest is skipped.
func (o *Observation) list() error {
	d := &o.decoder
	switch d.PeekKind() {
	case jsontext.KindNull:
		_, err := d.ReadToken()
		return err
	case jsontext.KindBeginArray:
	default:
		o.fault(fieldSubjects, msgSubjects)
		_, err := d.ReadValue()
		return err
	}
	if _, err := d.ReadToken(); err != nil {
		return err
	}
	n := 0
	for ; d.PeekKind() != jsontext.KindEndArray; n++ {
		if n >= mostSubjects {
			if err := d.SkipValue(); err != nil {
				return err
			}
			continue
		}
		if err := o.subject(elements[n], false); err != nil {
			return err
		}
	}
	if n > mostSubjects {
		o.fault(fieldSubjects, msgSubjects)
	}
	_, err := d.ReadToken()
	return err
}

func (o *Observation) dwell() error {
	raw, err := o.value()
	if err != nil {
		return err
	}
	if raw.Kind() != jsontext.KindNumber {
		o.fault(fieldDwell, msgNumber)
		return nil
	}
	ms, err := strconv.ParseFloat(view(raw), 64)
	if err != nil || !(ms >= 0 && ms <= sealer.MaxDwellMs) { // an error: no float64 holds the number
		o.fault(fieldDwell, msgDwell)
		return nil
	}
	o.DwellMs = ms + 0 // −0 + 0 is 0
	return nil
}

func (o *Observation) fault(field, message string) {
	o.faults = append(o.faults, gate.Fault{Field: field, Message: message})
}

// refusal converts the decoder's error to an *api.Error: a name given twice is 422 on
// its path, provided the body is JSON otherwise; all else is 400.
func (o *Observation) refusal(err error) error {
	var syntax *jsontext.SyntacticError
	if !errors.Is(err, jsontext.ErrDuplicateName) || !errors.As(err, &syntax) ||
		!jsontext.Value(o.body).IsValid(jsontext.AllowDuplicateNames(true)) {
		return errNotJSON
	}
	path := make([]string, 0, maxDepth)
	for token := range syntax.JSONPointer.Tokens() {
		path = append(path, token)
	}
	field := strings.Join(path, ".")
	if len(field) > maxFaultPath {
		field = strings.ToValidUTF8(field[:maxFaultPath], "")
	}
	return api.InvalidField(field, msgTwice)
}

func invalid(faults []gate.Fault) *api.Error {
	all := make([]api.ValidationError, len(faults))
	for i, f := range faults {
		all[i] = api.ValidationError{Field: f.Field, Message: f.Message}
	}
	return api.Invalid(all...)
}

// TooDeep says whether the body nests deeper than maxDepth. Nearly every body has fewer brackets
// than that, and is not scanned.
func TooDeep(body []byte) bool {
	if bytes.Count(body, []byte{'{'})+bytes.Count(body, []byte{'['}) <= maxDepth {
		return false
	}
	depth, quoted := 0, false
	for i := 0; i < len(body); i++ {
		switch c := body[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			if depth++; depth > maxDepth {
				return true
			}
		case c == '}' || c == ']':
			depth--
		}
	}
	return false
}

// view returns b as a string without a copy, valid until b is written to.
func view(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
