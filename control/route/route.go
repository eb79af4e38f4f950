// Package route is how a room declares an operation: what it is called in the API and its
// document, and who may call it. Control reads the latter at its door, from the
// operation's Metadata (see package control).
package route

import (
	"context"
	"net/http"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"muniment/gateway/api"
)

// API is what operations are added to.
type API = huma.API

// Also changes an operation before it is added.
type Also = func(*huma.Operation)

// Key adds an operation for callers whose API key has the scope.
func Key[I, O any](a API, scope api.Scope, tag, id, method, path, summary string, do func(context.Context, *I) (*O, error), also ...Also) {
	add(a, map[string]any{"scope": scope}, tag, id, method, path, summary, do, also)
}

// Operator adds an operation of the admin listener.
func Operator[I, O any](a API, id, method, path, summary string, do func(context.Context, *I) (*O, error)) {
	add(a, map[string]any{"operator": true}, "Operator", id, method, path, summary, do, nil)
}

func add[I, O any](a API, caller map[string]any, tag, id, method, path, summary string, do func(context.Context, *I) (*O, error), also []Also) {
	op := huma.Operation{OperationID: id, Method: method, Path: path, Summary: summary, Tags: []string{tag}, Metadata: caller}
	for _, change := range also {
		change(&op)
	}
	huma.Register(a, op, do)
}

// Described adds a description.
func Described(text string) Also { return func(op *huma.Operation) { op.Description = text } }

// Stops says of an operation that it takes something out of force: it is carried out even
// where there is no room to keep an Idempotency-Key.
func Stops(op *huma.Operation) { op.Metadata["stops"] = true }

// Fails adds statuses that Refusals would not have by itself.
func Fails(statuses ...int) Also {
	return func(op *huma.Operation) { op.Errors = append(op.Errors, statuses...) }
}

// Refusals are the statuses of 400 and more that the document names for an operation: those
// that it declares, and those that follow from what it takes.
func Refusals(op *huma.Operation) map[int]bool {
	statuses := map[int]bool{400: true, 431: true, 500: true, 503: true}
	for text := range op.Responses {
		if status, err := strconv.Atoi(text); err == nil && status >= 400 {
			statuses[status] = true
		}
	}
	if _, scoped := op.Metadata["scope"]; scoped {
		statuses[401], statuses[403], statuses[429] = true, true, true
	}
	if strings.Contains(op.Path, "{") {
		statuses[404] = true
	}
	if op.Method != http.MethodGet {
		statuses[409] = true
	}
	if op.RequestBody != nil {
		statuses[408], statuses[413] = true, true
	}
	if op.RequestBody != nil || len(op.Parameters) > 0 || strings.HasPrefix(op.Path, "/v1/") { // under which no query parameter is passed over
		statuses[422] = true
	}
	return statuses
}
