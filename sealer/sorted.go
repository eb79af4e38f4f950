package sealer

import "sort"

// sorted is a set of records without pointers, in their order, in blocks: 1.5 million of
// them cost what they hold, and the garbage collector has nothing to look at.
type sorted[T any] struct {
	compare func(a, b *T) int
	blocks  [][]T // none is empty
	count   int
}

// blockRecords is the most records of a block. One more moves half of them, so that an
// insertion costs less than a search does.
const blockRecords = 512

// place is where a record stands, or would stand.
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

// at is the record at a place; nil behind the last.
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
	if p.block == len(s.blocks) { // as most are, of those that rise
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

// merge takes in the records of another set, except those that keep is false for: it is
// asked of each record of either that comes behind another, with that one. What it makes
// is as long as it has to be, and a block that nothing falls into stays as it is.
func (s *sorted[T]) merge(with *sorted[T], keep func(before, record *T) bool) {
	m := merger[T]{keep: keep, open: make([]T, 0, 2*blockRecords)}
	var from place
	for i, b := range s.blocks {
		s.blocks[i] = nil // not both, the old and the new, have to be in memory
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
	for ; with.at(from) != nil; from = with.next(from) { // there was no block
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

// merger makes blocks of records that rise.
type merger[T any] struct {
	keep   func(before, record *T) bool
	blocks [][]T
	count  int
	open   []T // of the next block
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

// take makes a block of the first open records.
func (m *merger[T]) take(n int) {
	m.whole(append(make([]T, 0, n), m.open[:n]...))
	m.open = m.open[:copy(m.open, m.open[n:])]
}

// close makes blocks of what is open, of about the same length.
func (m *merger[T]) close() {
	if n := len(m.open); n > blockRecords {
		m.take(n / 2)
	}
	if n := len(m.open); n > 0 {
		m.take(n)
	}
}
