package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"muniment/sealer"
)

// Scale measures an embedded service whose one tenant has much: what it asks, how soon the
// service is back after a kill, and what backup and sealing do to deliveries meanwhile.
type Scale struct {
	Exe string
	Dir string // existing and empty
	Out io.Writer
	// Receipts and Rights of the tenant.
	Receipts, Rights int
	// Python runs the other verifier, sealer/independent/verify.py beneath the working
	// folder; empty: that is left out.
	Python string
	// Window is how long deliveries are timed without anything beside them, and at most
	// during a backup.
	Window time.Duration

	server   *Server
	tenant   *registered
	requests [][]byte  // deliveries
	from, to time.Time // between which the receipts were delivered
	steadily time.Time // from when on deliveries came at a fixed rate
	callers  atomic.Uint32
	verdicts []Verdict
}

// The deliveries beside which something else goes on.
const (
	besideConnections = 8
	besidePerSecond   = 200
)

// data is the folder of the service.
func (s *Scale) data() string { return filepath.Join(s.Dir, "data") }

// Run measures, and prints each figure when it is known.
func (s *Scale) Run(ctx context.Context) (_ []Verdict, err error) {
	defer func() {
		if s.server != nil {
			s.server.Kill()
		}
	}()
	for _, step := range []func(context.Context) error{
		s.start, s.register, s.deliver, s.kill, s.backup, s.ask, s.seal, s.verify,
	} {
		if err := step(ctx); err != nil {
			return nil, err
		}
	}
	return s.verdicts, nil
}

func (s *Scale) find(what, unit string, figure, bound float64, rest ...string) {
	s.verdicts = append(s.verdicts, atMost(s.Out, what, unit, figure, bound, rest...))
}

// atMost prints a figure that must be at most bound.
func atMost(out io.Writer, what, unit string, figure, bound float64, rest ...string) Verdict {
	v := Verdict{What: what, Figure: fmt.Sprintf("%.4g%s", figure, unit), Bound: fmt.Sprintf("≤ %g%s", bound, unit), State: Missed}
	if len(rest) > 0 {
		v.Figure += " (" + strings.Join(rest, "; ") + ")"
	}
	if figure <= bound {
		v.State = Holds
	}
	fmt.Fprintf(out, "%s: %s, must be %s: %s\n", v.What, v.Figure, v.Bound, v.State)
	return v
}

func (s *Scale) start(ctx context.Context) (err error) {
	listen, admin := "127.0.0.1:0", "127.0.0.1:0"
	if s.server != nil {
		listen, admin = hostOf(s.server.API), hostOf(s.server.Admin)
	}
	started, err := StartServer(ctx, s.Exe, s.data(), listen, admin, "--seal-every", "0", "--seal-at", "0") // all of it is sealed when that is measured
	if err == nil {
		s.server = started
	}
	return err
}

// register makes the tenant and its rights.
func (s *Scale) register(ctx context.Context) (err error) {
	if s.tenant, err = register(ctx, s.Exe, s.server, s.server.API); err != nil {
		return err
	}
	fmt.Fprintf(s.Out, "%s\nmaking %s rights\n", describeMachine(s.Dir), count(s.Rights))
	var bases struct{ Bases []struct{ ID string } }
	if err := s.tenant.client.Do(ctx, "GET", "/v1/bases", nil, &bases); err != nil {
		return err
	}
	if len(bases.Bases) == 0 {
		return errors.New("the tenant has no basis")
	}
	right := map[string]any{
		"basisId": bases.Bases[0].ID, "substrate": "DOOH", "scope": map[string]any{},
		"effectiveFrom": time.Now().UTC().Add(-time.Hour).Format(time.RFC3339),
	}
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	var made atomic.Int64
	var makers sync.WaitGroup
	for range 8 {
		makers.Go(func() {
			for made.Add(1) <= int64(s.Rights) && ctx.Err() == nil {
				if err := s.tenant.client.Do(ctx, "POST", "/v1/rights", right, nil); err != nil {
					fail(err)
				}
			}
		})
	}
	makers.Wait()
	return context.Cause(ctx)
}

// deliver delivers until the log has as many records, and waits until all are loaded.
func (s *Scale) deliver(ctx context.Context) error {
	fmt.Fprintf(s.Out, "delivering %s times\n", count(s.Receipts))
	bodies, err := Bodies(distinctBodies, bodySeed, s.tenant.rights)
	if err != nil {
		return err
	}
	s.requests = requests(s.tenant.client.Key, bodies)
	s.from = time.Now().UTC()
	p := &pressure{
		addr: hostOf(s.server.API), senders: []sender{{s.tenant.client.Key, bodies}}, connections: 64, during: time.Second,
		begin: func() error { return nil }, end: func() error { return nil },
	}
	for delivered := 0; delivered < s.Receipts; {
		answered, err := p.run(ctx, &s.callers)
		if err != nil {
			return err
		}
		delivered += answered.total
	}
	s.to = time.Now().UTC()
	if err := (&target{variant: Loaded, server: s.server}).awaitLoaded(ctx); err != nil {
		return err
	}
	fmt.Fprintf(s.Out, "%.0f s, and %.1f s more until all were loaded\n", s.to.Sub(s.from).Seconds(), time.Since(s.to).Seconds())
	return nil
}

// kill ends the service with SIGKILL and starts it again.
func (s *Scale) kill(ctx context.Context) error {
	v, err := gauges(ctx, s.server, metricKeys)
	if err != nil {
		return err
	}
	s.server.Kill()
	begin := time.Now()
	if err := s.start(ctx); err != nil {
		return err
	}
	s.find("ready after SIGKILL", " s", time.Since(begin).Seconds(), 3, count(int(v[0]))+" idempotency keys")
	return nil
}

// question is a GET whose answer must not take longer than bound.
type question struct {
	what  string
	path  string
	bound time.Duration
}

// ask times the questions that get slower as a tenant gets larger.
func (s *Scale) ask(ctx context.Context) error {
	var whole struct{ AsOf string }
	if err := s.tenant.client.Do(ctx, "GET", "/v1/metering", nil, &whole); err != nil {
		return err
	}
	end, err := sealer.ParsePosition(whole.AsOf)
	if err != nil {
		return err
	}
	end.Offset -= end.Offset / 3
	dense, sparse := minuteFrom(s.from.Add(s.to.Sub(s.from)/2)), minuteFrom(s.steadily)
	for _, q := range []question{
		{"metering of all time", "/v1/metering", 300 * time.Millisecond},
		{"metering of all time by hour", "/v1/metering?bucket=hour", 300 * time.Millisecond},
		{"metering as of a position", "/v1/metering?asOf=" + url.QueryEscape(end.String()), 4 * time.Second},
		{fmt.Sprintf("metering of a minute of %d deliveries/s", besidePerSecond), "/v1/metering?" + sparse, 20 * time.Millisecond},
		{"events by an actor, first page", "/v1/events?actorKind=key&actorId=key_of_nobody", 20 * time.Millisecond},
		{"events of a minute, first page", "/v1/events?" + dense, 20 * time.Millisecond},
		{"events of a minute, oldest first, first page", "/v1/events?order=asc&" + dense, 20 * time.Millisecond},
	} {
		took, err := s.times(ctx, q.path)
		if err != nil {
			return fmt.Errorf("%s: %w", q.what, err)
		}
		s.find(q.what, " ms", median(took), float64(q.bound.Milliseconds()), spans(took))
	}
	return s.rights(ctx)
}

// rights times what filters a list of rights, which has no bound.
func (s *Scale) rights(ctx context.Context) error {
	for _, path := range []string{"/v1/rights", "/v1/rights?state=REVOKED", "/v1/rights?substrate=DRONE"} {
		took, err := s.times(ctx, path)
		if err != nil {
			return err
		}
		fmt.Fprintf(s.Out, "GET %s: %.4g ms (%s)\n", path, median(took), spans(took))
	}
	return nil
}

func (s *Scale) times(ctx context.Context, path string) ([]float64, error) {
	return fiveTimes(func() error { return s.tenant.client.Do(ctx, "GET", path, nil, nil) })
}

// fiveTimes returns how many milliseconds each call of f took.
func fiveTimes(f func() error) (took []float64, err error) {
	for range 5 {
		begin := time.Now()
		if err := f(); err != nil {
			return nil, err
		}
		took = append(took, ms(time.Since(begin)))
	}
	return took, nil
}

func spans(all []float64) string {
	return fmt.Sprintf("%.4g to %.4g in %d", slices.Min(all), slices.Max(all), len(all))
}

func minuteFrom(t time.Time) string {
	const spelt = "2006-01-02T15:04:05.000Z"
	return "from=" + url.QueryEscape(t.Format(spelt)) + "&to=" + url.QueryEscape(t.Add(time.Minute).Format(spelt))
}

// beside delivers at a fixed rate as long as f works, and returns the p99 in milliseconds.
func (s *Scale) beside(ctx context.Context, f func(context.Context) error) (p99 float64, err error) {
	const stretch = 2 * time.Second
	done := make(chan error, 1)
	go func() { done <- f(ctx) }()
	var all []time.Duration
	for {
		some, err := steady(ctx, hostOf(s.server.API), s.requests, besideConnections, besidePerSecond, min(stretch, s.Window))
		if err != nil {
			<-done
			return 0, fmt.Errorf("deliveries suffered: %w", err)
		}
		all = append(all, some...)
		select {
		case err := <-done:
			slices.Sort(all)
			return quantile(all, 0.99), err
		default:
		}
	}
}

// alone is the p99 of deliveries with nothing beside them.
func (s *Scale) alone(ctx context.Context) (p99 float64, err error) {
	return s.beside(ctx, func(ctx context.Context) error { return pause(ctx, s.Window) })
}

// slowdown holds the p99 of deliveries beside something against that without.
func (s *Scale) slowdown(ctx context.Context, what string, bound float64, f func(context.Context) error) error {
	without, err := s.alone(ctx)
	if err != nil {
		return err
	}
	with, err := s.beside(ctx, f)
	if err != nil {
		return err
	}
	s.find(fmt.Sprintf("p99 of %d deliveries/s %s, to that without", besidePerSecond, what), " ×", with/without, bound, millis(without)+" → "+millis(with))
	return nil
}

// backup takes one, or begins to.
func (s *Scale) backup(ctx context.Context) error {
	s.steadily = time.Now().UTC()
	to := filepath.Join(s.Dir, "backup")
	defer os.RemoveAll(to)
	return s.slowdown(ctx, "during a backup", 5, func(ctx context.Context) error {
		ctx, stop := context.WithTimeout(ctx, 3*s.Window)
		defer stop()
		_, err := s.command(ctx, nil, s.Exe, "backup", "--data", s.data(), "--to", to)
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return nil
		}
		return err
	})
}

// peakOf is the most memory that a process has held so far, in bytes.
func peakOf(pid int) int64 {
	status, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "status"))
	if err != nil {
		return 0 // it has ended
	}
	for line := range strings.Lines(string(status)) {
		if f := strings.Fields(line); len(f) == 3 && f[0] == "VmHWM:" {
			kb, _ := strconv.ParseInt(f[1], 10, 64) // the kernel writes a number
			return kb << 10
		}
	}
	return 0
}
