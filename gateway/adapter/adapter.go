// Package adapter converts the documents that fleets and their vendors already send to rows of
// POST /v1/delivery/ingest-batch: proofs of play, billing notices, tracking calls, measurements.
//
// # Formats
//
// ?format= says which one it is, or for some the type of the body. Each is one file, whose
// comment names the public page that it follows.
//
//	format       document                                        vendorId is its                         parameters
//	broadsign    Broadsign: request of the Real-Time POP API     display_unit_id                         tz, multiplier
//	cloudevents  CloudEvents 1.0, structured, batched or binary  as the data, a row, says
//	csv          CSV with a header line (text/csv)               as the columns say                      column.<field>, separator, timeFormat, tz
//	dv360        Google DV360: out-of-home ad plays              adUnit, else adUnitExternalId           multiplier
//	omsdk        Open Measurement SDK: events of ad sessions     verificationParameters                  lengthMs
//	openrtb      OpenRTB 2.6: billing notices for DOOH           dooh.id                                 dwellMs, multiplier
//	vast         VAST 4: tracking URLs (text/uri-list)           universaladid                           lengthMs, tz
//	vistar       Vistar Media: ads and when they were shown      venue_id                                –
//	xibo         Xibo: statistics of a player, or exported       display                                 display, multiplier, type, tz
//
// A body is sent as it is; gateway/integrating.md has a request of each.
//
// # How a document becomes rows
//
// A row names a vendor, by default the format, else ?vendor=, and an id that a mapping resolves
// to right and anchor. ?idType= selects another id of the document, or several, as in
// idType=display_unit_id,campaign_id, which are joined to one vendorId with commas. The id that
// the vendor gives to one play only is the rowId. The events of one ad of vast and omsdk make one
// row and must be in one document: events that are sent later are another row of the same
// identity, which is refused.
//
// Times become UTC. A time without a zone needs ?tz=, and is refused if clocks in that zone show
// it twice. The vendor's number of viewers of a play is the multiplier, rounded to four decimals.
// A vendor's 0 is refused, because a row counts as at least one; with multiplier=none each play
// counts as one.
//
// Nothing is guessed: a required field that the document lacks, or whose meaning is ambiguous,
// is a *RowError that names the document's own field, and the other rows are not affected.
// Fields that are not named in a format's file are skipped, such as devices, addresses and
// people.
//
// Memory is a small multiple of the document's size, whatever it holds.
package adapter

import (
	"bytes"
	"iter"
	"mime"
	"net/url"
	"reflect"
	"slices"
	"time"
)

// Format converts the documents of one vendor or standard to rows.
type Format struct {
	Name string // the value of ?format=

	// ids are what of a document may be the vendorId, by the document's own names: what
	// ?idType= takes. The first is the one where the request names none.
	ids []string
	// options are the other parameters that it takes.
	options []string
	// media are the types of a body that is of this format, whatever ?format= says.
	media []string
	read  func(*document) error

	kind Kind
	// lists are those of plays that an object may have, and beside the member that they share.
	lists  []string
	beside string
	play   reflect.Type // a struct of the members that are used of one
	// event reads an event of a session, of Lines and Events.
	event func(d *document, all *sessions, text []byte)
}

// formats are all of them.
var formats = [...]*Format{&broadsign, &cloudEvents, &csvColumns, &dv360, &omSDK, &openRTB, &vast, &vistar, &xibo}

// Names lists what ?format= takes, in alphabetical order.
func Names() []string {
	names := make([]string, len(formats))
	for i, f := range formats {
		names[i] = f.Name
	}
	return names
}

// Lookup finds a format by its name, as ?format= says it, or where that says nothing by the
// media type of a body, with or without parameters.
func Lookup(format, mediaType string) (Format, bool) {
	if format == "" {
		mediaType, _, _ = mime.ParseMediaType(mediaType)
	}
	for _, f := range formats {
		if format != "" && f.Name == format || format == "" && slices.Contains(f.media, mediaType) {
			return *f, true
		}
	}
	return Format{}, false
}

// Header is what a request states besides its body.
type Header struct {
	// Field is a header field by its name in lower case, "" if there is none.
	Field func(name string) string
	// Query holds the parameters of the request's URL.
	Query url.Values
	// Warn, if it is set, is called with what the sender of a document should know of its rows, once or more.
	Warn func(message string)
	// Now is the service's time: no play ends more than api.MostAhead later.
	Now time.Time
}

// Rows reads a document, which must not change while rows are read. Each element is a row as
// one JSON object, as api.Row has it, which is the caller's to keep; or a *RowError in its
// place. A document that can't be read is one *DocumentError and no row.
//
// Rows may be many more than a batch holds: the caller stops when it has enough. Formats that gather a
// row from several events stop by themselves, one row above that.
func (f Format) Rows(h Header, body []byte) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		d := document{format: &f, header: h, body: bytes.TrimPrefix(body, byteOrderMark), yield: yield}
		err := d.readOptions()
		if err == nil {
			err = f.read(&d)
		}
		if err != nil && !d.stopped {
			yield(nil, err)
		}
	}
}

// RowError says why a row of a document is invalid.
type RowError struct {
	// Field is the field at fault with the row's place, in the document's own words, as in
	// pop[3].end_time; the place alone where no field is at fault, "" where there is none.
	Field   string
	Message string
	// Parameter is that of the request which may be at fault instead, as it is missing or wrong; "" if there is
	// none.
	Parameter string

	listed *listed
	format *Format
}

// Play is what the list of a document says of the play: all of it, and an excerpt to be kept, which is a JSON
// object of the members that its format uses. Either is nil where there is none.
func (e *RowError) Play() (all, excerpt []byte) {
	if e.listed == nil {
		return nil, nil
	}
	return e.listed.value, e.listed.excerpt(e.format)
}

func (e *RowError) Error() string {
	if e.Field == "" {
		return e.Message
	}
	return e.Field + ": " + e.Message
}

// DocumentError says why no row of a document could be read.
type DocumentError struct{ Message string }

func (e *DocumentError) Error() string { return e.Message }

// byteOrderMark begins the text files of some systems.
var byteOrderMark = []byte("\ufeff")

// document is one that is being read, and what the request says of it.
type document struct {
	format  *Format
	header  Header
	body    []byte
	yield   func([]byte, error) bool
	stopped bool // the caller has enough

	// Of the request's parameters:
	vendor     string            // vendor; the format's name where there is none
	ids        []string          // idType, taken apart; the format's first where there is none
	zone       *time.Location    // tz; nil where there is none
	single     bool              // multiplier=none: each play counts as one impression
	length     *float64          // lengthMs: how long the ad is, where its player does not say it
	usualDwell *float64          // dwellMs: how long a play is of which the document does not say it
	columns    map[string]string // column.<field>: the name of the column that holds a field of a row
	separator  byte              // separator, or what the header shows; 0: not known
	dates      dates             // timeFormat, or what the table shows
	lines      table
	display    string // display: whose statistics these are
	statType   string // type: layout, or media where there is none
}

// warn tells the caller something of the whole document.
func (d *document) warn(message string) {
	if d.header.Warn != nil {
		d.header.Warn(message)
	}
}

// emit hands a play to the caller, or what is wrong with it. It says whether to go on.
func (d *document) emit(p *play) bool {
	var row []byte
	var err error
	if p.fault == nil {
		p.refuseAhead()
	}
	if p.fault != nil {
		p.fault.listed, p.fault.format = p.listed, p.format
		err = p.fault
	} else {
		row = p.row.AppendJSON(nil)
	}
	d.stopped = !d.yield(row, err)
	return !d.stopped
}
