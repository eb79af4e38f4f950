package route

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"muniment.example/control/store"
	"muniment.example/gateway/api"
	"muniment.example/sealer/calendar"
)

// Time is a time in the body of a request; Given reads it. Its format in the document is not
// date-time, which allows only RFC 3339: callers may use other forms of ISO 8601.
type Time string

// Schema implements huma.SchemaProvider.
func (Time) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{
		Type: huma.TypeString, MaxLength: new(64), Examples: []any{"2026-11-01T12:00:00Z"},
		Description: "A date or a time of ISO 8601, with its offset from UTC.",
		Extensions:  map[string]any{Form: TimePattern},
	}
}

// Form is the extension of a schema that has the pattern for the document. Requests are not validated
// by it: what reads the text has better messages.
const Form = "x-form"

// TimePattern is the form of a text that ParseTime reads.
const TimePattern = `^(\d{4}-` + month + `-` + day + `([Tt]` + hour + `:` + sixty + `(:` + sixty + fraction + `)?` + offset + `)?|` +
	`\d{4}` + month + day + `([Tt]` + hour + sixty + `(` + sixty + fraction + `)?` + offset + `)?)$`

const (
	month, day  = `(0[1-9]|1[0-2])`, `(0[1-9]|[12]\d|3[01])`
	hour, sixty = `([01]\d|2[0-3])`, `[0-5]\d`
	fraction    = `([.,]\d+)?`
	offset      = `([Zz]|[+-]` + hour + `(:?` + sixty + `)?)`
)

// The spellings of ISO 8601 for a calendar date, alone or with a time of day and its offset
// from UTC: extended, and basic. The parts are the same in both.
var spellings = []*regexp.Regexp{
	regexp.MustCompile(`^(\d{4})-(\d\d)-(\d\d)(?:([Tt])(\d\d):(\d\d)(?::(\d\d)(?:[.,](\d+))?)?` + zone + `)?$`),
	regexp.MustCompile(`^(\d{4})(\d\d)(\d\d)(?:([Tt])(\d\d)(\d\d)(?:(\d\d)(?:[.,](\d+))?)?` + zone + `)?$`),
}

// zone is optional, so that a missing zone has an error of its own.
const zone = `(?:([Zz])|([+-])(\d\d)(?::?(\d\d))?)?`

var (
	errNoTime = errors.New("must be a date, such as 2026-11-01, or a time, such as 2026-11-01T12:00:00Z or 20261101T120000Z")
	errNoZone = errors.New("has no time zone: end it with Z, or with an offset such as +01:00")
)

// ParseTime reads a time as callers may write it: a calendar date of ISO 8601 with a time of
// day and its offset from UTC, in the basic or the extended format, with or without seconds,
// a fraction of them, and the colon in the offset. A date alone is its first instant in the zone.
// What is finer than nanoseconds is cut off. The error is for the caller, who knows the field.
func ParseTime(text string, zone *time.Location) (time.Time, error) {
	var parts []string
	for _, spelling := range spellings {
		if parts = spelling.FindStringSubmatch(text); parts != nil {
			break
		}
	}
	if parts == nil {
		return time.Time{}, errNoTime
	}
	number := func(part int) int { // 0 for a part that is missing
		n, _ := strconv.Atoi(parts[part])
		return n
	}
	year, month, day, hour, minute, second := number(1), number(2), number(3), number(5), number(6), number(7)
	offsetHour, offsetMinute := number(11), number(12)
	for _, of := range []struct {
		name               string
		value, first, last int
	}{
		{"month", month, 1, 12}, {"day", day, 1, daysOf(year, month)}, {"hour", hour, 0, 23}, {"minute", minute, 0, 59}, {"second", second, 0, 59},
		{"offset hour", offsetHour, 0, 23}, {"offset minute", offsetMinute, 0, 59},
	} {
		switch {
		case of.value < of.first:
			return time.Time{}, fmt.Errorf("%s %d is out of range: the first is %d", of.name, of.value, of.first)
		case of.value > of.last:
			return time.Time{}, fmt.Errorf("%s %d is out of range: the last is %d", of.name, of.value, of.last)
		}
	}
	switch timeOfDay, zoned := parts[4] != "", parts[9]+parts[10] != ""; {
	case timeOfDay && !zoned:
		return time.Time{}, errNoZone
	case !timeOfDay:
		return calendar.Calendar{Zone: zone}.Midnight(year, time.Month(month), day).UTC(), nil
	}
	nanoseconds, _ := strconv.Atoi((parts[8] + "000000000")[:9])
	offset := time.Duration(offsetHour)*time.Hour + time.Duration(offsetMinute)*time.Minute
	if parts[10] == "-" {
		offset = -offset
	}
	return time.Date(year, time.Month(month), day, hour, minute, second, nanoseconds, time.UTC).Add(-offset), nil
}

// daysOf is how many days a month has.
func daysOf(year, month int) int {
	return time.Date(year, time.Month(month)+1, 0, 0, 0, 0, 0, time.UTC).Day()
}

// Given reads an optional time of a request; nil is the zero store.Instant. A text that is not a
// time, or a time outside the years 1970 to 9999, is VALIDATION_FAILED: earlier times could be taken
// for the zero Instant, and later ones have no RFC 3339 form.
func Given[T ~string](field string, text *T) (store.Instant, error) {
	return GivenIn(time.UTC, field, text)
}

// GivenIn is Given with dates in a time zone.
func GivenIn[T ~string](zone *time.Location, field string, text *T) (store.Instant, error) {
	if text == nil {
		return store.Instant{}, nil
	}
	t, err := ParseTime(string(*text), zone)
	if err != nil {
		return store.Instant{}, api.InvalidField(field, err.Error())
	}
	return instant(field, t)
}

// instant refuses a time that records can't store.
func instant(field string, t time.Time) (store.Instant, error) {
	if y := t.Year(); y < 1970 || y > 9999 {
		return store.Instant{}, api.InvalidField(field, "must be within the years 1970 to 9999")
	}
	return store.At(t), nil
}
