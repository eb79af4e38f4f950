package service

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
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

// clientOperation is an operation of the document as the client calls it.
type clientOperation struct {
	// call makes it with every member that it may send, and returns what it was answered.
	call func(context.Context, *client.Client) (any, error)
	// at is where that stands in the data: empty for all of it, "right", or "rights/0".
	at string
}

// TestClientKnowsTheDocument holds the client against the document of a running service: each
// operation under /v1 has a method, which sends every parameter and member that the document has,
// and nothing else; and reads every member of the answer, and no other. What is left out is listed.
func TestClientKnowsTheDocument(t *testing.T) {
	t.Parallel()
	text := systemtest.Call(t, systemtest.Shared(t).Client.API, "", systemtest.Operation{Method: "GET", Path: "/openapi.json"}).Body
	doc := systemtest.Parse[clientDocument](t, text)
	left := map[string]string{
		"erase": "it deletes a person for good, with the scope * and a confirmation: for people, by a tool of theirs",
	}
	// Beside the records of a list, and asked of no method.
	beside := []string{"nextCursor", "total", "asOf", "counts", "warnings"}
	everywhere := []string{"limit", "cursor"}

	found := map[string]bool{}
	for path, item := range doc.Paths {
		for method, op := range item {
			if !strings.HasPrefix(path, "/v1") {
				continue
			}
			found[op.OperationID] = true
			if left[op.OperationID] != "" {
				continue
			}
			t.Run(op.OperationID, func(t *testing.T) {
				way, ok := clientOperations()[op.OperationID]
				require.True(t, ok, "the client has no method for it")
				wire := &documentedWire{t: t, doc: &doc, path: path, method: strings.ToUpper(method), op: op}
				c, err := client.New(client.Config{URL: "http://service.example", Key: "mun_test_key", HTTP: &http.Client{Transport: wire}, Retry: client.RetryPolicy{Attempts: 1}})
				require.NoError(t, err)
				got, err := way.call(t.Context(), c)
				require.NoError(t, err)
				require.True(t, wire.called)
				for _, p := range op.Parameters {
					if p.In == "query" && !slices.Contains(everywhere, p.Name) {
						require.True(t, wire.query[p.Name], "the parameter %s is not sent", p.Name)
					}
				}
				if got == nil {
					return // a file
				}
				schema, ok := doc.data(op)
				require.True(t, ok)
				data := doc.sample(schema, "")
				if way.at != "" {
					noun, rest, isList := strings.Cut(way.at, "/")
					for name := range doc.resolve(schema).Properties {
						require.True(t, name == noun || isList && slices.Contains(beside, name), "the member %s is lost", name)
					}
					schema, data = doc.resolve(schema).Properties[noun], data.(map[string]any)[noun]
					if isList {
						require.Equal(t, "0", rest)
						schema, data = *doc.resolve(schema).Items, data.([]any)[0]
					}
				}
				require.Equal(t, data, generic(t, got), "what is answered, and what the client makes of it")
				every := reflect.New(reflect.TypeOf(got)).Elem()
				fillValue(every)
				doc.sameMembers(t, way.at, generic(t, every.Interface()), schema)
			})
		}
	}
	for name := range clientOperations() {
		require.True(t, found[name], "%s is in no document", name)
	}
	for name := range left {
		require.True(t, found[name], "%s is in no document", name)
	}
}

// TestClientKnowsErrors holds the client's error against the document: it has every member of the
// envelope, but for those that say nothing more.
func TestClientKnowsErrors(t *testing.T) {
	t.Parallel()
	text := systemtest.Call(t, systemtest.Shared(t).Client.API, "", systemtest.Operation{Method: "GET", Path: "/openapi.json"}).Body
	doc := systemtest.Parse[clientDocument](t, text)
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
	doc.sameMembers(t, "violations", generic(t, e.Violations), schema.Properties["violations"])
}

// documentedWire answers one operation with all that the document says it may answer.
type documentedWire struct {
	t            *testing.T
	doc          *clientDocument
	path, method string
	op           documentedOperation
	called       bool
	query        map[string]bool
}

func (w *documentedWire) RoundTrip(r *http.Request) (*http.Response, error) {
	t, op := w.t, w.op
	if strings.HasPrefix(r.URL.Path, "/downloads/") {
		return answerOf(r, "application/zip", "zip"), nil
	}
	pattern := regexp.MustCompile(`\{[^}]*\}`).ReplaceAllString(w.path, "[^/]+")
	require.Regexp(t, "^"+pattern+"$", r.URL.Path)
	require.Equal(t, w.method, r.Method)
	require.Equal(t, "Bearer mun_test_key", r.Header.Get("Authorization"))
	w.called = true
	if w.query == nil {
		w.query = map[string]bool{}
	}
	allowed := map[string]bool{}
	for _, p := range op.Parameters {
		if p.In == "query" {
			allowed[p.Name] = true
		}
		if p.In == "header" && p.Name == "Idempotency-Key" {
			require.NotEmpty(t, r.Header.Get(p.Name))
		}
	}
	for name := range r.URL.Query() {
		require.True(t, allowed[name], "the parameter %s is in no document", name)
		w.query[name] = true
	}
	body, err := io.ReadAll(r.Body)
	require.NoError(t, err)
	media, inJSON := op.RequestBody.Content["application/json"]
	switch kind := r.Header.Get("Content-Type"); {
	case kind == "application/json":
		require.True(t, inJSON, "it takes no body")
		var sent any
		require.NoError(t, json.Unmarshal(body, &sent))
		w.doc.sameMembers(t, "body", sent, media.Schema)
	case kind == "" && len(op.RequestBody.Content) > 0:
		require.Fail(t, "no body is sent")
	}
	if accept := r.URL.Query().Get("format"); accept != "" {
		return answerOf(r, "text/csv", "a,b\n"), nil
	}
	schema, ok := w.doc.data(op)
	if !ok {
		return answerOf(r, "application/x-ndjson", "{}\n"), nil
	}
	answer, err := json.Marshal(map[string]any{"ok": true, "data": w.doc.sample(schema, ""), "contractVersion": "v1.0"})
	require.NoError(t, err)
	return answerOf(r, "application/json", string(answer)), nil
}

func answerOf(r *http.Request, kind, body string) *http.Response {
	return &http.Response{
		StatusCode: 200, Status: "200 OK", Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: r,
		Header: http.Header{"Content-Type": {kind}}, Body: io.NopCloser(strings.NewReader(body)),
	}
}

// clientDocument is the part of an OpenAPI document that the test reads.
type clientDocument struct {
	Paths      map[string]map[string]documentedOperation
	Components struct{ Schemas map[string]documentedSchema }
}

type documentedOperation struct {
	OperationID string
	Parameters  []struct{ Name, In string }
	RequestBody struct{ Content map[string]documentedMedia }
	Responses   map[string]struct{ Content map[string]documentedMedia }
}

type documentedMedia struct{ Schema documentedSchema }

type documentedSchema struct {
	Ref        string `json:"$ref"`
	Type       any
	Format     string
	Enum       []any
	Properties map[string]documentedSchema
	Items      *documentedSchema
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

// kind is a schema's type, with null left out.
func (s *documentedSchema) kind() string {
	if list, ok := s.Type.([]any); ok {
		for _, k := range list {
			if k != "null" {
				return k.(string)
			}
		}
	}
	text, _ := s.Type.(string)
	return text
}

const sampleTime = "2026-05-01T12:00:00.123Z"

// sample is a value of a schema with every member, none of them zero.
func (d *clientDocument) sample(s documentedSchema, name string) any {
	s = d.resolve(s)
	if len(s.Enum) > 0 {
		return s.Enum[0]
	}
	switch s.kind() {
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
	var others documentedSchema
	if strings.HasPrefix(string(s.AdditionalProperties), "{") && json.Unmarshal(s.AdditionalProperties, &others) == nil && others.kind() != "" {
		object["any"] = d.sample(others, name)
	}
	if len(object) == 0 {
		object["verbatim"] = name
	}
	return object
}

// sameMembers requires that a value has the members of its schema, in all depths.
func (d *clientDocument) sameMembers(t *testing.T, at string, value any, s documentedSchema) {
	s = d.resolve(s)
	switch x := value.(type) {
	case []any:
		require.Equal(t, "array", s.kind(), at)
		for _, v := range x {
			d.sameMembers(t, at, v, *s.Items)
		}
	case map[string]any:
		if len(s.Properties) == 0 {
			return // as the caller likes
		}
		require.ElementsMatch(t, slices.Collect(maps.Keys(s.Properties)), slices.Collect(maps.Keys(x)), at)
		for name, of := range s.Properties {
			d.sameMembers(t, at+"/"+name, x[name], of)
		}
	case nil:
		require.Fail(t, "null", at)
	default:
		require.NotContains(t, []string{"array", "object"}, s.kind(), at)
	}
}

// generic is a value as its JSON says it.
func generic(t *testing.T, v any) (g any) {
	text, err := json.Marshal(v)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &g))
	return g
}

// filled is a value none of whose fields is zero.
func filled[T any]() (v T) {
	fillValue(reflect.ValueOf(&v).Elem())
	return v
}

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

// given returns a method's result as it is needed here.
func given[T any](v *T, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	return *v, nil
}

// first returns the first record of a list, which must not end with it: its page names another.
func first[T any](all iter.Seq2[T, error]) (any, error) {
	for v, err := range all {
		return v, err
	}
	return nil, io.ErrUnexpectedEOF
}

// whole reads a file.
func whole(file io.ReadCloser, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(file)
	if err == nil && len(bytes.TrimSpace(text)) == 0 {
		err = io.ErrUnexpectedEOF
	}
	return nil, err
}
