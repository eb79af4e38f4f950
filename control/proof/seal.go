package proof

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"muniment/gateway/api"
	"muniment/sealer"
)

// Sealed is the answer of a seal.
type Sealed struct {
	Packs   []json.RawMessage `json:"packs" doc:"Headers of the packs sealed since the call began, oldest first, or of the last pack alone when nothing was new."`
	Pack    json.RawMessage   `json:"pack" doc:"The newest of them; null while the tenant has none."`
	UpTo    string            `json:"upTo" doc:"Every event that was acknowledged into the log before the first call stands before this position. Packs may go beyond it."`
	More    bool              `json:"more" doc:"Something before upTo is in no pack yet: call again with this upTo."`
	Pending []Pending         `json:"pending" doc:"Acknowledged events that are in no pack yet."`
}

// Pending counts what a node still holds in its spool, or the warehouse has not loaded.
type Pending struct {
	NodeID string `json:"nodeId,omitempty" doc:"The node in whose spool alone they are: only a later call can seal them."`
	Source string `json:"source,omitempty" enum:"warehouse" doc:"Instead of a node: what has not reached the warehouse yet. Counted are the records of the log before upTo, of whatever tenant."`
	Count  int64  `json:"count"`
}

// sourceWarehouse is the source of what is not loaded.
const sourceWarehouse = "warehouse"

// How soon a caller may try again.
const (
	retrySoon  = time.Second
	retryLater = time.Minute
)

// SealSome seals what is new of a tenant, on behalf of by: it begins no pack that might not be
// done after WorkFor, and while the warehouse lacks something, it seals what that has. upTo is
// that of the call before; nil begins. Whoever calls until More is false has all sealed that was
// acknowledged before the first call. What a caller may be told of a failure is *api.Error. Any
// number of goroutines and processes may call it; ctx ends the call between two steps, and what
// was sealed until then stays sealed.
func (r *Room) SealSome(ctx context.Context, tenantID string, upTo *sealer.Position, by sealer.Ref) (Sealed, error) {
	return r.timed(ctx, tenantID, request{upTo: upTo, workFor: r.cfg.WorkFor, spoolWait: r.cfg.SpoolWait, by: by})
}

// Vouch seals what is new of a tenant before a key is revoked, and leaves no pack by
// that key without a later one by the key that signs now: where the newest pack is by
// the key, another one is sealed on top of it, news or not. It waits for no spool: whose
// receipts matter then was waited for before.
func (r *Room) Vouch(ctx context.Context, tenantID, keyID string, by sealer.Ref) error {
	_, err := r.timed(ctx, tenantID, request{leaving: keyID, by: by})
	return err
}

// request is what a seal is asked for.
type request struct {
	upTo *sealer.Position // nil: the end of the log
	// workFor is how long it works, once it need not wait any more; 0: until all is sealed,
	// which then has to be in the warehouse.
	workFor   time.Duration
	spoolWait time.Duration // how long it waits for spools
	leaving   string        // the key that is about to be revoked
	by        sealer.Ref
}

// timed is seal, measured.
func (r *Room) timed(ctx context.Context, tenantID string, q request) (Sealed, error) {
	began := r.cfg.Now()
	sealed, fresh, err := r.seal(ctx, tenantID, q)
	r.metrics.seconds.Observe(r.cfg.Now().Sub(began).Seconds())
	r.metrics.seals.WithLabelValues(result(fresh, err)).Inc()
	if err != nil {
		return Sealed{}, fmt.Errorf("cannot seal %s: %w", tenantID, err)
	}
	return sealed, nil
}

func (r *Room) seal(ctx context.Context, tenantID string, q request) (sealed Sealed, fresh bool, err error) {
	if err := r.db.Reserved(); err != nil {
		return Sealed{}, false, err
	}
	before, err := readHead(ctx, r.db.Read(), tenantID)
	if err != nil {
		return Sealed{}, false, err
	}
	reached, pending, err := r.catchUp(ctx, tenantID, q.spoolWait)
	if err == nil && reached.short() && q.workFor == 0 {
		err = errBehind
	}
	upTo := reached.end
	if err == nil && q.upTo != nil {
		if upTo = *q.upTo; upTo.Compare(reached.end) > 0 {
			err = api.InvalidField("upTo", "is behind the end of the log")
		}
	}
	if err == nil {
		err = r.refuseHeld(ctx, tenantID)
	}
	if err != nil {
		return Sealed{}, false, err
	}
	s := &session{Room: r, tenantID: tenantID, leaving: q.leaving, by: q.by, end: reached.loaded, short: reached.short()}
	more, err := s.work(ctx, q.workFor, upTo)
	if err == nil && s.short && !more {
		more, err = s.left(ctx, upTo)
	}
	if err != nil {
		return Sealed{}, false, err
	}
	sealed, fresh, err = r.sealedSince(ctx, tenantID, before.sequence)
	if lacks := reached.lacks(upTo); lacks > 0 {
		more, pending = true, append(pending, Pending{Source: sourceWarehouse, Count: lacks})
	}
	if err == nil && s.short && more && !fresh {
		err = errBehind
	}
	sealed.UpTo, sealed.More, sealed.Pending = upTo.String(), more, pending
	return sealed, fresh, err
}

// work seals pack after pack, for so long; more says that something before upTo is left.
func (s *session) work(ctx context.Context, workFor time.Duration, upTo sealer.Position) (more bool, err error) {
	in, cancel := ctx, context.CancelFunc(func() {})
	if workFor > 0 {
		in, cancel = context.WithTimeout(ctx, workFor/2) // to wait for others: a pack begins in time, or not at all
	}
	defer cancel()
	began, longest := time.Now(), time.Duration(0)
	for first, more := true, true; more; first = false {
		pack := time.Now()
		if workFor > 0 && !first && pack.Sub(began)+longest > workFor {
			return s.left(ctx, upTo)
		}
		release, err := s.turn(in, s.tenantID)
		if err != nil && in.Err() != nil && ctx.Err() == nil {
			return s.left(ctx, upTo) // others are at it
		}
		if err != nil {
			return false, err
		}
		if s.signer == nil {
			err = s.prepare(ctx)
		}
		if err == nil {
			more, err = s.sealNext(ctx)
		}
		release()
		if errors.Is(err, errMoved) {
			s.signer, more, err = nil, true, nil // another process has sealed: begin anew behind its pack
		}
		if err != nil {
			return false, err
		}
		longest = max(longest, time.Since(pack))
	}
	return false, nil
}

// left says whether something before upTo is in no pack.
func (s *session) left(ctx context.Context, upTo sealer.Position) (bool, error) {
	now, err := readHead(ctx, s.db.Read(), s.tenantID)
	if err != nil {
		return false, err
	}
	_, news, err := s.firstNews(ctx, s.tenantID, now.position, &upTo)
	return news, err
}

// errHeld refuses to seal around a record that can't be trusted.
var errHeld = api.Unavailable(api.SetAside, "a record set aside holds sealing until an operator has repaired or released it", retryLater)

// refuseHeld is errHeld while a record set aside holds the tenant.
func (r *Room) refuseHeld(ctx context.Context, tenantID string) error {
	aside, err := r.warehouse.SetAsides(ctx, tenantID)
	if err == nil && len(aside) > 0 {
		err = errHeld
	}
	return err
}

// sealedSince answers with the packs behind a sequence number, or the last one.
func (r *Room) sealedSince(ctx context.Context, tenantID string, after int64) (sealed Sealed, fresh bool, err error) {
	now, err := readHead(ctx, r.db.Read(), tenantID)
	if err != nil {
		return Sealed{}, false, err
	}
	fresh = now.sequence > after
	if !fresh {
		after = now.sequence - 1
	}
	packs, err := listPacks(ctx, r.db.Read(), tenantID, after, int(now.sequence-after))
	if err != nil {
		return Sealed{}, false, err
	}
	sealed = Sealed{Packs: []json.RawMessage{}, Pending: []Pending{}}
	for _, p := range packs {
		sealed.Packs = append(sealed.Packs, p.Header)
		sealed.Pack = p.Header
	}
	return sealed, fresh, nil
}

// result is the metric's label for the outcome of a seal.
func result(fresh bool, err error) string {
	refused, _ := errors.AsType[*api.Error](err)
	switch {
	case refused != nil && refused.Reason == api.SetAside:
		return resultSetAside
	case refused != nil:
		return resultBehind
	case err != nil:
		return resultFailed
	case fresh:
		return resultSealed
	}
	return resultNothing
}
