package sealer

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"sort"

	"github.com/oklog/ulid/v2"

	"muniment.example/sealer/merkle"
)

// History is what a verifier must know of a log's entries to judge a later one: their event
// ids, idempotency hashes and identities, and the settlement rules. It takes 48 bytes an entry.
//
// The entries of a pack are recorded in a history of their own, above that of the packs before
// it. If the pack is sound, the two are joined; else the pack's own is dropped.
type History struct {
	below  *History // of the entries before, read-only; nil if none are known
	secret [16]byte // key of the digests, the same in all histories of a log
	ids    sorted[ulid.ULID]
	// seen are the deliveries with a key that are younger than all earlier ones of that key, so
	// that leaves and times of one key rise together. late are the others, which are never the
	// lowest that a delivery repeats; those of joined packs are dropped.
	seen sorted[occurrence]
	late []occurrence
	// known are the leaves that were joined, rising, with gaps in between.
	known []leafRange
	// rules are those of the log at the size settled, by id, from known leaves or from a header.
	rules   map[string]SettlementRule
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

// keyed reports whether a delivery can be a duplicate.
func (d *RecordedDelivery) keyed() bool { return d.Idempotency != "" || d.Identity != RowIdentity{} }

// occurrence returns that of the delivery at leaf; ok is false if it has no key.
func (h *History) occurrence(leaf uint64, d *RecordedDelivery) (s occurrence, ok bool) {
	s = occurrence{leaf: leaf, at: d.Event.At.UnixMilli()}
	text := d.Idempotency
	row := d.Identity != RowIdentity{}
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

func (s *occurrence) compare(t *occurrence) int {
	return cmp.Or(bytes.Compare(s.key[:], t.key[:]), cmp.Compare(s.leaf, t.leaf))
}

// NewHistory returns the empty history of a log.
func NewHistory() *History { return newHistory(nil) }

// newHistory returns a history of entries above below, which may be nil.
func newHistory(below *History) *History {
	h := &History{below: below, rules: make(map[string]SettlementRule)}
	h.ids.compare = func(a, b *ulid.ULID) int { return bytes.Compare(a[:], b[:]) }
	h.seen.compare = (*occurrence).compare
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
	h.ids.merge(&above.ids, func(before, id *ulid.ULID) bool { return *before != *id })
	h.seen.merge(&above.seen, func(before, s *occurrence) bool { return before.key != s.key || before.at < s.at })
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

// first adds the delivery at leaf and returns the lowest leaf that makes it a
// duplicate.
func (h *History) first(leaf uint64, d *RecordedDelivery) (first uint64, ok bool) {
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
	p := h.seen.search(func(t *occurrence) bool { return t.compare(&s) < 0 })
	if last := h.seen.before(p); last != nil && last.key == s.key && last.at >= s.at {
		h.late = append(h.late, s)
		return
	}
	h.seen.insert(p, s)
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
	oldest := s.at - DuplicateWindow.Milliseconds()
	first := h.seen.at(h.seen.search(func(t *occurrence) bool {
		return cmp.Or(bytes.Compare(t.key[:], s.key[:]), cmp.Compare(t.at, oldest)) < 0
	}))
	if first == nil || first.key != s.key {
		return 0, false
	}
	return first.leaf, true
}

// occurrences are all deliveries of the pack that have a key, by key and leaf.
func (h *History) occurrences() []occurrence {
	all := make([]occurrence, 0, h.seen.count+len(h.late))
	h.seen.each(func(s *occurrence) { all = append(all, *s) })
	if len(h.late) > 0 {
		all = append(all, h.late...)
		slices.SortFunc(all, func(a, b occurrence) int { return a.compare(&b) })
	}
	return all
}

// amend replaces the rule with the id of record, which is the data of the event at leaf.
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

// sorted is a sorted set of records without pointers, in blocks, so that millions of records
// have no overhead each and the garbage collector does not scan them.
type sorted[T any] struct {
	compare func(a, b *T) int
	blocks  [][]T // none is empty
	count   int
}

// blockRecords is the most records of a block, small enough for an insertion to cost less than
// a search. A fuller block is split in two.
const blockRecords = 512

// place is where a record is, or would be inserted.
type place struct{ block, in int }

// search returns the place of the first record that is not below, which is true for the
// lowest records and then for no other.
func (s *sorted[T]) search(below func(*T) bool) place {
	block := sort.Search(len(s.blocks), func(i int) bool {
		b := s.blocks[i]
		return !below(&b[len(b)-1])
	})
	if block == len(s.blocks) {
		return place{block, 0}
	}
	b := s.blocks[block]
	return place{block, sort.Search(len(b), func(i int) bool { return !below(&b[i]) })}
}

// find returns the place of a record, and whether it is there.
func (s *sorted[T]) find(record *T) (place, bool) {
	p := s.search(func(r *T) bool { return s.compare(r, record) < 0 })
	there := s.at(p)
	return p, there != nil && s.compare(there, record) == 0
}

// at is the record at a place; nil after the last.
func (s *sorted[T]) at(p place) *T {
	if p.block == len(s.blocks) {
		return nil
	}
	return &s.blocks[p.block][p.in]
}

// before is the record before a place; nil if that is the first.
func (s *sorted[T]) before(p place) *T {
	switch {
	case p.in > 0:
		return &s.blocks[p.block][p.in-1]
	case p.block > 0:
		b := s.blocks[p.block-1]
		return &b[len(b)-1]
	}
	return nil
}

// insert puts a record in at the place that search returned for it.
func (s *sorted[T]) insert(p place, record T) {
	s.count++
	if p.block == len(s.blocks) { // the usual case, for records that rise
		if p.block == 0 || len(s.blocks[p.block-1]) == blockRecords {
			s.blocks = append(s.blocks, []T{record})
			return
		}
		p.block--
		s.blocks[p.block] = append(s.blocks[p.block], record)
		return
	}
	b := append(s.blocks[p.block], record)
	copy(b[p.in+1:], b[p.in:])
	b[p.in] = record
	if len(b) <= blockRecords {
		s.blocks[p.block] = b
		return
	}
	half := len(b) / 2
	upper := append(make([]T, 0, blockRecords), b[half:]...)
	s.blocks = append(s.blocks, nil)
	copy(s.blocks[p.block+2:], s.blocks[p.block+1:])
	s.blocks[p.block], s.blocks[p.block+1] = b[:half], upper
}

// each calls fn with all records, in their order.
func (s *sorted[T]) each(fn func(*T)) {
	for _, b := range s.blocks {
		for i := range b {
			fn(&b[i])
		}
	}
}

// merge adds the records of another set. keep is called with each two neighbours of the
// result; if it returns false, the second is dropped. A block into which no record falls stays
// as it is; the new blocks have no spare capacity.
func (s *sorted[T]) merge(with *sorted[T], keep func(before, record *T) bool) {
	m := merger[T]{keep: keep, open: make([]T, 0, 2*blockRecords)}
	var from place
	for i, b := range s.blocks {
		s.blocks[i] = nil // so that the old and the new block are not both in memory
		to := place{len(with.blocks), 0}
		if i+1 < len(s.blocks) {
			last := &b[len(b)-1]
			to = with.search(func(r *T) bool { return s.compare(r, last) < 0 })
		}
		if from == to {
			m.whole(b)
			continue
		}
		for j := range b {
			for ; from != to && s.compare(with.at(from), &b[j]) < 0; from = with.next(from) {
				m.add(with.at(from))
			}
			m.add(&b[j])
		}
		for ; from != to; from = with.next(from) {
			m.add(with.at(from))
		}
		m.close()
	}
	for ; with.at(from) != nil; from = with.next(from) { // if s was empty
		m.add(with.at(from))
	}
	m.close()
	s.blocks, s.count = m.blocks, m.count
}

func (s *sorted[T]) next(p place) place {
	if p.in++; p.in == len(s.blocks[p.block]) {
		return place{p.block + 1, 0}
	}
	return p
}

// merger builds blocks from records that rise.
type merger[T any] struct {
	keep   func(before, record *T) bool
	blocks [][]T
	count  int
	open   []T // the records of the next block
}

func (m *merger[T]) last() *T {
	b := m.open
	if len(b) == 0 && len(m.blocks) > 0 {
		b = m.blocks[len(m.blocks)-1]
	}
	if len(b) == 0 {
		return nil
	}
	return &b[len(b)-1]
}

func (m *merger[T]) add(record *T) {
	if before := m.last(); before != nil && !m.keep(before, record) {
		return
	}
	if len(m.open) == cap(m.open) {
		m.take(blockRecords)
	}
	m.open = append(m.open, *record)
}

// whole adds a block as it is.
func (m *merger[T]) whole(b []T) {
	m.blocks = append(m.blocks, b)
	m.count += len(b)
}

// take builds a block of the first n open records.
func (m *merger[T]) take(n int) {
	m.whole(append(make([]T, 0, n), m.open[:n]...))
	m.open = m.open[:copy(m.open, m.open[n:])]
}

// close builds blocks of about equal length from the open records.
func (m *merger[T]) close() {
	if n := len(m.open); n > blockRecords {
		m.take(n / 2)
	}
	if n := len(m.open); n > 0 {
		m.take(n)
	}
}
