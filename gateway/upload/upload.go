// Package upload sends files of plays to POST /v1/delivery/ingest-batch: the client's side, for
// muniment ingest.
//
// A file is cut into batches of at most 1,000 rows, which several senders send concurrently.
// What the service can't take now (429, 5xx, no connection) is sent again with growing pauses,
// for at most Config.RetryFor, and so are single rows that it rejects because a part of it is
// away. A permanent refusal ends the file, or the run if the key or the address is wrong. Rows
// that exceed the quota of held rows are left to a later run.
//
// Each file has a results file beside it: a line for each row with its index, its status and
// its receiptId or error, appended when the batch is answered. A later run continues from it:
// rows that it lists as taken are not sent again, as long as their content is the same. It only
// saves work. That a row counts once is the service's promise, by the row's identity: a run that is killed between answer and line sends the row
// again, and the answer is that it is a duplicate. So a results file may be torn, lost or deleted at any time.
//
// A document of a vendor's format is cut, too: at its plays, elements or lines, those of one session kept
// together. Memory is bounded by the batches in hand, whatever the length of a file, and by the sessions of
// an hour.
package upload

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"time"

	"muniment.example/gateway/remote"
)

// Bounds of the service (see its contract), and of what is sent at once.
const (
	maxRows = 1000    // of a batch
	maxBody = 8 << 20 // of a batch, unpacked, in bytes
	cutAt   = 2 << 20 // a batch that is as long has no further row
)

// Config of an upload. URL and Key are required.
type Config struct {
	// URL of the service, as https://muniment.example.
	URL string
	// Key is the API key, with the scope delivery:write.
	Key string
	// HTTP sends the requests; default http.DefaultTransport. Redirects are not followed, as
	// they would send the key elsewhere.
	HTTP http.RoundTripper
	// Format is that of all files, as ingest-batch's parameter has it, or ndjson, json or csv;
	// empty is what a file's name says.
	Format string
	// Options are the further parameters that the format takes.
	Options url.Values
	// Results is the folder of the results files; empty puts each beside its file.
	Results string
	// Again sends rows again that were rejected.
	Again bool
	// Senders is how many batches are in hand at once. Default 4.
	Senders int
	// RetryFor is how long a batch is retried that the service can't take.
	// Default 15 minutes.
	RetryFor time.Duration
	// Finish sends sessions that may go on in a later log, too.
	Finish bool
	// Progress, if there is one, counts what is done.
	Progress *Progress
}

// Uploader uploads files. One run at a time.
type Uploader struct {
	cfg      Config
	http     http.Client
	endpoint string
	progress *Progress
	// unfinished is what logs leave to later ones, by the files that keep it.
	unfinished map[string]*unfinished
}

// New checks the configuration. Nothing is sent.
func New(cfg Config) (*Uploader, error) {
	base, err := remote.Base(cfg.URL, cfg.Key)
	if err != nil {
		return nil, err
	}
	if cfg.Senders < 0 || cfg.RetryFor < 0 {
		return nil, errors.New("the number of senders and the time for retries can't be negative")
	}
	cfg.Senders, cfg.RetryFor = cmp.Or(cfg.Senders, 4), cmp.Or(cfg.RetryFor, 15*time.Minute)
	u := &Uploader{cfg: cfg, http: remote.Client(cfg.HTTP), progress: cfg.Progress, endpoint: base + "/v1/delivery/ingest-batch"}
	if u.progress == nil {
		u.progress = new(Progress)
	}
	return u, nil
}

// Run uploads files, and folders with all files in them that it knows by name. It returns when
// every row was answered, or with the reason why not; what went wrong with single files is
// joined. Rejected rows are no error: see Progress.
func (u *Uploader) Run(ctx context.Context, paths []string) error {
	files, err := u.find(paths)
	if err != nil {
		return err
	}
	for _, f := range files {
		u.progress.TotalBytes.Add(f.size)
	}
	u.progress.TotalFiles.Store(int64(len(files)))
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	if err := u.probe(ctx); err != nil {
		return err
	}
	u.unfinished = nil
	u.arrange(files)
	batches := make(chan *batch)
	var senders sync.WaitGroup
	for range u.cfg.Senders {
		senders.Go(func() {
			for b := range batches {
				if err := u.deliver(ctx, b); err != nil {
					end(err) // the others finish their batches, and take no more
				}
				b.file.release()
			}
		})
	}
	for _, f := range files {
		if ctx.Err() != nil {
			break
		}
		if err := u.read(ctx, f, batches); err != nil {
			f.fail(err)
		}
		f.release()
	}
	close(batches)
	senders.Wait()
	var failed []error
	for _, kept := range u.unfinished {
		u.progress.Unfinished.Add(int64(len(kept.open)))
		if err := errors.Join(kept.write(), kept.folder.Close()); err != nil {
			failed = append(failed, err)
		}
	}
	for _, f := range files {
		if f.failed != nil {
			failed = append(failed, fmt.Errorf("%s: %w", f.path, f.failed))
		}
	}
	if cause := context.Cause(ctx); cause != nil {
		failed = append(failed, cause)
	}
	return errors.Join(failed...)
}

// read sends the rows of a file, in batches, to be delivered. It returns when all are handed on.
func (u *Uploader) read(ctx context.Context, f *file, batches chan<- *batch) error {
	results, err := openResults(f.results, u.cfg.Again)
	if err != nil {
		return err
	}
	f.log = results
	content, err := openContent(f.path)
	if err != nil {
		return err
	}
	defer content.Close()
	s, err := u.source(f, content)
	if err != nil {
		return err
	}
	b := &batch{file: f, source: s}
	var counted int64
	hand := func() {
		b.bytes, counted = content.read()-counted, content.read()
		if len(b.rows) == 0 {
			u.progress.Bytes.Add(b.bytes)
			return
		}
		f.hold()
		select {
		case batches <- b:
			b = &batch{file: f, source: s}
		case <-ctx.Done(): // Run says why
			f.release()
		}
	}
	for r, err := range s.rows {
		switch {
		case err != nil:
			hand() // what was read before it is good
			return err
		case ctx.Err() != nil || f.refused():
			return nil
		case results.has(&r):
			u.progress.Skipped.Add(1)
			r.settle(results.sessions[r.session])
			continue
		case r.fault != "":
			if err := results.write(r.rejected()); err != nil {
				return err
			}
			u.progress.Rejected.Add(1)
			r.settle(false)
			continue
		}
		if len(b.rows) == s.most || len(b.rows) > 0 && b.size+r.bytes() > cutAt {
			hand()
		}
		b.add(r)
	}
	hand()
	return nil
}
