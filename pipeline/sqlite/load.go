package sqlite

import (
	"bytes"
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"muniment.example/pipeline"
	"muniment.example/sealer"
)

// rowsAStatement is how many rows one statement stores: more make no row cheaper.
const rowsAStatement = 50

// mostCached bounds each of the writer's caches.
const mostCached = 1 << 16

// writer is what Load keeps from one batch to the next. It belongs to the holder of lock.
type writer struct {
	lock chan struct{} // of capacity 1: waiting for it can end with a ctx
	// Prepared statements, of one row and of rowsAStatement.
	events, texts, blocks, keys, marks, times [2]*sql.Stmt
	key, known                                *sql.Stmt
	// Of a tenant's blocks of texts: that of a text, their ends from the last one down, the open ones, and their removal.
	findBlock, tailBlocks, openBlocks, joinedBlocks *sql.Stmt

	codec      codec
	log        *slog.Logger
	unsearched bool
	limits     limits

	// version is the file's, as SQLite counts what others have written.
	version int64
	tenants map[string]tenant
	commons map[common]int64
	tails   map[int64]tail
	spans   []*span          // nil: not read yet
	erased  *pipeline.Erased // nil: not read yet, or not known
}

type tenant struct {
	number  int64
	dropped bool
}

func (w *writer) prepare(ctx context.Context, db *sql.DB) (err error) {
	w.lock, w.limits = make(chan struct{}, 1), defaultLimits
	w.forget()
	// OR FAIL: a failed statement needn't be undone, as all is rolled back.
	for _, p := range []struct {
		stmt               *[2]*sql.Stmt
		verb, into, behind string
	}{
		{&w.events, "INSERT OR FAIL", "events (" + columns + ")", ""},
		{&w.texts, "INSERT OR FAIL", "texts (text, event, private)", ""},
		{&w.blocks, "INSERT OR FAIL", "text_blocks (tenant, first, texts, size, open, events, private)", ""},
		{&w.keys, "INSERT OR FAIL", "keys (span, tenant, hash, generation, position, log_partition)", ""},
		{&w.marks, "INSERT OR IGNORE", "search_marks (span, tenant, hash, generation, block)", ""},
		{&w.times, "INSERT OR FAIL", "search_times (tenant, generation, block, earliest, latest, rendered_first, rendered_last)",
			`ON CONFLICT DO UPDATE SET earliest = min(earliest, excluded.earliest), latest = max(latest, excluded.latest),
				rendered_first = min(rendered_first, excluded.rendered_first), rendered_last = max(rendered_last, excluded.rendered_last)`},
	} {
		one := "(?" + strings.Repeat(", ?", strings.Count(p.into, ",")) + ")"
		for i, n := range []int{1, rowsAStatement} {
			text := p.verb + " INTO " + p.into + " VALUES " + one + strings.Repeat(", "+one, n-1) + " " + p.behind
			if p.stmt[i], err = db.PrepareContext(ctx, text); err != nil {
				return fmt.Errorf("cannot prepare load: %w", err)
			}
		}
	}
	for stmt, text := range map[**sql.Stmt]string{
		&w.key: selectKey, &w.known: selectKnown, &w.findBlock: findBlock,
		&w.tailBlocks:   `SELECT first, texts, size, open FROM text_blocks WHERE tenant = ? ORDER BY first DESC`,
		&w.openBlocks:   `SELECT ` + blockColumns + ` FROM text_blocks WHERE tenant = ? AND first >= ? ORDER BY first`,
		&w.joinedBlocks: `DELETE FROM text_blocks WHERE tenant = ? AND first >= ?`,
	} {
		if *stmt, err = db.PrepareContext(ctx, text); err != nil {
			return fmt.Errorf("cannot prepare load: %w", err)
		}
	}
	return nil
}

// forget empties the caches: they may hold what is rolled back.
func (w *writer) forget() {
	w.tenants, w.commons, w.tails, w.spans, w.erased = map[string]tenant{}, map[common]int64{}, map[int64]tail{}, nil, nil
}

// newRow is a row that is to be stored.
type newRow struct {
	*pipeline.Row
	place
	tenant, class, common, text int64
	id, key                     any // eventKey and dedupKey
	hash                        int64
	day                         int64 // of a row's identity, since 1970; noDay without one
	duplicate                   bool
	private                     []byte   // what is kept of the private part
	subjects                    []string // the hashes of the persons that it names
}

// load is one Load or Erase.
type load struct {
	*writer
	*sql.Tx
	ctx  context.Context
	rows []*newRow
	// hashes are the rows with a key, by tenant and hash, in the order of their positions.
	hashes map[[2]int64][]*newRow
	// replaced are rows that replace a copy at a higher position.
	replaced []*newRow
}

// Load stores rows, quarantined records and Next in one transaction. After an error it has
// changed nothing, unless the disk failed after the commit was written; loading the batch
// again is right either way.
func (w *Warehouse) Load(ctx context.Context, b pipeline.Batch) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("cannot load up to %s: %w", b.Next, err)
		}
	}()
	return w.change(ctx, func(l *load) error {
		for _, step := range l.steps() {
			if err := cmp.Or(ctx.Err(), step(b)); err != nil {
				return err
			}
		}
		return nil
	})
}

// steps are those of a Load.
func (l *load) steps() []func(pipeline.Batch) error {
	return []func(pipeline.Batch) error{l.notice, l.inOrder, l.drop, l.pick, l.leaveOut, l.decide, l.store, l.quarantine, l.retract, l.advance}
}

// change is one transaction of the writer.
func (w *Warehouse) change(ctx context.Context, steps func(l *load) error) (err error) {
	select {
	case w.writer.lock <- struct{}{}:
		defer func() { <-w.writer.lock }()
	case <-ctx.Done():
		return ctx.Err()
	}
	// A transaction with ctx would be rolled back, and the next one could begin, while this
	// call still works; and watching ctx would slow down each statement.
	tx, err := w.write.BeginTx(context.WithoutCancel(ctx), nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	defer func() {
		if err != nil {
			w.writer.forget()
		}
		if len(w.writer.tenants) > mostCached {
			clear(w.writer.tenants)
		}
		if len(w.writer.commons) > mostCached { // the filters stay: filling them takes seconds
			clear(w.writer.commons)
		}
		if len(w.writer.tails) > mostCached {
			clear(w.writer.tails)
		}
	}()
	if err := steps(&load{writer: &w.writer, Tx: tx, ctx: context.WithoutCancel(ctx)}); err != nil {
		return err
	}
	return tx.Commit()
}

func (l *load) exec(query string, args ...any) error {
	_, err := l.ExecContext(l.ctx, query, args...)
	return err
}

// notice empties the caches if another process has written to the file.
func (l *load) notice(pipeline.Batch) error {
	var version int64
	if err := l.QueryRowContext(l.ctx, `PRAGMA data_version`).Scan(&version); err != nil {
		return err
	}
	if version != l.version {
		l.forget()
		l.version = version
	}
	return nil
}

// inOrder refuses a batch that would leave a gap.
func (l *load) inOrder(b pipeline.Batch) error {
	stored := sealer.Position{Partition: b.Partition}
	err := l.QueryRowContext(l.ctx, `SELECT generation, position FROM positions WHERE log_partition = ?`, b.Partition).
		Scan(&stored.Generation, &stored.Offset)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil
	case err != nil:
		return err
	case b.From.Generation == stored.Generation && b.From.Offset > stored.Offset:
		return fmt.Errorf("%w: it begins at %s, loaded is what stands before %s", pipeline.ErrAhead, b.From, stored)
	}
	return nil
}

// pick chooses the rows that are not there yet.
func (l *load) pick(b pipeline.Batch) error {
	type key struct {
		tenant int64
		event  string
	}
	there := make(map[key]bool, len(b.Rows))
	var newest []byte
	err := l.QueryRowContext(l.ctx, `SELECT max((SELECT COALESCE(max(event_id), x'') FROM events), (SELECT COALESCE(max(event_id), x'') FROM withdrawn))`).Scan(&newest)
	if err != nil {
		return err
	}
	l.rows = make([]*newRow, 0, len(b.Rows))
	all := make([]newRow, len(b.Rows))
	for i := range b.Rows {
		all[i].Row, all[i].place = &b.Rows[i], placeOf(b.Rows[i].Position)
	}
	slices.SortStableFunc(all, func(a, b newRow) int { return a.Row.Compare(b.Position) })
	for i := range all {
		n := &all[i]
		t, err := l.tenantOf(n.TenantID)
		if err != nil {
			return err
		}
		k := key{t.number, n.EventID}
		if t.dropped || there[k] {
			continue
		}
		there[k] = true
		n.tenant, n.id = t.number, eventKey(n.EventID)
		// Ids rise with time: most are above all that are stored.
		if id, ok := n.id.([]byte); !ok || bytes.Compare(id, newest) <= 0 {
			known, err := l.isKnown(n)
			if err != nil {
				return fmt.Errorf("cannot look for event %s: %w", n.EventID, err)
			}
			if known {
				continue
			}
		}
		n.class = classOther
		switch {
		case n.Delivery != nil:
			n.class = classDelivery
			n.takeKey()
		case n.Type == pipeline.TypeRefusals:
			n.class = classRefusals
		}
		if n.common, err = l.commonOf(n); err != nil {
			return err
		}
		l.rows = append(l.rows, n)
	}
	return nil
}

// selectKnown finds where an event stands; NULL if it was retracted.
const selectKnown = `SELECT generation, position, log_partition FROM events WHERE event_id = ?1 AND tenant = ?2
	UNION ALL SELECT NULL, NULL, NULL FROM withdrawn WHERE event_id = ?1 AND tenant = ?2`

// isKnown reports whether the event is there, at a lower position, or was retracted. It
// removes a copy at a higher position, which n replaces.
func (l *load) isKnown(n *newRow) (bool, error) {
	var generation, position, partition sql.NullInt64
	err := l.StmtContext(l.ctx, l.known).QueryRowContext(l.ctx, n.id, n.tenant).Scan(&generation, &position, &partition)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	p := place{generation.Int64, position.Int64, partition.Int64}
	if err == nil && position.Valid && n.place.before(p) {
		l.replaced = append(l.replaced, n)
		return false, l.remove(n.tenant, p)
	}
	return true, err
}

// tenantOf returns a tenant, and stores a new one.
func (l *load) tenantOf(id string) (t tenant, err error) {
	t, ok := l.tenants[id]
	if ok {
		return t, nil
	}
	const find = `SELECT tenant, dropped FROM tenants WHERE tenant_id = ?`
	err = l.QueryRowContext(l.ctx, find, id).Scan(&t.number, &t.dropped)
	if errors.Is(err, sql.ErrNoRows) {
		err = l.QueryRowContext(l.ctx, `INSERT INTO tenants (tenant_id) VALUES (?) RETURNING tenant`, id).Scan(&t.number)
	}
	if err != nil {
		return t, fmt.Errorf("cannot number tenant %s: %w", id, err)
	}
	l.tenants[strings.Clone(id)] = t
	return t, nil
}

// commonOf returns the number of n's row of common, and stores a new one.
func (l *load) commonOf(n *newRow) (number int64, err error) {
	c := commonOf(n.tenant, n.Row)
	if number, ok := l.commons[c]; ok {
		return number, nil
	}
	for _, f := range c.fields() {
		*f = strings.Clone(*f) // so that the cache doesn't keep the batch in memory
	}
	args := c.args()
	err = l.QueryRowContext(l.ctx, `SELECT common FROM common WHERE digest = ?`, args[0]).Scan(&number)
	if errors.Is(err, sql.ErrNoRows) {
		err = l.QueryRowContext(l.ctx, `INSERT INTO common (digest, tenant, node, type, actor_kind, actor_id, subject_kind, subject_id,
				right_id, basis_id, substrate, signing_key_id, metered, reason, metering_basis, completion)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING common`, args...).Scan(&number)
	}
	if err != nil {
		return 0, fmt.Errorf("cannot number what event %s has in common: %w", n.EventID, err)
	}
	l.commons[c] = number
	return number, nil
}

// store stores the rows that were picked, with their texts and keys, and counts them.
func (l *load) store(pipeline.Batch) error {
	// Consecutive rows of a tenant use the same pages.
	slices.SortStableFunc(l.rows, func(a, b *newRow) int { return cmp.Compare(a.tenant, b.tenant) })
	err := l.storeTexts()
	if err == nil {
		err = insert(l, l.events, l.rows, appendRow)
	}
	if err == nil {
		err = l.storeKeys()
	}
	if err == nil {
		err = l.count()
	}
	for _, n := range l.replaced {
		if err == nil && n.key != nil {
			err = l.decideAnew(n.tenant, n.key)
		}
	}
	return err
}

// count adds the rows to the numbers of their tenants' deliveries.
func (l *load) count() error {
	deliveries := map[int64]int64{}
	for _, n := range l.rows {
		if n.class == classDelivery {
			deliveries[n.tenant]++
		}
	}
	for tenant, n := range deliveries {
		if err := l.exec(`UPDATE tenants SET deliveries = deliveries + ? WHERE tenant = ?`, n, tenant); err != nil {
			return err
		}
	}
	return nil
}

// insert runs a statement of the writer with the values of each row, many rows at a time.
func insert[T any](l *load, stmts [2]*sql.Stmt, rows []T, appendArgs func([]any, T) []any) error {
	var args []any
	for len(rows) > 0 {
		n, stmt := 1, stmts[0]
		if len(rows) >= rowsAStatement {
			n, stmt = rowsAStatement, stmts[1]
		}
		args = args[:0]
		for _, r := range rows[:n] {
			args = appendArgs(args, r)
		}
		if _, err := l.StmtContext(l.ctx, stmt).ExecContext(l.ctx, args...); err != nil {
			return fmt.Errorf("cannot store rows: %w", err)
		}
		rows = rows[n:]
	}
	return nil
}

func (l *load) quarantine(b pipeline.Batch) error {
	for _, s := range b.Quarantined {
		p := s.Position
		record, err := l.erased.Record(s)
		if err != nil {
			return fmt.Errorf("cannot quarantine the record at %s: %w", p, err)
		}
		if err := l.exec(`INSERT INTO set_aside (generation, log_partition, position, tenant_id, event_id, reason, record) VALUES (?, ?, ?, ?, ?, ?, ?)
			ON CONFLICT (log_partition, generation, position) DO NOTHING`, int64(p.Generation), int64(p.Partition), p.Offset,
			s.TenantID, s.EventID, s.Reason, verbatim(record)); err != nil {
			return fmt.Errorf("cannot quarantine the record at %s: %w", p, err)
		}
	}
	return nil
}

// advance stores where the loader resumes; it never goes back.
func (l *load) advance(b pipeline.Batch) error {
	return l.exec(`INSERT INTO positions (log_partition, generation, position, chain) VALUES (?, ?, ?, ?)
		ON CONFLICT (log_partition) DO UPDATE
			SET generation = excluded.generation, position = excluded.position, chain = excluded.chain
		WHERE (excluded.generation, excluded.position) > (positions.generation, positions.position)`,
		int64(b.Partition), int64(b.Next.Generation), b.Next.Offset, b.Chain)
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

// Chain implements pipeline.ChainKeeper.
func (w *Warehouse) Chain(ctx context.Context, partition int32) (chain []byte, err error) {
	err = w.read.QueryRowContext(ctx, `SELECT chain FROM positions WHERE log_partition = ?`, partition).Scan(&chain)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return nil, fmt.Errorf("cannot read the chain of partition %d: %w", partition, err)
	}
	return chain, nil
}
