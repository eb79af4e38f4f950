package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"

	"muniment/pipeline"
	"muniment/sealer"
)

// filter gathers conditions and their arguments.
type filter struct {
	where []string
	args  []any
}

func (f *filter) add(condition string, args ...any) {
	f.where = append(f.where, condition)
	f.args = append(f.args, args...)
}

// is keeps rows with a value in a column; empty keeps all.
func (f *filter) is(column, value string) {
	if value != "" {
		f.add(column+" = ?", value)
	}
}

// before leaves out rows of e at or behind a position; nil keeps all.
func (f *filter) before(asOf *sealer.Position) {
	if asOf != nil {
		f.add("(e.generation, e.position) < (?, ?)", asOf.Generation, asOf.Offset)
	}
}

func (f *filter) String() string { return strings.Join(f.where, " AND ") }

// Events lists rows of one tenant in the order of their positions.
func (w *Warehouse) Events(ctx context.Context, q pipeline.EventQuery) ([]pipeline.Row, error) {
	if q.Limit <= 0 {
		return nil, fmt.Errorf("cannot list events: limit %d is not positive", q.Limit)
	}
	// The index is named: without statistics the planner may prefer one that makes it
	// sort. Each of these is in the order of the listing.
	index := "events_by_position"
	var f filter
	f.add("tenant_id = ?", q.TenantID)
	switch {
	case q.SubjectID != "":
		index = "events_by_subject"
		f.add("subject_id = ?", q.SubjectID)
	case len(q.Types) > 0 && !slices.Contains(q.Types, sealer.TypeDelivery):
		index = "audit_by_position"
		f.add("type <> '" + sealer.TypeDelivery + "'")
	}
	if q.After != nil {
		f.add("(generation, position) > (?, ?)", q.After.Generation, q.After.Offset)
	}
	if q.Before != nil {
		f.add("(generation, position) < (?, ?)", q.Before.Generation, q.Before.Offset)
	}
	if len(q.Types) > 0 {
		types := make([]any, len(q.Types))
		for i, t := range q.Types {
			types[i] = t
		}
		f.add("type IN (?"+strings.Repeat(", ?", len(types)-1)+")", types...)
	}
	if !q.From.IsZero() {
		f.add("at >= ?", pipeline.CeilMilli(q.From))
	}
	if !q.To.IsZero() {
		f.add("at < ?", pipeline.CeilMilli(q.To))
	}
	f.is("subject_kind", q.SubjectKind)
	f.is("actor_kind", q.ActorKind)
	f.is("actor_id", q.ActorID)
	order := "generation, position"
	if q.Newest {
		order = "generation DESC, position DESC"
	}
	rows, err := collect(ctx, w.read, scanRow, `SELECT `+strings.Join(columns, ", ")+` FROM events INDEXED BY `+index+`
		WHERE `+f.String()+` ORDER BY `+order+` LIMIT ?`, append(f.args, q.Limit)...)
	if err != nil {
		return nil, fmt.Errorf("cannot list events of %s: %w", q.TenantID, err)
	}
	return rows, nil
}

// AuditEvents hands over, in no order, the texts of all loaded events but deliveries. A text
// is valid only during its call.
func (w *Warehouse) AuditEvents(ctx context.Context, take func(event []byte) error) error {
	rows, err := w.read.QueryContext(ctx, `SELECT event FROM events INDEXED BY audit_by_position WHERE type <> '`+sealer.TypeDelivery+`'`)
	if err != nil {
		return fmt.Errorf("cannot read the events: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var event sql.RawBytes
		if err := rows.Scan(&event); err != nil {
			return fmt.Errorf("cannot read the events: %w", err)
		}
		if err := take(event); err != nil {
			return err
		}
	}
	return rows.Err()
}

// Event returns one row by its id, or pipeline.ErrNoEvent.
func (w *Warehouse) Event(ctx context.Context, tenantID, eventID string) (pipeline.Row, error) {
	row, err := scanRow(w.read.QueryRowContext(ctx, `SELECT `+strings.Join(columns, ", ")+` FROM events
		WHERE tenant_id = ? AND event_id = ?`, tenantID, eventID).Scan)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return pipeline.Row{}, fmt.Errorf("%w: %s", pipeline.ErrNoEvent, eventID)
	case err != nil:
		return pipeline.Row{}, fmt.Errorf("cannot read event %s: %w", eventID, err)
	}
	return row, nil
}

// CountEvents counts the loaded events of a tenant.
func (w *Warehouse) CountEvents(ctx context.Context, tenantID string) (n int64, err error) {
	err = w.read.QueryRowContext(ctx, `SELECT COUNT(*) FROM events WHERE tenant_id = ?`, tenantID).Scan(&n)
	if err != nil {
		return 0, fmt.Errorf("cannot count events of %s: %w", tenantID, err)
	}
	return n, nil
}

// earlier selects the events that make e a duplicate: those with its idempotency
// hash at a lower position, unless they are more than 24 h older. The start of
// the hash is what the index is on; walking the tenant's rows instead, as the
// planner may like to, would be quadratic.
const earlier = `FROM events AS p INDEXED BY events_by_idempotency
	WHERE substr(p.idempotency, 1, 8) = substr(e.idempotency, 1, 8)
		AND p.idempotency = e.idempotency AND p.tenant_id = e.tenant_id
		AND (p.generation, p.position) < (e.generation, e.position)
		AND p.at >= e.at - 86400000`

// Duplicates lists the duplicates in after < pos ≤ upTo with what they repeat.
func (w *Warehouse) Duplicates(ctx context.Context, tenantID string, after, upTo sealer.Position) ([]pipeline.Duplicate, error) {
	rows, err := collect(ctx, w.read, scanDuplicate, `SELECT event_id, first FROM (
			SELECT e.event_id, e.generation, e.position,
				(SELECT p.event_id `+earlier+` ORDER BY p.generation, p.position LIMIT 1) AS first
			FROM events AS e
			WHERE e.tenant_id = ? AND e.idempotency IS NOT NULL
				AND (e.generation, e.position) > (?, ?) AND (e.generation, e.position) <= (?, ?))
		WHERE first IS NOT NULL ORDER BY generation, position`,
		tenantID, after.Generation, after.Offset, upTo.Generation, upTo.Offset)
	if err != nil {
		return nil, fmt.Errorf("cannot list duplicates of %s: %w", tenantID, err)
	}
	return rows, nil
}

func scanDuplicate(scan func(...any) error) (d pipeline.Duplicate, err error) {
	err = scan(&d.EventID, &d.FirstEventID)
	return d, err
}

const asideColumns = "generation, log_partition, position, tenant_id, event_id, reason, record"

// SetAsides lists the records that hold sealing for a tenant.
func (w *Warehouse) SetAsides(ctx context.Context, tenantID string) ([]pipeline.SetAside, error) {
	rows, err := collect(ctx, w.read, scanSetAside, `
		SELECT `+asideColumns+` FROM held
		WHERE tenant_id = ?1 OR tenant_id = '' AND log_partition =
			COALESCE((SELECT log_partition FROM events WHERE tenant_id = ?1 LIMIT 1), log_partition)
		ORDER BY log_partition, generation, position`, tenantID)
	if err != nil {
		return nil, fmt.Errorf("cannot list records set aside for %s: %w", tenantID, err)
	}
	return rows, nil
}

// Held lists and counts the records that hold sealing.
func (w *Warehouse) Held(ctx context.Context, q pipeline.HeldQuery) (list []pipeline.SetAside, total int64, err error) {
	var f filter
	f.add("1")
	if q.At != nil {
		f.add("(log_partition, generation, position) = (?, ?, ?)", q.At.Partition, q.At.Generation, q.At.Offset)
	}
	if q.Limit > 0 {
		list, err = collect(ctx, w.read, scanSetAside, `SELECT `+asideColumns+` FROM held WHERE `+f.String()+`
			ORDER BY log_partition, generation, position LIMIT ?`, append(f.args, q.Limit)...)
	}
	// A list that is not full is all there is: nothing comes or goes between two reads.
	if total = int64(len(list)); err == nil && len(list) == q.Limit {
		err = w.read.QueryRowContext(ctx, `SELECT COUNT(*) FROM held WHERE `+f.String(), f.args...).Scan(&total)
	}
	if err != nil {
		return nil, 0, fmt.Errorf("cannot list records set aside: %w", err)
	}
	return list, total, nil
}

func scanSetAside(scan func(...any) error) (s pipeline.SetAside, err error) {
	p := &s.Position
	err = scan(&p.Generation, &p.Partition, &p.Offset, &s.TenantID, &s.EventID, &s.Reason, &s.Record)
	return s, err
}

// collect runs a query and reads all of its rows.
func collect[T any](ctx context.Context, db *sql.DB, scan func(func(...any) error) (T, error), query string, args ...any) ([]T, error) {
	rows, err := db.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var all []T
	for rows.Next() {
		one, err := scan(rows.Scan)
		if err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	return all, rows.Err()
}
