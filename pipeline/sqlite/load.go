package sqlite

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

// columns of a row, in the order in which rowArgs binds and scanRow reads them.
var columns = []string{
	"tenant_id", "event_id", "generation", "log_partition", "position", "node", "epoch", "seq", "event", "private",
	"type", "at", "actor_kind", "actor_id", "subject_kind", "subject_id",
	"receipt_id", "right_id", "right_revision", "basis_id", "substrate", "rendered_at", "issued_at",
	"signing_key_id", "metered", "reason", "metering_basis", "quantity_ms", "idempotency",
}

// statements are the prepared statements of Load.
type statements struct {
	event, setAside, position *sql.Stmt
}

func (s *statements) prepare(ctx context.Context, db *sql.DB) error {
	var replace []string
	for _, c := range columns[2:] {
		replace = append(replace, c+" = excluded."+c)
	}
	for _, p := range []struct {
		stmt **sql.Stmt
		text string
	}{
		// A copy at a lower position replaces the row, any other copy is dropped.
		{&s.event, `INSERT INTO events (` + strings.Join(columns, ", ") + `)
			VALUES (?` + strings.Repeat(", ?", len(columns)-1) + `)
			ON CONFLICT (tenant_id, event_id) DO UPDATE SET ` + strings.Join(replace, ", ") + `
			WHERE (excluded.generation, excluded.position) < (events.generation, events.position)`},
		{&s.setAside, `INSERT INTO set_aside
			(generation, log_partition, position, tenant_id, event_id, reason, record) VALUES (?, ?, ?, ?, ?, ?, ?)
			ON CONFLICT (log_partition, generation, position) DO NOTHING`},
		{&s.position, `INSERT INTO positions (log_partition, generation, position) VALUES (?, ?, ?)
			ON CONFLICT (log_partition) DO UPDATE SET generation = excluded.generation, position = excluded.position
			WHERE (excluded.generation, excluded.position) > (positions.generation, positions.position)`},
	} {
		stmt, err := db.PrepareContext(ctx, p.text)
		if err != nil {
			return fmt.Errorf("cannot prepare load: %w", err)
		}
		*p.stmt = stmt
	}
	return nil
}

// Load stores rows, set-aside records and Next in one transaction. Whatever it
// returns an error for has changed nothing, except that the disk may fail after
// the commit was written; loading the batch again is right either way.
func (w *Warehouse) Load(ctx context.Context, b pipeline.Batch) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("cannot load up to %s: %w", b.Next, err)
		}
	}()
	tx, err := w.write.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() // after a commit this does nothing

	withdrawn, err := readWithdrawn(ctx, tx)
	if err != nil {
		return err
	}
	event := tx.StmtContext(ctx, w.load.event)
	args := make([]any, 0, len(columns))
	for i := range b.Rows {
		if withdrawn[[2]string{b.Rows[i].TenantID, b.Rows[i].EventID}] {
			continue
		}
		args = appendRow(args[:0], &b.Rows[i])
		if _, err := event.ExecContext(ctx, args...); err != nil {
			return fmt.Errorf("cannot store event %s: %w", b.Rows[i].EventID, err)
		}
	}
	setAside := tx.StmtContext(ctx, w.load.setAside)
	for _, s := range b.SetAside {
		p := s.Position
		if _, err := setAside.ExecContext(ctx, int64(p.Generation), int64(p.Partition), p.Offset,
			s.TenantID, s.EventID, s.Reason, verbatim(s.Record)); err != nil {
			return fmt.Errorf("cannot set aside the record at %s: %w", p, err)
		}
	}
	if len(b.SetAside) > 0 || slices.ContainsFunc(b.Rows, func(r pipeline.Row) bool { return r.Type == pipeline.TypeReleased }) {
		if err := withdraw(ctx, tx); err != nil {
			return err
		}
	}
	if err := forget(ctx, tx, b.Rows); err != nil {
		return err
	}
	if _, err := tx.StmtContext(ctx, w.load.position).ExecContext(ctx,
		int64(b.Partition), int64(b.Next.Generation), b.Next.Offset); err != nil {
		return err
	}
	return tx.Commit()
}

// readWithdrawn returns the events that are not to be rows again, by tenant and id.
func readWithdrawn(ctx context.Context, tx *sql.Tx) (map[[2]string]bool, error) {
	rows, err := tx.QueryContext(ctx, `SELECT tenant_id, event_id FROM withdrawn`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var withdrawn map[[2]string]bool
	for rows.Next() {
		var key [2]string
		if err := rows.Scan(&key[0], &key[1]); err != nil {
			return nil, err
		}
		if withdrawn == nil {
			withdrawn = map[[2]string]bool{}
		}
		withdrawn[key] = true
	}
	return withdrawn, rows.Err()
}

// withdraw takes the rows away whose record is set aside and released.
func withdraw(ctx context.Context, tx *sql.Tx) error {
	for _, statement := range []string{
		`INSERT INTO withdrawn (tenant_id, event_id)
			SELECT e.tenant_id, e.event_id FROM set_aside AS s CROSS JOIN events AS e
			WHERE e.tenant_id = s.tenant_id AND e.event_id = s.event_id
				AND (e.generation, e.log_partition, e.position) = (s.generation, s.log_partition, s.position)
				AND (s.log_partition, s.generation, s.position) NOT IN (SELECT log_partition, generation, position FROM held)
			ON CONFLICT DO NOTHING`,
		`DELETE FROM events WHERE (tenant_id, event_id) IN (SELECT tenant_id, event_id FROM withdrawn)`,
	} {
		if _, err := tx.ExecContext(ctx, statement); err != nil {
			return fmt.Errorf("cannot withdraw what was released: %w", err)
		}
	}
	return nil
}

// forget deletes the rows of tenants that were dropped (pipeline.TypeDropped), those that
// a batch brings behind that as well.
func forget(ctx context.Context, tx *sql.Tx, rows []pipeline.Row) error {
	brought := map[string]bool{}
	for i := range rows {
		r := &rows[i]
		brought[r.TenantID] = true
		if r.Type != pipeline.TypeDropped || r.SubjectID != r.TenantID {
			continue
		}
		if _, err := tx.ExecContext(ctx, `INSERT INTO dropped (tenant_id) VALUES (?) ON CONFLICT DO NOTHING`, r.TenantID); err != nil {
			return fmt.Errorf("cannot drop %s: %w", r.TenantID, err)
		}
	}
	for tenantID := range brought {
		_, err := tx.ExecContext(ctx, `DELETE FROM events WHERE tenant_id = (SELECT tenant_id FROM dropped WHERE tenant_id = ?)`, tenantID)
		if err != nil {
			return fmt.Errorf("cannot delete the rows of %s: %w", tenantID, err)
		}
	}
	return nil
}

// Resume returns where the partition's loader goes on.
func (w *Warehouse) Resume(ctx context.Context, partition int32) (next sealer.Position, ok bool, err error) {
	next.Partition = partition
	err = w.read.QueryRowContext(ctx, `SELECT generation, position FROM positions WHERE log_partition = ?`, partition).
		Scan(&next.Generation, &next.Offset)
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
	args = append(args,
		r.TenantID, r.EventID, int64(r.Generation), int64(r.Partition), r.Offset,
		r.Node, int64(r.Epoch), int64(r.Seq), verbatim(r.Event), optional(r.Private),
		r.Type, r.At.UnixMilli(), r.ActorKind, r.ActorID, r.SubjectKind, r.SubjectID)
	d := r.Delivery
	if d == nil {
		return append(args, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil)
	}
	var key any
	if d.Idempotency != "" {
		key = d.Idempotency
	}
	return append(args,
		d.ReceiptID, d.RightID, d.RightRevision, d.BasisID, d.Substrate, d.RenderedAt.UnixMilli(), d.IssuedAt.UnixMilli(),
		d.SigningKeyID, d.Metered, d.Reason, d.MeteringBasis, d.QuantityMs, key)
}

// verbatim keeps the driver from storing an empty value as NULL.
func verbatim(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

// optional stores an empty value as NULL.
func optional(b []byte) any {
	if len(b) == 0 {
		return nil
	}
	return b
}

// scanRow reads a row of columns.
func scanRow(scan func(...any) error) (pipeline.Row, error) {
	var (
		r                                          pipeline.Row
		epoch, seq, at                             int64
		receipt, right, basis, substrate, key      sql.NullString
		reason, meteringBasis, idempotency         sql.NullString
		revision, renderedAt, issuedAt, quantityMs sql.NullInt64
		metered                                    sql.NullBool
	)
	err := scan(
		&r.TenantID, &r.EventID, &r.Generation, &r.Partition, &r.Offset, &r.Node, &epoch, &seq, &r.Event, &r.Private,
		&r.Type, &at, &r.ActorKind, &r.ActorID, &r.SubjectKind, &r.SubjectID,
		&receipt, &right, &revision, &basis, &substrate, &renderedAt, &issuedAt,
		&key, &metered, &reason, &meteringBasis, &quantityMs, &idempotency)
	if err != nil {
		return pipeline.Row{}, err
	}
	r.Epoch, r.Seq, r.At = uint64(epoch), uint64(seq), instant(at)
	if receipt.Valid {
		r.Delivery = &pipeline.Delivery{
			ReceiptID:     receipt.String,
			RightID:       right.String,
			RightRevision: revision.Int64,
			BasisID:       basis.String,
			Substrate:     substrate.String,
			RenderedAt:    instant(renderedAt.Int64),
			IssuedAt:      instant(issuedAt.Int64),
			SigningKeyID:  key.String,
			Metered:       metered.Bool,
			Reason:        reason.String,
			MeteringBasis: meteringBasis.String,
			QuantityMs:    quantityMs.Int64,
			Idempotency:   idempotency.String,
		}
	}
	return r, nil
}

func instant(ms int64) time.Time { return time.UnixMilli(ms).UTC() }
