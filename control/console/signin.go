package console

import (
	"errors"
	"net/http"
	"net/url"

	"muniment.example/control/member"
	"muniment.example/gateway/api"
)

// signIn is the page on which a session begins.
type signIn struct {
	Next    string
	Again   bool // for something that asks again
	Problem *problem
}

func showSignIn(p *page) error {
	if p.Session != nil && p.r.URL.Query().Get("again") == "" {
		p.redirect(member.Next(p.r.URL.Query().Get("next")))
		return nil
	}
	p.show("", "Sign in")
	p.render("signin", signIn{Next: member.Next(p.r.URL.Query().Get("next")), Again: p.Session != nil})
	return nil
}

func doSignIn(p *page) error {
	next := member.Next(p.r.PostForm.Get("next"))
	cookie, err := p.s.cfg.Members.SignInByKey(p.r, p.value("key"))
	if e := (*api.Error)(nil); errors.As(err, &e) && e.GetStatus() < http.StatusInternalServerError {
		p.show("", "Sign in")
		p.status = e.GetStatus()
		p.render("signin", signIn{Next: next, Problem: problemOf(e)})
		return nil
	}
	if err != nil {
		return err
	}
	http.SetCookie(p.w, cookie)
	p.redirect(next)
	return nil
}

func doSignOut(p *page) error {
	cookie, err := p.s.cfg.Members.SignOut(p.r)
	if err != nil {
		return err
	}
	http.SetCookie(p.w, cookie)
	p.redirect(Path + "/sign-in?done=signed-out")
	return nil
}

// again leads to the page on which the actor signs in again, and from there back. err is the answer to a session that
// is too old for what it asks for.
func (p *page) again(err error) error {
	if p.r.Method != http.MethodGet || !member.IsUnconfirmed(err) {
		return err
	}
	p.redirect(addressed(Path+"/sign-in", url.Values{"again": {"1"}, "next": {p.r.URL.RequestURI()}}))
	return nil
}
