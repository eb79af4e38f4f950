package snapshot

import "sync"

// denySet is the one authority on which records are stopped, and never forgets one: see
// View.Right. D is what is remembered of a record.
type denySet[D any] struct {
	mu  sync.RWMutex
	all map[string]denied[D] // every record that is or was stopped
}

type denied[D any] struct {
	revision int64
	stopped  bool // now
	what     D
}

func newDenySet[D any]() *denySet[D] { return &denySet[D]{all: map[string]denied[D]{}} }

// learn takes what a snapshot of the feed says of a record. keep says that it was stopped once, even if
// it is not now.
func (s *denySet[D]) learn(id string, revision int64, stopped, keep bool, what D) {
	s.mu.Lock()
	defer s.mu.Unlock()
	known, ok := s.all[id]
	if (ok || stopped || keep) && revision >= known.revision {
		s.all[id] = denied[D]{revision, stopped, what}
	}
}

func (s *denySet[D]) get(id string) (denied[D], bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	d, ok := s.all[id]
	return d, ok
}

// any says whether one of the records is stopped now.
func (s *denySet[D]) any(ids []string) bool {
	if len(ids) == 0 {
		return false
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, id := range ids {
		if s.all[id].stopped {
			return true
		}
	}
	return false
}

func (s *denySet[D]) len() int {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return len(s.all)
}
