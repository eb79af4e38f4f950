package member

import (
	"fmt"
	"net/http"
	"net/url"
	"path"
	"strings"

	"muniment.example/control/sandbox"
	"muniment.example/gateway/api"
)

// Path is where the console is. Sessions are good for what is below it.
const Path = "/console"

// cookieName is the name of the cookie with TLS.
const cookieName = "__Host-" + api.CookieSession

// browserPolicy decides which requests reach the console, and how their cookie is made.
type browserPolicy struct {
	origins *http.CrossOriginProtection
	cookie  http.Cookie // without a value
	attempt http.Cookie // that of a sign-in at the provider, without a value
	secure  bool        // the public URL has https
	local   string      // where a browser on this machine reaches the console without TLS
}

func newBrowserPolicy(public string) (*browserPolicy, error) {
	u, err := url.Parse(public)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("the public URL %q is not one of http or https", public)
	}
	p := &browserPolicy{origins: http.NewCrossOriginProtection(), secure: u.Scheme == "https", local: "http://localhost" + Path}
	// A proxy may have put its own Host in place of the caller's.
	if err := p.origins.AddTrustedOrigin(u.Scheme + "://" + u.Host); err != nil {
		return nil, err
	}
	p.cookie = http.Cookie{Name: cookieName, Path: "/", HttpOnly: true, SameSite: http.SameSiteLaxMode, Secure: true}
	if !p.secure {
		p.cookie.Name, p.cookie.Secure = api.CookieSession, false
		if port := u.Port(); port != "" {
			p.cookie.Name += "_" + port
			p.local = "http://localhost:" + port + Path
		}
	}
	p.attempt = p.cookie
	p.attempt.Name = strings.Replace(p.cookie.Name, "_session", "_sign_in", 1)
	p.attempt.MaxAge = int(attemptAge.Seconds())
	return p, nil
}

// forbidden is the answer to a request that may not reach the console.
func forbidden(message string) error {
	return &api.Error{Code: api.BadRequest, HTTPStatus: http.StatusForbidden, Message: message}
}

// Check refuses, with a sentence for the person at the browser, what no session may be used for: a request over plain
// HTTP to another address than one of the browser's own machine, and one that a page of another origin sends and that
// could change something. Every request for the console has to pass it. Behind a proxy without
// TLS that puts its own loopback Host in place of the caller's nobody can sign in: the caller's origin is another one.
func (s *Service) Check(r *http.Request) error {
	p := s.browsers
	switch {
	case !p.secure && !sandbox.Loopback(r.Host):
		return forbidden("without TLS the console opens only in a browser on the machine of the service, at " + p.local + ": for other machines the service needs a public URL of https (--public-url)")
	case p.origins.Check(r) != nil:
		return forbidden("a page of another origin may not send this")
	}
	return nil
}

// Protect calls next for requests that pass Check, and refuse for others.
func (s *Service) Protect(next http.Handler, refuse func(http.ResponseWriter, *http.Request, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := s.Check(r); err != nil {
			refuse(w, r, err)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// filled is the cookie with a token; an empty one deletes it.
func (p *browserPolicy) filled(token string) *http.Cookie { return filled(p.cookie, token) }

func filled(c http.Cookie, token string) *http.Cookie {
	if c.Value = token; token == "" {
		c.MaxAge = -1
	}
	return &c
}

// token is what the request's cookie says; empty for none. A browser that has several of the name sends the oldest
// first or last, as it likes, so none of them counts.
func (p *browserPolicy) token(r *http.Request) string { return only(r, p.cookie.Name) }

func only(r *http.Request, name string) string {
	all := r.CookiesNamed(name)
	if len(all) != 1 {
		return ""
	}
	return all[0].Value
}

// Next is where to go after signing in: the path that was asked for, with its query, if it is one of the console, and
// the console's first page otherwise. It never leads to another origin.
func Next(asked string) string {
	u, err := url.Parse(asked)
	if err != nil || !strings.HasPrefix(asked, Path) || u.Scheme != "" || u.Host != "" || u.User != nil || u.Fragment != "" || !api.Printable(asked, 2048) || strings.ContainsRune(asked, '\\') ||
		path.Clean(u.Path) != u.Path || u.Path != Path && !strings.HasPrefix(u.Path, Path+"/") {
		return Path
	}
	return u.RequestURI()
}
