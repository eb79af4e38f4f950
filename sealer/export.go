package sealer

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
)

// ExportHeader begins an audit export: a run of sealed events of one log, verbatim,
// with what anchors it in signed checkpoints.
type ExportHeader struct {
	// After are the roots of the perfect subtrees behind the last entry, up to the
	// size of the last checkpoint; Before those in front of the first. See ProveRange.
	After, Before []Hash
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

// Append appends the canonical text, the first line of the export. Behind it stand
// the entries, each line ended by one newline, and nothing else.
func (h *ExportHeader) Append(dst []byte) []byte {
	dst = append(dst, exportStart...)
	dst = appendHashes(dst, h.After)
	dst = append(dst, `,"before":`...)
	dst = appendHashes(dst, h.Before)
	dst = append(dst, `,"checkpoints":[`...)
	for i, note := range h.Checkpoints {
		dst = appendComma(dst, i)
		dst = AppendString(dst, note)
	}
	dst = append(dst, `],"count":`...)
	dst = strconv.AppendUint(dst, h.Count, 10)
	dst = append(dst, `,"directory":`...)
	dst = append(dst, h.Directory...)
	dst = append(dst, `,"firstIndex":`...)
	dst = strconv.AppendUint(dst, h.FirstIndex, 10)
	dst = append(dst, `,"tenantId":`...)
	dst = AppendString(dst, h.TenantID)
	return append(dst, `,"v":1}`...)
}

// ParseExportHeader reads exactly what Append writes. It verifies nothing.
func ParseExportHeader(text []byte) (h ExportHeader, err error) {
	s := scanner{text: string(text)}
	s.lit(exportStart)
	h.After = s.hashes()
	s.lit(`,"before":`)
	h.Before = s.hashes()
	s.lit(`,"checkpoints":`)
	s.list(func() { h.Checkpoints = append(h.Checkpoints, s.name()) })
	s.lit(`,"count":`)
	h.Count = uint64(s.integer())
	s.lit(`,"directory":`)
	directoryAt := s.at
	s.object()
	h.Directory = text[directoryAt:s.at:s.at]
	s.lit(`,"firstIndex":`)
	h.FirstIndex = uint64(s.integer())
	s.lit(`,"tenantId":`)
	h.TenantID = s.tenantID()
	s.lit(`,"v":1}`)
	err = s.end()
	if err == nil && (h.Count == 0 || len(h.Checkpoints) == 0) {
		err = fmt.Errorf("%d entries under %d checkpoints", h.Count, len(h.Checkpoints))
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

// ReadExport begins to read an export and returns once the header is read.
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

// Next returns the text of the next entry, which the caller owns; io.EOF behind
// the last that the header counts, where the file has to end.
func (e *ExportReader) Next() ([]byte, error) {
	if e.read == e.header.Count {
		switch _, err := e.lines.Peek(1); err {
		case io.EOF:
			return nil, io.EOF
		case nil:
			return nil, fmt.Errorf("%w: more behind the last entry", ErrNotCanonical)
		default:
			return nil, err
		}
	}
	event, err := readLine(e.lines, MaxEventBytes)
	if err != nil {
		return nil, fmt.Errorf("cannot read export behind entry %d: %w", e.read, noEOF(err))
	}
	e.read++
	return event, nil
}
