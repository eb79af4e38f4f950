// Package route is how a room declares an operation: what it is called in the API and its
// document, and who may call it. Control reads the latter at its door, from the
// operation's Metadata (see package control).
package route

import (
	"context"

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

// Fails adds statuses that the document would not tell of by itself.
func Fails(statuses ...int) Also {
	return func(op *huma.Operation) { op.Errors = append(op.Errors, statuses...) }
}
