package sandbox

import (
	"net/http"
	"time"

	"muniment/gateway/api"
)

// Refusal is the sandbox's error of one HTTP status, for the document.
type Refusal struct {
	Status  int
	Name    string
	Note    string
	Codes   []Code
	Example *Error
}

// Refusals are all of them. An operation has those that fit its input.
func Refusals() []Refusal {
	conflict := said{Code: api.StateConflict, Message: "a REVOKED right can't be suspended"}
	unknown := said{Code: api.ResourceNotFound, Message: "no such right in this tenant"}
	internal := said{Code: api.InternalError, Message: "internal error"}
	away := said{Code: api.InternalError, Message: "the log or the warehouse does not answer"}
	return []Refusal{
		{400, "SandboxInvalidBody", "The body is no JSON object.", []Code{InvalidBody}, refusal(400, InvalidBody, "the body is not valid JSON")},
		{403, "SandboxForeignSite", "Sent by a page of another site (Sec-Fetch-Site or Origin).", []Code{HandlerError}, foreignSite()},
		{404, "SandboxNotFound", "There is no tenant, or no such thing in it.", []Code{NoTenant, HandlerError}, unknown.refused(404, 0)},
		{408, "SandboxRequestTimeout", "The body did not arrive in time.", []Code{HandlerError}, refusal(http.StatusRequestTimeout, HandlerError, "BAD_REQUEST: the body did not arrive in time")},
		{409, "SandboxConflict", "The state of the resource forbids it.", []Code{HandlerError}, conflict.refused(409, 0)},
		{410, "SandboxEvicted", "The tenant of the cookie is gone.", []Code{TenantEvicted}, evicted()},
		{413, "SandboxContentTooLarge", "The body is longer than the route takes.", []Code{InvalidBody}, refusal(413, InvalidBody, "the body is longer than 1048576 bytes")},
		{422, "SandboxInvalid", "A required field is missing, null or empty, or a field is wrong-typed, out of range, or given twice.", []Code{MissingFields, UnknownScenario, HandlerError},
			refusal(http.StatusUnprocessableEntity, MissingFields, "missing: rightId")},
		{429, "SandboxRateLimited", "Too many requests of this address: 10 in 10 seconds, or 200 in an hour; or too many at a time; or the address has put as much into the log as one may, which leaves it after days.", []Code{RateLimited}, limited(8 * time.Second)},
		{500, "SandboxInternalError", "A fault of the service.", []Code{HandlerError}, internal.refused(500, 0)},
		{503, "SandboxUnavailable", "The service can't answer now.", []Code{HandlerError}, away.refused(503, time.Second)},
	}
}
