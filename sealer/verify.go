package sealer

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"os"
	"slices"
)

// Kinds of files.
const (
	kindPack      = "pack"
	kindReceipt   = "receipt"
	kindDirectory = "directory"
	kindUnknown   = "unknown"
)

// Report is what verifying some files came to.
type Report struct {
	OK    bool         `json:"ok"`
	Files []FileReport `json:"files"`
	// Message says why no file could be judged.
	Message string `json:"message,omitempty"`
}

// FileReport is what verifying one file came to.
type FileReport struct {
	File string `json:"file"`
	// Kind is "pack", "receipt", "directory" or "unknown".
	Kind     string    `json:"kind"`
	Verdicts []Verdict `json:"verdicts"`

	pack *packCheck // of a pack
	// stuck is set if the file could not be judged for want of something else: it
	// can't be read, or no directory was given.
	stuck bool
}

// ok reports whether no check failed.
func (f *FileReport) ok() bool {
	return !slices.ContainsFunc(f.Verdicts, func(v Verdict) bool { return !v.OK })
}

// VerifyPack verifies one pack, of either form, against a root key: a C2SP vkey.
// The error is one of reading r, of ctx, or of the vkey; what is wrong with the
// pack is said by the verdicts that are not OK. Receipts are checked on all
// processors; a bundle is streamed.
func VerifyPack(ctx context.Context, r io.Reader, rootVkey string) ([]Verdict, error) {
	t, err := readTrust(rootVkey, "")
	if err != nil {
		return nil, err
	}
	c := packCheck{trust: t}
	err = c.run(ctx, r, nil)
	c.settle(false)
	return c.verdicts, err
}

// verification verifies many files together: packs of one log prove each other,
// and packs prove receipts.
type verification struct {
	trust  *trust
	files  []FileReport
	wanted map[string]*sighted // by receipt id; nil until a pack was seen to hold it
}

// verifyFiles verifies files in one go and reports in their order.
func verifyFiles(ctx context.Context, t *trust, names []string) Report {
	v := verification{trust: t, files: make([]FileReport, len(names)), wanted: make(map[string]*sighted)}
	receipts := make(map[*FileReport]*signedReceipt)
	logs := make(map[string][]*packFile)
	for i, name := range names {
		f := &v.files[i]
		*f = FileReport{File: name, Kind: kindUnknown, Verdicts: []Verdict{}}
		text, err := f.open()
		switch {
		case err != nil:
			f.unreadable(err)
		case f.Kind == kindPack:
			p := v.openPack(f)
			logs[p.header.TenantID] = append(logs[p.header.TenantID], p)
		case f.Kind == kindDirectory:
			f.add(t.directory(text))
		default:
			receipts[f] = v.receipt(f, text)
		}
	}
	for _, tenantID := range slices.Sorted(maps.Keys(logs)) {
		v.log(ctx, logs[tenantID])
	}
	report := Report{OK: true, Files: v.files}
	for i := range v.files {
		f := &v.files[i]
		v.judge(f, receipts[f])
		report.OK = report.OK && f.ok()
	}
	return report
}

func (f *FileReport) add(v ...Verdict) { f.Verdicts = append(f.Verdicts, v...) }

// unreadable notes that the disk, not the file's content, is at fault.
func (f *FileReport) unreadable(err error) {
	f.stuck = true
	f.add(Verdict{Code: InputUnreadable, Message: err.Error()})
}

// maxSmallBytes bounds files that are read at once: receipts and directories.
const maxSmallBytes = 16 << 20

// open tells the kind of a file by its beginning. A pack is left to be streamed;
// of anything else it returns the text.
func (f *FileReport) open() ([]byte, error) {
	file, err := os.Open(f.File)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	r := bufio.NewReader(io.LimitReader(file, maxSmallBytes))
	start, err := r.Peek(len(headerStart))
	if err != nil && err != io.EOF {
		return nil, err
	}
	switch {
	case bytes.HasPrefix(start, []byte(headerStart)), bytes.HasPrefix(start, []byte(objectStart)):
		f.Kind = kindPack
		return nil, nil
	case bytes.HasPrefix(start, []byte(directoryStart)):
		f.Kind = kindDirectory
	}
	return io.ReadAll(r)
}

// receipt reads the receipt that a file holds; nil if it holds none.
func (v *verification) receipt(f *FileReport, text []byte) *signedReceipt {
	r, err := readReceipt(text)
	switch {
	case errors.Is(err, errNoReceipt):
		f.add(Verdict{Code: FormatInvalid, Message: "neither a pack, nor a key directory, nor a receipt with its signature"})
		return nil
	case err != nil:
		f.add(Verdict{Code: FormatInvalid, Message: err.Error()})
		return nil
	}
	f.Kind = kindReceipt
	v.wanted[r.receipt.ReceiptID] = nil
	return r
}

// judge verifies a receipt, once all packs are.
func (v *verification) judge(f *FileReport, r *signedReceipt) {
	switch {
	case r == nil:
	case v.trust.newer == nil:
		f.stuck = true
		f.add(Verdict{Code: KeyUnknown, Message: "no key directory: give --keys, or a pack that holds one"})
	default:
		f.add(r.verify(v.trust.newer, v.wanted[r.receipt.ReceiptID])...)
	}
}
