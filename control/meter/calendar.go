package meter

import (
	"strings"
	"time"
	_ "time/tzdata" // the rules of all zones, for machines that have none

	"muniment/gateway/api"
)

// calendar divides time into buckets in one time zone. Buckets are contiguous: a day has 23 or 25
// hours when the clocks change, and a repeated hour is two buckets, which differ in their offset.
type calendar struct {
	unit string
	zone *time.Location
}

// The units of a bucket. A week begins on Monday (ISO 8601).
const (
	minute = "minute"
	hour   = "hour"
	day    = "day"
	week   = "week"
	month  = "month"
)

// newCalendar checks the unit, one of the five, and the IANA name of a zone. "Local" is refused:
// responses must not depend on the machine's time zone.
func newCalendar(unit, zone string) (calendar, error) {
	if zone == "" {
		zone = "UTC"
	}
	at, err := time.LoadLocation(zone)
	if err != nil || zone == "Local" || strings.HasPrefix(zone, "right/") || strings.HasPrefix(zone, "posix/") {
		return calendar{}, api.InvalidField("timeZone", "is not an IANA time zone, such as Europe/Berlin")
	}
	return calendar{unit, at}, nil
}

// starts lists the starts of all buckets that overlap with from ≤ t < to. ok is false if there are
// more than limit.
func (c calendar) starts(from, to time.Time, limit int) (starts []time.Time, ok bool) {
	for at := c.start(from); at.Before(to); at = c.next(at) {
		if len(starts) == limit {
			return nil, false
		}
		starts = append(starts, at)
	}
	return starts, true
}

// start returns the start of the bucket that contains t.
func (c calendar) start(t time.Time) time.Time {
	t = t.In(c.zone)
	var at time.Time
	switch y, m, d := t.Date(); c.unit {
	case minute, hour:
		at = t.Add(-c.sinceWhole(t))
		if began := offsetBegan(t); at.Before(began) {
			at = began
		}
	case day:
		at = c.midnight(y, m, d)
	case week:
		at = c.midnight(y, m, d-int(t.Weekday()+6)%7)
	case month:
		at = c.midnight(y, m, 1)
	}
	// When clocks are set back across midnight, t may show a date that has already ended.
	for next := c.next(at); !next.After(t); next = c.next(at) {
		at = next
	}
	return at
}

// next returns the start of the bucket after the one that starts at at.
func (c calendar) next(at time.Time) time.Time {
	switch y, m, d := at.Date(); c.unit {
	case day:
		return c.midnight(y, m, d+1)
	case week:
		return c.midnight(y, m, d-int(at.Weekday()+6)%7+7)
	case month:
		return c.midnight(y, m+1, 1)
	}
	next := at.Add(c.length() - c.sinceWhole(at))
	if ends := offsetEnds(at); !ends.IsZero() && ends.Before(next) {
		return ends
	}
	return next
}

// length is the length of a minute or an hour.
func (c calendar) length() time.Duration {
	if c.unit == minute {
		return time.Minute
	}
	return time.Hour
}

// sinceWhole is the time since the last full minute or hour on the clock.
func (c calendar) sinceWhole(t time.Time) time.Duration {
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

// midnight returns the first moment at which clocks show the date's 00:00 or later. Some dates begin
// at 01:00, some begin twice, and some in the Pacific don't exist. time.Date is no help: it doesn't
// specify which of two moments it returns.
func (c calendar) midnight(y int, m time.Month, d int) time.Time {
	shown := time.Date(y, m, d, 0, 0, 0, 0, time.UTC)
	at := shown.Add(-26 * time.Hour).In(c.zone) // surely before it
	for {
		_, offset := at.Zone()
		began, ends := at.ZoneBounds()
		first := shown.Add(-time.Duration(offset) * time.Second)
		if first.Before(began) {
			first = began
		}
		if ends.IsZero() || first.Before(ends) {
			return first.In(c.zone)
		}
		at = ends
	}
}
