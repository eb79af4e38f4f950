// Package merkle is the tree of RFC 6962 over a tenant's events: its root, which a checkpoint signs, and the
// proofs that a leaf is in it and that a later tree extends it. It is pure, and knows leaves as hashes
// alone; the nodes of a large tree are read from wherever they are kept (NodeReader). Package sealer
// specifies what a leaf is, and the texts of proofs.
package merkle

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"math/bits"

	"github.com/transparency-dev/merkle/compact"
	"github.com/transparency-dev/merkle/proof"
	"github.com/transparency-dev/merkle/rfc6962"
)

// Hash is a SHA-256 sum.
type Hash [sha256.Size]byte

// String is base64url without padding, as in our JSON.
func (h Hash) String() string { return base64url.EncodeToString(h[:]) }

var base64url = base64.RawURLEncoding.Strict()

// ParseHash reads what String writes.
func ParseHash(s string) (Hash, error) {
	b, err := base64url.DecodeString(s)
	// The decoder skips line breaks; the length leaves no room for them.
	if err != nil || len(b) != len(Hash{}) || len(s) != base64url.EncodedLen(len(b)) {
		return Hash{}, fmt.Errorf("%q is not %d bytes in base64url", s, len(Hash{}))
	}
	return Hash(b), nil
}

// MarshalText writes what String does.
func (h Hash) MarshalText() ([]byte, error) { return []byte(h.String()), nil }

// UnmarshalText is ParseHash.
func (h *Hash) UnmarshalText(text []byte) (err error) {
	*h, err = ParseHash(string(text))
	return err
}

// LeafHash is the RFC 6962 leaf hash of an event's text: SHA-256(0x00 ‖ event).
func LeafHash(event []byte) Hash { return Hash(rfc6962.DefaultHasher.HashLeaf(event)) }

// Tree is the state of a tenant's Merkle log: the roots of the perfect subtrees
// that its leaves fall into, a few dozen hashes for any size. It is not safe
// for concurrent use.
type Tree struct{ nodes *compact.Range }

// NewTree returns the empty tree.
func NewTree() *Tree { return &Tree{ranges.NewEmptyRange(0)} }

// RestoreTree returns the tree of a stored Size and State.
func RestoreTree(size uint64, state []Hash) (*Tree, error) {
	nodes, err := ranges.NewRange(0, size, bare(state))
	if err != nil {
		return nil, fmt.Errorf("cannot restore tree: %w", err)
	}
	return &Tree{nodes}, nil
}

// Size is the number of leaves.
func (t *Tree) Size() uint64 { return t.nodes.End() }

// State returns copies of the nodes to store beside Size, from left to right.
func (t *Tree) State() []Hash {
	state := make([]Hash, len(t.nodes.Hashes()))
	for i, h := range t.nodes.Hashes() {
		state[i] = Hash(h)
	}
	return state
}

// Clone returns a tree that grows on its own.
func (t *Tree) Clone() *Tree {
	clone, err := RestoreTree(t.Size(), t.State())
	if err != nil {
		panic(err) // the state of a tree always fits its size
	}
	return clone
}

// Append adds a leaf hash on the right.
func (t *Tree) Append(leaf Hash) {
	if err := t.nodes.Append(leaf[:], nil); err != nil {
		panic(err) // only for a range that does not begin at 0
	}
}

// AppendNodes adds a leaf hash on the right, and appends to row the hashes of the
// nodes that it completes, beginning with its own.
func (t *Tree) AppendNodes(row []byte, leaf Hash) []byte {
	err := t.nodes.Append(leaf[:], func(_ compact.NodeID, hash []byte) { row = append(row, hash...) })
	if err != nil {
		panic(err) // only for a range that does not begin at 0
	}
	return row
}

// Extend appends all leaves up to size, given only the roots of their subtrees: after, as
// ProveRange returns it.
func (t *Tree) Extend(size uint64, after []Hash) error {
	leaves, err := ranges.NewRange(t.Size(), size, bare(after))
	if err != nil {
		return err
	}
	return t.nodes.AppendRange(leaves, nil)
}

// Root is the tree's root hash; of the empty tree, SHA-256 of nothing.
func (t *Tree) Root() Hash {
	if t.Size() == 0 {
		return Hash(rfc6962.DefaultHasher.EmptyRoot())
	}
	root, err := t.nodes.GetRootHash(nil)
	if err != nil {
		panic(err) // only for a range that does not begin at 0
	}
	return Hash(root)
}

// Consistency returns the RFC 6962 consistency proof from t to t with leaves
// appended; t stays as it is. Nothing but t and the new leaves is needed: every
// node of such a proof covers either old leaves or new ones, and those over
// old leaves are the state of t.
func (t *Tree) Consistency(leaves []Hash) ([]Hash, error) {
	size := t.Size()
	need, err := proof.Consistency(size, size+uint64(len(leaves)))
	if err != nil {
		return nil, fmt.Errorf("cannot prove consistency: %w", err)
	}
	old := make(map[compact.NodeID][]byte)
	for i, id := range compact.RangeNodes(0, size, nil) {
		old[id] = t.nodes.Hashes()[i]
	}
	list, err := gather(need, func(n Node) (Hash, error) {
		id := compact.NewNodeID(n.Level, n.Index)
		begin, end := id.Coverage()
		if end <= size {
			return Hash(old[id]), nil
		}
		sub := NewTree()
		for _, leaf := range leaves[begin-size : end-size] {
			sub.Append(leaf)
		}
		return sub.Root(), nil
	})
	if err != nil {
		return nil, fmt.Errorf("cannot prove consistency: %w", err)
	}
	return list, nil
}

// Node is the root of a perfect subtree of a log: the one with Index, counted from
// 0 and from the left, among those of 2^Level leaves. Its hash never changes.
//
// A log's nodes are ordered by when they are complete: each leaf is followed by the nodes that
// it completes, from the lowest up. So the hashes of a log can be kept in one row that only
// grows, and the place of each is found by arithmetic.
type Node struct {
	Level uint
	Index uint64
}

// Last is the leaf that completes the node.
func (n Node) Last() uint64 { return (n.Index+1)<<n.Level - 1 }

// Place is the index of the node's hash in the row of the log's hashes.
func (n Node) Place() uint64 { return NodeCount(n.Last()) + uint64(n.Level) }

// NodeCount is how many hashes the row of a log of size leaves has.
func NodeCount(size uint64) uint64 { return 2*size - uint64(bits.OnesCount64(size)) }

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

// ProveRange returns what proves that count leaves, from first on, are in the tree of size
// leaves: the roots of the perfect subtrees that cover the leaves before and after them, each
// from left to right.
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

// VerifyInclusion checks the RFC 6962 inclusion proof of a leaf in a tree.
func VerifyInclusion(index, size uint64, leaf, root Hash, list []Hash) error {
	return proof.VerifyInclusion(rfc6962.DefaultHasher, index, size, leaf[:], bare(list), root[:])
}

// VerifyConsistency checks an RFC 6962 consistency proof between two sizes of
// one log.
func VerifyConsistency(size1, size2 uint64, root1, root2 Hash, list []Hash) error {
	return proof.VerifyConsistency(rfc6962.DefaultHasher, size1, size2, bare(list), root1[:], root2[:])
}

// TreeBefore returns the tree of size1 leaves from a consistency proof to size2: the
// proof's nodes over old leaves are exactly the old tree's perfect subtrees, except for a size
// of a power of two, whose only subtree is the root. A caller that appends the new leaves and
// gets the new root has so verified the whole proof.
func TreeBefore(size1, size2 uint64, root1 Hash, list []Hash) (*Tree, error) {
	if size1 == 0 {
		return NewTree(), nil
	}
	state := []Hash{root1}
	if size1&(size1-1) != 0 {
		need, err := proof.Consistency(size1, size2)
		if err != nil {
			return nil, err
		}
		if state, err = oldNodes(need, size1, list); err != nil {
			return nil, err
		}
	}
	t, err := RestoreTree(size1, state)
	if err != nil {
		return nil, err
	}
	if t.Root() != root1 {
		return nil, fmt.Errorf("the proof's nodes do not make the root of size %d", size1)
	}
	return t, nil
}

// oldNodes picks the nodes over leaves below size, from left to right.
func oldNodes(need proof.Nodes, size uint64, list []Hash) ([]Hash, error) {
	byID := make(map[compact.NodeID]Hash)
	_, from, to := need.Ephem() // need.IDs[from:to] are one hash of the proof
	next := 0
	for i, id := range need.IDs {
		if next == len(list) {
			return nil, fmt.Errorf("a proof of %d hashes is too short", len(list))
		}
		byID[id] = list[next]
		if i+1 <= from || i+1 >= to {
			next++
		}
	}
	var state []Hash
	for _, id := range compact.RangeNodes(0, size, nil) {
		h, ok := byID[id]
		if !ok {
			return nil, fmt.Errorf("the proof lacks a node over old leaves")
		}
		state = append(state, h)
	}
	return state, nil
}

// gather reads the nodes of a proof and folds them into the proof's hashes.
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

// bare returns the hashes as slices, which alias list.
func bare(list []Hash) [][]byte {
	hashes := make([][]byte, len(list))
	for i := range list {
		hashes[i] = list[i][:]
	}
	return hashes
}

var ranges = compact.RangeFactory{Hash: rfc6962.DefaultHasher.HashChildren}
