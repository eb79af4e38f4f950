package issue

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"muniment.example/gateway/api"
	"muniment.example/gateway/snapshot"
	"muniment.example/sealer"
)

// Log is the durable log that receipts are written to and earlier answers are read from.
// Safe for concurrent use. The contract of each method is pipeline.Log's, but a log may
// lose what is only read for answers to idempotent retries: then the position of Append is
// the zero one, or the error of Read is fs.ErrNotExist and Scan passes over the record,
// and the key is forgotten. The receipt is valid all the same, and the log notifies operators.
type Log interface {
	// Append returns once the record is durable. On an error nothing is promised. The
	// record's slices and strings are the caller's again when it returns.
	Append(ctx context.Context, r *sealer.Record) (sealer.Position, error)
	// AppendAll is Append for many records in one wait: at and errs have one for each.
	AppendAll(ctx context.Context, rs []*sealer.Record) (at []sealer.Position, errs []error)
	// Writable is nil if Append would take a record now, else the error that it would return. It
	// is asked after an Append has failed, and may wait as an Append does.
	Writable(ctx context.Context) error
	// Read returns the record at a position; the caller owns it.
	Read(ctx context.Context, at sealer.Position) (sealer.Entry, error)
	// Scan calls fn for every record of from ≤ position < to, in order.
	Scan(ctx context.Context, from, to sealer.Position, fn func(sealer.Entry) error) error
	// Bounds returns the first position still held and the one behind the last.
	Bounds(ctx context.Context, partition int32) (first, end sealer.Position, err error)
}

// DefaultTimeout is how long a delivery may take.
const DefaultTimeout = 5 * time.Second

// Config configures an Issuer. NodeID, Rights, Log, and one of Signer and SandboxSigner are
// required.
type Config struct {
	// NodeID is this node's id, Epoch the number of its start: with a sequence number
	// they head each record it writes.
	NodeID string
	Epoch  uint64
	// Rights is the node's view of rights and keys. The caller runs it.
	Rights *snapshot.View
	// Log holds this node's events in its partition 0.
	Log Log
	// Signer acquires the key that signs receipts of a moment. The key stands in the
	// directory already, and its window holds the moment: keys are rotated by handing out
	// another. release is called once what was signed is durable or given up. Signer may
	// wait until ctx is done; its errors are answered with 503. Safe for concurrent
	// use. Without it the deliveries of tenants are refused.
	Signer func(ctx context.Context, at time.Time) (s *sealer.Signer, release func(), err error)
	// SandboxSigner is Signer for the sandbox's tenants: its keys sign their receipts and
	// no others. Without it their deliveries are refused.
	SandboxSigner func(ctx context.Context, at time.Time) (s *sealer.Signer, release func(), err error)
	// Admit, if it is set, is called before deliveries are issued, once for all rows of a piece
	// of a batch, and may block, to slow deliveries down to what the warehouse can load. It
	// refuses nothing, and returns early when ctx is done. Safe for concurrent use.
	Admit func(ctx context.Context, deliveries int)

	// MaxRowAge is how long ago the play of a row may be. Default, and at most, api.MaxRowAge.
	MaxRowAge time.Duration
	// BatchBytes bounds the records of batches that wait for the log: half of what the log
	// lets wait, so that single deliveries have the other half. Default 4 MiB.
	BatchBytes int
	// BatchSigners is how many threads decide and sign batches: as many as half of the
	// processors. Default half of runtime.GOMAXPROCS(0), which is too many where that was raised.
	BatchSigners int

	// Timeout is how long a delivery waits for the right, the log, and an earlier answer's
	// record. Default DefaultTimeout.
	Timeout time.Duration
	// IdempotencyEntries bounds the keys and identities of rows that are remembered, 50 to 80
	// bytes each. Default 5,000,000: those of 24 hours at 58 deliveries a second.
	IdempotencyEntries int
	// CheckpointDir is a folder of this node alone for checkpoints of the keys, at most 26
	// bytes each; it is created if it is missing, and may be lost. Default none: Rebuild reads a
	// day of the log.
	CheckpointDir string
	// IdempotencyWait bounds how long a delivery waits for an earlier one with its
	// key. Default 5 s.
	IdempotencyWait time.Duration

	// Now reads the clock that receipts are dated by. Default time.Now.
	Now func() time.Time
	// Random is what nonces, salts and ids are drawn from. Default rand.Reader.
	Random     io.Reader
	Logger     *slog.Logger
	Registerer prometheus.Registerer
}

func (c *Config) complete() error {
	switch {
	case c.NodeID == "":
		return errors.New("issue: NodeID is empty")
	case c.Rights == nil:
		return errors.New("issue: Rights is missing")
	case c.Log == nil:
		return errors.New("issue: Log is missing")
	case c.Signer == nil && c.SandboxSigner == nil:
		return errors.New("issue: Signer is missing")
	case c.IdempotencyEntries < 0:
		return errors.New("issue: IdempotencyEntries is negative")
	case c.Timeout < 0, c.IdempotencyWait < 0:
		return fmt.Errorf("issue: Timeout %v or IdempotencyWait %v is negative", c.Timeout, c.IdempotencyWait)
	case c.MaxRowAge < 0, c.MaxRowAge > api.MaxRowAge:
		return fmt.Errorf("issue: MaxRowAge %v is not from 0 to %v", c.MaxRowAge, api.MaxRowAge)
	case c.BatchBytes < 0, c.BatchSigners < 0:
		return fmt.Errorf("issue: BatchBytes %d or BatchSigners %d is negative", c.BatchBytes, c.BatchSigners)
	}
	c.MaxRowAge = cmp.Or(c.MaxRowAge, api.MaxRowAge)
	c.BatchBytes = cmp.Or(c.BatchBytes, 4<<20)
	c.BatchSigners = cmp.Or(c.BatchSigners, max(1, runtime.GOMAXPROCS(0)/2))
	if c.Timeout == 0 {
		c.Timeout = DefaultTimeout
	}
	if c.IdempotencyEntries == 0 {
		c.IdempotencyEntries = 5_000_000
	}
	if c.IdempotencyWait == 0 {
		c.IdempotencyWait = 5 * time.Second
	}
	if c.Admit == nil {
		c.Admit = func(context.Context, int) {}
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Random == nil {
		c.Random = rand.Reader
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Registerer == nil {
		c.Registerer = prometheus.NewRegistry()
	}
	return nil
}
