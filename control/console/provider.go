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
	if e := (*api.Error)(nil); errors.As(err, &e) {
		s.Of = "provider"
		return p.signInAgain(s, e)
	}
	if err != nil {
		return err
	}
	http.SetCookie(p.w, cookie)
	p.keepNext(s.Next, 10*time.Minute)
	p.show("", "Sign in at "+s.Provider)
	p.w.Header().Set("Referrer-Policy", "no-referrer")
	p.w.Header().Set("Refresh", "0; url="+address)
	p.render("leave", struct{ Provider, Address string }{s.Provider, address})
	return nil
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
	if e := (*api.Error)(nil); errors.As(err, &e) {
		for _, c := range cookies {
			http.SetCookie(p.w, c)
		}
		return p.signInAgain(signIn{Next: next, Provider: p.s.cfg.Members.Provider(), Of: "provider"}, e)
	}
	switch {
	case err != nil:
		return err
	case choose:
		for _, c := range cookies {
			http.SetCookie(p.w, c)
		}
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
	if e := (*api.Error)(nil); errors.As(err, &e) {
		return p.signInAgain(signIn{Next: next, Provider: p.s.cfg.Members.Provider(), Of: "provider"}, e)
	}
	if err != nil {
		return err
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
	if e := (*api.Error)(nil); errors.As(err, &e) {
		return p.signInAgain(signIn{Next: next, Provider: p.s.cfg.Members.Provider(), Of: "provider"}, e)
	}
	if err != nil {
		return err
	}
	p.signedIn(next, cookies...)
	return nil
}
