// Package routetest has what tests of operations share: what they are answered is checked against
// what the operations declare, as an operation answers with no status that its document does not
// name; and a server for tests of commands.
package routetest

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"muniment/control/route"
)

// Operations are those of a document, with the statuses that it names.
type Operations []operation

type operation struct {
	method   string
	path     []string // its segments
	statuses []int
}

// failer is what a test does to go on and fail.
type failer interface {
	Errorf(format string, args ...any)
}

// Documented are the operations of an OpenAPI document.
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

// Declared are the operations of an API that control has not written a document of: with
// the statuses that would be in it.
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

// Check fails the test when an operation has answered with a status that is not named. What
// was asked of no operation is passed over.
func (all Operations) Check(t failer, method, target string, status int) {
	path, _, _ := strings.Cut(target, "?")
	segments := strings.Split(path, "/")
	fixed := -1 // of the best match, as the mux has it: "/packs/newest" is before "/packs/{packId}"
	var of operation
	for _, one := range all {
		if n, ok := one.matches(segments); ok && one.method == method && n > fixed {
			fixed, of = n, one
		}
	}
	if fixed >= 0 && !slices.Contains(of.statuses, status) {
		slices.Sort(of.statuses)
		t.Errorf("%s %s was answered with %d, which its document does not name: it has %v", method, strings.Join(of.path, "/"), status, of.statuses)
	}
}

// matches says whether a path is the operation's, and in how many segments they are alike.
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

// Watch checks every answer of a handler.
func (all Operations) Watch(t failer, h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s := &statusWriter{ResponseWriter: w, status: http.StatusOK}
		h.ServeHTTP(s, r)
		all.Check(t, r.Method, r.URL.EscapedPath(), s.status)
	})
}

// statusWriter knows the status of an answer.
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
