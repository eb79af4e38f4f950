package clickhouse

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"muniment/pipeline"
	"muniment/sealer"
)

// columns of events, in the order in which appendRow and scanRow go through them.
var columns = []string{
	"tenant_id", "event_id", "generation", "log_partition", "position", "node", "epoch", "seq", "event",
	"type", "at", "actor_kind", "actor_id", "subject_kind", "subject_id",
	"receipt_id", "right_id", "right_revision", "basis_id", "substrate", "rendered_at", "issued_at",
	"signing_key_id", "metered", "reason", "metering_basis", "quantity_ms", "idempotency",
}

// Load stores rows and set-aside records, then the rollups, then Next. After an
// error any of it may be there, Next only if all is. What other goroutines load
// meanwhile may go with it (see groups); the error is about b alone. When ctx is done it
// returns, and b may still be loaded with the others.
func (w *Warehouse) Load(ctx context.Context, b pipeline.Batch) error {
	ctx, cancel := w.deadline(ctx)
	defer cancel()
	if err := w.groups.add(ctx, b); err != nil {
		return fmt.Errorf("cannot load up to %s: %w", b.Next, err)
	}
	return nil
}

// load brings batches in with one set of statements. No position is written before
// everything of all batches is there.
func (w *Warehouse) load(ctx context.Context, batches []*pipeline.Batch) error {
	var brought []pipeline.Row
	var aside []pipeline.SetAside
	for _, b := range batches {
		brought = append(brought, b.Rows...)
		aside = append(aside, b.SetAside...)
	}
	rows, err := w.standing(ctx, brought)
	if err != nil {
		return err
	}
	for _, rows := range months(rows) {
		if err := w.loadMonth(ctx, rows); err != nil {
			return err
		}
	}
	err = w.insert(ctx, "set_aside", []string{"log_partition", "generation", "position", "tenant_id", "event_id", "reason", "record"},
		func(add func(...any) error) error {
			for _, s := range aside {
				p := s.Position
				if err := add(p.Partition, p.Generation, p.Offset, s.TenantID, s.EventID, s.Reason, string(s.Record)); err != nil {
					return err
				}
			}
			return nil
		})
	if err != nil {
		return err
	}
	if len(aside) > 0 || slices.ContainsFunc(brought, func(r pipeline.Row) bool { return r.Type == pipeline.TypeReleased }) {
		withdrawn, err := w.withdraw(ctx)
		if err != nil {
			return fmt.Errorf("cannot withdraw what was released: %w", err)
		}
		rows = slices.Concat(rows, withdrawn)
	}
	if err := w.rollUp(ctx, rows); err != nil {
		return err
	}
	return w.insert(ctx, "positions", []string{"log_partition", "generation", "position"}, func(add func(...any) error) error {
		for _, b := range batches {
			if err := add(b.Partition, b.Next.Generation, b.Next.Offset); err != nil {
				return err
			}
		}
		return nil
	})
}

// months cuts rows by the month of their events, as the tables are cut: what is
// inserted into one month is there as a whole or not at all.
func months(rows []pipeline.Row) map[string][]pipeline.Row {
	cut := map[string][]pipeline.Row{}
	for _, r := range rows {
		month := r.At.UTC().Format("200601")
		cut[month] = append(cut[month], r)
	}
	return cut
}

// loadMonth inserts what the events of one month need, and then the events.
func (w *Warehouse) loadMonth(ctx context.Context, rows []pipeline.Row) error {
	err := w.insert(ctx, "private_parts", []string{"tenant_id", "event_id", "generation", "position", "at", "private"},
		func(add func(...any) error) error {
			for _, r := range rows {
				if len(r.Private) == 0 {
					continue
				}
				if err := add(r.TenantID, r.EventID, r.Generation, r.Offset, r.At.UnixMilli(), string(r.Private)); err != nil {
					return err
				}
			}
			return nil
		})
	if err != nil {
		return err
	}
	err = w.insert(ctx, "idempotency_keys", []string{"tenant_id", "idempotency", "event_id", "generation", "position", "at", "rendered_at"},
		func(add func(...any) error) error {
			for _, r := range rows {
				if r.Delivery == nil || r.Delivery.Idempotency == "" {
					continue
				}
				if err := add(r.TenantID, r.Delivery.Idempotency, r.EventID, r.Generation, r.Offset,
					r.At.UnixMilli(), r.Delivery.RenderedAt.UnixMilli()); err != nil {
					return err
				}
			}
			return nil
		})
	if err != nil {
		return err
	}
	return w.insert(ctx, "events", columns, func(add func(...any) error) error {
		args := make([]any, 0, len(columns))
		for i := range rows {
			args = appendRow(args[:0], &rows[i])
			if err := add(args...); err != nil {
				return fmt.Errorf("event %s: %w", rows[i].EventID, err)
			}
		}
		return nil
	})
}

// insert sends what fill adds as one block; without a row it sends nothing. After
// an error the outcome is unknown.
func (w *Warehouse) insert(ctx context.Context, table string, columns []string, fill func(add func(...any) error) error) error {
	err := w.send(ctx, "INSERT INTO "+table+" ("+strings.Join(columns, ", ")+")", fill)
	if err != nil {
		return fmt.Errorf("cannot insert into %s: %w", table, err)
	}
	return nil
}

func (w *Warehouse) send(ctx context.Context, statement string, fill func(add func(...any) error) error) error {
	// Most batches have nothing for some table: that costs no round trip.
	some := errors.New("there is a row")
	if err := fill(func(...any) error { return some }); err == nil {
		return nil
	}
	return w.inTurn(ctx, func() error {
		batch, err := w.conn.PrepareBatch(ctx, statement)
		if err != nil {
			return err
		}
		defer batch.Close()
		if err := fill(batch.Append); err != nil {
			return err
		}
		return batch.Send()
	})
}

// Resume returns where the partition's loader goes on.
func (w *Warehouse) Resume(ctx context.Context, partition int32) (next sealer.Position, ok bool, err error) {
	ctx, cancel := w.deadline(ctx)
	defer cancel()
	next.Partition = partition
	err = w.conn.QueryRow(ctx, `SELECT generation, position FROM positions WHERE log_partition = ?
		ORDER BY place DESC LIMIT 1`, partition).Scan(&next.Generation, &next.Offset)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return sealer.Position{}, false, nil
	case err != nil:
		return sealer.Position{}, false, fmt.Errorf("cannot read the position of partition %d: %w", partition, err)
	}
	return next, true, nil
}

// appendRow appends r's values in the order of columns.
func appendRow(args []any, r *pipeline.Row) []any {
	d := r.Delivery
	if d == nil {
		d = &pipeline.Delivery{RenderedAt: time.UnixMilli(0), IssuedAt: time.UnixMilli(0)}
	}
	return append(args,
		r.TenantID, r.EventID, r.Generation, r.Partition, r.Offset, r.Node, r.Epoch, r.Seq, string(r.Event),
		r.Type, r.At.UnixMilli(), r.ActorKind, r.ActorID, r.SubjectKind, r.SubjectID,
		d.ReceiptID, d.RightID, d.RightRevision, d.BasisID, d.Substrate, d.RenderedAt.UnixMilli(), d.IssuedAt.UnixMilli(),
		d.SigningKeyID, d.Metered, d.Reason, d.MeteringBasis, d.QuantityMs, d.Idempotency)
}

// scanRow reads a row of columns; the private part is read apart.
func scanRow(scan func(...any) error) (pipeline.Row, error) {
	var (
		r                        pipeline.Row
		d                        pipeline.Delivery
		event                    string
		at, renderedAt, issuedAt int64
	)
	err := scan(
		&r.TenantID, &r.EventID, &r.Generation, &r.Partition, &r.Offset, &r.Node, &r.Epoch, &r.Seq, &event,
		&r.Type, &at, &r.ActorKind, &r.ActorID, &r.SubjectKind, &r.SubjectID,
		&d.ReceiptID, &d.RightID, &d.RightRevision, &d.BasisID, &d.Substrate, &renderedAt, &issuedAt,
		&d.SigningKeyID, &d.Metered, &d.Reason, &d.MeteringBasis, &d.QuantityMs, &d.Idempotency)
	if err != nil {
		return pipeline.Row{}, err
	}
	r.Event, r.At = []byte(event), instant(at)
	if d.ReceiptID != "" {
		d.RenderedAt, d.IssuedAt = instant(renderedAt), instant(issuedAt)
		r.Delivery = &d
	}
	return r, nil
}

func instant(ms int64) time.Time { return time.UnixMilli(ms).UTC() }
