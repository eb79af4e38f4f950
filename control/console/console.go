// Package console is the tenant's console, at /console of the API's listener: the pages on which people
// see and change what programs see and change under /v1.
//
// The pages are rendered here (html/template) and work without script; what script adds is a button that
// copies, and verification in the browser. They load nothing from elsewhere: Policy lets a browser run
// and call nothing but the files of this service, and send forms nowhere else.
//
// A page has no way of its own to data. It calls the operations of /v1 in this process, with the scopes
// that the session has now (Config.Call), and keeps what it has called: each page ends with the curl
// that shows the same. Only what a session is comes from control/member: who has signed in, the tenant's time zone, and what
// members are called, which members see of each other and no key's holder does. What a session may do follows from what the operations declare (operations.go):
// a button for which a scope is missing is not there, and the request that it would send is 403 by
// the operation itself.
//
// What changes something is a POST of a form. What can't be undone has a page before it that says what
// will happen; its address may be shared, as a GET never changes anything. control/member refuses what
// a page of another origin sends.
//
// The form of an act has a value of its own, which becomes the Idempotency-Key of its operation: a page that is
// loaded again, or a button that is pressed twice, repeats the response and does nothing twice.
//
// A list is read by the cursor of its operation, never by an offset, and its filters are in its
// address: any page can be shared, and costs the same however many records there are. A file of a list
// has up to maxFileRows rows; one that had more says so in its name.
//
// The package has no state. Sessions are control/member's.
package console

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"html/template"
	"log/slog"
	"net/http"
	"net/url"
	"time"

	"muniment.example/control/assets"
	"muniment.example/control/member"
	"muniment.example/control/route"
	"muniment.example/control/store"
	"muniment.example/gateway/api"
	"muniment.example/gateway/auth"
)

// Path is where the console is.
const Path = member.Path

//go:embed page
var embedded embed.FS

//go:embed view
var views embed.FS

// Config of the service. All but Now and Logger are required.
type Config struct {
	// Members has the sessions.
	Members *member.Service
	// Call serves a request of /v1 in this process, with the caller's scopes (control.Control).
	Call func(ctx context.Context, caller auth.Principal, method, target string, body []byte) (status int, response []byte, err error)
	// CallOnce is Call with an Idempotency-Key, which nobody can guess: a retry gets the first response again.
	CallOnce func(ctx context.Context, caller auth.Principal, key, method, target string, body []byte) (status int, response []byte, err error)
	// Serve is Call for a response of any length: it is written to w while it is made.
	Serve func(w http.ResponseWriter, ctx context.Context, caller auth.Principal, method, target string) error
	// Kinds are the kinds of events.
	Kinds store.Kinds
	// PublicURL is where callers reach the API, for what is copied from a page.
	PublicURL string
	// SealEvery is how old an event may be before its pack is sealed by itself, and SealAt how many may wait; 0 is no limit, and
	// with both 0 nothing is sealed by itself. Pages say so.
	SealEvery time.Duration
	SealAt    int
	// Now is the clock. Default time.Now.
	Now func() time.Time
	// Logger; default slog.Default.
	Logger *slog.Logger
}

// Service is safe for concurrent use.
type Service struct {
	cfg        Config
	files      *assets.Page
	views      map[string]*template.Template
	operations func() map[string]operation
	mux        *http.ServeMux
	backoff    api.Backoff
}

// New reads the pages.
func New(cfg Config) (*Service, error) {
	if cfg.Members == nil || cfg.Call == nil || cfg.CallOnce == nil || cfg.Serve == nil || cfg.PublicURL == "" {
		return nil, errors.New("cannot open the console: Members, Call, CallOnce, Serve or PublicURL is missing")
	}
	if _, err := url.Parse(cfg.PublicURL); err != nil {
		return nil, fmt.Errorf("cannot open the console: PublicURL: %w", err)
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	files, err := assets.Open(embedded, assets.Policy)
	if err != nil {
		return nil, fmt.Errorf("cannot open the console: %w", err)
	}
	s := &Service{cfg: cfg, files: files, mux: http.NewServeMux()}
	if s.views, err = readViews(); err != nil {
		return nil, fmt.Errorf("cannot open the console: %w", err)
	}
	s.routes()
	return s, nil
}

// Routes reads what the operations of the API declare; it adds none. Those of all services have to be
// there once the first page is requested.
func (s *Service) Routes(a route.API) { s.operations = readOperations(a) }
