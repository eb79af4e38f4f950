package operator

import (
	"context"
	"sync"
	"time"
)

// historyAge is how long the page shows what was noted, and NoteEvery how often something is.
const (
	historyAge = 24 * time.Hour
	NoteEvery  = time.Minute
)

// history is what was noted of the numbers that the page charts, the oldest first. It is in memory alone: a process
// begins with none.
type history struct {
	mu     sync.Mutex
	points []Point
}

// Point is what was noted at a time.
type Point struct {
	At      int64 `json:"at" doc:"In milliseconds since 1970."`
	Behind  int64 `json:"behind" doc:"Records of the log that were not loaded; -1: not known."`
	Spooled int64 `json:"spooled" doc:"Records in the nodes' spools; -1: not known."`
}

// History is what this process has noted in the last 24 hours, once a minute.
type History struct {
	Points []Point `json:"points"`
}

// Note notes the numbers of now. What can't be read is not known at that time, and no error.
func (s *Service) Note(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readTime)
	defer cancel()
	now := s.cfg.Now()
	p := Point{At: now.UnixMilli(), Behind: -1, Spooled: -1}
	if lag, err := s.getLag(ctx, nil); err == nil {
		p.Behind = lag.Behind
	}
	if all, err := s.cfg.Nodes.Overview(ctx); err == nil {
		p.Spooled = 0
		for _, n := range all.Nodes {
			p.Spooled += n.Spooled
		}
	}
	s.history.mu.Lock()
	defer s.history.mu.Unlock()
	kept := s.history.points
	for len(kept) > 0 && kept[0].At < now.Add(-historyAge).UnixMilli() {
		kept = kept[1:]
	}
	s.history.points = append(kept, p)
	return nil
}

func (s *Service) getHistory(context.Context, *struct{}) (History, error) {
	s.history.mu.Lock()
	defer s.history.mu.Unlock()
	return History{append([]Point{}, s.history.points...)}, nil
}
