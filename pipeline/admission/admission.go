// Package admission delays deliveries of a service in one process while its loader is behind, so that
// the loader gets its share of the processor and the backlog stops growing.
package admission

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"muniment.example/pipeline"
)

// The parameters.
const (
	// backlog is how many records may wait to be loaded before deliveries are delayed:
	// seconds of work for a loader that has the processor.
	backlog = 20_000
	// longestDelay is the longest delay of a request.
	longestDelay = 500 * time.Millisecond
	// burst is how much unused time is credited: deliveries worth that much are
	// admitted at once.
	burst = 10 * time.Millisecond
	// every is how often the loader's position is read, window the time over
	// which its rate is measured. A loader that has not advanced for that long delays nothing.
	every  = 50 * time.Millisecond
	window = 3 * time.Second
)

// Admission leaves the loader of an embedded service enough of the processor. Up to a backlog
// of backlog records no delivery is delayed. Beyond, deliveries are admitted at the rate
// at which the loader loads, and the longer the backlog, at a lower one: so the backlog stops
// growing, and the loader, which gets what deliveries leave, finds its rate. Deliveries that
// arrive more slowly than that are not delayed, however long the backlog is.
type Admission struct {
	position func(ctx context.Context) (loaded, end int64, ok bool)
	waits    prometheus.Counter
	seconds  prometheus.Counter

	interval atomic.Int64 // nanoseconds between two deliveries, 0: none is delayed
	last     atomic.Int64 // when Admit was called, Unix nanoseconds

	mu   sync.Mutex
	next time.Time // when the next delivery is admitted
}

// New returns an Admission that delays nothing until it runs. position returns the offset up to which
// records are loaded, and where the log ends; ok is false while these are not known.
func New(registry prometheus.Registerer, position func(ctx context.Context) (loaded, end int64, ok bool)) (*Admission, error) {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: "muniment_gateway_admission_" + name, Help: help})
	}
	a := &Admission{
		position: position,
		waits:    counter("waits_total", "Requests with deliveries that waited for the loader, which was behind."),
		seconds:  counter("wait_seconds_total", "Time that they waited."),
	}
	return a, pipeline.Register(registry, a.waits, a.seconds)
}

// Admit waits until so many deliveries may be issued, at most for longestDelay and until ctx
// is done. See issue.Config.Admit.
func (a *Admission) Admit(ctx context.Context, deliveries int) {
	now := time.Now()
	a.last.Store(now.UnixNano())
	interval := time.Duration(a.interval.Load())
	if interval == 0 {
		return
	}
	a.mu.Lock()
	at := a.next
	if earliest := now.Add(-burst); at.Before(earliest) {
		at = earliest
	}
	a.next = at.Add(min(time.Duration(deliveries)*interval, longestDelay))
	if latest := now.Add(longestDelay); at.After(latest) {
		at, a.next = latest, latest
	}
	a.mu.Unlock()
	wait := at.Sub(now)
	if wait <= 0 {
		return
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	a.waits.Inc()
	a.seconds.Add(time.Since(now).Seconds())
}

// Quiet says whether nothing was delivered for a second.
func (a *Admission) Quiet() bool { return time.Now().UnixNano()-a.last.Load() > int64(time.Second) }

// Run measures the loader's rate until ctx is done.
func (a *Admission) Run(ctx context.Context) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	var rate loadingRate
	for {
		interval := time.Duration(0)
		if loaded, end, ok := a.position(ctx); ok {
			interval = rate.interval(time.Now(), loaded, end-loaded)
		}
		a.interval.Store(int64(interval))
		select {
		case <-tick.C:
		case <-ctx.Done():
			a.interval.Store(0)
			return nil
		}
	}
}

// loadingRate remembers the advances of a loader within the window.
type loadingRate struct{ advances []advance }

type advance struct {
	at     time.Time
	loaded int64
}

// interval is the time between two deliveries, 0 if none is to be delayed.
func (r *loadingRate) interval(now time.Time, loaded, behind int64) time.Duration {
	if n := len(r.advances); n == 0 || r.advances[n-1].loaded != loaded {
		r.advances = append(r.advances, advance{now, loaded})
	}
	// The newest is kept however old it is.
	for len(r.advances) > 1 && now.Sub(r.advances[0].at) > window {
		r.advances = r.advances[1:]
	}
	first, last := r.advances[0], r.advances[len(r.advances)-1]
	if behind <= backlog || last.loaded <= first.loaded {
		return 0
	}
	perSecond := float64(last.loaded-first.loaded) / last.at.Sub(first.at).Seconds()
	perSecond *= max(0.8, float64(backlog)/float64(behind))
	return time.Duration(float64(time.Second) / perSecond)
}
