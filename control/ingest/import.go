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

	"muniment/control/route"
	"muniment/control/store"
	"muniment/gateway/api"
	"muniment/sealer"
)

// # Imports
//
// An import is CSV with a header line, or JSON lines (a line an object, as POST takes it): its
// first byte decides which. Each line is independent, also in CSV, where a quoted field may not
// continue in the next line, so a broken line does not affect others. A column or a member that no
// mapping has is refused: it may be a misspelt one.

const (
	// maxImport is the most lines of an import; control bounds its bytes.
	maxImport = 5000
	// maxColumns is more than a header has whose names are right.
	maxColumns = 64
	// importChange is how many lines are written in one change, which keeps all others waiting.
	importChange = 100
	// importWait bounds how long an import waits for the log to take a change's events.
	importWait = 10 * time.Second
)

// ImportStatus is what became of a line.
type ImportStatus string

// Created and Unchanged lines are in force; Unchanged was there before, word for word.
const (
	Created   ImportStatus = "created"
	Unchanged ImportStatus = "unchanged"
	Refused   ImportStatus = "refused"
)

// ImportedRow is what became of a line.
type ImportedRow struct {
	Line      int           `json:"line" doc:"The line of the body, from 1; in CSV the header is line 1."`
	Status    ImportStatus  `json:"status" enum:"created,unchanged,refused" doc:"unchanged: it was there before, word for word."`
	MappingID string        `json:"mappingId,omitempty" doc:"The mapping; of a line that is refused the one that it would overlap."`
	Error     *api.RowError `json:"error,omitempty" doc:"Why the line is refused."`
}

// ImportCounts are how many lines there are of each status.
type ImportCounts struct {
	Created   int `json:"created" doc:"Mappings that were made."`
	Unchanged int `json:"unchanged" doc:"Mappings that were there before."`
	Refused   int `json:"refused" doc:"Lines that were refused."`
}

// Import is the answer to an import.
type Import struct {
	Rows   []ImportedRow `json:"rows" doc:"What became of each line, in their order; empty ones are left out."`
	Counts ImportCounts  `json:"counts" doc:"How many lines there are of each status."`
}

func rowError(err error) *api.RowError { return new(api.From(err).OfRow()) }

// importLine is a line as it was read.
type importLine struct {
	number int
	asked  Mapping
	err    error
}

// importAll makes a mapping of each line that can be one. An error means that nothing was made.
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
		if rows == nil { // what was made stays, and these lines may be sent again
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

// importSome makes the mappings of some lines in one change, and waits for the log to have
// taken their events. With rows, an error is about what comes next.
func (s *Service) importSome(ctx context.Context, tenantID string, lines []importLine, by sealer.Ref) (rows []ImportedRow, err error) {
	made := 0
	err = s.db.Change(ctx, func(tx *store.Tx) error {
		batch, err := begin(ctx, tx, tenantID)
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
	if err := s.db.Drain(limited, tenantID); err != nil {
		return rows, errors.Join(errLogBehind, err)
	}
	return rows, nil
}

var errLogBehind = api.Unavailable(api.LogUnavailable, "the log does not take the mappings' events now: send the import again later", time.Second)

// createLine makes the mapping of one line. An error is a fault of the service.
func (b *making) createLine(ctx context.Context, tx *store.Tx, l *importLine, by sealer.Ref) (row ImportedRow, err error) {
	row = ImportedRow{Line: l.number, Status: Refused}
	if l.err != nil {
		row.Error = rowError(l.err)
		return row, nil
	}
	made, other, err := b.create(ctx, tx, l.asked, by)
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

// readImport reads the lines of a body. What it can't read of a line, the line says.
func readImport(tenantID string, body []byte) (lines []importLine, err error) {
	body = bytes.TrimPrefix(body, []byte("\ufeff")) // as spreadsheets write it
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
		l.asked, l.err = read(line)
		l.asked.TenantID = tenantID
		lines = append(lines, l)
	}
	if len(lines) == 0 {
		return nil, api.InvalidField("body", "has no mappings: send CSV with a header line, or a JSON object a line")
	}
	return lines, nil
}

// readObject reads a line of JSON.
func readObject(line []byte) (Mapping, error) {
	var asked NewMapping
	err := json.Unmarshal(line, &asked, json.RejectUnknownMembers(true))
	if syntax, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		if errors.Is(err, jsontext.ErrDuplicateName) {
			return Mapping{}, api.InvalidField(fieldOf(syntax.JSONPointer), "is given twice")
		}
		return Mapping{}, &api.Error{Code: api.BadRequest, Message: fmt.Sprintf("the line is not valid JSON at byte %d", syntax.ByteOffset)}
	}
	if semantic, ok := errors.AsType[*json.SemanticError](err); ok {
		if errors.Is(err, json.ErrUnknownName) {
			return Mapping{}, api.InvalidField(fieldOf(semantic.JSONPointer), "is no field of a mapping")
		}
		return Mapping{}, api.InvalidField(fieldOf(semantic.JSONPointer), "is not of the right type")
	}
	if err != nil {
		return Mapping{}, &api.Error{Code: api.BadRequest, Message: "the line is not valid JSON"}
	}
	return asked.mapping()
}

// fieldOf spells a JSON pointer as field names are: target.rightId.
func fieldOf(p jsontext.Pointer) string {
	if p == "" {
		return "line"
	}
	return strings.Join(slices.Collect(p.Tokens()), ".")
}

// columns are those of CSV, and the field of each.
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

// readHeader reads the names of CSV's columns, in any order, and returns what reads its rows.
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
			faults = append(faults, api.ValidationError{Field: name, Message: "is no column of a mapping"})
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
		var asked NewMapping
		for i, text := range fields {
			columns[names[i]].set(&asked, text)
		}
		return asked.mapping()
	}, nil
}

// readFields reads one line of CSV (RFC 4180).
func readFields(line []byte) ([]string, error) {
	fields, err := csv.NewReader(bytes.NewReader(line)).Read()
	if err != nil {
		return nil, api.InvalidField("line", "is not valid CSV: it has a quote in the wrong place, or one that does not end on this line")
	}
	return fields, nil
}
