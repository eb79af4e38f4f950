package snapshot

import (
	"context"
	"fmt"
	"time"

	"muniment/gateway/api"
)

const (
	// A question that is not answered in this time is asked again.
	feedTimeout = 5 * time.Second
	// The pause after a failed question doubles from the first to the second.
	minPause, maxPause = 100 * time.Millisecond, 2 * time.Second
	// A source that answers "nothing new" at once, instead of waiting for news, is
	// not asked more often than this.
	idlePause = 20 * time.Millisecond
)

// Run asks for the feed and applies it until ctx is done. It returns nil then;
// it has no other reason to return: a source that fails is asked again, and the
// lease runs out meanwhile. At most one Run at a time.
func (v *View) Run(ctx context.Context) error {
	pause := minPause
	failing := false
	for ctx.Err() == nil {
		asked := v.cfg.Clock()
		news, err := v.poll(ctx, asked)
		switch {
		case ctx.Err() != nil:
		case err != nil:
			v.metrics.feedErrors.Inc()
			if !failing {
				v.cfg.Logger.Error("cannot follow control's feed", "err", err)
			}
			failing = true
			sleep(ctx, pause)
			pause = min(2*pause, maxPause)
		default:
			if failing {
				v.cfg.Logger.Info("follows control's feed again", "revision", v.Applied())
			}
			failing, pause = false, minPause
			// After news, the next question goes out at once: it tells control how far
			// this node is, and somebody may be waiting for that.
			if took := v.cfg.Clock() - asked; !news && took < idlePause {
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

// poll asks once and applies the answer. asked was read before the question. news
// says that the view has moved on.
func (v *View) poll(ctx context.Context, asked time.Duration) (news bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, feedTimeout)
	defer cancel()
	after := v.Applied()
	q := api.FeedRequest{NodeID: v.cfg.NodeID, After: after}
	if v.cfg.Spooled != nil {
		q.Spooled = v.cfg.Spooled()
	}
	if v.cfg.Signer != nil {
		q.SigningKeys = v.cfg.Signer.SigningKeys()
	}
	now := v.cfg.Now()
	f, err := v.cfg.Source.Feed(ctx, q)
	if err != nil {
		return false, err
	}
	v.compare(now, f.At)
	if err := v.check(&f, after); err != nil {
		return false, err
	}
	v.apply(&f)
	if v.cfg.Signer != nil {
		v.cfg.Signer.Learn(f.SigningKeys)
	}
	if f.UpTo == f.Newest {
		v.lease.Store(int64(asked) + 1)
	}
	return f.UpTo > after, nil
}

// compare holds the node's clock before a question against control's at the answer. A
// clock that is ahead ends no lease, but each such answer counts as an error, and control
// refuses the node's next start and its next key.
func (v *View) compare(now, control time.Time) {
	ahead := !control.IsZero() && now.Sub(control) > api.ClockSlack
	if ahead {
		v.metrics.feedErrors.Inc()
	}
	if ahead && !v.ahead {
		v.cfg.Logger.Error("the clock is ahead of control's: set it", "now", now, "control", control)
	}
	v.ahead = ahead
}

// check refuses an answer that does not continue what was applied.
func (v *View) check(f *api.Feed, after int64) error {
	if v.incarnation == "" {
		v.incarnation = f.Incarnation
	}
	if f.Incarnation != v.incarnation || f.Newest < after {
		v.lost.Store(true)
		return fmt.Errorf("control's database is not the one that this node has followed: incarnation %q at revision %d, known is %q at %d",
			f.Incarnation, f.Newest, v.incarnation, after)
	}
	if f.UpTo < after || f.UpTo > f.Newest {
		return fmt.Errorf("the feed answers up to revision %d, asked after %d, its newest is %d", f.UpTo, after, f.Newest)
	}
	return nil
}

// apply takes over the changes and then the revision. A change may come twice
// and in any order.
func (v *View) apply(f *api.Feed) {
	for i := range f.Changes {
		c := &f.Changes[i]
		switch {
		case c.Right != nil:
			v.applyRight(c.Right, c.Revision)
		case c.Key != nil:
			v.applyKey(c.Key, c.Revision)
		}
	}
	v.applied.Store(f.UpTo)
	v.metrics.changes.Add(float64(len(f.Changes)))
}

func (v *View) applyRight(r *api.Right, revision int64) {
	v.mu.Lock()
	known, ok := v.rights[r.ID]
	if (ok || r.State != api.RightActive) && r.Revision >= known.revision {
		v.rights[r.ID] = stoppedRight{tenantID: r.TenantID, revision: r.Revision, state: r.State}
	}
	v.mu.Unlock()
	v.told.raise(r.ID, revision)
	if r.State != api.RightActive {
		return // the map answers for it; there is nothing to cache
	}
	ready, err := decode(r)
	if err != nil {
		v.cfg.Logger.Error("cannot use a right of the feed", "rightId", r.ID, "err", err)
		return
	}
	v.rightCache.Set(r.ID, cached[Right]{ready, revision}, 1)
}

func (v *View) applyKey(k *api.Key, revision int64) {
	v.mu.Lock()
	if known := v.revoked[k.ID]; known != nil || !k.RevokedAt.IsZero() {
		if known == nil || k.Revision >= known.Revision {
			v.revoked[k.ID] = k
		}
	}
	v.mu.Unlock()
	v.told.raise(k.ID, revision)
	v.keyCache.Set(k.ID, cached[api.Key]{k, revision}, 1)
}
