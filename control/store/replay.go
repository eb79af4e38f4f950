package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"muniment/sealer"
)

// # Stops
//
// Whoever can write the database's file can make a revoked right or API key live again
// there, in the feed and in every counter, but not undo the event that told of it. So the
// database is held against the stops that the events tell of, whatever revisions it names:
//
//   - a restore reads all events: those of the log, of the packs and of the warehouse;
//   - a start reads what came into the log since the last start: the newest startReads records
//     before the service is ready, what stands before them afterwards (SearchStops). Only if
//     it can't know where the last start was, it reads all events;
//   - a start that accepts an older database reads from the position that this names.
//
// What is missing or undone is in force again, by a change of its own revision. A stop that
// was lifted since is none, but nothing is lifted here.

// startReads is how many records a start reads, of all partitions together, to find stops:
// the service must be ready in seconds however long it ran before.
const startReads = 250_000

// Replay brings into one room's tables what the events of control say was stopped or
// ended, and what must be known of it to verify evidence.
type Replay struct {
	// Kinds are what the events are about, as their subject says.
	Kinds []string
	// Newest says that the event with the newest record of a subject tells all of it; the
	// others are not replayed. A record without a revision is none.
	Newest bool
	// Final says of a record that nothing comes after it: a newer one, which only an edited
	// database can have told, does not count. nil: no record is final.
	Final func(record []byte) bool
	// Apply returns changed false when an event says nothing of the kind, or nothing that
	// the database does not show. The event may be about a record that the database lacks,
	// and older than what the database has. A change of a right or key is published, as ever.
	Apply func(ctx context.Context, tx *Tx, e *sealer.Event) (changed bool, err error)
}

// stops are the events to be replayed.
type stops struct {
	replays  []Replay
	events   []replayed
	newest   map[subject]int // where in events
	known    map[string]bool // ids of the events that are not in newest
	revision int64           // the newest that an event names
	left     []stretch       // of the log, that were not read yet
}

// stretch is a part of the log: from ≤ position < to.
type stretch struct{ from, to sealer.Position }

type replayed struct {
	sealer.Event
	revision int64
	final    bool
	apply    func(ctx context.Context, tx *Tx, e *sealer.Event) (changed bool, err error)
}

type subject struct {
	tenantID string
	sealer.Ref
}

func newStops(replays []Replay) *stops {
	return &stops{replays: replays, newest: map[subject]int{}, known: map[string]bool{}}
}

// deliveryEnd ends the text of every delivery, and of no other event.
var deliveryEnd = []byte(`,"type":"` + sealer.TypeDelivery + `","v":1}`)

// take takes an event in. The order does not matter, nor how often one is taken. What is
// no event stops nothing.
func (s *stops) take(text []byte) error {
	if bytes.HasSuffix(text, deliveryEnd) {
		return nil
	}
	e, err := sealer.ParseEvent(bytes.Clone(text))
	if err != nil {
		return nil
	}
	for i := range s.replays {
		if r := &s.replays[i]; slices.Contains(r.Kinds, e.Subject.Kind) {
			s.add(r, replayed{e, revisionOf(&e), r.Final != nil && r.Final(e.Data), r.Apply})
		}
	}
	return nil
}

// maxRevision is one that no database gets to: whoever writes it into the log has made it up,
// and must not use up the revisions.
const maxRevision = 1 << 52

func (s *stops) add(r *Replay, e replayed) {
	if e.revision > maxRevision {
		return
	}
	s.revision = max(s.revision, e.revision)
	if !r.Newest {
		if !s.known[e.EventID] {
			s.known[e.EventID] = true
			s.events = append(s.events, e)
		}
		return
	}
	of := subject{e.TenantID, e.Subject}
	i, known := s.newest[of]
	switch {
	case e.revision == 0:
	case !known:
		s.newest[of] = len(s.events)
		s.events = append(s.events, e)
	case s.events[i].final && !e.final:
	case e.revision > s.events[i].revision, e.final && !s.events[i].final:
		s.events[i] = e
	}
}

// scan takes the events of control in a stretch of the log.
func (s *stops) scan(ctx context.Context, log Reader, from, to sealer.Position) error {
	if from == to {
		return nil
	}
	return log.Scan(ctx, from, to, func(e sealer.Entry) error {
		if e.Node != Node {
			return nil
		}
		return s.take(e.Event)
	})
}

// stopsFrom says from where on a start has to read a partition, at most its newest records;
// ok is false if it can't know. mark is where the last start ended. One that accepts an
// older database reads from its mark on, or everything if that is gone.
func (p *part) stopsFrom(mark sealer.Position, most int64, older bool) (from sealer.Position, ok bool) {
	if older && p.mark.Compare(mark) < 0 {
		mark = p.mark
	}
	if mark.Generation != p.end.Generation || mark.Compare(p.end) > 0 || older && mark.Compare(p.begin) < 0 {
		return from, false
	}
	if !older {
		mark.Offset = max(mark.Offset, p.begin.Offset, p.end.Offset-most)
	}
	return mark, true
}

// findStops reads the events that the database is to be held against: all of them, or
// those that came since the last time.
func (db *DB) findStops(ctx context.Context, h History, m missed, all bool) (*stops, error) {
	marks, err := positions(ctx, db.read, stopMarks)
	if err != nil {
		return nil, err
	}
	from := make([]sealer.Position, len(m.parts))
	var left []stretch
	for i := range m.parts {
		mark, marked := marks[int32(i)]
		var known bool
		from[i], known = m.parts[i].stopsFrom(mark, startReads/int64(len(m.parts)), m.any())
		all = all || !marked || !known
		if mark.Offset = max(mark.Offset, m.parts[i].begin.Offset); !m.any() && mark.Compare(from[i]) < 0 {
			left = append(left, stretch{mark, from[i]})
		}
	}
	s := newStops(h.Replays)
	if !all {
		s.left = left
	}
	if all && h.Older != nil {
		if err := h.Older(ctx, s.take); err != nil {
			return nil, fmt.Errorf("cannot read what was stopped before the log begins: %w", err)
		}
	}
	for i := range m.parts {
		p := &m.parts[i]
		if all {
			from[i] = p.begin
		}
		if err := s.scan(ctx, h.Log, from[i], p.end); err != nil {
			return nil, fmt.Errorf("cannot read what was stopped: %w", err)
		}
	}
	return s, nil
}

// replay applies the stops, and says what each of them was that the database did not show.
// What was told since the stops were read is on its way to the log, or behind the ends that
// were read, which rescan reads on: it may be that a stop was lifted. Nobody else changes
// the database meanwhile.
func (tx *Tx) replay(ctx context.Context, h History, m missed, s *stops, rescan bool) (reapplied []string, err error) {
	pending, err := List(ctx, tx, "the outbox", Text, `SELECT event FROM outbox ORDER BY epoch, seq`)
	if err != nil {
		return nil, err
	}
	for _, text := range pending {
		if err := s.take([]byte(text)); err != nil {
			return nil, err
		}
	}
	for i := range m.parts {
		if !rescan {
			break
		}
		_, end, err := h.Log.Bounds(ctx, int32(i))
		if err == nil {
			err = s.scan(ctx, h.Log, m.parts[i].end, end)
		}
		if err != nil {
			return nil, err
		}
	}
	// Revisions go on behind those that were given, so none names two states.
	if _, err := tx.ExecContext(ctx, `UPDATE counters SET value = $1 WHERE name = 'revision' AND value < $1`, max(m.revision, s.revision)); err != nil {
		return nil, fmt.Errorf("cannot move the revision counter on: %w", err)
	}
	for i := range s.events {
		e := &s.events[i]
		did, err := e.apply(ctx, tx, &e.Event)
		if err != nil {
			return nil, fmt.Errorf("%s of %s: %w", e.Type, e.Subject.ID, err)
		}
		if did {
			reapplied = append(reapplied, fmt.Sprintf("%s: %s of %s", e.Type, e.Subject.ID, e.TenantID))
		}
	}
	ends := slices.DeleteFunc(m.ends(), func(end sealer.Position) bool {
		return slices.ContainsFunc(s.left, func(l stretch) bool { return l.to.Partition == end.Partition })
	})
	return reapplied, tx.setPositions(ctx, stopMarks, ends...)
}

// errUndone ends a change that would put a stop in force again.
var errUndone = errors.New("a stop is undone")

// holdStops puts in force again what was stopped since the last start and the database
// does not show, and tells of it. What it has not read is left to SearchStops.
func (db *DB) holdStops(ctx context.Context, h History, m missed) error {
	s, err := db.findStops(ctx, h, m, false)
	if err == nil {
		err = db.holdAgainst(ctx, h, m, s)
	}
	if err == nil && len(s.left) > 0 {
		db.unsearched = &unsearched{h, m, s}
	}
	return err
}

// holdAgainst puts in force again what the database does not show of some stops. All other
// processes wait for a change: it asks the log only if there seems to be something undone.
func (db *DB) holdAgainst(ctx context.Context, h History, m missed, s *stops) error {
	err := db.Change(ctx, func(tx *Tx) error {
		undone, err := tx.replay(ctx, h, m, s, false)
		if err == nil && len(undone) > 0 {
			err = errUndone
		}
		return err
	})
	if !errors.Is(err, errUndone) {
		return err
	}
	var reapplied []string
	err = db.Change(ctx, func(tx *Tx) (err error) {
		if reapplied, err = tx.replay(ctx, h, m, s, true); err != nil || len(reapplied) == 0 {
			return err
		}
		return tx.EmitSystem(ctx, "database.stops_reapplied", BySystem(), sealer.Ref{Kind: "database", ID: "control"},
			map[string]any{"reapplied": len(reapplied)})
	})
	if err == nil {
		db.logStops(reapplied)
	}
	return err
}

func (db *DB) logStops(reapplied []string) {
	for _, stop := range reapplied {
		db.cfg.Logger.Warn("the database did not show what the log says was stopped: it is in force again", "stop", stop)
	}
}
