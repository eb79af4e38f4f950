package compare

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"muniment.example/bench/measure"
	"muniment.example/pipeline"
	"muniment.example/pipeline/segment"
	"muniment.example/sealer"
)

// Append is what appending to the log costs, the waiting for it left out.
type Append struct {
	Writers int
	Bytes   int // of a record
	// Micros of CPU a record, in all threads and in the kernel: the median of the
	// undisturbed measurements, or of all if there are none.
	Micros, Least, Most float64
	Of, Calm            int // measurements, and how many were undisturbed
	PerSecond           float64
}

const (
	appendWriters = 256
	appendBytes   = 1000
)

// appendCost measures in this process, while no server works.
func (c *Comparison) appendCost(ctx context.Context) (*Append, error) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2 * runtime.GOMAXPROCS(0))) // as muniment up does
	var all, calm, rates []float64
	for i := 0; i < c.Rounds+c.Spare && len(calm) < c.Rounds; i++ {
		rate, cpu, lost, err := c.appendOnce(ctx, filepath.Join(c.Dir, fmt.Sprint("append", i)))
		if err != nil {
			return nil, fmt.Errorf("cannot measure the log: %w", err)
		}
		if all, rates = append(all, cpu), append(rates, rate); !lost.Disturbed() {
			calm = append(calm, cpu)
		}
		fmt.Fprintf(c.Out, "append %d  %d writers  %8.0f/s  %6.2f µs CPU%s\n", i+1, appendWriters, rate, cpu, lost.Disturbance())
	}
	a := &Append{Writers: appendWriters, Bytes: appendBytes, Of: len(all), Calm: len(calm), PerSecond: measure.Median(rates)}
	if len(calm) > 0 {
		all, a.Of = calm, len(calm)
	}
	a.Micros, a.Least, a.Most = measure.Spread(all)
	return a, nil
}

// appendOnce lets all writers append for a while.
func (c *Comparison) appendOnce(ctx context.Context, dir string) (perSecond, cpuMicros float64, lost measure.Loss, err error) {
	log, err := segment.Open(segment.Config{Dir: dir})
	if err != nil {
		return 0, 0, lost, err
	}
	defer os.RemoveAll(dir)
	defer func() {
		if closeErr := log.Close(); err == nil {
			err = closeErr
		}
	}()
	record := &sealer.Record{
		TenantID: "tnt_bench", EventID: "evt_bench", Node: "bench", Event: bytes.Repeat([]byte("e"), appendBytes-20),
	}
	writing, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var appended atomic.Int64
	var ended atomic.Bool
	var writers sync.WaitGroup
	for range appendWriters {
		writers.Go(func() {
			for !ended.Load() {
				if _, err := log.Append(context.Background(), record); err != nil {
					stop(err)
					return
				}
				appended.Add(1)
			}
		})
	}
	var begin, end measure.Meters
	var first int64
	err = pipeline.Pause(writing, c.Warm)
	if err == nil {
		begin, err = measure.ReadMeters(0)
		first = appended.Load()
	}
	if err == nil {
		err = pipeline.Pause(writing, c.During)
	}
	for err == nil && appended.Load() == first { // held up: nothing is no rate
		err = pipeline.Pause(writing, time.Millisecond)
	}
	if err == nil {
		end, err = measure.ReadMeters(0)
	}
	last := appended.Load()
	ended.Store(true)
	writers.Wait()
	if cause := context.Cause(writing); cause != nil {
		return 0, 0, lost, cause
	}
	if err != nil {
		return 0, 0, lost, err
	}
	n := float64(last - first)
	return n / end.At.Sub(begin.At).Seconds(), measure.Micros(end.Client-begin.Client) / max(1, n), measure.LossBetween(begin, end), nil
}
