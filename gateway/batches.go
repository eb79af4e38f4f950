package gateway

import (
	"context"
	"sync/atomic"
	"time"

	"muniment/gateway/api"
)

// batches is what batches may take of the node, so that single deliveries always find some.
// Their bodies have a bound in bytes, of which one tenant has half; and they are served in
// turns, first come first served, of which one tenant has half as well. Those that wait for a
// turn hold their body and a place among the requests in hand: of these, all have at most a
// quarter, and one tenant's as many as a sixteenth of its cap.
type batches struct {
	most   int64 // bytes
	bytes  atomic.Int64
	waits  int64 // most in hand
	inHand atomic.Int64
	turns  chan struct{}
}

const (
	// batchTurns are the turns for each processor: while one batch is signed, the others wait
	// for the log.
	batchTurns = 4
	// turnPatience is how long a batch waits for its turn.
	turnPatience = 20 * time.Second
)

var (
	errBatchesFull   = api.Unavailable(api.Overloaded, "this node has too many batches in hand", time.Second)
	errTenantBatches = &api.Error{Code: api.RateLimited, Message: "this tenant has too many batches in hand on this node", RetryAfter: time.Second}
)

func newBatches(cfg *Config) batches {
	return batches{
		most: int64(cfg.MaxBatchBytes), waits: int64(max(1, cfg.MaxInFlight/4)), turns: make(chan struct{}, batchTurns*cfg.Processors),
	}
}

// allowance is what one batch has of the bytes. The zero value has no bound.
type allowance struct {
	node   *batches
	tenant *share
	held   int64
}

// take takes so many more.
func (a *allowance) take(bytes int) error {
	if a.node == nil {
		return nil
	}
	n := int64(bytes)
	a.held += n
	switch own, all := a.tenant.bytes.Add(n), a.node.bytes.Add(n); {
	case all > a.node.most:
		return errBatchesFull
	case own > a.node.most/2:
		return errTenantBatches
	}
	return nil
}

// end gives them back.
func (a *allowance) end() {
	if a.node != nil {
		a.tenant.bytes.Add(-a.held)
		a.node.bytes.Add(-a.held)
	}
	*a = allowance{}
}

// await waits for the turn of a tenant's batch, until leave.
func (b *batches) await(ctx context.Context, of *share, limit int64) (leave func(), err error) {
	ctx, cancel := context.WithTimeout(ctx, turnPatience)
	defer cancel()
	own, all := of.batches.Add(1), b.inHand.Add(1)
	gone := func() {
		of.batches.Add(-1)
		b.inHand.Add(-1)
	}
	switch {
	case own > limit:
		err = errTenantBatches
	case all > b.waits:
		err = errBatchesFull
	default:
		err = enter(ctx, of.turns, errTenantBatches)
	}
	if err != nil {
		gone()
		return nil, err
	}
	if err := enter(ctx, b.turns, errBatchesFull); err != nil {
		<-of.turns
		gone()
		return nil, err
	}
	return func() {
		<-b.turns
		<-of.turns
		gone()
	}, nil
}

func enter(ctx context.Context, turns chan struct{}, tooLate error) error {
	select {
	case turns <- struct{}{}:
		return nil
	case <-ctx.Done():
		return tooLate
	}
}

// mostBatches is how many batches of a tenant wait or are served.
func (s *shares) mostBatches() int64 { return max(1, s.cap/16) }

// grant counts rows of a tenant's batch in, until leave: at most so many that all of its
// batches together have half of its cap.
func (s *shares) grant(of *share, rows int) (granted int, leave func()) {
	granted = min(rows, max(1, int(s.cap)/2/s.turns))
	of.inHand.Add(int64(granted))
	return granted, func() { of.inHand.Add(-int64(granted)) }
}
