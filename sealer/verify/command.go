package verify

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"muniment.example/sealer/canonical"
	"muniment.example/sealer/settlement"
	"muniment.example/sealer/signature"
	"muniment.example/sealer/terminal"
)

// Options are those of the verify command.
type Options struct {
	// Files are receipts, packs, proofs, checkpoints, exports and key directories, in
	// any order. Packs of one log are verified as a chain. The signed checksums of a release
	// (SignedReleaseSums) are given alone: the files beside them are held against them.
	Files []string
	// Keys is a file with a key directory. Under Root it must be signed, and adds
	// newer revocations; without Root it is the anchor, a weaker one.
	Keys string
	// Root is a C2SP vkey, or a file that holds one.
	Root string
	// Expect is a file with a checkpoint that was held outside: a note, or anything
	// that holds one. It is taken on trust, and the files must prove that its log has
	// grown from there. Empty for none.
	Expect string
	// Bound is how long after a stop a node may still sign, by its own clock: the service's
	// lease bound, and how far that clock may be ahead. Zero is DefaultBound.
	Bound time.Duration
	// OneByOne leaves each signature to crypto/ed25519, and checks none in groups.
	OneByOne bool
	// NoSandbox refuses what depends on a key of the sandbox.
	NoSandbox bool
	// Rating recomputes settlements and statements. Without it packs with settlement rules are not
	// sound.
	Rating settlement.Rating
	// JSON makes the output a Report instead of text.
	JSON bool
}

// DefaultBound is the service's default lease bound of 30 s and the minute that the clock of
// a node may be ahead of control's. No honest receipt is later than that after a stop if its
// node's clock keeps within the minute; otherwise one may be.
const DefaultBound = 90 * time.Second

// Exit statuses of the verify command.
const (
	ExitSound    = 0 // VerdictSound
	ExitUnsound  = 1 // VerdictUnsound
	ExitUnjudged = 2 // VerdictUnjudged: so it is also if there is nothing to trust, or the command line can't be read
)

// exits are the exit statuses by verdict.
var exits = map[string]int{VerdictSound: ExitSound, VerdictUnsound: ExitUnsound, VerdictUnjudged: ExitUnjudged}

// garbagePercent bounds the memory of a verification. What it keeps of millions of entries
// holds no pointers, so frequent collections are cheap.
const garbagePercent = 15

// Files is the body of the verify command: it verifies files offline,
// writes what it found, and returns the exit status.
func Files(ctx context.Context, o Options, stdout io.Writer) int {
	defer debug.SetGCPercent(debug.SetGCPercent(garbagePercent))
	w := bufio.NewWriter(stdout)
	defer w.Flush()
	o.Root, o.Keys, o.Expect = atHome(o.Root), atHome(o.Keys), atHome(o.Expect)
	if isRelease(&o) {
		return release(w, &o)
	}
	t, err := readTrust(o.Root, o.Keys)
	if err != nil {
		if o.JSON {
			writeJSON(w, Report{Verdict: VerdictUnjudged, Files: []FileReport{}, Message: err.Error(), Next: giveTrust})
		} else {
			terminal.Fprintf(w, "Can't be judged: %s\nNext: %s.\n", err, giveTrust)
		}
		return ExitUnjudged
	}
	if !o.OneByOne {
		t.signatures = new(signature.Checker)
	}
	r := verifyFiles(ctx, t, &o)
	if o.JSON {
		writeJSON(w, r)
	} else {
		writeText(w, t, &r)
	}
	return exits[r.Verdict]
}

// giveTrust is what to do without an anchor.
const giveTrust = "get the root key of the service from its operator, and give it with --root"

// atHome replaces a leading ~ by the home folder: shells leave it in --option=~/file.
func atHome(name string) string {
	rest, tilde := strings.CutPrefix(name, "~/")
	home, err := os.UserHomeDir()
	if !tilde || err != nil {
		return name
	}
	return filepath.Join(home, rest)
}

// writeJSON writes a report for programs.
func writeJSON(w io.Writer, r Report) {
	text, err := json.Marshal(r, jsontext.WithIndent("  "), jsontext.AllowInvalidUTF8(true)) // as names of files may be
	if err != nil {
		panic(err) // it is plain data
	}
	_, _ = terminal.Writer(w).Write(append(text, '\n')) // on a broken pipe there is no reader for the error
}

// marks are how the text shows a class.
var marks = map[class]string{passed: "ok  ", remark: "ok  ", unjudged: "??  ", unsound: "FAIL"}

// writeText writes a report for people.
func writeText(w io.Writer, t *trust, r *Report) {
	if r.Summary != "" {
		terminal.Fprintf(w, "%s\n\n", r.Summary)
	}
	if t.root != "" {
		terminal.Fprintf(w, "Trusting root key %s\n", t.root)
	} else {
		terminal.Fprintf(w, "Trusting the keys in %s: a weaker anchor than --root, because the author of that file can forge everything below\n", t.file)
	}
	verdicts, sandboxed := make(map[string]int), 0
	for i := range r.Files {
		f := &r.Files[i]
		terminal.Fprintf(w, "\n%s: %s\n", f.File, f.describe())
		for _, v := range f.Verdicts {
			terminal.Fprintf(w, "  %s  %-21s %s%s\n", marks[v.class()], v.Code, f.place(v), v.Message)
			if v.Next != "" {
				terminal.Fprintf(w, "        next: %s\n", v.Next)
			}
		}
		verdicts[f.Verdict]++
		if f.sandboxed() {
			sandboxed++
		}
	}
	files := count(len(r.Files), "file")
	switch r.Verdict {
	case VerdictSound:
		terminal.Fprintf(w, "\nSound: %s.\n", files)
	case VerdictUnsound:
		terminal.Fprintf(w, "\nNOT SOUND: %d of %s failed.\n", verdicts[VerdictUnsound], files)
	}
	if n := verdicts[VerdictUnjudged]; n > 0 {
		terminal.Fprintf(w, "\nCAN'T BE JUDGED: %d of %s.\n", n, files)
	}
	if sandboxed > 0 {
		terminal.Fprintf(w, "Of a sandbox: %s. Anyone can make such evidence, under any names.\n", count(sandboxed, "file"))
	}
}

// describe names what a file is in a few words.
func (f *FileReport) describe() string {
	switch {
	case f.Kind == kindPack && f.pack != nil && f.pack.header != nil:
		h := f.pack.header
		return fmt.Sprintf("proof pack %s of %s, %s, sealed %s",
			h.PackID, h.TenantID, count(h.Count, "entry"), canonical.FormatTime(h.SealedAt))
	case f.Kind == kindPack:
		return "proof pack, whose header can't be read"
	}
	return kindNames[f.Kind]
}

// place names where in the file a verdict points.
func (f *FileReport) place(v Verdict) string {
	if v.Index == nil {
		return ""
	}
	return fmt.Sprintf("entry %d (line %d of a bundle): ", *v.Index, *v.Index+2)
}

// count writes a number with its noun: "1 entry", "2,000 entries".
func count(n int, noun string) string {
	if n != 1 {
		if stem, ok := strings.CutSuffix(noun, "ry"); ok {
			noun = stem + "rie"
		}
		noun += "s"
	}
	return grouped(int64(n)) + " " + noun
}

// grouped writes n, which is not negative, with a comma at each thousand.
func grouped(n int64) string {
	if n < 1000 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%s,%03d", grouped(n/1000), n%1000)
}
