package verify

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"muniment/sealer"
)

// seenRoot is a root of one log that a file proves, and when it stood at the latest.
type seenRoot struct {
	file *FileReport
	size uint64
	root sealer.Hash
	by   time.Time
}

// span is a run of leaves of one log that a sound file holds.
type span struct {
	file   *FileReport
	before *sealer.Tree
	last   uint64        // the size of the log behind the last leaf
	end    sealer.Hash   // its root
	leaves []sealer.Hash // empty if they were not kept
	by     time.Time
}

// root recomputes the log's root of a size, if the span reaches it.
func (s *span) root(size uint64) (sealer.Hash, bool) {
	first := s.before.Size()
	switch {
	case size == s.last:
		return s.end, true
	case size < first, size > first+uint64(len(s.leaves)):
		return sealer.Hash{}, false
	}
	tree := s.before.Clone()
	for _, leaf := range s.leaves[:size-first] {
		tree.Append(leaf)
	}
	return tree.Root(), true
}

// spanOf is the span of a file whose entries a ledger has folded.
func spanOf(l *sealer.Ledger, f *FileReport, before *sealer.Tree, by time.Time) *span {
	return &span{f, before, l.Next(), l.Tree.Root(), l.Leaves, by}
}

// known is what the given files prove about one log.
type known struct {
	roots []seenRoot
	spans []*span
}

// known returns what is known about a log.
func (v *verification) known(origin string) *known {
	k := v.logs[origin]
	if k == nil {
		k = new(known)
		v.logs[origin] = k
	}
	return k
}

func (k *known) learn(f *FileReport, size uint64, root sealer.Hash, by time.Time) {
	k.roots = append(k.roots, seenRoot{f, size, root, by})
}

// vouch says whether the files prove a root, and by when it stood at the latest.
func (k *known) vouch(size uint64, root sealer.Hash) (by time.Time, ok bool) {
	note := func(at time.Time) {
		if !ok || at.Before(by) {
			by, ok = at, true
		}
	}
	for _, r := range k.roots {
		if r.size == size && r.root == root {
			note(r.by)
		}
	}
	for _, s := range k.spans {
		if (!ok || s.by.Before(by)) && s.holds(size, root) {
			note(s.by)
		}
	}
	return by, ok
}

func (s *span) holds(size uint64, root sealer.Hash) bool {
	have, ok := s.root(size)
	return ok && have == root
}

// rootAt is the root of a size, if the files prove one.
func (k *known) rootAt(size uint64) (sealer.Hash, bool) {
	for _, r := range k.roots {
		if r.size == size {
			return r.root, true
		}
	}
	for _, s := range k.spans {
		if root, ok := s.root(size); ok {
			return root, true
		}
	}
	return sealer.Hash{}, false
}

// newest is the largest size that the files prove.
func (k *known) newest() (size uint64) {
	for _, r := range k.roots {
		size = max(size, r.size)
	}
	return size
}

// forks fails the files that prove two roots of one size. Either may be the
// fork.
func (k *known) forks() {
	slices.SortStableFunc(k.roots, func(a, b seenRoot) int { return cmp.Compare(a.size, b.size) })
	for i, r := range k.roots {
		if i > 0 && k.roots[i-1].size == r.size && k.roots[i-1].root != r.root {
			fork(r.size, r.file, k.roots[i-1].file)
		}
		for _, s := range k.spans {
			if s.file == r.file {
				continue
			}
			if root, ok := s.root(r.size); ok && root != r.root {
				fork(r.size, r.file, s.file)
			}
		}
	}
}

func fork(size uint64, files ...*FileReport) {
	for i, f := range files {
		f.add(Verdict{Code: ChainFork, Message: fmt.Sprintf("the log has another root at size %d in %s", size, files[1-i].File)})
	}
}
