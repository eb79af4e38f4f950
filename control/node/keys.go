package node

import (
	"context"
	"time"

	"muniment/control/signing"
	"muniment/gateway/api"
	"muniment/sealer"
)

// # Keys of nodes
//
// A node makes its next key itself, and alone knows when what the one before signed is in
// the log: so it is asked, and answers when it next asks for the feed.

// Rotate is signing.Service's of a key of control. A node is asked for another key.
func (r *Service) Rotate(ctx context.Context, keyID string, by sealer.Ref) (signing.Succession, error) {
	key, joined, err := r.ofJoined(ctx, keyID)
	if err != nil {
		return signing.Succession{}, err
	}
	if joined {
		return r.recall(ctx, key, by)
	}
	return r.keys.Rotate(ctx, keyID, by)
}

// Revoke is signing.Service's of any key. A node is asked to put the key out of use first, which it does once what the key signed is in the log. With Force
// nobody insists on that: the key is revoked, and a live node is told with its next answer of
// the feed, within the lease's bound; what is left in a node's spool then can't be proven any
// more.
func (r *Service) Revoke(ctx context.Context, keyID string, q signing.Revocation, by sealer.Ref) (signing.Revoked, error) {
	key, joined, err := r.ofJoined(ctx, keyID)
	if err != nil {
		return signing.Revoked{}, err
	}
	if joined {
		q.OutOfUse = func(ctx context.Context) (*signing.SigningKey, error) { return r.putOutOfUse(ctx, key, q.Force, by) }
	}
	v, err := r.keys.Revoke(ctx, keyID, q, by)
	if err == nil && joined && v.Revision > 0 {
		r.Await(ctx, v.Revision) // the node is told by the feed, and signs nothing without it
	}
	return v, err
}

// ofJoined returns a key, and whether it is that of a node that has joined.
func (r *Service) ofJoined(ctx context.Context, keyID string) (key *signing.Key, joined bool, err error) {
	if key, err = r.keys.Known(ctx, keyID); err != nil {
		return nil, false, err
	}
	m, err := find(ctx, r.db.Read(), key.Node)
	return key, m != nil && m.joined, err
}

// recall asks a node for another key: it ends the window of
// its current one, which the node learns from the feed. It waits a little for the
// successor; without one the node is still to make it, and signs on meanwhile, at most
// for api.KeyOverlap.
func (r *Service) recall(ctx context.Context, row *signing.Key, by sealer.Ref) (signing.Succession, error) {
	if err := r.keys.Recall(ctx, row, by); err != nil {
		return signing.Succession{}, err
	}
	var next *signing.Key
	err := r.await(ctx, func(ctx context.Context) (done bool, err error) {
		next, err = r.keys.Current(ctx, row)
		return next != nil && next.KeyID != row.KeyID, err
	})
	if err != nil {
		return signing.Succession{}, err
	}
	if row, err = r.keys.Known(ctx, row.KeyID); err != nil {
		return signing.Succession{}, err
	}
	s := signing.Succession{Replaced: row.View(r.db.Now())}
	if next != nil && next.KeyID != row.KeyID {
		s.Key = next.View(r.db.Now())
	}
	return s, nil
}

// putOutOfUse has a node end its use of a key, before that is
// revoked. It waits until what the key signed is in the log, which only the node knows:
// one that has gone may have left receipts in its spool. That a window has ended says
// nothing of them: it may have because the node did not answer.
func (r *Service) putOutOfUse(ctx context.Context, row *signing.Key, force bool, by sealer.Ref) (successor *signing.SigningKey, err error) {
	current, err := r.keys.Current(ctx, row)
	if err != nil {
		return nil, err
	}
	if current != nil && current.KeyID == row.KeyID {
		if err := r.keys.Recall(ctx, row, by); err != nil {
			return nil, err
		}
	}
	if _, err := r.awaitOut(ctx, row.Node, force, row); err != nil {
		return nil, err
	}
	next, err := r.keys.Current(ctx, row)
	if err != nil || next == nil || next.KeyID == row.KeyID {
		return nil, err
	}
	return next.View(r.db.Now()), nil
}

// lookAgain is how often await asks though nothing changes: leases end as time passes.
const lookAgain = 100 * time.Millisecond

// await asks until done, at most for DrainFor: at each change in the database, and
// now and then as time passes.
func (r *Service) await(ctx context.Context, done func(context.Context) (bool, error)) error {
	waiting, cancel := context.WithTimeout(ctx, r.cfg.DrainFor)
	defer cancel()
	for {
		changed := r.db.Changed()
		if ok, err := done(ctx); ok || err != nil {
			return err
		}
		tick := time.NewTimer(lookAgain)
		select {
		case <-changed:
		case <-tick.C:
		case <-waiting.Done():
			tick.Stop()
			return ctx.Err()
		}
		tick.Stop()
	}
}

// awaitOut waits until the node has said of its keys, or of that one of them, that all
// that they signed is in the log; of those that are revoked nobody asks it. One that does
// not say so is a reason to refuse, unless that is forced. said is true if it was said of
// every key: then the node signs nothing, whatever lease it holds.
func (r *Service) awaitOut(ctx context.Context, nodeID string, force bool, only *signing.Key) (said bool, err error) {
	live, out := true, false
	err = r.await(ctx, func(ctx context.Context) (bool, error) {
		all, err := signing.OfNode(ctx, r.db.Read(), nodeID)
		if err != nil {
			return false, err
		}
		out, said = true, true
		for _, k := range all {
			if only == nil || k.KeyID == only.KeyID {
				out = out && (k.Retired || k.RevokedAt != nil)
				said = said && k.Retired
			}
		}
		if live, err = r.isLive(ctx, nodeID); err != nil {
			return false, err
		}
		return out || !live, nil
	})
	what := "its keys"
	if only != nil {
		what = "the key"
	}
	const forced = "; forced, it is done all the same, and what was signed since the last packs can't be proven"
	switch {
	case err != nil || out || force:
		return said, err
	case live:
		return false, api.Conflict("the node " + nodeID + " was asked to put " + what + " out of use, and has not yet: ask again" + forced)
	}
	return false, api.Conflict("the node " + nodeID + " does not ask for the feed, and its spool may hold receipts that are not in the log yet: " +
		"start it again, and ask again" + forced)
}
