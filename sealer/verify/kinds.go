package verify

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"muniment/sealer"
	"os"
)

// Kinds of files.
const (
	kindPack        = "pack"
	kindReceipt     = "receipt"
	kindDirectory   = "directory"
	kindProof       = "proof"
	kindEvent       = "event"
	kindConsistency = "consistency"
	kindCheckpoint  = "checkpoint"
	kindExport      = "export"
	kindErasure     = "erasure"
	kindBundle      = "dsar_bundle"
	kindStatement   = "statement"
	kindUnknown     = "unknown"
)

// startOfDirectory is how a key directory begins.
const startOfDirectory = `{"delegation":`

// kinds are the beginnings by which the kind of a file is known.
var kinds = []struct{ start, kind string }{
	{`{"checkpoint":`, kindPack},
	{`{"entries":[`, kindPack},
	{`{"pack":{"entries":[`, kindPack},
	{startOfAnswer + `{"pack":{"entries":[`, kindPack},
	{startOfDirectory, kindDirectory},
	{`{"after":`, kindExport},
	{"PK\x03\x04", kindBundle},
	{"c2sp.org/tlog-proof@v1\n", kindProof},
	{`{"event":{`, kindProof},
	{startOfAnswer + `{"event":{`, kindProof},
	{`{"actor":`, kindEvent},
	{`{"consistency":`, kindConsistency},
	{startOfAnswer + `{"consistency":`, kindConsistency},
	{"muniment/erasure.v1", kindErasure},
	{`{"adjustments":[`, kindStatement},
	{"muniment/", kindCheckpoint},
	{startOfAnswer + `{"checkpoint":`, kindCheckpoint},
}

// longestStart is the longest of the beginnings in kinds.
const longestStart = 64

// kindNames say what files of a kind are, in the singular.
var kindNames = map[string]string{
	kindReceipt:     "signed receipt",
	kindDirectory:   "key directory",
	kindProof:       "inclusion proof",
	kindEvent:       "event",
	kindConsistency: "consistency proof",
	kindCheckpoint:  "signed checkpoint",
	kindExport:      "audit export",
	kindErasure:     "certificate of erasure",
	kindBundle:      "DSAR bundle",
	kindStatement:   "settlement statement",
	kindUnknown:     "of no known kind",
}

// errTooLarge refuses a file, of which nothing may be left unread.
var errTooLarge = fmt.Errorf("larger than %d bytes, and neither a pack nor an export", maxSmallBytes)

// maxSmallBytes bounds the files that are read at once: all but packs, exports and bundles.
const maxSmallBytes = sealer.MaxStatementBytes

// open finds the kind of a file by its beginning. Packs and exports are left to be
// streamed; of anything else it returns the text.
func (f *FileReport) open() ([]byte, error) {
	file, err := os.Open(f.File)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	r, err := sealer.Uncompressed(bufio.NewReader(file))
	if err != nil {
		return nil, err
	}
	start, err := r.Peek(longestStart)
	if err != nil && err != io.EOF {
		return nil, err
	}
	for _, k := range kinds {
		if bytes.HasPrefix(start, []byte(k.start)) {
			f.Kind = k.kind
			break
		}
	}
	if f.Kind == kindPack || f.Kind == kindExport || f.Kind == kindBundle {
		return nil, nil
	}
	text, err := io.ReadAll(io.LimitReader(r, maxSmallBytes+1))
	if err == nil && len(text) > maxSmallBytes {
		err = errTooLarge
	}
	return text, err
}
