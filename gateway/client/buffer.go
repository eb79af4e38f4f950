package client

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"muniment.example/gateway/api"
)

var (
	// ErrBufferFull refuses a play: too many wait. It has been kept nowhere.
	ErrBufferFull = errors.New("the buffer is full")
	// ErrBufferInUse refuses to open a folder that another process has open, or this one.
	ErrBufferInUse = errors.New("the buffer is open already")

	errBufferClosed = errors.New("the buffer is closed")
)

// BufferConfig says how a buffer works. Client is required.
type BufferConfig struct {
	// Client uploads the plays. Of its RetryPolicy only the delays apply: a buffer goes on for good.
	Client *Client
	// MaxBytes bounds what the plays take that wait, some 300 bytes each. With what was answered and
	// is not cleaned up, and while that is done, the folder takes up to three times as much. Default
	// 64 MiB.
	MaxBytes int64
	// Refused is called for each play that the service refuses for good, with the reason: the
	// constraint gate's Violations, a right that is revoked, a play of more than 30 days ago. The
	// play is removed once it returns; one may be reported again after a crash. It must not call
	// the buffer. Nil drops them.
	Refused func(Row, *Error)
	// Delivered is called for each play that was accepted or is a duplicate, like Refused. May be nil.
	Delivered func(Row, RowResult)
	// Trouble is called with what keeps the buffer from uploading, for logs, before each pause. May be
	// nil.
	Trouble func(error)
	// Now is the clock of plays without PlayedAt. Default time.Now.
	Now func() time.Time
}

// Buffer keeps plays on disk until the service has answered them, for devices that are offline at
// times. Each play counts exactly once at the service, whenever the process is killed or the power
// fails: it is on disk before Add returns, it is removed after it was answered, and what is sent
// twice the service knows by its row id.
//
// When it is full, Add refuses. When the disk fails in a way that leaves open what is on it,
// Add and Run return the error until the buffer is opened again. A Buffer is safe for concurrent use;
// one process at a time has a folder open; the TypeScript client does not see that lock.
// bufferfile.go describes its file.
type Buffer struct {
	cfg    BufferConfig
	client *Client // makes one attempt
	lock   *os.File
	run    sync.Mutex    // held by Run
	added  chan struct{} // has one when plays were added

	mu      sync.Mutex
	journal *journal
	closed  bool
}

// OpenBuffer opens the buffer of a folder, which it makes if there is none. Close it.
func OpenBuffer(dir string, cfg BufferConfig) (*Buffer, error) {
	return openBuffer(osDisk{}, dir, cfg)
}

func openBuffer(disk bufferDisk, dir string, cfg BufferConfig) (*Buffer, error) {
	switch {
	case cfg.Client == nil:
		return nil, errors.New("cannot open a buffer: Client is missing")
	case cfg.MaxBytes < 0:
		return nil, errors.New("cannot open a buffer: MaxBytes is negative")
	}
	cfg.MaxBytes = cmp.Or(cfg.MaxBytes, 64<<20)
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	_, err := os.Stat(dir)
	if errors.Is(err, os.ErrNotExist) {
		if err = os.MkdirAll(dir, 0o700); err == nil {
			err = disk.syncDir(filepath.Dir(filepath.Clean(dir)))
		}
	}
	var lock *os.File
	if err == nil {
		lock, err = lockBuffer(dir)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot open the buffer %s: %w", dir, err)
	}
	j, err := openJournal(disk, dir)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("cannot open the buffer %s: %w", dir, err), lock.Close())
	}
	once := *cfg.Client
	once.retry.Attempts = 1
	return &Buffer{cfg: cfg, client: &once, lock: lock, added: make(chan struct{}, 1), journal: j}, nil
}

// Close releases the folder. Plays that wait stay in it. End Run first.
func (b *Buffer) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil
	}
	b.closed = true
	return errors.Join(b.journal.file.Close(), b.lock.Close())
}

// BufferStats are what a buffer holds.
type BufferStats struct {
	// Waiting is how many plays wait, Bytes what they take of MaxBytes.
	Waiting int
	Bytes   int64
	// Damaged is how many lines of the file were found damaged when it was opened, and moved to the
	// file damaged: plays that the disk has lost.
	Damaged int
}

// Stats returns what the buffer holds.
func (b *Buffer) Stats() BufferStats {
	b.mu.Lock()
	defer b.mu.Unlock()
	return BufferStats{len(b.journal.waiting), b.journal.live, b.journal.damaged}
}

// Add returns once the play is on disk; then it will be uploaded, as of its PlayedAt, or of now if
// that is zero. An error promises nothing: after one of the disk the play may be there all the
// same. A caller that adds it again gives it an IdempotencyKey, so that it counts once.
//
// Add takes no account of whether the service would accept the play; but RightID and SpatialAnchorID
// have to be given.
func (b *Buffer) Add(ctx context.Context, d Delivery) error {
	row, err := b.rowOf(&d)
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return fmt.Errorf("cannot keep the play: %w", err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return errBufferClosed
	}
	if err := b.journal.add(row, b.cfg.MaxBytes); err != nil {
		return fmt.Errorf("cannot keep the play: %w", err)
	}
	select {
	case b.added <- struct{}{}:
	default: // one is there
	}
	return nil
}

// rowOf is a delivery as a row of a batch.
func (b *Buffer) rowOf(d *Delivery) ([]byte, error) {
	telemetry, err := d.telemetry()
	switch {
	case err != nil:
		return nil, err
	case d.RightID == "" || d.SpatialAnchorID == "":
		return nil, errors.New("RightID or SpatialAnchorID is missing")
	case d.DwellMs < 0:
		return nil, errors.New("DwellMs is negative")
	case d.IdempotencyKey != "" && !api.Printable(d.IdempotencyKey, api.MaxIdempotencyKey):
		return nil, fmt.Errorf("IdempotencyKey must be 1 to %d visible ASCII characters", api.MaxIdempotencyKey)
	}
	played := d.PlayedAt
	if played.IsZero() {
		played = b.cfg.Now()
	}
	return rowText(&Row{
		RowID: cmp.Or(d.IdempotencyKey, rand.Text()), PlayedAt: played.UTC().Format(time.RFC3339Nano), DwellMs: d.DwellMs,
		RightID: d.RightID, SpatialAnchorID: d.SpatialAnchorID, SpatialPlacementID: d.SpatialPlacementID,
		CorrelationID: d.CorrelationID, DataSubjectID: d.DataSubjectID, DataSubjectIDs: d.DataSubjectIDs, Telemetry: telemetry,
	})
}

// Run uploads plays, the oldest first, until ctx ends, whose error it returns then. While the service
// can't be reached, or can't take them, it goes on trying, with pauses as the client's RetryPolicy
// has them.
//
// It returns earlier if going on is of no use: the service does not accept the key (ErrAuth), is not
// at the address (ErrNotFound), or the disk fails. No play is lost by that; call it again when it is mended.
// One Run at a time.
func (b *Buffer) Run(ctx context.Context) error {
	if !b.run.TryLock() {
		return errors.New("the buffer is being uploaded already")
	}
	defer b.run.Unlock()
	most := maxRows // of the next batch: fewer while one is refused as a whole
	for failed := 0; ; {
		batch, err := b.take(most)
		if err == nil && len(batch) == 0 {
			select {
			case <-b.added:
				continue
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		var busy *Error
		if err == nil {
			busy, err = b.upload(ctx, batch)
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		var e *Error
		switch {
		case err == nil && busy == nil:
			most, failed = min(2*most, maxRows), 0
			continue
		case err == nil:
			e = busy // some rows wait longer
		case !errors.As(err, &e):
			return fmt.Errorf("cannot upload plays: %w", err)
		case e.ofBody() && len(batch) > 1:
			most = len(batch) / 2 // to find the row that is to blame
			continue
		case e.ofBody():
			if err := b.refuse(&batch[0], e); err != nil {
				return err
			}
			continue
		case !e.passing() && !errors.Is(e, ErrForeign):
			return fmt.Errorf("cannot upload plays: %w", err)
		}
		if b.cfg.Trouble != nil {
			b.cfg.Trouble(e)
		}
		if !wait(ctx, b.client.retry.delay(failed, min(e.RetryAfter, time.Hour))) {
			return ctx.Err()
		}
		failed++
	}
}

// play is one that waits, with its row.
type play struct {
	seq  uint64
	text []byte
}

func (p *play) row() (r Row) {
	_ = json.Unmarshal(p.text, &r) // it was written by AppendJSON
	return r
}

// take reads the oldest plays, as many as a batch takes, and most at most.
func (b *Buffer) take(most int) (batch []play, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil, errBufferClosed
	}
	size := 0
	for _, w := range b.journal.waiting {
		if size += w.n; len(batch) == most || size > maxBody {
			break
		}
		text, err := b.journal.row(w)
		if err != nil {
			return nil, fmt.Errorf("cannot read a play: %w", err)
		}
		batch = append(batch, play{w.seq, text})
	}
	return batch, nil
}

// upload sends plays, and removes those that were answered. busy says why some were not, which the
// service can't decide now.
func (b *Buffer) upload(ctx context.Context, batch []play) (busy *Error, err error) {
	lines := make([][]byte, len(batch))
	for i := range batch {
		lines[i] = batch[i].text
	}
	results, err := b.client.ingest(ctx, lines)
	if err != nil {
		return nil, err
	}
	answered := map[uint64]bool{}
	for i := range results {
		r, p := &results[i], &batch[i]
		switch {
		case passingRow(r) || r.Error != nil && r.Error.Code == api.RateLimited:
			busy = OfRow(r)
			continue
		case r.Status == Rejected:
			if b.cfg.Refused != nil {
				b.cfg.Refused(p.row(), OfRow(r))
			}
		case b.cfg.Delivered != nil:
			b.cfg.Delivered(p.row(), *r)
		}
		answered[p.seq] = true
	}
	return busy, b.remove(answered)
}

// refuse removes a play that the service refuses even alone.
func (b *Buffer) refuse(p *play, why *Error) error {
	if b.cfg.Refused != nil {
		b.cfg.Refused(p.row(), why)
	}
	return b.remove(map[uint64]bool{p.seq: true})
}

func (b *Buffer) remove(answered map[uint64]bool) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return errBufferClosed
	}
	if err := b.journal.remove(answered); err != nil {
		return fmt.Errorf("cannot remove plays that were answered: %w", err)
	}
	return nil
}
