// Package export writes the tables that analysts read (package analyst) of one tenant to Parquet or to a
// SQLite file: the client's side, for muniment export. It reads a running service over its API, with a key that
// has the scope audit:read, and nothing of the service's disk.
//
// What is exported is the log as of one position, the end of what was loaded at the beginning. Receipts and the
// events of rights, rules and refusals come from the service; sums and settlement lines are computed here from
// these, by the code that seals packs, so all tables of an export agree.
//
// An export is written to a file beside its name, NAME.partial, and gets its name once it is whole and on disk. A
// run that ends before, however it ends, leaves that file alone: the same export then continues from it, as of
// the same position. A transfer that breaks continues after the last row that came; one that can't continue within
// Config.RetryFor ends the run with the reason. Memory is bounded, whatever the length of the log.
//
// A run begins with the tenant of its key, which the tenant's first event names: the key of another tenant continues
// nothing.
package export

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"time"

	"muniment.example/control/reserve"
	"muniment.example/gateway/remote"
	"muniment.example/sealer/keyfile"
)

// Format is what an export is.
type Format string

// The formats.
const (
	// Parquet is a folder with a file a table.
	Parquet Format = "parquet"
	// SQLite is a file with all tables.
	SQLite Format = "sqlite"
)

// Config of an export. URL, Key, Format and Out are required.
type Config struct {
	// URL of the service, as https://muniment.example.
	URL string
	// Key is the API key, with the scope audit:read.
	Key string
	// HTTP sends the requests; default http.DefaultTransport. Redirects are not followed, as they would send
	// the key elsewhere.
	HTTP   http.RoundTripper
	Format Format
	// Out is the name of the file, or of the folder. It must not exist.
	Out string
	// From and To bound the time at which things were shown and refused: days in UTC, From inclusive, To
	// exclusive; empty is open. Events of rights and rules are all exported.
	From, To string
	// RetryFor is how long to retry what the service can't answer. Default 15 minutes.
	RetryFor time.Duration
	// Progress, if there is one, is called with what is being done, at most once a second or so.
	Progress func(Progress)
	// LeastFree is how many bytes of the disk are left free. Default 256 MiB.
	LeastFree int64
}

// Progress of an export.
type Progress struct {
	// Step is reading, summing or writing.
	Step string
	// Receipts and Events are how many were read.
	Receipts, Events int64
	// Oldest is when the last receipt was shown: receipts come newest first.
	Oldest string
	// Trouble is why the service is asked again; empty if it answers.
	Trouble string
}

const defaultLeastFree = 256 << 20

// ErrOther means that what is left of an interrupted export is that of another one.
var ErrOther = errors.New("is what an interrupted export has left, of another service, tenant, period or format: delete it, or choose another name")

// Run exports. It returns once Out is whole and on disk, or with the reason why not.
func Run(ctx context.Context, cfg Config) (err error) {
	r, err := newRun(cfg)
	if err != nil {
		return err
	}
	if err := r.nameIsFree(); err != nil {
		return err
	}
	if r.cfg.Format == Parquet { // hours before it is needed
		if _, err := leftFiles(r.folder()); err != nil {
			return err
		}
	}
	if err := r.room(); err != nil {
		return err
	}
	if err := r.again(ctx, func() (bool, error) { return false, r.ofTenant(ctx) }); err != nil {
		return err
	}
	if r.work, err = openWork(ctx, r.partial(), r.identity()); err != nil {
		return err
	}
	defer func() {
		if r.work == nil {
			return
		}
		begun := r.work.state["asOf"] != ""
		if err = errors.Join(err, r.work.close()); !begun { // nothing came that a later run could use
			err = errors.Join(err, r.clear())
		}
	}()
	for _, step := range []func(context.Context) error{r.receipts, r.events, r.sums, r.settlement} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	r.report(Progress{Step: "writing"}, true)
	if r.cfg.Format == SQLite {
		return r.finishSQLite(ctx)
	}
	return r.finishParquet(ctx)
}

// run is an export in the making.
type run struct {
	cfg      Config
	base     string
	http     http.Client
	work     *work
	tenant   string // of the key
	progress Progress
	shown    time.Time
}

func newRun(cfg Config) (*run, error) {
	base, err := remote.Base(cfg.URL, cfg.Key)
	switch {
	case err != nil:
		return nil, err
	case !slices.Contains([]Format{Parquet, SQLite}, cfg.Format):
		return nil, fmt.Errorf("the format is %q: it must be parquet or sqlite", cfg.Format)
	case cfg.Out == "":
		return nil, errors.New("the name of the export is missing")
	}
	for name, day := range map[string]string{"from": cfg.From, "to": cfg.To} {
		if _, err := time.Parse(time.DateOnly, day); err != nil && day != "" {
			return nil, fmt.Errorf("%s is %q: it must be a day, such as 2026-11-01", name, day)
		}
	}
	if cfg.From != "" && cfg.To != "" && cfg.From >= cfg.To {
		return nil, errors.New("to must be a later day than from")
	}
	if cfg.RetryFor <= 0 {
		cfg.RetryFor = 15 * time.Minute
	}
	if cfg.LeastFree <= 0 {
		cfg.LeastFree = defaultLeastFree
	}
	cfg.Out = filepath.Clean(cfg.Out)
	return &run{cfg: cfg, base: base, http: remote.Client(cfg.HTTP)}, nil
}

// nameIsFree returns an error if something has the name of the export.
func (r *run) nameIsFree() error {
	_, err := os.Lstat(r.cfg.Out)
	if err == nil {
		return fmt.Errorf("%s exists already: choose another name", r.cfg.Out)
	}
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}

func (r *run) partial() string { return r.cfg.Out + ".partial" }

// identity is what another run must agree with to continue.
func (r *run) identity() map[string]string {
	return map[string]string{"service": r.base, "tenant": r.tenant, "from": r.cfg.From, "to": r.cfg.To, "format": string(r.cfg.Format)}
}

// room returns an error if the disk has too little space for more.
func (r *run) room() error {
	free, err := reserve.Free(filepath.Dir(r.cfg.Out))
	if err == nil && free < r.cfg.LeastFree {
		err = fmt.Errorf("the disk of %s has less than %d MiB free: free some, then run the same command again", r.cfg.Out, r.cfg.LeastFree>>20)
	}
	return err
}

// report passes the progress on, if it was not just now or is of another step.
func (r *run) report(p Progress, always bool) {
	p.Receipts, p.Events = max(p.Receipts, r.progress.Receipts), max(p.Events, r.progress.Events)
	if p.Step == "" {
		p.Step = r.progress.Step
	}
	r.progress = p
	if r.cfg.Progress == nil || !always && time.Since(r.shown) < time.Second {
		return
	}
	r.shown = time.Now()
	r.cfg.Progress(p)
}

// clear deletes the working file.
func (r *run) clear() (err error) {
	for _, end := range append(slices.Clone(besides), "") { // the file last: what is beside none is nobody's
		if gone := os.Remove(r.partial() + end); !errors.Is(gone, os.ErrNotExist) {
			err = errors.Join(err, gone)
		}
	}
	return err
}

// finishSQLite makes the working file the export.
func (r *run) finishSQLite(ctx context.Context) error {
	err := r.work.complete(ctx)
	err = errors.Join(err, r.work.close())
	r.work = nil
	if err != nil {
		return err
	}
	return r.named(r.partial())
}

// named makes what is whole durable, and gives it its name.
func (r *run) named(from string) error {
	if err := keyfile.Sync(from); err != nil {
		return err
	}
	if err := r.nameIsFree(); err != nil { // a rename would replace it
		return err
	}
	if err := os.Rename(from, r.cfg.Out); err != nil {
		return err
	}
	return keyfile.Sync(filepath.Dir(r.cfg.Out))
}
