package verify

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/sealer"
	"muniment.example/sealer/canonical"
	"muniment.example/sealer/checkpoint"
	"muniment.example/sealer/merkle"
	"muniment.example/sealer/pack"
	"muniment.example/sealer/sealertest"
)

// archive is a world with packs, of which it can prove everything.
type archive struct {
	*world
	row    []byte // hashes of the nodes
	events [][]byte
	packs  []*pack.Pack
	ends   []uint64 // size of the log after each pack
	grown  *merkle.Tree

	options Options // of verify, but for the names of files
}

// newArchive seals packs of these many events.
func newArchive(tb testing.TB, counts ...int) *archive {
	a := &archive{world: newWorld(tb), grown: merkle.NewTree()}
	for _, n := range counts {
		a.add(n)
	}
	return a
}

// add seals a pack of n more events, every fourth of which is no delivery.
func (a *archive) add(n int) {
	a.TB.Helper()
	var events [][]byte
	for i := range n {
		if i%4 == 3 {
			events = append(events, a.Note("right.resumed"))
		} else {
			events = append(events, a.Delivery(len(a.events)+i, ""))
		}
	}
	a.keep(events)
}

func (a *archive) keep(events [][]byte) {
	a.packs = append(a.packs, a.Seal(events))
	for _, e := range events {
		a.row = a.grown.AppendNodes(a.row, merkle.LeafHash(e))
	}
	a.events = append(a.events, events...)
	a.ends = append(a.ends, uint64(len(a.events)))
}

func (a *archive) read(n merkle.Node) (merkle.Hash, error) {
	return merkle.Hash(a.row[n.Place()*32:][:32]), nil
}

// inclusion proves a leaf under the checkpoint of a pack.
func (a *archive) inclusion(leaf, pack int) *checkpoint.InclusionProof {
	a.TB.Helper()
	hashes, err := merkle.ProveInclusion(uint64(leaf), a.ends[pack], a.read)
	require.NoError(a.TB, err)
	return &checkpoint.InclusionProof{Index: uint64(leaf), Hashes: hashes, Checkpoint: a.packs[pack].Header.Checkpoint}
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
	text = canonical.AppendString(append(text, `,"proof":`...), a.inclusion(leaf, pack).Text())
	return append(text, '}')
}

func (a *archive) consistency(from, to int) []byte {
	a.TB.Helper()
	hashes, err := merkle.ProveConsistency(a.ends[from], a.ends[to], a.read)
	require.NoError(a.TB, err)
	p := checkpoint.ConsistencyProof{Hashes: hashes, From: a.packs[from].Header.Checkpoint, To: a.packs[to].Header.Checkpoint}
	return wrap(p.Append(nil))
}

func (a *archive) checkpointAnswer(pack int) []byte {
	return wrap(append(canonical.AppendString([]byte(`{"checkpoint":`), a.packs[pack].Header.Checkpoint), '}'))
}

// export exports leaves.
func (a *archive) export(first, count int, change ...func(*pack.ExportHeader)) []byte {
	a.TB.Helper()
	h := pack.ExportHeader{Count: uint64(count), FirstIndex: uint64(first), TenantID: a.Tenant, Directory: a.Directory()}
	from, to := a.home(first), a.home(first+count-1)
	for _, p := range a.packs[from : to+1] {
		h.Checkpoints = append(h.Checkpoints, p.Header.Checkpoint)
	}
	var err error
	h.Before, h.After, err = merkle.ProveRange(h.FirstIndex, h.Count, a.ends[to], a.read)
	require.NoError(a.TB, err)
	for _, c := range change {
		c(&h)
	}
	return forge(append([][]byte{h.Append(nil)}, a.events[first:first+count]...)...)
}

// wrap puts data into an HTTP answer.
func wrap(data []byte) []byte { return []byte(startOfAnswer + string(data) + endOfAnswer + "\n") }

// file is one that a test verifies.
type file struct {
	name string
	text []byte
}

// verify verifies files together under the world's root, with expect as the
// checkpoint that was held outside unless it is nil.
func (a *archive) verify(keys, expect []byte, files ...file) Report {
	a.TB.Helper()
	dir := a.TB.TempDir()
	write := func(name string, text []byte) string {
		if text == nil {
			return ""
		}
		name = filepath.Join(dir, name)
		require.NoError(a.TB, os.WriteFile(name, text, 0o600))
		return name
	}
	t, err := readTrust(a.VKey, write("keys", keys))
	require.NoError(a.TB, err)
	var names []string
	for _, f := range files {
		names = append(names, write(f.name, f.text))
	}
	o := a.options
	o.Files, o.Expect = names, write("expect", expect)
	return verifyFiles(context.Background(), t, &o)
}

// fails are the failures of each file, in their order.
func fails(r Report) [][]sealer.Code {
	var all [][]sealer.Code
	for _, f := range r.Files {
		all = append(all, failures(f.Verdicts))
	}
	return all
}

// flips checks that a text is sound, and that it is no longer when any byte of it
// is changed.
func (a *archive) flips(text []byte, others ...file) {
	a.TB.Helper()
	keys := a.Directory()
	name := filepath.Join(a.TB.TempDir(), "flipped")
	dir := filepath.Join(a.TB.TempDir(), "keys")
	require.NoError(a.TB, os.WriteFile(dir, keys, 0o600))
	names := []string{name}
	for _, f := range others {
		names = append(names, filepath.Join(filepath.Dir(dir), f.name))
		require.NoError(a.TB, os.WriteFile(names[len(names)-1], f.text, 0o600))
	}
	anchor, err := readTrust(a.VKey, dir)
	require.NoError(a.TB, err)
	judge := func(text []byte) bool {
		require.NoError(a.TB, os.WriteFile(name, text, 0o600))
		t := *anchor
		return verifyFiles(context.Background(), &t, &Options{Files: names}).OK
	}
	require.True(a.TB, judge(text))
	flipped := bytes.Clone(text)
	for i := 0; i < len(text); i += sealertest.Rounds(11, 1) {
		flipped[i] ^= 1 << (i % 8)
		require.False(a.TB, judge(flipped), "byte %d, %q instead of %q", i, flipped[i], text[i])
		flipped[i] = text[i]
	}
}

// TestBeforeIsTheTreeOfThePackBefore restores each pack's tree out of its header.
func TestBeforeIsTheTreeOfThePackBefore(t *testing.T) {
	a := newArchive(t, 4, 1, 3, 9, 2)
	tree := merkle.NewTree()
	for _, p := range a.packs {
		h, err := pack.ParseHeader(p.HeaderText)
		require.NoError(t, err)
		before, err := h.Before()
		require.NoError(t, err)
		require.Equal(t, tree.State(), before.State())
		tree = p.Tree
	}
	bad := a.packs[2].Header
	bad.Consistency = bad.Consistency[1:]
	_, err := bad.Before()
	require.Error(t, err)
}
