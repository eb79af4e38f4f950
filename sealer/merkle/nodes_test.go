package merkle

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/mod/sumdb/tlog"
	"pgregory.net/rapid"
)

// row is a log as a test keeps it: its hashes, and what x/mod/sumdb/tlog makes of
// the same events.
type row struct {
	hashes []byte
	theirs tlogTree
	leaves []Hash
	trees  []*Tree // by size
}

func makeRow(t *testing.T, size int) *row {
	r := &row{trees: []*Tree{NewTree()}}
	tree := NewTree()
	for n := range size {
		event := fmt.Appendf(nil, "event %d", n)
		r.theirs.add(t, n, event)
		r.leaves = append(r.leaves, LeafHash(event))
		r.hashes = tree.AppendNodes(r.hashes, r.leaves[n])
		r.trees = append(r.trees, tree.Clone())
	}
	return r
}

// read reads nodes out of the row, none that the first size leaves don't complete.
func (r *row) read(size uint64, reads *int) NodeReader {
	return func(n Node) (Hash, error) {
		*reads++
		if n.Last() >= size {
			return Hash{}, errors.New("a node of the future")
		}
		return Hash(r.hashes[n.Place()*32:][:32]), nil
	}
}

func TestNodesAgreeWithTlog(t *testing.T) {
	const most = 700
	r := makeRow(t, most)
	require.Len(t, r.theirs, int(NodeCount(most)))
	for i, want := range r.theirs {
		require.Equal(t, want[:], r.hashes[i*32:][:32], "hash %d", i)
		level, index := tlog.SplitStoredHashIndex(int64(i))
		require.EqualValues(t, i, Node{uint(level), uint64(index)}.Place())
	}
	for size := range int64(most) {
		require.EqualValues(t, tlog.StoredHashCount(size), NodeCount(uint64(size)))
	}
}

// TestProofsAgreeWithTlog proves leaves, sizes and ranges of random trees.
func TestProofsAgreeWithTlog(t *testing.T) {
	const most = 700
	r := makeRow(t, most)
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.Uint64Range(1, most).Draw(t, "size")
		index := rapid.Uint64Range(0, size-1).Draw(t, "index")
		root := r.trees[size].Root()
		var reads int
		read := r.read(size, &reads)

		inclusion, err := ProveInclusion(index, size, read)
		require.NoError(t, err)
		want, err := tlog.ProveRecord(int64(size), int64(index), &r.theirs)
		require.NoError(t, err)
		require.Equal(t, theirHashes(want), inclusion)
		require.NoError(t, VerifyInclusion(index, size, r.leaves[index], root, inclusion))
		require.LessOrEqual(t, reads, 20, "logarithmic")

		wrong := rapid.Uint64Range(0, size-1).Filter(func(n uint64) bool { return size == 1 || n != index }).Draw(t, "wrong")
		if size > 1 {
			require.Error(t, VerifyInclusion(wrong, size, r.leaves[index], root, inclusion))
			require.Error(t, VerifyInclusion(index, size, r.leaves[wrong], root, inclusion))
		}

		older := index + 1
		consistency, err := ProveConsistency(older, size, read)
		require.NoError(t, err)
		wantTree, err := tlog.ProveTree(int64(size), int64(older), &r.theirs)
		require.NoError(t, err)
		require.Equal(t, theirHashes(tlog.RecordProof(wantTree)), consistency)
		require.NoError(t, VerifyConsistency(older, size, r.trees[older].Root(), root, consistency))

		count := rapid.Uint64Range(0, size-index).Draw(t, "count")
		before, after, err := ProveRange(index, count, size, read)
		require.NoError(t, err)
		tree, err := RestoreTree(index, before)
		require.NoError(t, err)
		for _, leaf := range r.leaves[index : index+count] {
			tree.Append(leaf)
		}
		require.NoError(t, tree.Extend(size, after))
		require.Equal(t, root, tree.Root())
	})
	_, err := ProveInclusion(5, 5, r.read(5, new(int)))
	require.Error(t, err)
	_, err = ProveConsistency(6, 5, r.read(5, new(int)))
	require.Error(t, err)
	_, _, err = ProveRange(3, 3, 5, r.read(5, new(int)))
	require.Error(t, err)
	failing := func(Node) (Hash, error) { return Hash{}, errInjected }
	_, err = ProveInclusion(2, 5, failing)
	require.ErrorIs(t, err, errInjected)
	_, err = ProveConsistency(2, 5, failing)
	require.ErrorIs(t, err, errInjected)
	_, _, err = ProveRange(2, 1, 5, failing)
	require.ErrorIs(t, err, errInjected)
}

var errInjected = errors.New("injected")

func theirHashes(list tlog.RecordProof) []Hash {
	ours := make([]Hash, len(list))
	for i, h := range list {
		ours[i] = Hash(h)
	}
	return ours
}
