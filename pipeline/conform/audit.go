package conform

import (
	"context"
	"slices"

	"muniment.example/pipeline"
	"muniment.example/pipeline/drift"
	"muniment.example/sealer"
)

var _ drift.Auditor = (*MemoryWarehouse)(nil)

// Standing implements drift.Auditor.
func (w *MemoryWarehouse) Standing(ctx context.Context, from, to sealer.Position) (list []drift.Event, err error) {
	for _, r := range w.all() {
		if r.Partition == from.Partition && r.Compare(from) >= 0 && r.Compare(to) < 0 {
			list = append(list, eventOf(r))
		}
	}
	return list, ctx.Err()
}

func eventOf(r pipeline.Row) drift.Event {
	return drift.Event{Position: r.Position, TenantID: r.TenantID, EventID: r.EventID}
}

// Unaccounted implements drift.Auditor.
func (w *MemoryWarehouse) Unaccounted(ctx context.Context, events []drift.Event) (list []drift.Event, err error) {
	rows := w.all()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range events {
		stands := slices.ContainsFunc(rows, func(r pipeline.Row) bool {
			return r.TenantID == e.TenantID && r.EventID == e.EventID && r.Compare(e.Position) <= 0
		})
		quarantined := slices.ContainsFunc(w.quarantined, func(s pipeline.Quarantined) bool { return s.Position == e.Position })
		if !stands && !quarantined && !w.retracted[[2]string{e.TenantID, e.EventID}] {
			list = append(list, e)
		}
	}
	return list, ctx.Err()
}

// Misjudged implements drift.Auditor. The decisions of a warehouse in memory are what its
// rows say, but for those that were spoiled.
func (w *MemoryWarehouse) Misjudged(ctx context.Context, from, to sealer.Position) (list []drift.Event, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range w.rows {
		_, duplicate := first(w.rows, r)
		if r.Partition == from.Partition && r.Compare(from) >= 0 && r.Compare(to) < 0 && w.decided(r) != duplicate {
			list = append(list, eventOf(r))
		}
	}
	return list, ctx.Err()
}

// decided reports whether a row is a duplicate. The caller holds w.mu.
func (w *MemoryWarehouse) decided(r pipeline.Row) bool {
	if duplicate, ok := w.spoiled[[2]string{r.TenantID, r.EventID}]; ok {
		return duplicate
	}
	_, duplicate := first(w.rows, r)
	return duplicate
}

// Sum implements drift.Auditor.
func (w *MemoryWarehouse) Sum(ctx context.Context, tenantID string, first, last sealer.Position) (n int64, lines []pipeline.MeterRow, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range w.rows {
		if r.TenantID != tenantID || r.Compare(first) < 0 || r.Compare(last) > 0 {
			continue
		}
		n++
		if d := r.Delivery; d != nil {
			line := pipeline.MeterRow{RightID: d.RightID, Substrate: d.Substrate, BasisID: d.BasisID, MeteringBasis: d.MeteringBasis,
				Reason: d.Reason, Receipts: 1, QuantityMs: d.QuantityMs, Impressions: d.Impressions}
			if w.decided(r) {
				line.MeteringBasis, line.Reason, line.QuantityMs, line.Impressions = sealer.BasisNone, sealer.ReasonDuplicate, 0, 0
			}
			lines = addLine(lines, line)
		}
	}
	return n, lines, ctx.Err()
}

// addLine adds to the line of the same kind.
func addLine(lines []pipeline.MeterRow, one pipeline.MeterRow) []pipeline.MeterRow {
	kind := func(l pipeline.MeterRow) pipeline.MeterRow {
		l.Receipts, l.QuantityMs, l.Impressions = 0, 0, 0
		return l
	}
	i := slices.IndexFunc(lines, func(l pipeline.MeterRow) bool { return kind(l) == kind(one) })
	if i < 0 {
		return append(lines, one)
	}
	lines[i].Receipts += one.Receipts
	lines[i].QuantityMs += one.QuantityMs
	lines[i].Impressions += one.Impressions
	return lines
}

// Spoiled returns functions that change the rows and decisions directly.
func (w *MemoryWarehouse) Spoiled() Spoil {
	alter := func(r pipeline.Row, change func(i int)) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.rows = slices.Clone(w.rows)
		change(slices.IndexFunc(w.rows, func(have pipeline.Row) bool { return have.TenantID == r.TenantID && have.EventID == r.EventID }))
	}
	return Spoil{
		Delete: func(r pipeline.Row) { alter(r, func(i int) { w.rows = slices.Delete(w.rows, i, i+1) }) },
		Alter: func(r pipeline.Row, quantityMs int64) {
			alter(r, func(i int) {
				d := *w.rows[i].Delivery
				d.QuantityMs = quantityMs
				w.rows[i].Delivery = &d
			})
		},
		Decide: func(r pipeline.Row, duplicate bool) {
			w.mu.Lock()
			defer w.mu.Unlock()
			if w.spoiled == nil {
				w.spoiled = map[[2]string]bool{}
			}
			w.spoiled[[2]string{r.TenantID, r.EventID}] = duplicate
		},
	}
}
