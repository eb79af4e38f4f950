package verify

import (
	"bytes"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/sealer"
	"muniment.example/sealer/canonical"
	"muniment.example/sealer/dsar"
	"muniment.example/sealer/keydir"
	"muniment.example/sealer/rate"
	"muniment.example/sealer/sealertest"
)

// bundle is one of personal data.
func (w *world) bundle() []byte {
	var text bytes.Buffer
	to := dsar.NewWriter(&text)
	section, err := to.File("events.ndjson", false)
	require.NoError(w.TB, err)
	_, err = section.Write([]byte("{}\n"))
	require.NoError(w.TB, err)
	to.Rows(1)
	_, _, err = to.Close(dsar.Manifest{AsOf: "1.0.1", CreatedAt: canonical.FormatTime(w.Now), Directory: w.Directory(), Format: "NDJSON", JobID: "job_1", Kind: "DATA_SUBJECT", Pending: map[string]int64{}, TenantID: w.Tenant},
		&sealer.Signer{KeyID: keydir.KeyID(sealertest.Public(w.PackKey)), Key: w.PackKey})
	require.NoError(w.TB, err)
	return text.Bytes()
}

// TestEveryVerdictHasASentence: whatever file is judged, whatever the verdict, a person reads a sentence that fits it, and of what can't be
// judged what to do. It is said of all vectors, also without what they need and under another root, so of every kind with each
// verdict that it can have.
func TestEveryVerdictHasASentence(t *testing.T) {
	judged := map[string]bool{}
	judge := func(root, keys string, o Options) {
		t.Helper()
		anchor, err := readTrust(root, keys)
		require.NoError(t, err)
		o.Rating = rate.Rating
		r := verifyFiles(t.Context(), anchor, &o)
		for _, f := range r.Files {
			judged[f.Kind+" "+f.Verdict] = true
			what := f.File + ", " + f.Kind + ", " + f.Verdict
			require.Regexp(t, `(?s)^[A-Z].*\.$`, f.Summary, what)
			require.Equal(t, f.Verdict == VerdictUnjudged, strings.Contains(f.Summary, " Next: "), what)
			require.Equal(t, f.Verdict == VerdictUnsound, strings.HasPrefix(f.Summary, "It must not be relied on: "), what)
		}
		require.Regexp(t, `(?s)^[A-Z].*\.$`, r.Summary, o.Files)
	}
	_, foreign := sealertest.RootKey(t, "other.example")
	root := testdata("root.vkey")
	text, err := os.ReadFile(testdata("vectors.json"))
	require.NoError(t, err)
	var vectors []vector
	require.NoError(t, json.Unmarshal(text, &vectors))
	for _, c := range vectors {
		o := Options{Expect: testdata(c.Expect)}
		for _, name := range c.Files {
			o.Files = append(o.Files, testdata(name))
			judge(root, "", Options{Files: []string{testdata(name)}})
			judge(foreign, "", Options{Files: []string{testdata(name)}})
		}
		judge(root, testdata(c.Keys), o)
	}
	judge("", testdata("good/keys.json"), Options{Files: []string{testdata("good/keys.json")}})

	f := newFolder(t)
	bundle := f.w.bundle()
	altered := bytes.Replace(bundle, []byte("DATA_SUBJECT"), []byte("DATA_SUBJEKT"), 1)
	event, err := os.ReadFile(testdata("good/proof-event.json"))
	require.NoError(t, err)
	event = bytes.Replace(event, []byte(`"data":`), []byte(`"data": `), 1)
	for _, key := range []string{f.w.VKey, foreign} {
		judge(key, "", Options{Files: []string{f.write("bundle.zip", bundle), f.write("event.json", event), f.write("altered.zip", altered), f.write("SHA256SUMS", []byte(strings.Repeat("0", 64)+"  a\n")), f.write("page.html", []byte("<html>"))}})
	}

	var want []string
	for _, kind := range Kinds() {
		for _, verdict := range []string{VerdictSound, VerdictUnsound, VerdictUnjudged} {
			only := kind == kindRelease || kind == kindUnknown // nothing of them is judged here
			if !only || verdict == VerdictUnjudged {
				want = append(want, kind+" "+verdict)
			}
		}
	}
	var got []string
	for pair := range judged {
		got = append(got, pair)
	}
	slices.Sort(want)
	slices.Sort(got)
	require.Equal(t, want, got)
}

// TestArchiveOfPacks: a ZIP file that is none of ours is not called wrong, however large it is: its files are to be given.
func TestArchiveOfPacks(t *testing.T) {
	f := newFolder(t)
	for name, text := range map[string]string{
		"with a time": startOfZip + "\x14\x00\x08\x00\x00\x00\x21\x59", "cut": startOfZip, "large": startOfZip + strings.Repeat("x", maxSmallBytes),
	} {
		var out bytes.Buffer
		require.Equal(t, ExitUnjudged, Files(t.Context(), Options{Root: f.w.VKey, Files: []string{f.write("packs.zip", []byte(text))}}, &out), name)
		require.Contains(t, out.String(), "format.unknown", name)
		require.Contains(t, out.String(), "unpack it, and give the files in it, all at once", name)
	}
}
