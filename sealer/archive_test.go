package sealer

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// archive is a world with packs, of which it can prove everything.
type archive struct {
	*world
	row    []byte // hashes of the nodes
	events [][]byte
	packs  []*SealedPack
	ends   []uint64 // size of the log after each pack
	grown  *Tree

	options Options // of verify, but for the names of files
}

// newArchive seals packs of these many events.
func newArchive(tb testing.TB, counts ...int) *archive {
	a := &archive{world: newWorld(tb), grown: NewTree()}
	for _, n := range counts {
		a.add(n)
	}
	return a
}

// add seals a pack of n more events, every fourth of which is no delivery.
func (a *archive) add(n int) {
	a.tb.Helper()
	var events [][]byte
	for i := range n {
		if i%4 == 3 {
			events = append(events, a.note("right.resumed"))
		} else {
			events = append(events, a.delivery(len(a.events)+i, ""))
		}
	}
	a.keep(events)
}

func (a *archive) keep(events [][]byte) {
	a.packs = append(a.packs, a.seal(events))
	for _, e := range events {
		a.row = a.grown.AppendNodes(a.row, LeafHash(e))
	}
	a.events = append(a.events, events...)
	a.ends = append(a.ends, uint64(len(a.events)))
}

func (a *archive) read(n Node) (Hash, error) { return Hash(a.row[n.Place()*32:][:32]), nil }

// inclusion proves a leaf under the checkpoint of a pack.
func (a *archive) inclusion(leaf, pack int) *InclusionProof {
	a.tb.Helper()
	hashes, err := ProveInclusion(uint64(leaf), a.ends[pack], a.read)
	require.NoError(a.tb, err)
	return &InclusionProof{Index: uint64(leaf), Hashes: hashes, Checkpoint: a.packs[pack].Header.Checkpoint}
}

// home is the pack that holds a leaf.
func (a *archive) home(leaf int) int {
	for i, end := range a.ends {
		if uint64(leaf) < end {
			return i
		}
	}
	panic("no such leaf")
}

// proofAnswer is what the service answers about a leaf.
func (a *archive) proofAnswer(leaf, pack int) []byte { return wrap(a.proofData(leaf, pack)) }

func (a *archive) proofData(leaf, pack int) []byte {
	text := append([]byte(`{"event":`), a.events[leaf]...)
	text = appendString(append(text, `,"proof":`...), a.inclusion(leaf, pack).Text())
	return append(text, '}')
}

func (a *archive) consistency(from, to int) []byte {
	a.tb.Helper()
	hashes, err := ProveConsistency(a.ends[from], a.ends[to], a.read)
	require.NoError(a.tb, err)
	p := ConsistencyProof{hashes, a.packs[from].Header.Checkpoint, a.packs[to].Header.Checkpoint}
	return wrap(p.Append(nil))
}

func (a *archive) checkpointAnswer(pack int) []byte {
	return wrap(append(appendString([]byte(headerStart), a.packs[pack].Header.Checkpoint), '}'))
}

// export exports leaves.
func (a *archive) export(first, count int, change ...func(*ExportHeader)) []byte {
	a.tb.Helper()
	h := ExportHeader{Count: uint64(count), FirstIndex: uint64(first), TenantID: a.tenant, Directory: a.directory()}
	from, to := a.home(first), a.home(first+count-1)
	for _, p := range a.packs[from : to+1] {
		h.Checkpoints = append(h.Checkpoints, p.Header.Checkpoint)
	}
	var err error
	h.Before, h.After, err = ProveRange(h.FirstIndex, h.Count, a.ends[to], a.read)
	require.NoError(a.tb, err)
	for _, c := range change {
		c(&h)
	}
	return forge(append([][]byte{h.Append(nil)}, a.events[first:first+count]...)...)
}

// wrap puts data into an HTTP answer.
func wrap(data []byte) []byte { return []byte(answerStart + string(data) + answerEnd + "\n") }

// file is one that a test verifies.
type file struct {
	name string
	text []byte
}

// verify verifies files together under the world's root, with expect as the
// checkpoint that was held outside unless it is nil.
func (a *archive) verify(keys, expect []byte, files ...file) Report {
	a.tb.Helper()
	dir := a.tb.TempDir()
	write := func(name string, text []byte) string {
		if text == nil {
			return ""
		}
		name = filepath.Join(dir, name)
		require.NoError(a.tb, os.WriteFile(name, text, 0o600))
		return name
	}
	t, err := readTrust(a.vkey, write("keys", keys))
	require.NoError(a.tb, err)
	var names []string
	for _, f := range files {
		names = append(names, write(f.name, f.text))
	}
	o := a.options
	o.Files, o.Expect = names, write("expect", expect)
	return verifyFiles(context.Background(), t, &o)
}

// fails are the failures of each file, in their order.
func fails(r Report) [][]Code {
	var all [][]Code
	for _, f := range r.Files {
		all = append(all, failures(f.Verdicts))
	}
	return all
}

// flips checks that a text is sound, and that it is no longer when any byte of it
// is changed.
func (a *archive) flips(text []byte, others ...file) {
	a.tb.Helper()
	keys := a.directory()
	name := filepath.Join(a.tb.TempDir(), "flipped")
	dir := filepath.Join(a.tb.TempDir(), "keys")
	require.NoError(a.tb, os.WriteFile(dir, keys, 0o600))
	names := []string{name}
	for _, f := range others {
		names = append(names, filepath.Join(filepath.Dir(dir), f.name))
		require.NoError(a.tb, os.WriteFile(names[len(names)-1], f.text, 0o600))
	}
	anchor, err := readTrust(a.vkey, dir)
	require.NoError(a.tb, err)
	judge := func(text []byte) bool {
		require.NoError(a.tb, os.WriteFile(name, text, 0o600))
		t := *anchor
		return verifyFiles(context.Background(), &t, &Options{Files: names}).OK
	}
	require.True(a.tb, judge(text))
	flipped := bytes.Clone(text)
	for i := 0; i < len(text); i += rounds(11, 1) {
		flipped[i] ^= 1 << (i % 8)
		require.False(a.tb, judge(flipped), "byte %d, %q instead of %q", i, flipped[i], text[i])
		flipped[i] = text[i]
	}
}
