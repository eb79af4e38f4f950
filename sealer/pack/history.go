package pack

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/google/btree"
	"github.com/oklog/ulid/v2"

	"muniment.example/sealer"
	"muniment.example/sealer/merkle"
	"muniment.example/sealer/settlement"
)

// History is what a verifier must know of a log's entries to judge a later one: their event
// ids, idempotency hashes and identities, and the settlement rules. It takes about 80 bytes an entry.
//
// The entries of a pack are recorded in a history of their own, above that of the packs before
// it. If the pack is sound, the two are joined; else the pack's own is dropped.
type History struct {
	below  *History // of the entries before, read-only; nil if none are known
	secret [16]byte // key of the digests, the same in all histories of a log
	ids    *btree.BTreeG[ulid.ULID]
	// seen are the deliveries with a key that are younger than all earlier ones of that key, so
	// that leaves and times of one key rise together. late are the others, which are never the
	// lowest that a delivery repeats; those of joined packs are dropped.
	seen *btree.BTreeG[occurrence]
	late []occurrence
	// known are the leaves that were joined, rising, with gaps in between.
	known []leafRange
	// rules are those of the log at the size settled, by id, from known leaves or from a header.
	rules   map[string]settlement.Rule
	settled uint64
}

// leafRange is the leaves from first to below end.
type leafRange struct{ first, end uint64 }

// occurrence is a delivery with a key, of which it holds a digest: an idempotency hash or an
// identity.
type occurrence struct {
	key  digest
	leaf uint64
	// at is in milliseconds; 0 for an identity, whose deliveries repeat the lowest at any
	// distance in time.
	at int64
}

// digest stands for a key in fewer bytes. It is keyed with a secret, so that made-up hashes
// can't collide.
type digest [16]byte

func (h *History) digest(key []byte) digest {
	sum := sha256.Sum256(append(h.secret[:], key...))
	return digest(sum[:16])
}

// occurrence returns that of the delivery at leaf; ok is false if it has no key.
func (h *History) occurrence(leaf uint64, d *sealer.RecordedDelivery) (s occurrence, ok bool) {
	s = occurrence{leaf: leaf, at: d.Event.At.UnixMilli()}
	text := d.Idempotency
	row := d.Identity != sealer.RowIdentity{}
	if row {
		text, s.at = d.Identity.Hash, 0
	}
	hash, err := merkle.ParseHash(text)
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

// before is the order of History.seen, where the leaves of one key rise with their times.
func (s occurrence) before(t occurrence) bool {
	return cmp.Or(bytes.Compare(s.key[:], t.key[:]), cmp.Compare(s.at, t.at)) < 0
}

// treeDegree is half the records of a node at most: an insertion moves them, and costs less than a search.
const treeDegree = 128

// NewHistory returns the empty history of a log.
func NewHistory() *History { return newHistory(nil) }

// newHistory returns a history of entries above below, which may be nil.
func newHistory(below *History) *History {
	h := &History{
		below: below, rules: make(map[string]settlement.Rule),
		ids:  btree.NewG(treeDegree, func(a, b ulid.ULID) bool { return bytes.Compare(a[:], b[:]) < 0 }),
		seen: btree.NewG(treeDegree, occurrence.before),
	}
	if below == nil {
		rand.Read(h.secret[:])
		return h
	}
	maps.Copy(h.rules, below.rules)
	h.settled, h.secret = below.settled, below.secret
	return h
}

// Join adds the history that a ledger has collected above h. The ledger loses it.
func (h *History) Join(l *Ledger) {
	above, first, end := l.history, l.first, l.Tree.Size()
	l.history = nil
	above.ids.Ascend(func(id ulid.ULID) bool { h.ids.ReplaceOrInsert(id); return true })
	above.seen.Ascend(func(s occurrence) bool { h.younger(s); return true })
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

// repeated adds an event id and reports whether it was there before.
func (h *History) repeated(eventID string) bool {
	id, err := sealer.ParseID(sealer.EventPrefix, eventID)
	if err != nil {
		return false
	}
	_, there := h.ids.ReplaceOrInsert(id)
	for b := h.below; b != nil && !there; b = b.below {
		there = b.ids.Has(id)
	}
	return there
}

// first adds the delivery at leaf and returns the lowest leaf that makes it a
// duplicate.
func (h *History) first(leaf uint64, d *sealer.RecordedDelivery) (first uint64, ok bool) {
	s, ok := h.occurrence(leaf, d)
	if !ok {
		return 0, false
	}
	first, ok = h.earliest(&s)
	h.add(s)
	return first, ok
}

// add records a delivery at a leaf above all others.
func (h *History) add(s occurrence) {
	if !h.younger(s) {
		h.late = append(h.late, s)
	}
}

// younger adds a delivery at a leaf above all others to seen, if it is younger than those of its key.
func (h *History) younger(s occurrence) (added bool) {
	added = true
	h.seen.DescendLessOrEqual(occurrence{key: s.key, at: math.MaxInt64}, func(last occurrence) bool {
		added = last.key != s.key || last.at < s.at
		return false
	})
	if added {
		h.seen.ReplaceOrInsert(s)
	}
	return added
}

// earliest returns the lowest leaf whose delivery has the key of one, and is at most
// DuplicateWindow older.
func (h *History) earliest(s *occurrence) (leaf uint64, ok bool) {
	if h == nil {
		return 0, false
	}
	if leaf, ok = h.below.earliest(s); ok {
		return leaf, true
	}
	h.seen.AscendGreaterOrEqual(occurrence{key: s.key, at: s.at - sealer.DuplicateWindow.Milliseconds()}, func(first occurrence) bool {
		if ok = first.key == s.key; ok {
			leaf = first.leaf
		}
		return false
	})
	return leaf, ok
}

// occurrences are all deliveries of the pack that have a key, by key and leaf.
func (h *History) occurrences() []occurrence {
	all := make([]occurrence, 0, h.seen.Len()+len(h.late))
	h.seen.Ascend(func(s occurrence) bool { all = append(all, s); return true })
	if len(h.late) > 0 {
		all = append(all, h.late...)
		slices.SortFunc(all, func(a, b occurrence) int {
			return cmp.Or(bytes.Compare(a.key[:], b.key[:]), cmp.Compare(a.leaf, b.leaf))
		})
	}
	return all
}

// amend replaces the rule with the id of record, which is the data of the event at leaf.
func (h *History) amend(leaf uint64, record []byte) error {
	id, err := settlement.RuleID(record)
	if err != nil {
		return fmt.Errorf("the settlement rule of leaf %d: %w", leaf, err)
	}
	h.rules[id] = settlement.Rule{Leaf: leaf, Record: bytes.Clone(record)}
	return nil
}

// byLeaf are the rules by rising leaf.
func (h *History) byLeaf() []settlement.Rule {
	return slices.SortedFunc(maps.Values(h.rules), func(a, b settlement.Rule) int { return cmp.Compare(a.Leaf, b.Leaf) })
}
