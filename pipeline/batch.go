package pipeline

import (
	"context"
	"fmt"
	"runtime"
	"sync"

	"muniment.example/sealer"
)

// arena allocates the copies of a batch in few pieces of memory: two pieces for each record
// would cost the garbage collector more.
type arena []byte

const arenaBytes = 128 << 10

func (a *arena) copy(b []byte) []byte {
	if len(b) == 0 {
		return b
	}
	if cap(*a)-len(*a) < len(b) {
		*a = make([]byte, 0, max(arenaBytes, len(b)))
	}
	from := len(*a)
	*a = append(*a, b...)
	return (*a)[from:len(*a):len(*a)]
}

// partitions are those of the tenants that the entries name.
func (l *Loader) partitions(ctx context.Context, entries []sealer.Entry) (map[string]int32, error) {
	partitions := map[string]int32{}
	for i := range entries {
		id := entries[i].TenantID
		if _, known := partitions[id]; known {
			continue
		}
		partition, err := l.cfg.Log.PartitionOf(ctx, id)
		if err != nil {
			return nil, err
		}
		partitions[id] = partition
	}
	return partitions, nil
}

// newBatch checks a contiguous, non-empty run of entries on all cores. An entry outside of
// its tenant's partition fails, however sound it is: positions of two partitions have no
// order, and as a copy it could move an event to before what is sealed.
func newBatch(entries []sealer.Entry, partitions map[string]int32) Batch {
	rows := make([]Row, len(entries))
	faults := make([]error, len(entries))
	perWorker := max(64, (len(entries)+runtime.GOMAXPROCS(0)-1)/runtime.GOMAXPROCS(0))
	var workers sync.WaitGroup
	for from := 0; from < len(entries); from += perWorker {
		workers.Go(func() {
			for i := from; i < min(from+perWorker, len(entries)); i++ {
				e := &entries[i]
				rows[i], faults[i] = NewRow(*e)
				if own := partitions[e.TenantID]; faults[i] == nil && own != e.Partition {
					faults[i] = fmt.Errorf("record at %s: %s is in partition %d", e.Position, e.TenantID, own)
				}
			}
		})
	}
	workers.Wait()

	last := entries[len(entries)-1].Position
	b := Batch{Partition: last.Partition, Rows: rows[:0], Next: last.Next()}
	for i, fault := range faults {
		if fault != nil {
			b.Quarantined = append(b.Quarantined, newQuarantined(entries[i], fault))
			continue
		}
		b.Rows = append(b.Rows, rows[i])
	}
	return b
}
