package control

import (
	"encoding/json"
	"net/http"
	"time"

	"muniment.example/control/sandbox"
	"muniment.example/gate"
	"muniment.example/gateway/api"
)

// refusal is the contract's error of one HTTP status.
type refusal struct {
	status  int
	name    string
	note    string
	codes   []api.Code
	example *api.Error
}

const headersTooLarge = "HeadersTooLarge"

var refusalTable = []refusal{
	{400, "BadRequest", "The request, its query or its JSON body can't be read, or the body has too many names and values.", []api.Code{api.BadRequest},
		&api.Error{Code: api.BadRequest, Message: "the body is not valid JSON"}},
	{401, "Unauthorized", "The Authorization header is missing or malformed, or its key is not valid.",
		[]api.Code{api.AuthRequired, api.AuthInvalid}, &api.Error{Code: api.AuthInvalid, Message: "the API key is not valid"}},
	{403, "Forbidden", "The key lacks the operation's scope.", []api.Code{api.ScopeMissing}, api.Missing(api.DeliveryWrite, api.Scopes(api.RightsRead|api.AuditRead))},
	{404, "NotFound", "This tenant has no such resource. A resource of another tenant gets the same response.", []api.Code{api.ResourceNotFound}, api.NotFound("right")},
	{408, "RequestTimeout", "The request did not arrive in time.", []api.Code{api.BadRequest},
		&api.Error{Code: api.BadRequest, HTTPStatus: 408, Message: "the request did not arrive in time"}},
	{409, "Conflict", "The state of the resource does not allow it.", []api.Code{api.StateConflict}, api.Conflict("the right is no longer in effect")},
	{412, "PreconditionFailed", "The constraint gate refuses the delivery. Nothing was signed.", []api.Code{api.PreconditionFailed}, refusedDelivery()},
	{413, "ContentTooLarge", "The body is too long.", []api.Code{api.BadRequest}, api.TooLarge("the body is larger than this route takes")},
	{415, "UnsupportedMediaType", "The Content-Type or Content-Encoding is not one that the operation takes.", []api.Code{api.BadRequest},
		&api.Error{Code: api.BadRequest, HTTPStatus: 415, Message: "the Content-Encoding must be gzip, zstd, or absent"}},
	{422, "Invalid", "A field is missing, wrong-typed, out of range, or given twice.", []api.Code{api.ValidationFailed},
		api.Invalid(api.MissingField("rightId"), api.ValidationError{Field: "telemetry.speedMph", Message: "must be a number from 0 to 1000000000"})},
	{429, "RateLimited", "The tenant has too many requests in flight.", []api.Code{api.RateLimited},
		&api.Error{Code: api.RateLimited, Message: "this tenant has too many deliveries in hand on this node", RetryAfter: time.Second}},
	{431, headersTooLarge, "The request's line and headers are larger than 8 KiB.", []api.Code{api.BadRequest},
		&api.Error{Code: api.BadRequest, HTTPStatus: 431, Message: "the headers are larger than 8 KiB"}},
	{500, "InternalError", "A fault of the service.", []api.Code{api.InternalError}, &api.Error{Code: api.InternalError, Message: "internal error"}},
	{503, "Unavailable", "The service is unavailable; `reason` says why. Nothing was promised.", []api.Code{api.InternalError},
		api.Unavailable(api.RightsStale, "this node has had no news of rights for too long", time.Second)},
}

// refusedDelivery is the response for a car at 65 mph, with the gate's violations.
func refusedDelivery() *api.Error {
	limit := 5.0
	text, err := json.Marshal([]gate.Violation{{
		Code: "AUTOMOTIVE_SPEED_EXCEEDED", Rule: "automotive-speed", Substrate: gate.Automotive, Field: "telemetry.speedMph",
		Fields: []string{"telemetry.speedMph"}, Observed: []byte("65"), Required: "< 5", Unit: "mph", Limit: &limit,
		Message: "vehicle speed 65 mph; visual renders need < 5 mph", Reference: "NHTSA 78 FR 24817",
	}})
	if err != nil {
		panic(err) // cannot happen: the value is constant
	}
	return &api.Error{
		Code: api.PreconditionFailed, Message: gate.ConstraintMessage(gate.Automotive, 1), Substrate: gate.Automotive.String(),
		Gate: gate.Version, Violations: text,
	}
}

// refusalNames are the names of the error responses by status, of /v1 or of the sandbox.
func refusalNames(ofSandbox bool) map[int]string {
	names := map[int]string{}
	if ofSandbox {
		for _, r := range sandbox.Refusals() {
			names[r.Status] = r.Name
		}
		// If the headers could not be read, the path is unknown.
		names[http.StatusRequestHeaderFieldsTooLarge] = headersTooLarge
		return names
	}
	for _, r := range refusalTable {
		names[r.status] = r.name
	}
	return names
}

// refusals are the error responses of the document's components, one for each status of either
// envelope. All responses of an envelope have one schema, since generators make a type of each
// schema; the extension x-error-codes has the codes of a status.
func refusals() object {
	all := object{}
	for _, r := range sandbox.Refusals() {
		all[r.Name] = refused(r.Note, "SandboxError", r.Codes, r.Example, r.Example.RetryAfterSeconds())
	}
	for _, r := range refusalTable {
		example := *r.example
		example.RequestID = "req_01M7Y45MG0Q6ZJ3N8T5V2W9XKC"
		all[r.name] = refused(r.note, "Error", r.codes, &example, example.RetryAfterSeconds())
	}
	return all
}

func refused(note, schema string, codes, example any, retryAfter int) object {
	headers := object{api.HeaderRequestID: reference("headers", "RequestId")}
	if retryAfter > 0 {
		headers["Retry-After"] = reference("headers", "RetryAfter")
	}
	return object{
		"description": note, "headers": headers, "x-error-codes": codes,
		"content": object{jsonType: object{"schema": reference("schemas", schema), "example": example}},
	}
}
