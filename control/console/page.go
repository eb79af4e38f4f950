package console

import (
	"bytes"
	"context"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"muniment.example/control/member"
	"muniment.example/gateway/client"
)

// page is a page while it is made. Templates read its exported members.
type page struct {
	s      *Service
	w      http.ResponseWriter
	r      *http.Request
	status int // 0: 200

	Session  *member.Session // nil: of somebody who has not signed in
	unsigned error           // why there is no session
	Path     string
	Title    string
	Section  string // of the navigation
	Data     any

	payables map[string]payables // of statements, which are read once
	// What readNewest keeps.
	rights         *newestOf[client.Right]
	bases          *newestOf[client.Basis]
	counterparties *newestOf[client.Counterparty]

	mu       sync.Mutex
	actors   func() map[string]string // the names of keys and members; nil until one is shown
	Requests []request                // of /v1 that the page has made
	patience time.Time                // when it waits no more for reads that are refused; zero: none was
}

type pageKey struct{}

func withPage(ctx context.Context, p *page) context.Context {
	return context.WithValue(ctx, pageKey{}, p)
}

func pageOf(ctx context.Context) *page { return ctx.Value(pageKey{}).(*page) }

// show sets what the layout says.
func (p *page) show(section, title string) { p.Section, p.Title = section, title }

// render writes the page.
func (p *page) render(view string, data any) {
	p.Data = data
	var text bytes.Buffer
	if err := p.s.views[view].ExecuteTemplate(&text, "layout", p); err != nil {
		panic(err) // control logs it, and responds
	}
	p.w.Header().Set("Content-Type", "text/html; charset=utf-8")
	if p.status != 0 {
		p.w.WriteHeader(p.status)
	}
	_, _ = text.WriteTo(p.w) // a browser that is gone reads nothing
}

// answers makes the response that of a problem, whose times become the page's.
func (p *page) answers(e *problem) {
	e.Message = p.zone().told(e.Message, zone.when)
	for i := range e.ValidationErrors {
		fault := &e.ValidationErrors[i]
		fault.Message = p.zone().told(fault.Message, shownAs(fault.Field))
	}
	p.status = e.Status
	p.s.backoff.Tell(p.w.Header(), e.wait, e.Reason)
}

// section is an entry of the navigation: Op is an operation that its page needs.
type section struct{ Name, Path, op string }

var sections = []section{
	{"Overview", "", ""},
	{"Plays", "/plays", "list-receipts"},
	{"Rights", "/rights", "list-rights"},
	{"Offers", "/offers", "list-offers"},
	{"Challenges", "/challenges", "list-challenges"},
	{"Money", "/money", "list-settlement-rules"},
	{"Disputes", "/disputes", "list-disputes"},
	{"Proof", "/proof", "list-proof-packs"},
	{"Webhooks", "/webhooks", "list-webhooks"},
	{"Keys", "/keys", "list-api-keys"},
	{"Requests", "/requests", "list-refused-requests"},
	{"Members", "/members", "list-members"},
	{"Data", "/data", "list-dsar-jobs"},
}

// Sections are the parts of the console that the session may read.
func (p *page) Sections() []section {
	var mine []section
	for _, s := range sections {
		if s.op == "" || p.can(s.op) {
			s.Path = Path + s.Path
			mine = append(mine, s)
		}
	}
	return mine
}

// Can reports whether the session may call an operation.
func (p *page) Can(op string) bool { return p.can(op) }

// SignInAgain is where to sign in again, and to come back to this page.
func (p *page) SignInAgain() string {
	return addressed(Path+"/sign-in", url.Values{"again": {"1"}, "next": {p.Path}})
}

// doneCookie keeps what an act has done for the one page that says it. An address would say it to whoever opens it.
const doneCookie = "muniment_done"

// Done is what an act before this page has done; empty for none. It is said once, and on the page that the act led to.
func (p *page) Done() string {
	if asked := p.r.URL.Query().Get("done"); p.Path == Path+"/sign-in" && p.Session == nil && (asked == "signed-out" || asked == "link-requested") {
		return deeds[asked] // of whoever has no session
	}
	kept, err := p.r.Cookie(doneCookie)
	if err != nil {
		return ""
	}
	p.keepDone("", -1)
	deed, on, _ := strings.Cut(kept.Value, ".")
	if path, err := url.QueryUnescape(on); err != nil || path != p.Path {
		return ""
	}
	return deeds[deed]
}

func (p *page) keepDone(value string, age int) {
	http.SetCookie(p.w, &http.Cookie{
		Name: doneCookie, Value: value, Path: Path, MaxAge: age, HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: strings.HasPrefix(p.s.cfg.PublicURL, "https:"),
	})
}

// done leads to a page that says what was done.
func (p *page) done(to, deed string) {
	if _, known := deeds[deed]; !known {
		panic("the deed " + deed + " is not known")
	}
	if !p.may(to) {
		to = Path
	}
	if path, err := url.PathUnescape(to); err == nil {
		p.keepDone(deed+"."+url.QueryEscape(path), 60)
	}
	p.redirect(to)
}

// value is a trimmed value of the form. Its lines end as the API has them: browsers send those of a text area with a carriage
// return each.
func (p *page) value(name string) string {
	return strings.ReplaceAll(last(p.r.PostForm[name]), "\r\n", "\n")
}

// filters are those of a list that the address has, trimmed, without empty ones.
func (p *page) filters(names ...string) url.Values {
	chosen := url.Values{}
	for _, name := range names {
		if value := last(p.r.URL.Query()[name]); value != "" {
			chosen.Set(name, value)
		}
	}
	return chosen
}

// Curls are the requests behind the page, as curl sends them.
func (p *page) Curls() []string {
	list := make([]string, len(p.Requests))
	for i, r := range p.Requests {
		list[i] = p.curl(r)
	}
	return list
}

// curl is a request as a person can send it, with the key in the environment.
func (p *page) curl(r request) string {
	text := "curl "
	if r.Method != http.MethodGet {
		text += "-X " + r.Method + " "
	}
	text += quoted(strings.TrimSuffix(p.s.cfg.PublicURL, "/")+r.Target) + " \\\n  -H \"Authorization: Bearer $MUNIMENT_KEY\""
	if r.Body != "" {
		text += " \\\n  -H 'Content-Type: application/json' \\\n  -d " + quoted(r.Body)
	}
	return text
}

// quoted is a word of a shell.
func quoted(word string) string { return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'" }
