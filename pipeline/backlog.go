package pipeline

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"muniment/sealer"
)

// backlog shows how many records of a partition are not loaded, once both of its ends are
// known. It is told of each by whoever has seen it, in any order: loading and looking
// after the log's retention go on beside each other, and what one of them knows may be
// old. Safe for concurrent use.
type backlog struct {
	shown prometheus.Gauge

	mu       sync.Mutex
	next     sealer.Position // to be loaded
	end      sealer.Position // of the log, as far as it was seen
	begun    bool            // next is known
	heard    bool            // that is the warehouse's word
	endKnown bool
}

// begins tells where the warehouse stands.
func (b *backlog) begins(next sealer.Position) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.next, b.begun, b.heard = next, true, true
	b.show()
}

// remembered tells where the warehouse stood some time ago, which counts until its own
// word is there.
func (b *backlog) remembered(next sealer.Position) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.heard {
		b.next, b.begun = next, true
		b.show()
	}
}

// ends tells where the log ends. It never shrinks.
func (b *backlog) ends(end sealer.Position) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.endKnown || end.Compare(b.end) > 0 {
		b.end, b.endKnown = end, true
	}
	b.show()
}

// show is called with b.mu held.
func (b *backlog) show() {
	if b.begun && b.endKnown {
		b.shown.Set(float64(max(0, b.end.Offset-b.next.Offset)))
	}
}
