package pipeline

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"
)

// Assignment says which partitions this process loads. AllPartitions is for a service
// with one loader process, kafka.Group divides the partitions of a topic among many.
type Assignment interface {
	// Run calls load for each partition that is assigned to this process, all at once,
	// until ctx is done; then it returns nil. The ctx of a call is done when the partition
	// is revoked, and load returns soon after. The partition is not assigned to this
	// process again before that. It is assigned to another one meanwhile only if load takes
	// too long, which wastes work and harms nothing (see LoaderConfig.Partition).
	//
	// After an error no partition is assigned any more. When Run returns, no load runs.
	Run(ctx context.Context, load func(ctx context.Context, partition int32)) error
}

// AllPartitions assigns every partition of a log.
func AllPartitions(log Reader) Assignment { return allPartitions{log} }

// retryPause is the pause after a log did not answer how many partitions it has.
const retryPause = time.Second

type allPartitions struct{ log Reader }

func (a allPartitions) Run(ctx context.Context, load func(ctx context.Context, partition int32)) error {
	n, err := a.log.Partitions(ctx)
	for err != nil && !final(err) && Pause(ctx, Jittered(retryPause)) == nil {
		n, err = a.log.Partitions(ctx)
	}
	if ctx.Err() != nil {
		return nil
	}
	if err != nil {
		return fmt.Errorf("cannot count the partitions to load: %w", err)
	}
	var loads sync.WaitGroup
	for p := range int32(n) {
		loads.Go(func() { load(ctx, p) })
	}
	<-ctx.Done()
	loads.Wait()
	return nil
}

// FleetConfig configures a Fleet.
type FleetConfig struct {
	// Loader configures the loader of every partition; its Partition is ignored.
	Loader LoaderConfig
	// Assignment says which partitions are loaded here. Required.
	Assignment Assignment
}

// Fleet runs a Loader for each partition that this process is assigned.
//
// A loader that stops, as at a gap, stops its partition only: Ready names it and its metric
// muniment_loader_stopped is 1 until the partition is revoked; the loader that gets the
// partition next stops as well. The other partitions go on.
type Fleet struct {
	cfg FleetConfig
	log *slog.Logger

	mu sync.Mutex
	// loaders are those of the partitions that are assigned now. Guarded by mu.
	loaders map[int32]*Loader
	// stopped are the errors of the loaders of assigned partitions that have stopped.
	// Guarded by mu.
	stopped map[int32]error
}

// NewFleet wires a fleet; Run works.
func NewFleet(cfg FleetConfig) (*Fleet, error) {
	if cfg.Assignment == nil {
		return nil, errors.New("fleet: Assignment is nil")
	}
	cfg.Loader.Partition = 0
	if err := cfg.Loader.validate(); err != nil {
		return nil, fmt.Errorf("fleet: %w", err)
	}
	log := cfg.Loader.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Fleet{cfg: cfg, log: log, loaders: map[int32]*Loader{}, stopped: map[int32]error{}}, nil
}

// Run loads the assigned partitions until ctx is done; then it returns nil, and no loader
// runs. It returns an error when nothing can be assigned any more.
func (f *Fleet) Run(ctx context.Context) error {
	if err := f.cfg.Assignment.Run(ctx, f.load); err != nil {
		return fmt.Errorf("fleet of loaders stopped: %w", err)
	}
	return nil
}

// load loads a partition until ctx is done.
func (f *Fleet) load(ctx context.Context, partition int32) {
	cfg := f.cfg.Loader
	cfg.Partition = partition
	l, err := NewLoader(cfg)
	if err != nil {
		err = fmt.Errorf("partition %d has no loader: %w", partition, err)
	} else {
		defer l.Close()
		f.mu.Lock()
		f.loaders[partition] = l
		f.mu.Unlock()
		f.log.InfoContext(ctx, "loading a partition", "partition", partition)
		err = l.Run(ctx)
	}
	if err != nil {
		f.log.ErrorContext(ctx, "a partition is no longer loaded", "partition", partition, "err", err)
		f.mu.Lock()
		f.stopped[partition] = err
		f.mu.Unlock()
		<-ctx.Done()
	}
	f.mu.Lock()
	delete(f.loaders, partition)
	delete(f.stopped, partition)
	f.mu.Unlock()
}

// Partitions are those that are assigned now, in ascending order.
func (f *Fleet) Partitions() []int32 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Sorted(maps.Keys(f.loaders))
}

// Ready names the partitions whose loader has stopped, and why. A fleet without partitions,
// or one that is far behind, is ready.
func (f *Fleet) Ready(context.Context) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	var all []error
	for _, p := range slices.Sorted(maps.Keys(f.stopped)) {
		all = append(all, f.stopped[p])
	}
	return errors.Join(all...)
}

// Lag is how many durable records of the assigned partitions the warehouse does not hold
// yet. If it isn't known for some of them, the error names these, and records is the sum
// over the others.
func (f *Fleet) Lag(ctx context.Context) (records int64, err error) {
	f.mu.Lock()
	loaders := maps.Clone(f.loaders)
	f.mu.Unlock()
	var mu sync.Mutex
	var queries sync.WaitGroup
	for p, l := range loaders {
		queries.Go(func() {
			lag, lagErr := l.Lag(ctx)
			mu.Lock()
			defer mu.Unlock()
			records += lag
			if lagErr != nil {
				err = errors.Join(err, fmt.Errorf("lag of partition %d: %w", p, lagErr))
			}
		})
	}
	queries.Wait()
	return records, err
}

// Status describes the fleet in a line, for operators.
func (f *Fleet) Status(ctx context.Context) (string, error) {
	partitions := f.Partitions()
	if len(partitions) == 0 {
		return "no partition is assigned to this process", nil
	}
	lag, err := f.Lag(ctx)
	return fmt.Sprintf("partitions %v, %d records behind the log", partitions, lag), err
}
