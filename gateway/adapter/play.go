package adapter

import (
	"encoding/json"
	"fmt"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"muniment.example/gateway/api"
)

// The bounds of api.Row, so that what exceeds one is named by the document's own field.
const (
	maxText       = 512 // bytes
	maxDwellMs    = 68719476736
	maxMultiplier = 10000
)

// play is one play of a document while its row is filled in. Of several faults the first one
// is kept.
type play struct {
	*document
	place string // where it stands in the document, such as "pop[3]"; "" if that holds nothing else
	row   api.Row
	fault *RowError

	listed *listed

	begins           time.Time
	beginsIn, endsIn string // where the document says so
}

// listed is what a document with a list of plays says of one.
type listed struct {
	of    id // what it says beside the list
	value jsontext.Value
}

func (d *document) play(place string) *play { return &play{document: d, place: place} }

// plays hands out a play for each element of an array, as read fills it in.
func (d *document) plays(place string, array jsontext.Value, read func(p *play, value jsontext.Value)) {
	for place, value := range elements(place, array) {
		p := d.play(place)
		read(p, value)
		if !d.emit(p) {
			return
		}
	}
}

// eachList hands out the plays that each object has in the format's list, and with them an id of all,
// if the object has one beside the list.
func (d *document) eachList(read func(p *play, value jsontext.Value)) error {
	list, beside := d.format.lists[0], d.format.beside
	return d.each(func(place string, object jsontext.Value) error {
		var plays, ofAll jsontext.Value
		if err := members(object, map[string]*jsontext.Value{list: &plays, beside: &ofAll}); err != nil {
			return err
		}
		var of id
		if ofAll != nil && of.UnmarshalJSON(ofAll) != nil {
			return unreadable("%s must be a string or a number", beside)
		}
		if len(of) > maxText {
			return unreadable("%s must be at most %d bytes", beside, maxText)
		}
		if plays.Kind() != jsontext.KindBeginArray {
			return unreadable("%s must be an array of plays", list)
		}
		d.plays(member(place, list), plays, func(p *play, value jsontext.Value) {
			p.listed = &listed{of, value}
			read(p, value)
		})
		return nil
	})
}

// refuse says what is wrong with a field, by the document's own name.
func (p *play) refuse(field, message string, args ...any) {
	if p.fault != nil {
		return
	}
	if len(args) > 0 {
		message = fmt.Sprintf(message, args...)
	}
	p.fault = &RowError{Field: p.where(field), Message: message}
}

// where is a field's place in the document.
func (p *play) where(field string) string {
	if column, ok := p.columns[field]; ok {
		field = column
	}
	switch {
	case p.place == "" || field == "" || field[0] == '[':
		return p.place + field
	case strings.HasPrefix(p.place, "line "):
		return p.place + ", " + field
	}
	return p.place + "." + field
}

// takes says whether a parameter could mend a fault.
func (p *play) takes(option string) bool { return slices.Contains(p.format.options, option) }

// text fills in a text of the row, if the document says it.
func (p *play) text(dst *string, field, value string) {
	if len(value) > maxText {
		p.refuse(field, "must be at most %d bytes", maxText)
		return
	}
	*dst = value
}

// named fills in vendor, idType and vendorId from ids of the document. Several are one vendorId,
// joined by commas in the order of idType.
func (p *play) named(ids []string, of map[string]id) {
	values := make([]string, len(ids))
	for i, name := range ids {
		switch values[i] = string(of[name]); {
		case values[i] == "":
			p.refuse(name, "is missing")
		case len(ids) > 1 && strings.Contains(values[i], ","):
			p.refuse(name, "must not contain a comma where idType names several ids")
		}
	}
	p.row.Vendor, p.row.IDType = p.vendor, strings.Join(ids, ",")
	p.text(&p.row.VendorID, ids[len(ids)-1], strings.Join(values, ","))
}

// known fills in rowId from what the vendor promises to be one play's alone.
func (p *play) known(field string, parts ...string) {
	for i := range parts {
		parts[i] = url.QueryEscape(parts[i])
	}
	if p.row.RowID = strings.Join(parts, "/"); len(p.row.RowID) > maxText {
		p.refuse(field, "makes a rowId of more than %d bytes", maxText)
	}
}

// clock reads a time of the document, which must be there.
func (p *play) clock(field, value string) (t time.Time) {
	if value == "" {
		p.refuse(field, "is missing")
		return t
	}
	t, message := readTime(value, p.zone)
	unzoned := message == msgNoZone && p.takes(optionZone)
	if unzoned {
		message += msgNameZone
	}
	if message != "" && p.fault == nil {
		if p.refuse(field, message); unzoned {
			p.fault.Parameter = optionZone
		}
	}
	return t
}

// epoch reads a time of the document as a number of units since 1970, which must be there.
func (p *play) epoch(field string, value *float64, unit time.Duration) (t time.Time) {
	if value == nil {
		p.refuse(field, "is missing")
		return t
	}
	t, ok := ofEpoch(*value, unit)
	if !ok {
		p.refuse(field, "must be a time, as the number of %s since 1970", map[time.Duration]string{time.Second: "seconds", time.Millisecond: "milliseconds"}[unit])
	}
	return t
}

// played fills in playedAt.
func (p *play) played(field string, t time.Time) {
	if p.row.PlayedAt = stamp(t); p.row.PlayedAt == "" {
		p.refuse(field, "must be within the years 1 to 9999")
	}
	p.begins, p.beginsIn = t, p.where(field)
}

// refuseAhead refuses a play that ends in the future: no clock, or no unit, is to be trusted there.
func (p *play) refuseAhead() {
	latest := p.header.Now.Add(api.MostAhead)
	switch {
	case p.begins.After(latest):
		p.fault = &RowError{Field: p.beginsIn, Message: "is more than 5 minutes ahead of the service's clock"}
		if p.zone != nil {
			p.fault.Parameter = optionZone
		}
	case p.row.DwellMs > float64(latest.Sub(p.begins))/float64(time.Millisecond):
		p.fault = &RowError{Field: p.endsIn, Message: "ends the play more than 5 minutes ahead of the service's clock"}
	}
}

// dwell fills in dwellMs.
func (p *play) dwell(field string, milliseconds float64) {
	if !(milliseconds >= 0 && milliseconds <= maxDwellMs) {
		p.refuse(field, "must be from 0 to %d milliseconds", maxDwellMs)
		return
	}
	p.row.DwellMs, p.endsIn = milliseconds+0, p.where(field) // −0 + 0 is 0
}

// ofSeconds are milliseconds, to the microsecond: 1.001 s are 1001 ms, and not the least less.
func ofSeconds(seconds float64) float64 { return math.Round(seconds*1e6) / 1e3 }

// before is when a play began that ended at some moment.
func (p *play) before(end time.Time) time.Time {
	return end.Add(-time.Duration(p.row.DwellMs * float64(time.Millisecond)))
}

// number reads a number that was written as a decimal; nil if it is none, or not there.
func (p *play) number(field, decimal string) *float64 {
	if decimal == "" {
		return nil
	}
	n, err := strconv.ParseFloat(decimal, 64)
	if err != nil || strings.Trim(decimal, "0123456789.eE+-") != "" { // ParseFloat reads more: Inf, 0x1p4
		p.refuse(field, "must be a number")
		return nil
	}
	return &n
}

// multiplier fills in what the vendor counts the play as, rounded to the four decimals that a
// row has. Vendors' counts are averages, and may have any number of them.
func (p *play) multiplier(field, decimal string) {
	if decimal == "" || p.single {
		return
	}
	count := p.number(field, decimal)
	if count == nil {
		return
	}
	switch rounded := strconv.FormatFloat(*count, 'f', 4, 64); {
	case *count > maxMultiplier:
		p.refuse(field, "must be at most %d", maxMultiplier)
	case *count < 0:
		p.refuse(field, "must not be negative")
	case strings.Trim(rounded, "-0.") == "" && p.takes(optionMultiplier):
		p.refuse(field, "must be more than 0; with the parameter multiplier=none each play counts as one impression")
	case strings.Trim(rounded, "-0.") == "":
		p.refuse(field, "must be more than 0")
	default:
		p.row.Multiplier = json.Number(strings.TrimSuffix(strings.TrimRight(rounded, "0"), "."))
	}
}

// needed hands on a number that must be there.
func (p *play) needed(field string, value *float64, use func(field string, value float64)) {
	if value == nil {
		p.refuse(field, "is missing")
		return
	}
	use(field, *value)
}

// either is the first of several ways to say one thing, one of which there must be.
func (p *play) either(field string, values ...string) string {
	for _, value := range values {
		if value != "" {
			return value
		}
	}
	p.refuse(field, "is missing")
	return ""
}
