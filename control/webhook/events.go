package webhook

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"muniment.example/pipeline"
	"muniment.example/sealer"
)

// errGone means that an event is neither in the log nor in the warehouse.
var errGone = errors.New("the event is no longer there")

// events reads the events that a delivery sends: from the log, or from the warehouse if the log no
// longer has them.
func (s *sender) events(ctx context.Context, w *Webhook, d *Delivery) (texts [][]byte, err error) {
	batch, seen := d.EventType == TypeDelivery, map[string]bool{}
	err = s.cfg.Log.Scan(ctx, d.first, d.last.Next(), func(e sealer.Entry) error {
		if e.TenantID == d.tenantID && isDelivery(e.Event) == batch && !seen[e.EventID] {
			if row, err := pipeline.NewRow(e); err == nil && (batch && !row.At.Before(w.oldest()) || row.EventID == d.EventID) {
				seen[row.EventID] = true
				texts = append(texts, bytes.Clone(e.Event))
			}
		}
		return nil
	})
	if err == nil && len(texts) == d.EventCount {
		return texts, nil
	}
	if err != nil && !errors.Is(err, pipeline.ErrGone) && !errors.Is(err, pipeline.ErrBeyondEnd) && !errors.Is(err, pipeline.ErrDamaged) {
		return nil, fmt.Errorf("cannot read the events of %s: %w", d.ID, err)
	}
	return s.loaded(ctx, w, d)
}

// loaded reads the events from the warehouse, which must have loaded all of them.
func (s *sender) loaded(ctx context.Context, w *Webhook, d *Delivery) (texts [][]byte, err error) {
	next, ok, err := s.cfg.Warehouse.Resume(ctx, d.last.Partition)
	if err == nil && (!ok || next.Compare(d.last) <= 0) {
		err = fmt.Errorf("the warehouse has loaded the log up to %s only", next)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read the events of %s: %w", d.ID, err)
	}
	var rows []pipeline.Row
	if d.EventType != TypeDelivery {
		var row pipeline.Row
		row, err = s.cfg.Warehouse.Event(ctx, d.tenantID, d.EventID)
		rows = []pipeline.Row{row}
	} else {
		before := d.last.Next()
		q := pipeline.EventQuery{TenantID: d.tenantID, Types: []string{TypeDelivery}, From: w.oldest(), Before: &before, Limit: maxBatch}
		if d.first.Offset > 0 {
			after := d.first
			after.Offset--
			q.After = &after
		}
		rows, err = s.cfg.Warehouse.Events(ctx, q)
	}
	if errors.Is(err, pipeline.ErrNoEvent) || err == nil && len(rows) == 0 {
		return nil, errGone
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read the events of %s: %w", d.ID, err)
	}
	for i := range rows {
		texts = append(texts, rows[i].Event)
	}
	return texts, nil
}
