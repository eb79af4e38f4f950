package adapter

import (
	"io"
	"net/url"
	"slices"
	"time"
)

// What a sender of documents that are longer than a batch has to know to cut them: of each piece the rows
// are those that the whole document has.

// Kind is how documents of a format are made, and so where they can be cut.
type Kind uint8

const (
	// Values are JSON values, in an array or one after another: objects of a play each, or with a list
	// of plays.
	Values Kind = iota
	// Table is CSV with a header line.
	Table
	// Lines are events of sessions, one a line.
	Lines
	// Events are JSON values that are events of sessions.
	Events
	// Elements are XML elements, or a table.
	Elements
)

// Kind is how documents of this format are made.
func (f Format) Kind() Kind { return f.kind }

// Lists names the lists of plays that an object of Values may have, and the member beside them that they
// share; both may be empty.
func (f Format) Lists() (lists []string, beside string) { return f.lists, f.beside }

// Event is what a sender who cuts a log must know of an event of a session, of Lines or Events.
type Event struct {
	// Session names it; "" for an event that is of none.
	Session string
	At      time.Time // zero where it can't be read
	// Begins says that the ad was shown, or started, and Complete that it was seen to its end, or that
	// nothing more of it is to come.
	Begins, Complete bool
	// Length is that of the ad, if the event says it.
	Length time.Duration
}

// Events returns a function that reads an event as Rows would, with the parameters of the header.
func (f Format) Events(h Header) (func(text []byte) Event, error) {
	d := document{format: &f, header: h}
	if err := d.readOptions(); err != nil {
		return nil, err
	}
	return func(text []byte) (e Event) {
		var all sessions
		f.event(&d, &all, text)
		for key, s := range all.byKey {
			e = Event{Session: key}
			for _, m := range s.moments {
				e.At = m.at
				e.Begins = e.Begins || m.kind == shown || m.kind == started
				e.Complete = e.Complete || m.kind == completed || m.kind == ended
				if e.Length = s.lengthOf(nil); m.kind == completed {
					e.Length = s.lengthOf(&m)
				}
			}
		}
		return e
	}, nil
}

// TableOf is a table that is to be cut: what only the whole of it shows.
type TableOf struct {
	d       document
	times   []int // the columns of times
	columns int
}

// ReadTable reads the header line of a Table in UTF-8, and the parameters with which it is sent.
func ReadTable(h Header, header []byte) (*TableOf, error) {
	t := &TableOf{d: document{format: &csvColumns, header: h}}
	if err := t.d.readOptions(); err != nil {
		return nil, err
	}
	cells, places, err := t.d.readHeader(string(header))
	if err != nil {
		return nil, err
	}
	t.columns, t.times = len(cells), timeColumns(places)
	return t, nil
}

// Separator parts the cells.
func (t *TableOf) Separator() byte { return t.d.separator }

// Columns is how many the header has.
func (t *TableOf) Columns() int { return t.columns }

// Learn takes in what a line shows of all others. The error says what is wrong with its quotation marks.
func (t *TableOf) Learn(line []byte) error {
	cells, _, err := t.d.table(string(line)).next()
	if err != nil && err != io.EOF {
		return err
	}
	t.d.learn(t.times, cells)
	return nil
}

// Options are the parameters with which a piece of the table is sent, so that it is read as the whole is.
func (t *TableOf) Options() url.Values {
	all := url.Values{}
	for name, values := range t.d.header.Query {
		all[name] = slices.Clone(values)
	}
	all.Set(optionSeparator, map[byte]string{',': "comma", ';': "semicolon", '\t': "tab", '|': "|"}[t.d.separator])
	if d := &t.d.dates; !all.Has(optionTimeFormat) {
		switch {
		case d.dayFirst && d.monthFirst:
			all.Set(optionTimeFormat, "mixed")
		case d.dayFirst:
			all.Set(optionTimeFormat, "european")
		case d.monthFirst:
			all.Set(optionTimeFormat, "us")
		}
	}
	return all
}
