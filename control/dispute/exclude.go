package dispute

import (
	"slices"
	"strings"
	"time"
)

// Exclusion is what one dispute excludes from settlement: receipts, or the deliveries on a right in
// a window.
type Exclusion struct {
	ID         string
	State      State
	Outcome    Outcome // empty until it is RESOLVED
	ReceiptIDs []string
	RightID    string
	Window     Window
}

// exclusion returns what the dispute excludes from settlement, unless it was rejected.
func (d *DisputeSummary) exclusion() Exclusion {
	x := Exclusion{ID: d.ID, State: d.State, ReceiptIDs: d.ReceiptIDs, Window: d.Window}
	if d.Outcome != nil {
		x.Outcome = *d.Outcome
	}
	if d.RightID != nil {
		x.RightID = *d.RightID
	}
	return x
}

// excludes reports whether it excludes anything.
func (x *Exclusion) excludes() bool { return x.Held() || x.Outcome == Upheld }

// Held reports whether the dispute is unresolved, so the exclusion may still end.
func (x *Exclusion) Held() bool { return x.State != Resolved }

// Excluded are the exclusions of a tenant. Several may cover the same deliveries.
type Excluded []Exclusion

// Parts is the union of exclusions. A receipt in ReceiptIDs may also be in a window, which only its
// delivery shows (Has).
type Parts struct {
	// Windows maps a right's id to its windows, which are disjoint, don't touch, and are sorted by
	// time.
	Windows map[string][]Window
	// ReceiptIDs are sorted and unique.
	ReceiptIDs []string
}

// Parts merges the exclusions.
func (all Excluded) Parts() Parts {
	p := Parts{Windows: map[string][]Window{}}
	for _, x := range all {
		p.ReceiptIDs = append(p.ReceiptIDs, x.ReceiptIDs...)
		if x.RightID != "" {
			p.Windows[x.RightID] = append(p.Windows[x.RightID], x.Window)
		}
	}
	slices.Sort(p.ReceiptIDs)
	p.ReceiptIDs = slices.Compact(p.ReceiptIDs)
	for rightID, windows := range p.Windows {
		p.Windows[rightID] = merge(windows)
	}
	return p
}

// merge joins windows that overlap or touch.
func merge(windows []Window) []Window {
	slices.SortFunc(windows, func(a, b Window) int { return a.From.Compare(b.From.Time) })
	merged := windows[:1]
	for _, w := range windows[1:] {
		last := &merged[len(merged)-1]
		switch {
		case w.From.After(last.To.Time):
			merged = append(merged, w)
		case w.To.After(last.To.Time):
			last.To = w.To
		}
	}
	return merged
}

// Has reports whether a delivery is excluded.
func (p *Parts) Has(receiptID, rightID string, renderedAt time.Time) bool {
	if _, named := slices.BinarySearchFunc(p.ReceiptIDs, receiptID, strings.Compare); named {
		return true
	}
	windows := p.Windows[rightID]
	next, _ := slices.BinarySearchFunc(windows, renderedAt, func(w Window, at time.Time) int {
		if w.From.After(at) {
			return 1
		}
		return -1
	})
	return next > 0 && renderedAt.Before(windows[next-1].To.Time)
}
