package pack

import (
	"bufio"
	"fmt"
	"io"
	"strconv"

	"muniment.example/sealer"
	"muniment.example/sealer/canonical"
	"muniment.example/sealer/merkle"
)

// ExportHeader begins an audit export: a run of sealed events of one log, verbatim,
// with what anchors it in signed checkpoints.
type ExportHeader struct {
	// After are the roots of the perfect subtrees after the last entry, up to the size of the
	// last checkpoint; Before those before the first. See merkle.ProveRange.
	After, Before []merkle.Hash
	// Checkpoints are the signed notes of the packs that the entries were sealed in,
	// in their order.
	Checkpoints []string
	// Count is the number of entries.
	Count uint64
	// Directory is the signed key directory, verbatim.
	Directory []byte
	// FirstIndex is the leaf of the first entry.
	FirstIndex uint64
	TenantID   string
}

// exportStart is how an export begins.
const exportStart = `{"after":`

// Append appends the canonical text, the first line of the export. After it come the
// entries, each line ended by one newline, and nothing else.
func (h *ExportHeader) Append(dst []byte) []byte {
	dst = append(dst, exportStart...)
	dst = sealer.AppendHashes(dst, h.After)
	dst = append(dst, `,"before":`...)
	dst = sealer.AppendHashes(dst, h.Before)
	dst = append(dst, `,"checkpoints":[`...)
	for i, note := range h.Checkpoints {
		dst = canonical.AppendComma(dst, i)
		dst = canonical.AppendString(dst, note)
	}
	dst = append(dst, `],"count":`...)
	dst = strconv.AppendUint(dst, h.Count, 10)
	dst = append(dst, `,"directory":`...)
	dst = append(dst, h.Directory...)
	dst = append(dst, `,"firstIndex":`...)
	dst = strconv.AppendUint(dst, h.FirstIndex, 10)
	dst = append(dst, `,"tenantId":`...)
	dst = canonical.AppendString(dst, h.TenantID)
	return append(dst, `,"v":1}`...)
}

// ParseExportHeader reads exactly what Append writes. It verifies nothing.
func ParseExportHeader(text []byte) (h ExportHeader, err error) {
	s := sealer.NewScanner(string(text))
	s.Lit(exportStart)
	h.After = s.Hashes()
	s.Lit(`,"before":`)
	h.Before = s.Hashes()
	s.Lit(`,"checkpoints":`)
	s.List(func() { h.Checkpoints = append(h.Checkpoints, s.Name()) })
	s.Lit(`,"count":`)
	h.Count = uint64(s.Integer())
	s.Lit(`,"directory":`)
	directoryAt := s.At
	s.Object()
	h.Directory = text[directoryAt:s.At:s.At]
	s.Lit(`,"firstIndex":`)
	h.FirstIndex = uint64(s.Integer())
	s.Lit(`,"tenantId":`)
	h.TenantID = s.TenantID()
	s.Lit(`,"v":1}`)
	err = s.End()
	if err == nil && (h.Count == 0 || len(h.Checkpoints) == 0) {
		err = fmt.Errorf("it has %d entries and %d checkpoints", h.Count, len(h.Checkpoints))
	}
	if err != nil {
		return ExportHeader{}, fmt.Errorf("cannot read export: %w", err)
	}
	return h, nil
}

// ExportReader reads an audit export, strictly. It verifies nothing.
type ExportReader struct {
	header ExportHeader
	lines  *bufio.Reader
	read   uint64
}

// ReadExport reads the header of an export and returns the reader of its entries.
func ReadExport(r io.Reader) (*ExportReader, error) {
	e := &ExportReader{lines: bufio.NewReaderSize(r, 1<<16)}
	text, err := readLine(e.lines, maxHeaderBytes)
	if err != nil {
		return nil, fmt.Errorf("cannot read export: %w", noEOF(err))
	}
	e.header, err = ParseExportHeader(text)
	return e, err
}

// Header returns the header.
func (e *ExportReader) Header() *ExportHeader { return &e.header }

// Next returns the text of the next entry, which the caller owns; io.EOF after the last that
// the header counts, where the file must end.
func (e *ExportReader) Next() ([]byte, error) {
	if e.read == e.header.Count {
		switch _, err := e.lines.Peek(1); err {
		case io.EOF:
			return nil, io.EOF
		case nil:
			return nil, fmt.Errorf("%w: more after the last entry", canonical.ErrNotCanonical)
		default:
			return nil, err
		}
	}
	event, err := readLine(e.lines, sealer.MaxEventBytes)
	if err != nil {
		return nil, fmt.Errorf("cannot read export after entry %d: %w", e.read, noEOF(err))
	}
	e.read++
	return event, nil
}
