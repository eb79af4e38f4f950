package sqlite

import (
	"bytes"
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

// Erase implements pipeline.Eraser. Storing the tombstones and deleting what they cover is one
// transaction; then it empties the write-ahead log. Of a damaged block it deletes all private parts, if rows of
// it are where the person's are.
func (w *Warehouse) Erase(ctx context.Context, key pipeline.SubjectKey, list []pipeline.Tombstone) error {
	done, err := w.done(ctx, key, list)
	if err == nil && !done {
		w.emptied.Store(false)
		err = w.change(ctx, func(l *load) error {
			if err := l.notice(pipeline.Batch{}); err != nil {
				return err
			}
			defer l.forget() // the cache of erased persons is outdated, committed or not
			return l.erase(key, list)
		})
		if err == nil {
			err = w.emptyLog(ctx)
		}
		w.emptied.Store(err == nil)
	}
	if err != nil {
		return fmt.Errorf("cannot erase from the warehouse: %w", err)
	}
	return nil
}

// done reports whether an earlier call of this process has done all of it: Erase is called
// again and again.
func (w *Warehouse) done(ctx context.Context, key pipeline.SubjectKey, list []pipeline.Tombstone) (bool, error) {
	if !w.emptied.Load() {
		return false, nil
	}
	tx, err := w.read.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return false, err
	}
	defer tx.Rollback()
	erased, err := readErased(ctx, tx)
	if err != nil || erased == nil || erased.Key != key {
		return false, err
	}
	return !slices.ContainsFunc(list, func(t pipeline.Tombstone) bool { return !erased.Covers(t) }), nil
}

func (l *load) erase(key pipeline.SubjectKey, list []pipeline.Tombstone) error {
	have, ok, err := subjectKey(l.ctx, l.Tx)
	switch {
	case err != nil:
		return err
	case !ok:
		if err := l.exec(`INSERT INTO subject_key (key) VALUES (?)`, key[:]); err != nil {
			return err
		}
	case have != key:
		return pipeline.ErrOtherKey
	}
	for _, t := range list {
		var until int64
		err := l.QueryRowContext(l.ctx, `SELECT until FROM tombstones WHERE tenant_id = ? AND subject_hash = ?`, t.TenantID, t.SubjectHash).Scan(&until)
		if err == nil && until >= t.Until.UnixMilli() {
			continue // its transaction has deleted what it covers
		}
		if err := none(err); err != nil {
			return err
		}
		err = l.exec(`INSERT OR REPLACE INTO tombstones (tenant_id, subject_hash, until) VALUES (?, ?, ?)`, t.TenantID, t.SubjectHash, t.Until.UnixMilli())
		if err != nil {
			return err
		}
		parts, err := privateParts(l.ctx, l.Tx, &textReader{codec: l.codec, find: l.StmtContext(l.ctx, l.findBlock)}, key, t, l.unsearched)
		if err != nil {
			return err
		}
		if err := l.leave(parts); err != nil {
			return err
		}
	}
	return l.eraseQuarantined(key, list)
}

// leave stores what is left of private parts.
func (l *load) leave(parts []privatePart) error {
	slices.SortFunc(parts, func(a, b privatePart) int { // each block is written once
		return cmp.Or(cmp.Compare(a.class, b.class), cmp.Compare(a.text, b.text))
	})
	for len(parts) > 0 {
		p, n := parts[0], 1
		var err error
		if p.class == classDelivery {
			n, err = l.leaveIn(parts)
		} else {
			err = l.exec(`UPDATE texts SET private = ? WHERE text = ?`, optional(p.left), p.text)
		}
		if err != nil {
			return err
		}
		parts = parts[n:]
	}
	return nil
}

// leaveIn stores what is left of the private parts in the block of the first; n is how many.
func (l *load) leaveIn(parts []privatePart) (n int, err error) {
	b, err := l.seekText(parts[0].tenant, parts[0].text)
	if b == nil || err != nil {
		return 1, err
	}
	for n < len(parts) && parts[n].class == classDelivery && parts[n].text < b.first+b.texts {
		n++
	}
	return n, l.changePrivate(b, func(private [][]byte) {
		for _, p := range parts[:n] {
			private[p.text-b.first] = kept(p.left)
		}
	})
}

// eraseQuarantined deletes from the quarantined records, which are few, what the tombstones
// cover.
func (l *load) eraseQuarantined(key pipeline.SubjectKey, list []pipeline.Tombstone) error {
	erased := pipeline.NewErased(key, list)
	all, err := collect(l.ctx, l.Tx, scanQuarantined, `SELECT `+quarantinedColumns+` FROM set_aside`)
	if err != nil {
		return err
	}
	for _, s := range all {
		record, err := erased.Record(s)
		if err != nil || bytes.Equal(record, s.Record) {
			continue
		}
		if err := l.exec(`UPDATE set_aside SET record = ? WHERE (log_partition, generation, position) = (?, ?, ?)`,
			verbatim(record), int64(s.Position.Partition), int64(s.Position.Generation), s.Position.Offset); err != nil {
			return err
		}
	}
	return nil
}

// emptyLogEvery is how often emptyLog tries.
const emptyLogEvery = 500 * time.Millisecond

// emptyLog moves the write-ahead log into the file, and empties it once no query reads from it.
// Loading goes on between its attempts.
func (w *Warehouse) emptyLog(ctx context.Context) error {
	for {
		emptied, err := tryEmptyLog(ctx, w.write)
		if err != nil {
			return fmt.Errorf("cannot empty the write-ahead log: %w", err)
		}
		if emptied {
			return nil
		}
		if err := pipeline.Pause(ctx, emptyLogEvery); err != nil {
			return err
		}
	}
}

// tryEmptyLog uses the connection of the writer, but does not wait on it for queries: no row could
// be loaded meanwhile.
func tryEmptyLog(ctx context.Context, write *sql.DB) (emptied bool, err error) {
	conn, err := write.Conn(ctx)
	if err != nil {
		return false, err
	}
	defer conn.Close()
	if _, err := conn.ExecContext(ctx, `PRAGMA busy_timeout(0)`); err != nil {
		return false, err
	}
	var busy, frames, moved int
	err = conn.QueryRowContext(ctx, `PRAGMA wal_checkpoint(TRUNCATE)`).Scan(&busy, &frames, &moved)
	_, restored := conn.ExecContext(context.WithoutCancel(ctx), `PRAGMA busy_timeout(`+busyTimeout+`)`)
	return busy == 0, errors.Join(err, restored)
}

// CountSubject implements pipeline.Eraser.
func (w *Warehouse) CountSubject(ctx context.Context, tenantID, subjectHash string) (n pipeline.SubjectCount, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("cannot count what names a person: %w", err)
		}
	}()
	tx, err := w.read.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return n, err
	}
	defer tx.Rollback()
	key, ok, err := subjectKey(ctx, tx)
	if err != nil || !ok {
		return n, err
	}
	texts := w.reader(tx.StmtContext(ctx, w.find))
	defer w.release(texts)
	parts, err := privateParts(ctx, tx, texts, key, pipeline.Tombstone{TenantID: tenantID, SubjectHash: subjectHash, Until: instant(never.first)}, w.writer.unsearched)
	if err != nil {
		return n, err
	}
	n.PrivateParts = int64(len(parts))
	err = each(ctx, tx, func(scan func(...any) error) error {
		s, err := scanQuarantined(scan)
		if err == nil && key.Names(s, tenantID, subjectHash) {
			n.Quarantined++
		}
		return err
	}, `SELECT `+quarantinedColumns+` FROM set_aside`)
	return n, err
}

// CountLabelled implements pipeline.Eraser. SQLite leaves out almost all rows that name others.
func (w *Warehouse) CountLabelled(ctx context.Context, tenantID string, person sealer.Person) (n int64, err error) {
	var f filter
	f.add("t.tenant_id = ?1 AND e.class = 0", tenantID)
	if fragment := person.Fragment(); fragment != "" {
		labels := []string{"e.spatial_anchor_id", "e.spatial_placement_id", "e.correlation_id"}
		f.add("(instr("+strings.Join(labels, ", ?2) > 0 OR instr(")+", ?2) > 0 OR instr("+strings.Join(labels, ", ?3) > 0 OR instr(")+", ?3) > 0)", fragment, `\`)
	}
	err = each(ctx, w.read, func(scan func(...any) error) error {
		var labels [3]sql.NullString
		err := scan(&labels[0], &labels[1], &labels[2])
		if slices.ContainsFunc(labels[:], func(label sql.NullString) bool { return person.In(label.String) }) {
			n++
		}
		return err
	}, `SELECT e.spatial_anchor_id, e.spatial_placement_id, e.correlation_id FROM tenants AS t CROSS JOIN events AS e USING (tenant) WHERE `+f.String(), f.args...)
	if err != nil {
		return 0, fmt.Errorf("cannot count the deliveries with a label that names a person: %w", err)
	}
	return n, nil
}

// CountTelemetry implements pipeline.Eraser.
func (w *Warehouse) CountTelemetry(ctx context.Context, tenantID string, person sealer.Person) (n int64, err error) {
	fragment := []byte(person.Fragment())
	var b textBlock
	err = each(ctx, w.read, func(scan func(...any) error) error {
		if err := b.scan(scan); err != nil {
			return err
		}
		private, err := b.frame(w.codec, 1, b.private)
		if isDamage(err) { // nobody reads them, and persons are to be erased nevertheless
			w.log.WarnContext(ctx, "telemetry that may name a person is not counted", "err", err)
			return nil
		}
		for _, text := range private {
			if (bytes.Contains(text, fragment) || bytes.Contains(text, []byte(`\`))) && sealer.NamedInTelemetry(text, person) {
				n++
			}
		}
		return err
	}, `SELECT `+blockColumns+` FROM text_blocks WHERE tenant = (SELECT tenant FROM tenants WHERE tenant_id = ?) AND private IS NOT NULL`, tenantID)
	if err != nil {
		return 0, fmt.Errorf("cannot count the deliveries with telemetry that names a person: %w", err)
	}
	return n, nil
}

// QuarantinedOf implements pipeline.Eraser.
func (w *Warehouse) QuarantinedOf(ctx context.Context, tenantID string, person sealer.Person) ([]pipeline.Quarantined, error) {
	list, err := collect(ctx, w.read, scanQuarantined, `SELECT `+quarantinedColumns+` FROM set_aside WHERE tenant_id = ? ORDER BY log_partition, generation, position`, tenantID)
	if err != nil {
		return nil, fmt.Errorf("cannot list the quarantined records of %s: %w", tenantID, err)
	}
	if person != (sealer.Person{}) {
		list = slices.DeleteFunc(list, func(s pipeline.Quarantined) bool { return !s.IsAbout(person) })
	}
	return list, nil
}

// privatePart is that of a text, and what is left of it once a tombstone's are erased.
type privatePart struct {
	tenant, class, text int64 // as events has them
	left                []byte
}

// privateParts lists the private parts that a tombstone covers, and those that it may cover, as they are damaged.
func privateParts(ctx context.Context, tx *sql.Tx, texts *textReader, key pipeline.SubjectKey, t pipeline.Tombstone, unsearched bool) (parts []privatePart, err error) {
	var tenant int64
	if err := tx.QueryRowContext(ctx, `SELECT tenant FROM tenants WHERE tenant_id = ?`, t.TenantID).Scan(&tenant); err != nil {
		return nil, none(err)
	}
	from, mark := `SELECT e.class, e.text, e.at, x.private, '' FROM events AS e`+otherTexts, markOf(t.SubjectHash)
	kind, _, ofNotes := t.Notes()
	if ofNotes {
		from, mark = `SELECT e.class, e.text, e.at, x.private, c.subject_kind FROM events AS e CROSS JOIN common AS c USING (common)`+otherTexts, markOf(subjectMark(kind))
	}
	erased := pipeline.NewErased(key, []pipeline.Tombstone{t})
	look := func(where string, args ...any) error {
		return each(ctx, tx, func(scan func(...any) error) error {
			p := privatePart{tenant: tenant}
			var at int64
			r := pipeline.Row{}
			r.TenantID = t.TenantID
			if err := scan(&p.class, &p.text, &at, &r.Private, &r.SubjectKind); err != nil || ofNotes && r.SubjectKind != kind {
				return err
			}
			if p.class == classDelivery {
				var err error
				r.Private, err = texts.privatePart(ctx, tenant, p.text)
				switch {
				case isDamage(err) && texts.holds(tenant, p.text):
					parts = append(parts, p) // nothing is left of it
					return nil
				case isDamage(err):
					return nil // missing
				case err != nil:
					return err
				}
			}
			r.At = instant(at)
			left, _, err := erased.Private(&r)
			if !bytes.Equal(left, r.Private) {
				p.left = left
				parts = append(parts, p)
			}
			return err
		}, from+` WHERE e.tenant = ? AND e.at <= ? AND (e.class = 0 OR x.private IS NOT NULL)`+where, append([]any{tenant, t.Until.UnixMilli()}, args...)...)
	}
	if unsearched {
		return parts, look("")
	}
	blocks, err := collect(ctx, tx, func(scan func(...any) error) (b block, err error) {
		err = scan(&b.generation, &b.number)
		return b, err
	}, marked+` GROUP BY 1, 2`, tenant, mark)
	for _, b := range blocks {
		if err == nil {
			err = look(` AND e.generation = ? AND e.position >= ? AND e.position < ?`, b.generation, b.number*blockRows, (b.number+1)*blockRows)
		}
	}
	return parts, err
}

// subjectKey is the key of the persons' hashes; ok is false before the first Erase.
func subjectKey(ctx context.Context, tx *sql.Tx) (key pipeline.SubjectKey, ok bool, err error) {
	var b []byte
	err = tx.QueryRowContext(ctx, `SELECT key FROM subject_key`).Scan(&b)
	if errors.Is(err, sql.ErrNoRows) {
		return key, false, nil
	}
	return key, copy(key[:], b) == len(key), err
}

// leaveOut removes the private parts of erased persons from the rows that were picked.
func (l *load) leaveOut(b pipeline.Batch) (err error) {
	if l.erased == nil {
		if l.erased, err = readErased(l.ctx, l.Tx); err != nil {
			return fmt.Errorf("cannot read the erased persons: %w", err)
		}
	}
	for _, n := range l.rows {
		if n.private, n.subjects, err = l.erased.Private(n.Row); err != nil {
			return err
		}
	}
	return nil
}

// readErased reads which persons were erased; nil if that is not known.
func readErased(ctx context.Context, tx *sql.Tx) (*pipeline.Erased, error) {
	key, ok, err := subjectKey(ctx, tx)
	if err != nil || !ok {
		return nil, err
	}
	list, err := collect(ctx, tx, func(scan func(...any) error) (t pipeline.Tombstone, err error) {
		var until int64
		err = scan(&t.TenantID, &t.SubjectHash, &until)
		t.Until = instant(until)
		return t, err
	}, `SELECT tenant_id, subject_hash, until FROM tombstones`)
	return pipeline.NewErased(key, list), err
}
