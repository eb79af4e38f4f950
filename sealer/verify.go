package sealer

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"time"
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
	kindUnknown     = "unknown"
)

// kinds tells files by how they begin.
var kinds = []struct{ start, kind string }{
	{headerStart, kindPack},
	{objectStart, kindPack},
	{besideStart + objectStart, kindPack},
	{answerStart + besideStart + objectStart, kindPack},
	{directoryStart, kindDirectory},
	{exportStart, kindExport},
	{proofStart, kindProof},
	{`{"event":{`, kindProof},
	{answerStart + `{"event":{`, kindProof},
	{`{"actor":`, kindEvent},
	{`{"consistency":`, kindConsistency},
	{answerStart + `{"consistency":`, kindConsistency},
	{originPrefix, kindCheckpoint},
	{answerStart + headerStart, kindCheckpoint},
}

// longestStart is the longest of the beginnings in kinds.
const longestStart = 64

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
	// Kind is "pack", "receipt", "directory", "proof" (of inclusion), "event",
	// "consistency", "checkpoint", "export" or "unknown".
	Kind     string    `json:"kind"`
	Verdicts []Verdict `json:"verdicts"`

	pack *packCheck // of a pack
	// conduct is of a pack, an export, a proof, or a receipt with its event beside it.
	conduct *conduct
	// stuck is set if the file could not be judged for want of something else: it
	// can't be read, or no directory was given.
	stuck bool
}

// ok reports whether no check failed.
func (f *FileReport) ok() bool {
	return !slices.ContainsFunc(f.Verdicts, func(v Verdict) bool { return !v.OK })
}

// verification verifies many files together: packs of one log prove each other,
// and packs, proofs and exports prove receipts.
type verification struct {
	trust *trust
	rate  Rate
	// expected is set if a checkpoint was held outside.
	expected bool
	files    []FileReport
	wanted   map[string][]*sighted // by receipt id; empty until it was seen
	logs     map[string]*known     // by origin
	packs    map[string][]*packFile
	proofs   proofFiles
	// directories are judged once all are known.
	directories []directoryFile
	// stopped is by tenant, once all but the receipts are judged.
	stopped map[string]*stopped
	// receipts are the files with a receipt.
	receipts map[*FileReport]*signedReceipt
}

// directoryFile is a file that holds a key directory.
type directoryFile struct {
	*FileReport
	text []byte
}

// verifyFiles verifies the files that the options name in one go, and reports in their
// order.
func verifyFiles(ctx context.Context, t *trust, o *Options) Report {
	v := verification{
		trust: t, rate: o.Rate, expected: o.Expect != "", files: make([]FileReport, len(o.Files)), wanted: make(map[string][]*sighted), logs: make(map[string]*known),
		packs: make(map[string][]*packFile), receipts: make(map[*FileReport]*signedReceipt),
	}
	for i, name := range o.Files {
		v.files[i] = FileReport{File: name, Kind: kindUnknown, Verdicts: []Verdict{}}
		v.open(&v.files[i])
	}
	for _, d := range v.directories {
		d.add(v.trust.directory(d.text, true))
	}
	for _, tenantID := range slices.Sorted(maps.Keys(v.packs)) {
		v.log(ctx, v.packs[tenantID])
	}
	v.proofs.verify(ctx, &v)
	for _, origin := range slices.Sorted(maps.Keys(v.logs)) {
		v.logs[origin].forks()
	}
	v.stops(o.Bound)
	for i := range v.files {
		f := &v.files[i]
		v.judge(f, v.receipts[f])
	}
	if o.NoSandbox {
		v.refuseSandbox()
	}
	report := Report{OK: true, Files: v.files}
	if o.Expect != "" {
		report.Files = append(report.Files, v.expect(o.Expect))
	}
	for i := range report.Files {
		report.OK = report.OK && report.Files[i].ok()
	}
	return report
}

// open reads what a file holds, as far as it can be read at once.
func (v *verification) open(f *FileReport) {
	text, err := f.open()
	switch {
	case errors.Is(err, errTooLarge), errors.Is(err, ErrNotCanonical):
		f.fail(FormatInvalid, "%v", err)
	case err != nil:
		f.unreadable(err)
	case f.Kind == kindPack:
		p := v.openPack(f)
		v.packs[p.header.TenantID] = append(v.packs[p.header.TenantID], p)
	case f.Kind == kindDirectory:
		text = bytes.TrimSuffix(text, []byte("\n")) // as under --keys
		v.trust.learn(text)
		v.directories = append(v.directories, directoryFile{f, text})
	case f.Kind == kindUnknown, f.Kind == kindProof && holdsReceipt(text):
		if r := v.receipt(f, text); r != nil {
			v.receipts[f] = r
		}
	default:
		v.proofs.open(v, f, text)
	}
}

func (f *FileReport) add(v ...Verdict) { f.Verdicts = append(f.Verdicts, v...) }

// play notes, once, that what the file proves rests on a key of the sandbox.
func (f *FileReport) play(keyID string) {
	if !f.played() {
		f.add(sandboxKey(keyID))
	}
}

func (f *FileReport) played() bool {
	return slices.ContainsFunc(f.Verdicts, func(v Verdict) bool { return v.Code == KeySandbox })
}

func sandboxKey(keyID string) Verdict {
	return Verdict{Code: KeySandbox, OK: true, Message: fmt.Sprintf("signed by key %s of the sandbox: anyone can make such evidence, under any names", keyID)}
}

// refuseSandbox fails the files that rest on a key of the sandbox.
func (v *verification) refuseSandbox() {
	for i := range v.files {
		verdicts := v.files[i].Verdicts
		for n := range verdicts {
			if verdicts[n].Code == KeySandbox {
				verdicts[n].OK = false
			}
		}
	}
}

// unreadable notes that the disk, not the file's content, is at fault.
func (f *FileReport) unreadable(err error) {
	f.stuck = true
	f.add(Verdict{Code: InputUnreadable, Message: err.Error()})
}

// errTooLarge refuses a file, of which nothing may be left unread.
var errTooLarge = fmt.Errorf("larger than %d bytes, and neither a pack nor an export", maxSmallBytes)

// maxSmallBytes bounds files that are read at once: receipts, directories, and what is
// trusted.
const maxSmallBytes = 16 << 20

// open tells the kind of a file by its beginning. Packs and exports are left to be
// streamed; of anything else it returns the text.
func (f *FileReport) open() ([]byte, error) {
	file, err := os.Open(f.File)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	r, err := plain(bufio.NewReader(file))
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
	if f.Kind == kindPack || f.Kind == kindExport {
		return nil, nil
	}
	text, err := io.ReadAll(io.LimitReader(r, maxSmallBytes+1))
	if err == nil && len(text) > maxSmallBytes {
		err = errTooLarge
	}
	return text, err
}

// receipt reads the receipt that a file holds; nil if it holds none.
func (v *verification) receipt(f *FileReport, text []byte) *signedReceipt {
	r, err := readReceipt(text)
	switch {
	case errors.Is(err, errNoReceipt):
		f.add(Verdict{Code: FormatInvalid, Message: whatInstead(text)})
		return nil
	case err != nil:
		f.add(Verdict{Code: FormatInvalid, Message: err.Error()})
		return nil
	}
	f.Kind = kindReceipt
	v.wanted[r.receipt.ReceiptID] = []*sighted{}
	return r
}

// judge verifies a receipt, once all packs are.
func (v *verification) judge(f *FileReport, r *signedReceipt) {
	switch {
	case r == nil:
	case v.trust.newer == nil:
		f.noDirectory()
	default:
		f.add(r.verify(v.trust.newer, v.wanted[r.receipt.ReceiptID])...)
		v.heldAgainstStops(f, r)
	}
}

// heldAgainstStops judges the event beside a sound receipt as that of a proof.
func (v *verification) heldAgainstStops(f *FileReport, r *signedReceipt) {
	event, _, _ := r.eventBeside()
	if event == nil || !f.ok() {
		return
	}
	if s := v.stopped[event.Event.TenantID]; s != nil {
		f.conduct = newConduct(event.Event.TenantID, 0)
		f.conduct.single = true
		f.conduct.note(&finding{event: event.Event, delivery: event})
		s.judge(f)
	}
}

// noDirectory notes that there are no keys to verify the file with.
func (f *FileReport) noDirectory() {
	f.stuck = true
	f.fail(KeyUnknown, "no key directory: give the service's /.well-known/muniment/keys.json as a further file or by --keys, or a pack that holds one")
}

// sight notes that a file holds a delivery. by is when that was certain.
func (v *verification) sight(f *FileReport, d *RecordedDelivery, by time.Time, place string, args ...any) {
	if list, asked := v.wanted[d.Receipt.ReceiptID]; asked {
		v.wanted[d.Receipt.ReceiptID] = append(list, &sighted{f, fmt.Sprintf(place, args...), by, d})
	}
}
