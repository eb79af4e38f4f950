package verify

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"time"

	"muniment.example/sealer"
	"muniment.example/sealer/canonical"
	"muniment.example/sealer/pack"
	"muniment.example/sealer/settlement"
	"muniment.example/sealer/statement"
)

// verification verifies many files together: packs of one log prove each other,
// and packs, proofs and exports prove receipts.
type verification struct {
	trust *trust
	// expected is set if a checkpoint was held outside.
	expected bool
	files    []FileReport
	wanted   map[string][]*receiptPlace // by receipt id; empty until it was seen
	logs     map[string]*provenLog      // by origin
	packs    map[string][]*packFile
	proofs   proofFiles
	bundles  []*dsarCheck
	// directories are judged once all are known.
	directories []directoryFile
	// stopped is by tenant, once all but the receipts are judged.
	stopped map[string]*stopRecord
	// receipts are the files with a receipt.
	receipts map[*FileReport]*signedReceipt
	// entries is set if one of the files is a sound pack or export.
	entries  bool
	erasures []*erasureFile
	// statements are by tenant.
	statements map[string][]*statementFile
	rating     settlement.Rating
	// names are those of the rules in all headers. issued is by tenant what they name of rights, by the events of these.
	names  settlement.ScopeNames
	issued map[string]map[keptID][]settlement.Right
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
		trust: t, rating: o.Rating, expected: o.Expect != "", files: make([]FileReport, len(o.Files)), wanted: make(map[string][]*receiptPlace), logs: make(map[string]*provenLog),
		packs: make(map[string][]*packFile), receipts: make(map[*FileReport]*signedReceipt),
		statements: make(map[string][]*statementFile),
	}
	for i, name := range o.Files {
		v.files[i] = FileReport{File: name, Kind: kindUnknown, Verdicts: []Verdict{}}
		v.open(&v.files[i])
	}
	for _, d := range v.directories {
		d.add(v.trust.directory(d.text))
		d.about = "The key directory is signed under the root key."
		if d.has(AnchorKeys) {
			d.about = "The key directory is taken on trust. By itself it proves nothing; what its keys have signed does."
		}
	}
	for _, list := range v.statements {
		for _, s := range list {
			s.prepare(&v)
		}
	}
	for _, tenantID := range slices.Sorted(maps.Keys(v.packs)) {
		v.log(ctx, v.packs[tenantID])
	}
	v.proofs.verify(ctx, &v)
	for _, b := range v.bundles {
		b.verify(ctx, &v)
	}
	for _, origin := range slices.Sorted(maps.Keys(v.logs)) {
		v.logs[origin].forks()
	}
	v.stops(o.Bound)
	v.packScopes()
	v.entries = slices.ContainsFunc(v.files, func(f FileReport) bool { return (f.Kind == kindPack || f.Kind == kindExport) && f.ok() })
	for i := range v.files {
		f := &v.files[i]
		v.judge(f, v.receipts[f])
	}
	for _, e := range v.erasures {
		e.verify(&v)
	}
	for _, tenantID := range slices.Sorted(maps.Keys(v.statements)) {
		list := v.statements[tenantID]
		for _, s := range list {
			s.authenticate(&v)
		}
		others := byText(list)
		for _, s := range list {
			if s.signed {
				s.verify(&v, others)
			}
			if s.ok() && !s.has(StatementOK) {
				s.say(StatementUnproven, "it could not be recomputed")
			}
			s.about = aboutStatement(&s.said, s.has(StatementVoided))
		}
	}
	if o.NoSandbox {
		v.refuseSandbox()
	}
	report := Report{Files: v.files}
	if o.Expect != "" {
		report.Files = append(report.Files, v.expect(o.Expect))
	}
	report.decide()
	report.summarise()
	return report
}

// decide sets the verdicts, once all files are judged: the worst check decides about a file, and the worst
// file about all.
func (r *Report) decide() {
	r.Verdict = VerdictSound
	for i := range r.Files {
		f := &r.Files[i]
		if f.Verdict = worst(f.Verdicts); r.Verdict == VerdictSound || f.Verdict == VerdictUnsound {
			r.Verdict = f.Verdict
		}
	}
	r.OK = r.Verdict == VerdictSound
}

// open reads what a file holds, as far as it can be read at once.
func (v *verification) open(f *FileReport) {
	text, err := f.open()
	switch {
	case f.Kind == kindUnknown && bytes.HasPrefix(text, []byte(startOfZip)):
		f.otherArchive()
	case (errors.Is(err, errTooLarge) || errors.Is(err, canonical.ErrNotCanonical)) && f.Kind == kindUnknown:
		f.say(FormatUnknown, "%v", err)
	case errors.Is(err, errTooLarge), errors.Is(err, canonical.ErrNotCanonical):
		f.say(FormatInvalid, "%v", err)
	case err != nil:
		f.unreadable(err)
	case f.Kind == kindPack:
		p := v.openPack(f)
		v.packs[p.header.TenantID] = append(v.packs[p.header.TenantID], p)
	case f.Kind == kindBundle:
		c := &dsarCheck{FileReport: f}
		c.open(v)
		v.bundles = append(v.bundles, c)
	case f.Kind == kindDirectory:
		v.trust.learn(text)
		v.directories = append(v.directories, directoryFile{f, text})
	case f.Kind == kindUnknown, f.Kind == kindProof && holdsReceipt(text):
		if r := v.receipt(f, text); r != nil {
			v.receipts[f] = r
		}
	case f.Kind == kindErasure:
		v.openErasure(f, text)
	case f.Kind == kindStatement:
		v.openStatement(f, text)
	default:
		v.proofs.open(v, f, text)
	}
}

// refuseSandbox fails the files that depend on a key of the sandbox.
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

// receipt reads the receipt that a file holds; nil if it holds none.
func (v *verification) receipt(f *FileReport, text []byte) *signedReceipt {
	if isSums(text) {
		f.Kind = kindRelease
		f.say(FormatRelease, "a release's list of checksums, which is judged beside the files of the release")
		return nil
	}
	if !IsReceipt(text) {
		message, next := whatInstead(text)
		v := found(FormatUnknown, message)
		v.Next = cmp.Or(next, v.Next)
		f.add(v)
		return nil
	}
	f.Kind = kindReceipt
	r, err := readReceipt(text)
	if err != nil {
		f.say(FormatInvalid, "%v", err)
		return nil
	}
	v.wanted[r.receipt.ReceiptID] = []*receiptPlace{}
	return r
}

// judge verifies a receipt, once all packs are.
func (v *verification) judge(f *FileReport, r *signedReceipt) {
	switch {
	case r == nil:
	case v.trust.newer == nil:
		f.noDirectory(v.trust)
	default:
		f.add(r.verify(v.trust.newer, v.wanted[r.receipt.ReceiptID])...)
		if v.entries && f.ok() && !f.has(InclusionOK) {
			f.say(ReceiptUnproven, "it is not in the packs and exports that were given")
		}
		f.about = aboutReceipt(&r.receipt, f.has(InclusionOK))
		v.compareWithStops(f, r)
	}
}

// compareWithStops judges the event beside a sound receipt as that of a proof.
func (v *verification) compareWithStops(f *FileReport, r *signedReceipt) {
	event, _, _ := r.eventBeside()
	if event == nil || !f.ok() {
		return
	}
	if s := v.stopped[event.Event.TenantID]; s != nil {
		f.conduct = newConduct(event.Event.TenantID, 0, nil)
		f.conduct.single = true
		f.conduct.note(&pack.Finding{Event: event.Event, Delivery: event})
		s.judge(f)
	}
}

// sight notes that a file holds a delivery. by is the latest moment at which it came there.
func (v *verification) sight(f *FileReport, d *sealer.RecordedDelivery, by time.Time, place string, args ...any) {
	if list, wanted := v.wanted[d.Receipt.ReceiptID]; wanted {
		v.wanted[d.Receipt.ReceiptID] = append(list, &receiptPlace{f, fmt.Sprintf(place, args...), by, d})
	}
}

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
const startOfDirectory = `{"delegation":"muniment/`

// kinds are the beginnings by which the kind of a file is known. Each is one that nobody else's files have: what
// begins so and is not of that kind was altered.
var kinds = []struct{ start, kind string }{
	{`{"checkpoint":"muniment/`, kindPack},
	{`{"entries":["{\"`, kindPack},
	{`{"pack":{"entries":["{\"`, kindPack},
	{startOfAnswer + `{"pack":{"entries":["{\"`, kindPack},
	{startOfDirectory, kindDirectory},
	{`{"after":["`, kindExport},
	{`{"after":[],"before":[`, kindExport},
	{startOfBundle + "\x00\x00\x00\x00\x00\x00", kindBundle}, // a file stored as it is, and without a time
	{startOfBundle + "\x08\x00\x00\x00\x00\x00", kindBundle}, // one compressed
	{"c2sp.org/tlog-proof@v1\n", kindProof},
	{`{"event":{"actor":{"`, kindProof},
	{startOfAnswer + `{"event":{"actor":{"`, kindProof},
	{`{"actor":{"id":"`, kindEvent},
	{`{"consistency":["`, kindConsistency},
	{`{"consistency":[],"from":"muniment/`, kindConsistency},
	{startOfAnswer + `{"consistency":[`, kindConsistency},
	{"muniment/erasure.v1", kindErasure},
	{startOfErasure, kindErasure},
	{`{"adjustments":[{"amount":"`, kindStatement},
	{`{"adjustments":[],"asOf":{"`, kindStatement},
	{"muniment/", kindCheckpoint},
	{startOfAnswer + `{"checkpoint":"muniment/`, kindCheckpoint},
}

// longestStart is the longest of the beginnings in kinds.
const longestStart = 64

// kindNames say what files of a kind are, in the singular.
var kindNames = map[string]string{
	kindPack:        "proof pack",
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
	kindRelease:     "checksums of a release",
	kindUnknown:     "of no known kind",
}

// Kinds are those that a report names, sorted.
func Kinds() []string { return slices.Sorted(maps.Keys(kindNames)) }

// errTooLarge refuses a file, of which nothing may be left unread.
var errTooLarge = fmt.Errorf("larger than %d bytes, and neither a pack nor an export", maxSmallBytes)

// maxSmallBytes bounds the files that are read at once: all but packs, exports and bundles.
const maxSmallBytes = statement.MaxBytes

// open finds the kind of a file by its beginning. Packs and exports are left to be
// streamed; of anything else it returns the text.
func (f *FileReport) open() ([]byte, error) {
	file, err := os.Open(f.File)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	r, err := pack.Uncompressed(bufio.NewReader(file))
	if err != nil {
		return nil, err
	}
	start, err := r.Peek(longestStart)
	if err != nil && err != io.EOF {
		return nil, err
	}
	start = bytes.ReplaceAll(start, []byte("\r\n"), []byte("\n"))
	for _, k := range kinds {
		if bytes.HasPrefix(start, []byte(k.start)) {
			f.Kind = k.kind
			break
		}
	}
	if f.Kind == kindPack || f.Kind == kindExport || f.Kind == kindBundle {
		return nil, nil
	}
	var in io.Reader = r
	if f.Kind != kindUnknown {
		in = &lineEnds{in: r}
	}
	text, err := io.ReadAll(io.LimitReader(in, maxSmallBytes+1))
	if err == nil && len(text) > maxSmallBytes {
		err = errTooLarge
	}
	if f.Kind == kindProof && text[0] != '{' && !bytes.Contains(text, []byte("\n\nmuniment/")) {
		f.Kind = kindUnknown // a proof about the log of something else
	}
	return text, err
}
