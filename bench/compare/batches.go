package compare

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"muniment.example/bench/abuse"
	"muniment.example/bench/load"
	"muniment.example/bench/measure"
	"muniment.example/bench/system"
	"muniment.example/pipeline"
)

// Batched is what a server makes of batches, beside single deliveries and bare signatures.
type Batched struct {
	Variant Variant
	// Rounds alternate single deliveries and batches; Rows is the size of each batch.
	Rows, Connections int
	Single, Batch     Median
	// Signing is how many Ed25519 signatures all processors make in a second.
	Signing float64
	// Where is the server's CPU, of which Signature is the signature's part.
	Where     []Usage
	Signature float64
	// Alone and Beside are the p99 of paced single deliveries, in milliseconds, without batches
	// and during them, and Times what the second is of the first: medians of the pairs.
	Alone, Beside, Times float64
	Pairs                int
	// Before and Most are the memory of the server, in MiB: before, and the most during bodies
	// of MemoryRows rows from MemoryConnections connections at once.
	Before, Most                  float64
	MemoryRows, MemoryConnections int
	measure.Loss
}

// What is measured of batches.
const (
	batchRows        = 500
	batchConnections = 16
	memoryRows       = 1000
	memoryBatches    = 64
	batchPairs       = 7
	// besideWindow is how long paced deliveries are measured at a time.
	besideWindow = 4 * time.Second
)

// batched measures a server's batches.
func (c *Comparison) batched(ctx context.Context, t *target) (*Batched, error) {
	b := &Batched{Variant: t.variant, Rows: batchRows, Connections: batchConnections, MemoryRows: memoryRows, MemoryConnections: memoryBatches}
	if c.quick { // no more than the tenant limit admits without a delay, and few signatures: other work has the machine
		b.Rows, b.Connections, b.MemoryRows, b.MemoryConnections = 20, 4, 20, 4
	}
	fmt.Fprintf(c.Out, "batches of %d rows, (%s)\n", b.Rows, t.variant)
	var err error
	if b.Signing, err = signing(ctx, c.During); err != nil {
		return nil, err
	}
	var single, batch []*Round
	for range max(1, c.Rounds/2) {
		one, err := c.measure(ctx, t, 4*b.Connections)
		if err != nil {
			return nil, err
		}
		many, err := c.measureBatches(ctx, t, b.Connections, b.Rows)
		if err != nil {
			return nil, err
		}
		single, batch = append(single, &one), append(batch, &many)
		b.Loss = measure.Loss{Steal: max(b.Steal, one.Steal, many.Steal), Others: max(b.Others, one.Others, many.Others)}
		fmt.Fprintf(c.Out, "  single %8.0f/s %6.1f µs CPU   batches %8.0f rows/s %6.1f µs CPU a row%s\n",
			one.PerSecond, one.CPUMicros, many.PerSecond, many.CPUMicros, many.Disturbance())
	}
	b.Single, b.Batch = medians(0, t.variant, single), medians(0, t.variant, batch)
	if c.Profile > 0 {
		p := c.batchPressure(t, b.Connections, b.Rows)
		if b.Where, err = c.profileOf(ctx, t, p, b.Rows); err != nil {
			return nil, err
		}
		for _, s := range b.Where {
			if s.What == kinds[0].what {
				b.Signature = s.Part
			}
		}
	}
	if err := c.batchMemory(ctx, t, b); err != nil {
		return nil, err
	}
	if err := giveWay(t.server.PID()); err != nil {
		return nil, err
	}
	return b, c.besideBatches(ctx, t, b)
}

// giveWay has a server come after its clients from now on: an answer would seem late
// whose reader had to wait for a processor.
func giveWay(pid int) error {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", pid))
	for _, thread := range threads {
		id, parseErr := strconv.Atoi(filepath.Base(thread))
		rank, getErr := unix.Getpriority(unix.PRIO_PROCESS, id) // the kernel says 20 − nice
		err = errors.Join(err, parseErr, getErr, unix.Setpriority(unix.PRIO_PROCESS, id, 20-rank+5))
	}
	return err
}

// signing is how many signatures of a receipt's length all processors make in a second.
func signing(ctx context.Context, during time.Duration) (float64, error) {
	var made atomic.Int64
	var signers sync.WaitGroup
	began := time.Now()
	for range runtime.GOMAXPROCS(0) {
		signers.Go(func() {
			text := make([]byte, 500)
			for time.Since(began) < during && ctx.Err() == nil {
				ed25519.Sign(bareKey(), text)
				made.Add(1)
			}
		})
	}
	signers.Wait()
	return float64(made.Load()) / time.Since(began).Seconds(), ctx.Err()
}

// batchPressure is a load of batches.
func (c *Comparison) batchPressure(t *target, connections, rows int) *load.Pressure {
	return &load.Pressure{Addr: system.HostOf(t.server.API), Senders: t.senders, Connections: connections, Rows: rows, Warm: c.Warm, During: c.During}
}

// measureBatches presses a target with batches once; the figures are of rows, but for the
// latencies.
func (c *Comparison) measureBatches(ctx context.Context, t *target, connections, rows int) (Round, error) {
	var begin, end measure.Meters
	p := c.batchPressure(t, connections, rows)
	p.Begin = func() (err error) { begin, err = t.read(); return err }
	p.End = func() (err error) { end, err = t.read(); return err }
	answered, err := p.Run(ctx, &t.callers)
	if err != nil {
		return Round{}, fmt.Errorf("batches for (%s): %w", t.variant, err)
	}
	for _, answer := range answered.Samples {
		if err := t.checkBatch(answer, rows); err != nil {
			return Round{}, err
		}
	}
	r := newRound(t.variant, connections, answered.Latencies, begin, end)
	r.Receipts *= rows
	for _, of := range []*float64{&r.CPUMicros, &r.ClientMicros, &r.BrokerMicros} {
		*of /= float64(rows)
	}
	r.PerSecond *= float64(rows)
	return r, nil
}

// checkBatch verifies the first receipt of an answer in which every row was accepted.
func (t *target) checkBatch(answer []byte, rows int) error {
	var body struct {
		Data struct {
			Results []struct {
				Status    string
				Receipt   json.RawMessage
				Signature json.RawMessage
			}
			Counts struct{ Accepted int }
		}
	}
	if err := json.Unmarshal(answer, &body); err != nil {
		return fmt.Errorf("cannot read an answer: %w", err)
	}
	if body.Data.Counts.Accepted != rows || len(body.Data.Results) != rows {
		return fmt.Errorf("%d of %d rows were accepted", body.Data.Counts.Accepted, rows)
	}
	first := body.Data.Results[0]
	return t.check(fmt.Appendf(nil, `{"data":{"receipt":%s,"signature":%s}}`, first.Receipt, first.Signature))
}

// besideBatches measures paced deliveries, without batches and during them, alternating.
func (c *Comparison) besideBatches(ctx context.Context, t *target, b *Batched) error {
	window := besideWindow
	if c.quick {
		window = c.During
	}
	s := t.senders[0]
	deliver := load.Requests(s.Key, s.Bodies)
	paced := func() (float64, error) {
		all, err := load.Steady(ctx, system.HostOf(t.server.API), deliver, load.GoodConnections, load.GoodPerSecond, window)
		slices.Sort(all)
		return measure.Quantile(all, 0.99), err
	}
	var alone, beside, times []float64
	for range max(1, min(c.Rounds, batchPairs)) {
		first, err := paced()
		if err != nil {
			return err
		}
		// In a process of its own, of idle work: uploaders have machines of their own.
		load := &abuse.Abuse{
			Kind: abuse.Batches, Addr: system.HostOf(t.server.API), Connections: b.Connections, Key: s.Key, Rows: b.Rows, Requests: s.Bodies,
			From: t.callers.Add(uint32(b.Connections)) - uint32(b.Connections),
		}
		uploading, err := load.Launch(ctx, c.Bench)
		if err != nil {
			return err
		}
		second, err := paced()
		if _, ended := uploading.Stop(); err == nil {
			err = ended
		}
		if err != nil {
			return err
		}
		alone, beside, times = append(alone, first), append(beside, second), append(times, second/first)
	}
	b.Alone, b.Beside, b.Times, b.Pairs = measure.Median(alone), measure.Median(beside), measure.Median(times), len(times)
	return nil
}

var errEnough = errors.New("enough")

// batchMemory watches the server's memory under a load of batches.
func (c *Comparison) batchMemory(ctx context.Context, t *target, b *Batched) error {
	resident := func() (float64, error) {
		n, err := measure.ProcessMemory(t.server.PID())
		return float64(n) / (1 << 20), err
	}
	var err error
	if b.Before, err = resident(); err != nil {
		return err
	}
	p := c.batchPressure(t, b.MemoryConnections, b.MemoryRows)
	p.During = time.Minute
	p.Begin = func() error {
		for end := time.Now().Add(2 * c.During); time.Now().Before(end); {
			now, err := resident()
			if err != nil {
				return err
			}
			b.Most = max(b.Most, now)
			if err := pipeline.Pause(ctx, 20*time.Millisecond); err != nil {
				return err
			}
		}
		return errEnough
	}
	if _, err := p.Run(ctx, &t.callers); !errors.Is(err, errEnough) {
		return fmt.Errorf("batches for (%s): %w", t.variant, err)
	}
	return nil
}

// write writes the figures as Markdown.
func (b *Batched) write(out *strings.Builder) {
	fmt.Fprintf(out, "\nBatches of %d rows on %d connections, %s. p99 is of a request.\n\n", b.Rows, b.Connections, variantNames[b.Variant])
	micros := func(m Median) string { return fmt.Sprintf("%.1f µs", m.CPUMicros) }
	measure.Table(out, [][]string{
		{"", "a second", "server CPU each", "p50", "p99"},
		{"Ed25519 signatures, nothing else", measure.Count(int(b.Signing)), "", "", ""},
		{"rows of batches", measure.Count(int(b.Batch.PerSecond)), micros(b.Batch), measure.Millis(b.Batch.P50), measure.Millis(b.Batch.P99)},
		{fmt.Sprintf("single deliveries, %d connections", 4*b.Connections), measure.Count(int(b.Single.PerSecond)), micros(b.Single), measure.Millis(b.Single.P50), measure.Millis(b.Single.P99)},
	})
	fmt.Fprintf(out, "\np99 of %d single deliveries a second, without batches and during them: %s and %s, %.2f × (median of %d pairs). "+
		"Memory during bodies of %d rows on %d connections: %.0f MiB, before them %.0f.\n",
		load.GoodPerSecond, measure.Millis(b.Alone), measure.Millis(b.Beside), b.Times, b.Pairs, b.MemoryRows, b.MemoryConnections, b.Most, b.Before)
	if len(b.Where) == 0 {
		return
	}
	out.WriteString("\n")
	rows := [][]string{{"where the CPU goes", "part", "a row"}}
	for _, s := range b.Where {
		rows = append(rows, []string{s.What, fmt.Sprintf("%.1f %%", 100*s.Part), fmt.Sprintf("%.1f µs", s.Micros)})
	}
	measure.Table(out, rows)
}
