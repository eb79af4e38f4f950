package compare

import (
	"context"
	"fmt"
	"time"

	"muniment.example/bench/load"
	"muniment.example/bench/measure"
	"muniment.example/bench/system"
)

// Sustained is one long measurement of the full product.
type Sustained struct {
	Connections int
	Seconds     float64
	Receipts    int
	// PerSecond counts answers; SustainedPerSecond, answers until all were loaded.
	PerSecond, SustainedPerSecond float64
	P50, P99, P999                float64 // milliseconds
	measure.Loss
	// Memory is what the server held at equal intervals, from the beginning to the end.
	Memory []Memory
}

// Memory is what the server held at one moment.
type Memory struct {
	Second float64
	// MiB is the resident memory.
	MiB float64
	// Keys is how many idempotency keys it remembered, the one thing that is meant to
	// grow, up to a bound; KeysMiB is their part of the memory.
	Keys    int
	KeysMiB float64
	// Behind is how many records were not loaded yet.
	Behind int
}

// looks is how often memory is read, at least.
const looks = 40

func (c *Comparison) sustain(ctx context.Context, t *target, connections int) (*Sustained, error) {
	s := &Sustained{Connections: connections}
	var begin, end measure.Meters
	look := func() error {
		resident, err := measure.ProcessMemory(t.server.PID())
		if err != nil {
			return err
		}
		v, err := t.server.Gauges(ctx, system.MetricKeys, system.MetricBytes, system.MetricEnd, system.MetricLoaded)
		if err != nil {
			return err
		}
		s.Memory = append(s.Memory, Memory{
			Second: time.Since(begin.At).Seconds(), MiB: float64(resident) / (1 << 20),
			Keys: int(v[0]), KeysMiB: v[1] / (1 << 20), Behind: int(v[2] - v[3]),
		})
		return nil
	}
	looking, stop := context.WithCancel(ctx)
	looked := make(chan error, 1)
	p := &load.Pressure{
		Addr: system.HostOf(t.server.API), Senders: t.senders, Connections: connections, Warm: c.Warm, During: c.Sustain,
		Begin: func() (err error) {
			if begin, err = t.read(); err != nil {
				return err
			}
			go func() { looked <- system.Every(looking, c.Sustain/looks, look) }()
			return nil
		},
		End: func() (err error) {
			stop()
			if end, err = t.read(); err != nil {
				return err
			}
			if err := <-looked; err != nil {
				return err
			}
			return look()
		},
	}
	defer stop()
	answered, err := p.Run(ctx, &t.callers)
	if err != nil {
		return nil, fmt.Errorf("sustained (%s): %w", t.variant, err)
	}
	if err := t.server.AwaitLoaded(ctx); err != nil {
		return nil, err
	}
	r := newRound(t.variant, connections, answered.Latencies, begin, end)
	s.Seconds, s.Receipts, s.PerSecond = r.Seconds, r.Receipts, r.PerSecond
	s.P50, s.P99, s.P999, s.Loss = r.P50, r.P99, r.P999, r.Loss
	s.SustainedPerSecond = float64(answered.Total) / (time.Since(begin.At) + c.Warm).Seconds()
	return s, nil
}
