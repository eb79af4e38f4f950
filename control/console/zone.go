package console

import (
	"regexp"
	"strings"
	"time"

	"muniment.example/sealer/calendar"
)

// zone is the tenant's time zone. All times and dates that pages show and forms take are of it: its methods are the only
// ones that write or read them. Each page names it once, in the layout.
type zone struct{ *time.Location }

// zone is that of the session; UTC for somebody who has not signed in.
func (p *page) zone() zone {
	if p.Session == nil || p.Session.Zone == nil {
		return zone{time.UTC}
	}
	return zone{p.Session.Zone}
}

// Zone is the name of the page's zone.
func (p *page) Zone() string { return p.zone().String() }

// when is a moment for people.
func (z zone) when(t time.Time) string { return z.written(t, "2 Jan 2006, 15:04:05") }

// minute is a moment that is known to the minute, for people.
func (z zone) minute(t time.Time) string { return z.written(t, "2 Jan 2006, 15:04") }

// day is the date of a moment for people.
func (z zone) day(t time.Time) string { return z.written(t, "2 Jan 2006") }

// named is a moment as the name of a file has it.
func (z zone) named(t time.Time) string { return z.written(t, "2006-01-02T1504") }

// written is a moment in a form; a dash for none.
func (z zone) written(t time.Time, form string) string {
	if t.IsZero() {
		return "–"
	}
	return t.In(z.Location).Format(form)
}

// begin is a moment from which something holds: its day alone, if it is the first one of that.
func (z zone) begin(t time.Time) string {
	if z.beginsDay(t) {
		return z.day(t)
	}
	return z.when(t)
}

// end is a moment from which something no longer holds: the last day, if it is whole.
func (z zone) end(t time.Time) string {
	if z.beginsDay(t) {
		return "the end of " + z.day(t.Add(-time.Millisecond))
	}
	return z.when(t)
}

// span is a period from from on and before to: by its first and last day, if these are whole.
func (z zone) span(from, to time.Time) string {
	if z.beginsDay(from) && z.beginsDay(to) {
		if first, last := z.day(from), z.day(to.Add(-time.Millisecond)); first != last {
			return first + " to " + last
		}
		return z.day(from)
	}
	return z.when(from) + " to " + z.when(to)
}

// lasts is the time in which something holds, which may have no end.
func (z zone) lasts(from, until time.Time) string {
	if until.IsZero() {
		return z.begin(from) + " to no end"
	}
	return z.begin(from) + " to " + z.end(until)
}

// beginsDay reports whether a moment is the first one of a day.
func (z zone) beginsDay(t time.Time) bool {
	year, month, day := t.In(z.Location).Date()
	return !t.IsZero() && t.Equal(calendar.Calendar{Unit: calendar.Day, Zone: z.Location}.Midnight(year, month, day))
}

// shownAs is how pages show a moment that a member of the API has: effectiveUntil is an end, from which on something holds no more.
func shownAs(member string) func(zone, time.Time) string {
	switch member {
	case "effectiveFrom", "from":
		return zone.begin
	case "effectiveUntil", "to":
		return zone.end
	}
	return zone.when
}

// stamps are the times that messages of the API have.
var stamps = regexp.MustCompile(`\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`)

// told is a message of the API with its times as show has them.
func (z zone) told(message string, show func(zone, time.Time) string) string {
	return stamps.ReplaceAllStringFunc(message, func(stamp string) string {
		t, err := time.Parse(time.RFC3339, stamp)
		if err != nil {
			return stamp
		}
		return show(z, t)
	})
}

// after is the end of the day that is so many days after that of t.
func (z zone) after(t time.Time, days int) time.Time {
	year, month, day := t.In(z.Location).Date()
	year, month, day = time.Date(year, month, day+days+1, 0, 0, 0, 0, time.UTC).Date()
	return calendar.Calendar{Unit: calendar.Day, Zone: z.Location}.Midnight(year, month, day)
}

// month is the first moment of the month of t.
func (z zone) month(t time.Time) time.Time {
	year, month, _ := t.In(z.Location).Date()
	return calendar.Calendar{Unit: calendar.Day, Zone: z.Location}.Midnight(year, month, 1)
}

// today is the day of a moment as the API has it.
func (z zone) today(now time.Time) string { return now.In(z.Location).Format(time.DateOnly) }

// lastMonth is the month before that of now, as 2026-10.
func (z zone) lastMonth(now time.Time) string { return z.month(now).Add(-time.Hour).Format("2006-01") }

// monthOf reads a month, such as 2026-10.
func (z zone) monthOf(month string) (from, to time.Time, err error) {
	if _, err := time.Parse("2006-01", month); err != nil {
		return from, to, invalid("month", "is no month: write it as 2026-10")
	}
	from, to, err = calendar.Period(month, z.Location)
	if err != nil {
		err = invalid("month", err.Error())
	}
	return from, to, err
}

// called is a period from from on and before to: by its month, if it is one. Either may be open.
func (z zone) called(from, to time.Time) string {
	switch {
	case from.IsZero() && to.IsZero():
		return "all time"
	case from.IsZero():
		return "all time until " + z.end(to)
	case to.IsZero():
		return "all time since " + z.begin(from)
	case from.Equal(z.month(from)) && to.Equal(z.month(from.AddDate(0, 0, 32))):
		return from.In(z.Location).Format("January 2006")
	}
	return z.span(from, to)
}

// The forms of a moment in a field of a form, as browsers write it: datetime-local.
const (
	fieldMinutes = "2006-01-02T15:04"
	fieldSeconds = "2006-01-02T15:04:05.999"
	fieldOffset  = "2006-01-02T15:04:05.999Z07:00" // no browser writes it: such a field is one of text
)

// again is the other moment at which the clocks show what they show at t, as they are set back; zero if there is none.
func (z zone) again(t time.Time) time.Time {
	t = t.In(z.Location)
	_, offset := t.Zone()
	from, until := t.ZoneBounds()
	for _, beside := range []time.Time{from.Add(-time.Nanosecond), until} {
		_, there := beside.In(z.Location).Zone()
		if other := t.Add(time.Duration(offset-there) * time.Second); !other.Equal(t) && wall(other).Equal(wall(t)) {
			return other
		}
	}
	return time.Time{}
}

// wall is what the clocks show at t, as a time of UTC.
func wall(t time.Time) time.Time {
	_, offset := t.Zone()
	return t.Add(time.Duration(offset) * time.Second).UTC()
}

// field is a moment as a field of a form has it: with its offset in an hour that is there twice; empty for none.
func (z zone) field(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	t = t.In(z.Location)
	if !z.again(t).IsZero() {
		return t.Format(fieldOffset)
	}
	if t.Truncate(time.Minute).Equal(t) {
		return t.Format(fieldMinutes)
	}
	return t.Format(fieldSeconds)
}

// read reads what a field or an address has: a date, which is its first moment, a time, or either of RFC 3339, which names
// its offset itself. why is what is wrong with it; empty if nothing: a time that the clocks never show, or twice, is none.
func (z zone) read(text string) (t time.Time, why string) {
	text = strings.TrimSpace(text)
	if from, _, err := calendar.Period(text, z.Location); err == nil && len(text) == len(time.DateOnly) && text[4] == '-' && text[5] != 'W' {
		return from, ""
	}
	for _, form := range []string{fieldMinutes, "2006-01-02 15:04", fieldSeconds} {
		shown, err := time.Parse(form, text)
		if err != nil {
			continue
		}
		t, _ := time.ParseInLocation(form, text, z.Location)
		if !wall(t).Equal(shown) {
			return t, "is skipped: the clocks of " + z.String() + " are set forward then"
		}
		if other := z.again(t); !other.IsZero() {
			if other.Before(t) {
				t, other = other, t
			}
			return t, "is there twice, as the clocks of " + z.String() + " are set back: write " + z.field(t) + " or " + z.field(other)
		}
		return t, ""
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return t, "is no time: write it as 2026-12-31 08:00, or the day alone"
	}
	return t, ""
}

// refield is what an address has, as a field of a form has it; unchanged if it is no time.
func (z zone) refield(text string) string {
	if t, why := z.read(text); why == "" {
		return z.field(t)
	}
	return text
}

// local reports whether a browser's own field of a time can have a text, and nothing is to be added to it.
func (z zone) local(text string) bool {
	_, why := z.read(text)
	_, minutes := time.Parse(fieldMinutes, text)
	_, seconds := time.Parse(fieldSeconds, text)
	return text == "" || why == "" && (minutes == nil || seconds == nil)
}
