package sealer

import "fmt"

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
