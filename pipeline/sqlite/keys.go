package sqlite

import (
	"cmp"
	"crypto/sha256"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"muniment.example/pipeline"
)

// limits configure the spans.
type limits struct {
	// rows is how many rows a span has before the next one begins: a look-up reads each span
	// of a day, an insert writes pages of the last one.
	rows int64
	// filters is how many of the newest spans have a filter in memory, 256 KB each. A key is
	// looked up in each older span that may hold it.
	filters int
	// daylessFilters is the same for spans with identities without a day, which count
	// however old they are: the identity of a new row is looked up in each of them.
	daylessFilters int
}

// defaultLimits have filters for 25 million rows of any kind, and for 100 million if some have
// ids of their own.
var defaultLimits = limits{rows: 100_000, filters: 256, daylessFilters: 1024}

const (
	// filterBlocks is the number of blocks of a filter: 24 keys in each.
	filterBlocks = 4096

	dayMs = int64(24 * time.Hour / time.Millisecond)

	noDay = math.MinInt64
)

// span is a row of the table of that name.
type span struct {
	number, rows      int64
	latest            int64          // event with an idempotency hash
	firstDay, lastDay int64          // of rows' identities
	dayless           bool           // there are identities without a day
	filter            pipeline.Bloom // nil: not in memory
}

func newSpan(number int64) *span {
	return &span{number: number, latest: math.MinInt64, firstDay: math.MaxInt64, lastDay: math.MinInt64}
}

// mayHold reports whether the row that n repeats may be in the span.
func (s *span) mayHold(n *newRow) bool {
	switch {
	case !isRow(n.key):
		return s.latest >= n.oldest()
	case n.day == noDay:
		return s.dayless
	}
	return s.firstDay <= n.day && n.day <= s.lastDay
}

// add adds a row with a key.
func (s *span) add(n *newRow) {
	s.filter.Add(uint64(n.hash))
	switch {
	case !isRow(n.key):
		s.latest = max(s.latest, n.At.UnixMilli())
	case n.day == noDay:
		s.dayless = true
	default:
		s.firstDay, s.lastDay = min(s.firstDay, n.day), max(s.lastDay, n.day)
	}
}

// takeKey reads the key of a delivery.
func (n *newRow) takeKey() {
	if n.key = dedupKey(n.Delivery); n.key == nil {
		return
	}
	n.hash, n.day = hashOf(n.key), noDay
	if t, err := time.Parse(time.DateOnly, n.Delivery.Identity.Day); err == nil {
		n.day = t.UnixMilli() / dayMs
	}
}

// oldest is the earliest time of a row that n may repeat, in milliseconds.
func (n *newRow) oldest() int64 {
	if isRow(n.key) {
		return math.MinInt64
	}
	return n.At.UnixMilli() - dayMs
}

// hashOf is the start of a digest of a dedupKey.
func hashOf(key any) int64 {
	b, ok := key.([]byte)
	if !ok {
		b = []byte(key.(string))
	}
	sum := sha256.Sum256(b)
	return int64(binary.BigEndian.Uint64(sum[:]))
}

// filtered reports whether the i-th span has its filter in memory.
func (l *load) filtered(i int) bool {
	newer := len(l.spans) - i
	return newer <= l.limits.filters || l.spans[i].dayless && newer <= l.limits.daylessFilters
}

// readSpans reads the spans if they are not known.
func (l *load) readSpans() error {
	if l.spans != nil {
		return nil
	}
	rows, err := l.QueryContext(l.ctx, `SELECT span, rows, latest, first_day, last_day, dayless FROM spans ORDER BY span`)
	if err != nil {
		return err
	}
	defer rows.Close()
	spans := []*span{}
	for rows.Next() {
		s := &span{}
		if err := rows.Scan(&s.number, &s.rows, &s.latest, &s.firstDay, &s.lastDay, &s.dayless); err != nil {
			return err
		}
		spans = append(spans, s)
	}
	l.spans = spans
	return rows.Err()
}

// fill makes the filter of a span.
func (l *load) fill(s *span) error {
	rows, err := l.QueryContext(l.ctx, `SELECT hash FROM keys WHERE span = ?`, s.number)
	if err != nil {
		return err
	}
	defer rows.Close()
	s.filter = make(pipeline.Bloom, filterBlocks)
	for rows.Next() {
		var hash int64
		if err := rows.Scan(&hash); err != nil {
			return err
		}
		s.filter.Add(uint64(hash))
	}
	return rows.Err()
}

// decide decides which of the new rows are duplicates.
func (l *load) decide(pipeline.Batch) error {
	if err := l.readSpans(); err != nil {
		return fmt.Errorf("cannot read the spans of keys: %w", err)
	}
	l.hashes = make(map[[2]int64][]*newRow, len(l.rows))
	for _, n := range l.rows {
		if n.key == nil {
			continue
		}
		first, ok, err := l.first(n)
		if err != nil {
			return fmt.Errorf("cannot look for what event %s repeats: %w", n.EventID, err)
		}
		if n.duplicate = ok; ok {
			if err := l.storeDuplicate(n.tenant, n.place, first); err != nil {
				return err
			}
		}
		k := [2]int64{n.tenant, n.hash}
		l.hashes[k] = append(l.hashes[k], n)
	}
	return nil
}

// selectKey finds the lowest row of a span that a row repeats.
const selectKey = `SELECT e.generation, e.position, e.log_partition
	FROM keys AS k CROSS JOIN events AS e USING (tenant, generation, position, log_partition)
	WHERE k.span = ? AND k.tenant = ? AND k.hash = ? AND e.dedup_key = ? AND (k.generation, k.position) < (?, ?) AND e.at >= ?
	ORDER BY k.generation, k.position LIMIT 1`

// first returns the lowest row that makes n a duplicate, among those that are stored and
// the earlier ones of the batch.
func (l *load) first(n *newRow) (first place, ok bool, err error) {
	oldest := n.oldest()
	for _, p := range l.hashes[[2]int64{n.tenant, n.hash}] {
		if p.place.before(n.place) && p.At.UnixMilli() >= oldest &&
			p.Delivery.Idempotency == n.Delivery.Idempotency && p.Delivery.Identity == n.Delivery.Identity {
			first, ok = p.place, true
			break
		}
	}
	for i, s := range l.spans {
		if !s.mayHold(n) {
			continue
		}
		if s.filter == nil && l.filtered(i) {
			if err := l.fill(s); err != nil {
				return place{}, false, err
			}
		}
		if s.filter != nil && !s.filter.Maybe(uint64(n.hash)) {
			continue
		}
		var p place
		err := l.StmtContext(l.ctx, l.key).QueryRowContext(l.ctx, s.number, n.tenant, n.hash, n.key, n.generation, n.position, oldest).
			Scan(&p.generation, &p.position, &p.partition)
		switch {
		case errors.Is(err, sql.ErrNoRows):
		case err != nil:
			return place{}, false, err
		case !ok || p.before(first):
			first, ok = p, true
		}
	}
	return first, ok, nil
}

func (l *load) storeDuplicate(tenant int64, p, first place) error {
	return l.exec(`INSERT INTO duplicates (tenant, generation, position, log_partition, first_generation, first_position, first_partition)
		VALUES (?, ?, ?, ?, ?, ?, ?)`, tenant, p.generation, p.position, p.partition, first.generation, first.position, first.partition)
}

// storeKeys stores the keys and marks of the new rows, in the last span or in a new one.
func (l *load) storeKeys() error {
	if len(l.rows) == 0 {
		return nil
	}
	if len(l.spans) == 0 || l.spans[len(l.spans)-1].rows >= l.limits.rows {
		s := newSpan(int64(len(l.spans)))
		s.filter = make(pipeline.Bloom, filterBlocks)
		l.spans = append(l.spans, s)
		for _, most := range []int{l.limits.filters, l.limits.daylessFilters} {
			if i := len(l.spans) - 1 - most; i >= 0 && !l.filtered(i) {
				l.spans[i].filter = nil
			}
		}
	}
	s := l.spans[len(l.spans)-1]
	if s.filter == nil {
		if err := l.fill(s); err != nil {
			return err
		}
	}
	s.rows += int64(len(l.rows))
	var keyed []*newRow
	for _, n := range l.rows {
		if n.key != nil {
			keyed = append(keyed, n)
			s.add(n)
		}
	}
	err := l.exec(`INSERT OR REPLACE INTO spans (span, rows, latest, first_day, last_day, dayless) VALUES (?, ?, ?, ?, ?, ?)`,
		s.number, s.rows, s.latest, s.firstDay, s.lastDay, s.dayless)
	if err != nil {
		return err
	}
	slices.SortFunc(keyed, func(a, b *newRow) int {
		return cmp.Or(cmp.Compare(a.tenant, b.tenant), cmp.Compare(a.hash, b.hash))
	})
	err = insert(l, l.keys, keyed, func(args []any, n *newRow) []any {
		return append(args, s.number, n.tenant, n.hash, n.generation, n.position, n.partition)
	})
	if err != nil || l.unsearched {
		return err
	}
	return l.storeMarks(s)
}
