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
// *api.Error, or an internal fault. Inputs of lists embed Page, and those about a period embed
// Window and AsOf. A type has its Go name in the document, unless it is Named.
//
// An operation that changes or shows what another scope than its own guards declares an Effect.
//
// Package control enforces the declaration. The gateway serves deliveries itself, and checks their
// scope in gateway/deliver.go.
package route

import (
	"cmp"
	"context"
	"io"
	"iter"
	"net/http"
	"reflect"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"muniment.example/gateway/api"
)

// API is the API that operations are added to.
type API = huma.API

// Operation declares one operation of the API.
type Operation struct {
	// ID is its unique name, such as get-offer. Tag is its chapter of the document. ID, Method,
	// Path, Tag, Summary and Access are required.
	ID, Method, Path, Tag, Summary string
	// Access is who may call it.
	Access Access
	// Effects are what the operation does that needs more than its Access. Optional.
	Effects []Effect
	// Description adds to the summary. Optional.
	Description string
	// Errors are statuses of the operation that Refusals does not derive from the rest of the
	// declaration. Optional.
	Errors []int
	// Heavy says that the operation reads much of a tenant's log, or searches its rows (store.DB.Search): few run at a
	// time.
	Heavy bool
	// HeavyFiles says that a file, which the parameter format names, is Heavy, and a page is not.
	HeavyFiles bool
	// Hidden leaves the operation out of the document; no Idempotency-Key is kept for it.
	Hidden bool
	// Stops says that the operation is a stop (store.DB.Stop): it runs even if no Idempotency-Key can be kept for it, as
	// the disk or the tenant's share is full.
	Stops bool
	// Confirms says that a person who acts in a session has to have signed in recently
	// (auth.Principal.Unconfirmed).
	Confirms bool
	// Faults finds further faults in a body that its schema refuses, so that the error names all
	// faults. read decodes the body, and fails if it does not fit the type. For a body that
	// passes its schema the operation itself checks this. Optional.
	Faults func(ctx context.Context, read func(body any) error) []api.ValidationError
	// EmptyIsMissing says that null and "" in a required field count as missing, and that a body
	// must be an object.
	EmptyIsMissing bool
	// Text says that the body is text of one of these media types, not JSON, whatever the
	// request's header says. The input has its bytes as RawBody []byte.
	Text []string
	// Refuse renders the operation's errors in another envelope. e is the contract's error, made
	// of errs.
	Refuse func(e *api.Error, errs []error) huma.StatusError
	// Content describes the response of AddRaw and AddFile, unless the output's type does.
	Content Content
	// Files are the media types of the files that AddDataOrFile may send.
	Files []string
	// Headers describes headers of the response, by their names.
	Headers map[string]string
	// Kept says that callers may keep a response of the operation's Content: it is 304 if they have
	// it already.
	Kept bool
	// Parts says that the response may be a part of the file (File.Part).
	Parts bool
}

// IsHeavy reports whether a request, of which query returns the parameters, is Heavy.
func (op *Operation) IsHeavy(query func(name string) string) bool {
	format := query("format")
	return op.Heavy || op.HeavyFiles && format != "" && format != "json"
}

// Content describes a response without an envelope.
type Content struct{ Type, Note string }

// Access is one of those below.
type Access interface {
	// security is its form in the document; nil leaves it out.
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
		// Tenant returns the caller's tenant, from the context that Let returned; empty for a visitor of the
		// sandbox who has none yet. nil exempts the operation from the limits of requests in flight.
		Tenant func(context.Context) string
		// Security is its form in the document.
		Security []map[string][]string
	}
)

// Bearer is the name of the security scheme of API keys.
const Bearer = "bearer"

func (s Scope) security() []map[string][]string {
	return []map[string][]string{{Bearer: {api.Scope(s).String()}}}
}
func (Public) security() []map[string][]string   { return []map[string][]string{} }
func (Operator) security() []map[string][]string { return nil }
func (Node) security() []map[string][]string     { return nil }
func (o Own) security() []map[string][]string    { return o.Security }

// response has the contract's envelope.
type response[T any] struct{ Body api.Body[T] }

// Add adds an operation that responds with data in the contract's envelope.
func Add[I, O any](a API, op Operation, do func(context.Context, *I) (O, error)) {
	AddRaw(a, op, func(ctx context.Context, in *I) (*response[O], error) {
		data, err := do(ctx, in)
		if err != nil {
			return nil, err
		}
		return &response[O]{api.OK(data)}, nil
	})
}

// Describe adds an operation that another process serves to the document.
func Describe[I, O any](a API, op Operation) { Add[I, O](a, op, nil) }

// File is a response of any length.
type File struct {
	// Name is the file name for a download. Without one, browsers show the file.
	Name string
	// Type is the file's media type. Default: that of the operation's Content.
	Type string
	// Header has further headers of the response.
	Header map[string]string
	// Size is the number of bytes that write writes, or UnknownSize. If write writes fewer, the
	// connection is aborted, so that the client sees that the file is incomplete; if the size is
	// unknown, write has to panic with http.ErrAbortHandler to abort it.
	Size int64
	// Open records that the file is read, and returns the function that writes it, or an error,
	// which becomes the response. It is not called for HEAD.
	Open func(context.Context) (write func(io.Writer), err error)
	// Coding is the content coding of what is written; empty for none. Vary names the header of
	// the request on which the coding depends.
	Coding, Vary string
	// Part says that the file is the part of another that a Range of the request names; Header has its
	// Content-Range.
	Part bool
}

// Holding sets what the file has.
func (f *File) Holding(text []byte) *File {
	f.Size, f.Open = int64(len(text)), func(context.Context) (func(io.Writer), error) {
		return func(to io.Writer) { _, _ = to.Write(text) }, nil
	}
	return f
}

// ByteOrderMark begins a CSV file for spreadsheets, which otherwise guess its encoding.
const ByteOrderMark = "\ufeff"

// HeaderAsOf is the header of a file that corresponds to asOf of a page.
const HeaderAsOf = "Muniment-As-Of"

// UnknownSize is the size of a file that is generated while it is written.
const UnknownSize = -1

// AddFile adds an operation that responds with a file of the operation's Content.
func AddFile[I any](a API, op Operation, do func(context.Context, *I) (*File, error)) {
	addRaw(a, op, nil, huma.Middlewares{noteHead}, func(ctx context.Context, in *I) (*huma.StreamResponse, error) {
		f, err := do(ctx, in)
		if err != nil {
			return nil, err
		}
		return f.response(ctx, &op)
	})
}

// AddDataOrFile adds an operation that responds with data in the contract's envelope or, if do
// returns one, with a file of one of the operation's Files.
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
			return f.response(ctx, &op)
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

// response opens the file, unless the request is a HEAD, and returns the response with it.
func (f *File) response(ctx context.Context, op *Operation) (*huma.StreamResponse, error) {
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
		if f.Coding != "" {
			to.SetHeader("Content-Encoding", f.Coding)
		}
		if f.Vary != "" {
			to.SetHeader("Vary", f.Vary)
		}
		for name, value := range f.Header {
			to.SetHeader(name, value)
		}
		if f.Part {
			to.SetStatus(http.StatusPartialContent)
		}
		write(guarded(ctx, to.BodyWriter()))
	}}, nil
}

func noteHead(c huma.Context, next func(huma.Context)) {
	next(huma.WithValue(c, isHead{}, c.Method() == http.MethodHead))
}

// isHead is the context key of whether a request is a HEAD, which the mux passes to GET.
type isHead struct{}

// AddRaw adds an operation whose output is the whole response, headers and Body.
func AddRaw[I, O any](a API, op Operation, do func(context.Context, *I) (*O, error)) {
	addRaw(a, op, nil, nil, do)
}

// addRaw is AddRaw with middlewares, and with the response's content for the document. The
// operation's Content replaces content; without both, the document derives the response from O.
func addRaw[I, O any](a API, op Operation, content map[string]*huma.MediaType, middlewares huma.Middlewares, do func(context.Context, *I) (*O, error)) {
	h := op.declare(content, middlewares)
	huma.Register(a, h, do)
	for _, kind := range op.Text { // huma.Register has set bytes
		h.RequestBody.Content[kind].Schema = &huma.Schema{Type: huma.TypeString}
	}
}

// declare returns the operation as huma has it. It is apart from addRaw, which the compiler
// instantiates for every operation.
func (op *Operation) declare(content map[string]*huma.MediaType, middlewares huma.Middlewares) huma.Operation {
	h := huma.Operation{
		OperationID: op.ID, Method: op.Method, Path: op.Path, Summary: op.Summary, Description: op.Description, Tags: []string{op.Tag}, Middlewares: middlewares, Hidden: op.Hidden,
		Metadata: map[string]any{declaration: op},
	}
	if op.Access != nil {
		h.Security = op.Access.security()
	}
	if scope, ok := op.Access.(Scope); ok { // for readers that ignore a scheme's scopes
		h.Extensions = map[string]any{"x-required-scope": api.Scope(scope).String()}
		var effects []map[string]any
		for _, e := range op.Effects {
			effect := map[string]any{"does": e.Does, "needs": e.Need(), "always": e.Scope != 0 && !e.Sometimes}
			if e.Scope != 0 {
				effect["scope"] = e.Scope.String()
			}
			effects = append(effects, effect)
			h.Description = strings.TrimPrefix(h.Description+"\n\nIt "+e.Does+": for that the key also needs "+e.Need()+".", "\n\n")
		}
		if effects != nil {
			h.Extensions["x-effects"] = effects
		}
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
		success := &huma.Response{Description: cmp.Or(op.Content.Note, http.StatusText(http.StatusOK)), Content: content, Headers: map[string]*huma.Param{}}
		for name, note := range op.Headers {
			success.Headers[name] = &huma.Param{Description: note, Schema: &huma.Schema{Type: huma.TypeString}}
		}
		h.Responses = map[string]*huma.Response{"200": success}
		if op.Parts {
			h.Responses["206"] = &huma.Response{Description: "The part of it that the request's Range names.", Content: content}
		}
		if op.Kept {
			h.Responses["304"] = &huma.Response{Description: "What the caller has is up to date (If-None-Match)."}
		}
	}
	return h
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

// declaration is the key of the Operation in huma's metadata.
const declaration = "declaration"

// Of returns the declaration of an operation; empty, and so without access, for an operation that
// was not added by this package.
func Of(h *huma.Operation) *Operation {
	if op, ok := h.Metadata[declaration].(*Operation); ok {
		return op
	}
	return &Operation{}
}

// Declared returns the declarations of an API's operations, in no order.
func Declared(a API) iter.Seq[*Operation] {
	return func(yield func(*Operation) bool) {
		for _, item := range a.OpenAPI().Paths {
			for _, h := range []*huma.Operation{item.Get, item.Post, item.Put, item.Patch, item.Delete} {
				if h != nil && !yield(Of(h)) {
					return
				}
			}
		}
	}
}

// Refusals returns the statuses from 400 on that the document names for an operation: those that
// it declares, and those that follow from its access, method, path and input.
func Refusals(h *huma.Operation) map[int]bool {
	op, statuses := Of(h), map[int]bool{400: true, 429: true, 431: true, 500: true, 503: true}
	for _, status := range op.Errors {
		statuses[status] = true
	}
	if _, scoped := op.Access.(Scope); scoped {
		statuses[401], statuses[403] = true, true
	}
	if strings.Contains(op.Path, "{") {
		statuses[404] = true
	}
	if op.Method != http.MethodGet { // a body is read even where none is declared
		statuses[408], statuses[409], statuses[413], statuses[422] = true, true, true, true
	}
	if len(h.Parameters) > 0 || strings.HasPrefix(op.Path, "/v1/") || strings.HasPrefix(op.Path, "/api/") { // where an unknown query parameter is refused
		statuses[422] = true
	}
	return statuses
}

// Named is a type whose name in the document is not its Go name.
type Named interface{ SchemaName() string }
