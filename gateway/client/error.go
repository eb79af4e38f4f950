package client

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"muniment.example/gateway/api"
	"muniment.example/sealer/terminal"
)

// What to do about an error. Each *Error is one of these, by errors.Is.
var (
	// ErrInvalid: the request is not valid. Change it.
	ErrInvalid = errors.New("the request is not valid")
	// ErrAuth: the key is missing, wrong, or lacks a scope. Use another one.
	ErrAuth = errors.New("the API key does not allow this")
	// ErrNotFound: the tenant has no such record.
	ErrNotFound = errors.New("no such record")
	// ErrConflict: the state of the record does not allow this, or an Idempotency-Key was used
	// for something else. Read the record.
	ErrConflict = errors.New("the state does not allow this")
	// ErrPrecondition: the constraint gate refuses the delivery, for the Violations; or a
	// confirmation is missing.
	ErrPrecondition = errors.New("a condition is not met")
	// ErrRateLimited: too much at once. Wait RetryAfter.
	ErrRateLimited = errors.New("too many requests")
	// ErrUnavailable: the service can't answer now. A delivery may have been recorded: make
	// the same call again, with the same Idempotency-Key.
	ErrUnavailable = errors.New("the service is not available")
	// ErrForeign: the answer is not one of the service's, but of something on the way or at a
	// wrong address, or it is cut off. The Message says what came.
	ErrForeign = errors.New("the answer is not the service's")
)

// Error is what went wrong with a call.
type Error struct {
	// Code of the service; empty if the answer was not the service's, or there was none.
	Code api.Code
	// Status of the answer; 0 if there was none.
	Status int
	// Message is for people. The service's texts may change.
	Message string
	// Field is the first field at fault.
	Field string
	// ValidationErrors are the faults, at most 20.
	ValidationErrors []api.ValidationError
	// Violations are the rules that refused a delivery, and Substrate whose rules they are.
	Violations []Violation
	Substrate  string
	// RequiredScopes are what the key lacks, KeyScopes what it has.
	RequiredScopes, KeyScopes []string
	// Reason of a 503; RIGHT_NOT_IN_FORCE of a row that is refused for good.
	Reason api.Reason
	// Pending is what sealing still waits for.
	Pending []PendingEvents
	// ConfirmationToken confirms an erasure, and Preview says what would go.
	ConfirmationToken string
	Preview           json.RawMessage
	// RequestID names the request in the service's log; empty if there was no answer.
	RequestID string
	// RetryAfter is how long the service asks to wait; 0 if it does not.
	RetryAfter time.Duration
	// Operation is the method and the path of the request.
	Operation string
	// IdempotencyKey is that of the request, if it had one: whether a change was made that no answer
	// came to shows when the same call is made with it again.
	IdempotencyKey string

	kind error
	err  error // of the connection
}

// Error names the operation, what was answered, and the request.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.Operation)
	switch {
	case e.Status == 0:
		fmt.Fprintf(&b, ": no answer: %v", e.err)
		return b.String()
	case e.Code == "":
		fmt.Fprintf(&b, ": %v: %s", ErrForeign, e.Message)
	default:
		fmt.Fprintf(&b, ": %d %s: %s", e.Status, e.Code, e.Message)
	}
	if e.Reason != "" {
		fmt.Fprintf(&b, " (%s)", e.Reason)
	}
	if e.RequestID != "" {
		fmt.Fprintf(&b, " [request %s]", e.RequestID)
	}
	return b.String()
}

// Is says whether the sentinel names the reaction to this error.
func (e *Error) Is(target error) bool { return e.kind == target }

// Unwrap is the error of the connection, if there was no answer.
func (e *Error) Unwrap() error { return e.err }

// kindOf is the reaction to a status of the service's.
func kindOf(status int) error {
	switch {
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		return ErrAuth
	case status == http.StatusNotFound:
		return ErrNotFound
	case status == http.StatusConflict:
		return ErrConflict
	case status == http.StatusPreconditionFailed:
		return ErrPrecondition
	case status == http.StatusTooManyRequests:
		return ErrRateLimited
	case status >= 500, status == http.StatusRequestTimeout, status == http.StatusTooEarly:
		return ErrUnavailable
	}
	return ErrInvalid
}

// ofBody says that the service refuses what is in the body: it names a field, or the body is too
// large. Other refusals, as by a port that speaks TLS, are the same for any body.
func (e *Error) ofBody() bool {
	return e.Code != "" && errors.Is(e, ErrInvalid) && (e.Field != "" || e.Status == http.StatusRequestEntityTooLarge)
}

// passing says that the same request may be answered otherwise later.
func (e *Error) passing() bool {
	switch e.Status {
	case 0, http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		return true
	case http.StatusConflict:
		return e.Code != "" && e.RetryAfter > 0
	case http.StatusOK:
		return e.err != nil // it was cut off
	}
	return e.Status >= 500
}

// unanswered is the error of a request that no answer came to.
func unanswered(operation string, err error) *Error {
	return &Error{Operation: operation, Message: "no answer", kind: ErrUnavailable, err: err}
}

// broken is the error of an answer that is not whole, or can't be read.
func broken(operation string, resp *http.Response, message string, err error) *Error {
	return &Error{
		Operation: operation, Status: resp.StatusCode, Message: message, RequestID: resp.Header.Get(api.HeaderRequestID),
		RetryAfter: retryAfter(resp.Header), kind: ErrForeign, err: err,
	}
}

// refused reads the error envelope of an answer; one without is of something else on the way.
func refused(operation string, resp *http.Response, text []byte) *Error {
	var body struct {
		OK               *bool                 `json:"ok"`
		Code             api.Code              `json:"error"`
		Message          string                `json:"message"`
		Field            string                `json:"field"`
		ValidationErrors []api.ValidationError `json:"validationErrors"`
		RequiredScopes   []string              `json:"requiredScopes"`
		KeyScopes        []string              `json:"keyScopes"`
		Reason           api.Reason            `json:"reason"`
		Substrate        string                `json:"substrate"`
		Violations       []Violation           `json:"violations"`
		Pending          []PendingEvents       `json:"pending"`
		RequestID        string                `json:"requestId"`
		Token            string                `json:"confirmationToken"`
		Preview          json.RawMessage       `json:"preview"`
	}
	if err := json.Unmarshal(text, &body); err != nil || body.OK == nil || *body.OK || body.Code == "" {
		return broken(operation, resp, foreign(resp, text), nil)
	}
	e := &Error{
		Code: body.Code, Status: resp.StatusCode, Message: body.Message, Field: body.Field, ValidationErrors: body.ValidationErrors,
		Violations: body.Violations, Substrate: body.Substrate, RequiredScopes: body.RequiredScopes, KeyScopes: body.KeyScopes,
		Reason: body.Reason, Pending: body.Pending, ConfirmationToken: body.Token, Preview: body.Preview, RequestID: body.RequestID,
		RetryAfter: retryAfter(resp.Header), Operation: operation, kind: kindOf(resp.StatusCode),
	}
	if e.RequestID == "" {
		e.RequestID = resp.Header.Get(api.HeaderRequestID)
	}
	return e
}

// foreign describes an answer that is not the service's.
func foreign(resp *http.Response, text []byte) string {
	kind := resp.Header.Get("Content-Type")
	if kind == "" {
		kind = "no content type"
	}
	return fmt.Sprintf("%s with %s that begins \"%s\"", resp.Status, terminal.Text(kind[:min(len(kind), 100)]), terminal.Text(string(text[:min(len(text), 100)])))
}

// retryAfter reads the header, in seconds or as a date; 0 if there is none.
func retryAfter(h http.Header) time.Duration {
	given := h.Get("Retry-After")
	if seconds, err := strconv.ParseInt(given, 10, 32); err == nil {
		return time.Duration(max(seconds, 0)) * time.Second
	}
	if at, err := http.ParseTime(given); err == nil {
		return max(time.Until(at), 0)
	}
	return 0
}

// OfRow is the error of a row that was rejected; nil of any other.
func OfRow(r *api.RowResult) *Error {
	if r.Error == nil {
		return nil
	}
	e := &Error{
		Operation: "row " + strconv.Itoa(r.Index), Code: r.Error.Code, Status: r.Error.Code.Status(), Message: r.Error.Message, Field: r.Error.Field,
		ValidationErrors: r.Error.ValidationErrors, Reason: r.Error.Reason, Substrate: r.Error.Substrate,
	}
	if e.Code == api.InternalError && e.Reason != "" {
		e.Status = http.StatusServiceUnavailable
	}
	_ = json.Unmarshal(r.Error.Violations, &e.Violations) // without them the error still says what it is
	e.kind = kindOf(e.Status)
	return e
}
