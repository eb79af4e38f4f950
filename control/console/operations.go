package console

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"muniment.example/control/route"
	"muniment.example/gateway/api"
)

// operation is what an operation of /v1 declares.
type operation struct {
	method, path string
	scopes       []api.Scope // that it always needs
	confirms     bool        // the actor has to have signed in a moment ago
}

// readOperations returns the operations by their ids, read once at the first call.
func readOperations(a route.API) func() map[string]operation {
	return sync.OnceValue(func() map[string]operation {
		all := map[string]operation{}
		for declared := range route.Declared(a) {
			op := operation{method: declared.Method, path: declared.Path, confirms: declared.Confirms}
			if scope, ok := declared.Access.(route.Scope); ok {
				op.scopes = append(op.scopes, api.Scope(scope))
			}
			for _, e := range declared.Effects {
				if e.Scope != 0 && !e.Sometimes {
					op.scopes = append(op.scopes, e.Scope)
				}
			}
			all[declared.ID] = op
		}
		return all
	})
}

// request is a request of /v1 that a page has made, or would make.
type request struct {
	Method, Target string
	Body           string // JSON; empty for none
}

// target is the path of the operation with its parameters, and the query.
func (op operation) target(params []string, query url.Values) string {
	path := op.path
	for _, value := range params {
		before, rest, _ := strings.Cut(path, "{")
		_, after, _ := strings.Cut(rest, "}")
		path = before + url.PathEscape(value) + after
	}
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	return path
}

// call is a call of an operation by its id. Params are the parameters of its path, in their order.
type call struct {
	op     string
	params []string
	query  url.Values
	body   any
	once   string          // the Idempotency-Key; empty for none
	quiet  bool            // it is one of many that a page shows the first of
	ctx    context.Context // default: the request's
}

// do calls an operation, and decodes the data of its response into out. The error of a response is a
// *problem.
func (p *page) do(c call, out any) error {
	op, known := p.s.operations()[c.op]
	if !known {
		return fmt.Errorf("the console calls the operation %q, which is not there", c.op)
	}
	made := request{Method: op.method, Target: op.target(c.params, c.query)}
	if c.body != nil {
		text, err := json.Marshal(c.body)
		if err != nil {
			return fmt.Errorf("cannot write the body of %s: %w", c.op, err)
		}
		made.Body = string(text)
	}
	if !c.quiet {
		p.note(made)
	}
	if made.Method == http.MethodGet {
		return p.read(cmp.Or(c.ctx, p.r.Context()), made.Target, out)
	}
	ctx := c.ctx
	if ctx == nil {
		ctx = p.r.Context()
	}
	if c.once != "" {
		return p.doOnce(ctx, c.once, made, out)
	}
	status, response, err := p.s.cfg.Call(ctx, p.Session.Caller, made.Method, made.Target, []byte(made.Body))
	if err != nil {
		return err
	}
	return decode(status, response, out)
}

// doOnce makes a request with an Idempotency-Key. While an earlier one with it is being answered, as after a second press
// of a button, it waits for that answer: a browser shows the second page only.
func (p *page) doOnce(ctx context.Context, key string, made request, out any) error {
	const pause, most = 100 * time.Millisecond, 10 * time.Second
	for waited := time.Duration(0); ; waited += pause {
		status, response, err := p.s.cfg.CallOnce(ctx, p.Session.Caller, key, made.Method, made.Target, []byte(made.Body))
		if err == nil {
			err = decode(status, response, out)
		}
		if e := asProblem(err); e == nil || e.Message != api.ErrKeyBusy.Message || waited >= most {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
	}
}

// get is do for a read.
func (p *page) get(out any, op string, query url.Values, params ...string) error {
	return p.do(call{op: op, params: params, query: query}, out)
}

// note keeps a request for the end of the page.
func (p *page) note(made request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.Requests = append(p.Requests, made)
}

// decode reads a response of /v1.
func decode(status int, response []byte, out any) error {
	if status != http.StatusOK {
		e := problem{Status: status}
		if status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable {
			e.wait = 1
		}
		if err := json.Unmarshal(response, &e.ErrorBody); err != nil {
			return fmt.Errorf("an operation responded with status %d and no error: %w", status, err)
		}
		return &e
	}
	if out == nil {
		return nil
	}
	var envelope struct{ Data json.RawMessage }
	if err := json.Unmarshal(response, &envelope); err != nil {
		return fmt.Errorf("cannot read a response: %w", err)
	}
	return json.Unmarshal(envelope.Data, out)
}

// can reports whether the session has the scopes that all of the operations always need.
func (p *page) can(ops ...string) bool { return p.missing(ops...) == nil }

// missing is the error of the first of the operations for which the session lacks a scope; nil if there
// is none. An empty operation needs none.
func (p *page) missing(ops ...string) error {
	for _, id := range ops {
		op, known := p.s.operations()[id]
		if !known && id != "" { // which every page needs
			return fmt.Errorf("the console asks for the operation %q, which is not there", id)
		}
		for _, scope := range op.scopes {
			if err := p.Session.Caller.Require(scope); err != nil {
				return err
			}
		}
	}
	return nil
}

// problem is the error of a response, as the contract has it.
type problem struct {
	Status int `json:"-"`
	wait   int // at least, in seconds, as Error.RetryAfterSeconds
	api.ErrorBody
}

// problemOf is an error that is none of a response in the same form. A fault of the service has a fixed text.
func problemOf(err error) *problem {
	known := api.From(err)
	e := &problem{Status: known.GetStatus(), wait: known.RetryAfterSeconds()}
	text, err := known.Body()
	if err == nil {
		err = json.Unmarshal(text, &e.ErrorBody)
	}
	if err != nil {
		e.Message = "the service is at fault"
	}
	return e
}

// asProblem is an error that a person may see; nil for a fault of the service.
func asProblem(err error) *problem {
	if e, ok := errors.AsType[*problem](err); ok {
		return e
	}
	if e, ok := errors.AsType[*api.Error](err); ok {
		return problemOf(e)
	}
	return nil
}

// Error implements error.
func (e *problem) Error() string { return e.Message }

// calling runs reads at the same time, and returns the first error. A few of them are heavy, of which a
// tenant has a limit in flight.
func calling(ctx context.Context, reads ...func() error) error {
	const atOnce = 4
	places, errs := make(chan struct{}, atOnce), make(chan error, len(reads))
	for _, read := range reads {
		go func() {
			places <- struct{}{}
			defer func() { <-places }()
			if err := ctx.Err(); err != nil {
				errs <- err
				return
			}
			errs <- read()
		}()
	}
	var first error
	for range reads {
		if err := <-errs; err != nil && first == nil {
			first = err
		}
	}
	return first
}
