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
const cookieName = "__Host-muniment_session"

// door decides which requests reach the console, and how their cookie is made.
type door struct {
	origins *http.CrossOriginProtection
	cookie  http.Cookie // without a value
	public  string
	// secure says that the public URL has https, and within that it is one of this machine.
	secure, within bool
}

func newDoor(public string) (*door, error) {
	u, err := url.Parse(public)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("the public URL %q is not one of http or https", public)
	}
	d := &door{origins: http.NewCrossOriginProtection(), public: public, secure: u.Scheme == "https", within: sandbox.Loopback(u.Host)}
	// A proxy may have put its own Host in place of the caller's.
	if err := d.origins.AddTrustedOrigin(u.Scheme + "://" + u.Host); err != nil {
		return nil, err
	}
	d.cookie = http.Cookie{Name: cookieName, Path: "/", HttpOnly: true, SameSite: http.SameSiteLaxMode, Secure: true}
	if !d.secure {
		d.cookie.Name, d.cookie.Secure = "muniment_session", false
		if port := u.Port(); port != "" {
			d.cookie.Name += "_" + port
		}
	}
	return d, nil
}

// forbidden is the answer to a request that may not reach the console.
func forbidden(message string) error {
	return &api.Error{Code: api.BadRequest, HTTPStatus: http.StatusForbidden, Message: message}
}

// Check refuses, with a sentence for the person at the browser, what no session may be used for: a request over plain
// HTTP from elsewhere than this machine, and one that a page of another origin sends and that could change something.
// Every request for the console has to pass it.
func (s *Service) Check(r *http.Request) error {
	d := s.door
	switch {
	case !d.secure && !d.within:
		return forbidden("the console needs TLS: the public URL of this service, " + d.public + ", is not one of https (--public-url)")
	case !d.secure && !sandbox.WithinMachine(r):
		return forbidden("without TLS the console is only open on the machine of the service itself, at " + d.public + Path + ": for other machines the service needs a public URL of https (--public-url)")
	case d.origins.Check(r) != nil:
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
func (d *door) filled(token string) *http.Cookie {
	c := d.cookie
	if c.Value = token; token == "" {
		c.MaxAge = -1
	}
	return &c
}

// token is what the request's cookie says; empty for none. A browser that has several of the name sends the oldest
// first or last, as it likes, so none of them counts.
func (d *door) token(r *http.Request) string {
	all := r.CookiesNamed(d.cookie.Name)
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
