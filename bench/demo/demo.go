// Package demo is what make demo runs: deliver, kill -9, seal, verify.
//
// It judges the service by what the clients hold: counts alone would miss one receipt lost and
// another doubled, so receipts are compared by id and text. Audit does so for a cluster.
package demo

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"muniment.example/bench/load"
	"muniment.example/bench/measure"
	"muniment.example/bench/system"
	"muniment.example/pipeline"
	"muniment.example/pipeline/segment"
	"muniment.example/sealer"
)

// Demo runs the product against a throw-away data folder: real
// requests, a real kill -9, and a verifier in a process of its own that is given
// nothing but the packs and a root key.
type Demo struct {
	// Exe is the muniment binary; it is run for the server, for the tenant and for
	// the verifier.
	Exe string
	// Dir is an existing empty folder that the demo may fill. The caller removes it.
	Dir string
	// Stack is where a Cluster is raised for it; nil is the embedded service.
	Stack *system.Stack
	// Out is where it prints to; Live says that this is a terminal, so that
	// progress may overwrite its own line.
	Out  io.Writer
	Live bool

	Deliveries int
	Clients    int
	Seed       uint64
}

// errUnequal says that the demo ran to its end and its sums disagree.
var errUnequal = errors.New("the sums don't agree: evidence was lost, doubled or altered")

// stage is the service in one of its two forms, as the demo needs it.
type stage interface {
	// raise starts everything, from nothing.
	raise(ctx context.Context) error
	// operator is the server that administrative commands speak to.
	operator() *system.Server
	// apis are the base URLs that deliveries go to; the first one takes all else too.
	apis() []string
	// trust is TLS with those; nil if they speak plain HTTP.
	trust() *tls.Config
	// strike kills with SIGKILL, starts again what it killed, and says what that was.
	strike(ctx context.Context) (what string, err error)
	// root is the file of the root key.
	root() string
	// stop ends everything with SIGTERM.
	stop() error
	// log is what the log holds once everything has stopped, and how many copies it
	// holds besides.
	log(ctx context.Context) (found receipts, copies int, err error)
	// end kills what still runs, and removes what was only made for the demo.
	end()
}

// Run runs the demo. It returns an error if any step fails or any equality of
// the closing table doesn't hold.
func (d *Demo) Run(ctx context.Context) error {
	started := time.Now()
	var on stage = &embedded{d: d}
	if d.Stack != nil {
		on = newScaled(d)
	}
	defer on.end()
	if err := on.raise(ctx); err != nil {
		return err
	}

	d.say("2  Register  a tenant, 3 legal bases, a right on each of 10 substrates")
	client, rights, err := d.register(ctx, on)
	if err != nil {
		return err
	}

	d.say("3  Deliver  %s deliveries from %d concurrent clients; kill -9 in the middle", measure.Count(d.Deliveries), d.Clients)
	deliveries, err := load.Deliveries(d.Deliveries, d.Seed, load.Profiles(), rights)
	if err != nil {
		return err
	}
	b := &books{scaled: d.Stack != nil, clients: newTally()}
	if b.answers, b.took, err = d.deliver(ctx, on, client, deliveries); err != nil {
		return err
	}
	if err := b.clients.add(b.answers); err != nil {
		return err
	}

	d.say("4  Seal  every event into signed proof packs, and export them")
	packs, err := d.seal(ctx, client)
	if err != nil {
		return err
	}
	if b.warehouse, b.metering, err = receiptsInWarehouse(ctx, client); err != nil {
		return err
	}

	d.say("5  Verify  in another process, with nothing but the packs and the root key")
	if err := d.verify(ctx, on.root(), packs); err != nil {
		return err
	}

	d.say("6  Stop  with SIGTERM, and count what is in the log")
	if err := on.stop(); err != nil {
		return err
	}
	if b.log, b.copies, err = on.log(ctx); err != nil {
		return err
	}
	if b.packs, err = receiptsInPacks(packs); err != nil {
		return err
	}
	d.say("")
	balanced := d.report(b)
	d.say("\nDone in %.1f s.", time.Since(started).Seconds())
	if !balanced {
		return errUnequal
	}
	return nil
}

// embedded is muniment up: one process on one folder.
type embedded struct {
	d      *Demo
	server *system.Server
}

func (a *embedded) data() string { return filepath.Join(a.d.Dir, "data") }

func (a *embedded) operator() *system.Server { return a.server }

func (a *embedded) apis() []string { return []string{a.server.API} }

func (a *embedded) root() string { return filepath.Join(a.data(), "keys", "root.vkey") }

func (a *embedded) trust() *tls.Config { return nil }

func (a *embedded) stop() error { return a.server.Stop() }

func (a *embedded) raise(ctx context.Context) (err error) {
	a.d.say("1  Start  muniment up, everything in one process, data in a throw-away folder")
	if a.server, err = system.StartServer(ctx, a.d.Exe, a.data(), "127.0.0.1:0", "127.0.0.1:0"); err == nil {
		a.d.note("ready on %s", a.server.API)
	}
	return err
}

func (a *embedded) strike(ctx context.Context) (string, error) {
	a.server.Kill()
	restarted, err := system.StartServer(ctx, a.d.Exe, a.data(), system.HostOf(a.server.API), system.HostOf(a.server.Admin))
	if err == nil {
		a.server = restarted
	}
	return "the server", err
}

func (a *embedded) log(ctx context.Context) (receipts, int, error) {
	log, err := segment.OpenReader(filepath.Join(a.data(), "log"))
	if err != nil {
		return nil, 0, err
	}
	defer log.Close()
	found, err := receiptsInLog(ctx, log)
	return found, 0, err
}

func (a *embedded) end() {
	if a.server != nil {
		a.server.Kill()
	}
}

// register makes tenant, bases and rights; it returns the rights by substrate.
func (d *Demo) register(ctx context.Context, on stage) (system.Client, map[string]string, error) {
	r, err := load.Register(ctx, d.Exe, on.operator(), on.apis()[0])
	if err != nil {
		return system.Client{}, nil, err
	}
	d.note("tenant %s, %d bases, %d rights", r.TenantID, r.Bases, len(r.Rights))
	return r.Client, r.Rights, nil
}

// deliver posts everything and strikes once, when 45 % is answered. The time that it
// took leaves the strike out.
func (d *Demo) deliver(ctx context.Context, on stage, client system.Client, deliveries []load.Delivery) ([]load.Answer, time.Duration, error) {
	killAt := len(deliveries) * 45 / 100
	reached := make(chan struct{})
	posting := &load.Load{
		TLS: on.trust(), Key: client.Key, Clients: d.Clients, Name: "demo", Deliveries: deliveries,
		Answered: func(n int) {
			if n == killAt {
				close(reached)
			}
			if n%500 == 0 || n == len(deliveries) {
				d.progress(n, len(deliveries))
			}
		},
	}
	for _, api := range on.apis() {
		posting.Addrs = append(posting.Addrs, system.HostOf(api))
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	type result struct {
		answers []load.Answer
		err     error
	}
	finished := make(chan result, 1)
	start := time.Now()
	go func() {
		answers, err := posting.Run(ctx)
		finished <- result{answers, err}
	}()
	var down time.Duration
	select {
	case r := <-finished:
		return nil, 0, fmt.Errorf("the load ended before the kill: %w", r.err)
	case <-reached:
		at := time.Now()
		what, err := on.strike(ctx)
		if err != nil {
			cancel(err)
			<-finished
			return nil, 0, err
		}
		down = time.Since(at)
		d.note("kill -9 of %s after %s answers; started again, ready after %.2f s", what, measure.Count(killAt), down.Seconds())
		d.note("the clients retry what was not answered")
	}
	r := <-finished
	return r.answers, time.Since(start) - down, r.err
}

// sealFor is how long the demo waits until all that was delivered is loaded and sealed.
const sealFor = 5 * time.Minute

// seal seals and downloads every pack of the tenant, oldest first.
func (d *Demo) seal(ctx context.Context, client system.Client) ([]string, error) {
	sealing, cancel := context.WithTimeout(ctx, sealFor)
	defer cancel()
	if err := awaitSealed(sealing, client); err != nil {
		return nil, err
	}
	return d.download(ctx, client)
}

// download downloads every pack of the tenant, oldest first.
func (d *Demo) download(ctx context.Context, client system.Client) ([]string, error) {
	var list struct {
		Packs []struct {
			ID    string
			Count int64
		}
	}
	if err := client.Do(ctx, "GET", "/v1/proof-packs?limit=500", nil, &list); err != nil {
		return nil, err
	}
	var files []string
	for _, p := range list.Packs {
		file := filepath.Join(d.Dir, p.ID+".ndjson")
		if err := client.Download(ctx, "/v1/proof-packs/"+p.ID+"/bundle", file); err != nil {
			return nil, err
		}
		files = append(files, file)
		d.note("%s  %s events", p.ID, measure.Count(p.Count))
	}
	if len(files) == 0 {
		return nil, errors.New("sealing made no pack")
	}
	return files, nil
}

// receiptsInWarehouse counts, by id, the receipts of the events that the warehouse
// lists, and reads the metering.
func receiptsInWarehouse(ctx context.Context, client system.Client) (receipts, meterTotals, error) {
	kept := receipts{}
	path := "/v1/events?type=delivery.recorded&limit=500"
	for next := path; next != ""; {
		var page struct {
			Events     []struct{ Event json.RawMessage }
			NextCursor string
		}
		if err := client.Do(ctx, "GET", next, nil, &page); err != nil {
			return nil, meterTotals{}, err
		}
		for _, e := range page.Events {
			if err := kept.add(e.Event); err != nil {
				return nil, meterTotals{}, err
			}
		}
		if next = ""; page.NextCursor != "" {
			next = path + "&cursor=" + url.QueryEscape(page.NextCursor)
		}
	}
	var metering struct{ Totals meterTotals }
	err := client.Do(ctx, "GET", "/v1/metering", nil, &metering)
	return kept, metering.Totals, err
}

// verify runs the verifier on the packs, and once more on packs of which the
// last had one bit flipped: the first must pass, the second must not.
func (d *Demo) verify(ctx context.Context, root string, packs []string) error {
	anchor := filepath.Join(d.Dir, "root.vkey") // all that the auditor gets beside the packs
	if err := copyFile(root, anchor); err != nil {
		return err
	}
	out, err := d.runVerifier(ctx, anchor, packs)
	d.quote(out)
	if err != nil {
		return fmt.Errorf("the packs don't verify: %w", err)
	}

	last := packs[len(packs)-1]
	b, err := os.ReadFile(last)
	if err != nil {
		return err
	}
	at := len(b) / 2
	b[at] ^= 1
	forged := filepath.Join(d.Dir, "forged.ndjson")
	if err := os.WriteFile(forged, b, 0o600); err != nil {
		return err
	}
	d.note("the same with one bit of byte %s flipped:", measure.Count(at))
	out, err = d.runVerifier(ctx, anchor, append(packs[:len(packs)-1:len(packs)-1], forged))
	d.quote(out)
	if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != 1 {
		return fmt.Errorf("the forged pack was not refused: %v", err)
	}
	return nil
}

func (d *Demo) runVerifier(ctx context.Context, anchor string, packs []string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, d.Exe, append([]string{"verify", "--root", anchor}, packs...)...)
	cmd.Dir = d.Dir
	return cmd.CombinedOutput()
}

// receiptsInLog counts, by id, the receipts that stand in a log.
func receiptsInLog(ctx context.Context, log pipeline.Reader) (receipts, error) {
	partitions, err := log.Partitions(ctx)
	if err != nil {
		return nil, err
	}
	found := receipts{}
	for p := range int32(partitions) {
		first, end, err := log.Bounds(ctx, p)
		if err != nil {
			return nil, err
		}
		if err := log.Scan(ctx, first, end, func(e sealer.Entry) error { return found.add(e.Event) }); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// receiptsInPacks counts, by id, the receipts of pack files.
func receiptsInPacks(files []string) (receipts, error) {
	found := receipts{}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		lines := bytes.Split(bytes.TrimSuffix(b, []byte("\n")), []byte("\n"))
		for _, event := range lines[1 : len(lines)-1] { // between header and signature
			if err := found.add(event); err != nil {
				return nil, err
			}
		}
	}
	return found, nil
}

func copyFile(from, to string) error {
	b, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, b, 0o600)
}
