package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
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
	TenantCap int           `default:"16" help:"Each tenant's cap; one presses against it with ten times as many connections."`
	Quick     bool          `help:"Abuse for a moment, to see that everything works: the figures say nothing."`
	Dir       string        `help:"Folder for the server's data; default: that of temporary files. A few hundred MB are used meanwhile." type:"existingdir"`
}

// Validate refuses what can't be measured.
func (s *Soak) Validate() error {
	if s.Window < 100*time.Millisecond || s.Rounds < 1 || s.Drips < 1 || s.Bombs < 1 {
		return errors.New("--window must be at least 100ms, --rounds, --drips and --bombs 1")
	}
	if s.TenantCap < goodConnections {
		return fmt.Errorf("--tenant-cap must be at least %d, which the good tenant may reach", goodConnections)
	}
	return nil
}

// What must hold.
const (
	maxSlowdown = 2.0 // of the good traffic's p99
	// A drip is closed when its request has not arrived within the server's read
	// timeout.
	readTimeout = 10 * time.Second
	maxDrip     = readTimeout + time.Second
	// Memory is back at its level when it is this close to it.
	memorySlack = 16 << 20
	settleTime  = time.Minute
)

// metricConnections is how many connections the server holds.
const metricConnections = "muniment_gateway_connections"

// Measure runs the binary exe as the server and as the abusers, and reports to out
// each thing that must hold with its figure. It fails if one doesn't hold; a quick one,
// if something doesn't work. The server logs at debug level, and all of that is
// searched.
func (s *Soak) Measure(ctx context.Context, exe string, out io.Writer) error {
	warm, spread := 50_000, readTimeout // so many records fill the page cache of the warehouse
	if s.Quick {
		s.Window, s.Rounds, s.Drips, s.Bombs = 200*time.Millisecond, 1, 20, 10
		warm, spread = 100, 100*time.Millisecond
	}
	if err := raiseFileLimit(uint64(s.Drips + 10*s.TenantCap + 1000)); err != nil {
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
	server, err := start(ctx, exec.Command("nice", "-n", "5", exe, "up", "--data", data, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0",
		"--log-level", "debug", "--tenant-cap", strconv.Itoa(s.TenantCap)), data)
	if err != nil {
		return err
	}
	defer server.Kill()
	r := &soaking{Soak: s, exe: exe, out: out, server: server, addr: hostOf(server.API), enough: warm, spread: spread, patience: settleTime}
	fmt.Fprintf(out, "%s\n%d × %s without and with each abuse; good traffic of one tenant: %d deliveries a second on %d connections\n\n",
		describeMachine(dir), s.Rounds, s.Window, goodPerSecond, goodConnections)
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
	exe    string
	out    io.Writer
	server *Server
	addr   string
	// requests are the good tenant's, greedy those of the one that exceeds its cap.
	requests, greedy [][]byte
	hidden           []string // what no log may hold
	enough           int      // deliveries make a server warm
	spread, patience time.Duration
	abusers          []*abusing // under way
	most             int64      // memory seen under the present abuse
	findings
}

// register makes both tenants, and remembers what must stay between them and the
// server.
func (r *soaking) register(ctx context.Context) error {
	for _, to := range []*[][]byte{&r.requests, &r.greedy} {
		tenant, err := register(ctx, r.exe, r.server, r.server.API)
		if err != nil {
			return err
		}
		bodies, err := Bodies(256, bodySeed, tenant.rights)
		if err != nil {
			return err
		}
		if err := r.hide(tenant.client.Key, bodies); err != nil {
			return err
		}
		*to = requests(tenant.client.Key, bodies)
	}
	return nil
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
	if err := r.crowding(ctx); err != nil {
		return err
	}
	return r.settle(ctx, "after the crowd", level)
}

// warm has a tenant within its cap deliver as fast as it can, until caches, pools
// and the runtime have found their size.
func (r *soaking) warm(ctx context.Context) error {
	fmt.Fprintf(r.out, "warming up with %s deliveries\n", count(r.enough))
	busy, err := (&Abuse{Kind: Crowd, Addr: r.addr, Connections: r.TenantCap, Requests: r.greedy}).launch(ctx, r.exe)
	if err != nil {
		return err
	}
	warm, cancel := context.WithTimeout(ctx, 30*time.Second) // a slow machine is warm by then
	defer cancel()
	err = until(warm, func() (bool, error) {
		end, err := gauges(ctx, r.server, metricEnd)
		return err == nil && end[0] >= float64(r.enough), err
	})
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		err = nil
	}
	if _, stopErr := busy.stop(); err != nil || stopErr != nil {
		return errors.Join(err, stopErr)
	}
	_, err = r.measure(ctx)
	return err
}

// measure sends good traffic for one window.
func (r *soaking) measure(ctx context.Context) (window, error) {
	before, err := r.spent()
	if err != nil {
		return window{}, err
	}
	latencies, err := steady(ctx, r.addr, r.requests, goodConnections, goodPerSecond, r.Window)
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
func (r *soaking) spent() (m meters, err error) {
	if m.machine, err = readMachine(); err != nil {
		return m, err
	}
	pids := []int{os.Getpid()}
	for _, a := range r.abusers {
		pids = append(pids, a.cmd.Process.Pid)
	}
	for _, pid := range pids {
		cpu, err := processCPU(pid)
		if err != nil {
			return m, err
		}
		m.client += cpu
	}
	m.server, err = processCPU(r.server.PID())
	return m, err
}

// alternate measures rounds without and with abuses. It returns what came of each
// abuse, and of how many rounds.
func (r *soaking) alternate(ctx context.Context, what string, abuses ...*Abuse) (got []Abused, rounds int, err error) {
	const more = 2
	var pairs []pair
	got, r.most = make([]Abused, len(abuses)), 0
	for calm := 0; calm < r.Rounds && rounds < r.Rounds+more; rounds++ {
		if err := r.rest(ctx); err != nil {
			return nil, 0, err
		}
		var p pair
		if p.quiet, err = r.measure(ctx); err != nil {
			return nil, 0, err
		}
		if p.loud, err = r.beside(ctx, abuses, got); err != nil {
			return nil, 0, err
		}
		if pairs = append(pairs, p); !p.disturbed() {
			calm++
		}
		fmt.Fprintf(r.out, "round %d  p50 %s, p99 %s without; %s, %s with %s%s\n", rounds+1,
			millis(p.quiet.p50), millis(p.quiet.p99), millis(p.loud.p50), millis(p.loud.p99), what, p.disturbance())
	}
	r.slowdown(what, pairs)
	return got, rounds, nil
}

// rest waits for what an abuse has left behind, such as refusals that are held back:
// it would make the next window look worse that is measured without.
func (r *soaking) rest(ctx context.Context) error {
	const few = 8 // connections of clients that register and administer
	ctx, cancel := context.WithTimeout(ctx, r.patience)
	defer cancel()
	if err := until(ctx, func() (bool, error) {
		open, err := gauges(ctx, r.server, metricConnections)
		return err == nil && open[0] <= few, err
	}); err != nil {
		return fmt.Errorf("the server keeps connections that were closed: %w", err)
	}
	return nil
}

// beside measures one window while abuses are under way.
func (r *soaking) beside(ctx context.Context, abuses []*Abuse, got []Abused) (w window, err error) {
	defer func() {
		for i, a := range r.abusers {
			one, stopErr := a.stop()
			got[i].add(one)
			err = errors.Join(err, stopErr)
		}
		r.abusers = nil
	}()
	for _, a := range abuses {
		abuser, err := a.launch(ctx, r.exe)
		if err != nil {
			return w, err
		}
		r.abusers = append(r.abusers, abuser)
	}
	if w, err = r.measure(ctx); err != nil {
		return w, err
	}
	now, err := processMemory(r.server.PID())
	r.most = max(r.most, now)
	return w, err
}

// dripping is the abuse by slow and by bloated requests.
func (r *soaking) dripping(ctx context.Context) error {
	got, rounds, err := r.alternate(ctx, fmt.Sprintf("%s drips and %s header bombs", count(r.Drips), count(r.Bombs)),
		&Abuse{Kind: Drips, Addr: r.addr, Connections: r.Drips, During: r.spread},
		&Abuse{Kind: Bombs, Addr: r.addr, Connections: r.Bombs, During: r.Window * 9 / 10})
	if err != nil {
		return err
	}
	r.drips(got[0])
	r.bombs(got[1], rounds*r.Bombs)
	return nil
}

// crowding is the abuse by one tenant at ten times its cap.
func (r *soaking) crowding(ctx context.Context) error {
	got, _, err := r.alternate(ctx, fmt.Sprintf("a tenant at 10 × its cap of %d", r.TenantCap),
		&Abuse{Kind: Crowd, Addr: r.addr, Connections: 10 * r.TenantCap, Requests: r.greedy})
	if err != nil {
		return err
	}
	r.crowd(got[0])
	return nil
}

// settle waits for the memory to come back to its level.
func (r *soaking) settle(ctx context.Context, when string, level int64) error {
	began := time.Now()
	waiting, cancel := context.WithTimeout(ctx, r.patience)
	defer cancel()
	var now int64
	err := until(waiting, func() (_ bool, err error) {
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
	ctx, cancel := context.WithTimeout(ctx, maxBacklog)
	defer cancel()
	if err := until(ctx, func() (bool, error) {
		v, err := gauges(ctx, r.server, metricLoaded, metricEnd)
		return err == nil && v[0] >= v[1], err
	}); err != nil {
		return 0, fmt.Errorf("cannot wait for the loader: %w", err)
	}
	token, err := r.server.AdminToken()
	if err != nil {
		return 0, err
	}
	operator := Client{API: r.server.Admin, Key: token}
	if err := operator.Download(ctx, "/debug/pprof/heap?gc=1", os.DevNull); err != nil {
		return 0, err
	}
	return processMemory(r.server.PID())
}

// until asks again and again whether something has come true.
func until(ctx context.Context, come func() (bool, error)) error {
	for {
		if yes, err := come(); yes || err != nil {
			return err
		}
		if err := pause(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
}

func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// raiseFileLimit lets this process, and those that it starts, open that many files.
func raiseFileLimit(need uint64) error {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return err
	}
	need = max(need, limit.Cur) // set it all the same: what was not set is not passed on
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: need, Max: max(need, limit.Max)}); err != nil {
		return fmt.Errorf("%d open files are needed, %d are allowed: %w", need, limit.Max, err)
	}
	return nil
}
