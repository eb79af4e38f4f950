package segment

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"muniment/sealer"
)

// Config says where a log lives and how it behaves.
type Config struct {
	// Dir is the folder of the log. It is made if it isn't there, and belongs to
	// one log: a second Open of it is refused while the first is open.
	Dir string

	// SegmentBytes is the size of a segment file; default 64 MiB, least 4 KiB. It
	// may change from one Open to the next. A group that is larger than a whole
	// segment gets a larger one.
	SegmentBytes int64

	// MaxBytes bounds the files of the log together; 0 is no bound, least two segments:
	// the newest is never removed, and an index of a few kilobytes each is not counted. A record that would need a new segment beyond it is
	// refused with pipeline.ErrFull until Retain has made room.
	MaxBytes int64

	// PendingBytes bounds the records that wait for the running sync; default
	// 8 MiB. Append blocks while they are more.
	PendingBytes int

	// AtLeast is an end of the log, as Bounds told it, that was recorded somewhere
	// else. Open refuses a log that ends before it with ErrRollback; nil checks
	// nothing.
	AtLeast *sealer.Position

	// Generation is the least generation that new records get; default 1. A log
	// of a lower one goes on in a new segment of this generation, and what the
	// lower one may have held from there on is gone (see pipeline.ErrGone). So an
	// operator who accepts a rollback opens with AtLeast.Generation + 1.
	Generation uint32

	// Lazy is for a log that promises nothing, as one of copies of what is durable
	// elsewhere: nothing is synced, so a crash of the machine may lose or damage any of
	// it, and one that Open finds damaged is removed, with a warning, and begun anew. A
	// crash of the process alone loses nothing, and nothing damaged is ever served. Its
	// groups are not chained by hashes: checksums tell damage, and nobody asks for more.
	// Excludes AtLeast.
	Lazy bool

	// Indexed keeps an index beside each segment that another one follows, so that Open
	// reads the last segment alone and is done in a moment however long the log is. Damage
	// in the others is met by whoever reads them, and by Check. Of a Lazy log they are
	// believed as long as the machine runs on: it may have lost what was not synced.
	Indexed bool

	// Now is the clock that groups are stamped with; default time.Now.
	Now func() time.Time

	// Log gets one line when a torn tail is cut, when the disk is full, and when
	// the log fails; nil discards them.
	Log *slog.Logger

	// Registerer takes the metrics until Close; nil keeps them to ourselves. Two
	// logs on one registry need prometheus.WrapRegistererWith a label each.
	Registerer prometheus.Registerer

	// OnFailure is called once, after a sync or a write failed for good and every
	// waiting Append was told so. It may call Close. The process should stop; nil
	// does nothing.
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

// ErrRollback says that the log ends before a position that it once had: it was
// restored from an older copy, or its newest records are damaged. Nothing was
// changed. See Config.Generation for how to go on nevertheless.
var ErrRollback = errors.New("log is shorter than it was")

// ErrLocked says that another process has the folder open.
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
