// Package routetest is for tests of operations and commands. It fails a test if an operation
// responds with a status that its document does not have, and has a server for tests of commands.
package routetest

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"muniment.example/control/route"
	"muniment.example/gateway/api"
)

// Operations are the operations of a document, with their statuses.
type Operations []operation

type operation struct {
	method   string
	path     []string // its segments
	statuses []int
}

// failer is the part of testing.TB that marks a test as failed.
type failer interface {
	Errorf(format string, args ...any)
}

// Documented reads the operations of an OpenAPI document.
func Documented(document []byte) (all Operations, err error) {
	var d struct {
		Paths map[string]map[string]struct{ Responses map[string]any }
	}
	err = json.Unmarshal(document, &d)
	for path, item := range d.Paths {
		for method, op := range item {
			one := operation{method: strings.ToUpper(method), path: strings.Split(path, "/")}
			for text := range op.Responses {
				if status, err := strconv.Atoi(text); err == nil {
					one.statuses = append(one.statuses, status)
				}
			}
			all = append(all, one)
		}
	}
	return all, err
}

// Declared lists the operations of an API that has no document, with the statuses that would be in
// it.
func Declared(api *huma.OpenAPI) (all Operations) {
	for path, item := range api.Paths {
		for _, op := range []*huma.Operation{item.Get, item.Post, item.Put, item.Patch, item.Delete} {
			if op != nil {
				statuses := slices.Collect(maps.Keys(route.Refusals(op)))
				all = append(all, operation{op.Method, strings.Split(path, "/"), append(statuses, http.StatusOK)})
			}
		}
	}
	return all
}

// Check fails the test if an operation's response has a status that its document does not have. It
// ignores requests without an operation.
func (all Operations) Check(t failer, method, target string, status int) {
	of := all.find(method, target)
	if of != nil && !slices.Contains(of.statuses, status) {
		slices.Sort(of.statuses)
		t.Errorf("the response of %s %s has the status %d, which its document does not have: %v", method, strings.Join(of.path, "/"), status, of.statuses)
	}
}

// Lists says whether the document has the status of an operation's response.
func (all Operations) Lists(method, target string, status int) bool {
	of := all.find(method, target)
	return of != nil && slices.Contains(of.statuses, status)
}

// find returns the operation of a request, nil if there is none.
func (all Operations) find(method, target string) (of *operation) {
	path, _, _ := strings.Cut(target, "?")
	segments := strings.Split(path, "/")
	fixed := -1 // fixed segments of the best match: like the mux, it prefers "/packs/newest" to "/packs/{packId}"
	for i := range all {
		if n, ok := all[i].matches(segments); ok && all[i].method == method && n > fixed {
			fixed, of = n, &all[i]
		}
	}
	return of
}

// matches says whether a path is the operation's, and how many segments are not parameters.
func (o operation) matches(path []string) (alike int, ok bool) {
	if len(path) != len(o.path) {
		return 0, false
	}
	for i, segment := range o.path {
		switch {
		case segment == path[i]:
			alike++
		case !strings.HasPrefix(segment, "{") || path[i] == "":
			return 0, false
		}
	}
	return alike, true
}

// Watch checks every response of a handler.
func (all Operations) Watch(t failer, h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s := &statusWriter{ResponseWriter: w, status: http.StatusOK}
		h.ServeHTTP(s, r)
		all.Check(t, r.Method, r.URL.EscapedPath(), s.status)
	})
}

// statusWriter records the status of a response.
type statusWriter struct {
	http.ResponseWriter
	status int
}

func (w *statusWriter) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

// Unwrap is for http.ResponseController.
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Invalid is the body of VALIDATION_FAILED for one fault, given as the message has it: the field, and
// what is wrong with it.
func Invalid(message string) string {
	field, fault, _ := strings.Cut(message, ": ")
	text, err := json.Marshal(map[string]any{
		"ok": false, "error": api.ValidationFailed, "message": message, "field": field, "contractVersion": api.ContractVersion,
		"validationErrors": []api.ValidationError{{Field: field, Message: fault}},
	})
	if err != nil {
		panic(err) // these are strings
	}
	return string(text)
}
