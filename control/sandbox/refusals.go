package sandbox

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"muniment.example/gate"
	"muniment.example/gateway/api"
)

// Refusal is the sandbox's error response of one HTTP status, for the OpenAPI document.
type Refusal struct {
	Status  int
	Name    string
	Note    string
	Codes   []Code
	Example *Error
}

// Refusals lists them for all statuses; route.Refusals says which statuses an operation has.
func Refusals() []Refusal {
	conflict := v1Error{Code: api.StateConflict, Message: "a REVOKED right can't be suspended"}
	unknown := v1Error{Code: api.ResourceNotFound, Message: "no such right in this tenant"}
	internal := v1Error{Code: api.InternalError, Message: "internal error"}
	unavailable := v1Error{Code: api.InternalError, Message: "the log or the warehouse does not answer"}
	gated := v1Error{Code: api.PreconditionFailed, Message: gate.ConstraintMessage(gate.Messaging, 1)}.render(http.StatusPreconditionFailed, 0)
	gated.Violations = optedOut()
	return []Refusal{
		{400, "SandboxInvalidBody", "The body is not a JSON object.", []Code{InvalidBody}, refusal(400, InvalidBody, "the body is not valid JSON")},
		{403, "SandboxForeignSite", "The request comes from a page of another site (Sec-Fetch-Site or Origin).", []Code{HandlerError}, foreignSite()},
		{404, "SandboxNotFound", "There is no tenant, or the tenant has no such resource.", []Code{NoTenant, HandlerError}, unknown.render(404, 0)},
		{408, "SandboxRequestTimeout", "The body did not arrive in time.", []Code{HandlerError}, refusal(http.StatusRequestTimeout, HandlerError, "BAD_REQUEST: the body did not arrive in time")},
		{409, "SandboxConflict", "The state of the resource does not allow it.", []Code{HandlerError}, conflict.render(409, 0)},
		{410, "SandboxEvicted", "The tenant of the cookie was dropped or revoked.", []Code{TenantEvicted}, evicted()},
		{412, "SandboxPreconditionFailed", "The constraint gate refused the delivery; nothing was signed.", []Code{HandlerError}, gated},
		{413, "SandboxContentTooLarge", "The body is too long.", []Code{InvalidBody}, refusal(413, InvalidBody, "the body is longer than 1048576 bytes")},
		{422, "SandboxInvalid", "A required field is missing, null or empty, or a field is wrong-typed, out of range, or given twice.", []Code{MissingFields, UnknownScenario, HandlerError},
			refusal(http.StatusUnprocessableEntity, MissingFields, "missing: rightId")},
		{429, "SandboxRateLimited", "The IP address has sent more than 10 requests per 10 seconds or 200 per hour, or too many at a time, or has used its space in the log, which is freed after days.", []Code{RateLimited}, limited(8 * time.Second)},
		{500, "SandboxInternalError", "A fault of the service.", []Code{HandlerError}, internal.render(500, 0)},
		{503, "SandboxUnavailable", "The service is unavailable.", []Code{HandlerError}, unavailable.render(503, time.Second)},
	}
}

// optedOut is what the gate says of a message to somebody who has opted out.
func optedOut() json.RawMessage {
	c, err := new(demo).constraintDemo(context.Background(), &constraintInput{Scenario{"messaging-optout"}})
	if err != nil {
		panic(err) // of a constant
	}
	text, err := json.Marshal(c.Violations)
	if err != nil {
		panic(err)
	}
	return text
}
