// Package compare measures the product against servers that do less: on one machine
// (Comparison), and a gateway on Kafka with its loader (StackComparison). Bare is such a
// server.
//
// A figure is only worth as much as the moment it was taken in. A comparison therefore
// alternates its variants, prints what neighbours took of the machine beside each figure,
// leaves disturbed rounds out, and is to be read by its ratios.
package compare

import (
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"muniment.example/bench/load"
	"muniment.example/bench/measure"
	"muniment.example/bench/system"
	"muniment.example/sealer"
	"muniment.example/sealer/keydir"
)

// Variant is one of the servers that are compared.
type Variant string

// The variants, each with more to do than the one before.
const (
	Signed Variant = "a" // decode and sign, nothing else
	Logged Variant = "b" // and append to the log
	Full   Variant = "c" // muniment up, its loader paused
	Loaded Variant = "d" // muniment up
)

var variants = []Variant{Signed, Logged, Full, Loaded}

// Comparison measures the product against servers that do less. Each server is a
// process of its own, the load another, so that CPU can be attributed. All of them
// run from the beginning to the end; in each round they are measured one after the
// other, so that what disturbs the machine disturbs all.
type Comparison struct {
	// Exe is the muniment binary, and Bench the one whose command bare is Bare and whose command
	// abuse is abuse.Run.
	Exe, Bench string
	// Dir is an existing empty folder on the disk that is to be measured. The caller
	// removes it.
	Dir string
	// Out gets a line for each step.
	Out io.Writer

	Connections []int
	// Rounds is how many undisturbed rounds are wanted. Spare is how many more may be
	// measured, with the most connections alone, to get them.
	Rounds, Spare int
	// Each measurement takes During, after Warm without counting.
	Warm, During time.Duration
	// Sustain is how long the full product runs under the most connections, while
	// its memory is watched. 0: not at all.
	Sustain time.Duration
	// Profile is how long its CPU is profiled, loader paused. 0: not at all; needs
	// the Go tool.
	Profile time.Duration

	quick bool
}

// Run measures. An answer that is no 200, or whose receipt does not verify, is an
// error.
func (c *Comparison) Run(ctx context.Context) (*Report, error) {
	report := &Report{
		At: time.Now().UTC().Truncate(time.Second), Machine: measure.DescribeMachine(c.Dir),
		Connections: c.Connections, Seconds: c.During.Seconds(), Wanted: c.Rounds, Quick: c.quick,
	}
	var err error
	if report.Append, err = c.appendCost(ctx); err != nil {
		return nil, err
	}
	var targets []*target
	defer func() {
		for _, t := range targets {
			t.server.Kill()
		}
	}()
	for _, v := range variants {
		t, err := c.start(ctx, v)
		if err != nil {
			return nil, fmt.Errorf("cannot start (%s): %w", v, err)
		}
		targets = append(targets, t)
		if _, err := c.measure(ctx, t, min(64, slices.Max(c.Connections))); err != nil { // caches, heap and files grow
			return nil, err
		}
	}
	for round := range c.Rounds {
		for _, connections := range c.Connections {
			if err := c.round(ctx, report, round, targets, connections); err != nil {
				return nil, err
			}
		}
	}
	most := slices.Max(c.Connections)
	for round := c.Rounds; round < c.Rounds+c.Spare && report.calm(most, Signed, Logged, Full) < c.Rounds; round++ {
		if err := c.round(ctx, report, round, targets[:slices.Index(variants, Loaded)], most); err != nil {
			return nil, err
		}
	}
	report.summarise()
	if c.Profile > 0 {
		if report.Where, err = c.where(ctx, targets[slices.Index(variants, Logged)], targets[slices.Index(variants, Full)], most); err != nil {
			return nil, err
		}
	}
	if report.Batched, err = c.batched(ctx, targets[slices.Index(variants, Full)]); err != nil {
		return nil, err
	}
	if c.Sustain > 0 {
		fmt.Fprintf(c.Out, "sustaining (%s) for %v\n", Loaded, c.Sustain)
		if report.Sustained, err = c.sustain(ctx, targets[slices.Index(variants, Loaded)], most); err != nil {
			return nil, err
		}
	}
	if !c.quick {
		report.judge()
	}
	return report, nil
}

// round measures all targets, one after the other; every other round backwards.
func (c *Comparison) round(ctx context.Context, report *Report, round int, targets []*target, connections int) error {
	order := slices.Clone(targets)
	if round%2 == 1 {
		slices.Reverse(order)
	}
	for _, t := range order {
		m, err := c.measure(ctx, t, connections)
		if err != nil {
			return err
		}
		m.Round = round
		report.Rounds = append(report.Rounds, m)
		fmt.Fprintf(c.Out, "round %d  (%s) %4d connections  %8.0f/s  %6.1f µs CPU  p99 %7.2f ms%s\n",
			round+1, t.variant, connections, m.PerSecond, m.CPUMicros, m.P99, m.Disturbance())
	}
	return nil
}

// target is a server under measurement.
type target struct {
	variant Variant
	server  *system.Server
	// beside are processes whose CPU is no disturbance, though it is none of the server's.
	beside  []int
	senders []load.Sender
	signers map[string]ed25519.PublicKey // by key id
	callers atomic.Uint32
}

func (c *Comparison) start(ctx context.Context, v Variant) (*target, error) {
	data := filepath.Join(c.Dir, string(v))
	t := &target{variant: v}
	const anywhere = "127.0.0.1:0"
	var err error
	switch v {
	case Signed:
		t.server, err = system.Start(ctx, exec.Command(c.Bench, "bare", "--listen", anywhere, "--admin", anywhere), data)
	case Logged:
		t.server, err = system.Start(ctx, exec.Command(c.Bench, "bare", "--listen", anywhere, "--admin", anywhere, "--log", data), data)
	default:
		cmd := exec.Command(c.Exe, "up", "--data", data, "--listen", anywhere, "--admin", anywhere)
		if v == Full {
			cmd.Args = append(cmd.Args, "--pause-loader")
		}
		t.server, err = system.Start(ctx, cmd, data)
	}
	if err != nil {
		return nil, err
	}
	if err := c.prepare(ctx, t); err != nil {
		t.server.Kill()
		return nil, err
	}
	return t, nil
}

// prepare finds out with what to call a server and how to check its receipts.
func (c *Comparison) prepare(ctx context.Context, t *target) error {
	if t.variant == Signed || t.variant == Logged {
		return c.prepareBare(t)
	}
	r, err := load.Register(ctx, c.Exe, t.server, t.server.API)
	if err != nil {
		return err
	}
	if t.signers, err = receiptKeys(ctx, r.Client, t.server); err != nil {
		return err
	}
	bodies, err := c.bodies(r.Rights)
	t.senders = []load.Sender{{Key: r.Client.Key, Bodies: bodies}}
	return err
}

// prepareBare is prepare for a server that looks at no keys.
func (c *Comparison) prepareBare(t *target) error {
	t.signers = map[string]ed25519.PublicKey{bareKeyID: bareKey().Public().(ed25519.PublicKey)}
	bodies, err := c.bodies(load.AnyRights())
	t.senders = []load.Sender{{Key: "nobody", Bodies: bodies}}
	return err
}

// bodies are what is delivered: in a quick run, not many.
func (c *Comparison) bodies(rights map[string]string) ([][]byte, error) {
	n := load.DistinctBodies
	if c.quick {
		n = 50
	}
	return load.Bodies(n, load.BodySeed, rights)
}

// receiptKeys reads the server's key directory, trusting its root key.
func receiptKeys(ctx context.Context, client system.Client, server *system.Server) (map[string]ed25519.PublicKey, error) {
	file := server.Data + ".keys.json"
	if err := client.Download(ctx, "/.well-known/muniment/keys.json", file); err != nil {
		return nil, err
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	root, err := os.ReadFile(filepath.Join(server.Data, "keys", "root.vkey"))
	if err != nil {
		return nil, err
	}
	directory, err := keydir.Verify(text, strings.TrimSpace(string(root)))
	if err != nil {
		return nil, err
	}
	keys := map[string]ed25519.PublicKey{}
	for _, k := range directory.Keys {
		if keys[k.KeyID], err = base64.RawURLEncoding.DecodeString(k.PublicKey); err != nil {
			return nil, err
		}
	}
	return keys, nil
}

// check verifies the receipt of an answer.
func (t *target) check(answer []byte) error {
	var body struct {
		Data struct {
			Receipt   json.RawMessage
			Signature struct{ KeyID, Value string }
		}
	}
	if err := json.Unmarshal(answer, &body); err != nil {
		return fmt.Errorf("cannot read an answer: %w", err)
	}
	s := body.Data.Signature
	value, err := base64.RawURLEncoding.DecodeString(s.Value)
	if err != nil {
		return fmt.Errorf("cannot read a signature: %w", err)
	}
	if key := t.signers[s.KeyID]; key == nil || !ed25519.Verify(key, body.Data.Receipt, value) {
		return fmt.Errorf("the receipt does not verify: %s", answer)
	}
	if _, err := sealer.ParseReceipt(body.Data.Receipt); err != nil {
		return err
	}
	return nil
}

func (t *target) read() (measure.Meters, error) {
	return measure.ReadMeters(t.server.PID(), t.beside...)
}

// measure presses a target once.
func (c *Comparison) measure(ctx context.Context, t *target, connections int) (Round, error) {
	fail := func(err error) (Round, error) {
		return Round{}, fmt.Errorf("(%s) with %d connections: %w", t.variant, connections, err)
	}
	var first, begin, end measure.Meters
	p := &load.Pressure{
		Addr: system.HostOf(t.server.API), Senders: t.senders, Connections: connections, Warm: c.Warm, During: c.During,
		Begin: func() (err error) { begin, err = t.read(); return err },
		End:   func() (err error) { end, err = t.read(); return err },
	}
	first, err := t.read()
	if err != nil {
		return fail(err)
	}
	loadedBefore, err := t.loaded(ctx)
	if err != nil {
		return fail(err)
	}
	answered, err := p.Run(ctx, &t.callers)
	if err != nil {
		return fail(err)
	}
	for _, answer := range answered.Samples {
		if err := t.check(answer); err != nil {
			return fail(err)
		}
	}
	r := newRound(t.variant, connections, answered.Latencies, begin, end)
	switch t.variant {
	case Full:
		after, err := t.loaded(ctx)
		if err != nil {
			return fail(err)
		}
		r.LoaderRan = after != loadedBefore
	case Loaded:
		if err := t.server.AwaitLoaded(ctx); err != nil {
			return fail(err)
		}
		last, err := t.read()
		if err != nil {
			return fail(err)
		}
		// A receipt that is not loaded yet is work that is still owed: rate and CPU
		// are those of all that was answered, until all of it was loaded.
		r.CPUMicros = measure.Micros(last.Server-first.Server) / float64(answered.Total)
		r.SustainedPerSecond = float64(answered.Total) / last.At.Sub(first.At).Seconds()
	}
	return r, nil
}

// Shorten leaves of the measurements what shows that they work.
func (c *Comparison) Shorten() {
	c.quick = true
	c.Rounds, c.Spare, c.Warm, c.During = 1, 0, 0, 10*time.Millisecond
	c.Sustain, c.Profile = min(c.Sustain, 10*time.Millisecond), min(c.Profile, time.Second)
}

// loaded is how far the target's loader has come; 0 for a server without one.
func (t *target) loaded(ctx context.Context) (float64, error) {
	if t.variant != Full && t.variant != Loaded {
		return 0, nil
	}
	v, err := t.server.Gauges(ctx, system.MetricLoaded)
	if err != nil {
		return 0, err
	}
	return v[0], nil
}
