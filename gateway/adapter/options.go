package adapter

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	_ "time/tzdata" // a container may have no list of zones
)

// The parameters that formats take, beside format.
const (
	optionDisplay    = "display"
	optionDwell      = "dwellMs"
	optionIDType     = "idType"
	optionLength     = "lengthMs"
	optionType       = "type"
	optionZone       = "tz"
	optionMultiplier = "multiplier"
	optionSeparator  = "separator"
	optionTimeFormat = "timeFormat"
	optionVendor     = "vendor"
	optionColumn     = "column." // followed by a field of a row
)

// readOptions reads the request's parameters. A misspelt one would silently make other rows
// of a document, with identities of their own: what a format does not take is refused.
func (d *document) readOptions() error {
	d.vendor = d.format.Name
	if len(d.format.ids) > 0 {
		d.ids = d.format.ids[:1]
	}
	for _, name := range slices.Sorted(maps.Keys(d.header.Query)) {
		if name == "format" {
			continue
		}
		column, isColumn := strings.CutPrefix(name, optionColumn)
		kind := name
		if isColumn {
			kind = optionColumn
		}
		if !slices.Contains(d.format.options, kind) {
			return unreadable("unknown parameter %s: %s", quoted(name), d.format.optionNames())
		}
		values := d.header.Query[name]
		if len(values) != 1 || values[0] == "" || len(values[0]) > maxText {
			return unreadable("the parameter %s must be given once, with 1 to %d bytes", quoted(name), maxText)
		}
		if err := d.readOption(kind, column, values[0]); err != nil {
			return err
		}
	}
	return nil
}

func (d *document) readOption(kind, column, value string) (err error) {
	switch kind {
	case optionVendor:
		d.vendor = value
	case optionDwell:
		d.usualDwell, err = d.readDwell(kind, value)
	case optionLength:
		d.length, err = d.readDwell(kind, value)
	case optionIDType:
		d.ids = strings.Split(value, ",")
		if len(d.format.ids) == 0 { // it is every row's
			d.ids = []string{value}
			break
		}
		for i, id := range d.ids {
			if !slices.Contains(d.format.ids, id) {
				return unreadable("idType: unknown id %s: the format %s has %s", quoted(id), d.format.Name, strings.Join(d.format.ids, ", "))
			}
			if slices.Contains(d.ids[:i], id) {
				return unreadable("idType: %s is given twice", id)
			}
		}
	case optionDisplay:
		d.display = value
	case optionType:
		if d.statType = value; value != "media" && value != "layout" {
			return unreadable("type: must be media or layout")
		}
	case optionZone:
		d.zone, err = readZone(value)
	case optionSeparator:
		d.separator, err = readSeparator(value)
	case optionTimeFormat:
		d.dates, err = readTimeFormat(value)
	case optionMultiplier:
		if d.single = value == "none"; !d.single {
			return unreadable("multiplier: must be none, with which each play counts as one impression")
		}
	case optionColumn:
		return d.readColumn(column, value)
	}
	return err
}

// readDwell reads a parameter that is a number of milliseconds.
func (d *document) readDwell(name, value string) (*float64, error) {
	p := d.play("")
	number := p.number(name, value)
	if number != nil {
		p.dwell(name, *number)
	}
	if p.fault != nil {
		return nil, unreadable("%s", p.fault)
	}
	return number, nil
}

func (f *Format) optionNames() string {
	names := slices.Clone(f.options)
	for i, name := range names {
		if name == optionColumn {
			names[i] = "column.<field>"
		}
	}
	return "the format " + f.Name + " takes " + strings.Join(append([]string{"format"}, names...), ", ")
}

// readSeparator reads what parts the cells of a table.
func readSeparator(text string) (byte, error) {
	if i := slices.Index([]string{"comma", "semicolon", "tab"}, text); i >= 0 {
		return separators[i], nil
	}
	if len(text) == 1 && strings.Contains(",;\t|", text) {
		return text[0], nil
	}
	return 0, unreadable("separator: must be , ; | or tab")
}

// readZone reads the name of a zone, as America/Toronto, or an offset, as +02:00. A plus that
// was not escaped arrives as a space.
func readZone(text string) (*time.Location, error) {
	if offset, ok := strings.CutPrefix(text, " "); ok {
		text = "+" + offset
	}
	if t, err := time.Parse("Z07:00", text); err == nil && text != "Z" {
		_, seconds := t.Zone()
		return time.FixedZone(text, seconds), nil
	}
	zone, err := time.LoadLocation(text)
	if err != nil || text == "Local" {
		return nil, unreadable("tz: unknown zone %s: it must be a name such as America/Toronto, or an offset such as %%2B02:00", quoted(text))
	}
	return zone, nil
}

func unreadable(format string, args ...any) *DocumentError {
	return &DocumentError{fmt.Sprintf(format, args...)}
}

// quoted is a text from a request as a message may hold it.
func quoted(text string) string { return fmt.Sprintf("%.64q", text) }
