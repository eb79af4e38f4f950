// Package scale measures an embedded service whose one tenant has much.
package scale

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"muniment.example/bench/load"
	"muniment.example/bench/measure"
	"muniment.example/bench/system"
	"muniment.example/pipeline"
	"muniment.example/sealer"
)

// Scale measures an embedded service whose one tenant has much: what its queries take, how soon the
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
	// Window is how long deliveries are timed without anything beside them; Backup, how long
	// they are at most during a backup.
	Window, Backup time.Duration

	server   *system.Server
	tenant   *load.Tenant
	requests [][]byte  // deliveries
	from, to time.Time // between which the receipts were delivered
	steadily time.Time // from when on deliveries came at a fixed rate
	callers  atomic.Uint32
	verdicts []measure.Verdict
}

// The deliveries beside which something else goes on.
const (
	besideConnections = 8
	besidePerSecond   = 200
)

// data is the folder of the service.
func (s *Scale) data() string { return filepath.Join(s.Dir, "data") }

// Run measures, and prints each figure when it is known.
func (s *Scale) Run(ctx context.Context) (_ []measure.Verdict, err error) {
	defer func() {
		if s.server != nil {
			s.server.Kill()
		}
	}()
	for _, step := range []func(context.Context) error{
		s.start, s.register, s.deliver, s.kill, s.backup, s.seal, s.queries, s.pages, s.verify,
	} {
		if err := step(ctx); err != nil {
			return nil, err
		}
	}
	return s.verdicts, nil
}

func (s *Scale) find(what, unit string, figure, bound float64, details ...string) {
	s.verdicts = append(s.verdicts, measure.AtMost(s.Out, what, unit, figure, bound, details...))
}

func (s *Scale) start(ctx context.Context) (err error) {
	listen, admin := "127.0.0.1:0", "127.0.0.1:0"
	if s.server != nil {
		listen, admin = system.HostOf(s.server.API), system.HostOf(s.server.Admin)
	}
	started, err := system.StartServer(ctx, s.Exe, s.data(), listen, admin, "--seal-every", "0", "--seal-at", "0") // all of it is sealed when that is measured
	if err == nil {
		s.server = started
	}
	return err
}

// register makes the tenant and its rights.
func (s *Scale) register(ctx context.Context) (err error) {
	if s.tenant, err = load.Register(ctx, s.Exe, s.server, s.server.API); err != nil {
		return err
	}
	fmt.Fprintf(s.Out, "%s\nmaking %s rights\n", measure.DescribeMachine(s.Dir), measure.Count(s.Rights))
	var bases struct{ Bases []struct{ ID string } }
	if err := s.tenant.Client.Do(ctx, "GET", "/v1/bases", nil, &bases); err != nil {
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
				if err := s.tenant.Client.Do(ctx, "POST", "/v1/rights", right, nil); err != nil {
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
	fmt.Fprintf(s.Out, "delivering %s times\n", measure.Count(s.Receipts))
	bodies, err := load.Bodies(min(load.DistinctBodies, s.Receipts), load.BodySeed, s.tenant.Rights)
	if err != nil {
		return err
	}
	s.requests = load.Requests(s.tenant.Client.Key, bodies)
	s.from = time.Now().UTC()
	p := &load.Pressure{
		Addr: system.HostOf(s.server.API), Senders: []load.Sender{{Key: s.tenant.Client.Key, Bodies: bodies}}, Connections: 64, During: min(time.Second, s.Window),
	}
	for delivered := 0; delivered < s.Receipts; {
		answered, err := p.Run(ctx, &s.callers)
		if err != nil {
			return err
		}
		delivered += answered.Total
	}
	s.to = time.Now().UTC()
	if err := s.server.AwaitLoaded(ctx); err != nil {
		return err
	}
	fmt.Fprintf(s.Out, "%.0f s, and %.1f s more until all were loaded\n", s.to.Sub(s.from).Seconds(), time.Since(s.to).Seconds())
	return nil
}

// kill ends the service with SIGKILL and starts it again.
func (s *Scale) kill(ctx context.Context) error {
	v, err := s.server.Gauges(ctx, system.MetricKeys)
	if err != nil {
		return err
	}
	s.server.Kill()
	begin := time.Now()
	if err := s.start(ctx); err != nil {
		return err
	}
	s.find("ready after SIGKILL", " s", time.Since(begin).Seconds(), 3, measure.Count(int(v[0]))+" idempotency keys")
	return nil
}

// query is a GET whose answer must not take longer than bound.
type query struct {
	what  string
	path  string
	bound time.Duration
}

// queries times those that get slower as a tenant gets larger.
func (s *Scale) queries(ctx context.Context) error {
	var whole struct{ AsOf string }
	if err := s.tenant.Client.Do(ctx, "GET", "/v1/metering", nil, &whole); err != nil {
		return err
	}
	end, err := sealer.ParsePosition(whole.AsOf)
	if err != nil {
		return err
	}
	end.Offset -= end.Offset / 3
	dense, sparse := minuteFrom(s.from.Add(s.to.Sub(s.from)/2)), minuteFrom(s.steadily)
	for _, q := range []query{
		{"metering of all time", "/v1/metering", 300 * time.Millisecond},
		{"metering of all time by hour", "/v1/metering?bucket=hour", 300 * time.Millisecond},
		{"metering as of a position", "/v1/metering?asOf=" + url.QueryEscape(end.String()), 4 * time.Second},
		{fmt.Sprintf("metering of a minute of %d deliveries/s", besidePerSecond), "/v1/metering?" + sparse, 20 * time.Millisecond},
		{"events by an actor, first page", "/v1/events?actorKind=key&actorId=key_without_events", 20 * time.Millisecond},
		{"events of a minute, first page", "/v1/events?" + dense, 20 * time.Millisecond},
		{"events of a minute, oldest first, first page", "/v1/events?order=asc&" + dense, 20 * time.Millisecond},
	} {
		took, err := s.times(ctx, q.path)
		if err != nil {
			return fmt.Errorf("%s: %w", q.what, err)
		}
		s.find(q.what, " ms", measure.Median(took), float64(q.bound.Milliseconds()), measure.Spans(took))
	}
	return nil
}

func (s *Scale) times(ctx context.Context, path string) ([]float64, error) {
	return measure.FiveTimes(func() error { return s.tenant.Client.Do(ctx, "GET", path, nil, nil) })
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
		some, err := load.Steady(ctx, system.HostOf(s.server.API), s.requests, besideConnections, besidePerSecond, min(stretch, s.Window))
		if err != nil {
			<-done
			return 0, fmt.Errorf("deliveries suffered: %w", err)
		}
		all = append(all, some...)
		select {
		case err := <-done:
			slices.Sort(all)
			return measure.Quantile(all, 0.99), err
		default:
		}
	}
}

// alone is the p99 of deliveries with nothing beside them.
func (s *Scale) alone(ctx context.Context) (p99 float64, err error) {
	return s.beside(ctx, func(ctx context.Context) error { return pipeline.Pause(ctx, s.Window) })
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
	s.find(fmt.Sprintf("p99 of %d deliveries/s %s, to that without", besidePerSecond, what), " ×", with/without, bound, measure.Millis(without)+" → "+measure.Millis(with))
	return nil
}

// backup takes one, or begins to.
func (s *Scale) backup(ctx context.Context) error {
	s.steadily = time.Now().UTC()
	to := filepath.Join(s.Dir, "backup")
	defer os.RemoveAll(to)
	return s.slowdown(ctx, "during a backup", 5, func(ctx context.Context) error {
		ctx, stop := context.WithTimeout(ctx, s.Backup)
		defer stop()
		_, err := s.command(ctx, nil, s.Exe, "backup", "--data", s.data(), "--to", to)
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return nil
		}
		return err
	})
}
