package gateway

import (
	"context"
	"sync/atomic"
	"time"

	"muniment.example/gateway/api"
)

// batches limits what batches take of the node, so that single deliveries are always served.
// The bodies in memory are limited in bytes, and batches are served in a number of slots, first
// come first served; one tenant may use half of the bytes and half of the slots. A batch that
// waits for a slot keeps its body in memory and counts as a request in hand: all batches
// together are at most a quarter of these, and one tenant's at most a sixteenth of its cap.
type batches struct {
	maxBytes  int64
	bytes     atomic.Int64
	maxInHand int64
	inHand    atomic.Int64
	slots     chan struct{}
	limited   *limited
}

const (
	// slotsPerProcessor is more than one, as batches wait for the log while another is signed.
	slotsPerProcessor = 4
	// slotTimeout is how long a batch waits for a slot.
	slotTimeout = 20 * time.Second
)

var (
	errBatchesFull   = api.Unavailable(api.Overloaded, "this node has too many batches in hand", time.Second)
	errTenantBatches = &api.Error{Code: api.RateLimited, Message: "this tenant has too many batches in hand on this node", RetryAfter: time.Second}
)

func newBatches(cfg *Config, l *limited) batches {
	return batches{
		maxBytes: int64(cfg.MaxBatchBytes), maxInHand: int64(max(1, cfg.MaxInFlight/4)), slots: make(chan struct{}, slotsPerProcessor*cfg.Processors), limited: l,
	}
}

// allowance counts the bytes of one body: as a tenant's, among those of batches, or as those of an address,
// among those of strangers. The zero value has no limit.
type allowance struct {
	node   *batches
	tenant *tenantLimit

	strangers *places
	from      string

	held int64
}

// take counts more bytes.
func (a *allowance) take(bytes int) error {
	n := int64(bytes)
	switch {
	case a.strangers != nil:
		if a.strangers.takeMany(a.from, bytes, true) != admitted {
			return errBodies
		}
		a.held += n
		return nil
	case a.node == nil:
		return nil
	}
	a.held += n
	switch own, all := a.tenant.bytes.Add(n), a.node.bytes.Add(n); {
	case all > a.node.maxBytes:
		return errBatchesFull
	case own > a.node.maxBytes/2:
		a.node.limited.add(a.tenant.tenant, limitBatches)
		return errTenantBatches
	}
	return nil
}

// end gives all bytes back.
func (a *allowance) end() {
	if a.node != nil {
		a.tenant.bytes.Add(-a.held)
		a.node.bytes.Add(-a.held)
	}
	if a.strangers != nil && a.held > 0 {
		a.strangers.releaseMany(a.from, int(a.held))
	}
	*a = allowance{}
}

// acquire waits for a slot for a tenant's batch, which has it until leave. limit is how many
// batches the tenant may have in hand.
func (b *batches) acquire(ctx context.Context, of *tenantLimit, limit int64) (leave func(), err error) {
	ctx, cancel := context.WithTimeout(ctx, slotTimeout)
	defer cancel()
	own, all := of.batches.Add(1), b.inHand.Add(1)
	gone := func() {
		of.batches.Add(-1)
		b.inHand.Add(-1)
	}
	switch {
	case own > limit:
		err = errTenantBatches
	case all > b.maxInHand:
		err = errBatchesFull
	default:
		err = enter(ctx, of.slots, errTenantBatches)
	}
	if err == errTenantBatches {
		b.limited.add(of.tenant, limitBatches)
	}
	if err != nil {
		gone()
		return nil, err
	}
	if err := enter(ctx, b.slots, errBatchesFull); err != nil {
		<-of.slots
		gone()
		return nil, err
	}
	return func() {
		<-b.slots
		<-of.slots
		gone()
	}, nil
}

func enter(ctx context.Context, slots chan struct{}, tooLate error) error {
	select {
	case slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		return tooLate
	}
}

// maxBatches is how many batches of a tenant may wait or be served.
func (s *tenantLimits) maxBatches() int64 { return max(1, s.cap/16) }

// grant counts rows of a tenant's batch in, until leave. All batches of a tenant together
// are granted at most half of its cap.
func (s *tenantLimits) grant(of *tenantLimit, rows int) (granted int, leave func()) {
	granted = min(rows, max(1, int(s.cap)/2/s.slots))
	of.inHand.Add(int64(granted))
	return granted, func() { of.inHand.Add(-int64(granted)) }
}
