package node

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"muniment/control/store"
	"muniment/gateway/api"
	"muniment/sealer"
)

// # Expulsion
//
// A node that is to leave is told so by the feed, and the system's log by an event: there
// is no way back, whether or not it is expelled then. It signs nothing from then on, enrols
// no other key, and says of each key when all that it signed is in the log. Then that is
// sealed, and one change deletes the node's credential and revokes its keys. What the
// node asks later is refused. Its name stays taken, and its keys stay in the directory:
// what they signed until then verifies as before.
//
// What was left in the spool of a node that was forced out stays promised, and each seal
// names it. Once the spool is lost for good an operator abandons it, by an event of the
// system's log, which proves who gave up how many records, and when.

// Expulsion asks for an expulsion.
type Expulsion struct {
	// Revocation is that of all of the node's keys.
	Revocation
	// AbandonSpool gives up what is in the spool of a node that is silent: nobody waits for
	// it, and no seal names it any more. It may also be asked for afterwards.
	AbandonSpool bool
}

// Expelled is the answer to an expulsion.
type Expelled struct {
	NodeID     string        `json:"nodeId"`
	Epoch      uint64        `json:"epoch" doc:"How often the node had started."`
	ExpelledAt store.Instant `json:"expelledAt"`
	Keys       []SigningKey  `json:"keys" doc:"Every key that the node ever signed with, oldest first."`
	// Spooled is what is left in its spool, by its last word; 0 once that is abandoned.
	Spooled int64 `json:"spooled" doc:"Records that were promised and are in the node's spool alone, by its last word. Seals name them until the spool is abandoned."`
	// Unsealed are as in Revoked.
	Unsealed []Unsealed `json:"unsealed,omitempty"`
}

// member is a node as the database has it.
type member struct {
	nodeID     string
	epoch      uint64
	expelledAt store.Instant
	leaving    bool // it was asked to leave
	joined     bool // it has a credential
}

func (r *Room) member(ctx context.Context, q store.Querier, nodeID string) (*member, error) {
	return store.One(ctx, q, "the node "+nodeID, func(row store.Row) (m member, err error) {
		return m, row.Scan(&m.nodeID, &m.epoch, &m.expelledAt, &m.leaving, &m.joined)
	}, `SELECT n.node_id, n.epoch, n.expelled_at, n.leaving_at IS NOT NULL, c.node_id IS NOT NULL FROM nodes n LEFT JOIN node_credentials c ON c.node_id = n.node_id
		WHERE n.node_id = $1`, nodeID)
}

// errExpelled is what an expelled node is told: by its status it knows that no invitation
// helps.
func errExpelled(nodeID string) *api.Error {
	return &api.Error{Code: api.AuthInvalid, HTTPStatus: http.StatusForbidden, Message: "the node " + nodeID + " was expelled: it may not ask for anything any more"}
}

// Expel puts a node in a process of its own out for good, because it was stolen, is
// lost, or is not needed any more. q is as for the revocation of all of its keys: it
// waits for the node to bring what it signed into the log, and for that to be sealed,
// unless that is forced. While it waits the node is out of use already; asked again, it
// goes on. To expel an expelled node changes nothing, but that its spool may be abandoned.
//
// A node that is forced out while it holds a lease signs until that has ended, within
// the lease's bound; and what it signed since the last packs can't be proven any more.
func (r *Room) Expel(ctx context.Context, nodeID string, q Expulsion, by sealer.Ref) (v Expelled, err error) {
	if v, err = r.expel(ctx, nodeID, q, by); err != nil {
		return Expelled{}, fmt.Errorf("cannot expel the node %s: %w", nodeID, err)
	}
	return v, nil
}

func (r *Room) expel(ctx context.Context, nodeID string, q Expulsion, by sealer.Ref) (v Expelled, err error) {
	m, err := r.member(ctx, r.db.Read(), nodeID)
	switch {
	case err != nil:
		return v, err
	case m == nil:
		return v, &api.Error{Code: api.ResourceNotFound, Message: "no such node"}
	case m.expelledAt.IsZero() && !m.joined && !m.leaving:
		return v, api.Conflict("the node is part of a control process: its keys can be revoked, but it can't be expelled")
	}
	if q.AbandonSpool {
		live, err := r.isLive(ctx, nodeID)
		if err == nil && live {
			err = api.Conflict("the node has asked for the feed a moment ago, and may still bring what is in its spool into the log: stop it first")
		}
		if err != nil {
			return v, err
		}
	}
	if !m.expelledAt.IsZero() {
		if q.AbandonSpool {
			err = r.abandonLater(ctx, m, q.Reason, by)
		}
		if err != nil {
			return v, err
		}
		return r.expelled(ctx, m)
	}
	if err := r.askToLeave(ctx, nodeID, q.Reason, by); err != nil {
		return v, err
	}
	left, err := r.awaitOut(ctx, nodeID, q.Force || q.AbandonSpool, nil)
	if refused, ok := errors.AsType[*api.Error](err); ok {
		told := *refused
		told.Message += ". It was asked to leave for good: it signs nothing more from when it is told, expelled or not"
		return v, &told
	}
	if err != nil {
		return v, err
	}
	var unsealed []Unsealed
	if q.Seal != nil {
		all, err := nodeKeys(ctx, r.db.Read(), nodeID)
		if err == nil && len(all) > 0 {
			unsealed, err = q.Seal(ctx, "", all[0].Purpose)
		}
		if err == nil && !q.Force {
			err = refusal(unsealed)
		}
		if err != nil {
			return v, fmt.Errorf("it is out of use, but what it signed can't be sealed: %w", err)
		}
	}
	if m, err = r.writeExpulsion(context.WithoutCancel(ctx), nodeID, left, q, by); err != nil {
		return v, err
	}
	r.cfg.Logger.Warn("a node was expelled", "nodeId", nodeID, "epoch", m.epoch)
	v, err = r.expelled(ctx, m)
	v.Unsealed = unsealed
	return v, err
}

func (r *Room) expelled(ctx context.Context, m *member) (Expelled, error) {
	v := Expelled{NodeID: m.nodeID, Epoch: m.epoch, ExpelledAt: m.expelledAt, Keys: []SigningKey{}}
	all, err := nodeKeys(ctx, r.db.Read(), m.nodeID)
	if err == nil {
		v.Spooled, err = r.spooledOf(ctx, r.db.Read(), m.nodeID)
	}
	for _, k := range all {
		v.Keys = append(v.Keys, *k.view(r.db.Now()))
	}
	return v, err
}

// askToLeave has the feed tell the node that no key takes over from those that it has,
// unless that was done. From then on it gets no other.
func (r *Room) askToLeave(ctx context.Context, nodeID, reason string, by sealer.Ref) error {
	r.change.Lock()
	defer r.change.Unlock()
	return r.db.Stop(ctx, func(tx *store.Tx) error {
		m, err := r.member(ctx, tx, nodeID)
		if err != nil || m.leaving {
			return err
		}
		revision, err := tx.Revision(ctx) // the node's poll is answered at once
		if err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, `UPDATE nodes SET leaving_at = $2, updated_at = $2, revision = $3 WHERE node_id = $1`,
			nodeID, store.At(tx.Now()), revision)
		if err != nil {
			return err
		}
		told := map[string]any{"nodeId": nodeID, "reason": reason}
		return tx.EmitSystem(ctx, eventRecalled, by, sealer.Ref{Kind: "node", ID: nodeID}, told)
	})
}

// writeExpulsion is the one change that puts a node out. left says that it holds no
// lease that it would still sign by.
func (r *Room) writeExpulsion(ctx context.Context, nodeID string, left bool, q Expulsion, by sealer.Ref) (m *member, err error) {
	r.change.Lock()
	defer r.change.Unlock()
	err = r.db.Stop(ctx, func(tx *store.Tx) error {
		if m, err = r.member(ctx, tx, nodeID); err != nil || !m.expelledAt.IsZero() { // by somebody else meanwhile
			return err
		}
		all, err := keys(ctx, tx)
		if err != nil {
			return err
		}
		at, err := r.afterAll(ctx, tx, all)
		if err != nil {
			return err
		}
		revoked := []string{}
		for i := range all {
			if k := &all[i]; k.node == nodeID && k.RevokedAt == nil {
				revoked = append(revoked, k.KeyID)
				if err := revokeAt(ctx, tx, k, at, q.Reason, by); err != nil {
					return err
				}
			}
		}
		revision, err := tx.Revision(ctx)
		if err != nil {
			return err
		}
		now := store.At(tx.Now())
		if _, err := tx.ExecContext(ctx, `UPDATE nodes SET expelled_at = $2, updated_at = $2, revision = $3 WHERE node_id = $1`, nodeID, now, revision); err != nil {
			return err
		}
		if err := shutOut(ctx, tx, nodeID); err != nil {
			return err
		}
		if left {
			if _, err := tx.ExecContext(ctx, `DELETE FROM node_polls WHERE node_id = $1`, nodeID); err != nil {
				return err
			}
		}
		m.expelledAt = now
		told := map[string]any{"nodeId": nodeID, "epoch": m.epoch, "revokedKeyIds": revoked, "reason": q.Reason, "expelledAt": now.String()}
		if err := tx.EmitSystem(ctx, eventExpelled, by, sealer.Ref{Kind: "node", ID: nodeID}, told); err != nil || !q.AbandonSpool {
			return err
		}
		n, err := r.spooledOf(ctx, tx, nodeID)
		if err != nil {
			return err
		}
		return abandon(ctx, tx, m, n, q.Reason, by)
	})
	if err == nil && q.AbandonSpool {
		r.forgetSpool(nodeID)
	}
	if err == nil && r.shared == nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		if p, known := r.seen[nodeID]; left || !known {
			delete(r.seen, nodeID)
		} else {
			p.expelled = true
			r.seen[nodeID] = p
		}
	}
	return m, err
}

const (
	eventRecalled = "node.recalled"
	eventExpelled = "node.expelled"
)

// shutOut deletes all that would let a node in: its credential, and the invitation by
// which it would get another.
func shutOut(ctx context.Context, tx *store.Tx, nodeID string) error {
	for _, table := range []string{"node_credentials", "invitations"} {
		if _, err := tx.ExecContext(ctx, `DELETE FROM `+table+` WHERE node_id = $1`, nodeID); err != nil {
			return err
		}
	}
	return nil
}

// awaitOut waits until the node has said of its keys, or of that one of them, that all
// that they signed is in the log; of those that are revoked nobody asks it. One that does
// not say so is a reason to refuse, unless that is forced. said is true if it was said of
// every key: then the node signs nothing, whatever lease it holds.
func (r *Room) awaitOut(ctx context.Context, nodeID string, force bool, only *signingKey) (said bool, err error) {
	live, out := true, false
	err = r.await(ctx, func(ctx context.Context) (bool, error) {
		all, err := nodeKeys(ctx, r.db.Read(), nodeID)
		if err != nil {
			return false, err
		}
		out, said = true, true
		for _, k := range all {
			if only == nil || k.KeyID == only.KeyID {
				out = out && (k.retired || k.RevokedAt != nil)
				said = said && k.retired
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

// spooledOf is what was in a node's spool by its last word.
func (r *Room) spooledOf(ctx context.Context, q store.Querier, nodeID string) (int64, error) {
	if r.shared == nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.seen[nodeID].spooled, nil
	}
	n, err := store.One(ctx, q, "the poll of the node "+nodeID, func(row store.Row) (n int64, err error) {
		return n, row.Scan(&n)
	}, `SELECT spooled FROM node_polls WHERE node_id = $1`, nodeID)
	if n == nil {
		return 0, err
	}
	return *n, nil
}

// abandon gives up the n records in the spool of a node, and tells of it.
func abandon(ctx context.Context, tx *store.Tx, m *member, n int64, reason string, by sealer.Ref) error {
	if _, err := tx.ExecContext(ctx, `UPDATE node_polls SET spooled = 0 WHERE node_id = $1`, m.nodeID); err != nil {
		return err
	}
	told := map[string]any{"nodeId": m.nodeID, "epoch": m.epoch, "spooled": n, "reason": reason}
	return tx.EmitSystem(ctx, "spool.abandoned", by, sealer.Ref{Kind: "node", ID: m.nodeID}, told)
}

// abandonLater is abandon for a node that is expelled already, unless that was done.
func (r *Room) abandonLater(ctx context.Context, m *member, reason string, by sealer.Ref) error {
	err := r.db.Change(ctx, func(tx *store.Tx) error {
		n, err := r.spooledOf(ctx, tx, m.nodeID)
		if err != nil || n == 0 {
			return err
		}
		return abandon(ctx, tx, m, n, reason, by)
	})
	if err == nil {
		r.forgetSpool(m.nodeID)
	}
	return err
}

// forgetSpool is abandon for what is in memory.
func (r *Room) forgetSpool(nodeID string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if p, known := r.seen[nodeID]; known {
		p.spooled = 0
		r.seen[nodeID] = p
	}
}
