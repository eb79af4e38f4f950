package adapter

import (
	"cmp"
	"fmt"
	"math"
	"regexp"
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
	// msgNameZone follows it where a parameter could mend it.
	msgNameZone = ": name that of the clock with the parameter tz, such as tz=America/Toronto"
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

// dates is how a table writes its days.
type dates struct {
	order dayOrder
	// layout is that of package time, if the request names one; in place of it epoch units are possible.
	layout string
	unit   time.Duration

	dayFirst, monthFirst bool // some date can only be read so
}

// dayOrder is the order of day and month in dates that begin with one of them.
type dayOrder uint8

const (
	asTheFileShows dayOrder = iota
	dayMonth
	monthDay
)

const msgTimeFormat = "timeFormat: must be us (10/24/2026), european (24/10/2026), mixed (each only as it can be read in one way), epoch, epochMs, or a pattern such as DD/MM/YYYY HH:mm:ss"

// tableTime is a time as spreadsheets, loggers and people write it: a date in any of three orders, a time
// of day with or without seconds and AM or PM, and a zone or none.
var tableTime = regexp.MustCompile(`^(\d{1,4})([-/.])(\d{1,2})([-/.])(\d{1,4})[T ,]+(\d{1,2}):(\d\d)(?::(\d\d)(?:[.,](\d{1,9}))?)?\s*([AaPp]\.?[Mm]\.?)?\s*(Z|[+-]\d\d(?::?\d\d)?)?$`)

// learn keeps what a date shows of the order of all.
func (d *dates) learn(text string) {
	first, second, ok := ambiguous(tableTime.FindStringSubmatch(plainTime(strings.TrimSpace(text))))
	d.dayFirst = d.dayFirst || ok && first > 12 && second <= 12
	d.monthFirst = d.monthFirst || ok && second > 12 && first <= 12
}

// ambiguous are the parts of a date that may be day and month, or month and day.
func ambiguous(parts []string) (first, second int, ok bool) {
	if parts == nil || len(parts[1]) > 2 || len(parts[5]) != 4 || parts[2] == "." {
		return 0, 0, false
	}
	return digits(parts[1], 99), digits(parts[3], 99), true
}

// tableClock reads a time of a table, which must be there.
func (p *play) tableClock(field, text string) (t time.Time) {
	text = strings.TrimSpace(text)
	if text == "" {
		p.refuse(field, "is missing")
		return t
	}
	if unit := cmp.Or(p.dates.unit, epochUnit(text)); p.dates.layout == "" && unit != 0 {
		return p.epoch(field, p.number(field, text), unit)
	}
	wall, zoned, message := p.dates.read(text)
	if message == "" && !zoned {
		wall, message = ofWall(wall, p.zone)
	}
	if message == msgNoZone {
		message += msgNameZone
	}
	if message != "" {
		p.refuse(field, message)
	}
	return wall
}

// epochUnit is the unit of a text that is a number of seconds or milliseconds since 1970, of this century;
// 0 if it is none.
func epochUnit(text string) time.Duration {
	whole, part, _ := strings.Cut(text, ".")
	switch {
	case strings.Trim(whole+part, "0123456789") != "":
		return 0
	case len(whole) == 10:
		return time.Second
	case len(whole) == 13:
		return time.Millisecond
	}
	return 0
}

// read reads a time; zoned says that it names its zone.
func (d *dates) read(text string) (t time.Time, zoned bool, message string) {
	if d.layout != "" {
		t, err := time.Parse(d.layout, text)
		if err != nil {
			return t, false, "must be a time as the parameter timeFormat says"
		}
		return t, strings.Contains(d.layout, "Z07") || strings.Contains(d.layout, "-07"), ""
	}
	parts := tableTime.FindStringSubmatch(plainTime(text))
	if parts == nil || parts[2] != parts[4] {
		return t, false, msgTableTime
	}
	year, month, day := parts[1], parts[3], parts[5]
	if len(year) != 4 {
		year, month, day = parts[5], parts[3], parts[1]
		if len(year) != 4 {
			return t, false, "must have a year of four digits"
		}
		first, second, either := ambiguous(parts)
		order := d.order
		switch {
		case order != asTheFileShows:
		case !either: // with points
			order = dayMonth
		case first > 12 || d.dayFirst && !d.monthFirst && second <= 12:
			order = dayMonth
		case second > 12 || d.monthFirst && !d.dayFirst:
			order = monthDay
		default:
			return t, false, "is ambiguous: its day or its month may stand first; say which with the parameter timeFormat: us or european"
		}
		if order == monthDay {
			month, day = day, month
		}
	}
	number := func(text string) int { return digits(cmp.Or(text, "0"), 9999) }
	hour, minute, second := number(parts[6]), number(parts[7]), number(parts[8])
	if half := strings.ToLower(parts[10]); half != "" {
		if hour < 1 || hour > 12 {
			return t, false, msgTableTime
		}
		if hour %= 12; half[0] == 'p' {
			hour += 12
		}
	}
	nanoseconds := number((parts[9] + "000000000")[:4])*100_000 + number((parts[9] + "000000000")[4:9])
	t = time.Date(number(year), time.Month(number(month)), number(day), hour, minute, second, nanoseconds, time.UTC)
	if t.Month() != time.Month(number(month)) || t.Day() != number(day) || hour > 23 || minute > 59 || second > 59 {
		return t, false, "is no time of any day"
	}
	if parts[11] == "" {
		return t, false, ""
	}
	for _, layout := range []string{"Z07:00", "Z0700", "Z07"} {
		if offset, err := time.Parse(layout, parts[11]); err == nil {
			_, seconds := offset.Zone()
			return t.Add(-time.Duration(seconds) * time.Second), true, ""
		}
	}
	return t, false, msgTableTime
}

const msgTableTime = "must be a time, such as 2026-10-24T18:00:00Z; the parameter timeFormat names another form, such as timeFormat=DD/MM/YYYY HH:mm:ss"

// readTimeFormat reads the parameter: a name, or a pattern in one of the two usual notations.
func readTimeFormat(text string) (d dates, err error) {
	switch strings.ToLower(text) {
	case "us":
		return dates{order: monthDay}, nil
	case "european":
		return dates{order: dayMonth}, nil
	case "epoch":
		return dates{unit: time.Second}, nil
	case "epochms":
		return dates{unit: time.Millisecond}, nil
	case "mixed":
		return dates{dayFirst: true, monthFirst: true}, nil
	}
	layout, tokens := "", patternToken
	if strings.Contains(text, "%") {
		tokens = strftimeToken
	}
	for len(text) > 0 {
		found := tokens.FindStringIndex(text)
		if found == nil || found[0] > 0 {
			if c := text[0]; c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' && c != 'T' {
				return d, unreadable(msgTimeFormat)
			}
			layout, text = layout+text[:1], text[1:]
			continue
		}
		layout += patternParts[text[:found[1]]]
		text = text[found[1]:]
	}
	some := time.Date(2026, 10, 24, 18, 5, 0, 0, time.UTC)
	if again, err := time.Parse(layout, some.Format(layout)); err != nil || !again.Equal(some) { // something is not in it
		return d, unreadable(msgTimeFormat)
	}
	return dates{layout: layout}, nil
}

var (
	patternToken  = regexp.MustCompile(`YYYY|yyyy|MM?M?|DD?|dd?|HH?|hh?|mm|ss|SSS|fff|tt|[AaZ]|XXX|zzz`)
	strftimeToken = regexp.MustCompile(`%[YmdHIMSfpzbB]`)
	patternParts  = map[string]string{
		"YYYY": "2006", "yyyy": "2006", "MMM": "Jan", "MM": "01", "M": "1", "DD": "02", "dd": "02", "D": "2", "d": "2", "HH": "15", "H": "15", "hh": "03", "h": "3",
		"mm": "04", "ss": "05", "SSS": "000", "fff": "000", "tt": "PM", "A": "PM", "a": "PM", "Z": "Z07:00", "XXX": "Z07:00", "zzz": "Z07:00",
		"%Y": "2006", "%m": "01", "%d": "02", "%H": "15", "%I": "03", "%M": "04", "%S": "05", "%f": "000000", "%p": "PM", "%z": "Z0700", "%b": "Jan", "%B": "January",
	}
)
