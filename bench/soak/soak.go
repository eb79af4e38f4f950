// Package soak measures good traffic beside abuse, and searches the server's log for what it
// must not hold.
package soak

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"muniment.example/bench/abuse"
	"muniment.example/bench/load"
	"muniment.example/bench/measure"
	"muniment.example/bench/system"
)

// Soak holds a server under abuse beside good traffic and compares what the good
// traffic feels with what it felt in the same run without: windows of both kinds
// alternate, so that whatever else the machine does meets both. It is also the
// command line of that.
type Soak struct {
	Window    time.Duration `default:"4s" help:"Length of one measurement."`
	Rounds    int           `default:"5" help:"Undisturbed pairs of measurements, without and with an abuse, that are wanted of each; at most two more are made."`
	Drips     int           `default:"5000" help:"Connections that send a byte a second."`
	Bombs     int           `default:"1000" help:"Requests with too many or too large headers, in each measurement."`
	Readers   int           `default:"256" help:"Connections without a key that read a long document slowly."`
	Changes   int           `default:"64" help:"Connections on which a tenant makes changes without a pause."`
	TenantCap int           `default:"16" help:"Each tenant's cap; one presses against it with ten times as many connections."`
	Quick     bool          `help:"Abuse for a moment, to see that everything works: the figures say nothing."`
	Dir       string        `help:"Folder for the server's data; default: that of temporary files. A few hundred MB are used meanwhile." type:"existingdir"`
}

// Validate refuses what can't be measured.
func (s *Soak) Validate() error {
	if s.Window < 100*time.Millisecond || min(s.Rounds, s.Drips, s.Bombs, s.Readers, s.Changes) < 1 {
		return errors.New("--window must be at least 100ms, --rounds, --drips, --bombs, --readers and --changes 1")
	}
	if s.TenantCap < load.GoodConnections {
		return fmt.Errorf("--tenant-cap must be at least %d, which the good tenant may reach", load.GoodConnections)
	}
	return nil
}

// What must hold.
const (
	maxSlowdown = 2.0 // of the good traffic's p99
	maxStopping = 3.0 // of the p99 of suspensions
	// A drip is closed when its request has not arrived within the server's read
	// timeout.
	maxDrip = abuse.ReadTimeout + time.Second
	// Memory is back at its level when it is this close to it.
	memorySlack = 16 << 20
	settleTime  = time.Minute
	// Connections that clients have closed are closed by the server within closeTime.
	closeTime = 10 * time.Minute
)

// metricConnections is how many connections the server holds.
const metricConnections = "muniment_gateway_connections"

// Measure runs the binary exe as the server and bench as the abusers, and reports to out
// each thing that must hold with its figure. It fails if one doesn't hold; a quick one,
// if something doesn't work. The server logs at debug level, and all of that is
// searched.
func (s *Soak) Measure(ctx context.Context, exe, bench string, out io.Writer) error {
	warm, spread, limit := 150_000, abuse.ReadTimeout, settleTime // so many records fill the page cache of the warehouse
	if s.Quick {
		s.Window, s.Rounds, s.Drips, s.Bombs, s.Readers, s.Changes = 50*time.Millisecond, 1, 20, 10, 4, 2
		warm, spread, limit = 50, 50*time.Millisecond, 0
	}
	if err := measure.RaiseFileLimit(uint64(s.Drips + 10*s.TenantCap + 1000)); err != nil {
		return err
	}
	dir, err := os.MkdirTemp(s.Dir, "muniment-soak-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	data := filepath.Join(dir, "data")
	// Clients have machines of their own: here they come before the server, or an
	// answer would seem late whose reader had to wait for a processor.
	server, err := system.Start(ctx, exec.Command("nice", "-n", "5", exe, "up", "--data", data, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0",
		"--log-level", "debug", "--tenant-cap", strconv.Itoa(s.TenantCap)), data)
	if err != nil {
		return err
	}
	defer server.Kill()
	r := &soaking{Soak: s, exe: exe, bench: bench, out: out, server: server, pid: server.PID(), addr: system.HostOf(server.API), enough: warm, spread: spread, limit: limit}
	fmt.Fprintf(out, "%s\n%d × %s without and with each abuse; good traffic of one tenant: %d deliveries a second on %d connections\n\n",
		measure.DescribeMachine(dir), s.Rounds, s.Window, load.GoodPerSecond, load.GoodConnections)
	if err := r.register(ctx); err != nil {
		return err
	}
	if err := r.run(ctx); err != nil {
		return err
	}
	if err := server.Stop(); err != nil {
		return err
	}
	if err := r.searchLog(data + ".log"); err != nil {
		return err
	}
	if err := r.report(out); err != nil && !s.Quick {
		return err
	}
	return nil
}

// soaking is one run.
type soaking struct {
	*Soak
	exe    string // muniment
	bench  string // its command abuse is abuse.Run
	out    io.Writer
	server *system.Server
	pid    int // the server's
	addr   string
	// requests are the good tenant's deliveries, reads its lists, and rights what it suspends; greedy are
	// the deliveries of the one that exceeds its cap, and changes what else it does.
	requests, reads, greedy, changes [][]byte

	client        system.Client
	rights        []string
	hidden        []string // what no log may hold
	enough        int      // deliveries make a server warm
	spread, limit time.Duration
	abusers       []*abuse.Process // under way
	most          int64            // memory seen under the present abuse
	findings
}

// register makes both tenants, and remembers what must stay between them and the
// server.
func (r *soaking) register(ctx context.Context) error {
	greedy, deliveries, err := r.tenant(ctx)
	if err != nil {
		return err
	}
	r.greedy, r.changes = deliveries, manyChanges(greedy)
	good, deliveries, err := r.tenant(ctx)
	if err != nil {
		return err
	}
	r.requests, r.client, r.rights = deliveries, good.Client, slices.Sorted(maps.Values(good.Rights))
	for _, list := range []string{"rights", "bases", "events", "receipts", "proof-packs"} {
		r.reads = append(r.reads, fmt.Appendf(nil, "GET /v1/%s?limit=50 HTTP/1.1\r\nHost: muniment\r\nAuthorization: Bearer %s\r\n\r\n", list, r.client.Key))
	}
	return nil
}

// tenant makes a tenant, and the requests of its deliveries, which no log may hold.
func (r *soaking) tenant(ctx context.Context) (*load.Tenant, [][]byte, error) {
	tenant, err := load.Register(ctx, r.exe, r.server, r.server.API)
	if err != nil {
		return nil, nil, err
	}
	bodies, err := load.Bodies(min(256, max(r.enough, load.GoodConnections)), load.BodySeed, tenant.Rights)
	if err != nil {
		return nil, nil, err
	}
	return tenant, load.Requests(tenant.Client.Key, bodies), r.hide(tenant.Client.Key, bodies)
}

// manyChanges are imports of mappings, each of 100 others, and new bases between them.
func manyChanges(tenant *load.Tenant) (all [][]byte) {
	post := func(path, kind, body string) {
		all = append(all, fmt.Appendf(nil, "POST %s HTTP/1.1\r\nHost: muniment\r\nAuthorization: Bearer %s\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n%s", path, tenant.Client.Key, kind, len(body), body))
	}
	right := slices.Sorted(maps.Values(tenant.Rights))[0]
	for i := range 2000 {
		rows := "vendor,idType,vendorId,rightId,spatialAnchorId,effectiveFrom\n"
		for n := range 100 {
			rows += fmt.Sprintf("hivestack,site,s%d-%d,%s,screen,2026-01-01T00:00:00Z\n", i, n, right)
		}
		post("/v1/delivery/mappings/import", "text/csv", rows)
		post("/v1/bases", "application/json", `{"kind":"LICENSE","title":"one of many","holderOrgId":"org_demo","jurisdiction":"DE","effectiveFrom":"2026-01-01T00:00:00Z"}`)
	}
	return all
}

func (r *soaking) run(ctx context.Context) error {
	if err := r.warm(ctx); err != nil {
		return err
	}
	level, err := r.memory(ctx)
	if err != nil {
		return err
	}
	if err := r.dripping(ctx); err != nil {
		return err
	}
	if err := r.settle(ctx, "after the drips", level); err != nil {
		return err
	}
	if err := r.reading(ctx); err != nil {
		return err
	}
	if err := r.crowding(ctx); err != nil {
		return err
	}
	if err := r.settle(ctx, "after the crowd", level); err != nil {
		return err
	}
	return r.stopping(ctx)
}

// warm has a tenant within its cap deliver as fast as it can, and the good one read, until caches,
// pools and the runtime have found their size, and the first pack was sealed.
func (r *soaking) warm(ctx context.Context) error {
	fmt.Fprintf(r.out, "warming up with %s deliveries\n", measure.Count(r.enough))
	busy, err := (&abuse.Abuse{Kind: abuse.Crowd, Addr: r.addr, Connections: r.TenantCap, Requests: r.greedy}).Launch(ctx, r.bench)
	if err != nil {
		return err
	}
	warm, cancel := context.WithTimeout(ctx, time.Minute) // a slow machine is warm by then
	defer cancel()
	err = system.Until(warm, func() (bool, error) {
		end, err := r.server.Gauges(ctx, system.MetricEnd)
		return err == nil && end[0] >= float64(r.enough), err
	})
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		err = nil
	}
	if _, stopErr := busy.Stop(); err != nil || stopErr != nil {
		return errors.Join(err, stopErr)
	}
	for _, good := range []traffic{r.deliver, r.read} {
		if _, err := r.measure(ctx, good); err != nil {
			return err
		}
	}
	return nil
}

// traffic is good traffic for one window: how long each answer took.
type traffic func(context.Context) ([]time.Duration, error)

func (r *soaking) deliver(ctx context.Context) ([]time.Duration, error) {
	return load.Steady(ctx, r.addr, r.requests, load.GoodConnections, load.GoodPerSecond, r.Window)
}

// readsPerSecond are few enough for the slowest list.
const readsPerSecond = 100

func (r *soaking) read(ctx context.Context) ([]time.Duration, error) {
	return load.Steady(ctx, r.addr, r.reads, load.GoodConnections, readsPerSecond, r.Window)
}

// suspend suspends a right ten times a second, and resumes it.
func (r *soaking) suspend(ctx context.Context) (all []time.Duration, err error) {
	end, every := time.Now().Add(r.Window), time.NewTicker(100*time.Millisecond)
	defer every.Stop()
	for n := 0; ; n++ {
		right := "/v1/rights/" + r.rights[n%len(r.rights)]
		began := time.Now()
		if err := r.client.Do(ctx, "POST", right+"/suspend", map[string]string{"reason": "maintenance"}, nil); err != nil {
			return nil, err
		}
		all = append(all, time.Since(began))
		if err := r.client.Do(ctx, "POST", right+"/resume", nil, nil); err != nil {
			return nil, err
		}
		select {
		case <-every.C:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		if time.Now().After(end) {
			return all, nil
		}
	}
}

// measure sends good traffic for one window.
func (r *soaking) measure(ctx context.Context, good traffic) (window, error) {
	before, err := r.spent()
	if err != nil {
		return window{}, err
	}
	latencies, err := good(ctx)
	if err != nil {
		return window{}, fmt.Errorf("good traffic suffered: %w", err)
	}
	after, err := r.spent()
	if err != nil {
		return window{}, err
	}
	return newWindow(latencies, before, after), nil
}

// spent is the CPU of the machine, and that of server, abusers and this process.
func (r *soaking) spent() (measure.Meters, error) {
	var abusers []int
	for _, a := range r.abusers {
		abusers = append(abusers, a.PID())
	}
	return measure.ReadMeters(r.pid, abusers...)
}

// alternate measures rounds without and with abuses. It returns what came of each
// abuse, and of how many rounds.
func (r *soaking) alternate(ctx context.Context, what string, good traffic, most float64, abuses ...*abuse.Abuse) (got []abuse.Counts, rounds int, err error) {
	const more = 2
	var pairs []pair
	got, r.most = make([]abuse.Counts, len(abuses)), 0
	for calm := 0; calm < r.Rounds && rounds < r.Rounds+more; rounds++ {
		if err := r.awaitClosed(ctx); err != nil {
			return nil, 0, err
		}
		var p pair
		if p.quiet, err = r.measure(ctx, good); err != nil {
			return nil, 0, err
		}
		if p.loud, err = r.beside(ctx, good, abuses, got); err != nil {
			return nil, 0, err
		}
		if pairs = append(pairs, p); !p.disturbed() {
			calm++
		}
		fmt.Fprintf(r.out, "round %d  p50 %s, p99 %s without; %s, %s with %s%s\n", rounds+1,
			measure.Millis(p.quiet.p50), measure.Millis(p.quiet.p99), measure.Millis(p.loud.p50), measure.Millis(p.loud.p99), what, p.disturbance())
	}
	r.slowdown(what, most, pairs)
	return got, rounds, nil
}

// awaitClosed waits until the server has closed what an abuse has left behind, such as refusals
// that are held back: it would make the next window look worse that is measured without.
func (r *soaking) awaitClosed(ctx context.Context) error {
	const few = 8 // connections of clients that register and administer
	ctx, cancel := context.WithTimeout(ctx, closeTime)
	defer cancel()
	if err := system.Until(ctx, func() (bool, error) {
		open, err := r.server.Gauges(ctx, metricConnections)
		return err == nil && open[0] <= few, err
	}); err != nil {
		return fmt.Errorf("the server keeps connections that were closed: %w", err)
	}
	return nil
}

// beside measures one window while abuses are under way.
func (r *soaking) beside(ctx context.Context, good traffic, abuses []*abuse.Abuse, got []abuse.Counts) (w window, err error) {
	defer func() {
		for i, a := range r.abusers {
			one, stopErr := a.Stop()
			got[i].Add(one)
			err = errors.Join(err, stopErr)
		}
		r.abusers = nil
	}()
	for _, a := range abuses {
		abuser, err := a.Launch(ctx, r.bench)
		if err != nil {
			return w, err
		}
		r.abusers = append(r.abusers, abuser)
	}
	if w, err = r.measure(ctx, good); err != nil {
		return w, err
	}
	now, err := measure.ProcessMemory(r.pid)
	r.most = max(r.most, now)
	return w, err
}

// dripping is the abuse by slow and by bloated requests.
func (r *soaking) dripping(ctx context.Context) error {
	got, rounds, err := r.alternate(ctx, fmt.Sprintf("%s drips and %s header bombs", measure.Count(r.Drips), measure.Count(r.Bombs)), r.deliver, maxSlowdown,
		&abuse.Abuse{Kind: abuse.Drips, Addr: r.addr, Connections: r.Drips, During: r.spread},
		&abuse.Abuse{Kind: abuse.Bombs, Addr: r.addr, Connections: r.Bombs, During: r.Window * 9 / 10})
	if err != nil {
		return err
	}
	r.drips(got[0])
	r.bombs(got[1], rounds*r.Bombs)
	return nil
}

// reading is the abuse by strangers who hold what they asked for; the good tenant reads its lists.
func (r *soaking) reading(ctx context.Context) error {
	_, _, err := r.alternate(ctx, fmt.Sprintf("%d strangers who read slowly", r.Readers), r.read, maxSlowdown,
		&abuse.Abuse{Kind: abuse.Readers, Addr: r.addr, Connections: r.Readers})
	return err
}

// stopping is the abuse by a tenant that makes changes without a pause; the good one suspends.
func (r *soaking) stopping(ctx context.Context) error {
	got, _, err := r.alternate(ctx, fmt.Sprintf("a tenant's imports and bases on %d connections", r.Changes), r.suspend, maxStopping,
		&abuse.Abuse{Kind: abuse.Crowd, Addr: r.addr, Connections: r.Changes, Requests: r.changes})
	if err == nil {
		r.find(got[0].OK > 0 && got[0].Other == 0, "answers to a tenant's changes", "200 and 429 only", "%s × 200, %s × 429, %s others", measure.Count(got[0].OK), measure.Count(got[0].Refused), measure.Count(got[0].Other))
	}
	return err
}

// crowding is the abuse by one tenant at ten times its cap.
func (r *soaking) crowding(ctx context.Context) error {
	got, _, err := r.alternate(ctx, fmt.Sprintf("a tenant at 10 × its cap of %d", r.TenantCap), r.deliver, maxSlowdown,
		&abuse.Abuse{Kind: abuse.Crowd, Addr: r.addr, Connections: 10 * r.TenantCap, Requests: r.greedy})
	if err != nil {
		return err
	}
	r.crowd(got[0])
	return nil
}

// settle waits for the memory to come back to its level.
func (r *soaking) settle(ctx context.Context, when string, level int64) error {
	began := time.Now()
	waiting, cancel := context.WithTimeout(ctx, r.limit)
	defer cancel()
	var now int64
	err := system.Until(waiting, func() (_ bool, err error) {
		now, err = r.memory(ctx)
		return err == nil && now <= level+memorySlack, err
	})
	if err != nil && (ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded)) {
		return err
	}
	r.level(when, level, r.most, now, time.Since(began))
	return nil
}

// memory is what the server holds once it has loaded everything, and after a
// collection.
func (r *soaking) memory(ctx context.Context) (int64, error) {
	if err := r.server.AwaitLoaded(ctx); err != nil {
		return 0, err
	}
	token, err := r.server.AdminToken()
	if err != nil {
		return 0, err
	}
	operator := system.Client{API: r.server.Admin, Key: token}
	if err := operator.Download(ctx, "/debug/pprof/heap?gc=1", os.DevNull); err != nil {
		return 0, err
	}
	return measure.ProcessMemory(r.pid)
}
