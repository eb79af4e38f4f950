package snapshot

import (
	"context"
	"fmt"
	"time"

	"muniment.example/gateway/api"
)

const (
	// A request that is not answered in this time is sent again.
	feedTimeout = 5 * time.Second
	// The first copy has every stop there ever was, and is never cut.
	firstTimeout = time.Minute
	// The pause after a failed request doubles from the first to the second. What control asks for counts up to the
	// second: the lease ends meanwhile.
	minPause, maxPause = 100 * time.Millisecond, 2 * time.Second
	// A source that answers "nothing new" at once, instead of waiting for news, gets
	// no more than one request in this time.
	idlePause = 20 * time.Millisecond
)

// Run follows the feed until ctx is done, and returns nil then. A request that fails is sent again,
// while the lease runs out. Once the database is not the one that the view has followed, Run returns
// an error: the process must end and start again, which is all that is needed. At most one Run at a
// time.
func (v *View) Run(ctx context.Context) error {
	pause := minPause
	failing := false
	for ctx.Err() == nil {
		sent := v.cfg.Clock()
		news, err := v.poll(ctx, sent)
		switch {
		case ctx.Err() != nil:
		case v.lost.Load():
			return err
		case err != nil:
			v.metrics.feedErrors.Inc()
			if !failing {
				v.cfg.Logger.Error("cannot follow control's feed", "err", err)
			}
			failing = true
			sleep(ctx, api.Again(err, pause, maxPause))
			pause = min(2*pause, maxPause)
		default:
			if failing {
				v.cfg.Logger.Info("follows control's feed again", "revision", v.Applied())
			}
			failing, pause = false, minPause
			// After news, the next request goes out at once: it reports to control how far
			// this node is, for which a revocation may wait.
			if took := v.cfg.Clock() - sent; !news && took < idlePause {
				sleep(ctx, idlePause-took)
			}
		}
	}
	return nil
}

func sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

// poll sends one request and applies the response. sent was read from the clock before the
// request: the lease begins then. news reports that the view has changed.
func (v *View) poll(ctx context.Context, sent time.Duration) (news bool, err error) {
	after := v.Applied()
	timeout := feedTimeout
	if after == 0 {
		timeout = firstTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	q := api.FeedRequest{NodeID: v.cfg.NodeID, Epoch: v.cfg.Epoch, After: after}
	if v.cfg.Spooled != nil {
		q.Spooled = v.cfg.Spooled()
	}
	if v.cfg.Signer != nil {
		q.SigningKeys = v.cfg.Signer.SigningKeys()
	}
	now := v.cfg.Now()
	q.KeyUses = v.uses.Due(now)
	f, err := v.cfg.Source.Feed(ctx, q)
	v.superseded.Store(api.IsSuperseded(err))
	if err != nil {
		v.uses.Return(q.KeyUses)
		return false, err
	}
	v.compareClocks(now, f.At)
	if err := v.check(&f, after); err != nil {
		return false, err
	}
	err = v.apply(&f)
	if v.cfg.Signer != nil {
		v.cfg.Signer.Learn(f.SigningKeys) // whatever failed before: there may be revocations
	}
	if err != nil {
		return false, err
	}
	if f.UpTo == f.Newest {
		v.lease.Store(int64(sent) + 1)
	}
	return f.UpTo > after, nil
}

// compareClocks compares the node's clock before a request with control's at the answer. A
// clock that is ahead ends no lease, but each such answer counts as an error, and control
// refuses the node's next start and its next key.
func (v *View) compareClocks(now, control time.Time) {
	ahead := !control.IsZero() && now.Sub(control) > api.ClockSlack
	if ahead {
		v.metrics.feedErrors.Inc()
	}
	if ahead && !v.ahead {
		v.cfg.Logger.Error("the clock is ahead of control's: set it", "now", now, "control", control)
	}
	v.ahead = ahead
}

// check refuses a response that does not continue from what the node has seen.
func (v *View) check(f *api.Feed, after int64) error {
	if v.incarnation == "" {
		v.incarnation = f.Incarnation
		v.promotions.Store(f.Promotions)
	}
	continues := f.Incarnation == v.incarnation && f.Newest >= after
	if before := v.promotions.Load(); continues && f.Promotions != before {
		v.promotions.Store(f.Promotions) // before seen is read: see sees
		continues = f.Promotions == before+1 && v.seen.Load() <= f.PromotedAt
	}
	if !continues {
		v.lost.Store(true)
		return fmt.Errorf("control's database is not the one that this node has followed, it was restored or its standby promoted: "+
			"incarnation %q with %d promotions at revision %d, known is %q at revision %d. The node begins again when it is started",
			f.Incarnation, f.Promotions, f.Newest, v.incarnation, v.seen.Load())
	}
	if f.UpTo < after || f.UpTo > f.Newest {
		return fmt.Errorf("the feed has changes up to revision %d of %d, the request was for those after %d", f.UpTo, f.Newest, after)
	}
	v.sees(f.Newest, f.Promotions)
	return nil
}

// sees takes the revision that an answer was read at. False if a promotion lies between the answer and
// the feed's last one, so that the node must not know what is in it.
func (v *View) sees(asOf, promotions int64) bool {
	if v.promotions.Load() != promotions {
		return false
	}
	for seen := v.seen.Load(); asOf > seen && !v.seen.CompareAndSwap(seen, asOf); {
		seen = v.seen.Load()
	}
	return v.promotions.Load() == promotions
}

// apply applies the changes and then the revision. A change may come twice and in any order.
// One that can't be read does not hold up the others, which may be revocations; but then the
// node is not up to date, and gets no lease.
func (v *View) apply(f *api.Feed) error {
	var failed error
	for i := range f.Changes {
		learn := v.models[f.Changes[i].Kind]
		if learn == nil {
			continue // no decision of this node rests on it
		}
		if err := learn(&f.Changes[i]); err != nil {
			failed = err
			continue
		}
		v.metrics.changes.Inc()
	}
	if failed == nil {
		v.applied.Store(f.UpTo)
	}
	return failed
}

func (v *View) learnRight(c *api.Change) error {
	r, err := api.Rights.Read(c)
	if err != nil {
		return err
	}
	id, revision, stopped := api.Rights.Of(r)
	v.stopped.learn(id, revision, stopped, api.Rights.Was(r), stoppedRight{r.TenantID, r.State, history{r.Suspensions, r.SuspensionsSince}})
	v.rights.learn(r)
	return nil
}

func (v *View) learnKey(c *api.Change) error {
	k, err := api.Keys.Read(c)
	if err != nil {
		return err
	}
	id, revision, stopped := api.Keys.Of(k)
	v.revoked.learn(id, revision, stopped, stopped, k)
	v.keys.learn(k)
	return nil
}
