package clickhouse

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
)

// The first insert of a cluster into a table is answered when a majority has it, and the
// servers refuse a second until then. Whoever is refused waits for so long, each time
// longer, and gives up in the end: the first may be waiting for a replica that is away.
const (
	firstWait   = 5 * time.Millisecond
	longestWait = 50 * time.Millisecond
	turnTimeout = 10 * time.Second
)

// errUnsatisfiedQuorum is what the servers call it, by their number.
const errUnsatisfiedQuorum = 286

// inTurn calls insert until no other insert is in its way. What was refused has written
// nothing.
func (w *Warehouse) inTurn(ctx context.Context, insert func() error) error {
	begun, wait := time.Now(), firstWait
	for {
		err := insert()
		var refused *clickhouse.Exception
		if !errors.As(err, &refused) || refused.Code != errUnsatisfiedQuorum || time.Since(begun) > turnTimeout {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(wait/2 + rand.N(wait)):
		}
		wait = min(2*wait, longestWait)
	}
}

// exec runs a statement that inserts what it selects.
func (w *Warehouse) exec(ctx context.Context, statement string) error {
	return w.inTurn(ctx, func() error { return w.conn.Exec(ctx, statement) })
}
