package node

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"muniment/control/signing"
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
// node asks later is refused. Its id stays taken, and its keys stay in the directory:
// what they signed until then verifies as before. If it has a name of certificates, that is
// barred until an operator lifts it.
//
// What was left in the spool of a node that was forced out stays promised, and each seal
// names it. Once the spool is lost for good an operator abandons it, by an event of the
// system's log, which proves who gave up how many records, and when.

// Expulsion asks for an expulsion.
type Expulsion struct {
	// Revocation is that of all of the node's keys.
	signing.Revocation
	// AbandonSpool gives up what is in the spool of a node that is silent: nobody waits for
	// it, and no seal names it any more. It may also be asked for afterwards.
	AbandonSpool bool
}

// Expelled is the answer to an expulsion.
type Expelled struct {
	NodeID     string               `json:"nodeId"`
	Name       string               `json:"name,omitempty" doc:"The name by whose certificate it joined: no other node joins under it until an operator lifts that."`
	Epoch      uint64               `json:"epoch" doc:"How often the node had started."`
	ExpelledAt store.Instant        `json:"expelledAt"`
	Keys       []signing.SigningKey `json:"keys" doc:"Every key that the node ever signed with, oldest first."`
	// Spooled is what is left in its spool, by its last word; 0 once that is abandoned.
	Spooled int64 `json:"spooled" doc:"Records that were promised and are in the node's spool alone, by its last word. Seals name them until the spool is abandoned."`
	// Unsealed are as in signing.Revoked.
	Unsealed []signing.Unsealed `json:"unsealed,omitempty"`
}

// errExpelled is what an expelled node is told: by its status it knows that no invitation
// helps.
func errExpelled(nodeID string) *api.Error {
	return &api.Error{Code: api.AuthInvalid, HTTPStatus: http.StatusForbidden, Message: "the node " + nodeID + " was expelled: it may not ask for anything any more"}
}

// Expel puts a node out for good, because it was stolen, is
// lost, or is not needed any more. q is as for the revocation of all of its keys: it
// waits for the node to bring what it signed into the log, and for that to be sealed,
// unless that is forced. While it waits the node is out of use already; asked again, it
// goes on. To expel an expelled node changes nothing, but that its spool may be abandoned.
//
// A node that is forced out while it holds a lease signs until that has ended, within
// the lease's bound; and what it signed since the last packs can't be proven any more.
func (r *Service) Expel(ctx context.Context, nodeID string, q Expulsion, by sealer.Ref) (v Expelled, err error) {
	if v, err = r.expel(ctx, nodeID, q, by); err != nil {
		return Expelled{}, fmt.Errorf("cannot expel the node %s: %w", nodeID, err)
	}
	return v, nil
}

func (r *Service) expel(ctx context.Context, nodeID string, q Expulsion, by sealer.Ref) (v Expelled, err error) {
	m, err := find(ctx, r.db.Read(), nodeID)
	switch {
	case err != nil:
		return v, err
	case m == nil:
		return v, &api.Error{Code: api.ResourceNotFound, Message: "no such node"}
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
		return r.answer(ctx, m)
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
	unsealed, err := r.sealAll(ctx, nodeID, q)
	if err != nil {
		return v, err
	}
	if m, err = r.writeExpulsion(context.WithoutCancel(ctx), nodeID, left, q, by); err != nil {
		return v, err
	}
	r.cfg.Logger.Warn("a node was expelled", "nodeId", nodeID, "epoch", m.epoch)
	v, err = r.answer(ctx, m)
	v.Unsealed = unsealed
	return v, err
}

// sealAll seals what the node's keys signed.
func (r *Service) sealAll(ctx context.Context, nodeID string, q Expulsion) ([]signing.Unsealed, error) {
	all, err := signing.OfNode(ctx, r.db.Read(), nodeID)
	if err != nil || len(all) == 0 {
		return nil, err
	}
	return q.SealAll(ctx, "", all[0].Purpose)
}

func (r *Service) answer(ctx context.Context, m *member) (Expelled, error) {
	v := Expelled{NodeID: m.nodeID, Name: m.name, Epoch: m.epoch, ExpelledAt: m.expelledAt, Keys: []signing.SigningKey{}}
	all, err := signing.OfNode(ctx, r.db.Read(), m.nodeID)
	if err == nil {
		v.Spooled, err = r.spooledOf(ctx, r.db.Read(), m.nodeID)
	}
	for _, k := range all {
		v.Keys = append(v.Keys, *k.View(r.db.Now()))
	}
	return v, err
}

// askToLeave has the feed tell the node that no key takes over from those that it has,
// unless that was done. From then on it gets no other.
func (r *Service) askToLeave(ctx context.Context, nodeID, reason string, by sealer.Ref) error {
	return r.db.Stop(ctx, func(tx *store.Tx) error { return recallNode(ctx, tx, nodeID, reason, by) })
}

// recallNode is the change of askToLeave.
func recallNode(ctx context.Context, tx *store.Tx, nodeID, reason string, by sealer.Ref) error {
	m, err := find(ctx, tx, nodeID)
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
}

// writeExpulsion is the one change that puts a node out. left says that it holds no
// lease that it would still sign by.
func (r *Service) writeExpulsion(ctx context.Context, nodeID string, left bool, q Expulsion, by sealer.Ref) (m *member, err error) {
	err = r.keys.Stop(ctx, func(tx *store.Tx) error {
		if m, err = find(ctx, tx, nodeID); err != nil || !m.expelledAt.IsZero() { // by somebody else meanwhile
			return err
		}
		revoked, err := r.keys.RevokeAll(ctx, tx, nodeID, q.Reason, by)
		if err != nil {
			return err
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
		if m.name != "" {
			told["name"] = m.name
		}
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
	if err == nil {
		r.leases.expelled(nodeID, left)
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

// abandon gives up the n records in the spool of a node, and tells of it.
func abandon(ctx context.Context, tx *store.Tx, m *member, n int64, reason string, by sealer.Ref) error {
	if _, err := tx.ExecContext(ctx, `UPDATE node_polls SET spooled = 0 WHERE node_id = $1`, m.nodeID); err != nil {
		return err
	}
	told := map[string]any{"nodeId": m.nodeID, "epoch": m.epoch, "spooled": n, "reason": reason}
	return tx.EmitSystem(ctx, "spool.abandoned", by, sealer.Ref{Kind: "node", ID: m.nodeID}, told)
}

// abandonLater is abandon for a node that is expelled already, unless that was done.
func (r *Service) abandonLater(ctx context.Context, m *member, reason string, by sealer.Ref) error {
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
