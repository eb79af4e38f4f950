package sealer

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/oklog/ulid/v2"
)

// Ledger folds the entries of one pack, in their order: leaves, totals,
// duplicates, settlement rules, and every fault. PackBuilder signs what comes out of it, package
// verify compares it with what was signed. It belongs to one goroutine.
type Ledger struct {
	// Claim, Settles and Keeps are set before the first Fold.
	//
	// Claim says what else than the history names an entry a duplicate: the
	// builder's knowledge of earlier packs, or the header that is verified.
	Claim func(e *Event, leaf uint64) (first uint64, ok bool)
	// Settles keeps Rated, Keeps keeps Leaves.
	Settles, Keeps bool

	// What the entries have made so far, only to be read.

	Tree       *Tree // of the log
	Entries    int
	Leaves     []Hash
	Meter      Meter
	Rated      []Rated     // the metered receipts that repeat none
	Duplicates []Duplicate // by rising leaf
	Deliveries int         // those at fault are not counted
	Faults     []Fault     // by rising index

	tenantID  string
	first     uint64   // leaf
	history   *History // that the entries are noted in
	ruleFault error    // of a rule that can't be read
}

// Fault is what is wrong with an entry.
type Fault struct {
	Code    Code
	Index   int // of the entry, from 0
	Message string
}

// NewLedger begins at leaf first, where the log is the tree before, and known is what is known
// of it; nil for nothing.
func NewLedger(tenantID string, first uint64, before *Tree, known *History) *Ledger {
	return &Ledger{tenantID: tenantID, history: newHistory(known), Tree: before.Clone(), first: first}
}

// Fold takes the next entry, as an Inspector has found it.
func (l *Ledger) Fold(f Finding) {
	leaf := l.Next()
	l.Entries++
	if l.Keeps {
		l.Leaves = append(l.Leaves, f.leaf)
	}
	l.Tree.Append(f.leaf)
	switch {
	case f.Code != "":
		l.fault(f.Code, f.Err.Error())
		return
	case f.Event.TenantID != l.tenantID:
		l.fault(TenantMismatch, fmt.Sprintf("event %s is of %s", f.Event.EventID, f.Event.TenantID))
	case l.history.repeated(f.Event.EventID):
		l.fault(EntryRepeated, fmt.Sprintf("event %s stands in the log before", f.Event.EventID))
	}
	if f.Delivery == nil {
		if isRule(&f.Event) {
			l.amend(leaf, f.Event.Data)
		}
		return
	}
	l.Deliveries++
	first, duplicate := l.history.first(leaf, f.Delivery)
	if claimed, ok := l.Claim(&f.Event, leaf); ok && l.Unknown(claimed) && f.Delivery.keyed() {
		if !duplicate || claimed < first {
			first, duplicate = claimed, true
		}
	}
	if duplicate {
		l.Duplicates = append(l.Duplicates, Duplicate{Leaf: leaf, First: first})
	}
	row := l.Meter.Add(f.Delivery, duplicate)
	if l.Settles && f.Delivery.Metered && !duplicate {
		id, _ := ParseID(eventPrefix, f.Event.EventID) // it was checked
		l.Rated = append(l.Rated, Rated{row, f.Delivery.Completion, f.Delivery.Receipt.RenderedAt.UnixMilli(), f.Delivery.QuantityMs, f.Delivery.Impressions, id})
	}
}

// Next is the leaf of the next entry.
func (l *Ledger) Next() uint64 { return l.first + uint64(l.Entries) }

// Unknown reports whether the leaf is an earlier one, of which the history knows nothing.
func (l *Ledger) Unknown(leaf uint64) bool { return leaf < l.first && !l.history.below.holds(leaf) }

// Complete reports whether the history knows all entries before the first.
func (l *Ledger) Complete() bool { return l.history.below.complete(l.first) }

// Keyed counts the deliveries that can be duplicates.
func (l *Ledger) Keyed() int { return l.history.seen.count + len(l.history.late) }

// Forget drops what was noted for a History to join.
func (l *Ledger) Forget() { l.history = nil }

// Close drops what only the verdicts on the pack itself need.
func (l *Ledger) Close() { l.Claim, l.Rated, l.Duplicates, l.Meter = nil, nil, nil, Meter{} }

// fault notes what is wrong with the entry that was folded last.
func (l *Ledger) fault(code Code, message string) {
	l.Faults = append(l.Faults, Fault{code, l.Entries - 1, message})
}

// keyedDelivery is a delivery of the pack with a key.
type keyedDelivery struct {
	sighting
	first uint64 // that it repeats; its own leaf if it repeats none
}

// Contradiction says where the duplicates of leaves that are not at hand contradict each
// other; empty if they don't. A leaf holds one event, with one key. And an earlier leaf
// that a delivery repeats is at most DuplicateWindow older: so every delivery of that key
// which is not younger repeats it as well, or one before it. Of one identity all are of one
// moment, and none is younger.
func (l *Ledger) Contradiction() (fault string) {
	note := func(f string) {
		if fault == "" || f < fault { // the same one at every time
			fault = f
		}
	}
	firsts := make(map[uint64]uint64, len(l.Duplicates)) // by leaf
	for _, d := range l.Duplicates {
		firsts[d.Leaf] = d.First
	}
	keys := make(map[uint64]digest) // of leaves that are not at hand
	all, same := l.history.sightings(), []keyedDelivery(nil)
	for i := range all {
		s := all[i]
		first, duplicate := firsts[s.leaf]
		if !duplicate {
			first = s.leaf
		}
		if other, listed := keys[first]; listed && other != s.key {
			note(fmt.Sprintf("leaf %d is listed as what deliveries of two idempotency keys or rows repeat", first))
		}
		if l.Unknown(first) {
			keys[first] = s.key
		}
		same = append(same, keyedDelivery{s, first})
		if i+1 < len(all) && all[i+1].key == s.key {
			continue
		}
		if f := l.missed(same); f != "" {
			note(f)
		}
		same = same[:0]
	}
	return fault
}

// missed finds, among deliveries of one key, one that does not repeat a leaf that it has to.
func (l *Ledger) missed(same []keyedDelivery) string {
	slices.SortFunc(same, func(a, b keyedDelivery) int { return cmp.Or(cmp.Compare(b.at, a.at), cmp.Compare(a.first, b.first)) })
	var lowest *keyedDelivery // of those from the youngest on, that repeats a leaf that is not at hand
	for i := range same {
		d := &same[i]
		if lowest != nil && d.first > lowest.first {
			return fmt.Sprintf("leaf %d is listed as what leaf %d repeats, but not as what leaf %d does, which has the same idempotency key and is not younger, or is the same row",
				lowest.first, lowest.leaf, d.leaf)
		}
		if l.Unknown(d.first) {
			lowest = d
		}
	}
	return ""
}

// ruleEvents begins the types of the events whose data is the record of a settlement rule.
const ruleEvents = "settlement_rule."

// isRule reports whether an event has the record of a settlement rule.
func isRule(e *Event) bool { return strings.HasPrefix(e.Type, ruleEvents) }

// ruleID is the id in the record of a rule.
func ruleID(record []byte) (string, error) {
	var r struct {
		ID string `json:"id"`
	}
	if err := json.Unmarshal(record, &r); err != nil {
		return "", err
	}
	if r.ID == "" {
		return "", errors.New("it has no id")
	}
	return r.ID, nil
}

// Rated is what a ledger keeps of a metered receipt: a pack may have 100,000.
type Rated struct {
	Row         *MeterRow
	Completion  string // one of few constants
	RenderedAt  int64  // in milliseconds
	QuantityMs  int64
	Impressions int64     // in ten-thousandths
	ID          ulid.ULID // of the receipt and its event
}

// Settlement is what rate makes of what was folded; nil without rules.
func (l *Ledger) Settlement(rate Rate) (*Settlement, error) {
	switch {
	case l.ruleFault != nil:
		return nil, l.ruleFault
	case len(l.history.rules) == 0:
		return nil, nil
	case rate == nil:
		return nil, errors.New("there are settlement rules, and nothing to rate with")
	}
	s := &Settlement{Rules: l.history.byLeaf()}
	var err error
	s.Lines, s.Unrated, err = rate(s.Rules, func(yield func(Metered) bool) {
		for _, r := range l.Rated {
			m := Metered{
				RightID: r.Row.RightID, BasisID: r.Row.BasisID, Substrate: r.Row.Substrate, MeteringBasis: r.Row.MeteringBasis,
				Completion: r.Completion, RenderedAt: time.UnixMilli(r.RenderedAt).UTC(), Receipts: 1, QuantityMs: r.QuantityMs, Impressions: r.Impressions,
			}
			if !yield(m) {
				return
			}
		}
	})
	if held := s.receipts(); err == nil && held != int64(len(l.Rated)) {
		err = fmt.Errorf("%d receipts were rated or counted, of %d", held, len(l.Rated))
	}
	return s, err
}

// receipts counts those in lines and the unrated.
func (s *Settlement) receipts() (n int64) {
	for i := range s.Lines {
		n += s.Lines[i].Receipts
	}
	for i := range s.Unrated {
		n += s.Unrated[i].Receipts
	}
	return n
}

// Adopt takes a header's word for the rules of leaves that lie between the packs at hand
// and this one: all others are known.
func (l *Ledger) Adopt(rules []SettlementRule) {
	for _, r := range rules {
		if l.history.settled <= r.Leaf && r.Leaf < l.first {
			l.amend(r.Leaf, r.Record)
		}
	}
}

// amend notes a rule, or that it can't be read.
func (l *Ledger) amend(leaf uint64, record []byte) {
	if l.ruleFault == nil {
		l.ruleFault = l.history.amend(leaf, record)
	}
}

// UnprovenRules counts the rules whose events are in no pack at hand.
func (l *Ledger) UnprovenRules() (n int) {
	for _, r := range l.history.rules {
		if l.Unknown(r.Leaf) {
			n++
		}
	}
	return n
}

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
