package control

import (
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"muniment/gateway/api"
)

// faultEvery is how often a fault of one operation is logged at most.
const faultEvery = time.Second

// faults logs internal faults. However often an operation fails, it is logged once in faultEvery,
// with the number of faults that were not logged, so an attacker can't fill the log. The metrics
// count every fault.
//
// It is safe for concurrent use. It holds as many entries as there are operations.
type faults struct {
	now func() time.Time

	mu   sync.Mutex
	last map[string]*faultLine // by operation
}

// faultLine is the newest line about an operation.
type faultLine struct {
	at         time.Time
	suppressed int // since then
}

func (f *faults) log(to *slog.Logger, operation, message string, attrs ...any) {
	suppressed, due := f.due(operation)
	if !due {
		return
	}
	if suppressed > 0 {
		attrs = append(attrs, "suppressed", suppressed)
	}
	to.Error(message, append(attrs, "operation", operation)...)
}

// due says whether a fault is to be logged now, and how many before it were not.
func (f *faults) due(operation string) (suppressed int, due bool) {
	now := f.now()
	f.mu.Lock()
	defer f.mu.Unlock()
	last := f.last[operation]
	if last != nil && now.Sub(last.at) < faultEvery {
		last.suppressed++
		return 0, false
	}
	if last != nil {
		suppressed = last.suppressed
	}
	f.last[operation] = &faultLine{at: now}
	return suppressed, true
}

// isFault says whether a response, made of e, is an internal fault that is not logged elsewhere. A
// 503 is deliberate, as when the sandbox is full, or is logged where an outage begins; an
// unavailable engine of a read is only logged here.
func isFault(answer huma.StatusError, e *api.Error) bool {
	status := answer.GetStatus()
	return status >= http.StatusInternalServerError && status != http.StatusServiceUnavailable || e.Reason == api.EngineUnavailable
}
