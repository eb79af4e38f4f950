package clickhouse

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/ext"

	"muniment.example/pipeline"
	"muniment.example/sealer"
)

// A loader's knowledge of erased persons may be old. So Erase writes the tombstones before it
// deletes, and each Load reads them once more after its inserts, before its position: a
// private part is either there when Erase deletes, or its Load finds the tombstone and deletes
// it. If a Load is killed between the two, the one that repeats it deletes it.

// Erase implements pipeline.Eraser. It deletes by mutations, which rewrite the parts, and
// returns when the old parts are off the disk of the replica that it is connected to; the
// others remove theirs some seconds later. How long it takes is bounded by ctx alone.
func (w *Warehouse) Erase(ctx context.Context, key pipeline.SubjectKey, list []pipeline.Tombstone) error {
	if err := w.erase(ctx, key, list); err != nil {
		return fmt.Errorf("cannot erase from the warehouse: %w", err)
	}
	return nil
}

func (w *Warehouse) erase(ctx context.Context, key pipeline.SubjectKey, list []pipeline.Tombstone) error {
	erased, _, err := w.erased(ctx, "")
	switch {
	case err != nil:
		return err
	case erased == nil:
	case erased.Key != key:
		return pipeline.ErrOtherKey
	default: // leave out what an earlier call has done
		done, _, err := w.erased(ctx, "WHERE done")
		if err != nil {
			return err
		}
		list = slices.DeleteFunc(slices.Clone(list), done.Covers)
		if len(list) == 0 {
			return nil
		}
	}
	if err := insert(ctx, w.servers, "tombstones", tombstoneColumns(false), list); err != nil {
		return err
	}
	if erased == nil {
		if err := insert(ctx, w.servers, "subject_key", keyColumn, []pipeline.SubjectKey{key}); err != nil {
			return err
		}
	}
	w.stored.forget()
	if len(list) == 0 {
		return nil
	}
	var covered, whose []string
	erased = pipeline.NewErased(key, list)
	for _, t := range list {
		if _, _, ok := t.Notes(); ok {
			about, err := w.keepNotes(ctx, erased, t)
			if err != nil {
				return err
			}
			covered = append(covered, about...)
			continue
		}
		whose = append(whose, "tenant_id = "+literal(t.TenantID)+" AND has(subject_hashes, "+literal(t.SubjectHash)+") AND at <= "+moment(t.Until.UnixMilli()))
	}
	if err := w.keepOthers(ctx, erased, whose); err != nil {
		return err
	}
	covered = append(covered, whose...)
	if err := w.deletePrivate(ctx, covered); err != nil {
		return err
	}
	if err := w.eraseQuarantined(ctx, erased); err != nil {
		return err
	}
	return insert(ctx, w.servers, "tombstones", tombstoneColumns(true), list)
}

// piece is how many rows an erasure has in memory.
const piece = 10_000

// keepOthers inserts what is to be kept of private parts that name others beside erased persons. These
// copies don't have the hashes of the erased, by which the parts as they were are deleted after.
func (w *Warehouse) keepOthers(ctx context.Context, erased *pipeline.Erased, conditions []string) error {
	for _, condition := range conditions {
		for behind, more := "", true; more; {
			rows, err := collect(ctx, w.servers, func(scan func(...any) error) (r pipeline.Row, err error) {
				err = scan(&r.TenantID, &r.EventID, &r.Generation, &r.Offset, &r.At, &r.Private)
				return r, err
			}, `SELECT tenant_id, event_id, generation, position, at, private FROM private_parts FINAL
				WHERE length(subject_hashes) > 1 AND `+condition+` AND event_id > ? ORDER BY event_id LIMIT ?`, behind, piece)
			var kept []privatePart
			if err == nil {
				kept, _, err = leaveOut(erased, rows, nil)
			}
			if err == nil {
				err = insert(ctx, w.servers, "private_parts", privateColumns, kept)
			}
			if err != nil {
				return fmt.Errorf("cannot keep the other persons of private parts: %w", err)
			}
			if more = len(rows) == piece; more {
				behind = rows[piece-1].EventID
			}
		}
	}
	return nil
}

// keepNotes inserts what is to be kept of the private parts of events whose notes name an erased person. It
// returns the conditions for these as they were, by the hashes that the copies don't
// have. They list the events, because a mutation must not read another table. An event that is not there yet
// is of a Load that will find the tombstone.
func (w *Warehouse) keepNotes(ctx context.Context, erased *pipeline.Erased, t pipeline.Tombstone) (conditions []string, err error) {
	kind, _, _ := t.Notes()
	var ids, hashes []string
	add := func(atLeast int) {
		if len(ids) >= atLeast {
			conditions = append(conditions, "tenant_id = "+literal(t.TenantID)+" AND event_id IN ("+strings.Join(ids, ", ")+") AND hasAny(subject_hashes, ["+strings.Join(hashes, ", ")+"])")
			ids, hashes = nil, nil
		}
	}
	for behind, more := "", true; more; {
		rows, err := collect(ctx, w.servers, func(scan func(...any) error) (r pipeline.Row, err error) {
			r.SubjectKind = kind
			err = scan(&r.TenantID, &r.EventID, &r.Generation, &r.Offset, &r.At, &r.Private)
			return r, err
		}, `SELECT tenant_id, event_id, generation, position, at, private FROM private_parts WHERE tenant_id = ? AND event_id IN
			(SELECT event_id FROM events WHERE tenant_id = ? AND subject_kind = ? AND at <= `+moment(t.Until.UnixMilli())+`) AND event_id > ? ORDER BY event_id LIMIT ? WITH TIES`,
			t.TenantID, t.TenantID, kind, behind, piece)
		var kept []privatePart
		for i := range rows {
			var p privatePart
			if err == nil {
				p, err = partOf(erased, &rows[i])
			}
			if gone := p.gone(erased.Key); err == nil && len(gone) > 0 {
				ids, hashes = append(ids, literal(p.EventID)), append(hashes, gone...)
				add(10)
				if len(p.private) > 0 {
					kept = append(kept, p)
				}
			}
		}
		if err == nil {
			err = insert(ctx, w.servers, "private_parts", privateColumns, kept)
		}
		if err != nil {
			return nil, fmt.Errorf("cannot keep the other notes of events about a %s: %w", kind, err)
		}
		if more = len(rows) >= piece; more {
			behind = rows[len(rows)-1].EventID
		}
	}
	add(1)
	return conditions, nil
}

// partOf returns what is to be kept of a row's private part.
func partOf(erased *pipeline.Erased, r *pipeline.Row) (privatePart, error) {
	private, hashes, err := erased.Private(r)
	return privatePart{r, private, append(hashes, sealer.NoteHashes(private)...)}, err
}

// gone are literals of the hashes of what is not kept.
func (p *privatePart) gone(key pipeline.SubjectKey) (literals []string) {
	had := sealer.NoteHashes(p.Private)
	for _, subject := range p.DataSubjects() {
		had = append(had, key.Hash(p.TenantID, subject))
	}
	for _, hash := range had {
		if !slices.Contains(p.subjectHashes, hash) {
			literals = append(literals, literal(hash))
		}
	}
	return literals
}

func tombstoneColumns(done bool) []column[pipeline.Tombstone] {
	return []column[pipeline.Tombstone]{
		of("tenant_id", func(t *pipeline.Tombstone) string { return t.TenantID }),
		of("subject_hash", func(t *pipeline.Tombstone) string { return t.SubjectHash }),
		of("until", func(t *pipeline.Tombstone) time.Time { return t.Until }),
		of("done", func(*pipeline.Tombstone) bool { return done }),
	}
}

var keyColumn = []column[pipeline.SubjectKey]{
	of("key", func(k *pipeline.SubjectKey) string { return string(k[:]) }),
}

// deletePrivate deletes the private parts that one of the conditions selects.
func (w *Warehouse) deletePrivate(ctx context.Context, conditions []string) error {
	for some := range slices.Chunk(conditions, 200) {
		where := "(" + strings.Join(some, ") OR (") + ")"
		n, err := w.countWhere(ctx, "private_parts", where)
		if err == nil && n > 0 {
			err = w.mutate(ctx, "private_parts", "DELETE WHERE "+where)
		}
		if err != nil {
			return fmt.Errorf("cannot delete private parts: %w", err)
		}
	}
	// An earlier call may have been cut off after its rows were deleted.
	return w.awaitRemoval(ctx, "private_parts")
}

func (w *servers) countWhere(ctx context.Context, table, where string) (n int64, err error) {
	ctx, cancel := w.deadline(ctx)
	defer cancel()
	err = w.conn.QueryRow(ctx, `SELECT toInt64(count()) FROM `+table+` WHERE `+where).Scan(&n)
	return n, err
}

// errUnfinished is the servers' code of a mutation that was interrupted, as by awaitRemoval
// of another call.
const errUnfinished = 341

// mutate rewrites what a table's parts hold, on all replicas, and waits for that.
func (w *servers) mutate(ctx context.Context, table, what string) error {
	opt := *w.opt
	opt.ReadTimeout, opt.MaxOpenConns, opt.MaxIdleConns = 24*time.Hour, 1, 1 // the server says nothing while it works
	conn, err := clickhouse.Open(&opt)
	if err != nil {
		return err
	}
	defer conn.Close()
	for attempts := 20; ; attempts-- {
		err := conn.Exec(ctx, `ALTER TABLE `+table+` `+what+` SETTINGS mutations_sync = 2`)
		var unfinished *clickhouse.Exception
		if !errors.As(err, &unfinished) || unfinished.Code != errUnfinished || attempts == 0 {
			return err
		}
		if pipeline.Pause(ctx, 100*time.Millisecond) != nil {
			return err
		}
	}
}

// emptyPartition is a partition that a table never has: a server removes old parts minutes
// later, but at once when a partition is dropped.
var emptyPartition = map[string]string{"private_parts": "197013", "set_aside": "-1"}

// awaitRemoval waits until the parts of a table that are inactive by now, since they were
// rewritten or merged, are off the disk. It doesn't wait for those of later merges.
func (w *servers) awaitRemoval(ctx context.Context, table string) error {
	const inactive = `SELECT name FROM system.parts WHERE database = currentDatabase() AND NOT active AND table = `
	var gone []string
	for first := true; ; first = false {
		left, err := collect(ctx, w, func(scan func(...any) error) (name string, err error) {
			err = scan(&name)
			return name, err
		}, inactive+literal(table))
		if err != nil {
			return err
		}
		if first {
			gone = left
		}
		gone = slices.DeleteFunc(gone, func(name string) bool { return !slices.Contains(left, name) })
		if len(gone) == 0 {
			return nil
		}
		if w.cluster == "" { // where replicas clean up by themselves
			if err := w.conn.Exec(ctx, `ALTER TABLE `+table+` DROP PARTITION `+emptyPartition[table]); err != nil {
				return err
			}
		}
		if err := pipeline.Pause(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
}

// eraseQuarantined deletes from the quarantined records, which are few, what tombstones cover.
func (w *Warehouse) eraseQuarantined(ctx context.Context, erased *pipeline.Erased) error {
	all, err := collect(ctx, w.servers, scanQuarantined, `SELECT `+heldColumns+` FROM set_aside FINAL`)
	if err != nil {
		return err
	}
	for _, s := range all {
		record, err := erased.Record(s)
		if err != nil {
			return err
		}
		if bytes.Equal(record, s.Record) {
			continue
		}
		if err := w.mutate(ctx, "set_aside", fmt.Sprintf("UPDATE record = unhex('%s') WHERE log_partition = %d AND generation = %d AND position = %d",
			hex.EncodeToString(record), s.Position.Partition, s.Position.Generation, s.Position.Offset)); err != nil {
			return fmt.Errorf("cannot erase from the quarantined record at %s: %w", s.Position, err)
		}
	}
	return w.awaitRemoval(ctx, "set_aside")
}

// CountSubject implements pipeline.Eraser.
func (w *reader) CountSubject(ctx context.Context, tenantID, subjectHash string) (n pipeline.SubjectCount, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("cannot count what names a person: %w", err)
		}
	}()
	erased, _, err := w.erased(ctx, "")
	if err != nil || erased == nil {
		return n, err
	}
	n.PrivateParts, err = w.countWhere(ctx, "private_parts FINAL", "tenant_id = "+literal(tenantID)+" AND has(subject_hashes, "+literal(subjectHash)+")")
	if err != nil {
		return n, err
	}
	all, err := collect(ctx, w.servers, scanQuarantined, `SELECT `+heldColumns+` FROM set_aside FINAL WHERE tenant_id IN ('', ?)`, tenantID)
	for _, s := range all {
		if erased.Key.Names(s, tenantID, subjectHash) {
			n.Quarantined++
		}
	}
	return n, err
}

// CountLabelled implements pipeline.Eraser. The server leaves out almost all rows that name others.
func (w *reader) CountLabelled(ctx context.Context, tenantID string, person sealer.Person) (n int64, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("cannot count the deliveries with a label that names a person: %w", err)
		}
	}()
	labels := []string{"spatial_anchor_id", "spatial_placement_id", "correlation_id"}
	candidate, needle := "position(%s, ?) > 0", person.Fragment()
	if pattern := person.Pattern(); pattern != "" {
		candidate, needle = "match(%s, ?)", pattern
	}
	var where []string
	args := []any{tenantID}
	for _, label := range labels {
		where = append(where, fmt.Sprintf(candidate, label), `position(`+label+`, '\\') > 0`)
		args = append(args, needle)
	}
	ctx, cancel := w.deadline(ctx)
	defer cancel()
	rows, err := w.conn.Query(ctx, `SELECT `+strings.Join(labels, ", ")+`, toInt64(count()) FROM events FINAL
		WHERE tenant_id = ? AND receipt_id != '' AND (`+strings.Join(where, " OR ")+`) GROUP BY `+strings.Join(labels, ", "), args...)
	if err != nil {
		return 0, err
	}
	defer rows.Close()
	for rows.Next() {
		var texts [3]string
		var receipts int64
		if err := rows.Scan(&texts[0], &texts[1], &texts[2], &receipts); err != nil {
			return 0, err
		}
		if slices.ContainsFunc(texts[:], person.In) {
			n += receipts
		}
	}
	return n, rows.Err()
}

// CountTelemetry implements pipeline.Eraser. The server leaves out almost all private parts that name
// others.
func (w *reader) CountTelemetry(ctx context.Context, tenantID string, person sealer.Person) (n int64, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("cannot count the deliveries with telemetry that names a person: %w", err)
		}
	}()
	candidate, needle := "position(private, ?) > 0", person.Fragment()
	if pattern := person.Pattern(); pattern != "" {
		candidate, needle = "match(private, ?)", pattern
	}
	ctx, cancel := w.deadline(ctx)
	defer cancel()
	rows, err := w.conn.Query(ctx, `SELECT private FROM private_parts FINAL WHERE tenant_id = ? AND (`+candidate+` OR position(private, '\\') > 0)`, tenantID, needle)
	if err != nil {
		return 0, err
	}
	defer rows.Close()
	for rows.Next() {
		var private string
		if err := rows.Scan(&private); err != nil {
			return 0, err
		}
		if sealer.NamedInTelemetry([]byte(private), person) {
			n++
		}
	}
	return n, rows.Err()
}

// QuarantinedOf implements pipeline.Eraser.
func (w *reader) QuarantinedOf(ctx context.Context, tenantID string, person sealer.Person) ([]pipeline.Quarantined, error) {
	list, err := collect(ctx, w.servers, scanQuarantined, `SELECT `+heldColumns+` FROM set_aside FINAL WHERE tenant_id = ? ORDER BY log_partition, generation, position`, tenantID)
	if err != nil {
		return nil, fmt.Errorf("cannot list the quarantined records of %s: %w", tenantID, err)
	}
	if person != (sealer.Person{}) {
		list = slices.DeleteFunc(list, func(s pipeline.Quarantined) bool { return !s.IsAbout(person) })
	}
	return list, nil
}

// erasedPrint is 0 where it is not known who was erased, and changes with each tombstone.
const erasedPrint = `if((SELECT count() FROM subject_key) = 0, toInt64(0),
	(SELECT reinterpretAsInt64(bitOr(groupBitXor(cityHash64(tenant_id, subject_hash, until)), toUInt64(1))) FROM tombstones FINAL))`

// erased reads which persons were erased, nil if that is not known, and the print of it. The
// print may be older than the persons: then the next comparison reads them once more.
func (w *servers) erased(ctx context.Context, where string) (erased *pipeline.Erased, seen int64, err error) {
	if err := w.scalar(ctx, `SELECT `+erasedPrint, &seen); err != nil || seen == 0 {
		return nil, 0, err
	}
	var key string
	if err := w.scalar(ctx, `SELECT key FROM subject_key LIMIT 1`, &key); err != nil {
		return nil, 0, err
	}
	list, err := collect(ctx, w, func(scan func(...any) error) (t pipeline.Tombstone, err error) {
		err = scan(&t.TenantID, &t.SubjectHash, &t.Until)
		return t, err
	}, `SELECT tenant_id, subject_hash, until FROM tombstones FINAL `+where)
	return pipeline.NewErased(pipeline.SubjectKey([]byte(key)), list), seen, err
}

func (w *servers) scalar(ctx context.Context, query string, value any) error {
	ctx, cancel := w.deadline(ctx)
	defer cancel()
	return w.conn.QueryRow(ctx, query).Scan(value)
}

// subjectHash is the hash of the person that q selects.
func (w *servers) subjectHash(ctx context.Context, q pipeline.EventQuery) (string, error) {
	erased, _, err := w.erased(ctx, "")
	if err != nil || erased == nil {
		return "nobody", err
	}
	return erased.Key.Hash(q.TenantID, q.DataSubject), nil
}

// leaveOut returns what is to be kept of the rows' private parts and of quarantined records.
func leaveOut(erased *pipeline.Erased, rows []pipeline.Row, quarantined []pipeline.Quarantined) (parts []privatePart, kept []pipeline.Quarantined, err error) {
	for i := range rows {
		p, err := partOf(erased, &rows[i])
		if err != nil {
			return nil, nil, err
		}
		if len(p.private) > 0 {
			parts = append(parts, p)
		}
	}
	kept = slices.Clone(quarantined)
	for i := range kept {
		if kept[i].Record, err = erased.Record(kept[i]); err != nil {
			return nil, nil, err
		}
	}
	return parts, kept, nil
}

// replaceStale replaces private parts that a Load has stored with persons who are erased, which the
// conditions find.
func (w *Warehouse) replaceStale(ctx context.Context, parts []privatePart, conditions []string) error {
	for i := 0; i < len(parts); i += 200 {
		some := conditions[i:min(i+200, len(parts))]
		n, err := w.countWhere(ctx, "private_parts", "("+strings.Join(some, ") OR (")+")")
		if err == nil && n > 0 {
			err = insert(ctx, w.servers, "private_parts", privateColumns, parts[i:i+len(some)])
			if err == nil {
				err = w.deletePrivate(ctx, some)
			}
		}
		if err != nil {
			return fmt.Errorf("cannot erase persons from private parts: %w", err)
		}
	}
	return nil
}

// eraseLoaded deletes what tombstones cover of the rows and records that were loaded: because
// of tombstones that were written since the Load read them, and what an earlier Load that was
// cut off has left.
func (w *Warehouse) eraseLoaded(ctx context.Context, erased *pipeline.Erased, rows []pipeline.Row, quarantined []pipeline.Quarantined) error {
	if erased == nil || erased.Len() == 0 {
		return nil
	}
	parts, kept, err := leaveOut(erased, rows, quarantined)
	if err != nil {
		return err
	}
	for i := range kept {
		if !bytes.Equal(kept[i].Record, quarantined[i].Record) {
			if err := w.eraseQuarantined(ctx, erased); err != nil {
				return err
			}
			break
		}
	}
	stays := make(map[eventKey]bool, len(parts))
	var others []privatePart
	var stale []string
	for _, p := range parts {
		stays[eventKey{p.TenantID, p.EventID}] = true
		if gone := p.gone(erased.Key); len(gone) > 0 {
			others = append(others, p)
			stale = append(stale, "tenant_id = "+literal(p.TenantID)+" AND event_id = "+literal(p.EventID)+" AND hasAny(subject_hashes, ["+strings.Join(gone, ", ")+"])")
		}
	}
	if err := w.replaceStale(ctx, others, stale); err != nil {
		return err
	}
	wanted, err := ext.NewTable("wanted", ext.Column("tenant_id", "String"), ext.Column("event_id", "String"))
	if err != nil {
		return err
	}
	covered := 0
	for _, r := range rows {
		if len(r.Private) == 0 || stays[eventKey{r.TenantID, r.EventID}] {
			continue
		}
		covered++
		if err := wanted.Append(r.TenantID, r.EventID); err != nil {
			return err
		}
	}
	if covered == 0 {
		return nil
	}
	found, err := collect(clickhouse.Context(ctx, clickhouse.WithExternalTable(wanted)), w.servers, func(scan func(...any) error) (condition string, err error) {
		var e eventKey
		err = scan(&e.tenantID, &e.eventID)
		return "tenant_id = " + literal(e.tenantID) + " AND event_id = " + literal(e.eventID), err
	}, `SELECT DISTINCT tenant_id, event_id FROM private_parts WHERE (tenant_id, event_id) IN (SELECT tenant_id, event_id FROM wanted)`)
	if err != nil || len(found) == 0 {
		return err
	}
	return w.deletePrivate(ctx, found)
}
