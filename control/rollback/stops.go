package rollback

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"muniment.example/control/store"
	"muniment.example/pipeline"
	"muniment.example/sealer"
)

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
	Apply func(ctx context.Context, tx *store.Tx, e *sealer.Event) (changed bool, err error)
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
	apply    func(ctx context.Context, tx *store.Tx, e *sealer.Event) (changed bool, err error)
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
			s.add(r, replayed{e, store.RevisionOf(&e), r.Final != nil && r.Final(e.Data), r.Apply})
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
		if e.Node != store.Node {
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
func (p *part) stopsFrom(mark sealer.Position, most int64, kind *store.Kind) (from sealer.Position, ok bool) {
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
func (s *start) findStops(ctx context.Context, kind *store.Kind) (*stops, error) {
	m := &s.missed
	all := kind == restored
	marks, err := positions(ctx, s.db.Read(), stopMarks)
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
	head, err := store.ReadHead(ctx, s.db.Read())
	if err != nil {
		return nil, err
	}
	found := newStops(s.Replays, head.Revision)
	found.ends = m.ends()
	if !all {
		found.left = left
	}
	if all && s.Older != nil {
		if err := s.Older(ctx, found.take); err != nil {
			return nil, fmt.Errorf("cannot read the stops before the log's beginning: %w", err)
		}
	}
	for i := range m.parts {
		p := &m.parts[i]
		if all {
			from[i] = p.begin
		}
		if err := found.scan(ctx, s.Log, from[i], p.end); err != nil {
			return nil, fmt.Errorf("cannot read the log's stops: %w", err)
		}
	}
	return found, nil
}

// replay applies the stops, and describes each that the database lacked. Events since the stops
// were read are in the outbox, or in the log behind the ends that were read, which rescan reads
// too, since one of them may lift a stop. No other change runs meanwhile, so the caller has read on
// before (readOn).
func (s *start) replay(ctx context.Context, tx *store.Tx, found *stops, rescan bool) (reapplied []string, err error) {
	pending, err := tx.Outbox(ctx)
	if err != nil {
		return nil, err
	}
	for _, text := range pending {
		if err := found.take([]byte(text)); err != nil {
			return nil, err
		}
	}
	if rescan {
		if _, err := found.scanOn(ctx, s.Log); err != nil {
			return nil, err
		}
	}
	// Revisions continue after those that were given, so that none names two states.
	if err := tx.RaiseRevision(ctx, max(s.missed.revision, found.revision)); err != nil {
		return nil, err
	}
	for i := range found.events {
		e := &found.events[i]
		did, err := e.apply(ctx, tx, &e.Event)
		if err != nil {
			return nil, fmt.Errorf("%s of %s: %w", e.Type, e.Subject.ID, err)
		}
		if did {
			reapplied = append(reapplied, fmt.Sprintf("%s: %s of %s", e.Type, e.Subject.ID, e.TenantID))
		}
	}
	ends := slices.DeleteFunc(slices.Clone(found.ends), func(end sealer.Position) bool {
		return slices.ContainsFunc(found.left, func(l span) bool { return l.to.Partition == end.Partition })
	})
	return reapplied, setPositions(ctx, tx, stopMarks, ends...)
}

// errUndone ends a change that would re-apply a stop.
var errUndone = errors.New("a stop is undone")

// holdStops re-applies the stops since the last start that the database lacks, and records it in an
// event. The search reads what it has not read.
func (s *start) holdStops(ctx context.Context) (*Search, error) {
	found, err := s.findStops(ctx, nil)
	if err == nil {
		err = s.holdAgainst(ctx, found)
	}
	if err != nil {
		return nil, err
	}
	return s.search(found), nil
}

// holdAgainst re-applies those of some stops that the database lacks. All other processes wait
// while a change runs, so it reads the log again only if a stop seems to be undone.
func (s *start) holdAgainst(ctx context.Context, found *stops) error {
	err := s.db.Change(ctx, func(tx *store.Tx) error {
		undone, err := s.replay(ctx, tx, found, false)
		if err == nil && len(undone) > 0 {
			err = errUndone
		}
		return err
	})
	if !errors.Is(err, errUndone) {
		return err
	}
	if err := found.readOn(ctx, s.Log); err != nil {
		return err
	}
	var reapplied []string
	err = s.db.Change(ctx, func(tx *store.Tx) (err error) {
		if reapplied, err = s.replay(ctx, tx, found, true); err != nil || len(reapplied) == 0 {
			return err
		}
		return tx.EmitSystem(ctx, stopsReapplied, store.BySystem(), sealer.Ref{Kind: "database", ID: "control"},
			map[string]any{"reapplied": len(reapplied)})
	})
	if err == nil {
		s.logStops(reapplied)
	}
	return err
}

func (s *start) logStops(reapplied []string) {
	for _, stop := range reapplied {
		s.db.Logger().Warn("the database lacked a stop that is in the log: it was re-applied", "stop", stop)
	}
}

// A search reads searchReads records and then pauses. It takes a few percent of a processor, and
// 30 MB a second of a disk.
const (
	searchReads = 10_000
	searchPause = 500 * time.Millisecond
	searchRetry = 10 * time.Second
)

// Search is for the part of the log that a start has left out so that the service is ready soon.
type Search struct {
	start *start
	found *stops // so far
}

// search is what a start leaves, nil for nothing.
func (s *start) search(found *stops) *Search {
	if found == nil || len(found.left) == 0 {
		return nil
	}
	return &Search{s, found}
}

// Run reads that part, and re-applies the stops that the database lacked. Only then does the next start
// read less, so nothing is skipped if the process ends before. It returns nil when it is done, or when ctx
// is; History.Log must outlive it. A nil search has nothing to do. Call it once.
func (s *Search) Run(ctx context.Context) error {
	if s == nil {
		return nil
	}
	logger := s.start.db.Logger()
	logger.Info("searching the log since the last start for stops", "partitions", len(s.found.left))
	for {
		err := s.read(ctx)
		if err == nil {
			s.found.left = nil
			err = s.start.holdAgainst(ctx, s.found)
		}
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil:
			logger.Info("searched the log since the last start for stops")
			return nil
		}
		logger.Warn("cannot search the log since the last start for stops, retrying", "err", err)
		if pipeline.Pause(ctx, searchRetry) != nil {
			return nil
		}
	}
}

// read reads what is left, and then what came meanwhile, since a stop may have been lifted.
func (s *Search) read(ctx context.Context) error {
	for i := range s.found.left {
		if err := s.readSpan(ctx, &s.found.left[i].from, s.found.left[i].to); err != nil {
			return err
		}
	}
	for i := range s.found.ends {
		_, end, err := s.start.Log.Bounds(ctx, int32(i))
		if err != nil {
			return err
		}
		if err := s.readSpan(ctx, &s.found.ends[i], end); err != nil {
			return err
		}
	}
	return nil
}

// readSpan adds the stops of a span, and advances from. Records that the log no longer holds are
// skipped.
func (s *Search) readSpan(ctx context.Context, from *sealer.Position, to sealer.Position) error {
	log := s.start.Log
	for from.Compare(to) < 0 {
		first, _, err := log.Bounds(ctx, from.Partition)
		if err != nil {
			return err
		}
		if from.Offset = max(from.Offset, first.Offset); from.Compare(to) >= 0 {
			break
		}
		some := to
		some.Offset = min(to.Offset, from.Offset+searchReads)
		if err := s.found.scan(ctx, log, *from, some); err != nil {
			return err
		}
		if *from = some; some != to {
			if err := pipeline.Pause(ctx, searchPause); err != nil {
				return err
			}
		}
	}
	return nil
}
