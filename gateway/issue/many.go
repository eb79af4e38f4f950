package issue

import (
	"context"
	"slices"
	"time"

	"muniment/gateway/api"
	"muniment/sealer"
)

// Result is what became of one of many deliveries.
type Result struct {
	// Event is the text of its event, in which the receipt stands (sealer.SplitDelivery). It is
	// durable, and the caller's. Nil if Err is not.
	Event []byte
	// Replayed: it is the event of an earlier delivery with the same Idempotency-Key.
	Replayed bool
	// Err is as Issue's.
	Err error
}

// IssueAll is Issue for many deliveries of one caller, with one moment of issue and one
// wait for the log. The results stand as the deliveries do; none depends on another. One
// whose Idempotency-Key is in use at the moment, be it by another of them, is refused with
// 409. They have Config.Timeout together, or less if ctx ends.
func (i *Issuer) IssueAll(ctx context.Context, by Caller, all []Delivery) []Result {
	results := make([]Result, len(all))
	if len(all) == 0 {
		return results
	}
	if i.ended.Load() {
		for n := range results {
			results[n].Err = ErrEnded
		}
		return results
	}
	i.cfg.Admit(ctx, len(all))
	// The key that signs is held to the end, and whoever rotates or revokes it waits for that.
	ctx, cancel := context.WithTimeout(ctx, i.cfg.Timeout)
	defer cancel()
	newest := slices.MaxFunc(all, func(a, b Delivery) int { return a.Rendered.Compare(b.Rendered) }).Rendered
	signer, issued, release, noKey := i.acquire(ctx, by.Sandbox, newest)
	if noKey == nil {
		defer release()
	}

	works := make([]*work, len(all))
	for n := range works {
		works[n] = i.begin(by)
	}
	defer func() {
		for _, w := range works {
			w.claim.free()
			i.end(w)
		}
	}()
	var records []*sealer.Record
	var of []int // whose each of them is
	for n, w := range works {
		if results[n] = i.sealOne(ctx, w, &all[n], signer, issued, noKey); results[n].Err == nil && !results[n].Replayed {
			records, of = append(records, &w.record), append(of, n)
		} else {
			w.claim.free()
		}
	}
	at, errs := i.cfg.Log.AppendAll(ctx, records)
	for k, n := range of {
		if err := i.settle(works[n], at[k], issued, errs[k]); err != nil {
			results[n] = Result{Err: err}
		}
	}
	return results
}

// sealOne brings one of many up to the append; its result is what it will be if that goes
// well. noKey is why there is no signer.
func (i *Issuer) sealOne(ctx context.Context, w *work, d *Delivery, signer *sealer.Signer, issued time.Time, noKey error) (r Result) {
	i.enter(w)
	defer i.leave(w)
	if r.Err = w.read(d); r.Err != nil {
		return r
	}
	if d.HasKey {
		h, err := w.keyHash(d.IdempotencyKey)
		if err != nil {
			return Result{Err: err}
		}
		event, end, err := i.look(ctx, w, &h)
		switch {
		case end != nil:
			return Result{Err: api.ErrKeyBusy}
		case event != nil || err != nil:
			return Result{Event: event, Replayed: event != nil, Err: err}
		}
	}
	if noKey != nil {
		return Result{Err: noKey}
	}
	if r.Err = i.prepare(ctx, w, signer, d.Rendered, issued); r.Err == nil {
		r.Event = slices.Clone(w.event)
	}
	return r
}
