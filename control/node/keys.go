package node

import (
	"context"
	"time"

	"muniment.example/control/signing"
	"muniment.example/gateway/api"
	"muniment.example/sealer"
)

// # Keys of nodes
//
// A node makes its next key itself, and only the node knows when everything its old key signed
// is in the log. So control requests this through the feed, and waits for the node's report.

// Rotate replaces a key. For a key of control it is signing.Service.Rotate. For a key of a node
// it requests another key from the node.
func (r *Service) Rotate(ctx context.Context, keyID string, by sealer.Ref) (signing.Succession, error) {
	key, joined, err := r.ofJoined(ctx, keyID)
	if err != nil {
		return signing.Succession{}, err
	}
	if joined {
		return r.rotateNodeKey(ctx, key, by)
	}
	return r.keys.Rotate(ctx, keyID, by)
}

// Revoke is signing.Service.Revoke for any key. For a key of a node it first waits until the
// node has put the key out of use, and everything the key signed is in the log. q.Force revokes
// the key without that: a live node learns of it with its next poll of the feed, within the
// lease bound, and what is then left in its spool can't be proven.
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
		r.Await(ctx, v.Revision) // the feed notifies the node, which signs nothing without the feed
	}
	return v, err
}

// ofJoined returns a key, and whether it is that of a node that has joined.
func (r *Service) ofJoined(ctx context.Context, keyID string) (key *signing.Key, joined bool, err error) {
	if key, err = r.keys.FindKey(ctx, keyID); err != nil {
		return nil, false, err
	}
	m, err := find(ctx, r.db.Read(), key.Node)
	return key, m != nil && m.joined, err
}

// rotateNodeKey requests another key from a node: it ends the window of the current one, which
// the node learns from the feed. It waits for the successor, at most for DrainFor. If there is
// none by then, the result has no key: the node has yet to make it, and continues to sign with
// the current one, at most for api.KeyOverlap.
func (r *Service) rotateNodeKey(ctx context.Context, row *signing.Key, by sealer.Ref) (signing.Succession, error) {
	if err := r.keys.Recall(ctx, row, by); err != nil {
		return signing.Succession{}, err
	}
	var next *signing.Key
	err := r.awaitCondition(ctx, func(ctx context.Context) (done bool, err error) {
		next, err = r.keys.Current(ctx, row)
		return next != nil && next.KeyID != row.KeyID, err
	})
	if err != nil {
		return signing.Succession{}, err
	}
	if row, err = r.keys.FindKey(ctx, row.KeyID); err != nil {
		return signing.Succession{}, err
	}
	s := signing.Succession{Replaced: row.View(r.db.Now())}
	if next != nil && next.KeyID != row.KeyID {
		s.Key = next.View(r.db.Now())
	}
	return s, nil
}

// putOutOfUse has a node stop using a key before the key is revoked. It waits until the node
// reports that everything the key signed is in the log: a node that is gone may have left
// receipts in its spool. The end of the key's window does not prove this, because the window
// also ends if the node does not respond.
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
	if _, err := r.awaitOutOfUse(ctx, row.Node, force, row); err != nil {
		return nil, err
	}
	next, err := r.keys.Current(ctx, row)
	if err != nil || next == nil || next.KeyID == row.KeyID {
		return nil, err
	}
	return next.View(r.db.Now()), nil
}

// recheckEvery is how often awaitCondition checks even if the database does not change: leases
// end as time passes.
const recheckEvery = 100 * time.Millisecond

// awaitCondition calls done until it returns true or an error, at most for DrainFor. If DrainFor
// has passed it returns nil.
func (r *Service) awaitCondition(ctx context.Context, done func(context.Context) (bool, error)) error {
	waiting, cancel := context.WithTimeout(ctx, r.cfg.DrainFor)
	defer cancel()
	for {
		changed := r.db.Changed()
		if ok, err := done(ctx); ok || err != nil {
			return err
		}
		tick := time.NewTimer(recheckEvery)
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

// awaitOutOfUse waits until the node has retired its keys, or only the one given: it has
// reported that everything they signed is in the log. Revoked keys need no report. If the node
// does not report, the error is a conflict, unless force is true. retired is true if the node has
// reported each key: then it signs nothing, even while it holds a lease.
func (r *Service) awaitOutOfUse(ctx context.Context, nodeID string, force bool, only *signing.Key) (retired bool, err error) {
	live, out := true, false
	err = r.awaitCondition(ctx, func(ctx context.Context) (bool, error) {
		all, err := signing.OfNode(ctx, r.db.Read(), nodeID)
		if err != nil {
			return false, err
		}
		out, retired = true, true
		for _, k := range all {
			if only == nil || k.KeyID == only.KeyID {
				out = out && (k.Retired || k.RevokedAt != nil)
				retired = retired && k.Retired
			}
		}
		if live, err = r.isLive(ctx, r.db.Read(), nodeID); err != nil {
			return false, err
		}
		return out || !live, nil
	})
	what := "its keys"
	if only != nil {
		what = "the key"
	}
	const orForce = ", or force it: then what was signed since the last packs can't be proven"
	switch {
	case err != nil || out || force:
		return retired, err
	case live:
		return false, api.Conflict("the node " + nodeID + " was asked to stop using " + what + ", but has not confirmed it yet: retry" + orForce)
	}
	return false, api.Conflict("the node " + nodeID + " does not poll the feed, and its spool may hold receipts that are not in the log yet: " +
		"start the node and retry" + orForce)
}
