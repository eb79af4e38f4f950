package sealer

import "fmt"

// ledger folds the entries of one pack, in their order: leaves, totals,
// duplicates, settlement rules, and every fault. Building a pack and verifying one is the same
// work up to what is claimed about duplicates.
type ledger struct {
	tenantID string
	history  *history // that the entries are noted in
	// claim says what else than the history names an entry a duplicate: the
	// builder's knowledge of earlier packs, or the header that is verified.
	claim func(e *Event, leaf uint64) (first uint64, ok bool)

	// settles is set if settlement is going to be asked for, keeps if leaves are.
	settles, keeps bool

	tree       *Tree
	first      uint64
	entries    int
	leaves     []Hash
	meter      Meter
	rated      []rated
	duplicates []Duplicate
	deliveries int
	faults     []Verdict
	ruleFault  error // of a rule that can't be read
}

// newLedger begins at leaf first, where the log is the tree before.
func newLedger(tenantID string, first uint64, before *Tree, h *history) *ledger {
	return &ledger{tenantID: tenantID, history: h, tree: before.Clone(), first: first}
}

func (l *ledger) fold(f finding) {
	leaf := l.next()
	l.entries++
	if l.keeps {
		l.leaves = append(l.leaves, f.leaf)
	}
	l.tree.Append(f.leaf)
	switch {
	case f.code != "":
		l.fault(f.code, f.err.Error())
		return
	case f.event.TenantID != l.tenantID:
		l.fault(TenantMismatch, fmt.Sprintf("event %s is of %s", f.event.EventID, f.event.TenantID))
	case l.history.repeated(f.event.EventID):
		l.fault(EntryRepeated, fmt.Sprintf("event %s stands in the log before", f.event.EventID))
	}
	if f.delivery == nil {
		if isRule(&f.event) {
			l.amend(leaf, f.event.Data)
		}
		return
	}
	l.deliveries++
	first, duplicate := l.history.first(leaf, f.delivery)
	if claimed, ok := l.claim(&f.event, leaf); ok && l.unknown(claimed) && f.delivery.keyed() {
		if !duplicate || claimed < first {
			first, duplicate = claimed, true
		}
	}
	if duplicate {
		l.duplicates = append(l.duplicates, Duplicate{Leaf: leaf, First: first})
	}
	row := l.meter.add(f.delivery, duplicate)
	if l.settles && f.delivery.Metered && !duplicate {
		l.rated = append(l.rated, rated{row, f.delivery.Receipt.RenderedAt.UnixMilli(), f.delivery.QuantityMs})
	}
}

// next is the leaf of the next entry.
func (l *ledger) next() uint64 { return l.first + uint64(l.entries) }

// unknown reports whether the leaf is an earlier one, of which the history knows nothing.
func (l *ledger) unknown(leaf uint64) bool { return leaf < l.first && !l.history.below.holds(leaf) }

// close drops what only the verdicts on the pack itself need.
func (l *ledger) close() { l.claim, l.rated, l.duplicates, l.meter = nil, nil, nil, Meter{} }

// fault notes what is wrong with the entry that was folded last.
func (l *ledger) fault(code Code, message string) {
	index := l.entries - 1
	l.faults = append(l.faults, Verdict{Code: code, Index: &index, Message: message})
}

// packPurposes returns what a pack's key and the keys of its receipts have to be
// for.
func packPurposes(d *Directory, keyID string) (pack, receipts string) {
	sandbox := d.ofSandbox(keyID)
	return PackPurpose(sandbox), ReceiptPurpose(sandbox)
}
