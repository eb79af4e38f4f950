//go:build independent

package independent_test

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/mod/sumdb/note"

	"muniment.example/control/settle"
	"muniment.example/sealer/verify"
)

// surface judges files under a root key: its verdict on the first and on all, its exit status, and what it prints for
// programs.
type surface func(t *testing.T, root string, files ...string) (first, all string, exit int, printed string)

// surfaces are all that judge files.
func surfaces(t *testing.T) map[string]surface {
	program := filepath.Join(t.TempDir(), "muniment-verify")
	out, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, "muniment.example/sealer/verify/muniment-verify").CombinedOutput()
	require.NoError(t, err, string(out))
	report := func(t *testing.T, text []byte) (first, all string) {
		var r verify.Report
		require.NoError(t, json.Unmarshal(text, &r), string(text))
		require.Equal(t, r.OK, r.Verdict == verify.VerdictSound)
		require.NotEmpty(t, r.Summary, string(text))
		return r.Files[0].Verdict, r.Verdict
	}
	browser := newBrowser(t)
	return map[string]surface{
		"the page": func(t *testing.T, root string, files ...string) (string, string, int, string) {
			text, exit := browser.run(t, root, files...)
			first, all := report(t, []byte(text))
			return first, all, exit, text
		},
		"muniment verify": func(t *testing.T, root string, files ...string) (string, string, int, string) {
			var out bytes.Buffer
			exit := verify.Files(t.Context(), verify.Options{Files: files, Root: root, Rating: settle.Rating, JSON: true}, &out)
			first, all := report(t, out.Bytes())
			return first, all, exit, out.String()
		},
		"muniment-verify": func(t *testing.T, root string, files ...string) (string, string, int, string) {
			cmd := exec.CommandContext(t.Context(), program, append([]string{"--json", "--root", root}, files...)...)
			out, _ := cmd.Output() // the status says it
			first, all := report(t, out)
			return first, all, cmd.ProcessState.ExitCode(), string(out)
		},
		"verify.py": func(t *testing.T, root string, files ...string) (first, all string, exit int, printed string) {
			cmd := python(append([]string{"verify.py", "--json", "--root", root}, files...)...)
			out, _ := cmd.Output() // likewise
			all = verify.VerdictSound
			for line := range strings.Lines(string(out)) {
				var v struct{ Verdict string }
				require.NoError(t, json.Unmarshal([]byte(line), &v), line)
				if first == "" {
					first = v.Verdict
				}
				if all == verify.VerdictSound || v.Verdict == verify.VerdictUnsound {
					all = v.Verdict
				}
			}
			return first, all, cmd.ProcessState.ExitCode(), string(out)
		},
	}
}

// browser runs the program of the page /verify, in Node: the one that make build has compiled, with the page's own
// file system.
type browser struct {
	in  io.Writer
	out *json.Decoder
}

func newBrowser(t *testing.T) *browser {
	cmd := exec.CommandContext(t.Context(), "node", "../../control/verifier/nodetest/program.js")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start(), "Node runs the page's program here")
	t.Cleanup(func() {
		in.Close()
		cmd.Wait() //nolint:errcheck // its context may have ended it
	})
	return &browser{in, json.NewDecoder(out)}
}

func (b *browser) run(t *testing.T, root string, files ...string) (printed string, exit int) {
	args, held := []string{"--json", "--root", root}, map[string][]byte{}
	for i, name := range append([]string{root}, files...) {
		text, err := os.ReadFile(name)
		if err != nil && i > 0 { // there is none, or it is a folder: the program has to say so
			continue
		}
		require.NoError(t, err)
		held[name] = text
	}
	require.NoError(t, json.NewEncoder(b.in).Encode(map[string]any{"args": append(args, files...), "files": held}))
	var answer struct {
		Status  int
		Printed string
	}
	require.NoError(t, b.out.Decode(&answer), "make build has compiled the page's program")
	return answer.Printed, answer.Status
}

// evidenceOf are files of each kind, the first with those that it needs.
var evidenceOf = map[string][]string{
	"receipt":            {"receipt.json", "keys.json"},
	"receipt and event":  {"receipt-and-event.json", "keys.json"},
	"directory":          {"keys.json"},
	"pack":               {"chain-1.ndjson"},
	"pack as object":     {"chain-1.json"},
	"sandbox":            {"sandbox-answer.json"},
	"inclusion proof":    {"proof.json", "proof-keys.json"},
	"tlog-proof":         {"proof.tlog-proof", "proof-event.json", "proof-keys.json"},
	"event":              {"proof-event.json", "proof.tlog-proof", "proof-keys.json"},
	"consistency proof":  {"consistency.json", "proof-keys.json"},
	"checkpoint":         {"checkpoint.note", "proof-keys.json"},
	"export":             {"export.ndjson"},
	"erasure":            {"erasure.note", "erased.ndjson"},
	"erasure answer":     {"erasure.json", "erased.ndjson"},
	"statement":          {"statement.json", "stated-1.ndjson", "stated-2.ndjson", "stated-3.ndjson"},
	"correction":         {"statement-corrected.json", "statement.json", "stated-1.ndjson", "stated-2.ndjson", "stated-3.ndjson", "stated-4.ndjson"},
	"void":               {"statement-void.json", "statement-corrected.json", "statement.json", "stated-1.ndjson", "stated-2.ndjson", "stated-3.ndjson", "stated-4.ndjson"},
	"statement of payee": {"statement-payee.json", "stated-1.ndjson", "stated-2.ndjson"},
}

// bundleKind is what begins the names of bundles of personal data among the kinds.
const bundleKind = "bundle"

// indented is a text as tools print JSON for people, value by value; nil if it is none.
func indented(text []byte) (pretty []byte) {
	for in := json.NewDecoder(bytes.NewReader(text)); ; {
		var v json.RawMessage
		switch err := in.Decode(&v); {
		case err == io.EOF:
			return pretty
		case err != nil:
			return nil
		}
		to := bytes.NewBuffer(pretty)
		if json.Indent(to, v, "", "  ") != nil {
			return nil
		}
		pretty = append(to.Bytes(), '\n')
	}
}

// complete are the kinds that need no other file.
var complete = map[string]bool{"directory": true, "pack": true, "pack as object": true, "sandbox": true, "export": true}

// TestSurfaces: whatever judges a file comes to the same verdict, whether it is sound, altered, cut, another
// service's, has other line ends, lacks what it needs, or is none of ours.
func TestSurfaces(t *testing.T) {
	s := newService(t, "surfaces") // whose root is another one
	f := newFolder(t, s)
	const root = "../testdata/root.vkey"
	all := surfaces(t)
	exits := map[string]int{verify.VerdictSound: 0, verify.VerdictUnsound: 1, verify.VerdictUnjudged: 2}
	expect := func(about, want, root string, files ...string) (printed map[string]string) {
		t.Helper()
		printed = map[string]string{}
		for name, judge := range all {
			first, together, exit, text := judge(t, root, files...)
			require.Equal(t, want, first, "%s: %s: %v", name, about, files)
			if want != verify.VerdictSound {
				require.Equal(t, want, together, "%s: %s: %v", name, about, files)
			}
			require.Equal(t, exits[together], exit, "%s: %s", name, about)
			printed[name] = text
		}
		return printed
	}
	type evidence struct {
		files       []string
		root, other string // which it is of, and another one
	}
	given := map[string]evidence{}
	for kind, names := range evidenceOf {
		e := evidence{root: root, other: f.root}
		for _, name := range names {
			e.files = append(e.files, filepath.Join("../testdata/good", name))
		}
		given[kind] = e
	}
	for format, table := range bundleFormats(t) {
		given[bundleKind+" as "+format] = evidence{[]string{f.put(s.bundle(s.sealing, format, table))}, f.root, root}
	}
	kinds := map[string]bool{"release": true, "unknown": true} // which are below
	for kind, e := range given {
		root, files := e.root, e.files
		_, _, _, printed := all["muniment verify"](t, root, files[0])
		var r verify.Report
		require.NoError(t, json.Unmarshal([]byte(printed), &r))
		kinds[r.Files[0].Kind] = true
		text, err := os.ReadFile(files[0])
		require.NoError(t, err)
		with := func(changed []byte) []string { return append([]string{f.put(changed)}, files[1:]...) }
		expect(kind+", sound", verify.VerdictSound, root, files...)
		expect(kind+", of another service", verify.VerdictUnjudged, e.other, files...)
		bundle := strings.HasPrefix(kind, bundleKind)
		if !complete[kind] && !bundle {
			expect(kind+", incomplete", verify.VerdictUnjudged, root, files[0])
		}
		at := bytes.LastIndex(text, []byte("2026-"))
		if at < 0 {
			at = len(text) / 2
		}
		if kind == "erasure answer" { // whose last times nothing signs
			at = bytes.Index(text, []byte("2026-"))
		}
		altered := bytes.Clone(text)
		altered[at+3]++ // a year, or a character of a proof
		expect(kind+", altered", verify.VerdictUnsound, root, with(altered)...)
		expect(kind+", cut", verify.VerdictUnsound, root, with(text[:len(text)*2/3])...)
		for about, changed := range map[string][]byte{
			"with CRLF": bytes.ReplaceAll(text, []byte("\n"), []byte("\r\n")), "with more newlines": append(bytes.Clone(text), "\n\r\n"...), "without the last newline": bytes.TrimRight(text, "\n"),
		} {
			want := verify.VerdictSound
			if bundle && !bytes.Equal(changed, text) { // whose bytes are no lines
				want = verify.VerdictUnsound
			}
			expect(kind+", "+about, want, root, with(changed)...)
		}
		if pretty := indented(text); pretty != nil {
			want := verify.VerdictUnjudged
			if strings.HasPrefix(kind, "receipt") { // whose spacing is free
				want = verify.VerdictSound
			}
			expect(kind+", pretty-printed", want, root, with(pretty)...)
		}
		expect(kind+", behind something", verify.VerdictUnjudged, root, with(append([]byte("<!doctype html>\n"), text...))...)
	}
	require.Equal(t, verify.Kinds(), slices.Sorted(maps.Keys(kinds)), "each kind that Go judges is judged everywhere")
	keys := "../testdata/good/keys.json"
	receipt, err := os.ReadFile("../testdata/good/receipt.json")
	require.NoError(t, err)
	for about, change := range map[string][]string{
		"no signature": {`"signature"`, `"signatures"`}, "no receipt": {`"renderedAt":`, `"at":`, `"spatialAnchorId":`, `"anchor":`, `"spatialPlacementId":`, `"placement":`, `"dwellMs":`, `"ms":`, `"witness":`, `"by":`},
	} {
		expect("a receipt with "+about, verify.VerdictUnsound, root, f.put([]byte(strings.NewReplacer(change...).Replace(string(receipt)))), keys)
	}
	sums := fmt.Appendf(nil, "%x  a.tgz\n", sha256.Sum256([]byte("a")))
	for name, text := range map[string]string{
		"nothing": "", "a page": "<!doctype html><title>Statement</title>", "a PDF": "%PDF-1.7\n", "a table": "receiptId,dwellMs\nrcp_1,8200\n",
		"another's JSON": `{"checkpoint":{"epoch":3}}`, "another's log": `{"actor":"octocat","action":"push"}`, "a list of receipts": `{"ok":true,"data":{"receipts":[{"receiptId":"rcp_1"}]},"contractVersion":"v1.0"}`,
		"a refusal": `{"ok":false,"error":"NOT_FOUND","message":"no such receipt"}`, "a zip": "PK\x03\x04\x14\x00\x06\x00\x08\x00\x00\x00\x21\x00", "another's receipt": `{"receipt":{"bundle_id":"com.x"},"status":0}`,
		"where a receipt is": `{"data":{"receipt":"https://example.org/r/1"}}`, "another's signature": `{"payload":"e30","signature":"x"}`,
		"a signed document": `{"total":1,"signature":{"algorithm":"ES256","keyId":"k1","value":"AA"}}`, "another's receipt, signed": `{"receipt":{"receiptId":"r1","total":1},"signature":"AA"}`,
		"another's proof": "c2sp.org/tlog-proof@v1\nindex 0\n\ngo.sum database tree\n1\n",
	} {
		expect(name, verify.VerdictUnjudged, root, f.put([]byte(text)), keys)
	}
	expect("a wrong path", verify.VerdictUnjudged, root, filepath.Join(f.dir, "nowhere"), keys)
	expect("a folder", verify.VerdictUnjudged, root, f.dir, keys)

	// A release is judged by its key, in its folder, which verify.py and the page don't look into. Who does not judge it says
	// who does.
	skey, vkey, err := note.GenerateKey(rand.Reader, "muniment.example/release")
	require.NoError(t, err)
	signer, err := note.NewSigner(skey)
	require.NoError(t, err)
	file, key := filepath.Join(f.dir, "v1.0.0", verify.SignedReleaseSums), f.put([]byte(vkey))
	require.NoError(t, os.Mkdir(filepath.Dir(file), 0o700))
	signed, err := note.Sign(&note.Note{Text: string(sums)}, signer)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(filepath.Dir(file), "a.tgz"), []byte("a"), 0o600))
	next := "run muniment-verify --root RELEASE_KEY SHA256SUMS.note in the folder of the release"
	for _, text := range [][]byte{sums, signed} {
		for name, printed := range expect("checksums of a release", verify.VerdictUnjudged, root, f.put(text), keys) {
			require.Contains(t, printed, `"format.release"`, name)
			require.Contains(t, printed, next, name)
		}
	}
	for about, text := range map[string][]byte{"a page as a release": []byte("<!doctype html>"), "a release, of another key": signed} {
		require.NoError(t, os.WriteFile(file, text, 0o600))
		expect(about, verify.VerdictUnjudged, root, file)
	}
	require.NoError(t, os.WriteFile(file, signed, 0o600))
	for name, judges := range map[string]bool{"muniment verify": true, "muniment-verify": true, "the page": false, "verify.py": false} {
		_, together, _, printed := all[name](t, key, file)
		if judges {
			require.Equal(t, verify.VerdictSound, together, name)
			continue
		}
		require.Equal(t, verify.VerdictUnjudged, together, name)
		require.Contains(t, printed, next, name)
	}
	t.Logf("%d kinds of files on %d surfaces", len(given), len(all))
}
