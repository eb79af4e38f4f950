package proof

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"muniment.example/control/store"
	"muniment.example/gateway/api"
	"muniment.example/pipeline/trace"
	"muniment.example/sealer"
	"muniment.example/sealer/pack"
	"muniment.example/sealer/settlement"
)

// Sealed is the response of a seal.
type Sealed struct {
	Packs   []json.RawMessage `json:"packs" doc:"Headers of the packs sealed since the call began, oldest first, or of the last pack alone if nothing was new."`
	Pack    json.RawMessage   `json:"pack" doc:"The header of the newest pack; null while the tenant has none."`
	UpTo    string            `json:"upTo" doc:"Every event that was acknowledged into the log before the first call is before this position. Packs may go beyond it."`
	More    bool              `json:"more" doc:"Something before upTo is in no pack yet: call again with this upTo."`
	Pending []Pending         `json:"pending" doc:"Acknowledged events that are in no pack yet."`

	newest *Pack // that Pack is the header of
}

// Pending counts the records in a node's spool, or those that the warehouse has not loaded.
type Pending struct {
	NodeID string `json:"nodeId,omitempty" doc:"The node whose spool alone has the events: only a later call can seal them."`
	Source string `json:"source,omitempty" enum:"warehouse" doc:"warehouse, instead of a node: counts the records of the log before upTo, of all tenants, that the warehouse has not loaded yet."`
	Count  int64  `json:"count"`
}

// sourceWarehouse is the source of records that are not loaded.
const sourceWarehouse = "warehouse"

// Values of retry-after.
const (
	retrySoon  = time.Second
	retryLater = time.Minute
)

// packer seals packs.
type packer struct {
	*archive
	// sealing lets one seal of a tenant work at a time in this process. It only prevents duplicate work: between
	// processes the head's compare-and-set decides, and the loser continues behind the winner's pack.
	sealing *store.Turns
	due     schedule
}

// SealSome seals a tenant's new events, on behalf of by. It begins no pack that it might not finish
// within WorkFor. While the warehouse is behind, it seals what is loaded. upTo is UpTo of the
// previous call; nil for the first. Once More is false, every event that was acknowledged before the
// first call is sealed. Errors that concern the caller are *api.Error. Any number of goroutines and
// processes may call it. ctx ends the call between two steps; packs that were sealed until then stay
// sealed.
func (s *packer) SealSome(ctx context.Context, tenantID string, upTo *sealer.Position, by sealer.Ref) (Sealed, error) {
	return s.timed(ctx, tenantID, request{upTo: upTo, workFor: s.cfg.WorkFor, spoolWait: s.cfg.SpoolWait, by: by})
}

// Vouch seals a tenant's new events before a key is revoked. If the newest pack is signed by that
// key, it seals another one by the current key, with or without new events. It doesn't wait for
// spools: the revocation has waited for those that matter.
func (s *packer) Vouch(ctx context.Context, tenantID, keyID string, by sealer.Ref) error {
	_, err := s.timed(ctx, tenantID, request{leaving: keyID, by: by})
	return err
}

// request is a request for a seal.
type request struct {
	upTo *sealer.Position // nil: the end of the log
	// workFor is how long it works after it has waited; 0: until everything is sealed, which then
	// has to be in the warehouse.
	workFor   time.Duration
	spoolWait time.Duration // how long it waits for spools
	leaving   string        // the key that is about to be revoked
	yields    bool          // it ends when another process seals the tenant, which would build each pack beside it
	by        sealer.Ref
}

// sealSpan is the span of a seal that has made a pack.
const sealSpan = "seal packs"

// timed is seal, measured and traced.
func (s *packer) timed(ctx context.Context, tenantID string, q request) (Sealed, error) {
	began := s.cfg.Now()
	span := trace.From(ctx).Child(trace.Internal, sealSpan)
	if span == nil {
		span = s.cfg.Tracer.Start(trace.ID{}, trace.Internal, sealSpan, time.Now())
	}
	sealed, fresh, err := s.seal(ctx, tenantID, q)
	s.metrics.seconds.Observe(s.cfg.Now().Sub(began).Seconds())
	s.metrics.seals.WithLabelValues(result(fresh, err)).Inc()
	if err != nil {
		return Sealed{}, fmt.Errorf("cannot seal %s: %w", tenantID, err)
	}
	s.due.sealed(tenantID)
	if fresh {
		span.Set("muniment.tenant.id", tenantID)
		span.SetInt("muniment.packs", int64(len(sealed.Packs)))
		span.End()
	}
	return sealed, nil
}

func (s *packer) seal(ctx context.Context, tenantID string, q request) (sealed Sealed, fresh bool, err error) {
	if err := s.db.Reserved(); err != nil {
		return Sealed{}, false, err
	}
	before, err := readHead(ctx, s.db.Read(), tenantID)
	if err != nil {
		return Sealed{}, false, err
	}
	reached, pending, err := s.catchUp(ctx, tenantID, q.spoolWait)
	if err == nil && reached.short() && q.workFor == 0 {
		err = errBehind
	}
	upTo := reached.end
	if err == nil && q.upTo != nil {
		if upTo = *q.upTo; upTo.Compare(reached.end) > 0 {
			err = api.InvalidField("upTo", "is after the end of the log")
		}
	}
	if err == nil {
		err = s.refuseHeld(ctx, tenantID)
	}
	if err != nil {
		return Sealed{}, false, err
	}
	run := &session{packer: s, tenantID: tenantID, leaving: q.leaving, yields: q.yields, by: q.by, end: reached.loaded, short: reached.short()}
	more, err := run.work(ctx, q.workFor, upTo)
	if err == nil && run.short && !more {
		more, err = run.left(ctx, upTo)
	}
	if err != nil {
		return Sealed{}, false, err
	}
	sealed, fresh, err = s.sealedSince(ctx, tenantID, before.sequence)
	if lacks := reached.lacks(upTo); lacks > 0 {
		more, pending = true, append(pending, Pending{Source: sourceWarehouse, Count: lacks})
	}
	if err == nil && run.short && more && !fresh {
		err = errBehind
	}
	sealed.UpTo, sealed.More, sealed.Pending = upTo.String(), more, pending
	return sealed, fresh, err
}

// work seals packs, for at most workFor; more reports that something before upTo is left.
func (s *session) work(ctx context.Context, workFor time.Duration, upTo sealer.Position) (more bool, err error) {
	in, cancel := ctx, context.CancelFunc(func() {})
	if workFor > 0 {
		in, cancel = context.WithTimeout(ctx, workFor/2) // limits the wait for others: a pack begins in time, or not at all
	}
	defer cancel()
	began, longest := time.Now(), time.Duration(0)
	for first, more := true, true; more; first = false {
		pack := time.Now()
		if workFor > 0 && !first && pack.Sub(began)+longest > workFor {
			return s.left(ctx, upTo)
		}
		release, err := s.sealing.Take(in, s.tenantID)
		if err != nil && in.Err() != nil && ctx.Err() == nil {
			return s.left(ctx, upTo) // another call seals the tenant
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
		if errors.Is(err, errMoved) && s.yields {
			return s.left(ctx, upTo)
		}
		if errors.Is(err, errMoved) {
			s.signer, more, err = nil, true, nil // another process has sealed: continue behind its pack
		}
		if err != nil {
			return false, err
		}
		longest = max(longest, time.Since(pack))
	}
	return false, nil
}

// left reports whether something before upTo is in no pack.
func (s *session) left(ctx context.Context, upTo sealer.Position) (bool, error) {
	now, err := readHead(ctx, s.db.Read(), s.tenantID)
	if err != nil {
		return false, err
	}
	_, news, err := s.firstNews(ctx, s.tenantID, now.position, &upTo)
	return news, err
}

// errHeld refuses to seal a tenant with a quarantined record.
var errHeld = api.Unavailable(api.Quarantined, "a quarantined record holds sealing until an operator has repaired or released it", retryLater)

// refuseHeld returns errHeld while a quarantined record holds the tenant.
func (s *packer) refuseHeld(ctx context.Context, tenantID string) error {
	quarantined, err := s.warehouse.Quarantined(ctx, tenantID)
	if err == nil && len(quarantined) > 0 {
		err = errHeld
	}
	return err
}

// sealedSince returns the packs after a sequence number, or the last one.
func (s *packer) sealedSince(ctx context.Context, tenantID string, after int64) (sealed Sealed, fresh bool, err error) {
	now, err := readHead(ctx, s.db.Read(), tenantID)
	if err != nil {
		return Sealed{}, false, err
	}
	fresh = now.sequence > after
	if !fresh {
		after = now.sequence - 1
	}
	packs, err := listPacks(ctx, s.db.Read(), tenantID, after, int(now.sequence-after))
	if err != nil {
		return Sealed{}, false, err
	}
	sealed = Sealed{Packs: []json.RawMessage{}, Pending: []Pending{}}
	for i := range packs {
		sealed.Packs = append(sealed.Packs, packs[i].Header)
		sealed.Pack, sealed.newest = packs[i].Header, &packs[i]
	}
	return sealed, fresh, nil
}

// result is the metric's label for the outcome of a seal.
func result(fresh bool, err error) string {
	refused, _ := errors.AsType[*api.Error](err)
	switch {
	case refused != nil && refused.Reason == api.Quarantined:
		return resultQuarantined
	case refused != nil && (refused.Reason == api.EngineUnavailable || refused.Reason == api.StorageFull):
		return resultFailed // the bucket of packs, or the disk
	case refused != nil:
		return resultBehind
	case err != nil:
		return resultFailed
	case fresh:
		return resultSealed
	}
	return resultNothing
}

// End is the end of a pack.
type End struct {
	PackID   string
	RootHash string
	TreeSize uint64
	// Position is right after its last entry: the rows before it are the leaves of this pack and of
	// all earlier ones.
	Position sealer.Position
	// Rules are the settlement rules that the log has there.
	Rules []settlement.Rule
}

// Head returns how many leaves of a tenant are sealed, and the position of the last.
func (s *packer) Head(ctx context.Context, tenantID string) (size uint64, last sealer.Position, err error) {
	h, err := readHead(ctx, s.db.Read(), tenantID)
	if err != nil {
		return 0, last, err
	}
	return h.tree.Size(), h.position, nil
}

// SealToEnd calls SealSome, fails if not everything could be sealed, and returns the end of the
// newest pack; nil if the tenant has none.
func (s *packer) SealToEnd(ctx context.Context, tenantID string, by sealer.Ref) (*End, error) {
	sealed, err := s.SealSome(ctx, tenantID, nil, by)
	if err != nil {
		return nil, err
	}
	if sealed.More {
		return nil, api.Unavailable(api.WarehouseBehind, "not all events are sealed yet: send the request again to seal the rest", time.Second)
	}
	p := sealed.newest
	if p == nil {
		return nil, nil
	}
	header, err := pack.ParseHeader(p.Header)
	if err != nil {
		return nil, err
	}
	return &End{PackID: p.ID, RootHash: p.RootHash, TreeSize: header.TreeSize, Position: p.Last.Next(), Rules: header.Rules()}, nil
}

// RulesAt returns the settlement rules that a tenant's sealed log holds at a size. That need not be the
// end of a pack: in a restored service the log may be cut elsewhere than it was.
func (s *packer) RulesAt(ctx context.Context, tenantID string, size uint64) ([]settlement.Rule, error) {
	if size == 0 {
		return nil, nil
	}
	p, found, err := packOf(ctx, s.db.Read(), tenantID, size-1)
	if err != nil {
		return nil, err
	}
	if !found {
		return nil, api.Unavailable(api.WarehouseBehind, "not all events that are stated are sealed again yet: send the request again", time.Second)
	}
	if size == p.end() {
		header, err := pack.ParseHeader(p.Header)
		return header.Rules(), err
	}
	before, err := s.RulesAt(ctx, tenantID, p.FirstIndex)
	if err != nil {
		return nil, err
	}
	file, err := s.folder.open(ctx, p)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	reader, err := pack.Read(file)
	var events []settlement.Rule
	for leaf := p.FirstIndex; err == nil && leaf < size; leaf++ {
		var text []byte
		var event sealer.Event
		if text, err = reader.Next(); err == nil && bytes.Contains(text, []byte(`"settlement_rule.`)) { // few are worth parsing
			event, err = sealer.ParseEvent(text)
		}
		if rule := settlement.RuleIn(&event, leaf); rule != nil {
			events = append(events, *rule)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read the settlement rules at %d entries of %s: %w", size, tenantID, err)
	}
	return settlement.RulesAt(size, before, events), nil
}
