package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"time"

	"muniment.example/sealer"
)

// Node is the node name of control's events in the log.
const Node = "control"

// Appender is the log, as the relay needs it, with the contract of pipeline.OrderedLog.
type Appender interface {
	AppendInOrder(ctx context.Context, rs []*sealer.Record) (n int, err error)
}

// The relay reads relayBatch rows at once and appends them in groups, of at most groupBytes and at least
// one event. So a change that waits for its event (Confirm) waits for two appends, the one that runs and its own, as long as
// no more than a group is before it. It overtakes nothing, not even if it is a stop: a tenant's event must not be in the log
// without an earlier one, and stops come first in the order of the changes (changequeue.go). After
// a failed append the relay waits relayRetry, which doubles up to relayRetryMax.
const (
	relayBatch    = 256
	groupBytes    = 1 << 20
	relayRetry    = 10 * time.Millisecond
	relayRetryMax = 5 * time.Second
)

// number identifies an audit event: the epoch of the database that wrote it, and its sequence
// number in that epoch.
type number struct{ epoch, seq uint64 }

// Outbox holds the events that are not in the log yet.
type Outbox struct {
	db       *DB
	metrics  metrics
	relaying sync.Mutex
	durable  number // the newest event that the log has and the outbox may still have; under relaying
}

// Relay appends the outbox to the log, in order, until ctx is done; then it returns nil. A failed
// append is logged once and retried until it succeeds; no later event of its tenant overtakes it. One Relay runs
// at a time: a second in this process is refused, and one of another process waits until this one
// ends.
func (outbox *Outbox) Relay(ctx context.Context, log Appender) error {
	if !outbox.relaying.TryLock() {
		return errors.New("the outbox has a relay already")
	}
	defer outbox.relaying.Unlock()
	defer outbox.resign(ctx)
	wait, failing := relayRetry, false
	for ctx.Err() == nil {
		queued := outbox.db.queued.wait()
		n, err := outbox.relay(ctx, log)
		if n > 0 {
			wait = relayRetry
		}
		if err == nil && failing {
			failing = false
			outbox.db.cfg.Logger.Info("events are relayed to the log again")
		}
		switch {
		case ctx.Err() != nil:
		case err != nil:
			outbox.metrics.failed.Inc()
			if !failing {
				failing = true
				outbox.db.cfg.Logger.Error("cannot relay an event to the log, retrying", "err", err)
			}
			pause(ctx, time.After(wait))
			wait = min(2*wait, relayRetryMax)
		case n == 0:
			pause(ctx, queued)
		}
	}
	return nil
}

func pause[T any](ctx context.Context, until <-chan T) {
	select {
	case <-ctx.Done():
	case <-until:
	}
}

// relay appends the oldest rows and deletes those that are durable. It returns
// how many there were.
func (outbox *Outbox) relay(ctx context.Context, log Appender) (int, error) {
	if leads, err := outbox.leads(ctx); err != nil || !leads {
		return 0, err
	}
	// Rows that could not be deleted, as on a full disk, are not appended again.
	if err := outbox.clear(ctx); err != nil {
		return 0, err
	}
	pending, err := outbox.pending(ctx)
	sent := 0
	for err == nil && sent < len(pending) {
		var n int
		n, err = log.AppendInOrder(ctx, firstGroup(pending[sent:]))
		if n > 0 {
			sent += n
			last := &pending[sent-1]
			outbox.durable = number{last.Epoch, last.Seq}
			outbox.metrics.relayed.Add(float64(n))
		}
		if err != nil {
			r := &pending[sent]
			err = fmt.Errorf("cannot append %s: %w", r.EventID, err)
			if isFull(err) && r.Epoch == outbox.db.epoch.Number && r.Seq <= outbox.db.stopped.Load() {
				outbox.db.spend() // a stop's event is waiting
			}
		}
		err = errors.Join(err, outbox.clear(ctx))
	}
	return sent, err
}

// firstGroup is what is appended together: at least one record.
func firstGroup(pending []sealer.Record) (group []*sealer.Record) {
	size := 0
	for i := range pending {
		r := &pending[i]
		if size += len(r.Event) + len(r.Private); size > groupBytes && i > 0 {
			break
		}
		group = append(group, r)
	}
	return group
}

// clear deletes the rows that are durable in the log, also when ctx is done: otherwise they are
// appended again.
func (outbox *Outbox) clear(ctx context.Context) error {
	last := outbox.durable
	if last == (number{}) {
		return nil
	}
	_, err := outbox.db.write.ExecContext(context.WithoutCancel(ctx), `DELETE FROM outbox WHERE epoch < $1 OR (epoch = $1 AND seq <= $2)`, last.epoch, last.seq)
	if err != nil {
		return fmt.Errorf("cannot clear the outbox: %w", err)
	}
	outbox.durable = number{}
	outbox.db.relayed.raise()
	return outbox.db.notify(context.WithoutCancel(ctx), outbox.db.write, channel)
}

// Outbox returns the events that are not in the log yet, in their order.
func (tx *Tx) Outbox(ctx context.Context) ([]string, error) {
	return List(ctx, tx, "the outbox", Text, `SELECT event FROM outbox ORDER BY epoch, seq`)
}

// pending reads the oldest rows of the outbox.
func (outbox *Outbox) pending(ctx context.Context) ([]sealer.Record, error) {
	scan := func(row Row) (sealer.Record, error) {
		r := sealer.Record{Node: Node}
		err := row.Scan(&r.Epoch, &r.Seq, &r.TenantID, &r.EventID, &r.Event, &r.Private)
		return r, err
	}
	return List(ctx, outbox.db.vital, "the outbox", scan,
		`SELECT epoch, seq, tenant_id, event_id, event, private FROM outbox ORDER BY epoch, seq LIMIT $1`, relayBatch)
}

// Announce returns when the first event of the epoch is durable in the log, or with ctx's error: at once
// if it is, also by another process's relay. The process that began the epoch may have ended before
// that. Call it before Relay runs in this process.
func (outbox *Outbox) Announce(ctx context.Context, log Appender) error {
	waiting, err := One(ctx, outbox.db.vital, "the epoch's first event", Text, `SELECT event_id FROM outbox WHERE epoch = $1 AND seq = 1`, outbox.db.epoch.Number)
	if waiting == nil || err != nil {
		return err
	}
	relaying, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- outbox.Relay(relaying, log) }()
	err = outbox.Drain(ctx, "")
	stop()
	return errors.Join(err, <-ended)
}

// Drain returns when every event of the tenant, or of all tenants if the id is empty, that was in the
// outbox at the call is durable in the log, or with ctx's error. The caller must have Relay running.
func (outbox *Outbox) Drain(ctx context.Context, tenantID string) error {
	if err := outbox.drain(ctx, tenantID); err != nil {
		return fmt.Errorf("cannot drain the outbox: %w", err)
	}
	return nil
}

func (outbox *Outbox) drain(ctx context.Context, tenantID string) error {
	which := `tenant_id = $1`
	if tenantID == "" {
		which = `$1 = ''`
	}
	var epoch, seq int64
	err := outbox.db.vital.QueryRowContext(ctx, `SELECT epoch, seq FROM outbox WHERE `+which+` ORDER BY epoch DESC, seq DESC LIMIT 1`, tenantID).Scan(&epoch, &seq)
	left := `SELECT 1 FROM outbox WHERE ` + which + ` AND (epoch < $2 OR (epoch = $2 AND seq <= $3)) LIMIT 1`
	for err == nil {
		relayed := outbox.db.relayed.wait()
		if err = outbox.db.vital.QueryRowContext(ctx, left, tenantID, epoch, seq).Scan(new(int)); err == nil {
			pause(ctx, relayed)
			err = ctx.Err()
		}
	}
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	return err
}
