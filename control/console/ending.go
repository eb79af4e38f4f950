package console

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"time"

	"muniment.example/gateway/client"
)

const (
	// mostDays is how far ahead a list of what ends looks.
	mostDays = 3650
	// mostEnding is how many of those that end a page lists; its file has more.
	mostEnding = 200
	// mostLooked is how many that end then a page looks at, the newest first, for those of them that end first.
	mostLooked = 2_000
)

// endsFilter is the choice of the days within which something ends. An address may name others.
func endsFilter(p *page) filter {
	f := filter{Name: "ends", Label: "Ends within", Options: []string{"7", "14", "30", "90"}, Names: map[string]string{}}
	if days, err := endsWithin(p); err == nil && days > 0 && !slices.Contains(f.Options, strconv.Itoa(days)) {
		f.Options = append(f.Options, strconv.Itoa(days))
	}
	for _, days := range f.Options {
		f.Names[days] = days + " days"
	}
	return f
}

// endsWithin is the number of days that the address names; 0 for none.
func endsWithin(p *page) (days int, err error) {
	written := p.filters("ends").Get("ends")
	if written == "" {
		return 0, nil
	}
	if days, err = strconv.Atoi(written); err != nil || days < 1 || days > mostDays {
		return 0, invalid("ends", fmt.Sprintf("must be a number of days from 1 to %d, such as 30", mostDays))
	}
	return days, nil
}

// endQuery selects what ends from now on and until the end of the day that is so many days ahead.
func (p *page) endQuery(days int) (query url.Values, until time.Time) {
	now := p.s.cfg.Now()
	until = p.zone().after(now, days)
	return url.Values{"endsAfter": {stamp(now)}, "endsBy": {stamp(until)}}, until
}

// ended is a list of what ends, the first to end first.
type ended[T any] struct {
	list[T]
	end func(T) time.Time
	// needs reports whether its end is of interest; nil: it always is.
	needs func(T) bool
}

// records are all of them among so many records of which each ends then; more is whether there are others.
func (e ended[T]) records(p *page, filters url.Values, days, most int) (all []T, more bool, err error) {
	e.query, _ = p.endQuery(days)
	for name, values := range filters {
		if name != "ends" {
			e.query[name] = values
		}
	}
	if all, more, err = e.all(p, most); err != nil {
		return nil, false, err
	}
	all = slices.DeleteFunc(all, func(one T) bool { return e.needs != nil && !e.needs(one) })
	slices.SortStableFunc(all, func(a, b T) int { return e.end(a).Compare(e.end(b)) })
	return all, more, nil
}

// show renders the page of a list, of what ends within the days that the address names.
func (e ended[T]) show(p *page, page listed, one, several string, filters []filter) error {
	chosen := p.filters(namesOf(filters)...)
	days, err := endsWithin(p)
	var records []T
	var more bool
	if err == nil {
		records, more, err = e.records(p, chosen, days, mostLooked)
	}
	if page.Problem = wrong(err); err != nil && page.Problem == nil {
		return err
	}
	if page.Problem != nil {
		p.answers(page.Problem)
	} else {
		_, until := p.endQuery(days)
		within := fmt.Sprintf("within %s, until %s", counted(int64(days), "day"), p.zone().end(until))
		n := int64(len(records))
		noun, verb := several, "end"
		if n == 1 {
			noun, verb = one, "ends"
		}
		said := fmt.Sprintf("%s %s %s %s, ", count(n), noun, verb, within)
		page.Said = said + "the first to end first."
		page.None = fmt.Sprintf("No %s ends %s.", one, within)
		if len(chosen) > 1 {
			page.None = fmt.Sprintf("No %s that fits the other filters ends %s.", one, within)
		}
		switch {
		case more:
			page.Said = fmt.Sprintf("%samong the newest %s that do: narrow the filters, or take the CSV, for others.", said, count(int64(mostLooked)))
			page.None = page.Said
		case len(records) > mostEnding:
			page.Said += fmt.Sprintf(" These are the first %d; the CSV has all.", mostEnding)
		}
	}
	page.Table = table{Columns: e.columns, Rows: e.rows(p, records[:min(len(records), mostEnding)]), File: addressed(p.Path+".csv", chosen)}
	return p.renderList(page, filters)
}

// send sends the same as a file.
func (e ended[T]) send(p *page, name string, filters ...string) error {
	if err := p.missing(e.op); err != nil {
		return err
	}
	days, err := endsWithin(p)
	if err != nil {
		return err
	}
	records, more, err := e.records(p, p.filters(append(filters, "ends")...), days, maxFileRows)
	if err != nil {
		return err
	}
	e.sheet(p, fmt.Sprintf("%s-that-end-within-%d-days", name, days), records, more)
	return nil
}

// endingRights are rights that end. One that is revoked, itself or by another, ends no more; one that is suspended may be resumed.
func endingRights(titles map[string]string, names works) ended[client.Right] {
	return ended[client.Right]{rightsList(nil, titles, names), func(r client.Right) time.Time { return r.EffectiveUntil }, notRevoked}
}

func notRevoked(r client.Right) bool { return r.EffectiveState != "REVOKED" }

func endingBases() ended[client.Basis] {
	return ended[client.Basis]{basesList(), func(b client.Basis) time.Time { return b.EffectiveUntil }, nil}
}

// soonDays is within how many days what ends needs somebody.
const soonDays = 14

// endingSoon counts what ends soon of a list, for the overview. Its page is that of the list, asked for the same days.
func endingSoon[T any](p *page, op, plural string, t task, needs func(T) bool) (*task, error) {
	query, _ := p.endQuery(soonDays)
	t.Href = addressed(t.Href, url.Values{"ends": {strconv.Itoa(soonDays)}})
	return waiting(p, op, plural, query, t, needs)
}
