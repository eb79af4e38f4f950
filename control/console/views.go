package console

import (
	"fmt"
	"html/template"
	"io/fs"
	"path"
	"strings"
	"time"

	"muniment.example/gateway/api"
	"muniment.example/gateway/client"
)

// readViews parses the templates: each is a page in the layout, with the parts. Their functions are the same for every
// request, so each is escaped once; what depends on the session, as times do on its zone, are methods of the page.
func readViews() (map[string]*template.Template, error) {
	common, err := template.New("").Funcs(template.FuncMap{
		"stamp": stamp, "short": short, "count": count, "figure": figure, "money": money, "counted": counted, "hexed": hexed, "seconds": seconds, "date": date, "unit": func(name string) string { return unitWords[name] }, "long": long, "mood": mood, "words": words, "console": func() string { return Path },
		"dict": dict,
		"has": func(all []string, one string) bool {
			for _, a := range all {
				if a == one {
					return true
				}
			}
			return false
		},
		"advice": advice, "exported": exportOf,
	}).ParseFS(views, "view/layout.html", "view/parts.html")
	if err != nil {
		return nil, err
	}
	names, err := fs.Glob(views, "view/*.html")
	if err != nil {
		return nil, err
	}
	all := map[string]*template.Template{}
	for _, name := range names {
		view := strings.TrimSuffix(path.Base(name), ".html")
		if view == "layout" || view == "parts" {
			continue
		}
		one, err := common.Clone()
		if err == nil {
			one, err = one.ParseFS(views, name)
		}
		if err != nil {
			return nil, err
		}
		all[view] = one
	}
	return all, nil
}

// What templates call for times, in the page's zone; Time is a cell.
func (p *page) When(t time.Time) string                  { return p.zone().when(t) }
func (p *page) Day(t time.Time) string                   { return p.zone().day(t) }
func (p *page) From(t time.Time) string                  { return p.zone().begin(t) }
func (p *page) Until(t time.Time) string                 { return p.zone().end(t) }
func (p *page) Span(from, to time.Time) string           { return p.zone().span(from, to) }
func (p *page) Lasts(from, until time.Time) string       { return p.zone().lasts(from, until) }
func (p *page) Titled(statement client.Statement) string { return p.zone().titled(statement) }
func (p *page) Time(t time.Time) cell                    { return p.shown(moment(t)) }

// Filter is a filter as the form above a list has it.
func (p *page) Filter(f filter) filter {
	if f.Kind == "time" {
		f.Value = p.zone().refield(f.Value)
		f.Plain = !p.zone().local(f.Value)
	}
	return f
}

// Field is a field as a form has it.
func (p *page) Field(f field) field {
	f.Plain = f.Kind == "time" && !p.zone().local(f.Value)
	return f
}

// dict makes the members of a part.
func dict(pairs ...any) (map[string]any, error) {
	made := map[string]any{}
	for i := 0; i+1 < len(pairs); i += 2 {
		name, ok := pairs[i].(string)
		if !ok {
			return nil, fmt.Errorf("the member %v has no name", pairs[i])
		}
		made[name] = pairs[i+1]
	}
	return made, nil
}

// advice is what to do about a refused request.
func advice(e *problem) string {
	switch {
	case e.Status == 503:
		return "Nothing is wrong with your request. Wait a moment and load the page again."
	case e.Code == api.AuthRequired || e.Code == api.AuthInvalid:
		return "Sign in again: a session ends after 8 hours without use, after a day, and with the key or the role that it came from."
	case e.Code == api.ScopeMissing:
		return "Ask somebody who may manage keys or members of your tenant for this scope."
	case e.Code == api.ResourceNotFound:
		return "Check the address. What belongs to another tenant is not found, either."
	case e.Code == api.RateLimited:
		return "Wait a moment and load the page again."
	case e.Code == api.StateConflict || e.Code == api.ValidationFailed: // which say themselves what to do
		return ""
	case e.Status == 500:
		return "This is a fault of the service. If it stays, send the request id to your operator."
	}
	return "Go back and change what is named here."
}
