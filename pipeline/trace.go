package pipeline

import (
	"strings"
	"sync"
	"time"

	"muniment.example/pipeline/trace"
	"muniment.example/sealer"
)

// mostTraced is how many records of a batch get a span: anyone who may write to the topic can add the header.
const mostTraced = 100

// trace exports a span of each traced record of a batch that is in the warehouse. It begins when the batch was read.
func (l *Loader) trace(b *Batch, began time.Time) {
	if l.cfg.Tracer == nil {
		return
	}
	traced := 0
	for i := range b.Rows {
		r := &b.Rows[i]
		parent := r.Traceparent
		if parent == "" {
			parent = l.cfg.Traceparents.take(r.EventID)
		}
		if parent == "" || traced == mostTraced {
			continue
		}
		s := l.cfg.Tracer.Continue(trace.Parse(parent), trace.Consumer, "load into the warehouse", began)
		if s == nil {
			continue
		}
		traced++
		s.Set("muniment.tenant.id", r.TenantID)
		s.Set("muniment.event.id", r.EventID)
		s.Set("muniment.log.position", r.Position.String())
		s.SetInt("muniment.batch.records", int64(len(b.Rows)))
		s.End()
	}
}

// mostKept is how many traceparents wait for the loader.
const mostKept = 1024

// Traceparents keeps those of records for a log that does not keep them, and for who reads it in the same process: the
// loader, or a node that drains its spool. It keeps those of the newest mostKept. It is safe for concurrent use; a nil one keeps nothing.
type Traceparents struct {
	mu   sync.Mutex
	of   map[string]string // by event id
	next int
	ids  [mostKept]string // in the order in which they came, from next on
}

// NewTraceparents keeps nothing yet.
func NewTraceparents() *Traceparents { return &Traceparents{of: map[string]string{}} }

// Keep is called before a record is appended.
func (k *Traceparents) Keep(r *sealer.Record) {
	if k == nil || r.Traceparent == "" {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	id := strings.Clone(r.EventID) // which is its owner's again after the append
	delete(k.of, k.ids[k.next])
	k.of[id], k.ids[k.next] = r.Traceparent, id
	k.next = (k.next + 1) % mostKept
}

// Of returns what is kept for an event; empty if nothing is.
func (k *Traceparents) Of(eventID string) string {
	if k == nil {
		return ""
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.of[eventID]
}

// take returns what was kept for an event, once.
func (k *Traceparents) take(eventID string) string {
	if k == nil {
		return ""
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	found := k.of[eventID]
	delete(k.of, eventID)
	return found
}
