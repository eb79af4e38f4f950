package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"
)

// Code is one of the contract's error codes.
type Code string

// The contract's closed list.
const (
	AuthRequired       Code = "AUTH_REQUIRED"
	AuthInvalid        Code = "AUTH_INVALID"
	ScopeMissing       Code = "SCOPE_MISSING"
	ResourceNotFound   Code = "RESOURCE_NOT_FOUND"
	StateConflict      Code = "STATE_CONFLICT"
	PreconditionFailed Code = "PRECONDITION_FAILED"
	ValidationFailed   Code = "VALIDATION_FAILED"
	RateLimited        Code = "RATE_LIMITED"
	BadRequest         Code = "BAD_REQUEST"
	InternalError      Code = "INTERNAL_ERROR"
)

// statuses is the one map from code to HTTP status.
var statuses = map[Code]int{
	AuthRequired:       http.StatusUnauthorized,
	AuthInvalid:        http.StatusUnauthorized,
	ScopeMissing:       http.StatusForbidden,
	ResourceNotFound:   http.StatusNotFound,
	StateConflict:      http.StatusConflict,
	PreconditionFailed: http.StatusPreconditionFailed,
	ValidationFailed:   http.StatusUnprocessableEntity,
	RateLimited:        http.StatusTooManyRequests,
	BadRequest:         http.StatusBadRequest,
	InternalError:      http.StatusInternalServerError,
}

// Status is the HTTP status of the code; an unknown code is 500.
func (c Code) Status() int {
	if s, ok := statuses[c]; ok {
		return s
	}
	return http.StatusInternalServerError
}

// Codes lists the contract's codes, sorted.
func Codes() []Code { return slices.Sorted(maps.Keys(statuses)) }

// Reason is why the service answers 503: nothing is wrong with the
// request, nothing was promised, and it may be sent again after retry-after. A row of a batch may
// have RightNotInForce besides.
type Reason string

// The reasons of a 503.
const (
	RightsStale    Reason = "RIGHTS_STALE"
	LogUnavailable Reason = "LOG_UNAVAILABLE"
	NoSigningKey   Reason = "NO_SIGNING_KEY"
	// DelegationEnded: an operator has to bring the root's next delegation before a
	// key directory or a pack is signed again; deliveries go on.
	DelegationEnded Reason = "DELEGATION_ENDED"
	Overloaded      Reason = "OVERLOADED"
	Draining        Reason = "DRAINING"
	// ControlUnavailable: the gateway can't reach control; deliveries go on.
	ControlUnavailable Reason = "CONTROL_UNAVAILABLE"
	WarehouseBehind    Reason = "WAREHOUSE_BEHIND"
	Quarantined        Reason = "QUARANTINED"
	StorageFull        Reason = "STORAGE_FULL"
	// DatabaseUnavailable: the message says whether a change was made.
	DatabaseUnavailable Reason = "DATABASE_UNAVAILABLE"
	// EngineUnavailable: the log, the warehouse or the bucket of packs does not answer control.
	EngineUnavailable Reason = "ENGINE_UNAVAILABLE"
	// DatabaseBusy: another operator's work, or another process, has to end first.
	// Nothing was changed.
	DatabaseBusy Reason = "DATABASE_BUSY"
)

// Reasons lists the reasons above.
func Reasons() []Reason {
	return []Reason{
		RightsStale, LogUnavailable, NoSigningKey, DelegationEnded, Overloaded, Draining, ControlUnavailable, WarehouseBehind, Quarantined, StorageFull,
		DatabaseUnavailable, DatabaseBusy, EngineUnavailable,
	}
}

// RightNotInForce is why a row of a batch is refused for good: its right was not in force when it was
// played. It is no reason of a 503.
const RightNotInForce Reason = "RIGHT_NOT_IN_FORCE"

// RowReasons lists the reasons that only rows of batches have.
func RowReasons() []Reason { return []Reason{RightNotInForce} }

// ValidationError is one fault of a request.
type ValidationError struct {
	Field   string    `json:"field"`
	Message string    `json:"message"`
	Kind    FaultKind `json:"-"`
}

// FaultKind is what is wrong with a field, for code that acts on it.
type FaultKind string

// FaultMissing is a field that has to be there and is not, FaultUnknown one that the operation does not
// have. Any other fault has no kind: nothing acts on it.
const (
	FaultMissing FaultKind = "missing"
	FaultUnknown FaultKind = "unknown"
)

// MissingField is the fault of a field that is not there.
func MissingField(field string) ValidationError {
	return ValidationError{field, "is missing", FaultMissing}
}

// Error is the one error type that reaches callers. Every other error is returned
// to them as INTERNAL_ERROR with a fixed text (see From).
type Error struct {
	Code    Code
	Message string
	// HTTPStatus overrides the code's status where the contract has no code of
	// its own: 413, 405, 503.
	HTTPStatus int

	Field            string
	ValidationErrors []ValidationError // of ValidationFailed
	RequiredScopes   []string
	KeyScopes        []string
	Reason           Reason
	// RetryAfter becomes the header Retry-After, in whole seconds, rounded up.
	RetryAfter time.Duration
	RequestID  string

	// Set on a delivery that the constraint gate refused.
	Substrate  string
	Gate       string
	Violations json.RawMessage
	// Pending is set on a 503 of sealing: what is still awaited.
	Pending any
	// ConfirmationToken and Preview are set on a 412 of an erasure that is to be confirmed.
	ConfirmationToken string
	Preview           any
}

func (e *Error) Error() string { return string(e.Code) + ": " + e.Message }

// GetStatus is the HTTP status of the answer.
func (e *Error) GetStatus() int {
	if e.HTTPStatus != 0 {
		return e.HTTPStatus
	}
	return e.Code.Status()
}

// RetryAfterSeconds is the least value of the header Retry-After; 0 means no header. Each 429 and 503 has one: without a time
// of its own the first is over once somebody has made room, and is to be tried again after a minute, and the other after a second.
func (e *Error) RetryAfterSeconds() int {
	if e.RetryAfter <= 0 {
		switch e.GetStatus() {
		case http.StatusTooManyRequests:
			return 60
		case http.StatusServiceUnavailable:
			return 1
		}
	}
	return int((e.RetryAfter + time.Second - 1) / time.Second)
}

// ErrorBody is the contract's error envelope as it is written.
type ErrorBody struct {
	OK               bool              `json:"ok" doc:"Always false."`
	Code             Code              `json:"error" doc:"What went wrong, of a closed list."`
	Message          string            `json:"message" doc:"For people; it may change."`
	ContractVersion  string            `json:"contractVersion" example:"v1.0"`
	Field            string            `json:"field,omitempty" doc:"The first field at fault."`
	ValidationErrors []ValidationError `json:"validationErrors,omitempty" maxItems:"20" doc:"The faults, at most the first 20."`
	RequiredScopes   []string          `json:"requiredScopes,omitempty"`
	KeyScopes        []string          `json:"keyScopes,omitempty"`
	Reason           Reason            `json:"reason,omitempty" doc:"Why the service can't answer now."`
	Substrate        string            `json:"substrate,omitempty" doc:"The substrate whose rules were applied."`
	Gate             string            `json:"gate,omitempty" doc:"The version of the rules." example:"gate.v1"`
	Violations       json.RawMessage   `json:"violations,omitempty" doc:"Every rule that refused the delivery."`
	Pending          any               `json:"pending,omitempty" doc:"What sealing still waits for."`
	RequestID        string            `json:"requestId,omitempty" doc:"Repeats the header X-Request-Id."`

	ConfirmationToken string `json:"confirmationToken,omitempty" doc:"Of an erasure: what confirms it, within 10 minutes."`
	Preview           any    `json:"preview,omitempty" doc:"Of an erasure: how much would be deleted, by where it is kept."`
}

// SchemaName is the name of the schema in the OpenAPI document.
func (ErrorBody) SchemaName() string { return "Error" }

// RowError is why a row of a batch was rejected.
type RowError struct {
	Code             Code              `json:"error" doc:"What went wrong, of the list of errors."`
	Message          string            `json:"message" doc:"For people; it may change."`
	Field            string            `json:"field,omitempty" doc:"The first field at fault."`
	ValidationErrors []ValidationError `json:"validationErrors,omitempty" maxItems:"20" doc:"The faults, at most the first 20."`
	Reason           Reason            `json:"reason,omitempty" doc:"Of INTERNAL_ERROR: why the service can't decide now; send the row again. RIGHT_NOT_IN_FORCE with STATE_CONFLICT: the right was not in force when this was played, which is final."`
	Substrate        string            `json:"substrate,omitempty" doc:"The substrate whose rules were applied."`
	Gate             string            `json:"gate,omitempty" doc:"The version of the rules." example:"gate.v1"`
	Violations       json.RawMessage   `json:"violations,omitempty" doc:"Every rule that refused the delivery."`
}

// OfRow is the error in the result of a row.
func (e *Error) OfRow() RowError {
	return RowError{e.Code, e.Message, e.Field, e.ValidationErrors, e.Reason, e.Substrate, e.Gate, e.Violations}
}

// Err is the error of which r is the row's.
func (r *RowError) Err() *Error {
	return &Error{
		Code: r.Code, Message: r.Message, Field: r.Field, ValidationErrors: r.ValidationErrors,
		Reason: r.Reason, Substrate: r.Substrate, Gate: r.Gate, Violations: r.Violations,
	}
}

// Body is the response as gateway and control send it: the contract's error envelope, in
// which text is not escaped for HTML ("<", not "\u003c"), and a newline.
func (e *Error) Body() ([]byte, error) {
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false)
	err := enc.Encode(ErrorBody{
		false, e.Code, e.Message, ContractVersion, e.Field, e.ValidationErrors, e.RequiredScopes, e.KeyScopes,
		e.Reason, e.Substrate, e.Gate, e.Violations, e.Pending, e.RequestID,
		e.ConfirmationToken, e.Preview,
	})
	return text.Bytes(), err
}

// MarshalJSON is Body without its newline, for an encoder that escapes nothing
// either and ends with one.
func (e *Error) MarshalJSON() ([]byte, error) {
	body, err := e.Body()
	return bytes.TrimSuffix(body, []byte("\n")), err
}

// NotFound names only the noun of what was requested: the response has the same bytes for
// another tenant's record and for a missing one. Field is the member or parameter that has its id.
func NotFound(noun string) *Error {
	noun = strings.ReplaceAll(noun, "_", " ")
	return &Error{Code: ResourceNotFound, Message: "no such " + noun + " in this tenant", Field: noun[strings.LastIndexByte(noun, ' ')+1:] + "Id"}
}

// Conflict refuses a transition.
func Conflict(message string) *Error { return &Error{Code: StateConflict, Message: message} }

// Limits on what an error repeats of a request.
const (
	MaxFaults                      = 20       // that an error lists
	maxFaultField, maxFaultMessage = 256, 512 // bytes of a fault's texts
)

// Invalid refuses a request for its faults, of which there must be at least one.
// Field is the first. The first MaxFaults are listed, and the message says how many more there are.
func Invalid(faults ...ValidationError) *Error {
	listed := slices.Clone(faults[:min(len(faults), MaxFaults)])
	for i, f := range listed {
		listed[i] = ValidationError{clip(f.Field, maxFaultField), clip(f.Message, maxFaultMessage), f.Kind}
	}
	e := &Error{Code: ValidationFailed, Message: listed[0].Field + ": " + listed[0].Message, Field: listed[0].Field, ValidationErrors: listed}
	if len(faults) > 1 {
		e.Message = "several fields are not valid"
	}
	if more := len(faults) - len(listed); more > 0 {
		e.Message += fmt.Sprintf(": the first %d faults are listed, %d more are not", MaxFaults, more)
	}
	return e
}

// clip cuts a text at a whole character.
func clip(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}

// InvalidField is Invalid for one fault.
func InvalidField(field, message string) *Error {
	return Invalid(ValidationError{Field: field, Message: message})
}

// Unavailable is a 503.
func Unavailable(reason Reason, message string, retryAfter time.Duration) *Error {
	return &Error{Code: InternalError, Message: message, HTTPStatus: http.StatusServiceUnavailable, Reason: reason, RetryAfter: retryAfter}
}

// TooLarge is a 413.
func TooLarge(message string) *Error {
	return &Error{Code: BadRequest, Message: message, HTTPStatus: http.StatusRequestEntityTooLarge}
}

// From converts any error to what a caller may see of it. An error that is not an
// *Error becomes INTERNAL_ERROR with a fixed text; the caller of From logs it.
// The result is the caller's own copy, free to be given a RequestID.
func From(err error) *Error {
	if e, ok := errors.AsType[*Error](err); ok {
		c := *e
		return &c
	}
	return &Error{Code: InternalError, Message: "internal error"}
}
