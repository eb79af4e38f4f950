package clickhouse

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/ext"

	"muniment.example/pipeline"
	"muniment.example/sealer"
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

// before leaves out rows at or behind a position; nil keeps all.
func (f *filter) before(p *sealer.Position) {
	if p != nil {
		f.add("place < " + place(*p))
	}
}

// after leaves out rows at or before a position; nil keeps all.
func (f *filter) after(p *sealer.Position) {
	switch {
	case p == nil:
	case p.Offset < 0: // before the first of its generation
		f.add("place >= " + place(*p))
	default:
		f.add("place > " + place(*p))
	}
}

// behind is as after and before, of a stored row: in the terms of the column that has an index.
func behind(p sealer.Position, asOf *sealer.Position) string {
	condition := "version < bitNot(" + place(p) + ")"
	if p.Offset < 0 {
		condition = "version <= bitNot(" + place(p) + ")"
	}
	if asOf != nil {
		condition += " AND version > bitNot(" + place(*asOf) + ")"
	}
	return condition
}

// during keeps the rows whose time in a column is from ≤ time < to; zero is open.
func (f *filter) during(column string, from, to time.Time) {
	if !from.IsZero() {
		f.add(column + " >= " + moment(pipeline.CeilMilli(from)))
	}
	if !to.IsZero() {
		f.add(column + " < " + moment(pipeline.CeilMilli(to)))
	}
}

func (f *filter) String() string { return strings.Join(f.where, " AND ") }

// place is a position as the column place has it.
func place(p sealer.Position) string {
	return fmt.Sprintf("(bitShiftLeft(toUInt128(%d), 64) + toUInt128(%d))", p.Generation, max(p.Offset, 0))
}

// Events lists rows of one tenant in the order of their positions.
func (w *reader) Events(ctx context.Context, q pipeline.EventQuery) ([]pipeline.Row, error) {
	if err := q.Check(); err != nil {
		return nil, fmt.Errorf("cannot list events of %s: %w", q.TenantID, err)
	}
	var f filter
	f.add("tenant_id = ?", q.TenantID)
	if q.After != nil {
		f.add("place > " + place(*q.After))
	}
	f.before(q.Before)
	if len(q.Types) > 0 {
		f.add("type IN (?)", q.Types)
	}
	if q.NoDeliveries {
		f.add("type != ?", sealer.TypeDelivery)
	}
	f.during("at", q.From, q.To)
	f.is("subject_kind", q.SubjectKind)
	f.is("subject_id", q.SubjectID)
	if len(q.SubjectIDs) > 0 {
		subjects, err := ext.NewTable("subjects", ext.Column("id", "String"))
		for _, id := range q.SubjectIDs {
			if err == nil {
				err = subjects.Append(id)
			}
		}
		if err != nil {
			return nil, fmt.Errorf("cannot list events of %s: %w", q.TenantID, err)
		}
		ctx = clickhouse.Context(ctx, clickhouse.WithExternalTable(subjects))
		f.add("subject_id IN (SELECT id FROM subjects)")
	}
	f.is("actor_kind", q.ActorKind)
	f.is("actor_id", q.ActorID)
	if q.EventIDEnd != "" {
		f.add("endsWith(event_id, ?)", q.EventIDEnd)
	}
	f.is("right_id", q.RightID)
	f.is("spatial_anchor_id", q.SpatialAnchorID)
	f.is("correlation_id", q.CorrelationID)
	f.during("rendered_at", q.RenderedFrom, q.RenderedTo)
	if !q.RenderedFrom.IsZero() || !q.RenderedTo.IsZero() {
		f.add("receipt_id != ''")
	}
	if q.DataSubject != "" {
		hash, err := w.subjectHash(ctx, q)
		if err != nil {
			return nil, fmt.Errorf("cannot list events of %s: %w", q.TenantID, err)
		}
		f.add("event_id IN (SELECT event_id FROM private_parts WHERE tenant_id = ? AND has(subject_hashes, ?))", q.TenantID, hash)
	}
	order := "place"
	if q.Newest {
		order = "place DESC"
	}
	// The page is found by narrow columns; only the texts of its rows are read.
	rows, err := w.rows(ctx, q.TenantID, `SELECT `+selected+` FROM events FINAL
		WHERE tenant_id = ? AND event_id IN (
			SELECT event_id FROM events FINAL WHERE `+f.String()+` ORDER BY `+order+` LIMIT ?)
		ORDER BY `+order, append(append([]any{q.TenantID}, f.args...), q.Limit)...)
	if err != nil {
		return nil, fmt.Errorf("cannot list events of %s: %w", q.TenantID, err)
	}
	return rows, nil
}

// Event returns one row by its id, or pipeline.ErrNoEvent.
func (w *reader) Event(ctx context.Context, tenantID, eventID string) (pipeline.Row, error) {
	rows, err := w.rows(ctx, tenantID, `SELECT `+selected+` FROM events FINAL
		WHERE tenant_id = ? AND event_id = ?`, tenantID, eventID)
	switch {
	case err != nil:
		return pipeline.Row{}, fmt.Errorf("cannot read event %s: %w", eventID, err)
	case len(rows) == 0:
		return pipeline.Row{}, fmt.Errorf("%w: %s", pipeline.ErrNoEvent, eventID)
	}
	return rows[0], nil
}

// rows runs a query for selected, and then reads the private parts: these were written
// first, so none is missed.
func (w *servers) rows(ctx context.Context, tenantID, query string, args ...any) ([]pipeline.Row, error) {
	rows, err := collect(ctx, w, scanRow, query, args...)
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	wanted, err := ext.NewTable("wanted", ext.Column("event_id", "String"))
	if err != nil {
		return nil, err
	}
	at := make(map[string]int, len(rows))
	for i, r := range rows {
		at[r.EventID] = i
		if err := wanted.Append(r.EventID); err != nil {
			return nil, err
		}
	}
	type part struct{ eventID, private string }
	parts, err := collect(clickhouse.Context(ctx, clickhouse.WithExternalTable(wanted)), w,
		func(scan func(...any) error) (p part, err error) {
			err = scan(&p.eventID, &p.private)
			return p, err
		}, `SELECT event_id, private FROM private_parts FINAL WHERE tenant_id = ? AND event_id IN (SELECT event_id FROM wanted)`, tenantID)
	if err != nil {
		return nil, err
	}
	for _, p := range parts {
		rows[at[p.eventID]].Private = []byte(p.private)
	}
	return rows, nil
}

// CountEvents counts the loaded events of a tenant.
func (w *reader) CountEvents(ctx context.Context, tenantID string) (n int64, err error) {
	ctx, cancel := w.deadline(ctx)
	defer cancel()
	if err := w.conn.QueryRow(ctx, `SELECT toInt64(count()) FROM events FINAL WHERE tenant_id = ?`, tenantID).Scan(&n); err != nil {
		return 0, fmt.Errorf("cannot count events of %s: %w", tenantID, err)
	}
	return n, nil
}

// Duplicates lists the duplicates in after < pos ≤ upTo with what they repeat.
func (w *reader) Duplicates(ctx context.Context, tenantID string, after, upTo sealer.Position) ([]pipeline.Duplicate, error) {
	list, err := collect(ctx, w.servers, func(scan func(...any) error) (d pipeline.Duplicate, err error) {
		err = scan(&d.EventID, &d.FirstEventID, &d.Position.Generation, &d.Position.Partition, &d.Position.Offset,
			&d.First.Generation, &d.First.Offset)
		d.First.Partition = d.Position.Partition
		return d, err
	}, `SELECT event_id, first_event_id, generation, log_partition, position, first_generation, first_position FROM duplicates FINAL
		WHERE tenant_id = ? AND `+holds+` AND (tenant_id, event_id) NOT IN (SELECT tenant_id, event_id FROM withdrawn)
			AND (generation, position) > (?, ?) AND (generation, position) <= (?, ?)
		ORDER BY generation, position`, tenantID, after.Generation, after.Offset, upTo.Generation, upTo.Offset)
	if err != nil {
		return nil, fmt.Errorf("cannot list duplicates of %s: %w", tenantID, err)
	}
	return list, nil
}

// holds keeps the valid decisions: if a first event is retracted, there is another decision
// with another first event, or none. The views have the same condition.
const holds = `(tenant_id, first_event_id) NOT IN (SELECT tenant_id, event_id FROM withdrawn)`

const heldColumns = "generation, log_partition, position, tenant_id, event_id, reason, record"

// held are the quarantined records that no event has released.
const held = `(SELECT ` + heldColumns + `, concat(toString(generation), '.', toString(log_partition), '.', toString(position)) AS subject
	FROM set_aside FINAL
	WHERE (tenant_id, subject) NOT IN (SELECT tenant_id, subject_id FROM events
			WHERE tenant_id IN (SELECT tenant_id FROM set_aside) AND ` + isRelease + `)
		AND subject NOT IN (SELECT subject_id FROM events WHERE tenant_id = '` + pipeline.SystemTenant + `' AND ` + isRelease + `))`

const isRelease = `type = '` + pipeline.TypeReleased + `' AND subject_kind = '` + pipeline.KindRecord + `'`

// Quarantined lists the records that hold sealing for a tenant.
func (w *reader) Quarantined(ctx context.Context, tenantID string) ([]pipeline.Quarantined, error) {
	var f filter
	f.add("tenant_id = ? OR tenant_id = ''", tenantID)
	partition, known, err := w.partition(ctx, tenantID)
	if known {
		f.add("(tenant_id != '' OR log_partition = ?)", partition)
	}
	var list []pipeline.Quarantined
	if err == nil {
		list, err = collect(ctx, w.servers, scanQuarantined, `SELECT `+heldColumns+`
			FROM `+held+` WHERE (`+strings.Join(f.where, ") AND (")+`) ORDER BY log_partition, generation, position`, f.args...)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot list quarantined records for %s: %w", tenantID, err)
	}
	return list, nil
}

// Held lists and counts the records that hold sealing.
func (w *reader) Held(ctx context.Context, q pipeline.HeldQuery) (list []pipeline.Quarantined, total int64, err error) {
	var f filter
	f.add("1")
	if p := q.At; p != nil {
		f.add("log_partition = ? AND generation = ? AND position = ?", p.Partition, p.Generation, p.Offset)
	}
	if q.Limit > 0 {
		list, err = collect(ctx, w.servers, scanQuarantined, `SELECT `+heldColumns+` FROM `+held+` WHERE `+f.String()+`
			ORDER BY log_partition, generation, position LIMIT ?`, append(f.args, q.Limit)...)
	}
	// A list that is not full is complete, and needs no second read.
	if total = int64(len(list)); err == nil && len(list) == q.Limit {
		ctx, cancel := w.deadline(ctx)
		defer cancel()
		err = w.conn.QueryRow(ctx, `SELECT toInt64(count()) FROM `+held+` WHERE `+f.String(), f.args...).Scan(&total)
	}
	if err != nil {
		return nil, 0, fmt.Errorf("cannot list quarantined records: %w", err)
	}
	return list, total, nil
}

func scanQuarantined(scan func(...any) error) (s pipeline.Quarantined, err error) {
	p := &s.Position
	var record string
	err = scan(&p.Generation, &p.Partition, &p.Offset, &s.TenantID, &s.EventID, &s.Reason, &record)
	s.Record = []byte(record)
	return s, err
}

// partition is the log partition of a tenant, known once it has a row.
func (w *servers) partition(ctx context.Context, tenantID string) (partition int32, known bool, err error) {
	ctx, cancel := w.deadline(ctx)
	defer cancel()
	err = w.conn.QueryRow(ctx, `SELECT log_partition FROM events WHERE tenant_id = ? LIMIT 1`, tenantID).Scan(&partition)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, false, nil
	}
	return partition, err == nil, err
}

// collect runs a query and reads all of its rows.
func collect[T any](ctx context.Context, w *servers, scan func(func(...any) error) (T, error), query string, args ...any) (all []T, err error) {
	ctx, cancel := w.deadline(ctx)
	defer cancel()
	rows, err := w.conn.Query(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		one, err := scan(rows.Scan)
		if err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	return all, rows.Err()
}
