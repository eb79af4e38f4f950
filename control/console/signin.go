package console

import (
	"errors"
	"net/http"

	"muniment.example/control/member"
	"muniment.example/gateway/api"
)

// signIn is the page on which a session begins.
type signIn struct {
	Next    string
	Problem *problem
}

func showSignIn(p *page) error {
	if p.Session != nil && p.r.URL.Query().Get("again") == "" {
		p.redirect(member.Next(p.r.URL.Query().Get("next")))
		return nil
	}
	p.show("", "Sign in")
	p.render("signin", signIn{Next: member.Next(p.r.URL.Query().Get("next"))})
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
