// Package route is how a service declares its operations. One declaration makes the route, its
// access, its part of the OpenAPI document, and the page under /docs:
//
//	route.Add(a, route.Operation{
//		ID: "get-offer", Method: http.MethodGet, Path: "/v1/offers/{offerId}", Tag: "Offers",
//		Summary: "Get an offer", Access: route.Scope(api.OffersRead),
//	}, func(ctx context.Context, in *struct{ OfferID string `path:"offerId"` }) (OfferData, error) {
//		return r.offer(ctx, auth.PrincipalFrom(ctx).TenantID, in.OfferID)
//	})
//
// The tags of the input's fields say where they are in the request and which values are valid, as
// in huma: path, query, and a member Body. The output is the data of the response; an error is an
// *api.Error, or an internal fault. Inputs of lists embed Page, and those about a period Window and
// AsOf. A type has its Go name in the document, unless it is Named.
//
// Control enforces the declaration (see package control); huma carries it there. The gateway serves
// deliveries itself, and asks for their scope in its deliver.go.
package route

import (
	"cmp"
	"context"
	"io"
	"net/http"
	"reflect"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"muniment/gateway/api"
)

// API is the API that operations are added to.
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
	// Heavy says that it reads much of a tenant's log: few run at a time.
	Heavy bool
	// Stops says that it is a stop (store.DB.Stop): it runs even if there is no disk space to keep
	// an Idempotency-Key.
	Stops bool
	// Faults finds what else is wrong with a body that its schema refuses, so that the error names
	// all faults. read reads the body, and fails if it does not fit the type. The operation itself
	// checks a body that passes its schema. Optional.
	Faults func(ctx context.Context, read func(body any) error) []api.ValidationError
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
	// Files are the media types of the files that AddDataOrFile may answer with.
	Files []string
	// Headers are what the document says of headers of the answer, by their names.
	Headers map[string]string
}

// Content is an answer that has no envelope.
type Content struct{ Type, Note string }

// Access is one of those below.
type Access interface {
	// security is how the document says it; nil leaves it out.
	security() []map[string][]string
}

type (
	// Scope admits API keys that hold it.
	Scope api.Scope
	// Public admits every caller.
	Public struct{}
	// Operator admits holders of the admin token, on the admin listener.
	Operator struct{}
	// Node admits nodes that have joined, on the nodes' listener.
	Node struct{}
	// Own is for services with an authentication of their own.
	Own struct {
		// Let returns the context for the operation, or the error of a refused request.
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

// Describe adds an operation to the document that another process serves.
func Describe[I, O any](a API, op Operation) { Add[I, O](a, op, nil) }

// File is an answer of any length.
type File struct {
	// Name is proposed to who downloads it. A file without one is shown.
	Name string
	// Type is the file's media type. Default: that of the operation's Content.
	Type string
	// Header are further headers of the answer.
	Header map[string]string
	// Size is how many bytes write is going to write, or UnknownSize. One that writes less
	// breaks the answer off, which can't be taken for a whole one; where the size is unknown,
	// it panics with http.ErrAbortHandler for that.
	Size int64
	// Open records that the file is read, and returns what writes it. Its error is the answer.
	// It is not called for HEAD, which reads nothing.
	Open func(context.Context) (write func(io.Writer), err error)
	// Coding is the content coding of what is written; empty for none. Vary names the
	// header of the request that it depends on.
	Coding, Vary string
}

// UnknownSize is that of a file that is made while it is written.
const UnknownSize = -1

// AddFile adds an operation that answers with a file of the operation's Content.
func AddFile[I any](a API, op Operation, do func(context.Context, *I) (*File, error)) {
	addRaw(a, op, nil, huma.Middlewares{noteHead}, func(ctx context.Context, in *I) (*huma.StreamResponse, error) {
		f, err := do(ctx, in)
		if err != nil {
			return nil, err
		}
		return f.answer(ctx, &op)
	})
}

// AddDataOrFile adds an operation that answers with data in the contract's envelope or, where
// do returns one, with a file of one of the operation's Files.
func AddDataOrFile[I, O any](a API, op Operation, do func(context.Context, *I) (O, *File, error)) {
	content := map[string]*huma.MediaType{typeJSON: {Schema: a.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[api.Body[O]](), true, "")}}
	for _, kind := range op.Files {
		content[kind] = mediaOf(kind)
	}
	addRaw(a, op, content, huma.Middlewares{noteHead}, func(ctx context.Context, in *I) (*huma.StreamResponse, error) {
		data, f, err := do(ctx, in)
		switch {
		case err != nil:
			return nil, err
		case f != nil:
			return f.answer(ctx, &op)
		}
		return &huma.StreamResponse{Body: func(to huma.Context) {
			to.SetHeader("Content-Type", typeJSON)
			if err := a.Marshal(to.BodyWriter(), typeJSON, api.OK(data)); err != nil && to.Context().Err() == nil {
				panic(err)
			}
		}}, nil
	})
}

const typeJSON = "application/json"

// answer opens the file, unless the request is a HEAD, and is the answer with it.
func (f *File) answer(ctx context.Context, op *Operation) (*huma.StreamResponse, error) {
	write := func(io.Writer) {}
	if ctx.Value(isHead{}) == false {
		var err error
		if write, err = f.Open(ctx); err != nil {
			return nil, err
		}
	}
	return &huma.StreamResponse{Body: func(to huma.Context) {
		to.SetHeader("Content-Type", cmp.Or(f.Type, op.Content.Type))
		if f.Size != UnknownSize {
			to.SetHeader("Content-Length", strconv.FormatInt(f.Size, 10))
		}
		if f.Name != "" {
			to.SetHeader("Content-Disposition", `attachment; filename="`+f.Name+`"`)
		}
		to.SetHeader("Referrer-Policy", "no-referrer")
		to.SetHeader("X-Content-Type-Options", "nosniff")
		if f.Coding != "" {
			to.SetHeader("Content-Encoding", f.Coding)
		}
		if f.Vary != "" {
			to.SetHeader("Vary", f.Vary)
		}
		for name, value := range f.Header {
			to.SetHeader(name, value)
		}
		write(to.BodyWriter())
	}}, nil
}

func noteHead(c huma.Context, next func(huma.Context)) {
	next(huma.WithValue(c, isHead{}, c.Method() == http.MethodHead))
}

// isHead is the context's key of whether a request is a HEAD, which the mux gives to GET.
type isHead struct{}

// AddRaw adds an operation whose output is the whole answer, headers and Body.
func AddRaw[I, O any](a API, op Operation, do func(context.Context, *I) (*O, error)) {
	addRaw(a, op, nil, nil, do)
}

// addRaw takes what the answer may be beside the operation's Content; where nothing says so, it
// is what O is.
func addRaw[I, O any](a API, op Operation, content map[string]*huma.MediaType, middlewares huma.Middlewares, do func(context.Context, *I) (*O, error)) {
	h := huma.Operation{
		OperationID: op.ID, Method: op.Method, Path: op.Path, Summary: op.Summary, Description: op.Description, Tags: []string{op.Tag}, Middlewares: middlewares,
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
		content = map[string]*huma.MediaType{kind: mediaOf(kind)}
	}
	if content != nil {
		answer := &huma.Response{Description: cmp.Or(op.Content.Note, http.StatusText(http.StatusOK)), Content: content, Headers: map[string]*huma.Param{}}
		for name, note := range op.Headers {
			answer.Headers[name] = &huma.Param{Description: note, Schema: &huma.Schema{Type: huma.TypeString}}
		}
		h.Responses = map[string]*huma.Response{"200": answer}
	}
	huma.Register(a, h, do)
	for _, kind := range op.Text { // in which huma sees bytes
		h.RequestBody.Content[kind].Schema = &huma.Schema{Type: huma.TypeString}
	}
}

func mediaOf(kind string) *huma.MediaType {
	switch {
	case kind == typeJSON:
		return &huma.MediaType{Schema: &huma.Schema{Type: huma.TypeObject}}
	case strings.HasPrefix(kind, "text/"):
		return &huma.MediaType{Schema: &huma.Schema{Type: huma.TypeString}}
	}
	return &huma.MediaType{}
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
