// Package route is how a room declares its operations. One declaration makes the route, who
// may call it, what the OpenAPI document says of it and the page under /docs:
//
//	route.Add(a, route.Operation{
//		ID: "get-offer", Method: http.MethodGet, Path: "/v1/offers/{offerId}", Tag: "Offers",
//		Summary: "Get an offer", Access: route.Scope(api.OffersRead),
//	}, func(ctx context.Context, in *struct{ OfferID string `path:"offerId"` }) (OfferData, error) {
//		return r.offer(ctx, auth.PrincipalFrom(ctx).TenantID, in.OfferID)
//	})
//
// The input's fields say by their tags where they stand in the request and what they may be,
// as huma has it: path, query, and a member Body. The output is the data of the answer; an
// error is an *api.Error, or a fault of the service. Lists embed Page, and what is asked about a
// stretch of time Window and AsOf. A type is called in the document as in Go, but for Named.
//
// Control reads the declaration at its doors (see package control); huma carries it there.
package route

import (
	"context"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"muniment/gateway/api"
)

// API is what operations are added to.
type API = huma.API

// Operation declares one operation of the API.
type Operation struct {
	// ID is its name, of which there is one: get-offer. Required, as are Method, Path, Tag,
	// which is its chapter of the document, Summary and Access.
	ID, Method, Path, Tag, Summary string
	// Access is who may call it.
	Access Access
	// Description is more than the summary says. Optional.
	Description string
	// Errors are the statuses it answers with that Refusals would not have by itself.
	Errors []int
	// Heavy says that it reads much of a tenant's log: few are in hand at a time.
	Heavy bool
	// Stops says that it takes something out of force: it is carried out even where there is
	// no room to keep an Idempotency-Key.
	Stops bool
	// EmptyIsMissing says that null and "" in a required field are no value, and that nothing
	// but an object is a body.
	EmptyIsMissing bool
	// Text says that its body is text of one of these media types, whatever the request's header
	// says, and no JSON: the input has it, as it came, as RawBody []byte.
	Text []string
	// Refuse renders its errors in another envelope. e is the contract's error, made of errs.
	Refuse func(e *api.Error, errs []error) huma.StatusError
	// Content is what AddRaw and AddFile answer with, unless the output's Body says it.
	Content Content
}

// Content is an answer that has no envelope.
type Content struct{ Type, Note string }

// Access is one of those below.
type Access interface {
	// security is how the document says it; nil leaves it out.
	security() []map[string][]string
}

type (
	// Scope lets in API keys that hold it.
	Scope api.Scope
	// Public lets in everybody.
	Public struct{}
	// Operator lets in who holds the admin token, on the admin listener.
	Operator struct{}
	// Node lets in nodes that have joined, on the nodes' listener.
	Node struct{}
	// Own lets in whom the room lets in itself.
	Own struct {
		// Let returns the context for the operation, or says by an error why not.
		Let func(huma.Context) (context.Context, error)
		// Tenant is whose request it is, in the context from Let; empty of who has none yet. nil
		// leaves requests out of what a tenant may have in hand.
		Tenant func(context.Context) string
		// Security is how the document says it.
		Security []map[string][]string
	}
)

// Bearer is the name of the keys' security scheme.
const Bearer = "apiKey"

func (s Scope) security() []map[string][]string {
	return []map[string][]string{{Bearer: {api.Scope(s).String()}}}
}
func (Public) security() []map[string][]string   { return []map[string][]string{} }
func (Operator) security() []map[string][]string { return nil }
func (Node) security() []map[string][]string     { return nil }
func (o Own) security() []map[string][]string    { return o.Security }

// answer is the contract's envelope.
type answer[T any] struct{ Body api.Body[T] }

// Add adds an operation that answers with data in the contract's envelope.
func Add[I, O any](a API, op Operation, do func(context.Context, *I) (O, error)) {
	AddRaw(a, op, func(ctx context.Context, in *I) (*answer[O], error) {
		data, err := do(ctx, in)
		if err != nil {
			return nil, err
		}
		return &answer[O]{api.OK(data)}, nil
	})
}

// Describe adds to the document what somebody else answers: a is an API that serves nothing.
func Describe[I, O any](a API, op Operation) { Add[I, O](a, op, nil) }

// File is an answer of any length.
type File struct {
	// Name is proposed to who downloads it.
	Name string
	// Size is how many bytes Write is going to write. One that writes less breaks the answer
	// off, which can't be taken for a whole one.
	Size  int64
	Write func(io.Writer)
	// Coding is the content coding of what Write writes; empty for none. Vary names the
	// header of the request that it depends on.
	Coding, Vary string
}

// AddFile adds an operation that answers with a file of the operation's Content.
func AddFile[I any](a API, op Operation, do func(context.Context, *I) (*File, error)) {
	AddRaw(a, op, func(ctx context.Context, in *I) (*huma.StreamResponse, error) {
		f, err := do(ctx, in)
		if err != nil {
			return nil, err
		}
		return &huma.StreamResponse{Body: func(to huma.Context) {
			to.SetHeader("Content-Type", op.Content.Type)
			to.SetHeader("Content-Length", strconv.FormatInt(f.Size, 10))
			to.SetHeader("Content-Disposition", `attachment; filename="`+f.Name+`"`)
			if f.Coding != "" {
				to.SetHeader("Content-Encoding", f.Coding)
			}
			if f.Vary != "" {
				to.SetHeader("Vary", f.Vary)
			}
			f.Write(to.BodyWriter())
		}}, nil
	})
}

// AddRaw adds an operation whose output is the whole answer, headers and Body.
func AddRaw[I, O any](a API, op Operation, do func(context.Context, *I) (*O, error)) {
	h := huma.Operation{
		OperationID: op.ID, Method: op.Method, Path: op.Path, Summary: op.Summary, Description: op.Description, Tags: []string{op.Tag},
		Metadata: map[string]any{declaration: &op},
	}
	if op.Access != nil {
		h.Security = op.Access.security()
	}
	if scope, ok := op.Access.(Scope); ok { // for readers that don't look beside the scheme
		h.Extensions = map[string]any{"x-required-scope": api.Scope(scope).String()}
	}
	if len(op.Text) > 0 {
		h.RequestBody = &huma.RequestBody{Content: map[string]*huma.MediaType{}}
		for _, kind := range op.Text {
			h.RequestBody.Content[kind] = &huma.MediaType{}
		}
	}
	if kind := op.Content.Type; kind != "" {
		media := &huma.MediaType{}
		switch {
		case kind == "application/json":
			media.Schema = &huma.Schema{Type: huma.TypeObject}
		case strings.HasPrefix(kind, "text/"):
			media.Schema = &huma.Schema{Type: huma.TypeString}
		}
		note := op.Content.Note
		if note == "" {
			note = http.StatusText(http.StatusOK)
		}
		h.Responses = map[string]*huma.Response{"200": {Description: note, Content: map[string]*huma.MediaType{kind: media}}}
	}
	huma.Register(a, h, do)
	for _, kind := range op.Text { // in which huma sees bytes
		h.RequestBody.Content[kind].Schema = &huma.Schema{Type: huma.TypeString}
	}
}

// declaration is where huma carries an Operation to Of.
const declaration = "declaration"

// Of is the declaration of an operation; empty, and so without access, for one that was not
// added here.
func Of(h *huma.Operation) *Operation {
	if op, ok := h.Metadata[declaration].(*Operation); ok {
		return op
	}
	return &Operation{}
}

// Refusals are the statuses of 400 and more that the document names for an operation: those
// that it declares, and those that follow from what it takes.
func Refusals(h *huma.Operation) map[int]bool {
	op, statuses := Of(h), map[int]bool{400: true, 431: true, 500: true, 503: true}
	for _, status := range op.Errors {
		statuses[status] = true
	}
	if _, scoped := op.Access.(Scope); scoped {
		statuses[401], statuses[403], statuses[429] = true, true, true
	}
	if strings.Contains(op.Path, "{") {
		statuses[404] = true
	}
	if op.Method != http.MethodGet {
		statuses[409] = true
	}
	if h.RequestBody != nil {
		statuses[408], statuses[413] = true, true
	}
	if h.RequestBody != nil || len(h.Parameters) > 0 || strings.HasPrefix(op.Path, "/v1/") { // under which no query parameter is passed over
		statuses[422] = true
	}
	return statuses
}

// Named is a type that the document calls otherwise than Go does.
type Named interface{ SchemaName() string }
