// Package calendar knows when the days, weeks and months of an IANA time zone begin, and reads periods
// that are named by them. Settlement rules are of months, so whoever checks a statement needs it too.
//
// The rules of the zones are the machine's, or those built into the program if the machine has none. They
// change when governments change clocks, so what must last names the moments too.
package calendar

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
	_ "time/tzdata" // the rules of all zones, for machines that have none
)

// Calendar divides time into buckets of a unit in one time zone. Buckets are contiguous: a day has 23 or 25
// hours when the clocks change, and a repeated hour is two buckets, which differ in their offset.
type Calendar struct {
	Unit string
	Zone *time.Location
}

// The units of a bucket. A week begins on Monday (ISO 8601).
const (
	Minute = "minute"
	Hour   = "hour"
	Day    = "day"
	Week   = "week"
	Month  = "month"
)

// ErrZone says that a name is not that of a time zone, for the caller, who knows the field.
var ErrZone = errors.New("is not an IANA time zone, such as Europe/Berlin")

// MaxZone is the most bytes that the name of a zone has.
const MaxZone = 64

// Zone returns the time zone of an IANA name; UTC if it is empty. Names that stand for the
// machine's own zone are refused: responses must not depend on it.
func Zone(name string) (*time.Location, error) {
	if name == "" {
		name = "UTC"
	}
	zone, err := time.LoadLocation(name)
	if err != nil || len(name) > MaxZone || name == "Local" || name == "localtime" || name == "posixrules" || strings.HasPrefix(name, "right/") || strings.HasPrefix(name, "posix/") {
		return nil, ErrZone
	}
	return zone, nil
}

// forms are those of periods, with their units.
var forms = []struct {
	unit string
	form *regexp.Regexp
}{
	{Month, regexp.MustCompile(`^(\d{4})-(\d\d)$`)},
	{Week, regexp.MustCompile(`^(\d{4})-W(\d\d)$`)},
	{Day, regexp.MustCompile(`^(\d{4})-(\d\d)-(\d\d)$`)},
}

// PeriodPattern is the form of a text that Period reads.
const PeriodPattern = `^\d{4}-((0[1-9]|1[0-2])|W(0[1-9]|[1-4]\d|5[0-3])|(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01]))$`

// Period reads a month (2026-11), a week of ISO 8601 (2026-W48) or a day (2026-11-28), of the years 1970 to
// 9998, and returns its first moment and that of the next one. The error is for the caller, who knows the
// field.
func Period(text string, zone *time.Location) (from, to time.Time, err error) {
	for _, f := range forms {
		parts := f.form.FindStringSubmatch(text)
		if parts == nil {
			continue
		}
		numbers := []int{0, 0, 1}
		for i, part := range parts[1:] {
			numbers[i], _ = strconv.Atoi(part)
		}
		c, year := Calendar{f.unit, zone}, numbers[0]
		if f.unit == Week {
			// 4 January is in the first week of its year.
			from = c.start(c.Midnight(year, time.January, 4+7*(numbers[1]-1)))
		} else {
			from = c.Midnight(year, time.Month(numbers[1]), numbers[2])
		}
		if to = c.Next(from); c.name(from) != text || year < 1970 || year > 9998 {
			break
		}
		return from, to, nil
	}
	return from, to, fmt.Errorf("must be a month, such as 2026-11, a week, such as 2026-W48, or a day, such as 2026-11-28, that the calendar of %s has", zone)
}

// Name returns the text by which Period reads a period; empty if there is none.
func Name(from, to time.Time, zone *time.Location) string {
	for _, f := range forms {
		c := Calendar{f.unit, zone}
		if name := c.name(from.In(zone)); c.start(from).Equal(from) && c.Next(from.In(zone)).Equal(to) {
			return name
		}
	}
	return ""
}

// name is that of the month, week or day that begins at a moment.
func (c Calendar) name(at time.Time) string {
	switch c.Unit {
	case Month:
		return at.Format("2006-01")
	case Week:
		year, week := at.ISOWeek()
		return fmt.Sprintf("%04d-W%02d", year, week)
	}
	return at.Format(time.DateOnly)
}

// Starts lists the starts of all buckets that overlap with from ≤ t < to. ok is false if there are
// more than limit.
func (c Calendar) Starts(from, to time.Time, limit int) (starts []time.Time, ok bool) {
	for at := c.start(from); at.Before(to); at = c.Next(at) {
		if len(starts) == limit {
			return nil, false
		}
		starts = append(starts, at)
	}
	return starts, true
}

// start returns the start of the bucket that contains t.
func (c Calendar) start(t time.Time) time.Time {
	t = t.In(c.Zone)
	var at time.Time
	switch y, m, d := t.Date(); c.Unit {
	case Minute, Hour:
		at = t.Add(-c.sinceWhole(t))
		if began := offsetBegan(t); at.Before(began) {
			at = began
		}
	case Day:
		at = c.Midnight(y, m, d)
	case Week:
		at = c.Midnight(y, m, d-int(t.Weekday()+6)%7)
	case Month:
		at = c.Midnight(y, m, 1)
	}
	// When clocks are set back across midnight, t may show a date that has already ended.
	for next := c.Next(at); !next.After(t); next = c.Next(at) {
		at = next
	}
	return at
}

// Next returns the start of the bucket after the one that starts at at.
func (c Calendar) Next(at time.Time) time.Time {
	switch y, m, d := at.Date(); c.Unit {
	case Day:
		return c.Midnight(y, m, d+1)
	case Week:
		return c.Midnight(y, m, d-int(at.Weekday()+6)%7+7)
	case Month:
		return c.Midnight(y, m+1, 1)
	}
	next := at.Add(c.length() - c.sinceWhole(at))
	if ends := offsetEnds(at); !ends.IsZero() && ends.Before(next) {
		return ends
	}
	return next
}

// length is the length of a minute or an hour.
func (c Calendar) length() time.Duration {
	if c.Unit == Minute {
		return time.Minute
	}
	return time.Hour
}

// sinceWhole is the time since the last full minute or hour on the clock.
func (c Calendar) sinceWhole(t time.Time) time.Duration {
	_, offset := t.Zone()
	shown := t.Add(time.Duration(offset) * time.Second).UTC()
	return shown.Sub(shown.Truncate(c.length()))
}

// offsetBegan returns when the clocks were last changed, at t or before; the zero time if they never
// were.
func offsetBegan(t time.Time) time.Time {
	_, offset := t.Zone()
	for {
		began, _ := t.ZoneBounds()
		if began.IsZero() {
			return began
		}
		if _, before := began.Add(-time.Second).Zone(); before != offset {
			return began
		}
		t = began.Add(-time.Second) // only the zone's name changed
	}
}

// offsetEnds returns when the clocks are next changed after t; the zero time if they never are.
func offsetEnds(t time.Time) time.Time {
	_, offset := t.Zone()
	for {
		_, ends := t.ZoneBounds()
		if ends.IsZero() {
			return ends
		}
		if _, after := ends.Zone(); after != offset {
			return ends
		}
		t = ends
	}
}

// Midnight returns the first moment at which clocks show the date's 00:00 or later. Some dates begin
// at 01:00, some begin twice, and some in the Pacific don't exist. time.Date is no help: it doesn't
// specify which of two moments it returns.
func (c Calendar) Midnight(y int, m time.Month, d int) time.Time {
	shown := time.Date(y, m, d, 0, 0, 0, 0, time.UTC)
	at := shown.Add(-26 * time.Hour).In(c.Zone) // surely before it
	for {
		_, offset := at.Zone()
		began, ends := at.ZoneBounds()
		first := shown.Add(-time.Duration(offset) * time.Second)
		if first.Before(began) {
			first = began
		}
		if ends.IsZero() || first.Before(ends) {
			return first.In(c.Zone)
		}
		at = ends
	}
}
