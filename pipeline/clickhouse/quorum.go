package clickhouse

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"

	"muniment.example/pipeline"
)

// An insert into a table of a cluster returns when a majority has it, and the servers refuse
// another one until then. A refused insert is retried after a pause, for a limited time: the
// first one may be waiting for a replica that is away.
const (
	minPause     = 5 * time.Millisecond
	maxPause     = 50 * time.Millisecond
	retryTimeout = 10 * time.Second
)

// errUnsatisfiedQuorum is the servers' code of the refusal.
const errUnsatisfiedQuorum = 286

// retryRefused calls insert until the servers don't refuse it for another one. A refused
// insert has written nothing.
func (w *servers) retryRefused(ctx context.Context, insert func() error) error {
	begun, pause := time.Now(), minPause
	for {
		err := insert()
		var refused *clickhouse.Exception
		if !errors.As(err, &refused) || refused.Code != errUnsatisfiedQuorum || time.Since(begun) > retryTimeout {
			return err
		}
		if pipeline.Pause(ctx, pause/2+rand.N(pause)) != nil {
			return err
		}
		pause = min(2*pause, maxPause)
	}
}

// exec runs a statement that inserts what it selects.
func (w *servers) exec(ctx context.Context, statement string) error {
	return w.retryRefused(ctx, func() error { return w.conn.Exec(ctx, statement) })
}
