package store

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"muniment/gateway/api"
	"muniment/sealer"
)

// # Two histories
//
// The database and the log tell one history, each half of it in the other: the
// database keeps the log's high-water mark, and every audit event stands in the
// log under the epoch and number that the database gave it. So when one of them
// comes back from an older copy, the other knows.
//
// A log of several partitions has a mark for each, and they are held against it one by
// one. All records of a tenant are in one partition, so its own history is in order.
//
// The log is the older one if a partition ends before its mark. The log of a data folder
// refuses to open then (pipeline/segment), and goes on in a later generation once the
// operator consents, which Reconcile records. A log that has lost its end within one
// generation is refused in any case: other records will get those positions. The
// database is the older one if the log holds events of control that it never
// numbered, or deliveries signed by keys that it does not know, or no longer holds
// all that came behind the mark; then Reconcile refuses. It reads the log from the
// mark on, which a healthy database keeps at most a second behind: every event before
// the mark was committed here before the mark was, and so was every key. A database
// that never had a mark, or one of another generation, has the whole log read.
//
// Accepted, an older database begins a new life (incarnation), which makes every
// node forget what it knew, and first learns what was stopped meanwhile (replay.go). What
// else happened meanwhile to tenants, keys, bases and rights is gone from the database;
// the log and the warehouse still tell it.

// Reader is the log as it is held against the database. The contract of the
// methods is pipeline.Reader's.
type Reader interface {
	Partitions(ctx context.Context) (int, error)
	Bounds(ctx context.Context, partition int32) (first, end sealer.Position, err error)
	Scan(ctx context.Context, from, to sealer.Position, fn func(sealer.Entry) error) error
}

// eventRestored tells of a restore.
const eventRestored = "database.restored"

// ErrOlder says that the database was restored from an older copy than the log.
// Nothing was changed.
var ErrOlder = errors.New("the database is older than the log")

// Loaded says how far a warehouse is, with the contract of pipeline.Sink.
type Loaded interface {
	Resume(ctx context.Context, partition int32) (next sealer.Position, ok bool, err error)
}

// History is what Reconcile works with.
type History struct {
	// Log is open. Other processes of this database may append to it meanwhile. Required.
	Log Reader
	// Loaded is how far the warehouse has loaded each partition: marks like the
	// database's own. nil leaves them out.
	Loaded Loaded
	// Keys lists the ids of all signing keys that a database knows; nil: it knows none.
	Keys func(ctx context.Context, q Querier) (ids []string, err error)
	// Replays are those of all rooms that own states which an event may stop.
	Replays []Replay
	// Older hands over events that the log may hold no more, as those of packs are, in any
	// order. It is called only if all events are needed. nil: there are none.
	Older func(ctx context.Context, take func(event []byte) error) error
	// Accept goes on with an older database, or a shorter log, instead of refusing.
	Accept bool
}

// Reconcile holds the database against the log, before anything else uses either.
// It fails with ErrOlder, or records what was accepted, as events of the system's
// tenant: database.rollback_accepted, and log.rollback_accepted for each partition. What
// was stopped and the database does not show is in force again when it returns nil.
func (db *DB) Reconcile(ctx context.Context, h History) error {
	missed, err := db.missed(ctx, h)
	if err != nil {
		return fmt.Errorf("cannot hold the database against the log: %w", err)
	}
	if missed.any() {
		if !h.Accept {
			return fmt.Errorf("%w: %s", ErrOlder, missed)
		}
		reapplied, err := db.restored(ctx, h, missed, "database.rollback_accepted")
		if err != nil {
			return fmt.Errorf("cannot go on with an older database: %w", err)
		}
		db.cfg.Logger.Warn("went on with an older database", "missed", missed.String(), "incarnation", db.incarnation)
		db.logStops(reapplied)
		if err := db.provable(ctx, h, missed); err != nil {
			db.cfg.Logger.Error("went on with deliveries that can't be proven", "err", err)
		}
	} else if err := db.holdStops(ctx, h, missed); err != nil {
		return fmt.Errorf("cannot hold the database against what was stopped: %w", err)
	}
	shorter := slices.DeleteFunc(slices.Clone(missed.parts), func(p part) bool { return !p.marked || p.end.Generation <= p.mark.Generation })
	if len(shorter) == 0 {
		return nil
	}
	return db.Change(ctx, func(tx *Tx) error {
		for _, p := range shorter {
			db.cfg.Logger.Warn("went on with a shorter log", "endedAt", p.reached().String(), "end", p.end.String())
			if err := tx.EmitSystem(ctx, "log.rollback_accepted", ByOperator(), sealer.Ref{Kind: "log", ID: "events"}, map[string]any{
				"endedAt": p.reached().String(), "continuedAt": p.end.String(),
			}); err != nil {
				return err
			}
		}
		return tx.setHighWater(ctx, missed.ends()...)
	})
}

// provable says whether the database knows by now who signed what it had missed.
func (db *DB) provable(ctx context.Context, h History, m missed) error {
	keys, err := h.keys(ctx, db.read)
	for _, s := range m.signers {
		if err == nil && !keys[s.keyID] {
			err = fmt.Errorf("the log holds %s: nothing could prove them", s)
		}
	}
	return err
}

// NextLife begins the next life of a database that came out of a backup, beside the log that
// it goes on with: h's, from ends on. What was stopped in anything that h knows is in force,
// reapplied is what of that the database did not show, and an event tells of it. It fails if
// nothing could prove who signed a delivery in the log.
func (db *DB) NextLife(ctx context.Context, h History) (reapplied []string, ends []sealer.Position, err error) {
	missed, err := db.missed(ctx, h)
	if err != nil {
		return nil, nil, err
	}
	if reapplied, err = db.restored(ctx, h, missed, eventRestored); err != nil {
		return nil, nil, err
	}
	return reapplied, missed.ends(), db.provable(ctx, h, missed)
}

// restored begins a new life of the database, with all that was stopped, and says what of
// that it did not show. All of it is one change.
func (db *DB) restored(ctx context.Context, h History, m missed, eventType string) (reapplied []string, err error) {
	stops, err := db.findStops(ctx, h, m, eventType == eventRestored)
	if err != nil {
		return nil, err
	}
	epoch, incarnation := max(db.epoch, m.epoch)+1, api.NewID(prefixIncarnation, db.Now())
	err = db.Change(ctx, func(tx *Tx) error {
		if err := tx.begin(ctx, epoch, incarnation); err != nil {
			return err
		}
		tx.epoch = epoch
		if reapplied, err = tx.replay(ctx, h, m, stops, true); err != nil {
			return err
		}
		// The numbers of events begin anew.
		if _, err := tx.ExecContext(ctx, `UPDATE counters SET value = 0 WHERE name = 'outbox'`); err != nil {
			return fmt.Errorf("cannot begin the outbox's counter anew: %w", err)
		}
		data := map[string]any{
			"incarnation": incarnation, "previous": db.incarnation, "missed": m.events, "reapplied": len(reapplied),
			"logEnd": texts(m.ends()), "missedFrom": texts(m.firsts()),
		}
		gaps := []map[string]string{}
		for _, p := range m.parts {
			if p.gap != nil {
				gaps = append(gaps, map[string]string{"from": p.gap.from.String(), "to": p.gap.to.String()})
			}
		}
		data["gaps"] = gaps
		if err := tx.EmitSystem(ctx, eventType, ByOperator(), sealer.Ref{Kind: "database", ID: "control"}, data); err != nil {
			return err
		}
		return tx.setHighWater(ctx, m.ends()...)
	})
	if err == nil {
		db.epoch, db.incarnation = epoch, incarnation
	}
	return reapplied, err
}

// EmitSystem emits an event of the system's tenant, with record as its data: an event
// of nodes, signing keys, or of the database itself.
func (tx *Tx) EmitSystem(ctx context.Context, eventType string, by, subject sealer.Ref, record any) error {
	return tx.EmitRecord(ctx, sealer.Event{TenantID: api.SystemTenant, Type: eventType, Actor: by, Subject: subject}, record)
}
