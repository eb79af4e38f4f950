//go:build independent

package independent_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/mod/sumdb/note"

	"muniment.example/control/settle"
	"muniment.example/sealer"
	"muniment.example/sealer/rate"
	"muniment.example/sealer/verify"
)

// size is how much evidence is made: a twentieth of it unless MUNIMENT_TEST_FULL is set.
func size(full int) int {
	if os.Getenv("MUNIMENT_TEST_FULL") == "" {
		return full / 20
	}
	return full
}

// python is the interpreter, which has the packages of requirements.txt.
func python(args ...string) *exec.Cmd {
	name := os.Getenv("MUNIMENT_TEST_PYTHON")
	if name == "" {
		name = "python3"
	}
	return exec.Command(name, args...)
}

// verdict is what one of the verifiers says about one file.
type verdict struct {
	File    string
	OK      bool
	Verdict string
	Codes   []sealer.Code // of what is wrong; the stranger names the first thing only
	// Sandbox is set if a key of the sandbox has signed it.
	Sandbox bool
	// Unproven are the codes of what nothing at hand proves, if nothing is wrong.
	Unproven []sealer.Code
}

// anchor is a file of what is trusted: a root key, or a list of keys.
type anchor struct {
	root, keys string
	noSandbox  bool
}

// stranger has verify.py judge sets of files under a root key, in one process.
func stranger(t *testing.T, root string, sets [][]string) [][]verdict {
	return anchor{root: root}.stranger(t, sets)
}

func (a anchor) stranger(t *testing.T, sets [][]string) [][]verdict {
	var in, out, complaints bytes.Buffer
	for _, set := range sets {
		fmt.Fprintln(&in, strings.Join(set, "\t"))
	}
	cmd := python("verify.py", "--json", "--root", a.root)
	if a.keys != "" {
		cmd = python("verify.py", "--json", "--keys", a.keys)
	}
	if a.noSandbox {
		cmd.Args = append(cmd.Args, "--no-sandbox")
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = &in, &out, &complaints
	err := cmd.Run()
	require.Empty(t, complaints.String(), "verify.py: %v", err)
	d := json.NewDecoder(&out)
	verdicts := make([][]verdict, len(sets))
	for i, set := range sets {
		for _, name := range set {
			var v struct {
				File, Verdict string
				OK            bool
				Code          sealer.Code

				Sandbox  bool
				Unproven []sealer.Code
			}
			require.NoError(t, d.Decode(&v))
			require.Equal(t, name, v.File)
			verdicts[i] = append(verdicts[i], verdict{name, v.OK, v.Verdict, []sealer.Code{v.Code}, v.Sandbox, append([]sealer.Code(nil), v.Unproven...)})
		}
	}
	require.False(t, d.More())
	return verdicts
}

// ours has the verify command judge a set of files under a root key.
func ours(t *testing.T, root string, set []string) []verdict { return anchor{root: root}.ours(t, set) }

func (a anchor) ours(t *testing.T, set []string) []verdict {
	var out bytes.Buffer
	verify.Files(context.Background(), verify.Options{Files: set, Root: a.root, Keys: a.keys, NoSandbox: a.noSandbox, Rating: settle.Rating, JSON: true}, &out)
	var report verify.Report
	require.NoError(t, json.Unmarshal(out.Bytes(), &report), out.String())
	require.Empty(t, report.Message)
	var verdicts []verdict
	for _, f := range report.Files {
		v := verdict{File: f.File, OK: true, Verdict: f.Verdict}
		for _, each := range f.Verdicts {
			if !each.OK {
				v.OK, v.Codes = false, append(v.Codes, each.Code)
			}
			v.Sandbox = v.Sandbox || each.Code == verify.KeySandbox
			switch each.Code {
			case verify.DuplicatesUnproven, verify.SettlementUnproven, verify.RightLate, verify.RightUnproven, verify.ReceiptUncovered, verify.ReceiptUnproven:
				v.Unproven = append(v.Unproven, each.Code)
			}
		}
		if !v.OK {
			v.Unproven = nil
		}
		verdicts = append(verdicts, v)
	}
	return verdicts
}

// folder is where evidence lies.
type folder struct {
	*testing.T
	dir  string
	root string
	n    int
}

func newFolder(t *testing.T, s *service) *folder {
	f := &folder{T: t, dir: t.TempDir()}
	f.root = f.put([]byte(s.vkey + "\n"))
	return f
}

func (f *folder) put(text []byte) string {
	f.n++
	name := filepath.Join(f.dir, fmt.Sprint(f.n))
	require.NoError(f, os.WriteFile(name, text, 0o600))
	return name
}

// begin is how a file begins, by which its kind is known.
func (f *folder) begin(name string) string {
	text, err := os.ReadFile(name)
	require.NoError(f, err)
	return fmt.Sprintf("%.60q", text)
}

// TestStranger checks that verify.py is independent: it imports nothing but the
// standard library and cryptography, and neither runs nor evaluates anything.
func TestStranger(t *testing.T) {
	out, err := python("-c", `
import ast, sys
for n in (n for file in ("verify.py", "settle.py") for n in ast.walk(ast.parse(open(file, encoding="utf-8").read()))):
    names = [a.name for a in n.names] if isinstance(n, ast.Import) else [n.module] if isinstance(n, ast.ImportFrom) else []
    for name in names:
        top = name.split(".")[0]
        assert top in ("cryptography", "settle") or top in sys.stdlib_module_names, name
        assert top not in ("subprocess", "ctypes", "importlib", "os", "socket"), name
    if isinstance(n, ast.ImportFrom):
        assert n.level == 0
    if isinstance(n, ast.Name):
        assert n.id not in ("exec", "eval", "compile", "__import__"), n.id
`).CombinedOutput()
	require.NoError(t, err, string(out))
}

// TestRoot checks that what is not a root key is refused, instead of trusted.
func TestRoot(t *testing.T) {
	s := newService(t, "root")
	f := newFolder(t, s)
	name, hash, key := s.vkey[:16], s.vkey[17:25], s.vkey[26:]
	weak, err := note.NewEd25519VerifierKey(name, weakKeys()[2])
	require.NoError(t, err)
	for _, vkey := range []string{
		weak, "", name, name + "+" + hash, name + "+00000000+" + key, "another+" + hash + "+" + key,
		name + "+" + hash + "+" + key[:40], name + "+" + hash + "+A" + key[1:len(key)-1] + "A", s.vkey + "AAAA",
	} {
		file := f.put([]byte(vkey))
		out, err := python("verify.py", "--root", file, "../testdata/good/keys.json").CombinedOutput()
		require.Error(t, err, vkey)
		require.Contains(t, string(out), "holds no root key", vkey)
	}
}

// TestNoAnchor: an anchor that can't be read, or has no name, is no verdict of a file.
func TestNoAnchor(t *testing.T) {
	for _, anchor := range [][]string{
		{"--root="}, {"--keys="}, {"--root", "nowhere.vkey"}, {"--keys", "nowhere.json"}, {"--root", "."}, {"--keys", "."},
		{"--root=", "--keys", "../testdata/good/keys.json"}, {"--keys", "nowhere.json", "--keys", "../testdata/good/keys.json"}, {},
	} {
		cmd := python(append(append([]string{"verify.py"}, anchor...), "../testdata/good/keys.json")...)
		out, err := cmd.CombinedOutput()
		require.Error(t, err, anchor)
		require.Equal(t, 2, cmd.ProcessState.ExitCode(), "%v: %s", anchor, out)
		require.NotContains(t, string(out), "Traceback", anchor)
	}
}

// TestVectors requires the verdict, and a reason, of every case of testdata.
func TestVectors(t *testing.T) {
	text, err := os.ReadFile("../testdata/vectors.json")
	require.NoError(t, err)
	var cases []struct {
		Name     string
		Files    []string
		Keys     string
		Failures [][]sealer.Code
		Verdicts []string
	}
	require.NoError(t, json.Unmarshal(text, &cases))
	require.NotEmpty(t, cases)
	sets := make([][]string, len(cases))
	for i, c := range cases {
		for _, name := range c.Files {
			sets[i] = append(sets[i], filepath.Join("../testdata", name))
		}
		if c.Keys != "" {
			sets[i] = append(sets[i], filepath.Join("../testdata", c.Keys))
		}
	}
	for i, verdicts := range stranger(t, "../testdata/root.vkey", sets) {
		for n := range cases[i].Files { // an expected checkpoint is the command's own affair
			v, codes := verdicts[n], cases[i].Failures[n]
			require.Equal(t, codes == nil, v.OK, "%s: %s: %v", cases[i].Name, v.File, v.Codes)
			require.Equal(t, cases[i].Verdicts[n], v.Verdict, "%s: %s: %v", cases[i].Name, v.File, v.Codes)
			if codes != nil {
				require.Subset(t, codes, v.Codes, "%s: %s", cases[i].Name, v.File)
			}
		}
	}
}

// TestPacks makes packs of 1 to 200 entries, in logs of one to four, and proofs from
// those logs. Both verifiers accept each by itself, and all of a log together.
func TestPacks(t *testing.T) {
	s := newService(t, "packs")
	f := newFolder(t, s)
	var sets [][]string
	packs, entries, lines, unrated, plays := size(1000), 0, 0, map[string]int{}, 0
	for n := 0; n < packs; {
		l := s.newLog()
		s.answered = nil
		var chain []string
		for range min(1+s.IntN(4), packs-n) {
			p := l.seal(1 + s.IntN(200))
			chain = append(chain, f.put(p.file))
			sets = append(sets, chain[len(chain)-1:])
			entries += len(p.events)
			if s := p.Header.Settlement; s != nil {
				lines += len(s.Lines)
				for _, u := range s.Unrated {
					unrated[u.Reason]++
				}
			}
			n++
		}
		for _, event := range s.answered[:min(3, len(s.answered))] {
			chain = append(chain, f.put(s.answer(event)))
		}
		for range 4 {
			_, text := l.proof()
			proof := []string{f.put(text), f.put(s.directory(l.now))}
			sets = append(sets, proof)
			chain = append(chain, proof...)
		}
		leaf := s.IntN(len(l.events))
		chain = append(chain, f.put([]byte(l.inclusion(uint64(leaf)).Text())), f.put(l.events[leaf]),
			f.put([]byte(l.packs[0].Header.Checkpoint+l.witness())))
		s.Shuffle(len(chain), func(i, j int) { chain[i], chain[j] = chain[j], chain[i] })
		sets = append(sets, chain)
	}
	began := time.Now()
	for i, theirs := range stranger(t, f.root, sets) {
		for n, v := range ours(t, f.root, sets[i]) {
			require.True(t, v.OK, "sealer about %s: %v", f.begin(v.File), v.Codes)
			require.True(t, theirs[n].OK, "verify.py about %s: %v", f.begin(v.File), theirs[n].Codes)
			require.Equal(t, v.Sandbox, theirs[n].Sandbox, f.begin(v.File))
			require.Equal(t, v.Unproven, theirs[n].Unproven, f.begin(v.File))
			if v.Sandbox {
				plays++
			}
		}
	}
	require.Positive(t, plays)
	require.Positive(t, lines)
	require.Positive(t, unrated[rate.NoRule])
	require.Positive(t, unrated[rate.TooLarge])
	t.Logf("%d packs of %d entries, with %d lines of settlement and %v without, and receipts and proofs, alone and together in %d sets: both accept all, in %s",
		packs, entries, lines, unrated, len(sets), time.Since(began).Round(time.Second/10))
}

// TestMutants spoils packs, proofs, directories and receipts. Neither verifier lets any pass.
func TestMutants(t *testing.T) {
	s := newService(t, "mutants")
	f := newFolder(t, s)
	var packs []*sealedPack
	var logs []*log
	for range 20 {
		l := s.newLog()
		for range 3 {
			packs = append(packs, l.seal(1+s.IntN(20)))
		}
		logs = append(logs, l)
	}
	directory := s.directory(epoch.AddDate(1, 0, 0))
	keys := f.put(directory)
	var sets [][]string
	var kinds []string
	add := func(kind string, text, good []byte, beside ...string) {
		if !bytes.Equal(withoutLineEnds(text), withoutLineEnds(good)) {
			kinds = append(kinds, kind)
			sets = append(sets, append([]string{f.put(text)}, beside...))
		}
	}
	for total := size(10000); len(sets) < total; {
		p := packs[s.IntN(len(packs))]
		switch n := s.IntN(20); {
		case n < 7:
			add("pack", s.spoil(p.file), p.file)
		case n < 12:
			name, text := s.lie(p)
			add(name, text, p.file)
		case n < 15:
			kind, good := logs[s.IntN(len(logs))].proof()
			add(kind, s.spoil(good), good, keys)
		case n < 17:
			name, text := logs[s.IntN(len(logs))].badProof()
			add(name, text, nil, keys)
		case n < 18:
			add("directory", s.spoil(directory), directory)
		case n < 19:
			name, text := s.badDirectory(directory)
			add(name, text, directory)
		default:
			if bad := s.badReceipt(s.answered[s.IntN(len(s.answered))]); bad != nil {
				add("receipt", bad, nil, keys)
			}
		}
	}
	began := time.Now()
	count, alike := map[string]int{}, 0
	for i, theirs := range stranger(t, f.root, sets) {
		us := ours(t, f.root, sets[i])
		require.False(t, theirs[0].OK, "verify.py accepts %s: %s", kinds[i], sets[i][0])
		require.False(t, us[0].OK, "sealer accepts %s: %s", kinds[i], sets[i][0])
		require.Equal(t, us[0].Verdict, theirs[0].Verdict, "%s: sealer %v, verify.py %v: %s", kinds[i], us[0].Codes, theirs[0].Codes, sets[i][0])
		for _, v := range slices.Concat(theirs[1:], us[1:]) {
			require.True(t, v.OK, "the directory beside %s: %v", kinds[i], v.Codes)
		}
		if slices.Contains(us[0].Codes, theirs[0].Codes[0]) {
			alike++
		}
		count[strings.Split(kinds[i], ":")[0]]++
	}
	t.Logf("%d mutants, %v: none passes either; %d for the same reason, in %s",
		len(sets), count, alike, time.Since(began).Round(time.Second/10))
}
