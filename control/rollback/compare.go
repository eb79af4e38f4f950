package rollback

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"muniment.example/control/store"
	"muniment.example/sealer"
)

// missed lists what an older database lacks.
type missed struct {
	parts  []part
	events int
	epoch  uint64 // the newest among the events
	// first is the time of the earliest of the partitions' first records that were read, deliveries
	// included; set if there are events and the server is another one. last is the latest time of the events.
	first, last time.Time
	// revision is the newest that an event names.
	revision int64
	// signers are the unknown keys that signed deliveries, and where each of them first signed.
	// Some of the events may record these keys.
	signers []signer
}

// part describes one partition of the log.
type part struct {
	mark   sealer.Position
	marked bool
	loaded *sealer.Position // by the warehouse; nil if nothing was
	begin  sealer.Position  // the first position that the log holds
	end    sealer.Position
	// gap is set if records behind the mark were removed from the partition.
	gap *gap
	// first is the position of the first event that the database never numbered.
	first  sealer.Position
	events int
}

type gap struct{ from, to sealer.Position }

// reached is the furthest end that the partition is known to have had.
func (p *part) reached() sealer.Position {
	if p.loaded != nil && p.loaded.Compare(p.mark) > 0 {
		return *p.loaded
	}
	return p.mark
}

type signer struct {
	keyID string
	first sealer.Position
}

func (s signer) String() string {
	return fmt.Sprintf("deliveries signed by the key %s, which it does not know, from position %s on", s.keyID, s.first)
}

// mostLag is how much a promoted server may lack. One that lacks more, or an unknown part because
// the log no longer holds it, is refused as any older database: that is the restore of an old copy
// to a point in time, or the standby that replication has lost, and not what somebody would lose
// without being asked.
const mostLag = time.Hour

// lag is how far the database is behind: the time from the records at its marks to the last event. It
// is without end if that is unknown.
func (m *missed) lag() time.Duration {
	if m.events == 0 && len(m.signers) > 0 || slices.ContainsFunc(m.parts, func(p part) bool { return p.gap != nil }) {
		return math.MaxInt64
	}
	return m.last.Sub(m.first)
}

func (m *missed) any() bool {
	return m.events > 0 || len(m.signers) > 0 || slices.ContainsFunc(m.parts, func(p part) bool { return p.gap != nil })
}

// ends are where the partitions end.
func (m *missed) ends() (ends []sealer.Position) {
	for _, p := range m.parts {
		ends = append(ends, p.end)
	}
	return ends
}

// firsts are where the events begin, in each partition that holds some.
func (m *missed) firsts() (firsts []sealer.Position) {
	for _, p := range m.parts {
		if p.events > 0 {
			firsts = append(firsts, p.first)
		}
	}
	return firsts
}

func (m missed) String() string {
	text := fmt.Sprintf("the log holds %d events of control that it never wrote, from position %s on",
		m.events, strings.Join(texts(m.firsts()), ", "))
	if m.events == 0 {
		text = "the log holds no events of control that it does not know"
	}
	for _, s := range m.signers {
		text += fmt.Sprintf("; the log holds %s", s)
	}
	for _, p := range m.parts {
		if p.gap != nil {
			text += fmt.Sprintf("; the records between %s and %s were removed from the log, so stops among them are unknown", p.gap.from, p.gap.to)
		}
	}
	return text
}

func texts(positions []sealer.Position) []string {
	list := []string{}
	for _, p := range positions {
		list = append(list, p.String())
	}
	return list
}

// compare reads each partition from its mark on. The marks of the database and the warehouse are
// read before the log's end, and what the database knows after it, because other processes may
// write to all three meanwhile.
func (s *start) compare(ctx context.Context) error {
	m := &s.missed
	n, err := s.Log.Partitions(ctx)
	if err != nil {
		return err
	}
	marks, err := positions(ctx, s.db.Read(), logMarks)
	if err != nil {
		return err
	}
	m.parts = make([]part, n)
	from := make([]sealer.Position, n)
	for i := range m.parts {
		p := &m.parts[i]
		p.mark, p.marked = marks[int32(i)]
		if from[i], err = p.bound(ctx, s.History, int32(i)); err != nil {
			return err
		}
	}
	known, err := s.horizon(ctx, s.db.Read())
	for i := range m.parts {
		if err == nil {
			err = m.read(ctx, s.Log, &m.parts[i], from[i], known)
		}
	}
	for i := range m.parts {
		if err == nil && m.events > 0 && s.moved() {
			err = m.readFirst(ctx, s.Log, from[i], m.parts[i].end)
		}
	}
	return err
}

// readFirst reads the time of the first record of a span.
func (m *missed) readFirst(ctx context.Context, log Reader, from, to sealer.Position) error {
	err := log.Scan(ctx, from, to, func(e sealer.Entry) error {
		event, err := sealer.ParseEvent(e.Event)
		if err != nil {
			return nil // it is not for this to judge
		}
		if m.first.IsZero() || event.At.Before(m.first) {
			m.first = event.At
		}
		return errFound
	})
	if errors.Is(err, errFound) {
		return nil
	}
	return err
}

// bound finds where the partition ends, and the position from which it has to be read.
func (p *part) bound(ctx context.Context, h History, partition int32) (from sealer.Position, err error) {
	if h.Loaded != nil {
		loaded, ok, err := h.Loaded.Resume(ctx, partition)
		if err != nil {
			return from, err
		}
		if ok {
			p.loaded = &loaded
		}
	}
	first, end, err := h.Log.Bounds(ctx, partition)
	if err != nil {
		return from, err
	}
	p.begin, p.end, from = first, end, p.mark
	if !p.marked {
		from = sealer.Position{Generation: first.Generation, Partition: partition}
	}
	if reached := p.reached(); reached.Generation >= end.Generation && reached.Compare(end) > 0 {
		return from, fmt.Errorf("partition %d of the log ends at %s and has reached %s before: it lost records, or is another log", partition, end, reached)
	}
	// An empty log of a later generation has lost everything, so there is no gap.
	if from.Compare(first) < 0 && (first != end || from.Generation == end.Generation) {
		p.gap = &gap{from, first}
	}
	if p.gap != nil || from.Generation < end.Generation {
		from = first
	}
	return from, nil
}

// read finds what the database lacks in a partition.
func (m *missed) read(ctx context.Context, log Reader, p *part, from sealer.Position, known horizon) error {
	return known.beyond(ctx, log, from, p.end, func(e *sealer.Entry, keyID string) error {
		if keyID != "" {
			m.signers = append(m.signers, signer{keyID, e.Position})
			known.keys[keyID] = true
			return nil
		}
		if p.events == 0 {
			p.first = e.Position
		}
		p.events++
		m.events++
		m.epoch = max(m.epoch, e.Epoch)
		event, err := sealer.ParseEvent(e.Event)
		if err != nil {
			return err
		}
		if event.At.After(m.last) {
			m.last = event.At
		}
		m.revision = max(m.revision, store.RevisionOf(&event))
		return nil
	})
}

// horizon is how far a database knows the log: the events of control that it has numbered, and the
// keys that may have signed deliveries.
type horizon struct {
	head store.Head
	keys map[string]bool
}

// beyond calls fn for what a database can't know: events of control behind its
// number, and deliveries signed by other keys, with the id of the key.
func (h horizon) beyond(ctx context.Context, log Reader, from, to sealer.Position, fn func(e *sealer.Entry, keyID string) error) error {
	return log.Scan(ctx, from, to, func(e sealer.Entry) error {
		keyID := ""
		switch {
		case e.Node == store.Node:
			if h.head.Numbered(&e.Record) {
				return nil
			}
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

// signedBy returns the id of the key that signed a delivery, "" for another event.
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

// keys are the ids of all signing keys that a database knows.
func (h *History) keys(ctx context.Context, q store.Querier) (map[string]bool, error) {
	known := map[string]bool{}
	if h.Keys == nil {
		return known, nil
	}
	ids, err := h.Keys(ctx, q)
	for _, id := range ids {
		known[id] = true
	}
	return known, err
}

// Meets returns the position up to which a partition of the log agrees with a database, which may
// be a copy: the first record that came after the copy, or the partition's end. That record is an
// event of control that the database did not write, or a delivery signed by a key that it does not
// know. (A key may sign as soon as it is committed, before its event is in the log.)
func (h *History) Meets(ctx context.Context, q store.Querier, partition int32) (at sealer.Position, err error) {
	first, at, err := h.Log.Bounds(ctx, partition)
	if err != nil {
		return at, err
	}
	known, err := h.horizon(ctx, q)
	if err != nil {
		return at, err
	}
	marks, err := positions(ctx, q, logMarks)
	if err != nil {
		return at, err
	}
	from, marked := marks[partition]
	if !marked || from.Generation < at.Generation || from.Compare(first) < 0 {
		from = first
	}
	err = known.beyond(ctx, h.Log, from, at, func(e *sealer.Entry, _ string) error {
		at = e.Position
		return errFound
	})
	if errors.Is(err, errFound) {
		err = nil
	}
	return at, err
}

// horizon is how far a database knows the log.
func (h *History) horizon(ctx context.Context, q store.Querier) (known horizon, err error) {
	if known.head, err = store.ReadHead(ctx, q); err == nil {
		known.keys, err = h.keys(ctx, q)
	}
	return known, err
}

// errFound ends a scan.
var errFound = errors.New("the record was found")
