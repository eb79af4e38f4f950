package payeelink

import (
	"context"
	"sync"
	"time"
)

// patience is how long a request waits for a place.
const patience = 2 * time.Second

// places are those in which answers are made. A request waits for one of its link, then for one of its tenant, and then
// for one of all: so those that wait for the last are few of each, however many there are by a link.
type places struct {
	all chan struct{}

	mu sync.Mutex
	of map[string]*bounded // by link and by tenant, while somebody has or waits for a place
}

// bounded are the places of a link or a tenant.
type bounded struct {
	taken chan struct{}
	users int // guarded by places.mu: those that have or wait for a place
}

func newPlaces() *places {
	return &places{all: make(chan struct{}, atOnce), of: map[string]*bounded{}}
}

// take waits for a place for an answer to a link. The error is errBusy if there is none in time; otherwise release gives
// the place back.
func (p *places) take(ctx context.Context, l *Link) (release func(), err error) {
	link, tenant := p.enter(l.ID, atOnceLink), p.enter(l.TenantID, atOnceTenant)
	timer := time.NewTimer(patience)
	defer timer.Stop()
	var held []chan struct{}
	release = func() {
		for _, place := range held {
			<-place
		}
		p.leave(l.ID, l.TenantID)
	}
	for _, place := range []chan struct{}{link, tenant, p.all} {
		select {
		case place <- struct{}{}:
			held = append(held, place)
		case <-timer.C:
			release()
			return nil, errBusy
		case <-ctx.Done():
			release()
			return nil, ctx.Err()
		}
	}
	return release, nil
}

// enter returns the places of a link or a tenant, to be left again.
func (p *places) enter(id string, most int) chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	b := p.of[id]
	if b == nil {
		b = &bounded{taken: make(chan struct{}, most)}
		p.of[id] = b
	}
	b.users++
	return b.taken
}

func (p *places) leave(ids ...string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, id := range ids {
		b := p.of[id]
		if b.users--; b.users == 0 {
			delete(p.of, id)
		}
	}
}
