package verify

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/sealer"
	"muniment.example/sealer/keydir"
	"muniment.example/sealer/pack"
	"muniment.example/sealer/sealertest"
)

// folder is where a test keeps the files that it verifies.
type folder struct {
	t    *testing.T
	w    *world
	path string
}

func newFolder(t *testing.T) *folder { return &folder{t, newWorld(t), t.TempDir()} }

func (f *folder) write(name string, text []byte) string {
	f.t.Helper()
	path := filepath.Join(f.path, name)
	require.NoError(f.t, os.WriteFile(path, text, 0o600))
	return path
}

// pack seals events and writes the bundle.
func (f *folder) pack(name string, events [][]byte, change ...func(*pack.Config)) string {
	f.t.Helper()
	p := f.w.Seal(events, change...)
	return f.write(name, sealertest.Bundle(f.t, p, events))
}

// answer is what a caller of the delivery route holds.
func answer(t *testing.T, event []byte) []byte {
	t.Helper()
	p, err := sealer.SplitDelivery(event)
	require.NoError(t, err)
	return fmt.Appendf(nil, "{\n \"ok\": true, \"data\": {\"receipt\": %s, \"substrate\": %s, \"signature\": %s, \"metering\": %s}, \"contractVersion\": \"v1.0\"}\n",
		p.Receipt, p.Substrate, p.Signature, p.Metering)
}

// verify runs the command with --root and --json, and summarises: for each file its
// kind and the codes, a failed one with "!" before it.
func (f *folder) verify(want int, files ...string) []string {
	f.t.Helper()
	return f.run(want, Options{Root: f.w.VKey, Files: files})
}

func (f *folder) run(want int, o Options) []string {
	f.t.Helper()
	o.JSON = true
	var out bytes.Buffer
	status := Files(context.Background(), o, &out)
	require.Equal(f.t, want, status, out.String())
	var report struct {
		OK    *bool
		Files []struct {
			File, Kind string
			Verdicts   []struct {
				Code  string
				OK    *bool
				Index *int
			}
		}
	}
	require.NoError(f.t, json.Unmarshal(out.Bytes(), &report))
	require.Equal(f.t, want == ExitSound, *report.OK)
	var lines []string
	for i, file := range report.Files {
		require.Equal(f.t, o.Files[i], file.File)
		line := file.Kind
		for _, v := range file.Verdicts {
			line += " "
			if !*v.OK {
				line += "!"
			}
			line += v.Code
			if v.Index != nil {
				line += fmt.Sprintf("@%d", *v.Index)
			}
		}
		lines = append(lines, line)
	}
	return lines
}

const (
	soundFirst = "pack directory.ok signature.ok checkpoint.ok inclusion.ok witness.ok metering.ok"
	soundNext  = "pack directory.ok consistency.ok signature.ok checkpoint.ok inclusion.ok witness.ok metering.ok"
	soundLater = soundNext + " duplicates.unproven settlement.unproven" // earlier packs are not at hand
)

func TestVerifyChain(t *testing.T) {
	f := newFolder(t)
	a := f.pack("a", f.w.Run(10))
	b := f.pack("b", f.w.Run(10))
	c := f.pack("c", f.w.Run(10))
	require.Equal(t, []string{soundNext, soundFirst, soundNext}, f.verify(0, c, a, b))
	require.Equal(t, []string{soundLater + " chain.gap", soundFirst}, f.verify(0, c, a))
	require.Equal(t, []string{soundFirst, soundFirst}, f.verify(0, a, a))
}

func TestVerifyChainFindsDuplicatesAcrossPacks(t *testing.T) {
	f := newFolder(t)
	repeated := func() [][]byte { return [][]byte{f.w.Delivery(2, "same"), f.w.Delivery(2, "")} }
	a := f.pack("a", repeated())

	second := repeated()
	e, err := sealer.ParseEvent(second[0])
	require.NoError(t, err)
	earlier := func(c *pack.Config) { c.Earlier = map[string]uint64{e.EventID: 0} }
	p, err := f.w.TrySeal(second, earlier)
	require.NoError(t, err)
	require.Equal(t, []pack.Duplicate{{Leaf: 2, First: 0}}, p.Header.Duplicates)
	b := f.write("b", sealertest.Bundle(t, p, second))
	require.Equal(t, []string{soundFirst, soundNext}, f.verify(0, a, b))
	require.Equal(t, []string{soundLater}, f.verify(0, b), "the first leaf is not at hand")

	// An unsound pack teaches nothing about the next.
	text, err := os.ReadFile(a)
	require.NoError(t, err)
	unsound := f.write("unsound", bytes.Replace(text, []byte("anchor/2"), []byte("anchor/3"), 1))
	require.Equal(t, soundLater, f.verify(1, unsound, b)[1])

	// A service that bills the repetition is detected with both packs.
	billed := f.pack("billed", second)
	require.Equal(t, []string{soundLater}, f.verify(0, billed))
	require.Equal(t, []string{soundFirst, strings.Replace(soundNext, "metering.ok", "!duplicates.mismatch !metering.mismatch", 1)},
		f.verify(1, a, billed))
}

func TestVerifyChainFindsEventsBilledTwice(t *testing.T) {
	f := newFolder(t)
	events := f.w.Run(4)
	a := f.pack("a", events)
	b := f.pack("b", append(f.w.Run(2), events[3]))
	require.Equal(t, []string{soundLater}, f.verify(0, b))
	require.Contains(t, f.verify(1, a, b)[1], "!entry.repeated@2")
}

func TestVerifyChainFindsForks(t *testing.T) {
	f := newFolder(t)
	a := f.pack("a", f.w.Run(4))
	tree, previous := f.w.Tree, f.w.Previous
	b := f.pack("b", f.w.Run(4))
	f.w.Tree, f.w.Previous = tree, previous
	fork := f.pack("fork", f.w.Run(4))
	next := f.pack("next", f.w.Run(4))
	require.Equal(t, []string{soundFirst, soundNext, soundNext}, f.verify(0, a, fork, next))
	require.Contains(t, f.verify(1, a, b, fork)[2], "!chain.fork")
	require.Contains(t, f.verify(1, a, b, next)[2], "!consistency.mismatch")

	// Two logs of different tenants have nothing to do with each other.
	other := newFolder(t)
	other.w.Tenant = sealertest.TenantID("other")
	require.Equal(t, []string{soundFirst, soundFirst}, f.verify(0, a, other.pack("o", other.w.Run(3))))
}

func TestVerifyRevokedKeys(t *testing.T) {
	f := newFolder(t)
	events := f.w.Run(6)
	a := f.pack("a", events)
	receipt := f.write("receipt", answer(t, events[1]))
	stray := f.write("stray", answer(t, f.w.Delivery(1, "")))

	revoked := f.w.Now.Add(time.Minute)
	f.w.Now = f.w.Now.Add(time.Hour)
	f.w.Key(f.w.Nodes[1].KeyID).RevokedAt = &revoked
	keys := f.write("keys", f.w.Directory())
	o := Options{Root: f.w.VKey, Keys: keys}

	o.Files = []string{a}
	require.Equal(t, []string{soundFirst}, f.run(0, o), "sealed before the revocation")
	o.Files = []string{receipt}
	require.Equal(t, []string{"receipt !key.revoked"}, f.run(2, o), "by itself it proves nothing")
	o.Files = []string{receipt, a}
	require.Equal(t, []string{"receipt inclusion.ok signature.ok", soundFirst}, f.run(0, o))
	o.Files = []string{stray, a}
	require.Equal(t, []string{"receipt !key.revoked", soundFirst}, f.run(2, o))

	// What was sealed after the revocation does not pass: here the sealer had not
	// learned of it yet.
	f.w.Key(f.w.Nodes[1].KeyID).RevokedAt = nil
	late := f.pack("late", f.w.Run(2))
	f.w.Key(f.w.Nodes[1].KeyID).RevokedAt = &revoked
	f.w.Now = f.w.Now.Add(time.Hour)
	o = Options{Root: f.w.VKey, Keys: f.write("newer", f.w.Directory()), Files: []string{late}}
	require.Equal(t, []string{"pack directory.ok consistency.ok checkpoint.ok inclusion.ok !key.outside_window@1"}, f.run(1, o))
}

func TestVerifyRevokedPackKey(t *testing.T) {
	f := newFolder(t)
	a := f.pack("a", f.w.Run(3))
	f.w.revokePackKey()
	keys := f.write("keys", f.w.Directory())

	o := Options{Root: f.w.VKey, Keys: keys, Files: []string{a}}
	require.Contains(t, f.run(2, o)[0], "!key.revoked", "a thief of the key can antedate a pack")
	b := f.pack("b", f.w.Run(3))
	o.Files = []string{a, b}
	require.Equal(t, []string{soundFirst + " chain.vouched", soundNext}, f.run(0, o))

	o.Files = []string{a, a, b}
	require.Equal(t, soundFirst+" chain.vouched", f.run(0, o)[0])

	// Neither a pack behind a gap nor one that is not sound vouches for it.
	c := f.pack("c", f.w.Run(3))
	o.Files = []string{a, c}
	require.Contains(t, f.run(2, o)[0], "!key.revoked")
	text, err := os.ReadFile(b)
	require.NoError(t, err)
	o.Files = []string{a, f.write("bad", bytes.Replace(text, []byte(`"dwellMs":0,`), []byte(`"dwellMs":1,`), 1))}
	require.Contains(t, f.run(1, o)[0], "!key.revoked")
}

// TestNextPackBindsTheWholeHeader has a thief of a revoked pack key sign a pack of
// the same entries once more, in which nothing is billed: every delivery is said to
// repeat one of the pack before, which is not given. The next pack, by the new key,
// vouches for the genuine one only.
func TestNextPackBindsTheWholeHeader(t *testing.T) {
	f := newFolder(t)
	f.pack("a", f.w.Run(5))
	events := f.w.Run(5)
	p := f.w.Seal(events)
	genuine := f.write("b", sealertest.Bundle(t, p, events))
	forged := f.write("forged", f.w.unbilled(p, events))
	f.w.revokePackKey()
	next := f.pack("c", f.w.Run(3))
	require.Equal(t, []string{soundLater + " chain.vouched", soundLater}, f.verify(0, genuine, next))
	require.Equal(t, []string{soundLater + " !key.revoked", soundLater + " !consistency.mismatch"}, f.verify(1, forged, next))
}

func TestVerifyReceipts(t *testing.T) {
	f := newFolder(t)
	event := f.w.Delivery(2, "")
	keys := f.write("keys", f.w.Directory())
	o := Options{Root: f.w.VKey, Keys: keys}
	whole := answer(t, event)
	verify := func(want int, text []byte) string {
		o.Files = []string{f.write("receipt", text)}
		return f.run(want, o)[0]
	}
	require.Equal(t, "receipt signature.ok receipt.uncovered", verify(0, whole))

	// The data alone, in any spelling.
	var loose struct{ Data json.RawMessage }
	require.NoError(t, json.Unmarshal(whole, &loose))
	indented, err := json.MarshalIndent(loose.Data, "", "  ")
	require.NoError(t, err)
	require.Equal(t, "receipt signature.ok receipt.uncovered", verify(0, indented))

	change := func(old, new string) []byte {
		changed := bytes.Replace(whole, []byte(old), []byte(new), 1)
		require.NotEqual(t, string(whole), string(changed))
		return changed
	}
	require.Equal(t, "receipt !signature.invalid", verify(1, change(`"dwellMs":3000.5`, `"dwellMs":3001.5`)))
	require.Equal(t, "receipt !signature.invalid", verify(1, change(`edge:nod_a:`, `edge:nod_b:`)))
	require.Equal(t, "receipt !key.unknown", verify(2, change(f.w.Nodes[0].KeyID, strings.Repeat("0", 32))))
	require.Equal(t, "receipt !signature.invalid", verify(1, change(f.w.Nodes[0].KeyID, f.w.Nodes[1].KeyID)))
	require.Equal(t, "receipt !key.purpose", verify(1, change(f.w.Nodes[0].KeyID, keydir.KeyID(sealertest.Public(f.w.PackKey)))))
	require.Equal(t, "receipt !format.invalid !key.outside_window", verify(1, change(`"issuedAt":"2026`, `"issuedAt":"2025`)))
	for _, text := range [][]byte{nil, []byte("{}"), []byte("hello"), []byte("[]")} {
		require.Equal(t, "unknown !format.unknown", verify(2, text))
	}
	for _, text := range [][]byte{
		change(`"ed25519"`, `"rsa"`), change(`"version":"1"`, `"version":"2"`),
		change(`"version":"1"`, `"version":"1","more":1`), change(`"dwellMs":3000.5`, `"dwellMs":1e400`), change(`"ok": true`, `"ok": true, "ok": true`),
	} {
		require.Contains(t, verify(1, text), "!format.invalid")
	}
	require.Equal(t, "receipt !format.invalid !signature.invalid",
		verify(1, change(`"spatialAnchorId":"anchor/2"`, `"spatialAnchorId":""`)))

	// Without any directory nothing can be said, and with the keys of a pack all can.
	alone := f.write("receipt", whole)
	require.Equal(t, []string{"receipt !key.unknown"}, f.verify(2, alone))
	pack := f.pack("pack", f.w.Run(2))
	require.Equal(t, []string{"receipt signature.ok receipt.uncovered receipt.unproven", soundFirst}, f.verify(0, alone, pack))
	require.Equal(t, []string{"receipt signature.ok receipt.uncovered", "directory directory.ok"}, f.verify(0, alone, keys))
}

func TestVerifyReceiptAgainstItsPack(t *testing.T) {
	f := newFolder(t)
	events := f.w.Run(4)
	a := f.pack("a", events)
	receipt := f.write("receipt", answer(t, events[2]))
	require.Equal(t, []string{"receipt inclusion.ok signature.ok", soundFirst}, f.verify(0, receipt, a))

	text, err := os.ReadFile(a)
	require.NoError(t, err)
	unsound := f.write("unsound", bytes.Replace(text, []byte(`"dwellMs":0,`), []byte(`"dwellMs":1,`), 1))
	require.Equal(t, "receipt !inclusion.mismatch signature.ok", f.verify(1, receipt, unsound)[0])

	d, err := sealer.ReadDelivery(events[2])
	require.NoError(t, err)
	other := bytes.Replace(answer(t, events[2]), []byte(d.Receipt.Nonce), []byte(strings.Repeat("A", 22)), 1)
	require.Equal(t, "receipt !entry.altered !signature.invalid", f.verify(1, f.write("other", other), a)[0])
}

func TestVerifyAnchors(t *testing.T) {
	f := newFolder(t)
	events := f.w.Run(4)
	pack := f.pack("pack", events)
	receipt := f.write("receipt", answer(t, events[0]))
	keys := f.write("keys", f.w.Directory())
	root := f.write("root.vkey", []byte(f.w.VKey+"\n"))
	files := []string{pack, receipt}

	f.run(0, Options{Root: root, Files: files})
	weak := strings.Replace(soundFirst, "directory.ok", "anchor.keys", 1)
	require.Equal(t, []string{weak, "receipt inclusion.ok signature.ok"}, f.run(0, Options{Keys: keys, Files: files}))

	// The bare list of an HTTP answer will do as a weak anchor, not under a root.
	var list struct {
		Keys                 []map[string]any
		IssuedAt, SnapshotID string
	}
	require.NoError(t, json.Unmarshal(f.w.Directory(), &list))
	bare, err := json.MarshalIndent(map[string]any{"ok": true, "contractVersion": "ws30.v1", "data": map[string]any{
		"keys": list.Keys, "issuedAt": list.IssuedAt, "snapshotId": list.SnapshotID,
	}}, "", " ")
	require.NoError(t, err)
	keys = f.write("bare", bare)
	require.Equal(t, []string{weak, "receipt inclusion.ok signature.ok"}, f.run(0, Options{Keys: keys, Files: files}))

	_, otherRoot := sealertest.RootKey(t, "other.example")
	require.Equal(t, "pack !directory.foreign", f.run(2, Options{Root: otherRoot, Files: files})[0])
	for _, o := range []Options{
		{}, {Root: "no key"}, {Root: filepath.Join(f.path, "absent")}, {Keys: filepath.Join(f.path, "absent")}, {Keys: receipt},
		{Root: root, Keys: keys}, {Root: pack}, {Root: otherRoot, Keys: f.write("signed", f.w.Directory())},
		{Keys: f.write("none", []byte(`{"keys":[]}`))}, {Keys: f.write("odd", bytes.Replace(bare, []byte("2026-"), []byte("26-"), 1))},
	} {
		o.Files = files
		require.Empty(t, f.run(2, o))
	}
}

func TestVerifyUnreadableFiles(t *testing.T) {
	f := newFolder(t)
	pack := f.pack("pack", f.w.Run(4))
	absent := filepath.Join(f.path, "absent")
	require.Equal(t, []string{"unknown !input.unreadable", soundFirst}, f.verify(2, absent, pack))
	require.Equal(t, []string{"unknown !input.unreadable"}, f.verify(2, f.path))
	require.Equal(t, []string{"unknown !format.unknown"}, f.verify(2, f.write("empty", nil)))
	require.Equal(t, []string{"unknown !format.unknown"}, f.verify(2, f.write("another's", []byte(`{"checkpoint":"x`))))
	require.Equal(t, []string{"pack !format.invalid"}, f.verify(1, f.write("cut", []byte(`{"checkpoint":"muniment/x`))))
	require.Equal(t, []string{"directory !directory.invalid"}, f.verify(1, f.write("cut", []byte(`{"delegation":"muniment/x`))))
}

func TestVerifyWritesForPeople(t *testing.T) {
	f := newFolder(t)
	events := f.w.Run(10)
	good := f.pack("good", events)
	run := func(want int, o Options) string {
		var out bytes.Buffer
		require.Equal(t, want, Files(context.Background(), o, &out))
		return out.String()
	}
	out := run(ExitSound, Options{Root: f.w.VKey, Files: []string{good}})
	require.Contains(t, out, "Trusting root key root.example+")
	require.Contains(t, out, "proof pack "+f.w.PackID(1)+" of "+f.w.Tenant+", 10 entries, sealed 2026-05-01T12:00:11.000Z\n")
	require.Contains(t, out, "  ok    signature.ok          header by key ")
	require.Contains(t, out, "\nSound: 1 file.\n")

	text, err := os.ReadFile(good)
	require.NoError(t, err)
	bad := f.write("bad", bytes.Replace(text, []byte("anchor/4"), []byte("anchor/9"), 1))
	out = run(ExitUnsound, Options{Root: f.w.VKey, Files: []string{bad}})
	require.Contains(t, out, "  FAIL  signature.invalid     entry 4 (line 6 of a bundle): receipt ")
	require.Contains(t, out, "\nNOT SOUND: 1 of 1 file failed.\n")

	out = run(ExitSound, Options{Keys: f.write("keys", f.w.Directory()), Files: []string{good}})
	require.Contains(t, out, "a weaker anchor than --root")
	out = run(ExitUnjudged, Options{Files: []string{good}})
	require.Contains(t, out, "nothing to trust: give --root")
}

func TestCounts(t *testing.T) {
	require.Equal(t, "0 entries", count(0, "entry"))
	require.Equal(t, "1 entry", count(1, "entry"))
	require.Equal(t, "12,034,005 keys", count(12034005, "key"))
	require.Equal(t, "999 files", count(999, "file"))
}
