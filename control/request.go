package control

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"muniment.example/control/route"
	"muniment.example/control/store"
	"muniment.example/gateway/api"
)

const (
	jsonType = "application/json"
	// maxBody is the longest body, in bytes.
	maxBody = 1 << 20
	// maxDepth is how deep a body may nest.
	maxDepth = 32
	// maxParts is how many names and values a body may have: each takes many times its length
	// in memory.
	maxParts = 10_000
	// bodyTimeout is how long a body may take to arrive.
	bodyTimeout = 10 * time.Second
)

// readBody reads and checks a body, before huma validates it by the operation's schema. An operation
// without a body takes none, null or {}. If the body is not JSON (route.Operation.Text), the operation
// checks it.
func (d *handler) readBody(ctx huma.Context, next func(huma.Context)) {
	if ctx.Operation().Method == http.MethodGet {
		next(ctx)
		return
	}
	text := len(route.Of(ctx.Operation()).Text) > 0
	body, err := receive(ctx)
	if err == nil && !text {
		err = check(body, !d.ofNodes)
		if ctx.Operation().RequestBody == nil && err != nil && !bytes.ContainsAny(bytes.TrimSpace(body)[:1], "{[") {
			next(ctx) // it is no JSON at all, and nothing reads it
			return
		}
	}
	if err == nil && !text {
		err = d.checkNames(ctx, body)
	}
	if err != nil {
		d.refuse(ctx, err)
		return
	}
	if x, ok := exchangeOf(ctx.Context()); ok && !text {
		x.body = body
	}
	// All other bodies are JSON, whatever the header says.
	r, _ := humago.Unwrap(ctx)
	r.Body = io.NopCloser(bytes.NewReader(body))
	r.Header.Set("Content-Type", jsonType)
	next(ctx)
}

func receive(ctx huma.Context) ([]byte, error) {
	r, w := humago.Unwrap(ctx)
	deadlines := http.NewResponseController(w)
	// A request within this process has no connection, and so no deadline.
	_ = deadlines.SetReadDeadline(time.Now().Add(bodyTimeout))
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err == nil { // else nothing waits for what is left of the body
		_ = deadlines.SetReadDeadline(time.Time{})
	}
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return nil, api.TooLarge(fmt.Sprintf("the body is longer than %d bytes", maxBody))
	}
	if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() {
		return nil, &api.Error{Code: api.BadRequest, HTTPStatus: http.StatusRequestTimeout, Message: "the body did not arrive in time"}
	}
	if err != nil {
		return nil, &api.Error{Code: api.BadRequest, Message: "the body did not arrive completely"}
	}
	return body, nil
}

// asDelivered are the members of bodies that name persons and vendors' things as deliveries and rows do, which
// may contain any character but U+0000.
var asDelivered = []jsontext.Pointer{"/dataSubjectId", "/scope/dataSubjectId", "/vendorId"}

// check requires one strictly valid JSON value. A duplicate name, U+0000 and a number out of range
// are faults of a field; any other error means that the body is not JSON. In what people write, other
// control characters are faults, too: on a screen, in a log or in a mail they would do something. Nodes
// pass on what vendors have sent.
func check(body []byte, ofPeople bool) error {
	if len(bytes.TrimSpace(body)) == 0 {
		return nil // the operation's schema says whether a body is required
	}
	d := jsontext.NewDecoder(bytes.NewBuffer(body)) // which it does not copy
	for parts := 0; ; {
		token, err := d.ReadToken()
		if err == io.EOF {
			return nil
		}
		if bad, ok := errors.AsType[*jsontext.SyntacticError](err); ok && errors.Is(err, jsontext.ErrDuplicateName) {
			return api.InvalidField(fieldOf(d, bad.JSONPointer), "is given twice")
		}
		if err != nil {
			return &api.Error{Code: api.BadRequest, Message: "the body is not valid JSON" + at(body, err)}
		}
		if token.Kind() == jsontext.KindString {
			text := token.String()
			if c, found := route.ControlCharacter(text); found && (strings.Contains(text, "\x00") || ofPeople && !slices.Contains(asDelivered, d.StackPointer())) {
				return api.InvalidField(fieldOf(d, d.StackPointer()), fmt.Sprintf("must not contain control characters, except tabs and line breaks: it contains %U", c))
			}
		}
		if token.Kind() == jsontext.KindNumber {
			if _, err := strconv.ParseFloat(token.String(), 64); err != nil {
				return api.InvalidField(fieldOf(d, d.StackPointer()), "must be a number that a double holds")
			}
		}
		if kind := token.Kind(); kind != jsontext.KindEndObject && kind != jsontext.KindEndArray {
			parts++
		}
		if parts > maxParts {
			return &api.Error{Code: api.BadRequest, Message: fmt.Sprintf("the body has more than %d names and values", maxParts)}
		}
		if d.StackDepth() > maxDepth {
			return &api.Error{Code: api.BadRequest, Message: fmt.Sprintf("the body nests deeper than %d levels", maxDepth)}
		}
		if d.StackDepth() == 0 && len(bytes.TrimSpace(body[d.InputOffset():])) > 0 {
			return &api.Error{Code: api.BadRequest, Message: "the body has data after its JSON value"}
		}
	}
}

// checkNames refuses members that the operation does not have, at every depth: if a misspelt limit were
// ignored, there would be no limit. If the operation sets EmptyIsMissing, it also refuses a body that is
// not an object, and one in which a required field is absent, null or an empty string.
//
// Nodes may send what only a newer version knows, so their bodies are not checked.
func (d *handler) checkNames(ctx huma.Context, body []byte) error {
	op := ctx.Operation()
	text, emptyIsMissing := bytes.TrimSpace(body), route.Of(op).EmptyIsMissing
	if len(text) == 0 || d.ofNodes {
		return nil // the operation's schema says whether a body is required
	}
	var value any
	if err := json.Unmarshal(text, &value); err != nil {
		return err
	}
	members, isObject := value.(map[string]any)
	if emptyIsMissing && !isObject || op.RequestBody == nil && value != nil && !isObject {
		return &api.Error{Code: api.BadRequest, Message: "the body must be an object"}
	}
	schema := &huma.Schema{Type: huma.TypeObject} // of an operation without a body
	if op.RequestBody != nil {
		schema = op.RequestBody.Content[jsonType].Schema
	}
	found := d.strangers(schema, value, nil)
	known, err := d.readOnly(ctx, found)
	if err != nil {
		return err
	}
	var faults []api.ValidationError
	schema = resolve(d.api.OpenAPI().Components.Schemas, schema)
	for _, name := range schema.Required {
		if v := members[name]; emptyIsMissing && (v == nil || v == "") {
			faults = append(faults, api.MissingField(name))
		}
	}
	for _, s := range found {
		has, same := known(s)
		switch {
		case same:
		case len(faults) < api.MaxFaults:
			faults = append(faults, s.fault(has))
		default: // it is only counted
			faults = append(faults, api.ValidationError{Kind: api.FaultUnknown})
		}
	}
	if len(faults) > 0 {
		if emptyIsMissing && route.Of(op).Faults != nil {
			faults = append(faults, route.Of(op).Faults(ctx.Context(), func(v any) error { return unmarshal(text, v) })...)
		}
		return api.Invalid(faults...)
	}
	return nil
}

// at says where a body's JSON is broken, in bytes from 1; empty for an error that says no place.
func at(body []byte, err error) string {
	bad, ok := errors.AsType[*jsontext.SyntacticError](err)
	offset := int64(len(body)) // of a body that ends too early
	if ok {
		offset = min(bad.ByteOffset, offset)
	}
	before := body[:offset]
	line := bytes.Count(before, []byte("\n")) + 1
	return fmt.Sprintf(": line %d, byte %d", line, len(before)-bytes.LastIndexByte(before, '\n'))
}

// fieldOf turns where a decoder is into the name of a field, as pathOf writes it. The pointer (RFC 6901) is
// the decoder's, or leads to a member of where it is.
func fieldOf(d *jsontext.Decoder, to jsontext.Pointer) string {
	var path []any
	for name := range to.Tokens() {
		step := any(name)
		if kind, _ := d.StackIndex(len(path) + 1); kind == jsontext.KindBeginArray {
			step, _ = strconv.Atoi(name)
		}
		path = append(path, step)
	}
	return pathOf(path)
}

// unmarshal decodes what check has accepted. Names are case-sensitive.
func unmarshal(text []byte, v any) error { return json.Unmarshal(text, v, whole) }

// whole reads integers in all spellings: JSON Schema has 12.0 as an integer, too.
var whole = json.WithUnmarshalers(json.JoinUnmarshalers(
	json.UnmarshalFromFunc(wholeNumber[int]), json.UnmarshalFromFunc(wholeNumber[int64]),
))

func wholeNumber[T int | int64](d *jsontext.Decoder, n *T) error {
	if d.PeekKind() != jsontext.KindNumber {
		return errors.ErrUnsupported
	}
	text, err := d.ReadValue()
	if err != nil {
		return err
	}
	if x, err := strconv.ParseInt(string(text), 10, 64); err == nil {
		*n = T(x)
		return nil
	}
	x, err := strconv.ParseFloat(string(text), 64)
	if err != nil || x != math.Trunc(x) || math.Abs(x) > 1<<53 {
		return errors.New("must be an integer")
	}
	*n = T(x)
	return nil
}

// readQuery refuses parameters with text that the database can't store, required parameters that are
// missing, empty parameters that may not be empty, and parameters that are given twice: huma would
// treat these as absent, and list without the filter. For the same reason it refuses a query that can't
// be read and parameters that the operation does not have, but for pages, which links may lead to with
// parameters of their own.
func (d *handler) readQuery(ctx huma.Context, next func(huma.Context)) {
	u := ctx.URL()
	given, err := url.ParseQuery(u.RawQuery)
	strict := strings.HasPrefix(ctx.Operation().Path, "/v1/") || strings.HasPrefix(ctx.Operation().Path, "/api/") || strings.HasPrefix(ctx.Operation().Path, "/admin/")
	if strict && err != nil {
		d.refuse(ctx, &api.Error{Code: api.BadRequest, Message: "the query is not valid: it has a % without two hexadecimal digits, or a semicolon"})
		return
	}
	var faults, absent []api.ValidationError
	var known []string
	for _, p := range ctx.Operation().Parameters {
		if p.In != "query" {
			continue
		}
		known = append(known, p.Name)
		if p.Required && given.Get(p.Name) == "" {
			absent = append(absent, api.ValidationError{Field: p.Name, Message: "required query parameter is missing", Kind: api.FaultMissing})
			continue
		}
		if !given.Has(p.Name) {
			continue
		}
		mayBeEmpty := p.Schema.Type == huma.TypeString && len(p.Schema.Enum) == 0
		switch {
		case slices.ContainsFunc(given[p.Name], func(value string) bool { return !store.Storable(value) }):
			faults = append(faults, api.ValidationError{Field: p.Name, Message: "must be UTF-8 without U+0000"})
		case len(given[p.Name]) > 1 && p.Schema.Type != huma.TypeArray:
			faults = append(faults, api.ValidationError{Field: p.Name, Message: "is given twice"})
		case given.Get(p.Name) == "" && !mayBeEmpty:
			faults = append(faults, api.ValidationError{Field: p.Name, Message: "must not be empty"})
		}
	}
	if strict {
		faults = append(faults, unknownParameters(given, known)...)
	}
	if len(faults) == 0 { // otherwise a misspelt name would be reported as missing, too
		faults = absent
	}
	if len(faults) > 0 {
		d.refuse(ctx, api.Invalid(faults...))
		return
	}
	next(ctx)
}

func unknownParameters(given url.Values, known []string) (faults []api.ValidationError) {
	slices.Sort(known)
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if !slices.Contains(known, name) {
			faults = append(faults, api.ValidationError{Field: strings.ToValidUTF8(name, "�"), Message: "is an unknown parameter" + route.Instead(name, known)})
		}
	}
	return faults
}
