package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"

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
// The log is the older one if it ends before the mark; then it refuses to open
// (pipeline/segment), and Reconcile records the operator's consent to go on. The
// database is the older one if the log holds events of control that it never
// numbered, or deliveries signed by keys that it does not know, or no longer holds
// all that came behind the mark; then Reconcile refuses. It reads the log from the
// mark on, which a healthy database keeps at most a second behind: every event before
// the mark was committed here before the mark was, and so was every key. A database
// that never had a mark, or one of another generation, has the whole log read.
//
// Accepted, an older database begins a new life (incarnation), which makes every
// node forget what it knew, and first learns what was stopped meanwhile: see
// Replay. What else happened meanwhile to tenants, keys, bases and rights is gone
// from the database; the log and the warehouse still tell it.

// Partition is the one of the log that holds every tenant.
const Partition = 0

// Reader is the log as it is held against the database. The contract of the
// methods is pipeline.Reader's.
type Reader interface {
	Bounds(ctx context.Context, partition int32) (first, end sealer.Position, err error)
	Scan(ctx context.Context, from, to sealer.Position, fn func(sealer.Entry) error) error
}

// ErrOlder says that the database was restored from an older copy than the log.
// Nothing was changed.
var ErrOlder = errors.New("the database is older than the log")

// Replay brings into one room's tables what an event of control says was stopped
// or ended, and what must be known of it to verify evidence; changed is false when
// it says nothing of the kind, or nothing new. It is called with the events that an
// older database lacks, in their order, and an event may be about a record that
// the database lacks as well. A change of a right or key is published, as ever.
type Replay func(ctx context.Context, tx *Tx, e *sealer.Event) (changed bool, err error)

// History is what Reconcile works with.
type History struct {
	// Log is open, and nothing was appended to it since. Required.
	Log Reader
	// Loaded is how far the warehouse has loaded the log, nil if nothing is: a mark
	// like the database's own.
	Loaded *sealer.Position
	// Replays are those of all rooms that own states which an event may stop.
	Replays []Replay
	// Accept goes on with an older database, or a shorter log, instead of refusing.
	Accept bool
}

// Reconcile holds the database against the log, before anything else uses either.
// It fails with ErrOlder, or records what was accepted, as an event of the system's
// tenant: log.rollback_accepted, database.rollback_accepted.
func (db *DB) Reconcile(ctx context.Context, h History) error {
	mark, known, err := db.HighWater(ctx)
	if err != nil {
		return err
	}
	missed, err := db.missed(ctx, h.Log)
	if err != nil {
		return fmt.Errorf("cannot hold the database against the log: %w", err)
	}
	if missed.any() {
		if !h.Accept {
			return fmt.Errorf("%w: %s", ErrOlder, missed)
		}
		if err := db.restored(ctx, h, missed, "database.rollback_accepted"); err != nil {
			return fmt.Errorf("cannot go on with an older database: %w", err)
		}
		db.cfg.Logger.Warn("went on with an older database", "missed", missed.String(), "incarnation", db.incarnation)
		if err := db.provable(ctx, missed); err != nil {
			db.cfg.Logger.Error("went on with deliveries that can't be proven", "err", err)
		}
	}
	if !known || missed.end.Generation <= mark.Generation {
		return nil
	}
	if h.Loaded != nil && h.Loaded.Compare(mark) > 0 {
		mark = *h.Loaded
	}
	db.cfg.Logger.Warn("went on with a shorter log", "endedAt", mark.String(), "end", missed.end.String())
	return db.Change(ctx, func(tx *Tx) error {
		if err := tx.EmitSystem(ctx, "log.rollback_accepted", ByOperator(), sealer.Ref{Kind: "log", ID: "events"}, map[string]any{
			"endedAt": mark.String(), "continuedAt": missed.end.String(),
		}); err != nil {
			return err
		}
		return tx.setHighWater(ctx, missed.end)
	})
}

// number is what an audit event is known by: the life of the database that wrote
// it, and its place in that.
type number struct{ epoch, seq uint64 }

func (n number) after(m number) bool { return n.epoch > m.epoch || n.epoch == m.epoch && n.seq > m.seq }

// missed is what an older database lacks.
type missed struct {
	end sealer.Position // of the log
	// gap is set if the log no longer holds all that came behind the mark.
	gap *struct{ from, to sealer.Position }
	// first is where the first event stands that the database never numbered.
	first  sealer.Position
	events int
	epoch  uint64 // the newest of them
	// revision is the newest that one of them names.
	revision int64
	// signers are the keys of deliveries that the database does not know, and where
	// each of them first signed. Some of the events may tell of them.
	signers []signer
}

type signer struct {
	keyID string
	first sealer.Position
}

func (s signer) String() string {
	return fmt.Sprintf("deliveries signed by the key %s, which it does not know, from position %s on", s.keyID, s.first)
}

func (m *missed) any() bool { return m.gap != nil || m.events > 0 || len(m.signers) > 0 }

func (m missed) String() string {
	text := fmt.Sprintf("the log holds %d events of control that it never wrote, from position %s on", m.events, m.first)
	if m.events == 0 {
		text = "the log holds no events of control that it does not know"
	}
	for _, s := range m.signers {
		text += fmt.Sprintf("; the log holds %s", s)
	}
	if m.gap != nil {
		text += fmt.Sprintf("; what stood between %s and %s was removed from the log, so what was stopped there is unknown", m.gap.from, m.gap.to)
	}
	return text
}

// missed reads the log from the database's mark on.
func (db *DB) missed(ctx context.Context, log Reader) (m missed, err error) {
	first, end, err := log.Bounds(ctx, Partition)
	if err != nil {
		return m, err
	}
	m.end = end
	from, marked, err := db.HighWater(ctx)
	if err != nil {
		return m, err
	}
	if !marked {
		from = sealer.Position{Generation: first.Generation, Partition: Partition}
	}
	// An empty log of a later generation has just lost everything, not its beginning.
	if from.Compare(first) < 0 && (first != end || from.Generation == end.Generation) {
		m.gap = &struct{ from, to sealer.Position }{from, first}
	}
	if m.gap != nil || from.Generation < end.Generation {
		from = first
	}
	var known horizon
	if known.last, err = db.newestNumber(ctx); err == nil {
		known.keys, err = signingKeys(ctx, db.read)
	}
	if err != nil {
		return m, err
	}
	return m, known.beyond(ctx, log, from, end, func(e *sealer.Entry, keyID string) error {
		if keyID != "" {
			m.signers = append(m.signers, signer{keyID, e.Position})
			known.keys[keyID] = true
			return nil
		}
		if m.events == 0 {
			m.first = e.Position
		}
		m.events++
		m.epoch = max(m.epoch, e.Epoch)
		event, err := sealer.ParseEvent(e.Event)
		if err != nil {
			return err
		}
		m.revision = max(m.revision, revisionOf(&event))
		return nil
	})
}

// horizon is how far a database knows the log: by the events of control that it has
// numbered, and the keys that may have signed deliveries.
type horizon struct {
	last number
	keys map[string]bool // nil: of no interest
}

// beyond calls fn for what a database can't know: events of control behind its
// number, and deliveries signed by other keys, with the id of the key.
func (h horizon) beyond(ctx context.Context, log Reader, from, to sealer.Position, fn func(e *sealer.Entry, keyID string) error) error {
	return log.Scan(ctx, from, to, func(e sealer.Entry) error {
		keyID := ""
		switch {
		case e.Node == Node:
			if !(number{e.Epoch, e.Seq}).after(h.last) {
				return nil
			}
		case h.keys == nil:
			return nil
		default:
			if keyID = signedBy(e.Event); keyID == "" || h.keys[keyID] {
				return nil
			}
		}
		if err := fn(&e, keyID); err != nil {
			return fmt.Errorf("record at %s: %w", e.Position, err)
		}
		return nil
	})
}

// signedBy is the key that a delivery names, "" for another event.
func signedBy(event []byte) string {
	parts, err := sealer.SplitDelivery(event)
	var signature struct {
		KeyID string `json:"keyId"`
	}
	if err != nil || json.Unmarshal(parts.Signature, &signature) != nil {
		return ""
	}
	return signature.KeyID
}

// signingKeys are the ids of all keys. The table is control/node's.
func signingKeys(ctx context.Context, db *sql.DB) (map[string]bool, error) {
	rows, err := db.QueryContext(ctx, `SELECT key_id FROM signing_keys`)
	if err != nil {
		return nil, fmt.Errorf("cannot list the signing keys: %w", err)
	}
	defer rows.Close()
	keys := map[string]bool{}
	for rows.Next() {
		var id string
		if err := rows.Scan(&id); err != nil {
			return nil, fmt.Errorf("cannot list the signing keys: %w", err)
		}
		keys[id] = true
	}
	return keys, rows.Err()
}

// provable says whether the database knows by now who signed what it had missed.
func (db *DB) provable(ctx context.Context, m missed) error {
	keys, err := signingKeys(ctx, db.read)
	for _, s := range m.signers {
		if err == nil && !keys[s.keyID] {
			err = fmt.Errorf("the log holds %s: nothing could prove them", s)
		}
	}
	return err
}

// newestNumber is the newest that the database has given.
func (db *DB) newestNumber(ctx context.Context) (n number, err error) {
	n.epoch = db.epoch
	if err = db.read.QueryRowContext(ctx, `SELECT value FROM counters WHERE name = 'outbox'`).Scan(&n.seq); err != nil {
		err = fmt.Errorf("cannot read the outbox's counter: %w", err)
	}
	return n, err
}

// revisionOf reads the revision that a record's event names, 0 when it names none.
func revisionOf(e *sealer.Event) int64 {
	var record struct {
		Revision int64 `json:"revision"`
	}
	if json.Unmarshal(e.Data, &record) != nil {
		return 0
	}
	return record.Revision
}

// restored begins a new life of the database, with all that was stopped in the
// part of history that it lacks. All of it is one change.
func (db *DB) restored(ctx context.Context, h History, m missed, eventType string) error {
	last, err := db.newestNumber(ctx)
	if err != nil {
		return err
	}
	epoch, incarnation := max(db.epoch, m.epoch)+1, api.NewID(prefixIncarnation, db.Now())
	err = db.Change(ctx, func(tx *Tx) error {
		if err := tx.begin(ctx, epoch, incarnation); err != nil {
			return err
		}
		tx.epoch = epoch
		// The numbers of events begin anew. Revisions go on behind those that the lost
		// part of history has given, so none names two states.
		if _, err := tx.ExecContext(ctx, `UPDATE counters SET value = 0 WHERE name = 'outbox'`); err != nil {
			return fmt.Errorf("cannot begin the outbox's counter anew: %w", err)
		}
		if _, err := tx.ExecContext(ctx, `UPDATE counters SET value = $1 WHERE name = 'revision' AND value < $1`, m.revision); err != nil {
			return fmt.Errorf("cannot move the revision counter on: %w", err)
		}
		changed, err := tx.replay(ctx, h, m, last)
		if err != nil {
			return err
		}
		data := map[string]any{
			"incarnation": incarnation, "previous": db.incarnation, "missed": m.events, "reapplied": changed, "logEnd": m.end.String(),
		}
		if m.events > 0 {
			data["missedFrom"] = m.first.String()
		}
		if m.gap != nil {
			data["gapFrom"], data["gapTo"] = m.gap.from.String(), m.gap.to.String()
		}
		if err := tx.EmitSystem(ctx, eventType, ByOperator(), sealer.Ref{Kind: "database", ID: "control"}, data); err != nil {
			return err
		}
		return tx.setHighWater(ctx, m.end)
	})
	if err == nil {
		db.epoch, db.incarnation = epoch, incarnation
	}
	return err
}

// replay hands every missed event to every room.
func (tx *Tx) replay(ctx context.Context, h History, m missed, last number) (changed int, err error) {
	if m.events == 0 {
		return 0, nil
	}
	err = horizon{last: last}.beyond(ctx, h.Log, m.first, m.end, func(e *sealer.Entry, _ string) error {
		event, err := sealer.ParseEvent(e.Event)
		if err != nil {
			return err
		}
		for _, replay := range h.Replays {
			did, err := replay(ctx, tx, &event)
			if err != nil {
				return fmt.Errorf("%s of %s: %w", event.Type, event.Subject.ID, err)
			}
			if did {
				changed++
			}
		}
		return nil
	})
	return changed, err
}

// EmitSystem emits an event of the system's tenant, with record as its data: an event
// of nodes, signing keys, or of the database itself.
func (tx *Tx) EmitSystem(ctx context.Context, eventType string, by, subject sealer.Ref, record any) error {
	data, err := sealer.Canonical(record)
	if err != nil {
		return err
	}
	return tx.Emit(ctx, sealer.Event{TenantID: api.SystemTenant, Type: eventType, Actor: by, Subject: subject, Data: data})
}
