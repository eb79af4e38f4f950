package backup

import (
	"context"
	"io"
	"os"
	"time"
)

// pace limits the load of a backup on the server beside it: it reads and writes at most so many
// bytes a second, and each piece is on disk before the next is written. Much that waits in memory
// would go to disk at once, and the log's own sync, which deliveries wait for, would wait behind
// it.
type pace struct {
	rate int64 // bytes a second; 0: as fast as it goes
	// say is called now and then with how many bytes were read or written so far; nil: never.
	say func(done int64)

	due  time.Time // when the next piece may begin
	said time.Time
	done int64
}

const (
	// pieceBytes is how much is copied at a time: a disk writes that in some milliseconds.
	pieceBytes = 1 << 20
	// sayEvery is how long a backup is silent.
	sayEvery = 10 * time.Second
)

// spend waits until n bytes that were read or written are within the rate.
func (p *pace) spend(ctx context.Context, n int) error {
	now := time.Now()
	if p.said.IsZero() {
		p.said = now
	}
	if p.done += int64(n); p.say != nil && now.Sub(p.said) >= sayEvery {
		p.said = now
		p.say(p.done)
	}
	if p.rate > 0 {
		if p.due.Before(now) {
			p.due = now
		}
		p.due = p.due.Add(time.Duration(float64(n) / float64(p.rate) * float64(time.Second)))
	}
	wait := time.NewTimer(p.due.Sub(now))
	defer wait.Stop()
	select {
	case <-wait.C:
	case <-ctx.Done():
	}
	return ctx.Err()
}

// writer writes to a file at the pace.
func (p *pace) writer(ctx context.Context, f *os.File) io.Writer {
	return &pacedWriter{p, ctx, f, 0, 0}
}

type pacedWriter struct {
	*pace
	ctx           context.Context
	file          *os.File
	open, settled int64 // bytes that may be in memory, and those before, on disk
}

func (w *pacedWriter) Write(b []byte) (n int, err error) {
	for err == nil && n < len(b) {
		var wrote int
		wrote, err = w.file.Write(b[n:min(len(b), n+pieceBytes)])
		n += wrote
		if w.open += int64(wrote); err == nil && w.open >= pieceBytes {
			err = flush(w.file, w.settled, w.open)
			w.settled, w.open = w.settled+w.open, 0
		}
		if err == nil {
			err = w.spend(w.ctx, wrote)
		}
	}
	return n, err
}

// reader reads at the pace.
func (p *pace) reader(ctx context.Context, from io.Reader) io.Reader {
	return &pacedReader{p, ctx, from}
}

type pacedReader struct {
	*pace
	ctx  context.Context
	from io.Reader
}

func (r *pacedReader) Read(b []byte) (int, error) {
	n, err := r.from.Read(b[:min(len(b), pieceBytes)])
	if err == nil {
		err = r.spend(r.ctx, n)
	}
	return n, err
}
