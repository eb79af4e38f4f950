package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

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

// since keeps rows with from ≤ time < to; zero is open.
func (f *filter) since(column string, from, to time.Time) {
	if !from.IsZero() {
		f.add(column+" >= ?", pipeline.CeilMilli(from))
	}
	if !to.IsZero() {
		f.add(column+" < ?", pipeline.CeilMilli(to))
	}
}

// before leaves out rows of e at or behind a position; nil keeps all.
func (f *filter) before(asOf *sealer.Position) {
	if asOf != nil {
		f.add("(e.generation, e.position) < (?, ?)", asOf.Generation, asOf.Offset)
	}
}

// after leaves out rows of e at or before a position; nil keeps all.
func (f *filter) after(p *sealer.Position) {
	if p != nil {
		f.add("(e.generation, e.position) > (?, ?)", p.Generation, p.Offset)
	}
}

func (f *filter) String() string { return strings.Join(f.where, " AND ") }

// Events lists rows of one tenant in the order of their positions.
func (w *Warehouse) Events(ctx context.Context, q pipeline.EventQuery) ([]pipeline.Row, error) {
	if err := q.Check(); err != nil {
		return nil, fmt.Errorf("cannot list events of %s: %w", q.TenantID, err)
	}
	rows, err := w.events(ctx, q)
	if err != nil {
		return nil, fmt.Errorf("cannot list events of %s: %w", q.TenantID, err)
	}
	for i := range rows {
		rows[i].TenantID = q.TenantID
	}
	return rows, nil
}

func (w *Warehouse) events(ctx context.Context, q pipeline.EventQuery) (all []pipeline.Row, err error) {
	tx, err := w.read.BeginTx(ctx, &sql.TxOptions{ReadOnly: true}) // one state for all queries
	if err != nil {
		return nil, err
	}
	defer tx.Rollback()
	var tenant int64
	err = tx.QueryRowContext(ctx, `SELECT tenant FROM tenants WHERE tenant_id = ?`, q.TenantID).Scan(&tenant)
	if err != nil {
		return nil, none(err)
	}
	var f filter
	f.add("e.tenant = ?", tenant)
	if q.After != nil {
		f.add("(e.generation, e.position) > (?, ?)", q.After.Generation, q.After.Offset)
	}
	f.before(q.Before)
	if len(q.Types) > 0 {
		types := make([]any, len(q.Types))
		for i, t := range q.Types {
			types[i] = t
		}
		f.add("c.type IN (?"+strings.Repeat(", ?", len(types)-1)+")", types...)
	}
	f.since("e.at", q.From, q.To)
	f.is("c.subject_kind", q.SubjectKind)
	f.is("c.subject_id", q.SubjectID)
	if len(q.SubjectIDs) > 0 {
		ids := make([]any, len(q.SubjectIDs))
		for i, id := range q.SubjectIDs {
			ids[i] = id
		}
		f.add("c.subject_id IN (?"+strings.Repeat(", ?", len(ids)-1)+")", ids...)
	}
	f.is("c.actor_kind", q.ActorKind)
	f.is("c.actor_id", q.ActorID)
	f.is("c.right_id", q.RightID)
	f.is("e.spatial_anchor_id", q.SpatialAnchorID)
	f.is("e.correlation_id", q.CorrelationID)
	f.since("e.rendered_at", q.RenderedFrom, q.RenderedTo)
	if q.EventIDEnd != "" {
		switch end, ok := eventKeyEnd(q.EventIDEnd); {
		case !ok:
			f.add("typeof(e.event_id) = 'text'")
		case len(end) > 0:
			f.add("(typeof(e.event_id) = 'text' OR substr(e.event_id, ?) = ?)", -len(end), end)
		}
	}
	person, subjectHash := sealer.NewPerson(q.DataSubject), ""
	if q.DataSubject != "" {
		key, _, err := subjectKey(ctx, tx)
		if err != nil {
			return nil, err
		}
		subjectHash = key.Hash(q.TenantID, q.DataSubject)
		f.add("(e.class = 0 OR x.private IS NOT NULL)")
	}
	order := "e.generation, e.position"
	if q.Newest {
		order = "e.generation DESC, e.position DESC"
	}
	texts := w.reader(tx.StmtContext(ctx, w.find))
	defer w.release(texts)
	list := func(from string, f filter) error {
		limit := q.Limit - len(all)
		if q.DataSubject != "" || q.EventIDEnd != "" {
			limit = -1 // which rows name the person, or have the id, is only known here
		}
		err := each(ctx, tx, func(scan func(...any) error) error {
			row, err := scanRow(scan)
			if err == nil && !strings.HasSuffix(row.EventID, q.EventIDEnd) {
				return nil
			}
			if err == nil {
				err = texts.readPrivate(ctx, &row)
			}
			switch {
			case err != nil:
				return err
			case q.DataSubject != "" && !row.IsAbout(person):
				return nil
			case len(all) == q.Limit:
				return errLimit
			}
			err = texts.readEvent(ctx, &row)
			all = append(all, row.Row)
			return err
		}, `SELECT `+selected+` FROM `+from+otherTexts+`
			WHERE `+f.String()+` ORDER BY `+order+` LIMIT ?`, append(f.args, limit)...)
		if errors.Is(err, errLimit) {
			return nil
		}
		return err
	}
	if q.NoDeliveries || len(q.Types) > 0 && !slices.Contains(q.Types, sealer.TypeDelivery) {
		// Far fewer rows than all.
		f.add("e.class > 0")
		if len(q.SubjectIDs) > 0 {
			f.add("c.tenant = ? AND c.right_id IS NULL", tenant)
			return all, list("common AS c INDEXED BY common_by_subject CROSS JOIN events AS e INDEXED BY audit_by_common USING (common)", f)
		}
		return all, list("events AS e INDEXED BY audit_by_position CROSS JOIN common AS c USING (common)", f)
	}
	const everything = "events AS e CROSS JOIN common AS c USING (common)"
	if w.writer.unsearched {
		return all, list(everything, f)
	}
	blocks, ok, err := places(ctx, tx, tenant, q, subjectHash)
	if err != nil || !ok {
		return all, cmp.Or(err, list(everything, f))
	}
	for _, b := range blocks {
		if len(all) == q.Limit {
			break
		}
		g := filter{slices.Clone(f.where), slices.Clone(f.args)}
		g.add("e.generation = ? AND e.position >= ? AND e.position < ?", b.generation, b.number*blockRows, (b.number+1)*blockRows)
		if err := list(everything, g); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// errLimit ends a list that has as many rows as were wanted.
var errLimit = errors.New("the list is full")

// AuditEvents calls take for the text of each loaded event that is no delivery, in no order. A
// text is valid only during its call.
func (w *Warehouse) AuditEvents(ctx context.Context, take func(event []byte) error) error {
	rows, err := w.read.QueryContext(ctx, `SELECT x.event FROM events AS e INDEXED BY audit_by_common CROSS JOIN texts AS x USING (text) WHERE e.class > 0`)
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
	row, err := w.event(ctx, tenantID, eventID)
	row.TenantID = tenantID
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return pipeline.Row{}, fmt.Errorf("%w: %s", pipeline.ErrNoEvent, eventID)
	case err != nil:
		return pipeline.Row{}, fmt.Errorf("cannot read event %s: %w", eventID, err)
	}
	return row.Row, nil
}

// selectEvent finds a row with the block of its texts.
const selectEvent = `SELECT ` + selected + `, COALESCE(b.text_block, 0), e.tenant, COALESCE(b.first, 0), COALESCE(b.texts, 0), COALESCE(b.size, 0), COALESCE(b.open, 0), b.events, b.private
	FROM events AS e INDEXED BY events_by_id CROSS JOIN common AS c USING (common)` + otherTexts + `
		LEFT JOIN text_blocks AS b ON e.class = 0 AND b.text_block = (SELECT text_block FROM text_blocks WHERE tenant = e.tenant AND first <= e.text ORDER BY first DESC LIMIT 1)
	WHERE e.event_id = ? AND e.tenant = (SELECT tenant FROM tenants WHERE tenant_id = ?)`

func (w *Warehouse) event(ctx context.Context, tenantID, eventID string) (row storedRow, err error) {
	texts := w.reader(nil)
	defer w.release(texts)
	found := w.single.QueryRowContext(ctx, eventKey(eventID), tenantID)
	row, err = scanRow(func(into ...any) error { return found.Scan(append(into, texts.into()...)...) })
	if err != nil {
		return row, err
	}
	return row, cmp.Or(texts.readEvent(ctx, &row), texts.readPrivate(ctx, &row))
}

// CountEvents counts the loaded events of a tenant.
func (w *Warehouse) CountEvents(ctx context.Context, tenantID string) (n int64, err error) {
	err = w.read.QueryRowContext(ctx, `SELECT (SELECT COUNT(*) FROM tenants CROSS JOIN events AS e INDEXED BY audit_by_position USING (tenant) WHERE tenant_id = ?1 AND e.class > 0)
		+ (SELECT COALESCE(SUM(deliveries), 0) FROM tenants WHERE tenant_id = ?1)`, tenantID).Scan(&n)
	if err != nil {
		return 0, fmt.Errorf("cannot count events of %s: %w", tenantID, err)
	}
	return n, nil
}

// Duplicates lists the duplicates in after < pos ≤ upTo with what they repeat.
func (w *Warehouse) Duplicates(ctx context.Context, tenantID string, after, upTo sealer.Position) ([]pipeline.Duplicate, error) {
	rows, err := collect(ctx, w.read, scanDuplicate, `SELECT e.event_id, d.generation, d.log_partition, d.position,
			p.event_id, d.first_generation, d.first_partition, d.first_position
		FROM tenants AS t CROSS JOIN duplicates AS d USING (tenant)
			CROSS JOIN events AS e USING (tenant, generation, position, log_partition)
			CROSS JOIN events AS p ON (p.tenant, p.generation, p.position, p.log_partition) = (d.tenant, d.first_generation, d.first_position, d.first_partition)
		WHERE t.tenant_id = ? AND (d.generation, d.position) > (?, ?) AND (d.generation, d.position) <= (?, ?)
		ORDER BY d.generation, d.position`,
		tenantID, after.Generation, after.Offset, upTo.Generation, upTo.Offset)
	if err != nil {
		return nil, fmt.Errorf("cannot list duplicates of %s: %w", tenantID, err)
	}
	return rows, nil
}

func scanDuplicate(scan func(...any) error) (d pipeline.Duplicate, err error) {
	var id, first any
	err = scan(&id, &d.Position.Generation, &d.Position.Partition, &d.Position.Offset,
		&first, &d.First.Generation, &d.First.Partition, &d.First.Offset)
	if err == nil {
		d.EventID, d.FirstEventID = eventID(id), eventID(first)
	}
	return d, err
}

const quarantinedColumns = "generation, log_partition, position, tenant_id, event_id, reason, record"

// Quarantined lists the records that hold sealing for a tenant.
func (w *Warehouse) Quarantined(ctx context.Context, tenantID string) ([]pipeline.Quarantined, error) {
	rows, err := collect(ctx, w.read, scanQuarantined, `
		SELECT `+quarantinedColumns+` FROM held
		WHERE tenant_id = ?1 OR tenant_id = '' AND log_partition =
			COALESCE((SELECT e.log_partition FROM tenants AS t CROSS JOIN events AS e USING (tenant) WHERE t.tenant_id = ?1 LIMIT 1), log_partition)
		ORDER BY log_partition, generation, position`, tenantID)
	if err != nil {
		return nil, fmt.Errorf("cannot list quarantined records for %s: %w", tenantID, err)
	}
	return rows, nil
}

// Held lists and counts the records that hold sealing.
func (w *Warehouse) Held(ctx context.Context, q pipeline.HeldQuery) (list []pipeline.Quarantined, total int64, err error) {
	var f filter
	f.add("1")
	if q.At != nil {
		f.add("(log_partition, generation, position) = (?, ?, ?)", q.At.Partition, q.At.Generation, q.At.Offset)
	}
	if q.Limit > 0 {
		list, err = collect(ctx, w.read, scanQuarantined, `SELECT `+quarantinedColumns+` FROM held WHERE `+f.String()+`
			ORDER BY log_partition, generation, position LIMIT ?`, append(f.args, q.Limit)...)
	}
	// A list that is not full is complete, and needs no second read.
	if total = int64(len(list)); err == nil && len(list) == q.Limit {
		err = w.read.QueryRowContext(ctx, `SELECT COUNT(*) FROM held WHERE `+f.String(), f.args...).Scan(&total)
	}
	if err != nil {
		return nil, 0, fmt.Errorf("cannot list quarantined records: %w", err)
	}
	return list, total, nil
}

func scanQuarantined(scan func(...any) error) (s pipeline.Quarantined, err error) {
	p := &s.Position
	err = scan(&p.Generation, &p.Partition, &p.Offset, &s.TenantID, &s.EventID, &s.Reason, &s.Record)
	return s, err
}

// collect runs a query and reads all of its rows.
func collect[T any](ctx context.Context, db querier, scan func(func(...any) error) (T, error), query string, args ...any) (all []T, err error) {
	err = each(ctx, db, func(columns func(...any) error) error {
		one, err := scan(columns)
		all = append(all, one)
		return err
	}, query, args...)
	if err != nil {
		return nil, err
	}
	return all, nil
}

// querier is a database or a transaction.
type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// each runs a query and calls take for each of its rows.
func each(ctx context.Context, db querier, take func(scan func(...any) error) error, query string, args ...any) error {
	rows, err := db.QueryContext(ctx, query, args...)
	return takeAll(rows, err, take)
}

// eachOf does as each, of a prepared statement.
func eachOf(ctx context.Context, stmt *sql.Stmt, take func(scan func(...any) error) error, args ...any) error {
	rows, err := stmt.QueryContext(ctx, args...)
	return takeAll(rows, err, take)
}

func takeAll(rows *sql.Rows, err error, take func(scan func(...any) error) error) error {
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := take(rows.Scan); err != nil {
			return err
		}
	}
	return rows.Err()
}
