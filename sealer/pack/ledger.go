package pack

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"

	"muniment.example/sealer"
	"muniment.example/sealer/merkle"
	"muniment.example/sealer/settlement"
)

// Ledger folds the entries of one pack, in their order, into the tree, totals, duplicates and
// settlement rules, and collects every fault. Builder signs the result, package verify
// compares it with what was signed. It belongs to one goroutine.
type Ledger struct {
	// Claim, Settles, Keeps and Counted are set before the first Fold.
	//
	// Claim returns the earlier leaf that an entry repeats, if that is known from elsewhere than
	// the history: the builder's Earlier, or the header that is verified.
	Claim func(e *sealer.Event, leaf uint64) (first uint64, ok bool)
	// Settles makes the ledger keep Rated, Keeps makes it keep Leaves.
	Settles, Keeps bool
	// Counted, unless it is nil, is called with each delivery that has no fault, in their order, and
	// whether it is a duplicate. It must not keep the delivery, which aliases the entry's text.
	Counted func(d *sealer.RecordedDelivery, duplicate bool)

	// The results so far, read-only.

	Tree       *merkle.Tree // of the log
	Entries    int
	Leaves     []merkle.Hash
	Meter      Meter
	Rated      []Rated     // the metered receipts that repeat none
	Duplicates []Duplicate // by rising leaf
	Deliveries int         // without those that have a fault
	Faults     []Fault     // by rising index

	tenantID  string
	first     uint64   // leaf
	history   *History // of these entries, above the known one
	ruleFault error    // set if a rule can't be read
}

// Fault is what is wrong with an entry.
type Fault struct {
	Code    sealer.Code
	Index   int // of the entry, from 0
	Message string
}

// Rated is what a ledger keeps of a metered receipt. It is small, as a pack may have 100,000.
type Rated struct {
	Row         *MeterRow
	Completion  string // one of few constants
	RenderedAt  int64  // in milliseconds
	QuantityMs  int64
	Impressions int64     // in ten-thousandths
	ID          ulid.ULID // of the receipt and its event
	Entry       uint32    // from 0
}

// Duplicate names two leaves of one log: that of a repetition, and the lowest one that it
// repeats.
type Duplicate struct{ Leaf, First uint64 }

// NewLedger returns a ledger of the entries from leaf first on. before is the tree of the log
// up to there, and known what is known of the earlier entries, nil for nothing.
func NewLedger(tenantID string, first uint64, before *merkle.Tree, known *History) *Ledger {
	return &Ledger{tenantID: tenantID, history: newHistory(known), Tree: before.Clone(), first: first}
}

// Fold adds the next entry, with what an Inspector found.
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
		l.fault(sealer.TenantMismatch, fmt.Sprintf("event %s is of %s", f.Event.EventID, f.Event.TenantID))
	case l.history.repeated(f.Event.EventID):
		l.fault(sealer.EntryRepeated, fmt.Sprintf("event %s is already in the log", f.Event.EventID))
	}
	if f.Delivery == nil {
		if r := settlement.RuleIn(&f.Event, leaf); r != nil {
			l.amend(r.Leaf, r.Record)
		}
		return
	}
	l.Deliveries++
	first, duplicate := l.history.first(leaf, f.Delivery)
	if claimed, ok := l.Claim(&f.Event, leaf); ok && l.Unknown(claimed) && f.Delivery.Keyed() {
		if !duplicate || claimed < first {
			first, duplicate = claimed, true
		}
	}
	if duplicate {
		l.Duplicates = append(l.Duplicates, Duplicate{Leaf: leaf, First: first})
	}
	row := l.Meter.Add(f.Delivery, duplicate)
	if l.Counted != nil {
		l.Counted(f.Delivery, duplicate)
	}
	if l.Settles && f.Delivery.Metered && !duplicate {
		id, _ := sealer.ParseID(sealer.EventPrefix, f.Event.EventID) // the Inspector has checked it
		l.Rated = append(l.Rated, Rated{row, f.Delivery.Completion, f.Delivery.Receipt.RenderedAt.UnixMilli(), f.Delivery.QuantityMs, f.Delivery.Impressions, id, uint32(l.Entries - 1)})
	}
}

// Next is the leaf of the next entry.
func (l *Ledger) Next() uint64 { return l.first + uint64(l.Entries) }

// Unknown reports whether the leaf is before the first and not in the history.
func (l *Ledger) Unknown(leaf uint64) bool { return leaf < l.first && !l.history.below.holds(leaf) }

// Complete reports whether the history has all entries before the first.
func (l *Ledger) Complete() bool { return l.history.below.complete(l.first) }

// Keyed counts the deliveries that can be duplicates.
func (l *Ledger) Keyed() int { return l.history.seen.Len() + len(l.history.late) }

// Forget drops the history of these entries; no History can join them then.
func (l *Ledger) Forget() { l.history = nil }

// Close frees what only the verdicts on the pack itself need.
func (l *Ledger) Close() { l.Claim, l.Rated, l.Duplicates, l.Meter = nil, nil, nil, Meter{} }

// fault records a fault of the entry that was folded last.
func (l *Ledger) fault(code sealer.Code, message string) {
	l.Faults = append(l.Faults, Fault{code, l.Entries - 1, message})
}

// Settlement rates the receipts that were folded; nil without rules. It asks for rights only if a rule
// names something of a scope.
func (l *Ledger) Settlement(rate settlement.Rate, rights settlement.Rights) (*settlement.Settlement, error) {
	switch {
	case l.ruleFault != nil:
		return nil, l.ruleFault
	case len(l.history.rules) == 0:
		return nil, nil
	case rate == nil:
		return nil, errors.New("there are settlement rules, but no Rate was given")
	}
	s := &settlement.Settlement{Rules: l.history.byLeaf()}
	scopes, err := l.scopes(s.Rules, rights)
	if err != nil {
		return nil, err
	}
	s.Lines, s.Unrated, err = rate(s.Rules, func(yield func(settlement.Metered) bool) {
		for _, r := range l.Rated {
			m := settlement.Metered{
				RightID: r.Row.RightID, BasisID: r.Row.BasisID, Substrate: r.Row.Substrate, MeteringBasis: r.Row.MeteringBasis,
				Completion: r.Completion, Right: scopes[r.Row.RightID], RenderedAt: time.UnixMilli(r.RenderedAt).UTC(), Receipts: 1, QuantityMs: r.QuantityMs, Impressions: r.Impressions,
			}
			if !yield(m) {
				return
			}
		}
	})
	if held := receipts(s); err == nil && held != int64(len(l.Rated)) {
		err = fmt.Errorf("%d receipts were rated or counted, of %d", held, len(l.Rated))
	}
	return s, err
}

// scopes returns what rules name of the rights of the rated receipts, by right.
func (l *Ledger) scopes(rules []settlement.Rule, rights settlement.Rights) (map[string]*settlement.Right, error) {
	names, err := settlement.ScopeNamesOf(rules)
	switch {
	case err != nil || names.Empty():
		return nil, err
	case rights == nil:
		return nil, errors.New("settlement rules name campaigns or labels, but no Rights were given")
	}
	rated := make(map[string]bool)
	for _, r := range l.Rated {
		rated[r.Row.RightID] = true
	}
	known, err := rights(&names, slices.Sorted(maps.Keys(rated)))
	return byID(names.Of(known)), err
}

// receipts counts the receipts in lines and in unrated.
func receipts(s *settlement.Settlement) (n int64) {
	for i := range s.Lines {
		n += s.Lines[i].Receipts
	}
	for i := range s.Unrated {
		n += s.Unrated[i].Receipts
	}
	return n
}

// byID returns rights by their ids.
func byID(rights []settlement.Right) map[string]*settlement.Right {
	all := make(map[string]*settlement.Right, len(rights))
	for i := range rights {
		all[rights[i].RightID] = &rights[i]
	}
	return all
}

// Adopt trusts a header for the rules of leaves between the known packs and this one. Rules of
// other leaves are known from their events.
func (l *Ledger) Adopt(rules []settlement.Rule) {
	for _, r := range rules {
		if l.history.settled <= r.Leaf && r.Leaf < l.first {
			l.amend(r.Leaf, r.Record)
		}
	}
}

// amend records a rule, or that it can't be read.
func (l *Ledger) amend(leaf uint64, record []byte) {
	if l.ruleFault == nil {
		l.ruleFault = l.history.amend(leaf, record)
	}
}

// UnprovenRules counts the rules whose events are in none of the known packs.
func (l *Ledger) UnprovenRules() (n int) {
	for _, r := range l.history.rules {
		if l.Unknown(r.Leaf) {
			n++
		}
	}
	return n
}

// Contradiction describes where the claimed duplicates of unknown leaves contradict each
// other; empty if they don't. A leaf holds one event, with one key. An earlier leaf that a
// delivery repeats is at most DuplicateWindow older: so every delivery of that key which is
// not younger repeats that leaf as well, or a lower one. For an identity time does not count:
// all its deliveries repeat the same leaf.
func (l *Ledger) Contradiction() (fault string) {
	note := func(f string) {
		if fault == "" || f < fault { // so that the result does not depend on the order of a map
			fault = f
		}
	}
	firsts := make(map[uint64]uint64, len(l.Duplicates)) // by leaf
	for _, d := range l.Duplicates {
		firsts[d.Leaf] = d.First
	}
	keys := make(map[uint64]digest) // of unknown leaves
	all, same := l.history.occurrences(), []keyedDelivery(nil)
	for i := range all {
		s := all[i]
		first, duplicate := firsts[s.leaf]
		if !duplicate {
			first = s.leaf
		}
		if other, listed := keys[first]; listed && other != s.key {
			note(fmt.Sprintf("leaf %d is listed as repeated by deliveries of two idempotency keys or rows", first))
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

// keyedDelivery is a delivery of the pack with an idempotency hash or identity.
type keyedDelivery struct {
	occurrence
	first uint64 // the leaf that it repeats; its own if it repeats none
}

// missed describes a delivery, among those of one key, that must repeat a leaf and does not.
func (l *Ledger) missed(same []keyedDelivery) string {
	slices.SortFunc(same, func(a, b keyedDelivery) int { return cmp.Or(cmp.Compare(b.at, a.at), cmp.Compare(a.first, b.first)) })
	var lowest *keyedDelivery // from the youngest on, the one that repeats the lowest unknown leaf
	for i := range same {
		d := &same[i]
		if lowest != nil && d.first > lowest.first {
			return fmt.Sprintf("leaf %d is listed as repeated by leaf %d, but not by leaf %d, which has the same idempotency key and is not younger, or is the same row",
				lowest.first, lowest.leaf, d.leaf)
		}
		if l.Unknown(d.first) {
			lowest = d
		}
	}
	return ""
}

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

// Meter adds up recorded metering decisions. Its zero value is ready to use.
type Meter struct {
	rows map[meterKey]*MeterRow
}

type meterKey struct{ right, substrate, basis, meteringBasis, reason string }

// Add counts d, as a duplicate or not, and returns the row in which it is counted.
func (m *Meter) Add(d *sealer.RecordedDelivery, duplicate bool) *MeterRow {
	k := meterKey{d.RightID, d.Substrate, d.BasisID, d.Basis, d.Reason}
	quantity, impressions := d.QuantityMs, d.Impressions
	if duplicate {
		k.meteringBasis, k.reason, quantity, impressions = sealer.BasisNone, sealer.ReasonDuplicate, 0, 0
	}
	row := m.rows[k]
	if row == nil {
		if m.rows == nil {
			m.rows = make(map[meterKey]*MeterRow)
		}
		// The names alias the text of a whole event, which a total must not keep in memory.
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
