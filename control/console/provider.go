package console

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"time"

	"muniment.example/control/member"
	"muniment.example/gateway/api"
)

// leave sends a browser to the OpenID Connect provider. It is a page, which the browser leaves by itself: the policy lets
// forms lead to this origin alone, and browsers hold what a form is redirected to against it, too.
func (p *page) leave(s signIn) error {
	address, cookie, err := p.s.cfg.Members.BeginAtProvider(p.r, p.value("provider") == "again")
	if err != nil {
		return p.notSignedIn(s, err)
	}
	http.SetCookie(p.w, cookie)
	p.keepNext(s.Next, 10*time.Minute)
	p.show("", "Sign in at "+s.Provider)
	p.w.Header().Set("Referrer-Policy", "no-referrer")
	p.w.Header().Set("Refresh", "0; url="+address)
	p.render("leave", struct{ Provider, Address string }{s.Provider, address})
	return nil
}

// notSignedIn is the page on which a session begins, with why none has begun by the provider; a fault of the service is no
// reason.
func (p *page) notSignedIn(s signIn, err error) error {
	e := (*api.Error)(nil)
	if !errors.As(err, &e) {
		return err
	}
	s.Provider, s.Of = p.s.cfg.Members.Provider(), "provider"
	return p.signInAgain(s, e)
}

// doCallback takes the answer of the provider. It is a GET that begins a session: the provider sends browsers by one, and
// the answer is good only in the browser that has asked for it.
func doCallback(p *page) error {
	p.w.Header().Set("Referrer-Policy", "no-referrer") // the address has the answer
	if p.r.Method != http.MethodGet {
		return unknownPage(p)
	}
	cookies, choose, err := p.s.cfg.Members.SignInAtProvider(p.r)
	next := member.Next(p.keptNext())
	switch {
	case err != nil:
		p.setCookies(cookies)
		return p.notSignedIn(signIn{Next: next}, err)
	case choose:
		p.setCookies(cookies)
		p.redirect(addressed(Path+"/sign-in/choose", url.Values{"next": {next}}))
	default:
		p.signedIn(next, cookies...)
	}
	return nil
}

// choices is the page on which somebody chooses a tenant, or accepts an invitation to one.
type choices struct {
	Next, Provider, Title string
	Choices               []member.Choice
	New                   bool // some are invitations
}

func showChoices(p *page) error {
	all, err := p.s.cfg.Members.Choices(p.r)
	next := member.Next(p.r.URL.Query().Get("next"))
	if err != nil {
		return p.notSignedIn(signIn{Next: next}, err)
	}
	title := "Choose a tenant"
	if len(all) == 1 {
		title = "Enter this tenant?"
	}
	p.show("", title)
	p.render("choose", choices{next, p.s.cfg.Members.Provider(), title, all, slices.ContainsFunc(all, func(c member.Choice) bool { return c.New })})
	return nil
}

func doChoose(p *page) error {
	cookies, err := p.s.cfg.Members.Choose(p.r, p.value("member"))
	next := member.Next(p.r.PostForm.Get("next"))
	if err != nil {
		return p.notSignedIn(signIn{Next: next}, err)
	}
	p.signedIn(next, cookies...)
	return nil
}
