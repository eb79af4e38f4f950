package sealer

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/oklog/ulid/v2"
)

// history is what the entries of one log tell about a later one: which event ids and
// idempotency hashes stood before, and which settlement rules. It grows with the log:
// about 150 bytes an entry.
//
// The entries of a pack are noted in a history of their own, above that of the packs
// before it. What does not turn out sound is dropped with that; the rest is joined.
type history struct {
	below *history // of the entries before, only read; nil if none are known
	ids   map[ulid.ULID]struct{}
	seen  map[Hash][]sighting
	// known are the leaves that were joined, rising, with gaps in between.
	known []leafRange
	// rules are those of the log at the size settled, by id: of leaves that are known, or
	// by the word of a header.
	rules   map[string]SettlementRule
	settled uint64
}

// leafRange is the leaves from first to below end.
type leafRange struct{ first, end uint64 }

// sighting is a delivery among those of one idempotency hash, which rise by leaf.
type sighting struct {
	leaf uint64
	at   time.Time
	// latest is the latest at of those up to it, so that it rises as well.
	latest time.Time
}

// newHistory begins to note entries above those that are known, which may be nil.
func newHistory(below *history) *history {
	h := &history{below: below, ids: make(map[ulid.ULID]struct{}), seen: make(map[Hash][]sighting), rules: make(map[string]SettlementRule)}
	if below != nil {
		maps.Copy(h.rules, below.rules)
		h.settled = below.settled
	}
	return h
}

// join adds what a ledger has noted above h, and takes it from there.
func (h *history) join(l *ledger) {
	above, first, end := l.history, l.first, l.tree.Size()
	l.history = nil
	maps.Copy(h.ids, above.ids)
	for hash, list := range above.seen {
		for _, s := range list {
			h.sight(hash, s.leaf, s.at)
		}
	}
	if n := len(h.known); n > 0 && h.known[n-1].end == first {
		h.known[n-1].end = end
	} else {
		h.known = append(h.known, leafRange{first, end})
	}
	h.rules, h.settled = above.rules, end
}

// holds reports whether the entry at leaf was joined.
func (h *history) holds(leaf uint64) bool {
	return h != nil && slices.ContainsFunc(h.known, func(r leafRange) bool { return r.first <= leaf && leaf < r.end })
}

// complete reports whether all entries below leaf were joined.
func (h *history) complete(leaf uint64) bool {
	return leaf == 0 || h != nil && len(h.known) == 1 && h.known[0] == leafRange{0, leaf}
}

// repeated notes an event id and reports whether it stood before.
func (h *history) repeated(eventID string) bool {
	id, err := parseID(eventPrefix, eventID)
	before := h.met(id)
	h.ids[id] = struct{}{}
	return err == nil && before
}

func (h *history) met(id ulid.ULID) bool {
	for ; h != nil; h = h.below {
		if _, ok := h.ids[id]; ok {
			return true
		}
	}
	return false
}

// first notes the delivery at leaf and returns the lowest leaf that makes it a
// duplicate.
func (h *history) first(leaf uint64, d *RecordedDelivery) (first uint64, ok bool) {
	hash, err := ParseHash(d.Idempotency)
	if err != nil {
		return 0, false // given without a key
	}
	first, ok = h.sighted(hash, d.Event.At)
	h.sight(hash, leaf, d.Event.At)
	return first, ok
}

func (h *history) sight(hash Hash, leaf uint64, at time.Time) {
	list, latest := h.seen[hash], at
	if n := len(list); n > 0 && list[n-1].latest.After(at) {
		latest = list[n-1].latest
	}
	h.seen[hash] = append(list, sighting{leaf, at, latest})
}

func (h *history) sighted(hash Hash, at time.Time) (leaf uint64, ok bool) {
	if h == nil {
		return 0, false
	}
	if leaf, ok = h.below.sighted(hash, at); ok {
		return leaf, true
	}
	// The first one up to which there is one that is young enough is that itself. To walk
	// them all would take hours for a pack that was made to.
	list, oldest := h.seen[hash], at.Add(-DuplicateWindow)
	i, _ := slices.BinarySearchFunc(list, oldest, func(s sighting, oldest time.Time) int { return s.latest.Compare(oldest) })
	if i == len(list) {
		return 0, false
	}
	return list[i].leaf, true
}

// amend notes the rule whose record the event at leaf holds, in place of the one of its id.
func (h *history) amend(leaf uint64, record []byte) error {
	id, err := ruleID(record)
	if err != nil {
		return fmt.Errorf("the settlement rule of leaf %d: %w", leaf, err)
	}
	h.rules[id] = SettlementRule{leaf, bytes.Clone(record)}
	return nil
}

// byLeaf are the rules by rising leaf.
func (h *history) byLeaf() []SettlementRule {
	return slices.SortedFunc(maps.Values(h.rules), func(a, b SettlementRule) int { return cmp.Compare(a.Leaf, b.Leaf) })
}
