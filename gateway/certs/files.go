package certs

import (
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// retryPause bounds how often files that can't be used are read.
const retryPause = time.Second

// loaded is what some files hold; expires is zero where nothing does.
type loaded[T any] struct {
	value   T
	expires time.Time
}

// files are read into a T, and again when one of them was changed. Safe for
// concurrent use.
type files[T any] struct {
	Options
	paths []string
	read  func() (loaded[T], error)

	current atomic.Pointer[loaded[T]]
	failing atomic.Bool

	mu    sync.Mutex
	seen  []os.FileInfo // as of the last try, whatever came of it
	tried time.Time
}

// open reads the files for the first time and registers their metrics.
func open[T any](o Options, paths []string, read func() (loaded[T], error)) (*files[T], error) {
	f := &files[T]{Options: o, paths: paths, read: read, tried: o.Now()}
	seen, err := f.look()
	if err != nil {
		return nil, err
	}
	first, err := read()
	if err != nil {
		return nil, err
	}
	f.seen = seen
	f.current.Store(&first)
	return f, f.register(!first.expires.IsZero())
}

func (f *files[T]) register(expires bool) error {
	if f.Registerer == nil || len(f.paths) == 0 {
		return nil
	}
	use := prometheus.Labels{"use": f.Use}
	gauges := []prometheus.Collector{prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "muniment_certificate_reload_failing", Help: "1 while the certificate files can't be used and those read before are.", ConstLabels: use,
	}, func() float64 {
		f.get()
		if f.failing.Load() {
			return 1
		}
		return 0
	})}
	if expires {
		gauges = append(gauges, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "muniment_certificate_expiry_seconds", Help: "Time until the certificate in use expires.", ConstLabels: use,
		}, func() float64 { f.get(); return f.current.Load().expires.Sub(f.Now()).Seconds() }))
	}
	for _, g := range gauges {
		if err := f.Registerer.Register(g); err != nil {
			return fmt.Errorf("cannot register metrics of the certificates for %s: %w", f.Use, err)
		}
	}
	return nil
}

// get returns what the files hold now, or held when they could last be used. One
// caller at a time looks; the others don't wait for a slow disk.
func (f *files[T]) get() T {
	if f.mu.TryLock() {
		f.refresh()
		f.mu.Unlock()
	}
	return f.current.Load().value
}

func (f *files[T]) refresh() {
	seen, err := f.look()
	now := f.Now()
	failing := f.failing.Load()
	if err == nil && !failing && unchanged(f.seen, seen) {
		return
	}
	// What is amiss may not show in a stat: permissions, or the clock.
	if failing && now.Sub(f.tried) < retryPause && (err != nil || unchanged(f.seen, seen)) {
		return
	}
	f.tried = now
	var next loaded[T]
	if err == nil {
		f.seen = seen // from before the files are read: a change meanwhile is seen next time
		next, err = f.read()
	}
	if err != nil {
		if !failing {
			f.Logger.Error("cannot use the new certificate files; those read before stay in force", "use", f.Use, "err", err)
		}
		f.failing.Store(true)
		return
	}
	f.current.Store(&next)
	f.failing.Store(false)
	if next.expires.IsZero() {
		f.Logger.Info("certificate files were read again", "use", f.Use)
	} else {
		f.Logger.Info("certificate files were read again", "use", f.Use, "expires", next.expires)
	}
}

func (f *files[T]) look() ([]os.FileInfo, error) {
	seen := make([]os.FileInfo, len(f.paths))
	for i, path := range f.paths {
		info, err := os.Stat(path)
		if err != nil {
			return nil, fmt.Errorf("cannot read certificate files: %w", err)
		}
		seen[i] = info
	}
	return seen, nil
}

// unchanged compares the results of stat, the file's identity included: a replaced file
// may be as old and as long as the one before.
func unchanged(a, b []os.FileInfo) bool {
	for i := range b {
		if len(a) != len(b) || !os.SameFile(a[i], b[i]) || !a[i].ModTime().Equal(b[i].ModTime()) || a[i].Size() != b[i].Size() {
			return false
		}
	}
	return true
}
