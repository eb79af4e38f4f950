package sealer

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// A delivery is a duplicate if another with the same identity stands at a lower leaf, however
// old that is; or another with the same idempotency hash that is at most DuplicateWindow
// older, by the events' own times: also if it is younger, by a clock ahead. First is the
// lowest such leaf. It is the rule by which a
// warehouse decides as it loads (pipeline.Sink), for leaves are events at their lowest
// positions, in that order.
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
	Impressions   int64 // in ten-thousandths
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

// Add counts d, as a duplicate if it is one, and returns the row that it counts in.
func (m *Meter) Add(d *RecordedDelivery, duplicate bool) *MeterRow {
	k := meterKey{d.RightID, d.Substrate, d.BasisID, d.Basis, d.Reason}
	quantity, impressions := d.QuantityMs, d.Impressions
	if duplicate {
		k.meteringBasis, k.reason, quantity, impressions = BasisNone, ReasonDuplicate, 0, 0
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
	row.Impressions += impressions
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
