package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"muniment.example/gateway/api"
	"muniment.example/gateway/auth"
)

// Check is a part that must be ready before the process receives requests.
type Check struct {
	Name string
	// Ready returns nil if the part is. Its error is shown to operators. It returns soon after
	// ctx is done. Safe for concurrent use.
	Ready func(ctx context.Context) error
}

// Note is a part whose status is shown to operators, and which does not make the process
// unready.
type Note struct {
	Name string
	// Status returns what is shown. An error is shown instead. Otherwise as Check.Ready.
	Status func(ctx context.Context) (string, error)
}

// TenantsPart returns what /debug/tenants shows of a part of the process, as JSON: the tenants that met limits, or
// those in a backlog. What it can't find out, it says there. It must be safe for concurrent use, and end soon after ctx is done.
type TenantsPart func(ctx context.Context) any

// Admin configures the handler of the admin listener, which is for operators only
// and must not be reachable from outside.
type Admin struct {
	Gatherer prometheus.Gatherer
	Checks   []Check
	Notes    []Note
	// Tenants are the parts of /debug/tenants, by name. Empty: there is no such path.
	Tenants map[string]TenantsPart
	// Token is the bearer token of /debug/pprof, /debug/tenants and /debug/log-level. If it is empty, no request is let in.
	Token string
	// LogLevel is the lowest level that the process logs.
	LogLevel *slog.LevelVar
	// Mount adds handlers by pattern of http.ServeMux.
	Mount map[string]http.Handler
}

// Handler serves /metrics, /livez, /readyz, /debug/pprof, /debug/tenants, /debug/log-level and what is mounted. Its errors
// are in the contract's envelope, but for those that Go's HTTP server answers before any
// handler is reached.
//
// /livez is 200 as long as the process answers. It depends on nothing else: an outage of
// another part must not get the process killed. /readyz is 200 {"ready":true}, or 503 with the
// name and reason of each part that is not ready; both with the notes.
func (a Admin) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(a.Gatherer, promhttp.HandlerOpts{EnableOpenMetrics: true}))
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, map[string]bool{"live": true})
	})
	mux.HandleFunc("GET /readyz", a.readyz)
	for path, profile := range map[string]http.HandlerFunc{
		"": pprof.Index, "cmdline": pprof.Cmdline, "profile": pprof.Profile, "symbol": pprof.Symbol, "trace": pprof.Trace,
	} {
		mux.Handle("GET /debug/pprof/"+path, a.protected(profile))
	}
	mux.Handle("GET /debug/log-level", a.protected(http.HandlerFunc(a.logLevel)))
	mux.Handle("PUT /debug/log-level", a.protected(http.HandlerFunc(a.setLogLevel)))
	if len(a.Tenants) > 0 {
		mux.Handle("GET /debug/tenants", a.protected(http.HandlerFunc(a.tenants)))
	}
	for pattern, h := range a.Mount {
		mux.Handle(pattern, h)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, pattern := mux.Handler(r); pattern == "" {
			writeError(w, r, errUnknownPath)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

func (a Admin) readyz(w http.ResponseWriter, r *http.Request) {
	type part struct {
		Name   string `json:"name"`
		Reason string `json:"reason"`
	}
	type note struct {
		Name string `json:"name"`
		Note string `json:"note"`
	}
	var answer struct {
		Ready    bool   `json:"ready"`
		NotReady []part `json:"notReady,omitempty"`
		Notes    []note `json:"notes,omitempty"`
	}
	ctx, cancel := context.WithTimeout(r.Context(), probeTime)
	defer cancel()
	faults, notes := make([]error, len(a.Checks)), make([]note, len(a.Notes))
	var probes sync.WaitGroup
	for i, c := range a.Checks {
		probes.Go(func() {
			_, faults[i] = inTime(ctx, func() (string, error) { return "", c.Ready(ctx) })
		})
	}
	for i, n := range a.Notes {
		probes.Go(func() {
			text, err := inTime(ctx, func() (string, error) { return n.Status(ctx) })
			if err != nil {
				text = err.Error()
			}
			notes[i] = note{n.Name, text}
		})
	}
	probes.Wait()
	for i, err := range faults {
		if err != nil {
			answer.NotReady = append(answer.NotReady, part{a.Checks[i].Name, err.Error()})
		}
	}
	answer.Ready, answer.Notes = len(answer.NotReady) == 0, notes
	status := http.StatusOK
	if !answer.Ready {
		status = http.StatusServiceUnavailable
	}
	writeJSON(w, status, answer)
}

// tenantsTime bounds how long /debug/tenants waits for its parts.
const tenantsTime = 10 * time.Second

// tenants answers with the tenants of each part.
func (a Admin) tenants(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), tenantsTime)
	defer cancel()
	parts := map[string]any{}
	for name, part := range a.Tenants {
		parts[name] = part(ctx)
	}
	writeJSON(w, http.StatusOK, parts)
}

// logLevel answers with the lowest level that is logged.
func (a Admin) logLevel(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, map[string]slog.Level{"level": a.LogLevel.Level()})
}

// setLogLevel changes it until the process ends.
func (a Admin) setLogLevel(w http.ResponseWriter, r *http.Request) {
	var body struct {
		Level *slog.Level `json:"level"`
	}
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<10)).Decode(&body); err != nil || body.Level == nil {
		writeError(w, r, api.InvalidField("level", `must be debug, info, warn or error, for example {"level":"debug"}`))
		return
	}
	a.LogLevel.Set(*body.Level)
	a.logLevel(w, r)
}

// probeTime bounds how long /readyz waits for its parts, which it checks concurrently.
const probeTime = time.Second

// inTime calls probe and waits for it until ctx is done. A call that hangs is left running, so
// that it does not make /readyz hang.
func inTime(ctx context.Context, probe func() (string, error)) (string, error) {
	var text string
	var err error
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		text, err = probe()
	}()
	select {
	case <-answered:
		return text, err
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

var errUnknownPath = &api.Error{Code: api.ResourceNotFound, Message: "no such path, or not with this method"}

// protected requires the admin token.
func (a Admin) protected(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := auth.AdminToken(auth.Header(r.Header), a.Token); err != nil {
			writeError(w, r, api.From(err))
			return
		}
		h.ServeHTTP(w, r)
	})
}

// writeError answers with the error envelope and the request's id.
func writeError(w http.ResponseWriter, r *http.Request, e *api.Error) {
	named := *e
	if named.RequestID = r.Header.Get(api.HeaderRequestID); !api.Printable(named.RequestID, api.MaxRequestID) {
		named.RequestID = string(appendRequestID(nil))
	}
	w.Header().Set(api.HeaderRequestID, named.RequestID)
	w.Header().Set("Content-Type", contentJSON)
	w.Header().Set("X-Content-Type-Options", "nosniff")
	body, err := named.Body()
	if err != nil {
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	w.WriteHeader(named.GetStatus())
	_, _ = w.Write(body) // the client may have gone
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", contentJSON)
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // the client may have gone
}

// ControlReady returns nil when control answers in time at one of its addresses, on a connection as requests use it.
// Any answer below 500 will do. The addresses are tried at once: one that does not answer takes all the time there is.
func (g *Gateway) ControlReady(ctx context.Context) (err error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	answers := make(chan error, len(g.cfg.DialControl))
	for _, dial := range g.cfg.DialControl {
		go func() { answers <- controlReady(ctx, dial) }()
	}
	for range g.cfg.DialControl {
		if err = <-answers; err == nil {
			return nil
		}
	}
	return err
}

func controlReady(ctx context.Context, dial func() (net.Conn, error)) error {
	t := &http.Transport{
		DialContext:       func(context.Context, string, string) (net.Conn, error) { return dial() },
		DisableKeepAlives: true,
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://control"+pathHealth, nil)
	if err != nil {
		return err
	}
	resp, err := t.RoundTrip(req)
	if err != nil {
		return fmt.Errorf("it does not answer: %w", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode >= http.StatusInternalServerError {
		return fmt.Errorf("it answers %s", resp.Status)
	}
	return nil
}

var errForeignHost = &api.Error{
	Code: api.BadRequest, HTTPStatus: http.StatusForbidden,
	Message: "this listener is on a loopback address and answers to localhost or such an address only, not to the Host of this request",
}

// LoopbackOnly guards the handler of a listener for operators. On a loopback address it
// refuses requests whose Host is neither localhost nor such an address: a page in an
// operator's browser could have its own name resolve to 127.0.0.1, and read the answers
// (DNS rebinding). A listener on another address is not checked, as its names are not known
// here.
func LoopbackOnly(at net.Addr, h http.Handler) http.Handler {
	if tcp, ok := at.(*net.TCPAddr); !ok || !tcp.IP.IsLoopback() {
		return h
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host, _, err := net.SplitHostPort(r.Host)
		if err != nil { // there is no port
			host = strings.Trim(r.Host, "[]")
		}
		if !api.Loopback(strings.ToLower(host)) {
			writeError(w, r, errForeignHost)
			return
		}
		h.ServeHTTP(w, r)
	})
}
