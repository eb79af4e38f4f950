package control

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"muniment/gate"
	"muniment/gateway/api"
)

// object is a JSON object.
type object = map[string]any

// bearer is the name of the one security scheme.
const bearer = "apiKey"

// declareSecurity says in the document who may call an operation. OpenAPI 3.1 has
// room for the scope beside a bearer scheme; the extension is for readers that
// don't look there.
func declareSecurity(op *huma.Operation) {
	scope, scoped := op.Metadata["scope"].(api.Scope)
	switch {
	case scoped:
		op.Security = []map[string][]string{{bearer: {scope.String()}}}
		if op.Extensions == nil {
			op.Extensions = map[string]any{}
		}
		op.Extensions["x-required-scope"] = scope.String()
	case op.Metadata["public"] == true:
		op.Security = []map[string][]string{}
	}
}

// document writes the OpenAPI document of everything that a caller of the service
// can reach: what the rooms have declared, and what the gateway answers itself.
//
// What the rooms can't know is put in here, into a copy, so that the schemas by
// which requests are checked stay as they are: error envelopes, closed lists, and
// examples.
func document(declared *huma.OpenAPI) ([]byte, error) {
	describeEdge(declared)
	schemas := declared.Components.Schemas
	for _, named := range []reflect.Type{reflect.TypeFor[api.ErrorBody](), reflect.TypeFor[gate.Violation]()} {
		schemas.Schema(named, true, "")
	}
	text, err := json.Marshal(declared)
	if err != nil {
		return nil, fmt.Errorf("cannot write the API's document: %w", err)
	}
	var d object
	if err := json.Unmarshal(text, &d); err != nil {
		return nil, fmt.Errorf("cannot read the API's document: %w", err)
	}
	if d["info"], err = info(); err != nil {
		return nil, err
	}
	d["servers"] = []any{object{"url": "/", "description": "Wherever this document came from."}}
	components := d["components"].(object)
	components["securitySchemes"] = object{bearer: object{
		"type": "http", "scheme": "bearer", "bearerFormat": "mun_<env>_<id>_<secret>_<crc>",
		"description": "An API key. It carries named scopes; each operation says which one it needs. `*` passes every check.",
	}}
	components["headers"] = commonHeaders
	components["responses"] = refusals()
	closeLists(components["schemas"].(object))

	known, err := readExamples()
	if err != nil {
		return nil, err
	}
	used := map[string]bool{}
	for path, item := range d["paths"].(object) {
		for method, op := range item.(object) {
			op := op.(object)
			named, _ := op["tags"].([]any)
			for _, tag := range named {
				used[tag.(string)] = true
			}
			complete(op, strings.ToUpper(method), path)
			illustrate(op, known, components["schemas"].(object))
		}
	}
	d["tags"] = tags(used)
	prune(d)
	return json.MarshalIndent(d, "", " ")
}

func info() (object, error) {
	overview, err := page.ReadFile("page/overview.md")
	return object{
		"title": "Muniment", "version": "1.0.0", "summary": "The evidence ledger for governed delivery.", "description": string(overview),
		"license": object{"name": "Apache-2.0", "identifier": "Apache-2.0"},
	}, err
}

// tagNotes are the chapters, in the order of reading.
var tagNotes = []struct{ name, note string }{
	{tagDelivery, "The hot path: an observation in, a signed receipt out."},
	{"Rights", "What may be delivered, where and until when. Suspension and revocation reach every node."},
	{"Bases", "The legal bases that rights rest on."},
	{"Receipts", "Receipts by id, and the proof that one is in the tenant's log."},
	{"Proof packs", "Sealed slices of the tenant's log, for a stranger to verify offline."},
	{"Events", "The tenant's audit log, in the order in which it happened."},
	{"Metering", "What was billed and what was refused, by right and stretch of time."},
	{"Tenant", "The tenant and its API keys."},
	{"Verification", "What a verifier needs to trust."},
	{tagService, "Health, versions and this document."},
}

// tags are the chapters that have operations. One that has no note here comes last.
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

// refusal is how the contract tells one HTTP status.
type refusal struct {
	status  int
	name    string
	note    string
	codes   []api.Code
	example *api.Error
}

var refusalTable = []refusal{
	{400, "BadRequest", "The request, or its body as JSON, can't be read.", []api.Code{api.BadRequest},
		&api.Error{Code: api.BadRequest, Message: "the body is not valid JSON"}},
	{401, "Unauthorized", "The Authorization header is missing or malformed (`AUTH_REQUIRED`), or its key is not valid (`AUTH_INVALID`).",
		[]api.Code{api.AuthRequired, api.AuthInvalid}, &api.Error{Code: api.AuthInvalid, Message: "the API key is not valid"}},
	{403, "Forbidden", "The key lacks the operation's scope.", []api.Code{api.ScopeMissing}, api.Missing(api.DeliveryWrite, api.Scopes(api.RightsRead|api.AuditRead))},
	{404, "NotFound", "There is no such thing in this tenant. Another tenant's is answered alike.", []api.Code{api.ResourceNotFound}, api.NotFound("right")},
	{409, "Conflict", "The state of the resource forbids it.", []api.Code{api.StateConflict}, api.Conflict("the right is no longer in effect")},
	{412, "PreconditionFailed", "The constraint gate refuses the delivery. Nothing was signed.", []api.Code{api.PreconditionFailed}, refusedDelivery()},
	{413, "ContentTooLarge", "The body is longer than the route takes.", []api.Code{api.BadRequest}, api.TooLarge("the body is larger than this route takes")},
	{422, "Invalid", "A field is missing, wrong-typed, out of range, or given twice.", []api.Code{api.ValidationFailed},
		api.Invalid(api.ValidationError{Field: "rightId", Message: "is missing"}, api.ValidationError{Field: "telemetry.speedMph", Message: "must be a number from 0 to 1000000000"})},
	{429, "RateLimited", "Too many requests of this tenant are in hand.", []api.Code{api.RateLimited},
		&api.Error{Code: api.RateLimited, Message: "this tenant has too many deliveries in hand on this node", RetryAfter: time.Second}},
	{500, "InternalError", "A fault of the service.", []api.Code{api.InternalError}, &api.Error{Code: api.InternalError, Message: "internal error"}},
	{503, "Unavailable", "The service can't answer now; `reason` says why. Nothing was promised.", []api.Code{api.InternalError},
		api.Unavailable(api.RightsStale, "this node has had no news of rights for too long", time.Second)},
}

// refusedDelivery is the answer to a car at 65 mph, as the gate tells it.
func refusedDelivery() *api.Error {
	limit := 5.0
	text, err := json.Marshal([]gate.Violation{{
		Code: "AUTOMOTIVE_SPEED_EXCEEDED", Rule: "automotive-speed", Substrate: gate.Automotive, Field: "telemetry.speedMph",
		Fields: []string{"telemetry.speedMph"}, Observed: []byte("65"), Required: "< 5", Unit: "mph", Limit: &limit,
		Message: "vehicle speed 65 mph; visual renders need < 5 mph", Reference: "NHTSA 78 FR 24817",
	}})
	if err != nil {
		panic(err) // a constant
	}
	return &api.Error{
		Code: api.PreconditionFailed, Message: gate.ConstraintMessage(gate.Automotive, 1), Substrate: gate.Automotive.String(),
		Gate: gate.Version, Violations: text,
	}
}

// refusals is the answers that components hold, one for each status.
func refusals() object {
	all := object{}
	for _, r := range refusalTable {
		example := *r.example
		example.RequestID = "req_01M7Y45MG0Q6ZJ3N8T5V2W9XKC"
		headers := object{api.HeaderRequestID: reference("headers", "RequestId")}
		if example.RetryAfter > 0 {
			headers["Retry-After"] = reference("headers", "RetryAfter")
		}
		own := object{"error": object{"enum": r.codes}}
		if r.status == http.StatusServiceUnavailable {
			own["reason"] = object{"enum": api.Reasons()}
		}
		all[r.name] = object{
			"description": r.note, "headers": headers,
			"content": object{jsonType: object{
				"schema":  object{"allOf": []any{reference("schemas", "ErrorBody"), object{"properties": own}}},
				"example": &example,
			}},
		}
	}
	return all
}

func reference(kind, name string) object { return object{"$ref": "#/components/" + kind + "/" + name} }

// complete puts in what every operation has: its refusals, and descriptions of ids
// in its path.
func complete(op object, method, path string) {
	params, _ := op["parameters"].([]any)
	for _, p := range params {
		p := p.(object)
		if schema, ok := p["schema"].(object); ok {
			delete(schema, "description") // the parameter has it
		}
		if p["in"] == "path" && p["description"] == nil {
			p["description"] = "The " + strings.TrimSuffix(p["name"].(string), "Id") + "'s id."
		}
		if p["explode"] == false {
			delete(p, "explode")
		}
	}
	responses := op["responses"].(object)
	statuses := map[int]bool{400: true, 500: true, 503: true}
	for text := range responses {
		status, err := strconv.Atoi(text)
		if err != nil || status >= 400 {
			delete(responses, text)
			statuses[status] = true
		}
	}
	if security := op["security"].([]any); len(security) > 0 {
		statuses[401], statuses[403] = true, true
	}
	if strings.Contains(path, "{") {
		statuses[404] = true
	}
	if op["requestBody"] != nil {
		statuses[413] = true
	}
	if op["requestBody"] != nil || len(params) > 0 {
		statuses[422] = true
	}
	if method != http.MethodGet {
		statuses[409] = true
	}
	for _, r := range refusalTable {
		if statuses[r.status] {
			responses[strconv.Itoa(r.status)] = reference("responses", r.name)
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

// closeLists puts into the schemas what their Go types can't say: lists that are
// closed, and arrays that are empty rather than null.
func closeLists(schemas object) {
	var substrates []string
	for s := range gate.Substrate(gate.Substrates) {
		substrates = append(substrates, s.String())
	}
	for _, s := range schemas {
		properties, _ := s.(object)["properties"].(object)
		for name, p := range properties {
			p := p.(object)
			if slices.Equal(typesOf(p), []string{"array", "null"}) {
				p["type"] = "array"
			}
			switch name {
			case "substrate":
				p["type"], p["enum"] = "string", substrates
			case "ok":
				p["enum"] = []any{true}
			}
		}
	}
	property := func(schema, name string) object {
		return schemas[schema].(object)["properties"].(object)[name].(object)
	}
	property("ErrorBody", "ok")["enum"] = []any{false}
	property("ErrorBody", "error")["enum"] = api.Codes()
	property("ErrorBody", "reason")["enum"] = api.Reasons()
	maps.Copy(property("ErrorBody", "violations"), object{"type": "array", "items": reference("schemas", "Violation")})
	maps.Copy(property("Observation", "telemetry"), reference("schemas", "Telemetry"))
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

// prune leaves out schemas that nothing refers to, such as huma's own error.
func prune(d object) {
	schemas := d["components"].(object)["schemas"].(object)
	reached := map[string]bool{}
	var walk func(any)
	walk = func(v any) {
		switch v := v.(type) {
		case object:
			if ref, ok := v["$ref"].(string); ok {
				if name, ok := strings.CutPrefix(ref, "#/components/schemas/"); ok && !reached[name] {
					reached[name] = true
					walk(schemas[name])
				}
			}
			for _, inner := range v {
				walk(inner)
			}
		case []any:
			for _, inner := range v {
				walk(inner)
			}
		}
	}
	walk(d["paths"])
	walk(d["components"].(object)["responses"])
	maps.DeleteFunc(schemas, func(name string, _ any) bool { return !reached[name] })
}
