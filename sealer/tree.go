package sealer

import (
	"crypto/sha256"
	"fmt"

	"github.com/transparency-dev/merkle/compact"
	"github.com/transparency-dev/merkle/proof"
	"github.com/transparency-dev/merkle/rfc6962"
)

// Hash is a SHA-256 sum.
type Hash [sha256.Size]byte

// String is base64url without padding, as in our JSON.
func (h Hash) String() string { return base64url.EncodeToString(h[:]) }

// ParseHash reads what String writes.
func ParseHash(s string) (Hash, error) {
	b, err := DecodeBase64(s, len(Hash{}))
	if err != nil {
		return Hash{}, err
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

var ranges = compact.RangeFactory{Hash: rfc6962.DefaultHasher.HashChildren}

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

// VerifyConsistency checks an RFC 6962 consistency proof between two sizes of
// one log.
func VerifyConsistency(size1, size2 uint64, root1, root2 Hash, list []Hash) error {
	return proof.VerifyConsistency(rfc6962.DefaultHasher, size1, size2, bare(list), root1[:], root2[:])
}

// treeBefore returns the tree of size1 leaves out of a consistency proof to
// size2: the proof's nodes over old leaves are exactly the old tree's perfect
// subtrees, except for a size of a power of two, whose only subtree is the root.
// The proof is proven by this alone: who appends the new leaves and gets the new
// root has both roots and all that is between them.
func treeBefore(size1, size2 uint64, root1 Hash, list []Hash) (*Tree, error) {
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
		return nil, fmt.Errorf("the proof's nodes make another root than that of size %d", size1)
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
