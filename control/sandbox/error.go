package sandbox

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"muniment.example/gateway/api"
)

// Code is one of the sandbox's error codes.
type Code string

// The contract's list.
const (
	NoTenant        Code = "NO_TENANT"
	TenantEvicted   Code = "TENANT_EVICTED"
	InvalidBody     Code = "INVALID_BODY"
	MissingFields   Code = "MISSING_FIELDS"
	RateLimited     Code = "RATE_LIMITED"
	HandlerError    Code = "HANDLER_ERROR"
	UnknownScenario Code = "UNKNOWN_SCENARIO"
)

// Codes lists them.
func Codes() []Code {
	return []Code{NoTenant, TenantEvicted, InvalidBody, MissingFields, RateLimited, HandlerError, UnknownScenario}
}

// Error is the sandbox's error response.
type Error struct {
	OK      bool   `json:"ok" doc:"Always false."`
	Code    Code   `json:"error" enum:"NO_TENANT,TENANT_EVICTED,INVALID_BODY,MISSING_FIELDS,RATE_LIMITED,HANDLER_ERROR,UNKNOWN_SCENARIO" doc:"What went wrong; the list is closed."`
	Message string `json:"message" doc:"For people; with HANDLER_ERROR it begins with the error code of /v1."`
	Field   string `json:"field,omitempty" doc:"The invalid field of an application for access."`
	// Violations are a []gate.Violation, verbatim.
	Violations json.RawMessage `json:"violations,omitempty" doc:"With 412: every rule of the constraint gate that refused the delivery."`

	status     int
	retryAfter time.Duration
	reason     api.Reason
}

// RetryReason is why the response is 503; empty for others.
func (e *Error) RetryReason() api.Reason { return e.reason }

func (e *Error) Error() string { return string(e.Code) + ": " + e.Message }

// GetStatus is the HTTP status of the response.
func (e *Error) GetStatus() int { return e.status }

// RetryAfterSeconds is the value of the header Retry-After; 0 means no header.
func (e *Error) RetryAfterSeconds() int { return int((e.retryAfter + time.Second - 1) / time.Second) }

func refusal(status int, code Code, message string) *Error {
	return &Error{Code: code, Message: message, status: status}
}

func noTenant() *Error {
	return refusal(http.StatusNotFound, NoTenant, "there is no tenant: POST /api/sandbox/tenant makes one")
}

func evicted() *Error {
	return refusal(http.StatusGone, TenantEvicted, "the tenant was reset, revoked by an operator, or idle for too long: POST /api/sandbox/tenant makes another one")
}

// foreignSite refuses a request that a page of another site made a browser send.
func foreignSite() *Error {
	return refusal(http.StatusForbidden, HandlerError, string(api.BadRequest)+": the request comes from another site")
}

func limited(wait time.Duration) *Error {
	e := refusal(http.StatusTooManyRequests, RateLimited, "too many requests from this IP address")
	e.retryAfter = wait
	return e
}

// v1Error is the error envelope of /v1.
type v1Error struct {
	Code    api.Code              `json:"error"`
	Message string                `json:"message"`
	Reason  api.Reason            `json:"reason"`
	Faults  []api.ValidationError `json:"validationErrors"`
}

// statuses are the statuses of a HANDLER_ERROR, by the status of /v1; any other becomes 500.
var statuses = map[int]int{
	http.StatusNotFound: http.StatusNotFound, http.StatusConflict: http.StatusConflict,
	http.StatusBadRequest: http.StatusUnprocessableEntity, http.StatusUnprocessableEntity: http.StatusUnprocessableEntity,
	http.StatusRequestEntityTooLarge: http.StatusUnprocessableEntity, http.StatusServiceUnavailable: http.StatusServiceUnavailable,
	http.StatusPreconditionFailed: http.StatusPreconditionFailed,
}

// render returns an error of /v1 in the sandbox's envelope.
func (s v1Error) render(status int, retryAfter time.Duration) *Error {
	message := s.Message
	if len(s.Faults) > 0 {
		message = listed(s.Faults)
	}
	if status == http.StatusTooManyRequests {
		e := limited(max(retryAfter, time.Second))
		e.Message = message
		return e
	}
	own, known := statuses[status]
	if !known {
		own = http.StatusInternalServerError
	}
	e := refusal(own, HandlerError, string(s.Code)+": "+message)
	if own == http.StatusServiceUnavailable {
		e.retryAfter, e.reason = max(retryAfter, time.Second), s.Reason
	}
	return e
}

func listed(faults []api.ValidationError) string {
	texts := make([]string, 0, len(faults))
	for _, f := range faults {
		texts = append(texts, f.Field+": "+f.Message)
	}
	return strings.Join(texts, "; ")
}

// Owns says whether a path is within the sandbox, or among the playground's operations, whether or
// not it exists.
func Owns(path string) bool {
	for _, base := range []string{Base, PlaygroundBase} {
		if path == base || strings.HasPrefix(path, base+"/") {
			return true
		}
	}
	return false
}

// accessBase begins the paths of control/access, which leads to a key of the sandbox.
const accessBase = "/api/access"

// Enveloped says whether errors under a path are in the sandbox's envelope: under its own paths, and
// those by which a key of the sandbox is requested.
func Enveloped(path string) bool {
	return Owns(path) || path == accessBase || strings.HasPrefix(path, accessBase+"/")
}

// RenderError renders an error of the contract in the sandbox's envelope, for handlers that respond
// before or instead of its operations; ok is false for a path that is not Enveloped.
func RenderError(path string, e *api.Error) (status int, body []byte, ok bool) {
	if !Enveloped(path) {
		return 0, nil, false
	}
	own := refuse(e, nil)
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(own) // never fails: plain members, into memory
	return own.GetStatus(), text.Bytes(), true
}

// refuse renders an error of a check or a handler in the sandbox's envelope.
func refuse(e *api.Error, errs []error) huma.StatusError {
	if own, ok := errors.AsType[*Error](errors.Join(errs...)); ok {
		return own
	}
	status := e.GetStatus()
	switch {
	case e.Code == api.BadRequest && (status == http.StatusBadRequest || status == http.StatusRequestEntityTooLarge):
		return refusal(status, InvalidBody, e.Message)
	case e.Code == api.BadRequest: // not about the body
		return refusal(status, HandlerError, string(e.Code)+": "+e.Message)
	case e.Code == api.ValidationFailed:
		return invalid(e)
	}
	own := v1Error{Code: e.Code, Message: e.Message, Reason: e.Reason}.render(status, e.RetryAfter)
	own.Violations = e.Violations
	return own
}

// refuseNaming is refuse, and names the invalid field.
func refuseNaming(e *api.Error, errs []error) huma.StatusError {
	answer := refuse(e, errs)
	if own, ok := answer.(*Error); ok && own.Code == HandlerError && e.Code == api.ValidationFailed {
		own.Field = e.Field
	}
	return answer
}

// invalid renders faults in a body: if fields are missing, only those, and names that may have been
// meant for them.
func invalid(e *api.Error) *Error {
	var missing []string
	var unknown []api.ValidationError
	for _, f := range e.ValidationErrors {
		switch f.Kind {
		case api.FaultMissing:
			missing = append(missing, f.Field)
		case api.FaultUnknown:
			unknown = append(unknown, f)
		}
	}
	message := e.Message
	if len(e.ValidationErrors) > 0 {
		message = listed(e.ValidationErrors)
	}
	switch {
	case len(missing) > 0:
		slices.Sort(missing)
		message = "missing: " + strings.Join(missing, ", ")
		if len(unknown) > 0 {
			message += "; " + listed(unknown)
		}
		return refusal(http.StatusUnprocessableEntity, MissingFields, message)
	case e.Field == "scenario":
		return refusal(http.StatusUnprocessableEntity, UnknownScenario, message)
	}
	return refusal(http.StatusUnprocessableEntity, HandlerError, string(api.ValidationFailed)+": "+message)
}

// readResponse returns the data of a response of /v1, or its error in the sandbox's envelope.
func readResponse(status int, response []byte) (json.RawMessage, error) {
	if status == http.StatusOK {
		var body struct{ Data json.RawMessage }
		err := json.Unmarshal(response, &body)
		return body.Data, err
	}
	var e v1Error
	if err := json.Unmarshal(response, &e); err != nil {
		return nil, err
	}
	return nil, e.render(status, 0)
}
