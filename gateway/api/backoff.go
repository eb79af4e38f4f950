package api

import (
	"errors"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// Backoff tells refused callers when to come again: not all in the same second, and later the longer a part
// has been away. Without it a fleet that was refused together comes back together, each second, and the part
// that returns is met by all of it.
//
// The zero Backoff is ready. It is safe for concurrent use. A listener has one for all its answers.
type Backoff struct {
	mu      sync.Mutex
	outages map[Reason]outage
}

// outage is a time in which a part was found away again and again.
type outage struct{ began, last time.Time }

// Bounds of an outage.
const (
	// mostSpread is the most that is added.
	mostSpread = time.Minute
	// An outage is over outagePause after everybody who was refused was to come again.
	outagePause = 10 * time.Second
)

// outageReasons are those of a part that is away, for nobody knows how long. All others are over as soon as
// some work is done, or the caller waits for a known time.
var outageReasons = map[Reason]bool{
	RightsStale: true, LogUnavailable: true, NoSigningKey: true, ControlUnavailable: true, StorageFull: true, DatabaseUnavailable: true, EngineUnavailable: true,
}

// Seconds is the value of the header Retry-After for a refusal that states a least time, in whole seconds: that
// time, and up to a tenth of it, at least a second, more; in an outage up to as long as the outage has
// lasted. More than a minute is never added. 0, no header, stays 0.
func (b *Backoff) Seconds(least int, reason Reason, now time.Time) int {
	if least <= 0 {
		return 0
	}
	spread := min(max(1, least/10), int(mostSpread/time.Second))
	if outageReasons[reason] {
		spread = max(spread, int(min(b.lasted(reason, now), mostSpread)/time.Second))
	}
	return least + rand.IntN(spread+1)
}

// Tell sets the header Retry-After of a refusal, as Seconds has it now.
func (b *Backoff) Tell(h http.Header, least int, reason Reason) {
	if s := b.Seconds(least, reason, time.Now()); s > 0 {
		h.Set("Retry-After", strconv.Itoa(s))
	}
}

// AskedToWait is the time that the header Retry-After of control's has, which is no date; 0 if there is none.
func AskedToWait(h http.Header) time.Duration {
	seconds, _ := strconv.ParseUint(h.Get("Retry-After"), 10, 16)
	return time.Duration(seconds) * time.Second
}

// lasted notes a refusal, and returns how long the outage has lasted.
func (b *Backoff) lasted(reason Reason, now time.Time) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	o, known := b.outages[reason]
	if !known || now.Sub(o.last) > outagePause+min(o.last.Sub(o.began), mostSpread) {
		o.began = now
	}
	o.last = now
	if b.outages == nil {
		b.outages = map[Reason]outage{}
	}
	b.outages[reason] = o
	return now.Sub(o.began)
}

// Again is how long a process of ours waits after an error before it sends a request to control again: pause, or as
// long as control asks for if that is more, but at most most; and up to half as long again, so that nodes that
// failed together don't come back together.
func Again(err error, pause, most time.Duration) time.Duration {
	if refused, ok := errors.AsType[*Refused](err); ok {
		pause = max(pause, min(refused.RetryAfter, most))
	}
	return pause + rand.N(pause/2+1)
}
