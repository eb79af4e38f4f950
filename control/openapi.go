package control

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"muniment.example/control/route"
	"muniment.example/control/sandbox"
	"muniment.example/control/webhook"
	"muniment.example/gate"
	"muniment.example/gateway/api"
	"muniment.example/sealer/calendar"
)

// object is a JSON object.
type object = map[string]any

// declareCommon adds to what the services have declared what all operations share.
func declareCommon(declared *huma.OpenAPI) {
	for _, item := range declared.Paths {
		if item.Post != nil && takesKey(item.Post) {
			describeKey(item.Post)
		}
	}
	schemas := declared.Components.Schemas
	for _, named := range []reflect.Type{reflect.TypeFor[api.ErrorBody](), reflect.TypeFor[gate.Violation](), reflect.TypeFor[sandbox.Error]()} {
		schemas.Schema(named, true, "")
	}
}

// document writes the OpenAPI document of everything that callers can reach: what the services have
// declared, and what the gateway serves itself.
//
// It adds what the declarations don't have, such as error envelopes, closed lists and examples. It
// adds them to a copy, since requests are validated by the declared schemas.
func document(declared *huma.OpenAPI) (text []byte, err error) {
	if text, err = json.Marshal(declared); err != nil {
		return nil, fmt.Errorf("cannot write the API's document: %w", err)
	}
	var d object
	if err := json.Unmarshal(text, &d); err != nil {
		return nil, fmt.Errorf("cannot read the API's document: %w", err)
	}
	if d["info"], err = info(); err != nil {
		return nil, err
	}
	d["servers"] = []any{object{"url": "/", "description": "The server of this document."}}
	components := d["components"].(object)
	components["securitySchemes"] = object{route.Bearer: object{
		"type": "http", "scheme": "bearer", "bearerFormat": "mun_<env>_<id>_<secret>_<crc>",
		"description": "An API key. It has named scopes; each operation names the one that it needs. `*` passes every check.",
	}}
	if declared.Paths[sandbox.Base+"/tenant"] != nil {
		components["securitySchemes"].(object)[sandbox.SecurityScheme] = object{
			"type": "apiKey", "in": "cookie", "name": sandbox.CookieName,
			"description": "Names a visitor's tenant, and is signed: `<tenantId>.<hmac>`. `POST " + sandbox.Base + "/tenant` sets it.",
		}
	}
	components["headers"] = commonHeaders
	components["responses"] = refusals()
	kinds, ofEvents, err := eventKinds()
	if err != nil {
		return nil, err
	}
	d["x-event-kinds"], d[eventSchemas] = kinds, ofEvents
	bodies := map[string]bool{} // of requests
	for _, op := range operationsOf(declared) {
		if op.RequestBody != nil && op.RequestBody.Content[jsonType] != nil {
			bodies[strings.TrimPrefix(op.RequestBody.Content[jsonType].Schema.Ref, schemaPrefix)] = true
		}
	}
	schemas := components["schemas"].(object)
	maps.Copy(schemas, ofEvents)
	refine(schemas, bodies)
	maps.DeleteFunc(schemas, func(name string, _ any) bool { return ofEvents[name] != nil })

	known, err := readExamples()
	if err != nil {
		return nil, err
	}
	used := map[string]bool{}
	declaredOps := operationsOf(declared)
	for path, item := range d["paths"].(object) {
		for method, op := range item.(object) {
			op := op.(object)
			named, _ := op["tags"].([]any)
			for _, tag := range named {
				used[tag.(string)] = true
			}
			complete(op, declaredOps[strings.ToUpper(method)+" "+path])
			acceptNull(op, components["schemas"].(object))
			known.illustrate(op)
		}
	}
	d["tags"] = tags(used)
	closeBodies(d)
	addForms(d)
	prune(d)
	return json.MarshalIndent(d, "", " ")
}

// downgrade writes the document in OpenAPI 3.0, which has no scopes for a bearer scheme, no members
// beside a $ref, and no info.summary.
func downgrade(document []byte) ([]byte, error) {
	var d object
	if err := json.Unmarshal(document, &d); err != nil {
		return nil, fmt.Errorf("cannot read the API's document: %w", err)
	}
	chooseTypes(d)
	text, err := huma.OpenAPI{Extensions: d}.Downgrade()
	if err != nil {
		return nil, fmt.Errorf("cannot write the API's document in OpenAPI 3.0: %w", err)
	}
	var older struct {
		OpenAPI    string                       `json:"openapi"`
		Info       object                       `json:"info"`
		Servers    any                          `json:"servers"`
		Tags       any                          `json:"tags"`
		Paths      map[string]map[string]object `json:"paths"`
		Components map[string]object            `json:"components"`
		EventKinds any                          `json:"x-event-kinds"`
		Events     any                          `json:"x-event-schemas"`
	}
	if err := json.Unmarshal(text, &older); err != nil {
		return nil, fmt.Errorf("cannot read the API's document in OpenAPI 3.0: %w", err)
	}
	delete(older.Info, "summary")
	older.Info["license"] = object{"name": "Apache-2.0", "url": "https://www.apache.org/licenses/LICENSE-2.0"}
	for _, item := range older.Paths {
		for _, op := range item {
			if op["x-required-scope"] != nil {
				op["security"] = []any{object{route.Bearer: []any{}}}
			}
		}
	}
	for _, s := range older.Components["schemas"] {
		properties, _ := s.(object)["properties"].(object)
		for _, p := range properties {
			if p := p.(object); p["$ref"] != nil && len(p) > 1 {
				p["allOf"] = []any{object{"$ref": p["$ref"]}}
				delete(p, "$ref")
			}
		}
	}
	return json.MarshalIndent(older, "", " ")
}

// boundsOf are the keywords of a schema that are about one type.
var boundsOf = map[string][]string{
	"string": {"minLength", "maxLength", "pattern", "format"}, "number": {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"},
	"object": {"properties", "required", "additionalProperties"},
}

// chooseTypes writes schemas of several types, which OpenAPI 3.0 doesn't have, as a choice of schemas.
func chooseTypes(v any) {
	switch v := v.(type) {
	case object:
		types := slices.DeleteFunc(typesOf(v), func(t string) bool { return t == "null" })
		if len(types) > 1 {
			choice := []any{}
			for _, t := range types {
				one := object{"type": t}
				for _, bound := range boundsOf[t] {
					if v[bound] != nil {
						one[bound] = v[bound]
						delete(v, bound)
					}
				}
				if slices.Contains(typesOf(v), "null") {
					one["nullable"] = true
				}
				choice = append(choice, one)
			}
			v["anyOf"] = choice
			delete(v, "type")
		}
		for _, inner := range v {
			chooseTypes(inner)
		}
	case []any:
		for _, inner := range v {
			chooseTypes(inner)
		}
	}
}

// documentVersion is the contract's, not the program's.
var documentVersion = strings.TrimPrefix(api.ContractVersion, "v") + ".0"

func info() (object, error) {
	overview, err := page.ReadFile("page/overview.md")
	return object{
		"title": "Muniment", "version": documentVersion, "summary": "The evidence ledger for governed delivery.", "description": string(overview),
		"license": object{"name": "Apache-2.0", "identifier": "Apache-2.0"},
	}, err
}

// tagNotes are the chapters, in the order of reading.
var tagNotes = []struct{ name, note string }{
	{tagDelivery, "The hot path: an observation in, a signed receipt out."},
	{"Rights", "What may be delivered, where and until when. Suspension and revocation reach every node."},
	{"Offers", "One organisation's offer to another about a right, and the right that results from it. Both sides belong to one tenant, and a key of the tenant may act for either: in the events `actingOrgId` is the side for which it acted, and `assertedBy` the tenant's organisation, which asserts this."},
	{"Challenges", "An organisation's objection to a right, and its outcome. A key of the tenant may act for the challenger: in the events `actingOrgId` is the organisation for which it acted, and `assertedBy` the tenant's organisation, which asserts this."},
	{"Disputes", "An organisation's objection to deliveries before they are paid for. They are held out of settlement until the dispute is resolved. A key of the tenant may act for any side: in the events `actingOrgId` is the organisation for which it acted, and `assertedBy` the tenant's organisation, which asserts this."},
	{"Bases", "The legal bases of rights."},
	{"Compliance", "Exports of all data about a person, and of all data of a tenant; and erasure of persons."},
	{"Mappings", "Vendors' ids mapped to rights and anchors, so that rows of batches may use them; and the rows that wait for a mapping."},
	{"Receipts", "Receipts by id, and the proof that one is in the tenant's log."},
	{"Proof packs", "Sealed slices of the tenant's log, for a stranger to verify offline."},
	{"Events", "The tenant's audit log, in the order of the events."},
	{"Metering", "What was billed and what was refused, by right and period."},
	{"Settlement", "Who is paid for receipts, and how much."},
	{"Webhooks", "URLs to which events are sent until they are accepted, signed by the Standard Webhooks specification."},
	{"Tenant", "The tenant and its API keys."},
	{"Members", "Persons who may sign in to the tenant's console."},
	{"Sandbox", "A sandbox without API keys: a cookie names the visitor's tenant. A key for a tenant that stays can be applied for."},
	{"Verification", "The keys by which verifiers check signatures."},
	{tagService, "Health, versions and this document."},
}

// tags lists the chapters that have operations. A chapter without a note comes last.
func tags(used map[string]bool) (list []any) {
	used = maps.Clone(used)
	for _, t := range tagNotes {
		if used[t.name] {
			list = append(list, object{"name": t.name, "description": t.note})
			delete(used, t.name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(used)) {
		list = append(list, object{"name": name, "description": name + "."})
	}
	return list
}

var commonHeaders = object{
	"RequestId": object{
		"description": "The caller's X-Request-Id if it is at most 64 visible ASCII characters, else a new one.",
		"schema":      object{"type": "string"}, "example": "req_01M7Y45MG0Q6ZJ3N8T5V2W9XKC",
	},
	"RetryAfter": object{"description": "Seconds to wait before the request is sent again.", "schema": object{"type": "integer", "minimum": 1}, "example": 1},
}

const schemaPrefix = "#/components/schemas/"

// reference is a $ref to one of the components.
func reference(kind, name string) object { return object{"$ref": "#/components/" + kind + "/" + name} }

// complete adds what every operation has: its error responses, and descriptions of ids in its path.
func complete(op object, declared *huma.Operation) {
	params, _ := op["parameters"].([]any)
	for _, p := range params {
		p := p.(object)
		if schema, ok := p["schema"].(object); ok {
			delete(schema, "description") // the parameter has the same one
		}
		if p["in"] == "path" && p["description"] == nil {
			p["description"] = "The " + strings.TrimSuffix(p["name"].(string), "Id") + "'s id."
		}
		if p["explode"] == false {
			delete(p, "explode")
		}
		if schema, ok := p["schema"].(object); ok && p["in"] == "query" && schema["maxLength"] != nil && schema["enum"] == nil {
			maps.Copy(schema, queryForms[p["name"].(string)])
		}
	}
	if body, ok := op["requestBody"].(object); ok {
		if content := body["content"].(object); content["application/json"] != nil {
			delete(content, "application/octet-stream") // of an operation that also reads the bytes
		}
	}
	responses := op["responses"].(object)
	maps.DeleteFunc(responses, func(text string, _ any) bool {
		status, err := strconv.Atoi(text)
		return err != nil || status >= 400
	})
	statuses := route.Refusals(declared)
	for status, name := range refusalNames(sandbox.Enveloped(declared.Path)) {
		if statuses[status] {
			responses[strconv.Itoa(status)] = reference("responses", name)
		}
	}
	for text, response := range responses {
		if status, err := strconv.Atoi(text); err == nil && status < 400 {
			headers, _ := response.(object)["headers"].(object)
			if headers == nil {
				headers = object{}
			}
			delete(headers, "Content-Type") // OpenAPI has it as the key of content
			headers[api.HeaderRequestID] = reference("headers", "RequestId")
			response.(object)["headers"] = headers
		}
	}
}

// operationsOf are the operations of an API by "METHOD /path".
func operationsOf(api *huma.OpenAPI) map[string]*huma.Operation {
	all := map[string]*huma.Operation{}
	for path, item := range api.Paths {
		for _, op := range []*huma.Operation{item.Get, item.Post, item.Put, item.Patch, item.Delete} {
			if op != nil {
				all[op.Method+" "+path] = op
			}
		}
	}
	return all
}

// multiplier is the form of a decimal above 0 and at most 10000, with up to four decimals.
const multiplier = `^(0*10000(\.0+)?|0*[1-9]\d{0,3}(\.\d{1,4}0*)?|0+\.([1-9]\d{0,3}|0[1-9]\d{0,2}|00[1-9]\d?|000[1-9])0*)$`

func substrateNames() (names []any) {
	for s := range gate.Substrate(gate.Substrates) {
		names = append(names, s.String())
	}
	return names
}

// refine adds to the schemas what Go types can't express: closed lists, and the types of members
// with verbatim JSON. These are only in responses; bodies has the schemas of requests.
func refine(schemas object, bodies map[string]bool) {
	substrates := substrateNames()
	verbatim := map[string]object{
		"document": {"type": []any{"object", "null"}}, "event": {"type": "object"}, "header": {"type": "object"}, "keys": {"type": "object"}, "scope": {"type": "object"},
		"pack": {"type": []any{"object", "null"}}, "row": {"type": []any{"object", "null"}}, "receipt": reference("schemas", "Receipt"), "signature": reference("schemas", "Signature"),
	}
	for of, s := range schemas {
		delete(s.(object), "additionalProperties") // true everywhere, which is the default
		properties, _ := s.(object)["properties"].(object)
		for name, p := range properties {
			p := p.(object)
			if items, ok := p["items"].(object); ok && len(items) == 0 {
				items["type"] = "object"
			}
			if meaning := glossary[name]; meaning != "" && p["description"] == nil && p["$ref"] == nil {
				p["description"] = meaning
			}
			if p["type"] == nil && p["$ref"] == nil && !bodies[of] {
				maps.Copy(p, verbatim[name])
			}
			if values, closed := p["enum"].([]any); closed && slices.Contains(typesOf(p), "null") {
				p["enum"] = append(slices.Clone(values), nil)
			}
			switch name {
			case "substrate":
				if slices.Contains(typesOf(p), "null") {
					p["enum"] = append(slices.Clone(substrates), nil)
				} else {
					p["type"], p["enum"] = "string", substrates
				}
			case "scope":
				if p["type"] == nil && p["$ref"] == nil {
					p["type"], p["additionalProperties"] = []any{"object", "string"}, true
					if of == "SandboxNewOffer" || of == "SandboxCounterOffer" { // where an empty text is none
						p["minLength"] = 1
					}
				}
			case "multiplier":
				p["type"], p["exclusiveMinimum"], p["maximum"], p["pattern"] = []any{"number", "string"}, 0, 10_000, multiplier
			case "ok":
				p["enum"] = []any{true}
			}
		}
	}
	property := func(schema, name string) object {
		return schemas[schema].(object)["properties"].(object)[name].(object)
	}
	if schemas["SandboxError"] != nil {
		property("SandboxError", "ok")["enum"] = []any{false}
		maps.Copy(property("SandboxError", "violations"), object{"type": "array", "items": reference("schemas", "Violation")})
	}
	property("Error", "ok")["enum"] = []any{false}
	property("Error", "error")["enum"] = api.Codes()
	property("Error", "reason")["enum"] = api.Reasons()
	if schemas["RowError"] != nil {
		property("RowError", "reason")["enum"] = slices.Concat(api.Reasons(), api.RowReasons())
	}
	maps.Copy(property("Error", "violations"), object{"type": "array", "items": reference("schemas", "Violation")})
	for _, observed := range []string{"Observation", "Row"} {
		maps.Copy(property(observed, "telemetry"), reference("schemas", "Telemetry"))
	}
}

// usesOf are the names of the schemas in the bodies of POST, in those of other methods, and in responses.
func usesOf(d object) (posted, put, answered map[string]bool) {
	schemas := d["components"].(object)["schemas"].(object)
	posted, put, answered = map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, item := range d["paths"].(object) {
		for method, op := range item.(object) {
			op := op.(object)
			bodies := put
			if method == "post" {
				bodies = posted
			}
			reach(op["requestBody"], schemas, bodies)
			reach(op["responses"], schemas, answered)
		}
	}
	return posted, put, answered
}

// closeBodies says of bodies, and of the objects in them, that unknown members are refused; not of those
// that can be a stored record sent back, nor of those that are in responses as well.
func closeBodies(d object) {
	schemas := d["components"].(object)["schemas"].(object)
	closed, open, answered := usesOf(d)
	maps.Copy(open, answered)
	for _, ref := range slices.Concat(openSchemas, []string{schemaPrefix + "IngestBatch"}) {
		reach(object{"$ref": ref}, schemas, open)
	}
	for name := range closed {
		if s := schemas[name].(object); !open[name] && s["properties"] != nil {
			s["additionalProperties"] = false
		}
	}
}

// forms are what members of bodies have to look like, where the operation says more than a pattern could
// when it refuses them.
var forms = map[string]object{
	"contentHash": {"pattern": `^[A-Za-z0-9_-]{42}[AEIMQUYcgkosw048]$`},
	"currency":    {"pattern": `^[A-Z]{3}$`},
	"email":       {"pattern": `^.+@.+$`},
	"orgId":       {"pattern": api.OrgIDPattern},
	"receiptIds":  {"uniqueItems": true},
	"price":       {"pattern": `^\d+(\.\d{1,9})?$`},
	"minimum":     {"pattern": `^\d+(\.\d{1,6})?$`},
	"cap":         {"pattern": `^\d+(\.\d{1,6})?$`},
	"period":      {"pattern": calendar.PeriodPattern},
	"upTo":        {"pattern": position},
	"url":         {"pattern": `^[Hh][Tt][Tt][Pp][Ss]://[^#]+$`},
	"events":      {"enum": webhook.Filters(Kinds)},
	"scopes":      {"enum": append(api.EveryScope.Names(), api.Wildcard.String())},
	"substrates":  {"enum": substrateNames()},
}

// queryForms are the same of parameters that have a maxLength. An empty one is as if it were absent.
var queryForms = map[string]object{
	"from": {"pattern": orEmpty(route.TimePattern)}, "to": {"pattern": orEmpty(route.TimePattern)}, "endsAfter": {"pattern": orEmpty(route.TimePattern)}, "endsBy": {"pattern": orEmpty(route.TimePattern)},
	"after": {"pattern": orEmpty(position)}, "before": {"pattern": orEmpty(position)}, "asOf": {"pattern": orEmpty(position)}, "upTo": {"pattern": orEmpty(position)},
	"currency": {"pattern": orEmpty(`^[A-Z]{3}$`)}, "dueBy": {"pattern": orEmpty(dayForm)}, "dueSince": {"pattern": orEmpty(dayForm)}, "issuedBy": {"pattern": orEmpty(dayForm)}, "issuedSince": {"pattern": orEmpty(dayForm)},
}

// dayForm is the form of a day.
const dayForm = `^\d{4}-\d{2}-\d{2}$`

// orEmpty is a pattern that takes the empty text, too.
func orEmpty(pattern string) string { return "^(" + strings.Trim(pattern, "^$") + ")?$" }

// position is the form of a sealer.Position.
const position = `^(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)$`

// addForms adds forms to schemas that are in requests alone.
func addForms(d object) {
	schemas := d["components"].(object)["schemas"].(object)
	sent, put, answered := usesOf(d)
	maps.Copy(sent, put)
	for name, s := range schemas {
		properties, _ := s.(object)["properties"].(object)
		for member, p := range properties {
			p := p.(object)
			if pattern := p[route.Form]; pattern != nil {
				p["pattern"] = pattern
				delete(p, route.Form)
			}
			form := forms[member]
			if !sent[name] || answered[name] {
				continue
			}
			if items, ok := p["items"].(object); ok && form["uniqueItems"] == nil {
				maps.Copy(items, form)
			} else {
				maps.Copy(p, form)
			}
		}
	}
}

// reach adds the names of all schemas that a part of the document refers to.
func reach(v any, schemas object, reached map[string]bool) {
	switch v := v.(type) {
	case object:
		if ref, ok := v["$ref"].(string); ok {
			if name, ok := strings.CutPrefix(ref, schemaPrefix); ok && !reached[name] {
				reached[name] = true
				reach(schemas[name], schemas, reached)
			}
		}
		for _, inner := range v {
			reach(inner, schemas, reached)
		}
	case []any:
		for _, inner := range v {
			reach(inner, schemas, reached)
		}
	}
}

// acceptNull allows null for every optional member of a body and of the objects in it, as the reader
// of bodies does.
func acceptNull(op, schemas object) {
	body, _ := op["requestBody"].(object)
	content, _ := body["content"].(object)
	for _, media := range content {
		acceptNulls(media.(object)["schema"].(object), schemas)
	}
}

func acceptNulls(schema, schemas object) {
	ref, _ := schema["$ref"].(string)
	of := strings.TrimPrefix(ref, schemaPrefix)
	if of == "Telemetry" { // the gate's fields say which of them may be null
		return
	}
	s, _ := schemas[of].(object)
	required, _ := s["required"].([]any)
	properties, _ := s["properties"].(object)
	for name, p := range properties {
		p := p.(object)
		acceptNulls(p, schemas)
		if items, ok := p["items"].(object); ok {
			acceptNulls(items, schemas)
		}
		types := typesOf(p)
		switch {
		case slices.Contains(required, any(name)), len(types) == 0, slices.Contains(types, "null"):
			continue
		case name == "scope" && strings.HasSuffix(of, "NewRight"): // a right without limits says so
			continue
		case p["minItems"] != nil: // checkNames
			continue
		}
		p["type"] = append(types, "null")
		if values, closed := p["enum"].([]any); closed {
			p["enum"] = append(slices.Clone(values), nil)
		}
	}
}

// typesOf is a schema's type, as a list.
func typesOf(schema object) (types []string) {
	switch t := schema["type"].(type) {
	case string:
		types = []string{t}
	case []any:
		for _, one := range t {
			types = append(types, one.(string))
		}
	}
	return types
}

// prune removes schemas that nothing refers to, such as huma's own error.
func prune(d object) {
	schemas := d["components"].(object)["schemas"].(object)
	reached := map[string]bool{}
	reach(d["paths"], schemas, reached)
	reach(d[eventSchemas], schemas, reached)
	reach(d["components"].(object)["responses"], schemas, reached)
	maps.DeleteFunc(schemas, func(name string, _ any) bool { return !reached[name] })
}
