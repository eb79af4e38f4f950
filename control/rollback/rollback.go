// Package rollback finds out, at a start, whether control's database or the event log is an older copy of
// itself, and what a start may go on with.
//
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
// it knew, and first re-applies the stops that it lacks (stops.go). All other changes since the
// copy are lost from the database; the log and the warehouse still hold them.
//
// # A promoted standby
//
// PostgreSQL's standby may lack what its primary has committed, whatever was configured: a commit that
// a standby should have confirmed becomes visible without it when the list of standbys is emptied, when the
// wait is cancelled, or when the primary is restarted. So no setting proves that a promotion lost
// nothing, and nothing here rests on one. Instead:
//
//   - A process that meets another server or timeline answers nothing from it, and ends (control/store).
//   - The next start finds that the newest epoch began on another server, and goes on as after an
//     accepted restore, without being asked: it reads the log from the database's high-water marks on, applies
//     the stops that the database lacks, and begins an epoch. If the log holds anything that the
//     database never numbered, the epoch begins a new incarnation, too. Otherwise it is one of the
//     same incarnation: with synchronous replication there is nothing more to it.
//   - An acknowledged stop is in the log, and so is the key of a node (store.DB.Confirm).
//   - Nodes may know changes that are in neither. So the feed names the revision that the database had at
//     the promotion: a node that has seen a later one begins again (gateway/snapshot), and the others go on.
//   - The epoch's event is in the log before anything rests on the epoch. From then on a start on the
//     old primary finds itself older than the log.
//   - The server may be an hour behind the log (mostLag). More is no failover, and needs consent.
//
// A primary that still runs beside the one that was promoted is not noticed by the processes that
// use it: whoever promotes has to end it first.
//
// # Stops
//
// A person who can write the database's file can make a revoked right or API key active again
// there, but can't remove its event from the log. So the database is checked against the stops in
// the events, whatever its revisions are:
//
//   - a restore reads all events: those of the log, of the packs and of the warehouse;
//   - a start reads the records that came into the log since the last start: the newest startReads
//     of them before the service is ready, the others afterwards (Search). If the position of
//     the last start is unknown, it reads all events;
//   - a start that accepts an older database reads from the position in that database;
//   - a start on a promoted standby reads from the high-water mark: nobody is served before, and every
//     event before the mark was committed before it. What came before, since the last start, is
//     searched afterwards.
//
// A stop that is missing or undone is re-applied, by a change with a revision of its own. A stop
// that was lifted later does not count, but nothing is lifted here.
package rollback

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"muniment.example/control/store"
	"muniment.example/sealer"
)

// Reader is the log that the database is checked against. The contract of the methods is
// pipeline.Reader's.
type Reader interface {
	Partitions(ctx context.Context) (int, error)
	Bounds(ctx context.Context, partition int32) (first, end sealer.Position, err error)
	Scan(ctx context.Context, from, to sealer.Position, fn func(sealer.Entry) error) error
}

// The events about the database and the log.
var (
	databaseEvents     = &store.Noun{Name: "database", System: true}
	restored           = databaseEvents.Kind("database.restored", "The database was restored from a backup.")
	rollbackOfDatabase = databaseEvents.Kind("database.rollback_accepted", "An operator accepted a database that is older than the log.")
	promotion          = databaseEvents.Kind("database.promoted", "A standby of the database was promoted.")
	stopsReapplied     = databaseEvents.Kind("database.stops_reapplied", "Suspensions and revocations that the log has and the database lacked were applied again.")

	logEvents     = &store.Noun{Name: "log", System: true}
	rollbackOfLog = logEvents.Kind("log.rollback_accepted", "An operator accepted a log that is shorter than it was.")
)

// Nouns are the nouns of this package's events.
var Nouns = []*store.Noun{databaseEvents, logEvents}

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
	Keys func(ctx context.Context, q store.Querier) (ids []string, err error)
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
	Append store.Appender
}

// start is one comparison of a database with the log.
type start struct {
	History
	db     *store.DB
	missed missed
}

// Reconcile checks the database against the log, before anything else uses either. It fails with
// ErrOlder, or records what was accepted as events of the system's tenant:
// database.rollback_accepted or database.promoted, which is in the log when it returns if h.Append is set, and
// log.rollback_accepted for each partition. When it returns nil, every stop that the database lacked
// was re-applied, but for those that the search finds, which the caller runs beside the service.
func (h History) Reconcile(ctx context.Context, db *store.DB) (*Search, error) {
	s := start{History: h, db: db}
	search, err := s.reconcile(ctx)
	if err == nil && h.Append != nil {
		err = db.Outbox.Announce(ctx, h.Append)
	}
	if err != nil {
		return nil, err
	}
	db.CheckedAgainstLog()
	return search, s.recordShorter(ctx)
}

func (s *start) reconcile(ctx context.Context) (search *Search, err error) {
	if err := s.compare(ctx); err != nil {
		return nil, fmt.Errorf("cannot check the database against the log: %w", err)
	}
	promoted := s.moved() && s.missed.lag() <= mostLag
	switch {
	case s.missed.any() && !promoted && !s.Accept:
		return nil, fmt.Errorf("%w: %s", ErrOlder, s.missed)
	case s.missed.any() || promoted:
		return s.goOn(ctx, promoted)
	}
	if search, err = s.holdStops(ctx); err != nil {
		return nil, fmt.Errorf("cannot check the database for the log's stops: %w", err)
	}
	return search, nil
}

// moved says whether the newest epoch began on another server.
func (s *start) moved() bool { return s.db.Epoch().Server != s.db.Server() }

// recordShorter records each partition that goes on in a later generation.
func (s *start) recordShorter(ctx context.Context) error {
	shorter := slices.DeleteFunc(slices.Clone(s.missed.parts), func(p part) bool { return !p.marked || p.end.Generation <= p.mark.Generation })
	if len(shorter) == 0 {
		return nil
	}
	return s.db.Change(ctx, func(tx *store.Tx) error {
		for _, p := range shorter {
			s.db.Logger().Warn("continued with a shorter log", "endedAt", p.reached().String(), "end", p.end.String())
			if err := tx.EmitSystem(ctx, rollbackOfLog, store.ByOperator(), sealer.Ref{Kind: "log", ID: "events"}, map[string]any{
				"endedAt": p.reached().String(), "continuedAt": p.end.String(),
			}); err != nil {
				return err
			}
		}
		return setHighWater(ctx, tx, s.missed.ends()...)
	})
}

// goOn continues with a database that is older than the log, or on a server that was promoted.
func (s *start) goOn(ctx context.Context, promoted bool) (*Search, error) {
	kind, was := rollbackOfDatabase, s.db.Epoch()
	if promoted {
		kind = promotion
	}
	reapplied, search, err := s.begin(ctx, kind)
	if err != nil {
		return nil, fmt.Errorf("cannot continue with an older database: %w", err)
	}
	message := "continued with an older database"
	if promoted {
		message = "continued on a database server that was promoted"
	}
	now := s.db.Epoch()
	s.db.Logger().Warn(message, "missed", s.missed.String(), "incarnation", now.Incarnation, "previous", was.Incarnation, "server", now.Server, "previousServer", was.Server)
	s.logStops(reapplied)
	if err := s.provable(ctx); err != nil {
		s.db.Logger().Error("continued with deliveries that can't be proven", "err", err)
	}
	return search, nil
}

// provable fails if the database still does not know a key that signed a delivery in the log.
func (s *start) provable(ctx context.Context) error {
	keys, err := s.keys(ctx, s.db.Read())
	for _, signer := range s.missed.signers {
		if err == nil && !keys[signer.keyID] {
			err = fmt.Errorf("the log holds %s: nothing could prove them", signer)
		}
	}
	return err
}

// BeginIncarnation begins the next incarnation of a restored database, beside the log that it
// continues with: h's, from ends on. All stops that h knows are re-applied; reapplied lists those
// that the database lacked, and an event records the restore. It fails if the key of a delivery in
// the log is unknown.
func (h History) BeginIncarnation(ctx context.Context, db *store.DB) (reapplied []string, ends []sealer.Position, err error) {
	s := start{History: h, db: db}
	if err := s.compare(ctx); err != nil {
		return nil, nil, err
	}
	if reapplied, _, err = s.begin(ctx, restored); err != nil {
		return nil, nil, err
	}
	return reapplied, s.missed.ends(), s.provable(ctx)
}

// begin begins a new incarnation of the database with all stops, and returns those that it
// lacked. All of it is one change. After a promotion that the log shows to have lost nothing it
// begins an epoch of the same incarnation.
func (s *start) begin(ctx context.Context, kind *store.Kind) (reapplied []string, search *Search, err error) {
	stops, err := s.findStops(ctx, kind)
	if err == nil {
		err = stops.readOn(ctx, s.Log)
	}
	if err != nil {
		return nil, nil, err
	}
	was, m := s.db.Epoch(), &s.missed
	next := store.Epoch{Incarnation: s.db.NewIncarnation(), Number: max(was.Number, m.epoch) + 1}
	by := store.ByOperator()
	if kind == promotion {
		by = store.BySystem()
	}
	if kind == promotion && !m.any() {
		next.Incarnation, next.Promotions = was.Incarnation, was.Promotions+1
	}
	err = s.db.BeginEpoch(ctx, next, func(tx *store.Tx) (err error) {
		if reapplied, err = s.replay(ctx, tx, stops, true); err != nil {
			return err
		}
		gaps := []map[string]string{}
		for _, p := range m.parts {
			if p.gap != nil {
				gaps = append(gaps, map[string]string{"from": p.gap.from.String(), "to": p.gap.to.String()})
			}
		}
		if err := tx.EmitSystem(ctx, kind, by, sealer.Ref{Kind: "database", ID: "control"}, map[string]any{
			"incarnation": next.Incarnation, "previous": was.Incarnation, "missed": m.events, "reapplied": len(reapplied),
			"logEnd": texts(m.ends()), "missedFrom": texts(m.firsts()), "gaps": gaps,
		}); err != nil {
			return err
		}
		return setHighWater(ctx, tx, m.ends()...)
	})
	return reapplied, s.search(stops), err
}
