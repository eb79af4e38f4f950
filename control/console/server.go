package console

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"

	"muniment.example/control/assets"
	"muniment.example/control/member"
	"muniment.example/gateway/api"
)

// Policy is the content security policy of every page: as assets.Policy, with forms that lead to this
// origin.
const Policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"

// maxForm bounds the body of a form.
const maxForm = 256 << 10

// ServeHTTP serves /console and what is under it.
func (s *Service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", Policy)
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	if name, found := strings.CutPrefix(r.URL.Path, Path+"/files/"); found {
		s.serveFile(w, r, name)
		return
	}
	p := &page{s: s, w: w, r: r, Path: r.URL.Path}
	if err := s.cfg.Members.Check(r); err != nil {
		p.fail(err)
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	if r.Method == http.MethodPost {
		if err := r.ParseForm(); err != nil {
			p.fail(formError(err))
			return
		}
	} else if _, err := url.ParseQuery(r.URL.RawQuery); err != nil {
		p.fail(&api.Error{Code: api.BadRequest, Message: "the address has a query that can't be read"})
		return
	}
	session, err := s.cfg.Members.Session(r)
	switch {
	case err == nil:
		p.Session = &session
		if !session.Caller.Sandbox {
			h.Set(api.HeaderSession, session.TenantID)
		}
	case api.From(err).GetStatus() != http.StatusUnauthorized:
		p.fail(err)
		return
	default:
		p.unsigned = err
		h.Set(api.HeaderSession, api.NoSession)
	}
	s.mux.ServeHTTP(w, r.WithContext(withPage(r.Context(), p)))
}

func formError(err error) error {
	var long *http.MaxBytesError
	if errors.As(err, &long) {
		return &api.Error{Code: api.BadRequest, HTTPStatus: http.StatusRequestEntityTooLarge, Message: "the form has more than 256 KiB"}
	}
	return &api.Error{Code: api.BadRequest, Message: "the form can't be read"}
}

// serveFile serves a style, a script or a picture.
func (s *Service) serveFile(w http.ResponseWriter, r *http.Request, name string) {
	a, err := s.files.Answer(name, &assets.Condition{IfNoneMatch: r.Header.Get("If-None-Match")})
	if err != nil || r.Method != http.MethodGet && r.Method != http.MethodHead {
		http.Error(w, "there is no such file", http.StatusNotFound)
		return
	}
	h := w.Header()
	h.Set("Content-Type", a.ContentType)
	h.Set("Cache-Control", a.CacheControl)
	h.Set("ETag", a.ETag)
	w.WriteHeader(a.Status)
	_, _ = w.Write(a.Body) // a browser that is gone reads nothing
}

// handler is what serves a page: it renders it, or returns why not.
type handler func(*page) error

// open serves a page to everyone.
func (s *Service) open(pattern string, h handler) {
	method, path, _ := strings.Cut(pattern, " ")
	s.mux.HandleFunc(method+" "+Path+path, func(w http.ResponseWriter, r *http.Request) {
		p := pageOf(r.Context())
		p.r = r
		if err := h(p); err != nil {
			p.fail(err)
		}
	})
}

// in serves a page to those who have signed in. The others get the page that lets them, and come back to
// this one.
func (s *Service) in(pattern string, h handler) {
	s.open(pattern, func(p *page) error {
		if p.Session != nil {
			return h(p)
		}
		if p.r.Method != http.MethodGet {
			return p.unsigned
		}
		p.redirect(Path + "/sign-in?" + url.Values{"next": {p.r.URL.RequestURI()}}.Encode())
		return nil
	})
}

// redirect leads to another page of the console.
func (p *page) redirect(to string) {
	p.w.Header().Set("Location", to)
	p.w.WriteHeader(http.StatusSeeOther)
}

// fail renders what went wrong in words. A fault of the service has a fixed text.
func (p *page) fail(err error) {
	e := asProblem(err)
	if e == nil {
		if p.r.Context().Err() == nil {
			p.s.cfg.Logger.Error("a page of the console failed", "err", err, "route", p.r.Pattern)
		}
		e = problemOf(err)
	}
	if e.Code == api.ScopeMissing && p.Session != nil && p.Session.Role != "" {
		e.Message = "your role, " + string(p.Session.Role) + ", may not do this"
	}
	p.answers(e)
	if e.Status == http.StatusUnauthorized && p.Session != nil && !member.IsUnconfirmed(err) { // it has ended since the page was opened
		p.Session = nil
	}
	p.render("failed", e)
}

func unknownPage(p *page) error {
	return &api.Error{Code: api.ResourceNotFound, Message: "there is no such page"}
}

// serve sends the response of an operation as it is, such as a file. What the operation refuses is said in words.
func (p *page) serve(op string, query url.Values, params ...string) error {
	if err := p.missing(op); err != nil {
		return err
	}
	w := &fileWriter{ResponseWriter: p.w}
	if err := p.s.cfg.Serve(w, p.r.Context(), p.Session.Caller, http.MethodGet, p.s.operations()[op].target(params, query)); err != nil {
		return err
	}
	if w.refused == 0 {
		return nil
	}
	for _, name := range []string{"Content-Length", "Content-Disposition", "Content-Encoding"} {
		p.w.Header().Del(name)
	}
	p.w.Header().Set("Content-Security-Policy", Policy)
	return decode(w.refused, w.problem.Bytes(), nil)
}

// fileWriter passes a response on, unless it is an error, which it keeps.
type fileWriter struct {
	http.ResponseWriter
	refused int // the status of the error; 0: there is none
	problem bytes.Buffer
}

func (w *fileWriter) WriteHeader(status int) {
	if status >= http.StatusBadRequest {
		w.refused = status
		return
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *fileWriter) Write(b []byte) (int, error) {
	if w.refused != 0 {
		return w.problem.Write(b)
	}
	return w.ResponseWriter.Write(b)
}

// Unwrap is for http.ResponseController.
func (w *fileWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// file sends text under a name.
func (p *page) file(name, kind, text string) {
	p.w.Header().Set("Content-Type", kind)
	p.w.Header().Set("Content-Disposition", `attachment; filename="`+name+`"`)
	_, _ = io.WriteString(p.w, text) // a browser that is gone reads nothing
}
