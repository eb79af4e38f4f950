package clickhouse

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"sync"

	"muniment/pipeline"
	"muniment/sealer"
)

// stored is what a process knows of the warehouse between two loads. The warehouse only
// grows, so old knowledge is not wrong; it is held against the warehouse before a position
// is written, and forgotten when anything goes wrong.
type stored struct {
	mu sync.Mutex
	state
}

// state is not changed once it was made.
type state struct {
	positions map[int32]sealer.Position // without those of partitions that have none
	retracted map[eventKey]keyID        // nil: unknown
}

// errOlder says that the warehouse was replaced by an older copy under a load.
var errOlder = errors.New("the warehouse is older than it was")

func (s *stored) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state = state{}
}

// learn takes what is known to be stored.
func (s *stored) learn(now state) {
	s.mu.Lock()
	defer s.mu.Unlock()
	positions := maps.Clone(s.positions)
	if positions == nil {
		positions = map[int32]sealer.Position{}
	}
	for partition, p := range now.positions {
		if p.Compare(positions[partition]) > 0 {
			positions[partition] = p
		}
	}
	s.positions = positions
	if len(now.retracted) >= len(s.retracted) {
		s.retracted = now.retracted
	}
}

// known is what is stored of some partitions.
func (w *Warehouse) known(ctx context.Context, batches []*pipeline.Batch) (state, error) {
	w.stored.mu.Lock()
	known := w.stored.state
	w.stored.mu.Unlock()
	all := known.retracted != nil
	for _, b := range batches {
		_, ok := known.positions[b.Partition]
		all = all && ok
	}
	if all {
		return known, nil
	}
	return w.ask(ctx, batches, state{})
}

// ask reads the positions of some partitions, and what was retracted, and compares them
// with what was known before.
func (w *Warehouse) ask(ctx context.Context, batches []*pipeline.Batch, before state) (now state, err error) {
	partitions := make([]string, len(batches))
	for i, b := range batches {
		partitions[i] = strconv.Itoa(int(b.Partition))
	}
	now = state{positions: map[int32]sealer.Position{}, retracted: before.retracted}
	const retracted = -1 // in place of a partition
	var n int64
	_, err = collect(ctx, w, func(scan func(...any) error) (_ struct{}, err error) {
		var p sealer.Position
		if err = scan(&p.Partition, &p.Generation, &p.Offset); err != nil {
			return
		}
		if p.Partition == retracted {
			n = p.Offset
		} else {
			now.positions[p.Partition] = p
		}
		return
	}, `SELECT toInt32(`+strconv.Itoa(retracted)+`), toUInt32(0), toInt64(count()) FROM withdrawn FINAL UNION ALL
		SELECT log_partition, generation, position FROM positions FINAL WHERE log_partition IN (`+strings.Join(partitions, ", ")+`)`)
	if err == nil && (now.retracted == nil || n != int64(len(now.retracted))) {
		now.retracted, err = w.retracted(ctx)
	}
	for _, b := range batches {
		if was := before.positions[b.Partition]; err == nil && now.positions[b.Partition].Compare(was) < 0 {
			err = errOlder
		}
	}
	if err != nil {
		return state{}, fmt.Errorf("cannot read what is loaded: %w", err)
	}
	w.stored.learn(now)
	return now, nil
}

// starts holds the batches against what is stored, and returns where each partition's go
// on: all that was loaded before them stands before that.
func starts(batches []*pipeline.Batch, known map[int32]sealer.Position) (map[int32]sealer.Position, error) {
	starts, reached := map[int32]sealer.Position{}, maps.Clone(known)
	for _, b := range batches {
		p, ok := reached[b.Partition]
		switch {
		case !ok || b.From.Generation > p.Generation:
			p = b.From
			starts[b.Partition] = p
		case b.From.Compare(p) > 0:
			return nil, fmt.Errorf("%w: %s is behind %s", pipeline.ErrAhead, b.From, p)
		default:
			if _, begun := starts[b.Partition]; !begun {
				starts[b.Partition] = p
			}
		}
		if b.Next.Compare(p) > 0 {
			p = b.Next
		}
		reached[b.Partition] = p
	}
	return starts, nil
}

// ends are the positions up to which the batches load their partitions.
func ends(batches []*pipeline.Batch) map[int32]sealer.Position {
	ends := map[int32]sealer.Position{}
	for _, b := range batches {
		if p, ok := ends[b.Partition]; !ok || b.Next.Compare(p) > 0 {
			ends[b.Partition] = b.Next
		}
	}
	return ends
}
