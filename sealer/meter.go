package sealer

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"
)

// A delivery is a duplicate if another with the same idempotency hash stands at a
// lower leaf and is at most DuplicateWindow older; First is the lowest such leaf.
// A duplicate is kept as evidence and metered zero, with ReasonDuplicate and
// basis BasisNone in place of its own.
const (
	DuplicateWindow = 24 * time.Hour
	ReasonDuplicate = "DUPLICATE"
	BasisNone       = "none"
)

// Duplicate names two leaves of one log: a repetition, and the delivery that it
// repeats.
type Duplicate struct{ Leaf, First uint64 }

// MeterRow adds up the deliveries that share its five names.
type MeterRow struct {
	RightID       string
	Substrate     string
	BasisID       string
	MeteringBasis string
	Reason        string
	Receipts      int64
	QuantityMs    int64
}

func (r *MeterRow) compare(q *MeterRow) int {
	return cmp.Or(
		strings.Compare(r.RightID, q.RightID),
		strings.Compare(r.Substrate, q.Substrate),
		strings.Compare(r.BasisID, q.BasisID),
		strings.Compare(r.MeteringBasis, q.MeteringBasis),
		strings.Compare(r.Reason, q.Reason),
	)
}

// Meter adds up recorded metering decisions. The zero value is ready to use.
type Meter struct {
	rows map[meterKey]*MeterRow
}

type meterKey struct{ right, substrate, basis, meteringBasis, reason string }

// Add counts d, as a duplicate if it is one.
func (m *Meter) Add(d *RecordedDelivery, duplicate bool) { m.add(d, duplicate) }

// add is Add; it returns the row that the delivery counts in.
func (m *Meter) add(d *RecordedDelivery, duplicate bool) *MeterRow {
	k := meterKey{d.RightID, d.Substrate, d.BasisID, d.Basis, d.Reason}
	quantity := d.QuantityMs
	if duplicate {
		k.meteringBasis, k.reason, quantity = BasisNone, ReasonDuplicate, 0
	}
	row := m.rows[k]
	if row == nil {
		if m.rows == nil {
			m.rows = make(map[meterKey]*MeterRow)
		}
		// The names alias the text of a whole event, which must not live on in a total.
		for _, s := range []*string{&k.right, &k.substrate, &k.basis, &k.meteringBasis, &k.reason} {
			*s = strings.Clone(*s)
		}
		row = &MeterRow{
			RightID: k.right, Substrate: k.substrate, BasisID: k.basis,
			MeteringBasis: k.meteringBasis, Reason: k.reason,
		}
		m.rows[k] = row
	}
	row.Receipts++
	row.QuantityMs += quantity
	return row
}

// Rows returns the totals by right, substrate, basis, metering basis and reason,
// sorted in this order, byte by byte.
func (m *Meter) Rows() []MeterRow {
	rows := make([]MeterRow, 0, len(m.rows))
	for _, r := range m.rows {
		rows = append(rows, *r)
	}
	slices.SortFunc(rows, func(a, b MeterRow) int { return a.compare(&b) })
	return rows
}

// history is what earlier entries of one log tell about a later one: which event
// ids and idempotency hashes stood before, and which settlement rules. It knows the
// leaves from start on, and grows with the log: about 150 bytes an entry.
type history struct {
	start uint64
	ids   map[ulid.ULID]struct{}
	seen  map[Hash][]sighting
	// rules are by rising leaf; those from before start are somebody's word.
	rules []SettlementRule
}

type sighting struct {
	leaf uint64
	at   time.Time
}

func newHistory(start uint64) *history {
	return &history{start: start, ids: make(map[ulid.ULID]struct{}), seen: make(map[Hash][]sighting)}
}

// repeated notes an event id and reports whether it stood before.
func (h *history) repeated(eventID string) bool {
	id, err := parseID(eventPrefix, eventID)
	_, before := h.ids[id]
	h.ids[id] = struct{}{}
	return err == nil && before
}

// first notes the delivery at leaf and returns the lowest leaf that makes it a
// duplicate.
func (h *history) first(leaf uint64, d *RecordedDelivery) (first uint64, ok bool) {
	hash, err := ParseHash(d.Idempotency)
	if err != nil {
		return 0, false // given without a key
	}
	before := h.seen[hash]
	h.seen[hash] = append(before, sighting{leaf, d.Event.At})
	for _, s := range before {
		if d.Event.At.Sub(s.at) <= DuplicateWindow {
			return s.leaf, true
		}
	}
	return 0, false
}
