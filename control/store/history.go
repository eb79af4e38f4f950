package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"muniment.example/gateway/api"
	"muniment.example/sealer"
)

// # Database and log
//
// The database and the log hold one history, and each can check the other. The database keeps the
// log's high-water mark, and every audit event is in the log under the epoch and number that the
// database gave it. So if one of them is restored from an older copy, the other shows it.
//
// Each partition of the log has its own mark and is checked by itself. All records of a tenant are
// in one partition, so a tenant's history is in order.
//
// The log is older if a partition ends before its mark. The log of a data folder then refuses to
// open (pipeline/segment). Once the operator consents it continues in a later generation, which
// Reconcile records. A log that lost its end within one generation is always refused, because other
// records would get the same positions. The database is older if the log holds events of control
// that it never numbered, or deliveries signed by keys that it does not know, or if records behind
// the mark were removed; then Reconcile refuses. It reads the log from the mark on, which in a
// healthy database is at most a second behind: every event and every key before the mark was
// committed before the mark was. Without a mark, or with one of another generation, the whole log
// is read.
//
// An older database that the operator accepts begins a new incarnation, so every node discards what
// it knew, and first re-applies the stops that it lacks (replay.go). All other changes since the
// copy are lost from the database; the log and the warehouse still hold them.

// # A promoted standby
//
// PostgreSQL's standby may lack what its primary has committed, whatever was configured: a commit that
// a standby should have confirmed becomes visible without it when the list of standbys is emptied, when the
// wait is cancelled, or when the primary is restarted. So no setting proves that a promotion lost
// nothing, and this package rests on none. Instead:
//
//   - A process that meets another server or timeline answers nothing from it, and ends (session.go).
//   - The next start finds that the newest epoch began on another server, and goes on as after an
//     accepted restore, without being asked: it reads the log from the database's high-water marks on, applies
//     the stops that the database lacks, and begins an epoch. If the log holds anything that the
//     database never numbered, the epoch begins a new incarnation, too. Otherwise it is one of the
//     same incarnation: with synchronous replication there is nothing more to it.
//   - An acknowledged stop is in the log, and so is the key of a node (Confirm).
//   - Nodes may know changes that are in neither. So the feed names the revision that the database had at
//     the promotion: a node that has seen a later one begins again (gateway/snapshot), and the others go on.
//   - The epoch's event is in the log before anything rests on the epoch. From then on a start on the
//     old primary finds itself older than the log.
//   - The server may be an hour behind the log (mostLag). More is no failover, and needs consent.
//
// A primary that still runs beside the one that was promoted is not noticed by the processes that
// use it: whoever promotes has to end it first.

// Reader is the log that the database is checked against. The contract of the methods is
// pipeline.Reader's.
type Reader interface {
	Partitions(ctx context.Context) (int, error)
	Bounds(ctx context.Context, partition int32) (first, end sealer.Position, err error)
	Scan(ctx context.Context, from, to sealer.Position, fn func(sealer.Entry) error) error
}

// The events about the database and the log.
var (
	databaseEvents     = &Noun{Name: "database", System: true}
	restored           = databaseEvents.Kind("database.restored", "The database was restored from a backup.")
	rollbackOfDatabase = databaseEvents.Kind("database.rollback_accepted", "An operator accepted a database that is older than the log.")
	promotion          = databaseEvents.Kind("database.promoted", "A standby of the database was promoted.")
	stopsReapplied     = databaseEvents.Kind("database.stops_reapplied", "Suspensions and revocations that the log has and the database lacked were applied again.")

	logEvents     = &Noun{Name: "log", System: true}
	rollbackOfLog = logEvents.Kind("log.rollback_accepted", "An operator accepted a log that is shorter than it was.")
)

// Nouns are the nouns of this package's events.
var Nouns = []*Noun{databaseEvents, logEvents}

// ErrOlder says that the database is an older copy than the log. Nothing was changed.
var ErrOlder = errors.New("the database is older than the log")

// Loaded says how far a warehouse has loaded the log, with the contract of pipeline.Sink.
type Loaded interface {
	Resume(ctx context.Context, partition int32) (next sealer.Position, ok bool, err error)
}

// History is what Reconcile works with.
type History struct {
	// Log is the open log. Other processes of this database may append to it meanwhile. Required.
	Log Reader
	// Loaded is how far the warehouse has loaded each partition. These marks count like the
	// database's own. Optional.
	Loaded Loaded
	// Keys lists the ids of all signing keys that a database knows. nil: it knows none.
	Keys func(ctx context.Context, q Querier) (ids []string, err error)
	// Replays are those of all services with records that an event may stop.
	Replays []Replay
	// Older calls take for each event that the log may no longer hold, such as those in packs, in
	// any order. It is called only if all events are needed. nil: there are none.
	Older func(ctx context.Context, take func(event []byte) error) error
	// Accept continues with an older database or a shorter log, instead of refusing.
	Accept bool
	// Append is the log for the first event of an epoch, which must be there before anything rests on
	// the epoch: it makes the log refuse the database that was left. nil: Relay appends it later. An
	// embedded service needs none, and must start on a full disk.
	Append Appender
}

// reconciler checks the database against the log.
type reconciler struct {
	*engine
	outbox     *outbox
	unsearched *unsearched // what Reconcile leaves to SearchStops
}

// Reconcile checks the database against the log, before anything else uses either. It fails with
// ErrOlder, or records what was accepted as events of the system's tenant:
// database.rollback_accepted or database.promoted, which is in the log when it returns if h.Append is set, and
// log.rollback_accepted for each partition. When it returns nil, every stop that the database lacked
// was re-applied.
func (db *reconciler) Reconcile(ctx context.Context, h History) error {
	missed, err := db.missed(ctx, h)
	if err != nil {
		return fmt.Errorf("cannot check the database against the log: %w", err)
	}
	promoted := db.moved() && missed.lag() <= mostLag
	switch {
	case missed.any() && !promoted && !h.Accept:
		return fmt.Errorf("%w: %s", ErrOlder, missed)
	case missed.any() || promoted:
		err = db.goOn(ctx, h, missed, promoted)
	default:
		if err = db.holdStops(ctx, h, missed); err != nil {
			err = fmt.Errorf("cannot check the database for the log's stops: %w", err)
		}
	}
	if err == nil && h.Append != nil {
		err = db.outbox.announce(ctx, h.Append)
	}
	if err != nil {
		return err
	}
	db.hasLog.Store(true)
	shorter := slices.DeleteFunc(slices.Clone(missed.parts), func(p part) bool { return !p.marked || p.end.Generation <= p.mark.Generation })
	if len(shorter) == 0 {
		return nil
	}
	return db.Change(ctx, func(tx *Tx) error {
		for _, p := range shorter {
			db.cfg.Logger.Warn("continued with a shorter log", "endedAt", p.reached().String(), "end", p.end.String())
			if err := tx.EmitSystem(ctx, rollbackOfLog, ByOperator(), sealer.Ref{Kind: "log", ID: "events"}, map[string]any{
				"endedAt": p.reached().String(), "continuedAt": p.end.String(),
			}); err != nil {
				return err
			}
		}
		return tx.setHighWater(ctx, missed.ends()...)
	})
}

// goOn continues with a database that is older than the log, or on a server that was promoted.
func (db *reconciler) goOn(ctx context.Context, h History, m missed, promoted bool) error {
	kind, was := rollbackOfDatabase, db.incarnation
	if promoted {
		kind = promotion
	}
	reapplied, err := db.restored(ctx, h, m, kind)
	if err != nil {
		return fmt.Errorf("cannot continue with an older database: %w", err)
	}
	message := "continued with an older database"
	if promoted {
		message = "continued on a database server that was promoted"
	}
	db.cfg.Logger.Warn(message, "missed", m.String(), "incarnation", db.id, "previous", was.id, "server", db.server, "previousServer", was.server)
	db.logStops(reapplied)
	if err := db.provable(ctx, h, m); err != nil {
		db.cfg.Logger.Error("continued with deliveries that can't be proven", "err", err)
	}
	return nil
}

// provable fails if the database still does not know a key that signed a delivery in the log.
func (db *reconciler) provable(ctx context.Context, h History, m missed) error {
	keys, err := h.keys(ctx, db.read)
	for _, s := range m.signers {
		if err == nil && !keys[s.keyID] {
			err = fmt.Errorf("the log holds %s: nothing could prove them", s)
		}
	}
	return err
}

// BeginIncarnation begins the next incarnation of a restored database, beside the log that it
// continues with: h's, from ends on. All stops that h knows are re-applied; reapplied lists those
// that the database lacked, and an event records the restore. It fails if the key of a delivery in
// the log is unknown.
func (db *reconciler) BeginIncarnation(ctx context.Context, h History) (reapplied []string, ends []sealer.Position, err error) {
	missed, err := db.missed(ctx, h)
	if err != nil {
		return nil, nil, err
	}
	if reapplied, err = db.restored(ctx, h, missed, restored); err != nil {
		return nil, nil, err
	}
	return reapplied, missed.ends(), db.provable(ctx, h, missed)
}

// restored begins a new incarnation of the database with all stops, and returns those that it
// lacked. All of it is one change. After a promotion that the log shows to have lost nothing it
// begins an epoch of the same incarnation.
func (db *reconciler) restored(ctx context.Context, h History, m missed, kind *Kind) (reapplied []string, err error) {
	stops, err := db.findStops(ctx, h, m, kind)
	if err == nil {
		err = stops.readOn(ctx, h.Log)
	}
	if err != nil {
		return nil, err
	}
	next := incarnation{id: api.NewID(prefixIncarnation, db.Now()), epoch: max(db.epoch, m.epoch) + 1, server: db.cfg.server.current()}
	by := ByOperator()
	if kind == promotion {
		by = BySystem()
	}
	if kind == promotion && !m.any() {
		next.id, next.promotions = db.id, db.promotions+1
	}
	err = db.Change(ctx, func(tx *Tx) error {
		if err := tx.QueryRowContext(ctx, `SELECT value FROM counters WHERE name = 'revision'`).Scan(&next.promotedAt); err != nil {
			return fmt.Errorf("cannot read the database's revision: %w", err)
		}
		if err := tx.insertIncarnation(ctx, &next); err != nil {
			return err
		}
		tx.epoch = next.epoch
		if reapplied, err = tx.replay(ctx, h, m, stops, true); err != nil {
			return err
		}
		// The numbers of events begin again at 1.
		if _, err := tx.ExecContext(ctx, `UPDATE counters SET value = 0 WHERE name = 'outbox'`); err != nil {
			return fmt.Errorf("cannot reset the outbox's counter: %w", err)
		}
		data := map[string]any{
			"incarnation": next.id, "previous": db.id, "missed": m.events, "reapplied": len(reapplied),
			"logEnd": texts(m.ends()), "missedFrom": texts(m.firsts()),
		}
		gaps := []map[string]string{}
		for _, p := range m.parts {
			if p.gap != nil {
				gaps = append(gaps, map[string]string{"from": p.gap.from.String(), "to": p.gap.to.String()})
			}
		}
		data["gaps"] = gaps
		if err := tx.EmitSystem(ctx, kind, by, sealer.Ref{Kind: "database", ID: "control"}, data); err != nil {
			return err
		}
		return tx.setHighWater(ctx, m.ends()...)
	})
	if err == nil {
		db.incarnation = next
		db.leave(h, m, stops)
	}
	return reapplied, err
}

// EmitSystem emits an event of the system's tenant, with record as its data: of nodes, signing
// keys, or the database itself.
func (tx *Tx) EmitSystem(ctx context.Context, kind *Kind, by, subject sealer.Ref, record any) error {
	return tx.EmitRecord(ctx, kind, sealer.Event{TenantID: api.SystemTenant, Actor: by, Subject: subject}, record)
}

// HighWater returns the newest position of a partition that SetHighWater recorded; ok is false if
// there is none. A partition that ends before it has lost records.
func (db *reconciler) HighWater(ctx context.Context, partition int32) (p sealer.Position, ok bool, err error) {
	marks, err := highWater(ctx, db.read)
	p, ok = marks[partition]
	return p, ok, err
}

// execer is the writing connection or a change.
type execer interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

// Positions of each partition of the log that are kept.
const (
	logMarks  = "log"   // up to which the log is durable
	stopMarks = "stops" // up to which a start has checked the database for the log's stops
)

// highWater returns the marks, by partition.
func highWater(ctx context.Context, q Querier) (map[int32]sealer.Position, error) {
	return positions(ctx, q, logMarks)
}

// positions returns the positions recorded under a name, by partition.
func positions(ctx context.Context, q Querier, name string) (map[int32]sealer.Position, error) {
	texts, err := List(ctx, q, "positions of the log", Text, `SELECT position FROM high_water WHERE name = $1 OR name LIKE $2`, name, name+"/%")
	marks := map[int32]sealer.Position{}
	for _, text := range texts {
		p, err := sealer.ParsePosition(text)
		if err != nil {
			return nil, fmt.Errorf("cannot read positions of the log: %w", err)
		}
		marks[p.Partition] = p
	}
	return marks, err
}

// markName is the name of a partition's position.
func markName(name string, partition int32) string {
	if partition == 0 {
		return name
	}
	return fmt.Sprintf("%s/%d", name, partition)
}

// SetHighWater records that the log is durable up to each of the positions, at most one per
// partition. A mark never falls: a position before it is ignored.
func (db *reconciler) SetHighWater(ctx context.Context, ends ...sealer.Position) error {
	return db.Change(ctx, func(tx *Tx) error { return tx.setHighWater(ctx, ends...) })
}

func (tx *Tx) setHighWater(ctx context.Context, ends ...sealer.Position) error {
	return tx.setPositions(ctx, logMarks, ends...)
}

func (tx *Tx) setPositions(ctx context.Context, name string, ends ...sealer.Position) error {
	marks, err := positions(ctx, tx, name)
	if err != nil {
		return err
	}
	for _, p := range higher(ends, marks) {
		_, err = tx.ExecContext(ctx, `INSERT INTO high_water (name, position) VALUES ($1, $2)
			ON CONFLICT (name) DO UPDATE SET position = excluded.position`, markName(name, p.Partition), p.String())
		if err != nil {
			return fmt.Errorf("cannot record a position of the log: %w", err)
		}
	}
	return nil
}

// higher returns the positions that move a mark.
func higher(ends []sealer.Position, marks map[int32]sealer.Position) (moved []sealer.Position) {
	for _, p := range ends {
		if mark, known := marks[p.Partition]; !known || p.Compare(mark) > 0 {
			moved = append(moved, p)
		}
	}
	return moved
}

// followEvery is how often the mark follows the log. The loss of a record older than this is
// detected.
const followEvery = time.Second

// Follow records every second how far each partition of the log is durable, until ctx is done, and
// then once more. A failure, such as a full disk or a partition without a leader, is logged once
// and retried; the only cost is a mark that lags behind.
func (db *reconciler) Follow(ctx context.Context, log Reader) error {
	tick := time.NewTicker(followEvery)
	defer tick.Stop()
	for failing := false; ; {
		err := db.follow(context.WithoutCancel(ctx), log)
		if err != nil && !failing {
			db.cfg.Logger.Error("cannot record how far the log is durable", "err", err)
		}
		failing = err != nil
		if ctx.Err() != nil {
			return nil
		}
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
}

func (db *reconciler) follow(ctx context.Context, log Reader) error {
	n, err := log.Partitions(ctx)
	if err != nil {
		return err
	}
	// All at once: a partition without a leader takes the log's whole timeout.
	all, faults := make([]sealer.Position, n), make([]error, n)
	var reading sync.WaitGroup
	for partition := range all {
		reading.Go(func() { _, all[partition], faults[partition] = log.Bounds(ctx, int32(partition)) })
	}
	reading.Wait()
	var ends []sealer.Position
	for partition, end := range all {
		if faults[partition] == nil {
			ends = append(ends, end)
		}
	}
	marks, err := highWater(ctx, db.read)
	if err == nil && len(higher(ends, marks)) > 0 {
		err = db.SetHighWater(ctx, ends...)
	}
	return errors.Join(append(faults, err)...)
}

// ErrWentBack says that the database holds an older state than this process has seen, has another
// incarnation or epoch, or is on another server: it was restored, replaced, or a standby was promoted,
// under a running process. The process no longer answers from it, and ends (Config.OnFailure); a start
// checks the database against the log.
var ErrWentBack = errors.New("the database has gone back to an older state, or is on another server, such as a standby that was promoted: " +
	"this process ends, and the next start checks it against the log")

// A database only moves forward. A process remembers the newest revision that it has seen
// committed, and rejects any later read that is older: otherwise a restored database would give out
// numbers a second time, and publish a revoked right as active.

// seen is the newest revision that was committed before the call.
func (db *engine) seen() int64 { return db.newest.Load() }

// forward checks what a read found that began after seen(). Once it has failed, it always fails.
func (db *engine) forward(seen, revision int64, incarnation string, epoch uint64) error {
	if revision < seen || incarnation != db.id || epoch != db.epoch {
		return db.wentBack("seen", seen, "revision", revision, "incarnation", incarnation, "epoch", epoch, "expected", db.id, "expectedEpoch", db.epoch)
	}
	if db.back.Load() {
		return ErrWentBack
	}
	db.saw(revision)
	return nil
}

// wentBack returns ErrWentBack. The first time it logs why, and ends the process.
func (db *engine) wentBack(why ...any) error {
	if db.back.CompareAndSwap(false, true) {
		db.cfg.Logger.Error("the database has gone back", append(why, "err", ErrWentBack)...)
		db.cfg.OnFailure(ErrWentBack)
	}
	return ErrWentBack
}

// otherServer is called for a connection that leads to another server.
func (db *engine) otherServer(known, met string) error {
	return db.wentBack("server", met, "expectedServer", known)
}

// saw records that a revision is committed.
func (db *engine) saw(revision int64) {
	for seen := db.newest.Load(); revision > seen && !db.newest.CompareAndSwap(seen, revision); {
		seen = db.newest.Load()
	}
}

// state reads the newest revision and the incarnation, and refuses a database that went back.
func (db *engine) state(ctx context.Context, q Querier, seen int64) (revision int64, err error) {
	var id string
	var epoch uint64
	err = q.QueryRowContext(ctx, `SELECT value, id, epoch FROM counters, (SELECT id, epoch FROM incarnations ORDER BY epoch DESC LIMIT 1) AS newest
		WHERE name = 'revision'`).Scan(&revision, &id, &epoch)
	if err != nil {
		return 0, err
	}
	return revision, db.forward(seen, revision, id, epoch)
}
