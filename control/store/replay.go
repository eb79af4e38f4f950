package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"muniment.example/sealer"
)

// # Stops
//
// A person who can write the database's file can make a revoked right or API key active again
// there, but can't remove its event from the log. So the database is checked against the stops in
// the events, whatever its revisions are:
//
//   - a restore reads all events: those of the log, of the packs and of the warehouse;
//   - a start reads the records that came into the log since the last start: the newest startReads
//     of them before the service is ready, the others afterwards (SearchStops). If the position of
//     the last start is unknown, it reads all events;
//   - a start that accepts an older database reads from the position in that database;
//   - a start on a promoted standby reads from the high-water mark: nobody is served before, and every
//     event before the mark was committed before it. What came before, since the last start, is
//     searched afterwards.
//
// A stop that is missing or undone is re-applied, by a change with a revision of its own. A stop
// that was lifted later does not count, but nothing is lifted here.

// startReads is how many records a start reads, over all partitions, to find stops: the service
// must be ready in seconds however long it ran before.
const startReads = 250_000

// Replay applies events of control to one service's tables: what was stopped or ended, and what is
// needed to verify evidence.
type Replay struct {
	// Kinds are the kinds of the events' subjects.
	Kinds []string
	// Newest says that only the event with the newest record of a subject is replayed. A record
	// without a revision doesn't count.
	Newest bool
	// Missed says that only events which the database missed count: those with a higher revision
	// than its own, when it is an older copy. An edited database is not checked against them. It is
	// for records of which there may be millions, as the events that count are held in memory.
	Missed bool
	// Final says that a record can't change any more: a newer one, which only an edited database
	// can have emitted, doesn't count. nil: no record is final.
	Final func(record []byte) bool
	// Apply returns changed false if the event is of no interest, or the database has its effect
	// already. The event may be about a record that the database lacks, or older than the
	// database's record. A change of a right or key is published, as usual.
	Apply func(ctx context.Context, tx *Tx, e *sealer.Event) (changed bool, err error)
}

// stops are the events to be replayed.
type stops struct {
	replays  []Replay
	events   []replayed
	newest   map[subject]int   // where in events
	known    map[string]bool   // ids of the events that are not in newest
	revision int64             // the newest that an event names
	has      int64             // the database's revision when it was opened
	left     []span            // of the log, that were not read yet
	ends     []sealer.Position // up to which each partition was read, but for left
}

// span is a part of the log: from ≤ position < to.
type span struct{ from, to sealer.Position }

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

func newStops(replays []Replay, has int64) *stops {
	return &stops{replays: replays, has: has, newest: map[subject]int{}, known: map[string]bool{}}
}

// deliveryEnd ends the text of every delivery, and of no other event.
var deliveryEnd = []byte(`,"type":"` + sealer.TypeDelivery + `","v":1}`)

// take adds an event, in any order and any number of times. Text that is no event is ignored.
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

// maxRevision is higher than any revision that a database reaches. An event with a higher one is
// forged, and must not use up the revisions.
const maxRevision = 1 << 52

func (s *stops) add(r *Replay, e replayed) {
	if e.revision > maxRevision {
		return
	}
	s.revision = max(s.revision, e.revision)
	if r.Missed && e.revision <= s.has {
		return
	}
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

// scan adds the events of control in a span of the log.
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

// scanOn adds the events that came since, and returns how many records of the log it has read.
func (s *stops) scanOn(ctx context.Context, log Reader) (n int64, err error) {
	for i := range s.ends {
		_, end, err := log.Bounds(ctx, int32(i))
		if err == nil {
			err = s.scan(ctx, log, s.ends[i], end)
		}
		if err != nil {
			return n, fmt.Errorf("cannot read the log's stops: %w", err)
		}
		n += end.Offset - s.ends[i].Offset
		s.ends[i] = end
	}
	return n, nil
}

// readOn repeats scanOn until little has come meanwhile: what is left is read within a change, which
// PostgreSQL ends if it takes stallLimit.
func (s *stops) readOn(ctx context.Context, log Reader) error {
	for {
		if n, err := s.scanOn(ctx, log); err != nil || n <= searchReads {
			return err
		}
	}
}

// stopsFrom returns the position from which a start has to read a partition; ok is false if it is
// unknown. mark is where the last start ended. kind is that of the start's event, as restored has it:
// nil reads at most the newest records, promotion from the high-water mark on, and an older database
// from its mark on, or everything if the log no longer holds that.
func (p *part) stopsFrom(mark sealer.Position, most int64, kind *Kind) (from sealer.Position, ok bool) {
	older := kind != nil && kind != promotion
	if older && p.mark.Compare(mark) < 0 {
		mark = p.mark
	}
	if mark.Generation != p.end.Generation || mark.Compare(p.end) > 0 || older && mark.Compare(p.begin) < 0 {
		return from, false
	}
	switch kind {
	case nil:
		mark.Offset = max(mark.Offset, p.begin.Offset, p.end.Offset-most)
	case promotion:
		return p.mark, p.marked && p.mark.Generation == p.end.Generation
	}
	return mark, true
}

// findStops reads the events that the database is checked against: all of them after a restore, else
// those that stopsFrom names. kind is that of restored, nil at a start that continues nothing.
func (db *reconciler) findStops(ctx context.Context, h History, m missed, kind *Kind) (*stops, error) {
	all := kind == restored
	marks, err := positions(ctx, db.read, stopMarks)
	if err != nil {
		return nil, err
	}
	from := make([]sealer.Position, len(m.parts))
	var left []span
	for i := range m.parts {
		mark, marked := marks[int32(i)]
		var known bool
		from[i], known = m.parts[i].stopsFrom(mark, startReads/int64(len(m.parts)), kind)
		all = all || !marked || !known
		if mark.Offset = max(mark.Offset, m.parts[i].begin.Offset); mark.Compare(from[i]) < 0 {
			left = append(left, span{mark, from[i]})
		}
	}
	var has int64
	if err := db.read.QueryRowContext(ctx, `SELECT value FROM counters WHERE name = 'revision'`).Scan(&has); err != nil {
		return nil, fmt.Errorf("cannot read the database's revision: %w", err)
	}
	s := newStops(h.Replays, has)
	s.ends = m.ends()
	if !all {
		s.left = left
	}
	if all && h.Older != nil {
		if err := h.Older(ctx, s.take); err != nil {
			return nil, fmt.Errorf("cannot read the stops before the log's beginning: %w", err)
		}
	}
	for i := range m.parts {
		p := &m.parts[i]
		if all {
			from[i] = p.begin
		}
		if err := s.scan(ctx, h.Log, from[i], p.end); err != nil {
			return nil, fmt.Errorf("cannot read the log's stops: %w", err)
		}
	}
	return s, nil
}

// replay applies the stops, and describes each that the database lacked. Events since the stops
// were read are in the outbox, or in the log behind the ends that were read, which rescan reads
// too, since one of them may lift a stop. No other change runs meanwhile, so the caller has read on
// before (readOn).
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
	if rescan {
		if _, err := s.scanOn(ctx, h.Log); err != nil {
			return nil, err
		}
	}
	// Revisions continue after those that were given, so that none names two states.
	if _, err := tx.ExecContext(ctx, `UPDATE counters SET value = $1 WHERE name = 'revision' AND value < $1`, max(m.revision, s.revision)); err != nil {
		return nil, fmt.Errorf("cannot raise the revision counter: %w", err)
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
	ends := slices.DeleteFunc(slices.Clone(s.ends), func(end sealer.Position) bool {
		return slices.ContainsFunc(s.left, func(l span) bool { return l.to.Partition == end.Partition })
	})
	return reapplied, tx.setPositions(ctx, stopMarks, ends...)
}

// errUndone ends a change that would re-apply a stop.
var errUndone = errors.New("a stop is undone")

// holdStops re-applies the stops since the last start that the database lacks, and records it in an
// event. SearchStops reads what it has not read.
func (db *reconciler) holdStops(ctx context.Context, h History, m missed) error {
	s, err := db.findStops(ctx, h, m, nil)
	if err == nil {
		err = db.holdAgainst(ctx, h, m, s)
	}
	if err == nil {
		db.leave(h, m, s)
	}
	return err
}

// leave leaves what was not read to SearchStops.
func (db *reconciler) leave(h History, m missed, s *stops) {
	if len(s.left) > 0 {
		db.unsearched = &unsearched{h, m, s}
	}
}

// holdAgainst re-applies those of some stops that the database lacks. All other processes wait
// while a change runs, so it reads the log again only if a stop seems to be undone.
func (db *reconciler) holdAgainst(ctx context.Context, h History, m missed, s *stops) error {
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
	if err := s.readOn(ctx, h.Log); err != nil {
		return err
	}
	var reapplied []string
	err = db.Change(ctx, func(tx *Tx) (err error) {
		if reapplied, err = tx.replay(ctx, h, m, s, true); err != nil || len(reapplied) == 0 {
			return err
		}
		return tx.EmitSystem(ctx, stopsReapplied, BySystem(), sealer.Ref{Kind: "database", ID: "control"},
			map[string]any{"reapplied": len(reapplied)})
	})
	if err == nil {
		db.logStops(reapplied)
	}
	return err
}

func (db *reconciler) logStops(reapplied []string) {
	for _, stop := range reapplied {
		db.cfg.Logger.Warn("the database lacked a stop that is in the log: it was re-applied", "stop", stop)
	}
}
