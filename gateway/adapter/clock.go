package adapter

import (
	"fmt"
	"math"
	"strings"
	"time"
)

// layouts are times with a zone: RFC 3339, with a space for the T, and the offsets without minutes that
// VAST shows, or without a colon.
var layouts = [...]string{"2006-01-02T15:04:05Z07:00", "2006-01-02T15:04:05Z07", "2006-01-02T15:04:05Z0700"}

// localLayout is a time without one.
const localLayout = "2006-01-02T15:04:05"

const (
	msgNoTime = "must be a time, such as 2026-10-24T18:00:00Z"
	msgNoZone = "has no zone"
)

// readTime reads a time; where it names no zone it is of the zone given. message says what is
// wrong with it, if anything is.
func readTime(text string, zone *time.Location) (t time.Time, message string) {
	text = plainTime(text)
	for _, layout := range layouts {
		if t, err := time.Parse(layout, text); err == nil {
			return t, ""
		}
	}
	if wall, err := time.Parse(localLayout, text); err == nil {
		return ofWall(wall, zone)
	}
	return t, msgNoTime
}

// plainTime writes a time as RFC 3339 does: with a T where a space or a t stands, a Z for a z or UTC,
// and the offset right behind the time.
func plainTime(text string) string {
	const day = len("2006-01-02")
	if len(text) > day && (text[day] == 't' || text[day] == ' ') {
		text = text[:day] + "T" + text[day+1:]
	}
	if local, ok := strings.CutSuffix(text, " UTC"); ok {
		text = local + "Z"
	}
	if local, ok := strings.CutSuffix(text, "z"); ok {
		text = local + "Z"
	}
	if at := strings.LastIndexByte(text, ' '); at > 0 && (strings.HasPrefix(text[at:], " +") || strings.HasPrefix(text[at:], " -")) {
		text = text[:at] + text[at+1:]
	}
	return text
}

// ofWall is the moment at which clocks in a zone show what wall shows in UTC. Where they are
// set back they show it twice, where they are set forward never.
func ofWall(wall time.Time, zone *time.Location) (t time.Time, message string) {
	if zone == nil {
		return t, msgNoZone
	}
	t = time.Date(wall.Year(), wall.Month(), wall.Day(), wall.Hour(), wall.Minute(), wall.Second(), wall.Nanosecond(), zone)
	shown := func(offsetOf time.Time) bool { // whether with this moment's offset, too, clocks show wall at some moment
		_, seconds := offsetOf.In(zone).Zone()
		other := wall.Add(-time.Duration(seconds) * time.Second)
		_, then := other.In(zone).Zone()
		return then == seconds && !other.Equal(t)
	}
	start, end := t.ZoneBounds()
	_, seconds := t.Zone()
	switch {
	case !wall.Equal(t.Add(time.Duration(seconds) * time.Second)):
		return t, fmt.Sprintf("does not exist: clocks in %s skip it", zone)
	case !start.IsZero() && shown(start.Add(-1)), !end.IsZero() && shown(end):
		return t, fmt.Sprintf("is ambiguous: clocks in %s show it twice; send the plays of that hour separately, with an offset such as tz=%%2B02:00", zone)
	}
	return t, ""
}

// ofEpoch is the moment so many units after 1970, to the millisecond that receipts have, if it
// has a year of four digits.
func ofEpoch(count float64, unit time.Duration) (t time.Time, ok bool) {
	milliseconds := math.Round(count * float64(unit/time.Millisecond))
	if !(milliseconds >= 0 && milliseconds < 253402300800000) { // the year 10000
		return t, false
	}
	return time.UnixMilli(int64(milliseconds)).UTC(), true
}

// stamp is a moment as playedAt has it: UTC, so that a play has one text, however often and in
// whatever zone it is sent. It is "" for what RFC 3339 can't say.
func stamp(t time.Time) string {
	t = t.UTC()
	if t.Year() < 1 || t.Year() > 9999 {
		return ""
	}
	return t.Format(time.RFC3339Nano)
}
