package console

import (
	"cmp"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"muniment.example/control/member"
	"muniment.example/gateway/api"
)

// nextCookie keeps where somebody who had a link mailed wanted to go: the mail does not say it.
const nextCookie = "muniment_next"

// signIn is the page on which a session begins.
type signIn struct {
	Next  string
	Again bool   // for something that asks again
	Token string // of a mailed link: the page has one button, and nothing else
	// Member is whom the link signs in; nil for nobody.
	Member  *member.Member
	Email   string // as it was written
	Problem *problem
	Of      string // the field that the problem is about: email, key, token or provider
	// Provider is the OpenID Connect provider by which members may sign in; empty: there is none.
	Provider string
	// SignedOut says that the session of this page has just ended.
	SignedOut bool
}

// showSignIn changes nothing, a mailed link included: programs that look into mails load it, too.
func showSignIn(p *page) error {
	asked := p.r.URL.Query()
	p.show("", "Sign in")
	if token := asked.Get("token"); token != "" {
		next := cmp.Or(asked.Get("next"), p.keptNext())
		p.w.Header().Set("Referrer-Policy", "no-referrer")
		whose, err := p.s.cfg.Members.OfLink(p.r.Context(), token)
		if err != nil {
			return err
		}
		p.render("signin", signIn{Next: member.Next(next), Token: token, Member: whose})
		return nil
	}
	if p.Session != nil && asked.Get("again") == "" && asked.Get("done") == "" {
		p.redirect(member.Next(asked.Get("next")))
		return nil
	}
	p.render("signin", signIn{
		Next: member.Next(asked.Get("next")), Again: p.Session != nil && asked.Get("again") != "", Provider: p.s.cfg.Members.Provider(), SignedOut: p.Session == nil && asked.Get("done") == "signed-out",
	})
	return nil
}

// doSignIn begins a session by the token of a link or by a key, or has a link mailed.
func doSignIn(p *page) error {
	s := signIn{Next: member.Next(p.r.PostForm.Get("next")), Email: p.value("email"), Provider: p.s.cfg.Members.Provider()}
	var cookie *http.Cookie
	var err error
	switch {
	case p.r.PostForm.Has("provider"):
		return p.leave(s)
	case p.r.PostForm.Has("token"):
		s.Of = "token"
		cookie, err = p.s.cfg.Members.SignInByLink(p.r, p.value("token"))
	case p.r.PostForm.Has("email"):
		s.Of = "email"
		err = p.s.cfg.Members.RequestLink(p.r, s.Email)
	default:
		s.Of = "key"
		cookie, err = p.s.cfg.Members.SignInByKey(p.r, p.value("key"))
	}
	if e := (*api.Error)(nil); errors.As(err, &e) && e.GetStatus() < http.StatusInternalServerError {
		return p.signInAgain(s, e)
	}
	if err != nil {
		return err
	}
	if cookie == nil {
		p.keepNext(s.Next, 15*time.Minute)
		// What it says is the same whoever has the address.
		p.redirect(addressed(Path+"/sign-in", url.Values{"done": {"link-requested"}, "next": {s.Next}}))
		return nil
	}
	p.signedIn(s.Next, cookie)
	return nil
}

// signInAgain is the page on which a session begins, with what went wrong.
func (p *page) signInAgain(s signIn, err error) error {
	p.show("", "Sign in")
	s.Problem = problemOf(err)
	p.answers(s.Problem)
	p.render("signin", s)
	return nil
}

// signedIn leads on with the cookies of a new session.
func (p *page) signedIn(next string, cookies ...*http.Cookie) {
	p.setCookies(cookies)
	p.keepNext("", -time.Second)
	p.redirect(next)
}

func (p *page) setCookies(cookies []*http.Cookie) {
	for _, c := range cookies {
		http.SetCookie(p.w, c)
	}
}

// keepNext keeps where to go once a mailed link is used, or the provider has sent the browser back. It is no secret, and believed no more than an address.
func (p *page) keepNext(next string, age time.Duration) {
	http.SetCookie(p.w, &http.Cookie{
		Name: nextCookie, Value: url.QueryEscape(next), Path: Path + "/sign-in", MaxAge: int(age.Seconds()),
		HttpOnly: true, SameSite: http.SameSiteLaxMode, Secure: strings.HasPrefix(p.s.cfg.PublicURL, "https:"),
	})
}

// keptNext is what keepNext has kept; empty for nothing.
func (p *page) keptNext() string {
	kept, err := p.r.Cookie(nextCookie)
	if err != nil {
		return ""
	}
	next, _ := url.QueryUnescape(kept.Value) // one that can't be read is none
	return next
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
