package ingest

import (
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"muniment.example/control/route"
	"muniment.example/control/store"
	"muniment.example/gateway/api"
	"muniment.example/sealer"
)

// # Imports
//
// An import is CSV with a header line, or JSON lines (each an object as in POST); its first byte
// decides which. Each line is independent. In CSV too: a quoted field may not continue on the next
// line, so a broken line does not affect others. Unknown columns and members are refused, since they
// may be misspelt.

const (
	// maxImport is the most lines of an import; control bounds its bytes.
	maxImport = 5000
	// maxColumns exceeds the number of columns in a valid header.
	maxColumns = 64
	// importChange is how many lines one change writes; other changes wait for it, and another tenant's
	// stop, too.
	importChange = 10
	// importWait bounds how long an import waits until the log has a change's events.
	importWait = 10 * time.Second
)

// ImportStatus is the status of an imported line.
type ImportStatus string

// Created and Unchanged mappings are in force. An Unchanged one existed before with equal fields.
const (
	Created   ImportStatus = "created"
	Unchanged ImportStatus = "unchanged"
	Refused   ImportStatus = "refused"
)

// ImportedRow is the result of a line.
type ImportedRow struct {
	Line      int           `json:"line" doc:"The line of the body, from 1; in CSV the header is line 1."`
	Status    ImportStatus  `json:"status" enum:"created,unchanged,refused" doc:"unchanged: an identical mapping existed already."`
	MappingID string        `json:"mappingId,omitempty" doc:"The mapping; for a refused line, the mapping that it would overlap."`
	Error     *api.RowError `json:"error,omitempty" doc:"Why the line is refused."`
}

// ImportCounts counts lines by status.
type ImportCounts struct {
	Created   int `json:"created" doc:"Mappings that were created."`
	Unchanged int `json:"unchanged" doc:"Mappings that existed already."`
	Refused   int `json:"refused" doc:"Lines that were refused."`
}

// Import is the response to an import.
type Import struct {
	Rows   []ImportedRow `json:"rows" doc:"The result of each line, in their order; empty lines are omitted."`
	Counts ImportCounts  `json:"counts" doc:"The number of lines by status."`
}

func rowError(err error) *api.RowError { return new(api.From(err).OfRow()) }

// importLine is a parsed line.
type importLine struct {
	number    int
	requested Mapping
	err       error
}

// importAll creates a mapping for each valid line. An error means that it created none.
func (s *Service) importAll(ctx context.Context, tenantID string, body []byte, by sealer.Ref) (Import, error) {
	lines, err := readImport(tenantID, body)
	if err != nil {
		return Import{}, err
	}
	all := Import{Rows: make([]ImportedRow, 0, len(lines))}
	var failed error
	for some := range slices.Chunk(lines, importChange) {
		var rows []ImportedRow
		if failed == nil {
			rows, failed = s.importSome(ctx, tenantID, some, by)
		}
		if rows == nil && all.Counts.Created == 0 {
			return Import{}, failed
		}
		if rows == nil { // earlier lines stay created, and these may be sent again
			for i := range some {
				rows = append(rows, ImportedRow{Line: some[i].number, Status: Refused, Error: rowError(failed)})
			}
		}
		for _, row := range rows {
			switch row.Status {
			case Created:
				all.Counts.Created++
			case Unchanged:
				all.Counts.Unchanged++
			default:
				all.Counts.Refused++
			}
		}
		all.Rows = append(all.Rows, rows...)
	}
	if failed != nil {
		s.cfg.Logger.Warn("an import of mappings ended early", "tenantId", tenantID, "err", failed)
	}
	return all, nil
}

// importSome creates the mappings of some lines in one change, and waits until the log has their
// events. If rows is not nil, the lines are done, and an error ends the import after them.
func (s *Service) importSome(ctx context.Context, tenantID string, lines []importLine, by sealer.Ref) (rows []ImportedRow, err error) {
	made := 0
	err = s.db.Change(ctx, func(tx *store.Tx) error {
		batch, err := s.begin(ctx, tx, tenantID)
		if err != nil {
			return err
		}
		for i := range lines {
			row, err := batch.createLine(ctx, tx, &lines[i], by)
			if err != nil {
				return err
			}
			if row.Status == Created {
				made++
			}
			rows = append(rows, row)
		}
		return batch.end(ctx, tx)
	})
	if err != nil {
		return nil, err
	}
	if made == 0 {
		return rows, nil
	}
	limited, cancel := context.WithTimeout(ctx, importWait)
	defer cancel()
	if err := s.db.Outbox.Drain(limited, tenantID); err != nil {
		return rows, errors.Join(errLogBehind, err)
	}
	return rows, nil
}

var errLogBehind = api.Unavailable(api.LogUnavailable, "the log is not accepting the mappings' events: send the import again later", time.Second)

// createLine creates the mapping of one line. row has the faults of the line; an error is one of the
// service.
func (b *making) createLine(ctx context.Context, tx *store.Tx, l *importLine, by sealer.Ref) (row ImportedRow, err error) {
	row = ImportedRow{Line: l.number, Status: Refused}
	if l.err != nil {
		row.Error = rowError(l.err)
		return row, nil
	}
	made, other, err := b.create(ctx, tx, l.requested, by)
	if other != nil {
		row.MappingID = other.ID
	}
	switch {
	case err == nil:
		row.Status, row.MappingID = Created, made.ID
	case errors.Is(err, errThere):
		row.Status = Unchanged
	case api.From(err).GetStatus() >= 500:
		return row, err
	default:
		row.Error = rowError(err)
	}
	return row, nil
}

// readImport parses the lines of a body. A line that it can't parse holds the error.
func readImport(tenantID string, body []byte) (lines []importLine, err error) {
	body = bytes.TrimPrefix(body, []byte("\ufeff")) // spreadsheets write a byte order mark
	var read func(line []byte) (Mapping, error)
	if first := bytes.TrimLeft(body, " \t\r\n"); len(first) > 0 && first[0] == '{' {
		read = readObject
	}
	number := 0
	for line := range bytes.Lines(body) {
		number++
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		if read == nil {
			if read, err = readHeader(line); err != nil {
				return nil, err
			}
			continue
		}
		if len(lines) == maxImport {
			return nil, api.InvalidField("body", fmt.Sprintf("has more than %d lines: send them in several imports", maxImport))
		}
		l := importLine{number: number}
		l.requested, l.err = read(line)
		l.requested.TenantID = tenantID
		lines = append(lines, l)
	}
	if len(lines) == 0 {
		return nil, api.InvalidField("body", "has no mappings: send CSV with a header line, or a JSON object a line")
	}
	return lines, nil
}

// readObject reads a line of JSON.
func readObject(line []byte) (Mapping, error) {
	var requested NewMapping
	err := json.Unmarshal(line, &requested, json.RejectUnknownMembers(true))
	if syntax, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		if errors.Is(err, jsontext.ErrDuplicateName) {
			return Mapping{}, api.InvalidField(fieldOf(syntax.JSONPointer), "is given twice")
		}
		return Mapping{}, &api.Error{Code: api.BadRequest, Message: fmt.Sprintf("the line is not valid JSON at byte %d", syntax.ByteOffset)}
	}
	if semantic, ok := errors.AsType[*json.SemanticError](err); ok {
		if errors.Is(err, json.ErrUnknownName) {
			return Mapping{}, api.InvalidField(fieldOf(semantic.JSONPointer), "is not a field of a mapping")
		}
		return Mapping{}, api.InvalidField(fieldOf(semantic.JSONPointer), "is not of the right type")
	}
	if err != nil {
		return Mapping{}, &api.Error{Code: api.BadRequest, Message: "the line is not valid JSON"}
	}
	return requested.mapping()
}

// fieldOf converts a JSON pointer into a field name such as target.rightId.
func fieldOf(p jsontext.Pointer) string {
	if p == "" {
		return "line"
	}
	return strings.Join(slices.Collect(p.Tokens()), ".")
}

// columns are the CSV columns, each with its field.
var columns = map[string]struct {
	required bool
	set      func(m *NewMapping, text string)
}{
	"vendor":             {true, func(m *NewMapping, text string) { m.Vendor = text }},
	"idType":             {true, func(m *NewMapping, text string) { m.IDType = text }},
	"vendorId":           {true, func(m *NewMapping, text string) { m.VendorID = text }},
	"rightId":            {true, func(m *NewMapping, text string) { m.Target.RightID = text }},
	"spatialAnchorId":    {true, func(m *NewMapping, text string) { m.Target.SpatialAnchorID = text }},
	"spatialPlacementId": {false, func(m *NewMapping, text string) { m.Target.SpatialPlacementID = &text }},
	"effectiveFrom":      {true, func(m *NewMapping, text string) { m.EffectiveFrom = route.Time(text) }},
	"effectiveUntil": {false, func(m *NewMapping, text string) {
		if text != "" {
			m.EffectiveUntil = new(route.Time(text))
		}
	}},
}

// readHeader parses the CSV header, whose columns may have any order, and returns the function that
// parses the rows.
func readHeader(line []byte) (func(line []byte) (Mapping, error), error) {
	names, err := readFields(line)
	if err != nil {
		return nil, err
	}
	if len(names) > maxColumns {
		return nil, api.InvalidField("line", fmt.Sprintf("has more than %d columns", maxColumns))
	}
	var faults []api.ValidationError
	for i, name := range names {
		switch _, known := columns[name]; {
		case !known:
			faults = append(faults, api.ValidationError{Field: name, Message: "is not a column of a mapping"})
		case slices.Contains(names[:i], name):
			faults = append(faults, api.ValidationError{Field: name, Message: "is given twice"})
		}
	}
	for name, c := range columns {
		if c.required && !slices.Contains(names, name) {
			faults = append(faults, api.MissingField(name))
		}
	}
	if len(faults) > 0 {
		slices.SortStableFunc(faults, func(a, b api.ValidationError) int { return strings.Compare(a.Field, b.Field) })
		return nil, api.Invalid(faults...)
	}
	return func(line []byte) (Mapping, error) {
		fields, err := readFields(line)
		if err != nil {
			return Mapping{}, err
		}
		if len(fields) != len(names) {
			return Mapping{}, api.InvalidField("line", fmt.Sprintf("has %d fields, the header has %d", len(fields), len(names)))
		}
		var requested NewMapping
		for i, text := range fields {
			columns[names[i]].set(&requested, text)
		}
		return requested.mapping()
	}, nil
}

// readFields reads one line of CSV (RFC 4180).
func readFields(line []byte) ([]string, error) {
	fields, err := csv.NewReader(bytes.NewReader(line)).Read()
	if err != nil {
		return nil, api.InvalidField("line", "is not valid CSV: a quote is misplaced, or not closed on this line")
	}
	return fields, nil
}
