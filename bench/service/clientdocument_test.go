package service

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/bench/system/systemtest"
	"muniment.example/gateway/client"
)

// left are the operations that have no method, and why.
var left = map[string]string{
	"erase": "it deletes a person for good, with the scope * and a confirmation: for people, by a tool of theirs",
}

// beside are members beside the records of a list, which no method returns.
var beside = []string{"nextCursor", "total", "asOf", "counts", "warnings"}

// TestClientKnowsTheDocument calls each method of the client with all that it may send, and holds that
// against the document of a running service: each operation under /v1 has a method, which sends every
// parameter and member that the document has, and nothing else, and returns all of the answer. What is left
// out is listed.
func TestClientKnowsTheDocument(t *testing.T) {
	t.Parallel()
	doc := documentOf(t)
	wire := &documentedWire{doc: doc, sent: map[string]map[string]bool{}}
	c, err := client.New(client.Config{URL: "http://service.example", Key: "mun_test_key", HTTP: &http.Client{Transport: wire}, Retry: client.RetryPolicy{Attempts: 1}})
	require.NoError(t, err)
	callMethods(t, reflect.ValueOf(c), wire)
	for path, item := range doc.Paths {
		for _, op := range item {
			if !strings.HasPrefix(path, "/v1") {
				continue
			}
			sent, called := wire.sent[op.OperationID]
			require.Equal(t, left[op.OperationID] == "", called, "whether a method calls %s", op.OperationID)
			for _, p := range op.Parameters {
				if called && p.In == "query" && p.Name != "limit" && p.Name != "cursor" {
					require.True(t, sent[p.Name], "%s: the parameter %s is not sent", op.OperationID, p.Name)
				}
			}
		}
	}
}

// callMethods calls the methods of the client, or of a part of it.
func callMethods(t *testing.T, of reflect.Value, wire *documentedWire) {
	for i := range of.NumMethod() {
		name, method := of.Type().Method(i).Name, of.Method(i)
		in := method.Type()
		switch {
		case name == "WithIdempotencyKey" || name == "KeyDirectory" || name == "Seal": // Seal is SealStep until there is no more
			continue
		case in.NumIn() == 0:
			callMethods(t, method.Call(nil)[0], wire)
			continue
		}
		t.Run(reflect.Indirect(of).Type().Name()+"/"+name, func(t *testing.T) {
			wire.t = t
			args := []reflect.Value{reflect.ValueOf(t.Context())}
			for k := 1; k < in.NumIn(); k++ {
				arg := reflect.New(in.In(k)).Elem()
				fillValue(arg)
				args = append(args, arg)
			}
			call := method.Call
			if in.IsVariadic() {
				call = method.CallSlice
			}
			got, err := returned(call(args))
			require.NoError(t, err)
			if got == nil {
				return // a file
			}
			data := wire.data.(map[string]any)
			may := []any{data}
			nouns := slices.DeleteFunc(slices.Collect(maps.Keys(data)), func(name string) bool { return slices.Contains(beside, name) })
			if name == "Rows" {
				nouns = []string{"rows"} // Get has the rest
			}
			if len(nouns) == 1 {
				may = append(may, data[nouns[0]])
				if list, ok := data[nouns[0]].([]any); ok {
					may = append(may, list[0])
				}
			}
			require.Contains(t, may, generic(t, got), "what is answered, and what the client makes of it")
		})
	}
}

// returned is what a method has returned: of a list its first record, nil for a file.
func returned(results []reflect.Value) (any, error) {
	if len(results) == 1 {
		for v, err := range results[0].Seq2() {
			results = []reflect.Value{v, err}
			break // the page names another
		}
	}
	if err, failed := results[1].Interface().(error); failed {
		return nil, err
	}
	switch got := results[0].Interface().(type) {
	case *client.Delivered:
		return got.Delivered, nil
	case io.ReadCloser:
		text, err := io.ReadAll(got)
		if err == nil && len(bytes.TrimSpace(text)) == 0 {
			err = io.ErrUnexpectedEOF
		}
		return nil, err
	default:
		return got, nil
	}
}

// TestClientKnowsErrors holds the client's error against the document: it has every member of the
// envelope, but for those that say nothing more.
func TestClientKnowsErrors(t *testing.T) {
	t.Parallel()
	doc := documentOf(t)
	schema := doc.Components.Schemas["Error"]
	body := doc.sample(schema, "").(map[string]any)
	body["ok"], body["pending"], body["preview"] = false, []any{map[string]any{"count": 1, "nodeId": "nod_1"}}, map[string]any{"bundles": 1}
	answer, err := json.Marshal(body)
	require.NoError(t, err)
	wire := systemtest.RoundTrip(func(r *http.Request) (*http.Response, error) {
		resp := answerOf(r, "application/json", string(answer))
		resp.StatusCode = http.StatusUnprocessableEntity
		resp.Header.Set("Retry-After", "3")
		return resp, nil
	})
	c, err := client.New(client.Config{URL: "http://service.example", Key: "mun_test_key", HTTP: &http.Client{Transport: wire}})
	require.NoError(t, err)
	_, err = c.Deliver(t.Context(), client.Delivery{RightID: "rgh_1", SpatialAnchorID: "a"})
	var e *client.Error
	require.ErrorAs(t, err, &e)
	for i := range reflect.TypeFor[client.Error]().NumField() {
		if f := reflect.TypeFor[client.Error]().Field(i); f.IsExported() {
			require.False(t, reflect.ValueOf(*e).Field(i).IsZero(), f.Name)
		}
	}
	require.ElementsMatch(t, []string{
		"confirmationToken", "error", "field", "keyScopes", "message", "pending", "preview", "reason", "requestId", "requiredScopes", "substrate",
		"validationErrors", "violations",
		"contractVersion", "gate", "ok", // which are not kept
	}, slices.Collect(maps.Keys(schema.Properties)))
}

// documentedWire answers each operation with all that the document says it may answer.
type documentedWire struct {
	t   *testing.T
	doc *clientDocument
	// sent are the parameters that each operation was sent, and data what the last one was answered.
	sent map[string]map[string]bool
	data any
}

func (w *documentedWire) RoundTrip(r *http.Request) (*http.Response, error) {
	t := w.t
	if strings.HasPrefix(r.URL.Path, "/downloads/") {
		return answerOf(r, "application/zip", "zip"), nil
	}
	op := w.operation(r)
	require.Equal(t, "Bearer mun_test_key", r.Header.Get("Authorization"))
	if w.sent[op.OperationID] == nil {
		w.sent[op.OperationID] = map[string]bool{}
	}
	for name := range r.URL.Query() {
		require.True(t, slices.ContainsFunc(op.Parameters, func(p documentedParameter) bool { return p.In == "query" && p.Name == name }), "the parameter %s is in no document", name)
		w.sent[op.OperationID][name] = true
	}
	for _, p := range op.Parameters {
		if p.In == "header" && p.Name == "Idempotency-Key" {
			require.NotEmpty(t, r.Header.Get(p.Name))
		}
	}
	body, err := io.ReadAll(r.Body)
	require.NoError(t, err)
	switch kind := r.Header.Get("Content-Type"); {
	case kind == "application/json":
		media, takes := op.RequestBody.Content[kind]
		require.True(t, takes, "it takes no body")
		var sent map[string]any
		require.NoError(t, json.Unmarshal(body, &sent))
		require.ElementsMatch(t, memberNames(w.doc.resolve(media.Schema)), slices.Collect(maps.Keys(sent)))
	case kind == "":
		require.Empty(t, op.RequestBody.Content, "no body is sent")
	}
	schema, ok := w.doc.data(op)
	if !ok || r.URL.Query().Has("format") {
		return answerOf(r, "text/csv", "a,b\n"), nil
	}
	w.data = w.doc.sample(schema, "")
	answer, err := json.Marshal(map[string]any{"ok": true, "data": w.data, "contractVersion": "v1.0"})
	require.NoError(t, err)
	return answerOf(r, "application/json", string(answer)), nil
}

// operation is the one that a request is of: of several that fit, the one with the least in braces.
func (w *documentedWire) operation(r *http.Request) (found documentedOperation) {
	fits := ""
	for path, item := range w.doc.Paths {
		op, ok := item[strings.ToLower(r.Method)]
		pattern := "^" + regexp.MustCompile(`\{[^}]*\}`).ReplaceAllString(path, "[^/]+") + "$"
		if ok && regexp.MustCompile(pattern).MatchString(r.URL.Path) && (fits == "" || strings.Count(path, "{") < strings.Count(fits, "{")) {
			fits, found = path, op
		}
	}
	require.NotEmpty(w.t, fits, "%s %s is in no document", r.Method, r.URL.Path)
	return found
}

func answerOf(r *http.Request, kind, body string) *http.Response {
	return &http.Response{
		StatusCode: 200, Status: "200 OK", Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: r,
		Header: http.Header{"Content-Type": {kind}}, Body: io.NopCloser(strings.NewReader(body)),
	}
}

// documentOf is the document of a running service.
func documentOf(t *testing.T) *clientDocument {
	text := systemtest.Call(t, systemtest.Shared(t).Client.API, "", systemtest.Operation{Method: "GET", Path: "/openapi.json"}).Body
	doc := systemtest.Parse[clientDocument](t, text)
	return &doc
}

// clientDocument is the part of an OpenAPI document that the tests of the client read.
type clientDocument struct {
	Paths      map[string]map[string]documentedOperation
	Components struct{ Schemas map[string]documentedSchema }
}

type documentedOperation struct {
	OperationID, Summary string
	Parameters           []documentedParameter
	RequestBody          struct{ Content map[string]documentedMedia }
	Responses            map[string]struct{ Content map[string]documentedMedia }
}

type documentedParameter struct {
	Name, In, Description string
	Schema                documentedSchema
}

type documentedMedia struct{ Schema documentedSchema }

type documentedSchema struct {
	Ref                          string `json:"$ref"`
	Type                         any    // a text, or several
	Description, Format, Pattern string
	Enum                         []any
	Default                      any
	Properties                   map[string]documentedSchema
	Required                     []string
	Items                        *documentedSchema
	// AdditionalProperties is a schema, or a bool.
	AdditionalProperties json.RawMessage
}

func (d *clientDocument) resolve(s documentedSchema) documentedSchema {
	if s.Ref == "" {
		return s
	}
	return d.Components.Schemas[strings.TrimPrefix(s.Ref, "#/components/schemas/")]
}

// data is the schema of what a success of an operation holds; false if that is a file.
func (d *clientDocument) data(op documentedOperation) (documentedSchema, bool) {
	media, ok := op.Responses["200"].Content["application/json"]
	if !ok {
		return documentedSchema{}, false
	}
	data, ok := d.resolve(media.Schema).Properties["data"]
	return data, ok
}

// returned is the schema of what a method returns of an operation's data: its one record, one of the records
// of a page, or all of it.
func (d *clientDocument) returned(data documentedSchema) documentedSchema {
	all := d.resolve(data)
	nouns := slices.DeleteFunc(memberNames(all), func(name string) bool { return slices.Contains(beside, name) })
	_, isPage := all.Properties["nextCursor"]
	switch {
	case len(nouns) == 1 && isPage:
		return *all.Properties[nouns[0]].Items
	case len(nouns) == 1 && strings.HasSuffix(data.Ref, "Data"):
		return all.Properties[nouns[0]]
	}
	return data
}

// kinds are the schema's types.
func (s *documentedSchema) kinds() (kinds []string) {
	switch of := s.Type.(type) {
	case string:
		kinds = append(kinds, of)
	case []any:
		for _, kind := range of {
			kinds = append(kinds, kind.(string))
		}
	}
	return kinds
}

// isTime says whether a text is a time: of an answer by its format, of a request, which has more forms, by its pattern.
func (s *documentedSchema) isTime() bool {
	return s.Format == "date-time" || strings.Contains(s.Pattern, "([Tt](")
}

// others is the schema of the members of an object whose names are not fixed.
func (s *documentedSchema) others() (others documentedSchema, ok bool) {
	if !strings.HasPrefix(string(s.AdditionalProperties), "{") {
		return others, false
	}
	return others, json.Unmarshal(s.AdditionalProperties, &others) == nil && others.Type != nil
}

const sampleTime = "2026-05-01T12:00:00.123Z"

// sample is a value of a schema with every member, none of them zero.
func (d *clientDocument) sample(s documentedSchema, name string) any {
	s = d.resolve(s)
	if len(s.Enum) > 0 {
		return s.Enum[0]
	}
	kind := ""
	if kinds := s.kinds(); len(kinds) > 0 {
		kind = kinds[0] // null is the last
	}
	switch kind {
	case "array":
		return []any{d.sample(*s.Items, name)}
	case "string":
		switch {
		case s.Format == "date-time":
			return sampleTime
		case name == "bundleUrl":
			return "https://elsewhere.example/downloads/token"
		}
		return "text of " + name
	case "integer", "number":
		if name == "index" {
			return 0.0 // of the first of all rows
		}
		return float64(len(name) + 1)
	case "boolean":
		return true
	}
	object := map[string]any{}
	for member, of := range s.Properties {
		object[member] = d.sample(of, member)
	}
	if others, ok := s.others(); ok {
		object["any"] = d.sample(others, name)
	}
	if len(object) == 0 {
		object["verbatim"] = name
	}
	return object
}

// generic is a value as its JSON says it.
func generic(t *testing.T, v any) (g any) {
	text, err := json.Marshal(v)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &g))
	return g
}

// fillValue leaves no field zero that is sent.
func fillValue(v reflect.Value) {
	switch x := v.Addr().Interface().(type) {
	case *time.Time:
		*x, _ = time.Parse(time.RFC3339, sampleTime)
		return
	case *json.RawMessage:
		*x = json.RawMessage(`{"a":1}`)
		return
	case *json.Number:
		*x = "2"
		return
	case *[]byte:
		*x = []byte("vendor\nacme\n")
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString("text")
	case reflect.Int, reflect.Int64:
		v.SetInt(7)
	case reflect.Float64:
		v.SetFloat(7)
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fillValue(v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fillValue(v.Index(0))
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() && (f.Tag.Get("json") != "-" || f.Name == "Text") {
				fillValue(v.Field(i))
			}
		}
		if d, ok := v.Addr().Interface().(*client.Delivery); ok {
			d.PlayedAt = time.Time{} // a buffer's
		}
	case reflect.Map:
		one := reflect.New(v.Type().Elem()).Elem()
		fillValue(one)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.ValueOf("any"), one)
	case reflect.Interface:
		v.Set(reflect.ValueOf(map[string]int{"a": 1}))
	default:
		panic(fmt.Sprint("no value for ", v.Type()))
	}
}
