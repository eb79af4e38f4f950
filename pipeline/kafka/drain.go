package kafka

import (
	"cmp"
	"context"
	"errors"
	"os"
	"strings"
	"time"

	"muniment.example/pipeline"
	"muniment.example/sealer"
)

const (
	// drainRecords is how many are sent together; with fewer left, new records wait.
	drainRecords = 1000
	// drainPause follows a failure; it doubles up to mostDrainPause.
	drainPause     = 100 * time.Millisecond
	mostDrainPause = 5 * time.Second
)

// drain appends to the topic what the spool holds, until Close.
func (s *Spooled) drain() {
	backoff := drainPause
	for s.ctx.Err() == nil {
		route, changed := s.currentRoute()
		if route == toTopic {
			switch {
			case s.await(changed):
			case s.Pending() > 0:
				s.changeRoute(toTopic, toSpool)
			default:
				s.cfg.Spool.EndBefore(time.Now().AddDate(1, 0, 0))
				s.free(s.next)
			}
			continue
		}
		if s.Pending() == 0 {
			// The brokers fail, and only a record that is sent to them can show that they
			// work again: until the first one is in the spool, or CheckEvery has passed, new
			// records neither go to the topic nor wait.
			s.await(changed)
		}
		err := s.drainOnce()
		if err == nil {
			backoff = drainPause
			continue
		}
		if s.ctx.Err() == nil {
			s.cfg.Logger.Error("cannot drain spool, trying again", "at", s.next.String(), "retry_in", backoff, "err", err)
		}
		_ = pipeline.Pause(s.ctx, pipeline.Jittered(backoff))
		backoff = min(2*backoff, mostDrainPause)
	}
}

// await waits until changed is closed, and returns false if CheckEvery has passed before.
// It ends with Close, too.
func (s *Spooled) await(changed <-chan struct{}) bool {
	late := time.NewTimer(s.cfg.CheckEvery)
	defer late.Stop()
	select {
	case <-late.C:
		return false
	case <-changed:
	case <-s.ctx.Done():
	}
	return true
}

// drainOnce sends a window of the spool. If little is left then, it makes new records wait,
// sends what is left, and makes the topic the route.
func (s *Spooled) drainOnce() error {
	_, end, err := s.cfg.Spool.Bounds(s.ctx, 0)
	if err != nil {
		return err
	}
	if s.next != end {
		if err := s.send(end); err != nil {
			return err
		}
	}
	if s.Pending() > drainRecords {
		return nil
	}
	s.changeRoute(toSpool, toWait)
	// Records that wait for too long go to the spool after all.
	giveUp := time.AfterFunc(s.cfg.AckTimeout, func() { s.changeRoute(toWait, toSpool) })
	defer giveUp.Stop()
	err = s.sendRest()
	s.changeRoute(toWait, toSpool)
	return err
}

// changeRoute sets the route to to if it is from.
func (s *Spooled) changeRoute(from, to route) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.route == from {
		s.setRoute(to)
	}
}

// sendRest sends all that the spool holds, once no append to it runs, and makes the topic
// the route.
func (s *Spooled) sendRest() error {
	for {
		s.mu.Lock()
		route, writing, changed := s.route, s.writing, s.changed
		s.mu.Unlock()
		if route != toWait {
			return nil
		}
		if writing > 0 {
			select {
			case <-changed:
			case <-s.ctx.Done():
				return nil
			}
			continue
		}
		_, end, err := s.cfg.Spool.Bounds(s.ctx, 0)
		if err != nil {
			return err
		}
		if s.next == end {
			s.mu.Lock()
			defer s.mu.Unlock()
			if s.route == toWait && s.ctx.Err() == nil { // Close depends on the route
				s.cfg.Logger.Info("spool is drained", "end", end.String())
				s.setRoute(toTopic)
			}
			return nil
		}
		if err := s.send(end); err != nil {
			return err
		}
	}
}

// send appends the next records to the topic, up to end and at most a window. It waits for
// their acknowledgement without a limit: if some were given up, later ones would overtake
// them.
func (s *Spooled) send(end sealer.Position) error {
	to := end
	if end.Offset-s.next.Offset > drainRecords {
		to = s.next
		to.Offset += drainRecords
		to.Generation = end.Generation
	}
	type sent struct {
		pending
		next sealer.Position
	}
	var window []sent
	row := new(sequence)
	scanErr := s.cfg.Spool.Scan(s.ctx, s.next, to, func(e sealer.Entry) error {
		e.Record.Traceparent = s.traces.Of(e.Record.EventID)
		p, err := s.cfg.Log.enqueue(s.ctx, &e.Record, row)
		if err == nil {
			window = append(window, sent{p, e.Position.Next()})
		}
		return err
	})
	next := s.next
	var sendErr error
	for _, w := range window {
		if _, sendErr = w.wait(context.Background()); sendErr != nil {
			break
		}
		next = w.next
		s.metrics.drained.Inc()
	}
	if next != s.next {
		s.mu.Lock()
		s.next = next
		s.mu.Unlock()
		s.writeMark(next)
		s.free(next)
	}
	if errors.Is(scanErr, pipeline.ErrFull) && len(window) > 0 {
		scanErr = nil // the queue was full, and is empty now
	}
	return errors.Join(sendErr, scanErr)
}

// free removes from the spool what stands before a position, in whole files.
func (s *Spooled) free(next sealer.Position) {
	if _, err := s.cfg.Spool.Retain(next, time.Now().AddDate(1, 0, 0)); err != nil {
		s.cfg.Logger.Error("cannot free the spool", "err", err)
	}
}

// readMark reads up to where the spool was drained; ok is false if that isn't known.
func (s *Spooled) readMark() (sealer.Position, bool) {
	b, err := os.ReadFile(s.cfg.Mark)
	if errors.Is(err, os.ErrNotExist) {
		return sealer.Position{}, false
	}
	at, parseErr := sealer.ParsePosition(strings.TrimSuffix(string(b), "\n"))
	if err := cmp.Or(err, parseErr); err != nil {
		s.cfg.Logger.Warn("cannot read how far the spool was drained, draining all of it", "err", err)
		return sealer.Position{}, false
	}
	return at, true
}

// writeMark stores how far the spool is drained. It is not synced: an older mark only
// means more copies.
func (s *Spooled) writeMark(at sealer.Position) {
	next := s.cfg.Mark + ".new"
	err := os.WriteFile(next, []byte(at.String()+"\n"), 0o600)
	if err == nil {
		err = os.Rename(next, s.cfg.Mark)
	}
	if err != nil {
		s.cfg.Logger.Error("cannot store how far the spool is drained", "err", err)
	}
}
