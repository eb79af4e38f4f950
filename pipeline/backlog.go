package pipeline

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"muniment.example/sealer"
)

// backlog sets a gauge to the number of records of a partition that are not loaded, once
// both ends are known. Loading and the watch of the log's retention set the ends, in any
// order. Safe for concurrent use.
type backlog struct {
	gauge prometheus.Gauge

	mu            sync.Mutex
	next          sealer.Position // to be loaded
	end           sealer.Position // highest known end of the log
	nextKnown     bool
	fromWarehouse bool // next is the warehouse's own answer
	endKnown      bool
}

// setNext sets the warehouse's position.
func (b *backlog) setNext(next sealer.Position) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.next, b.nextKnown, b.fromWarehouse = next, true, true
	b.show()
}

// setRemembered sets an earlier position of the warehouse; it counts until setNext.
func (b *backlog) setRemembered(next sealer.Position) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.fromWarehouse {
		b.next, b.nextKnown = next, true
		b.show()
	}
}

// setEnd sets the log's end. A lower one than before is ignored.
func (b *backlog) setEnd(end sealer.Position) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.endKnown || end.Compare(b.end) > 0 {
		b.end, b.endKnown = end, true
	}
	b.show()
}

// show is called with b.mu held.
func (b *backlog) show() {
	if b.nextKnown && b.endKnown {
		b.gauge.Set(float64(max(0, b.end.Offset-b.next.Offset)))
	}
}
