package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"path"
	"reflect"
	"runtime/debug"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/prometheus/client_golang/prometheus"

	"muniment.example/control/requests"
	"muniment.example/control/route"
	"muniment.example/control/sandbox"
	"muniment.example/control/store"
	"muniment.example/gateway/api"
	"muniment.example/gateway/auth"
	"muniment.example/pipeline/trace"
)

// handler serves one set of operations.
type handler struct {
	mux *http.ServeMux
	api huma.API
	// elsewhere documents what other processes serve, and serves nothing itself.
	elsewhere huma.API
	db        *store.DB
	now       func() time.Time
	logger    *slog.Logger
	seconds   *prometheus.HistogramVec
	tracer    *trace.Tracer
	faults    *faults
	backoff   api.Backoff
	sandbox   *sandbox.Service  // counts requests to its unknown paths; may be nil
	requests  *requests.Service // counts requests with keys; may be nil
	keys      auth.Keys         // that callers may have; nil without requests
	// origins refuses what browsers send for pages of other origins, but for safe methods; nil: it is
	// for each operation to do that.
	origins *http.CrossOriginProtection
	// ofNodes says that the callers are nodes.
	ofNodes bool
	// authenticate admits callers, by the operation's access.
	authenticate authenticator
	// undeclared has an error for each operation whose access the handler can't check.
	undeclared []error
}

// A required list is never null; an optional one may be (acceptNull). huma has this setting once
// per process.
func init() { huma.DefaultArrayNullable = false }

// newHandler returns a handler with an authenticator.
func newHandler(cfg Config, seconds *prometheus.HistogramVec, authenticate authenticator) *handler {
	d := &handler{
		mux: http.NewServeMux(), db: cfg.DB, now: cfg.Now, logger: cfg.Logger, seconds: seconds, tracer: cfg.Tracer,
		faults: &faults{now: cfg.Now, last: map[string]*faultLine{}}, authenticate: authenticate,
	}

	c := huma.DefaultConfig("Muniment", documentVersion)
	c.OpenAPIPath, c.DocsPath, c.SchemasPath = "", "", ""
	c.CreateHooks = nil // no $schema members in answers
	c.Formats = map[string]huma.Format{jsonType: {Marshal: huma.DefaultJSONFormat.Marshal, Unmarshal: unmarshal}}
	c.AllowAdditionalPropertiesByDefault = true
	c.Transformers = []huma.Transformer{finish}
	c.Components.Schemas = huma.NewMapRegistry(schemaPrefix, schemaName)
	c.Components.Schemas.RegisterTypeAlias(reflect.TypeFor[api.Error](), reflect.TypeFor[api.ErrorBody]())
	c.Components.Schemas.RegisterTypeAlias(reflect.TypeFor[store.Instant](), reflect.TypeFor[time.Time]())
	c.Components.Schemas.RegisterTypeAlias(reflect.TypeFor[jsontext.Value](), reflect.TypeFor[json.RawMessage]())

	d.elsewhere = humago.New(http.NewServeMux(), c)
	inner := humago.New(d.mux, c)
	group := huma.NewGroup(inner)
	group.UseSimpleModifier(func(op *huma.Operation) {
		op.MaxBodyBytes, op.BodyReadTimeout = -1, -1 // readBody enforces both
		if authenticate(route.Of(op).Access) == nil {
			d.undeclared = append(d.undeclared, fmt.Errorf("operation %q declares no access that this listener grants", op.OperationID))
		}
	})
	group.UseMiddleware(noteOperation, d.admit, admitLimited(d), d.readQuery, d.readBody, d.once)
	d.api = group
	return d
}

// mount serves pages that are no operations of the API, at a path and under it. They are counted and traced as one
// operation, and authenticate for themselves. Their own changes wait as those of pages.
func (d *handler) mount(name, path string, pages http.Handler) {
	as := &huma.Operation{OperationID: name, Path: path}
	counted := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if x, ok := exchangeOf(r.Context()); ok {
			x.operation = as
		}
		pages.ServeHTTP(w, r.WithContext(store.QueueAs(r.Context(), store.PageOwner, false)))
	})
	d.mux.Handle(path, counted)
	d.mux.Handle(path+"/", counted)
}

// exchange is the state of one request and its response.
type exchange struct {
	requestID string
	host      string // under which the service was called, with its scheme: also for what is requested within this process
	scheme    string // of HeaderForwardedProto; empty if no gateway says it
	logger    *slog.Logger
	faults    *faults
	backoff   *api.Backoff
	operation *huma.Operation // nil until the request has reached one
	schemas   huma.Registry   // has the schemas to which the body's schema refers
	body      []byte          // as it was sent, if it is JSON
	tenantID  string          // of the request, for the log and its span; empty for none
	span      *trace.Span     // nil: it is not traced
	key       *api.Key        // that has admitted the request; nil for none
	dead      bool            // the request has shown the secret of a key that is revoked or has expired
	refused   *api.Error      // the response; nil for none
}

type exchangeKey struct{}

func exchangeOf(ctx context.Context) (*exchange, bool) {
	x, ok := ctx.Value(exchangeKey{}).(*exchange)
	return x, ok
}

func (x *exchange) operationID() string {
	if x.operation == nil {
		return unmatched
	}
	return x.operation.OperationID
}

// fault logs an internal fault.
func (x *exchange) fault(message string, attrs ...any) {
	x.faults.log(x.logger, x.operationID(), message, attrs...)
}

// ServeHTTP gives the request its id and calls its operation. It responds itself if there is no
// operation, or if the operation panics.
func (d *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	began := d.now()
	id := r.Header.Get(api.HeaderRequestID)
	if !api.Printable(id, api.MaxRequestID) {
		id = api.NewID("req_", began)
	}
	w.Header().Set(api.HeaderRequestID, id)
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	x := &exchange{requestID: id, host: r.Host, scheme: r.Header.Get(api.HeaderForwardedProto), logger: d.logger.With("requestId", id), faults: d.faults, backoff: &d.backoff, schemas: d.api.OpenAPI().Components.Schemas}
	if x.span = d.beginSpan(r); x.span != nil {
		r = r.WithContext(trace.With(r.Context(), x.span))
	}
	r = r.WithContext(context.WithValue(r.Context(), exchangeKey{}, x))
	response := &responseWriter{ResponseWriter: w, unread: unreadBody(r), backoff: &d.backoff}
	defer d.observe(x, r, response, began)
	defer x.recover(response, r)

	// The mux would redirect an unclean path, and the database can't store every character.
	if path.Clean(r.URL.Path) != r.URL.Path || !store.Storable(r.URL.Path) {
		d.refuseUnmatched(response, r, unknownPath())
		return
	}
	if d.origins != nil && d.origins.Check(r) != nil {
		d.refuseUnmatched(response, r, &api.Error{Code: api.BadRequest, HTTPStatus: http.StatusForbidden, Message: "a page of another origin may not send this"})
		return
	}
	if h, pattern := d.mux.Handler(r); pattern == "" {
		var p probe
		h.ServeHTTP(&p, r)
		if p.status == http.StatusMethodNotAllowed {
			response.Header().Set("Allow", p.Header().Get("Allow"))
			d.refuseUnmatched(response, r, &api.Error{Code: api.BadRequest, HTTPStatus: p.status, Message: "the path does not have this method"})
			return
		}
		d.refuseUnmatched(response, r, unknownPath())
		return
	}
	d.mux.ServeHTTP(response, r)
}

// refuseUnmatched responds to requests without an operation. In the sandbox they count towards the
// limits.
func (d *handler) refuseUnmatched(w http.ResponseWriter, r *http.Request, e *api.Error) {
	if d.sandbox != nil && sandbox.Owns(r.URL.Path) {
		if err := d.sandbox.Count(r); err != nil {
			e = translate(http.StatusInternalServerError, "", []error{err}, nil)
			if x, ok := exchangeOf(r.Context()); ok && isFault(e, e) {
				x.fault("a request failed", "err", err)
			}
		}
	}
	writeError(w, r, e)
}

func unknownPath() *api.Error {
	return &api.Error{Code: api.ResourceNotFound, Message: "there is nothing under this path"}
}

// recover responds for a handler that panicked. If the response has begun, it is aborted, so that
// it can't be taken for a complete one.
func (x *exchange) recover(w *responseWriter, r *http.Request) {
	p := recover()
	if p == nil {
		return
	}
	if err, ok := p.(error); ok && (errors.Is(err, http.ErrAbortHandler) || r.Context().Err() != nil) {
		panic(http.ErrAbortHandler) // the caller has disconnected
	}
	x.fault("a handler panicked", "err", fmt.Sprint(p), "method", r.Method, "stack", string(debug.Stack()))
	if w.status != 0 {
		panic(http.ErrAbortHandler)
	}
	writeError(w, r, api.From(errors.New("panic")))
}

// responseWriter records the status of a response that has begun.
type responseWriter struct {
	http.ResponseWriter
	unread io.Reader // of the request; nil if there is nothing to drain
	status int       // 0: not begun

	backoff *api.Backoff
}

func (w *responseWriter) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
		if h := w.Header(); (status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable) && h.Get("Retry-After") == "" {
			w.backoff.Tell(h, 1, "")
		}
		w.drain()
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *responseWriter) Write(b []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
		w.drain()
	}
	return w.ResponseWriter.Write(b)
}

// drainTime bounds how long a response waits for a body that nobody reads.
const drainTime = time.Second

// unreadBody is the body of a request that may be drained. A client that waits for 100 Continue sends
// none.
func unreadBody(r *http.Request) io.Reader {
	if r.ContentLength == 0 || r.Header.Get("Expect") != "" {
		return nil
	}
	return r.Body
}

// drain reads what is left of the request's body, and discards it: http.Server reads 256 KiB at most,
// and then closes the connection on a client that is still sending.
func (w *responseWriter) drain() {
	if w.unread == nil {
		return
	}
	deadlines := http.NewResponseController(w.ResponseWriter)
	_ = deadlines.SetReadDeadline(time.Now().Add(drainTime)) // there is none within this process
	if _, err := io.CopyN(io.Discard, w.unread, maxBody+1); err != io.EOF {
		w.Header().Set("Connection", "close") // nor does the server wait for what is left
		return
	}
	_ = deadlines.SetReadDeadline(time.Time{})
}

// Unwrap is for http.ResponseController.
func (w *responseWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// probe records the status and headers of the mux's own response, and discards its body.
type probe struct {
	header http.Header
	status int
}

func (p *probe) Header() http.Header {
	if p.header == nil {
		p.header = http.Header{}
	}
	return p.header
}

func (p *probe) Write(b []byte) (int, error) { return len(b), nil }

func (p *probe) WriteHeader(status int) { p.status = status }
