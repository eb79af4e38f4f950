package verify

import (
	"bytes"
	"cmp"
	"context"
	"os"
	"slices"
	"time"

	"muniment.example/sealer"
	"muniment.example/sealer/checkpoint"
	"muniment.example/sealer/merkle"
	"muniment.example/sealer/pack"
)

// packFile is a file with a pack. header is empty if it can't be read.
type packFile struct {
	report *FileReport
	header pack.Header
}

// openPack reads a pack's header, and the directory in it: the newest directory
// has to be known before the first pack is judged.
func (v *verification) openPack(f *FileReport) *packFile {
	p := &packFile{report: f}
	file, err := os.Open(f.File)
	if err != nil {
		return p // log opens it again, and reports this
	}
	defer file.Close()
	if r, err := pack.Read(&lineEnds{in: file}); err == nil {
		p.header = *r.Header()
		_ = v.names.Add(p.header.Rules()) // a verdict says of a rule that it can't be read
		v.trust.learn(p.header.Directory) // the verdict comes with the pack's others
	}
	return p
}

// log verifies packs of one log in the order of their leaves.
func (v *verification) log(ctx context.Context, packs []*packFile) {
	slices.SortStableFunc(packs, func(a, b *packFile) int {
		return cmp.Or(cmp.Compare(a.header.FirstIndex, b.header.FirstIndex),
			cmp.Compare(a.header.TreeSize, b.header.TreeSize))
	})
	h := pack.NewHistory() // of the sound packs that end before the one to be judged
	var last *packCheck    // that is sound, of which h does not know yet
	var whole []*packCheck // what is not says nothing of others: anybody can have written it
	for _, p := range packs {
		if last != nil && last.header.TreeSize <= p.header.FirstIndex {
			h.Join(last.ledger)
			last = nil
		}
		c := v.pack(ctx, p.report, h)
		p.report.pack = c
		if !c.whole() {
			c.forget()
			continue
		}
		c.link(whole)
		whole = append(whole, c)
		switch {
		case !c.failed():
			last.forget()
			last = c // if it is one that is given twice, in place of that
		case last != nil && last.failed(): // the two are a fork
			last.forget()
			last = nil
			fallthrough
		default:
			c.forget()
		}
	}
	named := make(map[pack.Ref]bool) // by the sound packs behind
	for _, p := range slices.Backward(packs) {
		c := p.report.pack
		if c.header != nil {
			c.settle(named[c.header.Ref()])
			if !c.failed() && c.header.Previous != nil {
				named[*c.header.Previous] = true
			}
		}
		p.report.add(c.verdicts...)
		v.learnPack(p.report, c)
	}
}

// learnPack notes what a sound pack proves about its log.
func (v *verification) learnPack(f *FileReport, c *packCheck) {
	if c.header == nil || c.failed() {
		return
	}
	h, k := c.header, v.known(checkpoint.Origin(c.header.TenantID))
	k.learn(f, h.TreeSize, h.RootHash, h.SealedAt)
	if h.Previous != nil {
		k.learn(f, h.FirstIndex, h.Previous.RootHash, h.SealedAt)
	}
	k.spans = append(k.spans, spanOf(c.ledger, f, c.before, h.SealedAt))
}

// needsLeaves reports whether a given file may need single leaves of packs, or roots of sizes
// that no pack ends with.
func (v *verification) needsLeaves() bool { return v.expected || !v.proofs.empty() }

// pack verifies the pack that a file holds.
func (v *verification) pack(ctx context.Context, f *FileReport, h *pack.History) *packCheck {
	c := &packCheck{trust: v.trust, rate: v.rating.Rate, statements: v.statements, scopes: &v.names, leaves: v.needsLeaves()}
	c.seen = func(index int, d *sealer.RecordedDelivery) {
		v.sight(f, d, c.header.SealedAt, "entry %d of pack %s", index, c.header.PackID)
	}
	file, err := os.Open(f.File)
	if err == nil {
		err = c.run(ctx, file, h)
		file.Close()
	}
	f.conduct, f.recording = c.conduct, c.recording
	if err != nil {
		f.unreadable(err)
	}
	return c
}

// whole reports whether the pack is what its key has signed. Its totals, and what it states of
// earlier packs, may be wrong all the same.
func (c *packCheck) whole() bool {
	return c.header != nil && !slices.ContainsFunc(c.verdicts, func(v Verdict) bool {
		switch v.Code {
		case sealer.EntryRepeated, DuplicatesMismatch, MeteringMismatch, SettlementMismatch:
			return false
		}
		return !v.OK
	})
}

// forget drops what the ledger has noted for later packs.
func (c *packCheck) forget() {
	if c != nil && c.ledger != nil {
		c.ledger.Forget()
	}
}

// link compares the pack with those before it in the order of leaves.
func (c *packCheck) link(before []*packCheck) {
	h := c.header
	var last *pack.Header // of those that reach furthest
	for _, p := range before {
		b := p.header
		switch {
		case bytes.Equal(p.text, c.text): // given twice
		case h.FirstIndex < b.TreeSize: // either of them may be the fork
			c.say(ChainFork, "leaves from %d on are in pack %s as well", h.FirstIndex, b.PackID)
			p.say(ChainFork, "leaves from %d on are in pack %s as well", h.FirstIndex, h.PackID)
		case h.FirstIndex == b.TreeSize && *h.Previous != b.Ref():
			c.say(ConsistencyMismatch, "it names %s with root %s as previous, not %s with root %s; the header of one has the hash %s, that of the other %s",
				h.Previous.PackID, h.Previous.RootHash, b.PackID, b.RootHash, h.Previous.HeaderHash, b.Ref().HeaderHash)
		}
		if last == nil || last.TreeSize < b.TreeSize {
			last = b
		}
	}
	if last != nil && last.TreeSize < h.FirstIndex {
		c.say(ChainGap, "leaves %d to %d, after pack %s, are in no sound file", last.TreeSize, h.FirstIndex-1, last.PackID)
	}
}

// settle decides about a key that was revoked after sealedAt. Only a later pack of
// the same log, by another key, proves that this one is as old as it says.
func (c *packCheck) settle(vouched bool) {
	switch {
	case !c.revoked:
	case vouched:
		c.say(ChainVouched, "key %s was revoked later; the next pack builds on this one", c.header.SigningKeyID)
	default:
		c.say(sealer.KeyRevoked, "the pack is signed by key %s, and nothing proves that it was signed before the revocation", c.header.SigningKeyID)
	}
}

// seenRoot is a root of one log that a file proves, and when it stood at the latest.
type seenRoot struct {
	file *FileReport
	size uint64
	root merkle.Hash
	by   time.Time
}

// span is a run of leaves of one log that a sound file holds.
type span struct {
	file   *FileReport
	before *merkle.Tree
	last   uint64        // the size of the log behind the last leaf
	end    merkle.Hash   // its root
	leaves []merkle.Hash // empty if they were not kept
	by     time.Time
}

// root recomputes the log's root of a size, if the span reaches it.
func (s *span) root(size uint64) (merkle.Hash, bool) {
	first := s.before.Size()
	switch {
	case size == s.last:
		return s.end, true
	case size < first, size > first+uint64(len(s.leaves)):
		return merkle.Hash{}, false
	}
	tree := s.before.Clone()
	for _, leaf := range s.leaves[:size-first] {
		tree.Append(leaf)
	}
	return tree.Root(), true
}

// spanOf is the span of a file whose entries a ledger has folded.
func spanOf(l *pack.Ledger, f *FileReport, before *merkle.Tree, by time.Time) *span {
	return &span{f, before, l.Next(), l.Tree.Root(), l.Leaves, by}
}

// provenLog is what the given files prove about one log.
type provenLog struct {
	roots []seenRoot
	spans []*span
}

// known returns what is known about a log.
func (v *verification) known(origin string) *provenLog {
	k := v.logs[origin]
	if k == nil {
		k = new(provenLog)
		v.logs[origin] = k
	}
	return k
}

func (k *provenLog) learn(f *FileReport, size uint64, root merkle.Hash, by time.Time) {
	k.roots = append(k.roots, seenRoot{f, size, root, by})
}

// vouch says whether the files prove a root, and by when it stood at the latest.
func (k *provenLog) vouch(size uint64, root merkle.Hash) (by time.Time, ok bool) {
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

func (s *span) holds(size uint64, root merkle.Hash) bool {
	have, ok := s.root(size)
	return ok && have == root
}

// rootAt is the root of a size, if the files prove one.
func (k *provenLog) rootAt(size uint64) (merkle.Hash, bool) {
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
	return merkle.Hash{}, false
}

// latest is the last moment at which the log was of a size that the files prove.
func (k *provenLog) latest() (at time.Time) {
	for _, r := range k.roots {
		if at.Before(r.by) {
			at = r.by
		}
	}
	return at
}

// newest is the largest size that the files prove.
func (k *provenLog) newest() (size uint64) {
	for _, r := range k.roots {
		size = max(size, r.size)
	}
	return size
}

// forks fails the files that prove two roots of one size. Either may be the
// fork.
func (k *provenLog) forks() {
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
		f.say(ChainFork, "the log has another root at size %d in %s", size, files[1-i].File)
	}
}
