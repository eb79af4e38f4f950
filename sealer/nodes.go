package sealer

import (
	"fmt"
	"math/bits"

	"github.com/transparency-dev/merkle/compact"
	"github.com/transparency-dev/merkle/proof"
	"github.com/transparency-dev/merkle/rfc6962"
)

// Node is the root of a perfect subtree of a log: the one with Index, counted from
// 0 and from the left, among those of 2^Level leaves. Its hash never changes.
//
// A log's nodes have one order, in which they come to be: behind each leaf stand
// the nodes that it completes, from the lowest up. So the hashes of a log can be
// kept in one row that only grows, and any of them is found by arithmetic.
type Node struct {
	Level uint
	Index uint64
}

// Last is the leaf that completes the node.
func (n Node) Last() uint64 { return (n.Index+1)<<n.Level - 1 }

// Place is where the node's hash stands in the row of the log's hashes.
func (n Node) Place() uint64 { return NodeCount(n.Last()) + uint64(n.Level) }

// NodeCount is how many hashes the row of a log of size leaves has.
func NodeCount(size uint64) uint64 { return 2*size - uint64(bits.OnesCount64(size)) }

// AppendNodes adds a leaf hash on the right, and appends to row the hashes of the
// nodes that it completes, itself the first.
func (t *Tree) AppendNodes(row []byte, leaf Hash) []byte {
	err := t.nodes.Append(leaf[:], func(_ compact.NodeID, hash []byte) { row = append(row, hash...) })
	if err != nil {
		panic(err) // only for a range that does not begin at 0
	}
	return row
}

// NodeReader returns the hash of a node.
type NodeReader func(Node) (Hash, error)

// ProveInclusion returns the RFC 6962 inclusion proof of a leaf in the tree of the
// first size leaves. It reads as many nodes as the logarithm of size, or fewer.
func ProveInclusion(index, size uint64, read NodeReader) ([]Hash, error) {
	need, err := proof.Inclusion(index, size)
	if err == nil {
		var list []Hash
		if list, err = gather(need, read); err == nil {
			return list, nil
		}
	}
	return nil, fmt.Errorf("cannot prove leaf %d of %d: %w", index, size, err)
}

// ProveConsistency returns the RFC 6962 proof that the tree of size2 leaves extends
// that of size1. It reads as many nodes as the logarithm of size2, or a few more.
func ProveConsistency(size1, size2 uint64, read NodeReader) ([]Hash, error) {
	need, err := proof.Consistency(size1, size2)
	if err == nil {
		var list []Hash
		if list, err = gather(need, read); err == nil {
			return list, nil
		}
	}
	return nil, fmt.Errorf("cannot prove consistency of %d and %d: %w", size1, size2, err)
}

// Before returns the tree that the pack was built on, out of its consistency proof.
func (h *PackHeader) Before() (*Tree, error) {
	if h.Previous == nil {
		return NewTree(), nil
	}
	t, err := treeBefore(h.FirstIndex, h.TreeSize, h.Previous.RootHash, h.Consistency)
	if err != nil {
		return nil, fmt.Errorf("cannot find the tree before pack %s: %w", h.PackID, err)
	}
	return t, nil
}

// gather reads what a proof needs and folds it into the proof's hashes.
func gather(need proof.Nodes, read NodeReader) ([]Hash, error) {
	hashes, err := readNodes(need.IDs, read)
	if err != nil {
		return nil, err
	}
	texts, err := need.Rehash(bare(hashes), rfc6962.DefaultHasher.HashChildren)
	if err != nil {
		return nil, err
	}
	list := make([]Hash, len(texts))
	for i, h := range texts {
		list[i] = Hash(h)
	}
	return list, nil
}

// readNodes reads the hashes of some nodes.
func readNodes(ids []compact.NodeID, read NodeReader) ([]Hash, error) {
	hashes := make([]Hash, len(ids))
	for i, id := range ids {
		var err error
		if hashes[i], err = read(Node{id.Level, id.Index}); err != nil {
			return nil, err
		}
	}
	return hashes, nil
}

// bare are the hashes as slices; they alias list.
func bare(list []Hash) [][]byte {
	hashes := make([][]byte, len(list))
	for i := range list {
		hashes[i] = list[i][:]
	}
	return hashes
}

// VerifyInclusion checks the RFC 6962 inclusion proof of a leaf in a tree.
func VerifyInclusion(index, size uint64, leaf, root Hash, list []Hash) error {
	return proof.VerifyInclusion(rfc6962.DefaultHasher, index, size, leaf[:], bare(list), root[:])
}

// ProveRange returns what proves the leaves from first on, count of them, to be in
// the tree of size leaves: the roots of the perfect subtrees that the leaves before
// them and behind them fall into, each from left to right.
func ProveRange(first, count, size uint64, read NodeReader) (before, after []Hash, err error) {
	if first+count > size {
		return nil, nil, fmt.Errorf("cannot prove leaves %d to %d of %d", first, first+count, size)
	}
	if before, err = readNodes(compact.RangeNodes(0, first, nil), read); err == nil {
		after, err = readNodes(compact.RangeNodes(first+count, size, nil), read)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("cannot prove leaves %d to %d of %d: %w", first, first+count, size, err)
	}
	return before, after, nil
}

// Extend appends all leaves up to size, of which only the roots of the subtrees are
// known that they fall into: after, as ProveRange returns it.
func (t *Tree) Extend(size uint64, after []Hash) error {
	rest, err := ranges.NewRange(t.Size(), size, bare(after))
	if err != nil {
		return err
	}
	return t.nodes.AppendRange(rest, nil)
}
