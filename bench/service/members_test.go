package service

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"

	"muniment.example/bench/system/systemtest"
	"muniment.example/gateway/api"
)

// contract is an OpenAPI document that judges bodies.
type contract struct {
	t        *testing.T
	text     map[string]any
	compiler *jsonschema.Compiler
	schemas  map[string]*jsonschema.Schema
}

func openContract(t *testing.T, server, path string) *contract {
	a := systemtest.Call(t, server, "", systemtest.Operation{Method: "GET", Path: path})
	text, err := jsonschema.UnmarshalJSON(strings.NewReader(a.Body))
	require.NoError(t, err)
	c := &contract{t: t, text: modern(text).(map[string]any), compiler: jsonschema.NewCompiler(), schemas: map[string]*jsonschema.Schema{}}
	c.compiler.DefaultDraft(jsonschema.Draft2020)
	c.compiler.AssertFormat()
	require.NoError(t, c.compiler.AddResource("document.json", c.text))
	return c
}

// modern has nullable and exclusiveMinimum of OpenAPI 3.0 in the words of JSON Schema.
func modern(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for name, inner := range v {
			v[name] = modern(inner)
		}
		if v["exclusiveMinimum"] == true {
			v["exclusiveMinimum"] = v["minimum"]
			delete(v, "minimum")
		}
		if v["nullable"] == true {
			delete(v, "nullable")
			if values, ok := v["enum"].([]any); ok && !slices.Contains(values, nil) {
				v["enum"] = append(values, nil)
			}
			if one, ok := v["type"].(string); ok {
				v["type"] = []any{one, "null"}
				return v
			}
			return map[string]any{"anyOf": []any{v, map[string]any{"type": "null"}}}
		}
	case []any:
		for i := range v {
			v[i] = modern(v[i])
		}
	}
	return v
}

// at follows a path of the document.
func (c *contract) at(path ...string) (schema map[string]any, pointer string) {
	pointer = "document.json#"
	schema = c.text
	for _, part := range path {
		schema, _ = schema[part].(map[string]any)
		pointer += "/" + url.PathEscape(strings.NewReplacer("~", "~0", "/", "~1").Replace(part))
	}
	return schema, pointer
}

// resolve follows references, and takes the null of a choice away.
func (c *contract) resolve(schema map[string]any) map[string]any {
	if ref, ok := schema["$ref"].(string); ok {
		inner, _ := c.at("components", "schemas", strings.TrimPrefix(ref, "#/components/schemas/"))
		return c.resolve(inner)
	}
	for _, choice := range []string{"anyOf", "oneOf", "allOf"} {
		for _, one := range list(schema[choice]) {
			if one := c.resolve(one.(map[string]any)); one["type"] != "null" {
				return one
			}
		}
	}
	return schema
}

// refuses is why the document refuses a value; empty if it does not.
func (c *contract) refuses(pointer string, value any) string {
	schema := c.schemas[pointer]
	if schema == nil {
		var err error
		schema, err = c.compiler.Compile(pointer)
		require.NoError(c.t, err)
		c.schemas[pointer] = schema
	}
	err := schema.Validate(value)
	if err == nil {
		return ""
	}
	return err.Error()
}

func list(v any) []any { l, _ := v.([]any); return l }

func types(schema map[string]any) []string {
	if one, ok := schema["type"].(string); ok {
		return []string{one}
	}
	var all []string
	for _, one := range list(schema["type"]) {
		all = append(all, one.(string))
	}
	return all
}

func number(v any) (float64, bool) {
	n, ok := v.(json.Number)
	if !ok {
		return 0, false
	}
	x, err := n.Float64()
	return x, err == nil
}

// sample is a value that a schema takes.
func (c *contract) sample(schema map[string]any) any {
	schema = c.resolve(schema)
	if v, ok := schema["example"]; ok {
		return v
	}
	if examples := list(schema["examples"]); len(examples) > 0 {
		return examples[0]
	}
	if values := list(schema["enum"]); len(values) > 0 {
		return values[0]
	}
	for _, one := range types(schema) {
		switch one {
		case "object":
			o := map[string]any{}
			properties, _ := schema["properties"].(map[string]any)
			for _, name := range list(schema["required"]) {
				o[name.(string)] = c.sample(properties[name.(string)].(map[string]any))
			}
			return o
		case "array":
			least, _ := number(schema["minItems"])
			items, _ := schema["items"].(map[string]any)
			l := []any{}
			for range max(int(least), 1) {
				l = append(l, c.sample(items))
			}
			return l
		case "string":
			if schema["format"] == "date-time" {
				return "2026-12-01T00:00:00Z"
			}
			least, _ := number(schema["minLength"])
			return strings.Repeat("x", max(int(least), 1))
		case "integer", "number":
			least, _ := number(schema["minimum"])
			return json.Number(fmt.Sprint(max(least, 1)))
		case "boolean":
			return true
		}
	}
	return map[string]any{}
}

// missing stands for a member that is left out.
type missing struct{}

// values are those to try in the place of a member: of each type, at its bounds and beyond.
func (c *contract) values(schema map[string]any) []any {
	schema = c.resolve(schema)
	all := []any{missing{}, nil, true, false, json.Number("7"), json.Number("-1"), json.Number("1.5"), "x", "", []any{}, map[string]any{}, []any{nil}, c.sample(schema)}
	for _, bound := range []string{"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"} {
		if n, ok := number(schema[bound]); ok {
			for _, x := range []float64{n - 1, n, n + 1} {
				all = append(all, json.Number(fmt.Sprintf("%.0f", x)))
			}
		}
	}
	for _, bound := range []string{"minLength", "maxLength"} {
		if n, ok := number(schema[bound]); ok {
			for _, x := range []int{int(n) - 1, int(n), int(n) + 1} {
				all = append(all, strings.Repeat("x", max(x, 0)))
			}
		}
	}
	for _, v := range list(schema["enum"]) {
		all = append(all, v)
		if text, ok := v.(string); ok {
			all = append(all, strings.ToLower(text), strings.ToUpper(text)+" ", text+"S")
		}
	}
	if schema["format"] == "date-time" {
		all = append(all, "yesterday", "2026-12-01", "2026-13-01T00:00:00Z", "2026-12-01T00:00:00")
	}
	if items, ok := schema["items"].(map[string]any); ok {
		for _, bound := range []string{"minItems", "maxItems"} {
			if n, ok := number(schema[bound]); ok && n < 3000 {
				for _, x := range []int{int(n) - 1, int(n), int(n) + 1} {
					l := []any{}
					for range max(x, 0) {
						l = append(l, c.sample(items))
					}
					all = append(all, l)
				}
			}
		}
	}
	return all
}

// place is a member of a body.
type place struct {
	parts  []any
	schema map[string]any
}

// places lists the members of a schema, at every depth.
func (c *contract) places(schema map[string]any, parts []any) (all []place) {
	schema = c.resolve(schema)
	if items, ok := schema["items"].(map[string]any); ok {
		parts := append(slices.Clone(parts), 0)
		if inner := c.resolve(items); inner["properties"] == nil {
			all = append(all, place{parts, items})
		}
		return append(all, c.places(items, parts)...)
	}
	properties, _ := schema["properties"].(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		inner := properties[name].(map[string]any)
		parts := append(slices.Clone(parts), name)
		all = append(all, place{parts, inner})
		all = append(all, c.places(inner, parts)...)
	}
	return all
}

func pathOf(parts []any) (path string) {
	for _, part := range parts {
		switch part := part.(type) {
		case string:
			path += "." + part
		case int:
			path += fmt.Sprintf("[%d]", part)
		}
	}
	return strings.TrimPrefix(path, ".")
}

// with returns a copy of a body that has a value at a place; what leads there is made by the schema.
func (c *contract) with(schema map[string]any, body any, parts []any, value any) any {
	if len(parts) == 0 {
		return value
	}
	schema = c.resolve(schema)
	switch part := parts[0].(type) {
	case string:
		o, ok := body.(map[string]any)
		if !ok {
			o, _ = c.sample(schema).(map[string]any)
		}
		o = maps.Clone(o)
		if _, drop := value.(missing); drop && len(parts) == 1 {
			delete(o, part)
			return o
		}
		properties := schema["properties"].(map[string]any)
		inner := properties[part].(map[string]any)
		have, ok := o[part]
		if !ok || have == nil {
			have = c.sample(inner)
		}
		o[part] = c.with(inner, have, parts[1:], value)
		return o
	default:
		l, ok := body.([]any)
		items := schema["items"].(map[string]any)
		if !ok || len(l) == 0 {
			l = []any{c.sample(items)}
		}
		l = slices.Clone(l)
		if _, drop := value.(missing); drop && len(parts) == 1 {
			return l[1:]
		}
		l[0] = c.with(items, l[0], parts[1:], value)
		return l
	}
}

// judged are refusals of what no schema can say: they depend on other members, on records or on the time.
var judged = regexp.MustCompile(`is not an? (active )?\w+ of this tenant|must add up to|is not for a job of kind|must be in the future|must lie ahead` +
	`|must be above that of the tier before|for a rule with tiers|that the calendar of \S+ has|is required, unless rightId|can't be combined with|must name a counterparty that no other` +
	`|is no cursor of this list|is no position that the service has named|requires bucket|requires format CSV|requires format csv|is not an IANA time zone|must be anchor, placement or campaign|requires from and to, at most 7 days apart|must be the last letters and digits of|is the id of no proof pack|no kind of event has this name`)

// conditional are the members that another one requires.
var conditional = []string{
	"create-dsar-job scope.dataSubjectId", "issue-right scope", "sandbox-issue-right scope", "ingest-batch rightId", "ingest-batch spatialAnchorId",
}

// refusedFor says whether an answer refuses a member, or the list that it is in. valid says that the
// document takes the value: then it has to be refused for what it is.
func refusedFor(id, answer, path string, valid bool) bool {
	var a struct {
		ValidationErrors []api.ValidationError
		Message          string
		Data             struct {
			Results []struct {
				Error struct{ ValidationErrors []api.ValidationError }
			}
		}
	}
	if json.Unmarshal([]byte(answer), &a) != nil {
		return false
	}
	faults := a.ValidationErrors
	if len(a.Data.Results) > 0 {
		faults, path = a.Data.Results[0].Error.ValidationErrors, strings.TrimPrefix(path, "rows[0].")
	}
	if len(faults) == 1 && faults[0].Field == "body" { // the row itself
		return true
	}
	about := regexp.MustCompile(`^(` + regexp.QuoteMeta(path) + `|` + regexp.QuoteMeta(strings.TrimSuffix(path, "[0]")) + `)\b`)
	if faults == nil { // of the sandbox
		for fault := range strings.SplitSeq(ofCode.ReplaceAllString(a.Message, ""), "; ") {
			name, message, _ := strings.Cut(fault, ": ")
			faults = append(faults, api.ValidationError{Field: name, Message: message})
		}
	}
	return slices.ContainsFunc(faults, func(f api.ValidationError) bool {
		depends := valid && (f.Message == "is missing" || f.Message == "") && slices.Contains(conditional, id+" "+f.Field)
		return about.MatchString(f.Field) && !depends && !(valid && judged.MatchString(f.Message))
	})
}

// broken is the status of what is neither refused for a member nor for the state of things.
func broken(status int) bool { return status == 400 || status == 500 }

// some are the first of the values and n more at random, or all of them in the long form.
func some[T any](values []T, first, n int) []T {
	if systemtest.Long || len(values) <= first+n {
		return values
	}
	rest := values[first:]
	rand.Shuffle(len(rest), func(i, j int) { rest[i], rest[j] = rest[j], rest[i] })
	return values[:first+n]
}

var (
	inPath   = regexp.MustCompile(`\{\w+\}`)              // ids in a path
	ofCode   = regexp.MustCompile(`^(missing|[A-Z_]+): `) // before the faults in a message of the sandbox
	isNumber = regexp.MustCompile(`^-?\d+(\.\d+)?$`)
)

// from sends the n-th request, from an address that few others come from: some operations limit those.
func (d *day) from(n int, o systemtest.Operation) systemtest.Response {
	d.t.Helper()
	a := systemtest.Call(d.t, d.server.API, d.key, o, "Cookie", d.cookie, "X-Forwarded-For", fmt.Sprintf("10.%d.%d.1", n/200, n%200))
	d.cookie = a.Cookie(d.cookie)
	return a
}

// members holds each member of each body that the document describes against the service, in
// both directions: what the document refuses is refused for that member, and what it takes is not.
func (d *day) members() {
	t := d.t
	d.do("sandbox-provision", "", "")
	current, older := openContract(t, d.server.API, "/openapi.json"), openContract(t, d.server.API, "/openapi-3.0.json")
	bodies, members := 0, 0
	for _, id := range slices.Sorted(maps.Keys(d.known)) {
		o := d.known[id]
		way := []string{"paths", o.Path, strings.ToLower(o.Method), "requestBody", "content", "application/json", "schema"}
		schema, pointer := current.at(way...)
		if schema == nil {
			continue
		}
		_, olderPointer := older.at(way...)
		var base any = map[string]any{}
		if request := d.visited[id].Request; len(request) > 0 {
			var err error
			base, err = jsonschema.UnmarshalJSON(bytes.NewReader(request))
			require.NoError(t, err)
		}
		require.Empty(t, current.refuses(pointer, base), id)
		path := inPath.ReplaceAllString(o.Path, "x")
		for _, p := range current.places(schema, nil) {
			members++
			name := pathOf(p.parts)
			for _, value := range some(current.values(p.schema), 2, 4) {
				body := current.with(schema, base, p.parts, value)
				text, err := json.Marshal(body)
				require.NoError(t, err)
				why := current.refuses(pointer, body)
				if (older.refuses(olderPointer, body) == "") != (why == "") {
					t.Errorf("%s: %.200s: the documents differ: 3.1 says %q", id, text, why)
				}
				a := d.from(bodies, systemtest.Operation{Method: o.Method, Path: path, Body: string(text)})
				bodies++
				refused := (a.Status == 422 || a.Status == 200) && refusedFor(id, a.Body, name, why == "")
				if refused != (why != "") || why == "" && broken(a.Status) {
					t.Errorf("%s: %s = %.60v in %.200s: the document says %q, the service %d %.250s", id, name, value, text, why, a.Status, a.Body)
				}
			}
		}
	}
	t.Log(members, "members,", bodies, "bodies")
	d.parameters(current, older)
}

// parameters does the same for each parameter of each query.
func (d *day) parameters(c, older *contract) {
	t := d.t
	requests := 0
	for _, id := range slices.Sorted(maps.Keys(d.known)) {
		o := d.known[id]
		way := []string{"paths", o.Path, strings.ToLower(o.Method)}
		operation, pointer := c.at(way...)
		for i, p := range list(operation["parameters"]) {
			p := p.(map[string]any)
			schema, isSchema := p["schema"].(map[string]any)
			if p["in"] != "query" || !isSchema || strings.HasPrefix(id, "get-docs") {
				continue
			}
			kinds := types(schema)
			values := []string{"", "x", "-1", "0", "1", "1.5", "true", "yesterday"}
			for _, v := range c.values(schema) {
				switch v := v.(type) {
				case string:
					values = append(values, v)
				case json.Number:
					values = append(values, v.String())
				}
			}
			slices.Sort(values)
			for _, text := range some(slices.Compact(values), 0, 3) {
				var value any = text
				if n := json.Number(text); isNumber.MatchString(text) && (slices.Contains(kinds, "integer") || slices.Contains(kinds, "number")) {
					value = n
				}
				if slices.Contains(kinds, "boolean") && (text == "true" || text == "false") {
					value = text == "true"
				}
				if slices.Contains(kinds, "array") {
					value = []any{text}
				}
				name := p["name"].(string)
				place := fmt.Sprintf("%s/parameters/%d/schema", pointer, i)
				why := c.refuses(place, value)
				require.Equal(t, why == "", older.refuses(place, value) == "", "%s: ?%s=%s: the documents differ", id, name, text)
				path := inPath.ReplaceAllString(o.Path, "x") + "?" + name + "=" + url.QueryEscape(text)
				a := d.from(requests, systemtest.Operation{Method: o.Method, Path: path})
				requests++
				if refused := a.Status == 422 && refusedFor(id, a.Body, name, why == ""); refused != (why != "") || why == "" && broken(a.Status) {
					t.Errorf("%s: ?%s=%.60s: the document says %q, the service %d %.250s", id, name, text, why, a.Status, a.Body)
				}
			}
		}
	}
	t.Log(requests, "queries")
}
