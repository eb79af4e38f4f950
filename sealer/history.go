package sealer

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"

	"github.com/oklog/ulid/v2"
)

// History is what has to be known of a log's entries to judge a later one: their event ids,
// idempotency hashes and identities, and the settlement rules. It takes 48 bytes an entry.
//
// The entries of a pack are noted in a history of their own, above that of the packs
// before it. If the pack is sound, its history is joined with that; else it is dropped.
type History struct {
	below  *History // of the entries before, only read; nil if none are known
	secret [16]byte // that digests are made with, one for all
	ids    sorted[ulid.ULID]
	// seen are the deliveries with a key that are younger than all of theirs before, so that
	// leaves and times of one key rise together; late are the others, which are never the
	// lowest that something repeats. Those of joined packs are forgotten.
	seen sorted[sighting]
	late []sighting
	// known are the leaves that were joined, rising, with gaps in between.
	known []leafRange
	// rules are those of the log at the size settled, by id: of leaves that are known, or
	// by the word of a header.
	rules   map[string]SettlementRule
	settled uint64
}

// leafRange is the leaves from first to below end.
type leafRange struct{ first, end uint64 }

// sighting is a delivery with a key, of which it holds a digest: an idempotency hash or an
// identity.
type sighting struct {
	key  digest
	leaf uint64
	// at is in milliseconds. The deliveries of an identity repeat the lowest, whenever they
	// are: so they are all of one moment here.
	at int64
}

// digest stands for a key in fewer bytes. It is keyed with a secret, so that made-up hashes
// can't collide.
type digest [16]byte

func (h *History) digest(key []byte) digest {
	sum := sha256.Sum256(append(h.secret[:], key...))
	return digest(sum[:16])
}

// keyed reports whether a delivery can be a duplicate.
func (d *RecordedDelivery) keyed() bool { return d.Idempotency != "" || d.Identity != RowIdentity{} }

// sighting is that of the delivery at leaf; ok is false without a key.
func (h *History) sighting(leaf uint64, d *RecordedDelivery) (s sighting, ok bool) {
	s = sighting{leaf: leaf, at: d.Event.At.UnixMilli()}
	text := d.Idempotency
	row := d.Identity != RowIdentity{}
	if row {
		text, s.at = d.Identity.Hash, 0
	}
	hash, err := ParseHash(text)
	if err != nil {
		return s, false
	}
	key := hash[:]
	if row { // a key of another length
		key = append(append(key, 1), d.Identity.Day...)
	}
	s.key = h.digest(key)
	return s, true
}

func (s *sighting) compare(t *sighting) int {
	return cmp.Or(bytes.Compare(s.key[:], t.key[:]), cmp.Compare(s.leaf, t.leaf))
}

// NewHistory is what is known of a log before any of its packs was read.
func NewHistory() *History { return newHistory(nil) }

// newHistory begins to note entries above those that are known, which may be nil.
func newHistory(below *History) *History {
	h := &History{below: below, rules: make(map[string]SettlementRule)}
	h.ids.compare = func(a, b *ulid.ULID) int { return bytes.Compare(a[:], b[:]) }
	h.seen.compare = (*sighting).compare
	if below == nil {
		rand.Read(h.secret[:])
		return h
	}
	maps.Copy(h.rules, below.rules)
	h.settled, h.secret = below.settled, below.secret
	return h
}

// Join adds what a ledger has noted above h, and takes it from there.
func (h *History) Join(l *Ledger) {
	above, first, end := l.history, l.first, l.Tree.Size()
	l.history = nil
	h.ids.merge(&above.ids, func(before, id *ulid.ULID) bool { return *before != *id })
	h.seen.merge(&above.seen, func(before, s *sighting) bool { return before.key != s.key || before.at < s.at })
	if n := len(h.known); n > 0 && h.known[n-1].end == first {
		h.known[n-1].end = end
	} else {
		h.known = append(h.known, leafRange{first, end})
	}
	h.rules, h.settled = above.rules, end
}

// holds reports whether the entry at leaf was joined.
func (h *History) holds(leaf uint64) bool {
	return h != nil && slices.ContainsFunc(h.known, func(r leafRange) bool { return r.first <= leaf && leaf < r.end })
}

// complete reports whether all entries below leaf were joined.
func (h *History) complete(leaf uint64) bool {
	return leaf == 0 || h != nil && len(h.known) == 1 && h.known[0] == leafRange{0, leaf}
}

// repeated notes an event id and reports whether it stood before.
func (h *History) repeated(eventID string) bool {
	id, err := ParseID(eventPrefix, eventID)
	if err != nil {
		return false
	}
	p, own := h.ids.find(&id)
	if own {
		return true
	}
	h.ids.insert(p, id)
	for b := h.below; b != nil; b = b.below {
		if _, before := b.ids.find(&id); before {
			return true
		}
	}
	return false
}

// first notes the delivery at leaf and returns the lowest leaf that makes it a
// duplicate.
func (h *History) first(leaf uint64, d *RecordedDelivery) (first uint64, ok bool) {
	s, ok := h.sighting(leaf, d)
	if !ok {
		return 0, false
	}
	first, ok = h.sighted(&s)
	h.sight(s)
	return first, ok
}

// sight notes a delivery at a leaf behind all others.
func (h *History) sight(s sighting) {
	p := h.seen.search(func(t *sighting) bool { return t.compare(&s) < 0 })
	if last := h.seen.before(p); last != nil && last.key == s.key && last.at >= s.at {
		h.late = append(h.late, s)
		return
	}
	h.seen.insert(p, s)
}

// sighted returns the lowest leaf whose delivery has the key of one, and is at most
// DuplicateWindow older.
func (h *History) sighted(s *sighting) (leaf uint64, ok bool) {
	if h == nil {
		return 0, false
	}
	if leaf, ok = h.below.sighted(s); ok {
		return leaf, true
	}
	oldest := s.at - DuplicateWindow.Milliseconds()
	first := h.seen.at(h.seen.search(func(t *sighting) bool {
		return cmp.Or(bytes.Compare(t.key[:], s.key[:]), cmp.Compare(t.at, oldest)) < 0
	}))
	if first == nil || first.key != s.key {
		return 0, false
	}
	return first.leaf, true
}

// sightings are all deliveries of the pack that have a key, by key and leaf.
func (h *History) sightings() []sighting {
	all := make([]sighting, 0, h.seen.count+len(h.late))
	h.seen.each(func(s *sighting) { all = append(all, *s) })
	if len(h.late) > 0 {
		all = append(all, h.late...)
		slices.SortFunc(all, func(a, b sighting) int { return a.compare(&b) })
	}
	return all
}

// amend notes the rule whose record the event at leaf holds, in place of the one of its id.
func (h *History) amend(leaf uint64, record []byte) error {
	id, err := ruleID(record)
	if err != nil {
		return fmt.Errorf("the settlement rule of leaf %d: %w", leaf, err)
	}
	h.rules[id] = SettlementRule{leaf, bytes.Clone(record)}
	return nil
}

// byLeaf are the rules by rising leaf.
func (h *History) byLeaf() []SettlementRule {
	return slices.SortedFunc(maps.Values(h.rules), func(a, b SettlementRule) int { return cmp.Compare(a.Leaf, b.Leaf) })
}
