package control

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"muniment.example/control/route"
	"muniment.example/control/sandbox"
	"muniment.example/control/store"
	"muniment.example/gateway/api"
)

// humaSettings guards the settings that huma keeps per process.
var humaSettings sync.Once

// useContractErrors makes huma use the contract's errors, and compare names case-sensitively, as the
// decoder does. The settings hold no state.
func useContractErrors() {
	humaSettings.Do(func() {
		huma.ValidateStrictCasing = true
		huma.NewError = func(status int, message string, errs ...error) huma.StatusError {
			return translate(status, message, errs, nil)
		}
		huma.NewErrorWithContext = func(ctx huma.Context, status int, message string, errs ...error) huma.StatusError {
			x, ok := exchangeOf(ctx.Context())
			if status == http.StatusUnprocessableEntity {
				errs = append(errs, x.furtherFaults(ctx.Context())...)
			}
			if errors.Is(ctx.Context().Err(), context.DeadlineExceeded) { // of a caller in this process; others have no deadline
				errs = []error{api.Unavailable(api.Overloaded, "the caller did not wait for the response", time.Second)}
			}
			e := translate(status, message, errs, x)
			var response huma.StatusError = e
			if refuse := route.Of(ctx.Operation()).Refuse; refuse != nil {
				response = refuse(e, errs)
			}
			if ok && isFault(response, e) {
				x.fault("a request failed", "err", errors.Join(errs...))
			}
			return response
		}
	})
}

// translate turns an error of huma into the contract's. x may be nil.
func translate(status int, message string, errs []error, x *exchange) *api.Error {
	for _, err := range errs {
		if _, ok := errors.AsType[*api.Error](err); ok {
			return api.From(err)
		}
	}
	switch err := errors.Join(errs...); {
	case store.Away(err):
		return api.Unavailable(api.DatabaseUnavailable, "control's database does not answer", time.Second)
	case errors.Is(err, store.ErrWentBack):
		return api.Unavailable(api.DatabaseUnavailable, "control's database was restored, or its standby promoted: this process starts again, and checks it against the log", time.Second)
	case status == http.StatusInternalServerError && store.Unreachable(err):
		return api.Unavailable(api.EngineUnavailable, "the log or the warehouse does not answer", time.Second)
	}
	switch {
	case status == http.StatusUnprocessableEntity:
		if faults := faultsOf(errs, x); len(faults) > 0 {
			return api.Invalid(faults...)
		}
		return &api.Error{Code: api.ValidationFailed, Message: message}
	case status == http.StatusNotFound:
		return &api.Error{Code: api.ResourceNotFound, Message: message}
	case status == http.StatusBadRequest:
		if faults := faultsOf(errs, x); len(faults) > 0 {
			message = api.Invalid(faults[0]).Message
		}
		return &api.Error{Code: api.BadRequest, Message: message}
	case status >= 400 && status < 500:
		return &api.Error{Code: api.BadRequest, HTTPStatus: status, Message: message}
	}
	return api.From(errors.Join(errs...))
}

// faultsOf reads huma's validation errors. It names a fault by the field, without the part of the
// request that the field is in, and never repeats its value. If a list itself is at fault, faults of
// its items, all of which huma reports, are left out.
//
// A fault of an object is that a member is missing. huma names the member only in its message, so
// the names come from x.absent.
func faultsOf(errs []error, x *exchange) (faults []api.ValidationError) {
	list, named := "", map[string]int{} // how many missing members were named, by the object's location
	found := map[string]bool{}
	for _, err := range errs {
		if f, ok := errors.AsType[furtherFault](err); ok && !found[f.Field] {
			found[f.Field] = true
			faults = append(faults, api.ValidationError(f))
		}
		d, ok := errors.AsType[*huma.ErrorDetail](err)
		if !ok || list != "" && strings.HasPrefix(d.Location, list) {
			continue
		}
		list = d.Location + "["
		part, field, _ := strings.Cut(d.Location, ".")
		f := api.ValidationError{Field: cmp.Or(field, part), Message: d.Message}
		if absent, n := x.absent(d), named[d.Location]; n < len(absent) {
			f, named[d.Location] = api.MissingField(strings.TrimPrefix(field+"."+absent[n], ".")), n+1
		}
		if found[f.Field] {
			continue // one fault per field
		}
		found[f.Field] = true
		faults = append(faults, f)
	}
	return faults
}

// given is the id that a request has under a name, in its path or at the top of its body.
func given(ctx huma.Context, x *exchange, name string) string {
	if id := ctx.Param(name); id != "" || x == nil {
		return id
	}
	var members map[string]any
	_ = unmarshal(x.body, &members) // there may be no body
	id, _ := members[name].(string)
	return id
}

// otherKind adds to the message about a record that is not found what its id is, if that names
// something else.
func otherKind(id, message string) string {
	noun := api.NounOf(id)
	if noun == "" || strings.HasPrefix(message, "no such "+noun) {
		return ""
	}
	return ": the id is that of another kind, " + noun
}

// furtherFaults are the faults that the operation finds in a body that its schema has refused.
func (x *exchange) furtherFaults(ctx context.Context) (errs []error) {
	if x == nil || x.body == nil || route.Of(x.operation).Faults == nil {
		return nil
	}
	for _, f := range route.Of(x.operation).Faults(ctx, func(body any) error { return unmarshal(x.body, body) }) {
		errs = append(errs, furtherFault(f))
	}
	return errs
}

// furtherFault is a fault that an operation has found itself.
type furtherFault api.ValidationError

func (f furtherFault) Error() string { return f.Field + ": " + f.Message }

// absent lists the required members that an object of the body lacks, in the order in which huma
// finds them. It is empty if d is not about such an object.
func (x *exchange) absent(d *huma.ErrorDetail) (names []string) {
	object, ok := d.Value.(map[string]any)
	place, inBody := strings.CutPrefix(d.Location, "body")
	if !ok || !inBody || x == nil || x.operation == nil || x.operation.RequestBody == nil {
		return nil
	}
	schema := resolve(x.schemas, x.operation.RequestBody.Content[jsonType].Schema)
	for step := range strings.FieldsFuncSeq(place, func(c rune) bool { return strings.ContainsRune(".[]", c) }) {
		if schema == nil {
			return nil
		}
		if schema.Type == huma.TypeArray {
			schema = resolve(x.schemas, schema.Items)
		} else {
			schema = resolve(x.schemas, schema.Properties[step])
		}
	}
	if schema == nil || schema.Type != huma.TypeObject {
		return nil
	}
	for _, name := range slices.Sorted(slices.Values(schema.Required)) {
		if _, there := object[name]; !there {
			names = append(names, name)
		}
	}
	return names
}

// resolve returns the schema that another one refers to, or that one itself.
func resolve(known huma.Registry, schema *huma.Schema) *huma.Schema {
	if schema != nil && schema.Ref != "" {
		return known.SchemaFromRef(schema.Ref)
	}
	return schema
}

// finish completes every response: an error gets the header of its RetryAfter and, in the
// contract's envelope, the request's id, and what an id that was not found names in truth.
func finish(ctx huma.Context, _ string, body any) (any, error) {
	x, ok := exchangeOf(ctx.Context())
	shared, ours := body.(*api.Error)
	if later, refused := body.(interface{ RetryAfterSeconds() int }); refused && ok {
		var reason api.Reason
		if ours {
			reason = shared.Reason
		} else if other, ok := body.(interface{ RetryReason() api.Reason }); ok {
			reason = other.RetryReason()
		}
		if s := x.backoff.Seconds(later.RetryAfterSeconds(), reason, time.Now()); s > 0 {
			ctx.SetHeader("Retry-After", strconv.Itoa(s))
		}
	}
	if !ours {
		return body, nil
	}
	e := *shared
	if ok {
		e.RequestID, x.refused = x.requestID, &e
	}
	if e.Code == api.ResourceNotFound && e.Field != "" {
		e.Message += otherKind(given(ctx, x, e.Field), e.Message)
	}
	return &e, nil
}

// writeError responds to requests that huma doesn't handle.
func writeError(w http.ResponseWriter, r *http.Request, e *api.Error) {
	if x, ok := exchangeOf(r.Context()); ok {
		e.RequestID, x.refused = x.requestID, e
		x.backoff.Tell(w.Header(), e.RetryAfterSeconds(), e.Reason)
	}
	status, text, own := sandbox.RenderError(r.URL.Path, e)
	if !own {
		var err error
		if text, err = e.Body(); err != nil {
			http.Error(w, "", http.StatusInternalServerError)
			return
		}
		status = e.GetStatus()
	}
	w.Header().Set("Content-Type", jsonType)
	w.WriteHeader(status)
	_, _ = w.Write(text) // the caller may have disconnected
}

// faultEvery is the least time between two log lines about faults of one operation.
const faultEvery = time.Second

// faults logs internal faults. However often an operation fails, it is logged once in faultEvery,
// with the number of faults that were not logged, so an attacker can't fill the log. The metrics
// count every fault.
//
// It is safe for concurrent use. It holds as many entries as there are operations.
type faults struct {
	now func() time.Time

	mu   sync.Mutex
	last map[string]*faultLine // by operation
}

// faultLine is the newest line about an operation.
type faultLine struct {
	at         time.Time
	suppressed int // faults since then that were not logged
}

func (f *faults) log(to *slog.Logger, operation, message string, attrs ...any) {
	suppressed, due := f.due(operation)
	if !due {
		return
	}
	if suppressed > 0 {
		attrs = append(attrs, "suppressed", suppressed)
	}
	to.Error(message, append(attrs, "operation", operation)...)
}

// due says whether a fault is to be logged now, and how many before it were not.
func (f *faults) due(operation string) (suppressed int, due bool) {
	now := f.now()
	f.mu.Lock()
	defer f.mu.Unlock()
	last := f.last[operation]
	if last != nil && now.Sub(last.at) < faultEvery {
		last.suppressed++
		return 0, false
	}
	if last != nil {
		suppressed = last.suppressed
	}
	f.last[operation] = &faultLine{at: now}
	return suppressed, true
}

// isFault says whether a response, made from e, is an internal fault that is not logged elsewhere. A
// 503 is deliberate, for example when the sandbox is full, or is logged where an outage begins; but
// a read that can't reach an engine is only logged here.
func isFault(response huma.StatusError, e *api.Error) bool {
	status := response.GetStatus()
	return status >= http.StatusInternalServerError && status != http.StatusServiceUnavailable || e.Reason == api.EngineUnavailable
}
