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

	"muniment/gateway/api"
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

// Error is what the sandbox answers when it refuses.
type Error struct {
	OK      bool   `json:"ok" doc:"Always false."`
	Code    Code   `json:"error" enum:"NO_TENANT,TENANT_EVICTED,INVALID_BODY,MISSING_FIELDS,RATE_LIMITED,HANDLER_ERROR,UNKNOWN_SCENARIO" doc:"What went wrong, of a closed list."`
	Message string `json:"message" doc:"For people; of HANDLER_ERROR it begins with the code of /v1."`

	status     int
	retryAfter time.Duration
}

func (e *Error) Error() string { return string(e.Code) + ": " + e.Message }

// GetStatus is the HTTP status of the answer.
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
	return refusal(http.StatusGone, TenantEvicted, "the tenant was reset, stopped, or not used for long: POST /api/sandbox/tenant makes another one")
}

// foreignSite refuses what a page of another site has a browser send.
func foreignSite() *Error {
	return refusal(http.StatusForbidden, HandlerError, string(api.BadRequest)+": the request comes from another site")
}

func limited(wait time.Duration) *Error {
	e := refusal(http.StatusTooManyRequests, RateLimited, "too many requests from this address")
	e.retryAfter = wait
	return e
}

// said is an error of /v1, as it is in its envelope.
type said struct {
	Code    api.Code              `json:"error"`
	Message string                `json:"message"`
	Faults  []api.ValidationError `json:"validationErrors"`
}

// statuses are those of a HANDLER_ERROR, by the status of /v1; any other is 500.
var statuses = map[int]int{
	http.StatusNotFound: http.StatusNotFound, http.StatusConflict: http.StatusConflict,
	http.StatusBadRequest: http.StatusUnprocessableEntity, http.StatusUnprocessableEntity: http.StatusUnprocessableEntity,
	http.StatusRequestEntityTooLarge: http.StatusUnprocessableEntity, http.StatusServiceUnavailable: http.StatusServiceUnavailable,
}

// refused renders an error of /v1.
func (s said) refused(status int, retryAfter time.Duration) *Error {
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
		e.retryAfter = max(retryAfter, time.Second)
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

// Owns says whether a path is the sandbox's, be there anything under it or not.
func Owns(path string) bool { return path == Base || strings.HasPrefix(path, Base+"/") }

// RenderError renders an error of the contract in the sandbox's envelope, for handlers that answer before
// or around its operations; ok is false for a path that is not the sandbox's.
func RenderError(path string, e *api.Error) (status int, body []byte, ok bool) {
	if !Owns(path) {
		return 0, nil, false
	}
	own := refuse(e, nil)
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(own) // of plain members into memory: never fails
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
	case e.Code == api.BadRequest: // nothing is wrong with the body
		return refusal(status, HandlerError, string(e.Code)+": "+e.Message)
	case e.Code == api.ValidationFailed:
		return unfit(e)
	}
	return said{Code: e.Code, Message: e.Message}.refused(status, e.RetryAfter)
}

// unfit says what is wrong with a body, missing fields first.
func unfit(e *api.Error) *Error {
	var missing []string
	for _, f := range e.ValidationErrors {
		if f.Kind == api.FaultMissing {
			missing = append(missing, f.Field)
		}
	}
	message := e.Message
	if len(e.ValidationErrors) > 0 {
		message = listed(e.ValidationErrors)
	}
	switch {
	case len(missing) > 0:
		slices.Sort(missing)
		return refusal(http.StatusUnprocessableEntity, MissingFields, "missing: "+strings.Join(missing, ", "))
	case e.Field == "scenario":
		return refusal(http.StatusUnprocessableEntity, UnknownScenario, message)
	}
	return refusal(http.StatusUnprocessableEntity, HandlerError, string(api.ValidationFailed)+": "+message)
}

// readAnswer reads a response of /v1.
func readAnswer(status int, answer []byte) (json.RawMessage, error) {
	if status == http.StatusOK {
		var body struct{ Data json.RawMessage }
		err := json.Unmarshal(answer, &body)
		return body.Data, err
	}
	var s said
	if err := json.Unmarshal(answer, &s); err != nil {
		return nil, err
	}
	return nil, s.refused(status, 0)
}
