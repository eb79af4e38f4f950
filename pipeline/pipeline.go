// Package pipeline brings events from the log into the warehouse.
//
// It declares the two engines as interfaces, Log and Warehouse, and has the one Loader
// that runs over both. The embedded engines are pipeline/segment and pipeline/sqlite,
// the scaled ones pipeline/kafka and pipeline/clickhouse; pipeline/conform holds the
// suites that every engine has to pass, so a promise made here is a test there.
//
// The loader delivers at least once, and rows are idempotent; together that is exactly
// once: a row's key is (tenantId, eventId), copies of one event collapse onto the lowest
// position, and the warehouse stores the loader's position together with, or after, the
// rows before it.
//
// A Fleet runs a loader for each partition that an Assignment assigns to this process.
// Nothing relies on the partition having no other loader.
//
// What can't be trusted is never dropped and never loaded: a record whose headers, event
// and witness disagree, or that is outside of its tenant's partition, is quarantined with
// its position and reason (see Quarantined), and holds sealing for its tenant until an
// operator releases it (see TypeReleased).
package pipeline

import (
	"context"
	"errors"

	"muniment.example/sealer"
)

// Log is the durable, ordered event log.
type Log interface {
	Appender
	Reader
}

// OrderedLog is a log whose writer may depend on the order of what it writes.
type OrderedLog interface {
	Log

	// AppendInOrder is AppendAll for records of which none may be in the log without those before it
	// in its partition, whatever fails and when. The first n of them are durable. n may be smaller than
	// len(rs), also without an error, but is not 0 then: the caller goes on with those that are left. After an error,
	// each partition may have some of rs[n:], and whatever it has is all of its own up to one.
	AppendInOrder(ctx context.Context, rs []*sealer.Record) (n int, err error)
}

// Appender writes to the log.
type Appender interface {
	// Append writes r and returns where it stands. When it returns nil, r is on
	// disk (or acknowledged by every in-sync replica) and survives a crash of this
	// process and of the machine. When it returns an error nothing is promised: the
	// record may or may not be in the log, so a retry must use the same event id.
	//
	// Append copies what it needs: r and its slices belong to the caller again
	// after it returns. Safe for concurrent use; concurrent calls need one sync together.
	// A cancelled ctx stops the waiting, not the write.
	Append(ctx context.Context, r *sealer.Record) (sealer.Position, error)

	// AppendAll is Append for many records with one wait for all of them: one sync of a
	// disk, or as few requests to brokers as possible. at and errs have an element for each
	// record, which means what Append's result means: with errs[i] nil the i-th is durable
	// and stands at at[i], otherwise nothing is promised about it. There is no transaction:
	// a crash may leave any of them.
	//
	// Records of one partition stand there in the order in which they were given, as long
	// as none fails, but others may stand between them. Other appends wait for all of them,
	// so a caller splits many megabytes into several calls.
	AppendAll(ctx context.Context, rs []*sealer.Record) (at []sealer.Position, errs []error)
}

// RefuseAll is AppendAll's result when it refuses all records for one reason.
func RefuseAll(rs []*sealer.Record, why error) (at []sealer.Position, errs []error) {
	at, errs = make([]sealer.Position, len(rs)), make([]error, len(rs))
	for i := range errs {
		errs[i] = why
	}
	return at, errs
}

// Reader reads the log. Safe for concurrent use, also beside an Appender.
//
// Offsets count on when a new generation begins within a log, so the end of a
// generation is the beginning of the next one.
type Reader interface {
	// Partitions is how many partitions the log has: 0 up to Partitions-1, for as
	// long as the log lives.
	Partitions(ctx context.Context) (int, error)
	// PartitionOf is the one partition that holds all records of a tenant, whether
	// there are any yet or not. It never changes.
	PartitionOf(ctx context.Context, tenantID string) (int32, error)

	// Bounds returns the first position still held and the end: the position that
	// the next durable record will get. An empty partition has first == end.
	Bounds(ctx context.Context, partition int32) (first, end sealer.Position, err error)

	// Read returns the record at one position; the caller owns it.
	// ErrGone before Bounds' first, ErrBeyondEnd at or behind its end, ErrDamaged
	// when the bytes on disk don't match their checksums.
	Read(ctx context.Context, at sealer.Position) (sealer.Entry, error)

	// Scan calls fn for every durable record of from ≤ position < to, in order and
	// without a gap. An entry is valid only during its call. It stops with fn's
	// error, with ctx's when that is done, with ErrGone when from is no longer held,
	// with ErrBeyondEnd when from is behind the end, with ErrDamaged at the first
	// record that can't be trusted; it never leaves one out silently. A to behind
	// the end means the end.
	//
	// A message that an engine can't parse, as one that another program wrote to the topic,
	// is an entry with empty headers whose Event is all of its bytes.
	Scan(ctx context.Context, from, to sealer.Position, fn func(sealer.Entry) error) error

	// Wait blocks until a durable record stands at the position, or ctx is done.
	// ErrGone for a position at which none can stand any more.
	Wait(ctx context.Context, at sealer.Position) error
}

// One sentinel for each reaction.
var (
	// ErrGone: the position is older than the log's retention, or of a generation
	// that it no longer holds. A loader stops and names the gap.
	ErrGone = errors.New("position is no longer in the log")
	// ErrBeyondEnd: nothing durable stands there yet.
	ErrBeyondEnd = errors.New("position is beyond the end of the log")
	// ErrDamaged: bytes and checksums disagree. An operator has to look.
	ErrDamaged = errors.New("log is damaged")
	// ErrFull: there is no space for the record now; nothing was written. The caller may
	// retry later.
	ErrFull = errors.New("log is full")
	// ErrFailed: the log has failed permanently (a failed fsync); the process must
	// stop and start again.
	ErrFailed = errors.New("log has failed")
	// ErrClosed: the log was closed.
	ErrClosed = errors.New("log is closed")
)
