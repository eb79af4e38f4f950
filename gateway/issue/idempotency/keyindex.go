package idempotency

import (
	"encoding/binary"
	"unsafe"
)

// kept remembers where the events of the newest keys stand, up to a limit: a ring of
// entries, oldest first, and an index that finds them. Nearly every request looks for a key
// that is not there, which reads one word of the index; a map of millions of keys and a queue of
// them take three times as long and twice the memory.
type kept struct {
	limit   int
	entries *block[keptEntry]
	head, n int
	// slots is the index: an entry stands in the first slot that was free from its
	// mark on. Their number is a power of two, at least a third more than entries.
	slots *block[slot]
}

// block is a large array without pointers.
type block[T any] struct{ all []T }

type keptEntry struct {
	key claimKey
	Place
}

// slot names an entry, by its number in the ring plus 1; 0 is a free slot.
type slot struct{ mark, number uint32 }

// mark is part of a key, which is a hash already.
func (k *claimKey) mark() uint32 { return binary.LittleEndian.Uint32(k[8:]) }

// find returns the slot of the key, or the free one where it belongs.
func (k *kept) find(key *claimKey) (at int, found bool) {
	if k.slots == nil {
		return 0, false
	}
	mark, mask := key.mark(), len(k.slots.all)-1
	for at = int(mark) & mask; ; at = (at + 1) & mask {
		switch s := &k.slots.all[at]; {
		case s.number == 0:
			return at, false
		case s.mark == mark && k.entries.all[s.number-1].key == *key:
			return at, true
		}
	}
}

// get returns the place of a key's event.
func (k *kept) get(key *claimKey) (p Place, found bool) {
	at, found := k.find(key)
	if found {
		p = k.entries.all[k.slots.all[at].number-1].Place
	}
	return p, found
}

// put adds a key or changes its place; at the limit it drops the oldest.
func (k *kept) put(key *claimKey, p Place) {
	at, found := k.find(key)
	if found {
		k.entries.all[k.slots.all[at].number-1].Place = p
		return
	}
	switch {
	case k.n == k.limit:
		k.drop()
		at, _ = k.find(key)
	case k.entries == nil || k.n == len(k.entries.all):
		k.grow()
		at, _ = k.find(key)
	}
	number := (k.head + k.n) % len(k.entries.all)
	k.entries.all[number] = keptEntry{*key, p}
	k.slots.all[at] = slot{key.mark(), uint32(number + 1)}
	k.n++
}

// oldest is the entry that has been there for longest; nil of nothing.
func (k *kept) oldest() *keptEntry {
	if k.n == 0 {
		return nil
	}
	return &k.entries.all[k.head]
}

// drop forgets the oldest.
func (k *kept) drop() {
	at, _ := k.find(&k.entries.all[k.head].key)
	k.head = (k.head + 1) % len(k.entries.all)
	k.n--
	// The slot is filled with one from behind that may stand there, and so on: no
	// entry may have a free slot between its mark and itself.
	mask := len(k.slots.all) - 1
	for next := (at + 1) & mask; k.slots.all[next].number != 0; next = (next + 1) & mask {
		if wanted := int(k.slots.all[next].mark) & mask; (next-wanted)&mask >= (next-at)&mask {
			k.slots.all[at], at = k.slots.all[next], next
		}
	}
	k.slots.all[at] = slot{}
}

// leastKept is the first size of the ring: about a page.
const leastKept = 100

// grow doubles the ring, up to the limit.
func (k *kept) grow() {
	size := leastKept
	if k.entries != nil {
		size = 2 * len(k.entries.all)
	}
	entries := newBlock[keptEntry](min(size, k.limit))
	if k.entries != nil {
		copied := copy(entries.all, k.entries.all[k.head:])
		copy(entries.all[copied:], k.entries.all[:k.head])
	}
	k.entries, k.head = entries, 0
	slots := 4
	for slots < len(entries.all)+len(entries.all)/3 {
		slots *= 2
	}
	k.slots = newBlock[slot](slots)
	for i := range k.n {
		e := &entries.all[i]
		at, _ := k.find(&e.key)
		k.slots.all[at] = slot{e.key.mark(), uint32(i + 1)}
	}
}

// bytes is the memory that is in use: that of a ring which was never full is
// not all there yet.
func (k *kept) bytes() int {
	if k.slots == nil {
		return 0
	}
	return k.n*int(unsafe.Sizeof(keptEntry{})) + len(k.slots.all)*int(unsafe.Sizeof(slot{}))
}
