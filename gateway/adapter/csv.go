package adapter

import (
	"cmp"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"muniment.example/gateway/api"
)

// csvColumns is a table with a header line (RFC 4180, https://www.rfc-editor.org/rfc/rfc4180), as people
// export it: in UTF-8 or UTF-16, its cells parted by commas, semicolons or tabs, which the header says, or
// the parameter separator.
//
// A column is named as the field of a row that it holds, or column.<field>= says which one holds it. In
// place of dwellMs there may be dwellSeconds, or endedAt, when the play ended. Both numbers may be written
// as HH:MM:SS, and with a decimal comma where that is no separator. plays is how many plays a line sums
// up: it is the multiplier, but one row is one receipt. telemetry is a JSON object; vendor and idType are
// of lines that don't say theirs. Other columns are skipped, whatever they hold.
//
// Times are as the rest of this package reads them, and as tables have them (clock.go); timeFormat says
// how where the file doesn't.
var csvColumns = Format{
	Name:    "csv",
	options: []string{optionColumn, optionIDType, optionSeparator, optionTimeFormat, optionZone, optionVendor},
	kind:    Table,
	media:   []string{"text/csv", "text/tab-separated-values"},
	read:    (*document).readCSV,
}

const (
	dwellSeconds = "dwellSeconds"
	endedAt      = "endedAt"
	playCount    = "plays"
	// mostCells bounds what one line can be taken apart into.
	mostCells = 1 << 18
)

// csvFields are what a column may hold.
var csvFields = []string{"rowId", "playedAt", "dwellMs", dwellSeconds, endedAt, "vendor", "idType", "vendorId", "rightId", "spatialAnchorId",
	"spatialPlacementId", "correlationId", "dataSubjectId", "telemetry", "multiplier", playCount}

var csvNames = api.NewNames(csvFields...)

// readColumn takes the parameter that says which column holds a field.
func (d *document) readColumn(field, column string) error {
	if !slices.Contains(csvFields, field) {
		return unreadable("unknown parameter %s: a column may hold %s", quoted(optionColumn+field), strings.Join(csvFields, ", "))
	}
	if d.columns == nil {
		d.columns = map[string]string{}
	}
	d.columns[field] = column
	return nil
}

// readCSV reads a table. After a misplaced quotation mark the cells are ambiguous, so all of it is looked
// at before any row is returned; then, too, it is known in which order its dates are.
func (d *document) readCSV() error {
	text := string(utf8Of(d.body))
	header, places, err := d.readHeader(text)
	if err != nil {
		return err
	}
	times := timeColumns(places)
	for lines := d.table(text); ; {
		cells, line, err := lines.next()
		if err == io.EOF {
			break
		} else if err != nil {
			return unreadable("line %d: %s", line, err)
		}
		d.learn(times, cells)
	}
	lines := d.table(text)
	_, _, _ = lines.next() // the header
	for {
		cells, line, err := lines.next()
		if err != nil {
			return nil
		}
		p := d.play("line " + strconv.Itoa(line))
		if len(cells) != len(header) {
			p.refuse("", "has %d columns, and the header has %d", len(cells), len(header))
		} else {
			p.readCells(func(field string) string {
				i, ok := places[field]
				if !ok {
					return ""
				}
				if !utf8.ValidString(cells[i]) {
					p.refuse(field, msgNotUTF8)
				}
				return cells[i]
			})
		}
		if !d.emit(p) {
			return nil
		}
	}
}

// table begins to read the table; its list of cells is used again.
func (d *document) table(text string) *table {
	d.lines = table{text: text, separator: d.separator, line: 1, cells: d.lines.cells}
	return &d.lines
}

// timeColumns are those of times.
func timeColumns(places map[string]int) (times []int) {
	for _, field := range []string{"playedAt", endedAt} {
		if i, ok := places[field]; ok {
			times = append(times, i)
		}
	}
	return times
}

// learn keeps what a line shows of the order of days and months in all.
func (d *document) learn(times []int, cells []string) {
	for _, i := range times {
		if i < len(cells) {
			d.dates.learn(cells[i])
		}
	}
}

// readHeader reads the header, and finds what parts its cells: the one separator by which it has columns
// that are used.
func (d *document) readHeader(text string) (header []string, places map[string]int, err error) {
	tried := separators
	if d.separator != 0 {
		tried = []byte{d.separator}
	}
	var fit []byte
	broken := false
	for _, d.separator = range tried {
		if strings.Count(text, string(d.separator)) > mostCells {
			err = unreadable("the document has more than %d of %q", mostCells, d.separator)
			continue
		}
		cells, _, failed := d.table(text).next()
		if failed == io.EOF {
			return nil, nil, unreadable("the document is empty")
		}
		if failed != nil {
			broken = true
			continue
		}
		found, fault := d.places(cells)
		if fault == nil && len(found) > 0 {
			if fit = append(fit, d.separator); len(fit) == 1 {
				header, places = slices.Clone(cells), found
			}
		}
		if len(fit) == 0 && len(cells) > len(header) || header == nil { // of the separator that makes the most cells, what is wrong is reported
			header, places, err = slices.Clone(cells), found, fault
		}
	}
	switch {
	case len(fit) == 0 && broken && len(header) < 2:
		return nil, nil, unreadable("line 1: %s", errQuote)
	case len(fit) > 1 && len(header) > 1:
		return nil, nil, unreadable("the header can be read with %q and with %q between its columns: name the one with the parameter separator", fit[0], fit[1])
	case len(fit) > 0:
		d.separator, err = fit[0], nil
	}
	if err == nil && len(fit) == 0 {
		err = unreadable("the header names no column of a row: say with column.<field>=<column> which column holds what, as in column.playedAt=Start")
	}
	return header, places, err
}

// places are those of the columns that hold fields.
func (d *document) places(header []string) (map[string]int, error) {
	places := map[string]int{}
	for _, field := range csvFields {
		column, mapped := d.columns[field]
		if !mapped {
			column = field
		}
		i := slices.Index(header, column)
		switch {
		case i < 0 && mapped:
			return nil, unreadable("the parameter column.%s: the header has no column %s", field, quoted(column))
		case i >= 0 && slices.Contains(header[i+1:], column):
			return nil, unreadable("the header has the column %s twice", quoted(column))
		case i >= 0:
			places[field] = i
		}
	}
	// Were row_id skipped where rowId is meant, each play would be another one. A request that
	// names the column of a field leaves no doubt.
	used := slices.Collect(maps.Values(places))
	for i, column := range header {
		field := csvNames.Meant([]byte(strings.TrimSpace(column)))
		if _, mapped := d.columns[field]; field != "" && !mapped && !slices.Contains(used, i) {
			return nil, unreadable("the column %s must be named %s", quoted(column), field)
		}
	}
	return places, nil
}

func (p *play) readCells(cell func(field string) string) {
	v := rowFields{
		RowID: cell("rowId"), Vendor: cell("vendor"), IDType: cell("idType"), VendorID: cell("vendorId"),
		RightID: cell("rightId"), SpatialAnchorID: cell("spatialAnchorId"), SpatialPlacementID: cell("spatialPlacementId"),
		CorrelationID: cell("correlationId"), DataSubjectID: cell("dataSubjectId"),
		Telemetry: jsontext.Value(cell("telemetry")), Multiplier: decimal(cell("multiplier")),
	}
	if v.Vendor == "" && p.header.Query.Has(optionVendor) {
		v.Vendor = p.vendor
	}
	if v.VendorID != "" && v.IDType == "" && len(p.ids) > 0 {
		v.IDType = p.ids[0]
	}
	if count := cell(playCount); count != "" {
		if v.Multiplier != "" {
			p.refuse(playCount, "is given together with multiplier")
		}
		p.summed(playCount, count)
	}
	from := p.tableClock("playedAt", cell("playedAt"))
	p.played("playedAt", from)
	p.tableDwell(from, cell)
	p.fill(&v)
}

// tableDwell reads how long a play of a table was, which one of three columns says.
func (p *play) tableDwell(from time.Time, cell func(field string) string) {
	given := ""
	for _, field := range []string{"dwellMs", dwellSeconds, endedAt} {
		text := strings.TrimSpace(cell(field))
		switch {
		case text == "":
			continue
		case given != "":
			p.refuse(field, "is given together with %s", given)
		case field == endedAt:
			p.until(field, cmp.Or(p.columns["playedAt"], "playedAt"), from, p.tableClock(field, text))
		default:
			p.duration(field, text, field == dwellSeconds)
		}
		given = field
	}
	if given == "" {
		p.refuse("dwellMs", "is missing")
	}
}

// until fills in dwellMs of a play by its end; start names the field of its start.
func (p *play) until(field, start string, from, end time.Time) {
	if end.Before(from) {
		p.refuse(field, "must not be before %s", start)
	}
	p.dwell(field, float64(end.Sub(from))/float64(time.Millisecond))
}

// duration fills in dwellMs from a number of seconds or milliseconds, or a time as HH:MM:SS.
func (p *play) duration(field, text string, inSeconds bool) {
	if h, rest, ok := strings.Cut(text, ":"); ok {
		m, s, whole := strings.Cut(rest, ":")
		hours, minutes, seconds := digits(h, 99999), digits(m, 59), p.number(field, strings.Replace(s, ",", ".", 1))
		if !whole || hours < 0 || minutes < 0 || seconds == nil || !(*seconds >= 0 && *seconds < 60) {
			p.refuse(field, "must be a number, or HH:MM:SS")
			return
		}
		p.dwell(field, ofSeconds(float64(hours*3600+minutes*60)+*seconds))
		return
	}
	if at := strings.LastIndexAny(text, ".,"); at >= 0 {
		whole, part := text[:at], text[at+1:]
		thousands := len(part) == 3 && len(whole) > 0 && len(whole) < 4 && strings.TrimLeft(whole, "0") != ""
		if thousands && (!inSeconds || text[at] == ',' && p.separator != ';') {
			p.refuse(field, "is ambiguous: 1%c500 may mean 1500 or 1.5", text[at])
		}
		text = whole + "." + part
	}
	switch n := p.number(field, text); {
	case n == nil:
	case inSeconds:
		p.dwell(field, ofSeconds(*n))
	default:
		p.dwell(field, *n)
	}
}

// digits is a number from 0 to most; -1 if it is none.
func digits(text string, most int) int {
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || n > most || strings.Trim(text, "0123456789") != "" {
		return -1
	}
	return n
}

// summed fills in the multiplier of a line that sums up plays.
func (p *play) summed(field, count string) {
	if n := p.number(field, count); n != nil && (*n < 1 || *n != float64(int64(*n))) {
		p.refuse(field, "must be a whole number, at least 1")
	}
	if p.multiplier(field, count); count != "1" {
		p.warn("rows that sum up several plays are one receipt each, whose multiplier is the number of plays")
	}
}
