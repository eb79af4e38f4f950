package adapter

import (
	"bytes"
	"encoding/csv"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"muniment/gateway/api"
)

// csvColumns is comma-separated values with a header line (RFC 4180,
// https://www.rfc-editor.org/rfc/rfc4180).
//
// A column is named as the field of a row that it holds, or column.<field>= says which one
// holds it. dwellSeconds may stand for dwellMs; a time may leave its zone to tz; telemetry is a
// JSON object; vendor and idType are of lines that don't say theirs. Other columns are skipped.
var csvColumns = Format{
	Name:    "csv",
	options: []string{optionColumn, optionIDType, optionZone, optionVendor},
	media:   []string{"text/csv"},
	read:    (*document).readCSV,
}

const (
	dwellSeconds = "dwellSeconds"
	// mostCommas bounds what one line can be taken apart into.
	mostCommas = 1 << 18
)

// csvFields are what a column may hold.
var csvFields = []string{"rowId", "playedAt", "dwellMs", dwellSeconds, "vendor", "idType", "vendorId", "rightId", "spatialAnchorId",
	"spatialPlacementId", "correlationId", "dataSubjectId", "telemetry", "multiplier"}

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

func (d *document) readCSV() error {
	switch {
	case !utf8.Valid(d.body):
		return unreadable("the document is not UTF-8")
	case bytes.Count(d.body, []byte{','}) > mostCommas:
		return unreadable("the document has more than %d commas", mostCommas)
	}
	// After a misplaced quotation mark the columns are ambiguous, so the whole document is
	// checked before any row is returned.
	for lines := csvLines(d.body); ; {
		_, err := lines.Read()
		var fault *csv.ParseError
		if errors.As(err, &fault) {
			return unreadable("line %d: %s", fault.Line, fault.Err)
		} else if err != nil {
			break
		}
	}
	lines := csvLines(d.body)
	header, err := lines.Read()
	if err != nil {
		return unreadable("the document is empty")
	}
	places, err := d.places(slices.Clone(header))
	if err != nil {
		return err
	}
	columns := len(header)
	for {
		cells, err := lines.Read()
		if err != nil { // the end
			return nil
		}
		line, _ := lines.FieldPos(0)
		p := d.play("line " + strconv.Itoa(line))
		if len(cells) != columns {
			p.refuse("", "has %d columns, and the header has %d", len(cells), columns)
		} else {
			p.readCells(func(field string) string {
				if i, ok := places[field]; ok {
					return cells[i]
				}
				return ""
			})
		}
		if !d.emit(p) {
			return nil
		}
	}
}

func csvLines(body []byte) *csv.Reader {
	r := csv.NewReader(bytes.NewReader(body))
	r.FieldsPerRecord, r.ReuseRecord = -1, true
	return r
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
		RowID: cell("rowId"), PlayedAt: cell("playedAt"), Vendor: cell("vendor"), IDType: cell("idType"), VendorID: cell("vendorId"),
		RightID: cell("rightId"), SpatialAnchorID: cell("spatialAnchorId"), SpatialPlacementID: cell("spatialPlacementId"),
		CorrelationID: cell("correlationId"), DataSubjectID: cell("dataSubjectId"),
		Telemetry: jsontext.Value(cell("telemetry")), Multiplier: decimal(cell("multiplier")),
		DwellMs: p.number("dwellMs", cell("dwellMs")),
	}
	if seconds := p.number(dwellSeconds, cell(dwellSeconds)); seconds != nil {
		if v.DwellMs != nil {
			p.refuse(dwellSeconds, "is given together with dwellMs")
		}
		p.dwell(dwellSeconds, ofSeconds(*seconds))
		v.DwellMs = &p.row.DwellMs
	}
	if v.Vendor == "" && p.header.Query.Has(optionVendor) {
		v.Vendor = p.vendor
	}
	if v.VendorID != "" && v.IDType == "" && len(p.ids) > 0 {
		v.IDType = p.ids[0]
	}
	p.fill(&v)
}
