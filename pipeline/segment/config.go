package segment

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"muniment.example/sealer"
)

// Config says where a log lives and how it behaves.
type Config struct {
	// Dir is the folder of the log. It is created if it doesn't exist, and belongs to
	// one log: a second Open of it is refused while the first is open.
	Dir string

	// SegmentBytes is the size of a segment file; default 64 MiB, least 4 KiB. It
	// may change from one Open to the next. A group that is larger than a whole
	// segment gets a larger one.
	SegmentBytes int64

	// MaxBytes bounds the segment files together; 0 is no bound, least two segments, as the
	// newest is never removed. Indexes, of a few kilobytes each, are not counted. A record
	// that would need a new segment beyond it is refused with pipeline.ErrFull until Retain
	// has removed an old one.
	MaxBytes int64

	// PendingBytes bounds the records that wait for the running sync; default
	// 8 MiB. Append blocks while they are more.
	PendingBytes int

	// AtLeast is an earlier end of the log, from Bounds, that was recorded elsewhere. Open
	// refuses a log that ends before it with ErrRollback; nil checks nothing.
	AtLeast *sealer.Position

	// Generation is the least generation that new records get; default 1. A log of a lower
	// generation goes on in a new segment of this one, and what the lower one held from
	// there on is gone (see pipeline.ErrGone). To accept a rollback, an operator opens the
	// log with AtLeast.Generation + 1.
	Generation uint32

	// Lazy is for copies of records that are durable elsewhere: nothing is synced, so a
	// crash of the machine may lose or damage any of the log, and a log that Open finds
	// damaged is removed, with a warning. A crash of the process alone loses nothing, and
	// nothing damaged is ever served. Its groups are not chained by hashes: checksums find
	// damage. Excludes AtLeast.
	Lazy bool

	// Indexed keeps an index beside each segment but the last, so that Open reads the last
	// segment alone, however long the log is. Damage in the others is found when they are
	// read, and by Check. The indexes of a Lazy log are used until the machine restarts: then
	// it may have lost what was not synced.
	Indexed bool

	// Now is the clock that groups are stamped with; default time.Now.
	Now func() time.Time

	// Log logs when a torn tail is cut, when the disk is full, and when the log fails; nil
	// discards it.
	Log *slog.Logger

	// Registerer takes the metrics until Close; nil registers none. Two logs on one
	// registry need prometheus.WrapRegistererWith a label each.
	Registerer prometheus.Registerer

	// OnFailure is called once, after a sync or a write failed permanently and every waiting
	// Append has returned that error. It may call Close. The process should stop; nil does
	// nothing.
	OnFailure func(error)

	// FS is the file system, for fault tests; nil is the operating system's.
	FS FS
}

const (
	defaultSegmentBytes = 64 << 20
	leastSegmentBytes   = 4 << 10
	mostPendingBytes    = 1 << 30
	// DefaultPendingBytes is Config.PendingBytes where none is given.
	DefaultPendingBytes = 8 << 20
)

// ErrRollback: the log ends before a position that it once had. It was restored from an
// older copy, or its newest records are damaged. Nothing was changed. See Config.Generation
// for how to go on nevertheless.
var ErrRollback = errors.New("log is shorter than it was")

// ErrLocked: another process has the folder open.
var ErrLocked = errors.New("log folder is in use")

// complete fills in the defaults, or names the field that can't be.
func (c Config) complete() (Config, error) {
	if c.SegmentBytes == 0 {
		c.SegmentBytes = defaultSegmentBytes
	}
	if c.PendingBytes == 0 {
		c.PendingBytes = DefaultPendingBytes
	}
	if c.Generation == 0 {
		c.Generation = 1
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.OnFailure == nil {
		c.OnFailure = func(error) {}
	}
	if c.FS == nil {
		c.FS = osFS{}
	}
	if c.Lazy {
		c.FS = lazyFS{c.FS}
	}
	switch {
	case c.Dir == "":
		return c, errors.New("segment: Dir is empty")
	case c.SegmentBytes < leastSegmentBytes:
		return c, fmt.Errorf("segment: SegmentBytes %d is below %d", c.SegmentBytes, leastSegmentBytes)
	case c.MaxBytes != 0 && c.MaxBytes < 2*c.SegmentBytes:
		return c, fmt.Errorf("segment: MaxBytes %d does not hold two segments of %d", c.MaxBytes, c.SegmentBytes)
	case c.PendingBytes < 0, c.PendingBytes > mostPendingBytes:
		return c, fmt.Errorf("segment: PendingBytes %d is not in 1 to %d", c.PendingBytes, mostPendingBytes)
	case c.AtLeast != nil && c.AtLeast.Partition != 0:
		return c, fmt.Errorf("segment: AtLeast %s is of partition %d, this log has only 0", c.AtLeast, c.AtLeast.Partition)
	case c.AtLeast != nil && c.Lazy:
		return c, errors.New("segment: AtLeast is of no use to a Lazy log")
	}
	return c, nil
}
