package clickhouse

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"sync"

	"muniment.example/pipeline"
	"muniment.example/sealer"
)

// stored is what a process remembers of the warehouse between two loads. The warehouse only
// grows, so old knowledge is incomplete but not wrong; it is compared with the warehouse
// before a position is written, and dropped after any error.
type stored struct {
	mu sync.Mutex
	state
}

// state is immutable.
type state struct {
	positions map[int32]sealer.Position // of partitions that have one
	retracted map[eventKey]keyID        // nil: unknown
	erased    *pipeline.Erased          // nil: unknown, to the warehouse too if print is 0
	print     int64                     // as erasedPrint has it
}

// errOlder: the warehouse was replaced by an older copy during a load.
var errOlder = errors.New("warehouse was replaced by an older copy")

func (s *stored) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state = state{}
}

// learn adds what is known to be stored.
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
	s.erased, s.print = now.erased, now.print
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
	return w.readState(ctx, batches, state{})
}

// readState reads the positions of the batches' partitions, what was retracted and which
// persons were erased. It fails if a position is before the one that was known.
func (w *Warehouse) readState(ctx context.Context, batches []*pipeline.Batch, before state) (now state, err error) {
	partitions := make([]string, len(batches))
	for i, b := range batches {
		partitions[i] = strconv.Itoa(int(b.Partition))
	}
	now = state{positions: map[int32]sealer.Position{}, retracted: before.retracted, erased: before.erased, print: before.print}
	const retracted, erased = -1, -2 // in place of a partition
	var n, print int64
	_, err = collect(ctx, w.servers, func(scan func(...any) error) (_ struct{}, err error) {
		var p sealer.Position
		if err = scan(&p.Partition, &p.Generation, &p.Offset); err != nil {
			return
		}
		switch p.Partition {
		case retracted:
			n = p.Offset
		case erased:
			print = p.Offset
		default:
			now.positions[p.Partition] = p
		}
		return
	}, `SELECT toInt32(`+strconv.Itoa(retracted)+`), toUInt32(0), toInt64(count()) FROM withdrawn FINAL UNION ALL
		SELECT toInt32(`+strconv.Itoa(erased)+`), toUInt32(0), `+erasedPrint+` UNION ALL
		SELECT log_partition, generation, position FROM positions FINAL WHERE log_partition IN (`+strings.Join(partitions, ", ")+`)`)
	if err == nil && (now.retracted == nil || n != int64(len(now.retracted))) {
		now.retracted, err = w.retracted(ctx)
	}
	if err == nil && print != now.print {
		now.erased, now.print, err = w.erased(ctx, "")
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

// starts compares the batches with what is stored, and returns where each partition's
// batches go on: all loaded rows stand before it.
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
