package node

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"muniment.example/control/signing"
	"muniment.example/control/store"
	"muniment.example/gateway/api"
	"muniment.example/sealer"
)

// # Expulsion
//
// The feed notifies a node that it is to leave, and an event of the system tenant records it.
// This can't be undone, even if the expulsion does not complete. From then on the node signs
// nothing, enrols no further key, and reports for each key when everything the key signed is in
// the log. Control seals that, and then deletes the node's credential and revokes its keys in
// one change. It refuses all later requests of the node. The node's id stays taken, and its
// keys stay in the directory: what they signed until then still verifies. If the node joined by
// a certificate, its name is barred from when the node is asked to leave, until an operator lifts
// the bar.
//
// If the expulsion is forced, records may be left in the node's spool. They stay promised, and
// each seal lists them. If the spool is lost, an operator abandons it; an event of the system
// tenant proves who gave up how many records, and when.

// Expulsion is a request to expel a node.
type Expulsion struct {
	// Revocation applies to each of the node's keys.
	signing.Revocation
	// AbandonSpool gives up the records in the spool of a silent node: nothing waits for them,
	// and seals no longer list them. It may also be requested after the expulsion.
	AbandonSpool bool
}

// Expelled is the response to an expulsion.
type Expelled struct {
	NodeID     string               `json:"nodeId"`
	Name       string               `json:"name,omitempty" doc:"The name in the certificate by which the node joined. No other node can join under it until an operator lifts the bar."`
	Epoch      uint64               `json:"epoch" doc:"How often the node had started."`
	ExpelledAt store.Instant        `json:"expelledAt"`
	Keys       []signing.SigningKey `json:"keys" doc:"Every key that the node ever signed with, oldest first."`
	// Spooled is 0 once the spool is abandoned.
	Spooled int64 `json:"spooled" doc:"Promised records that are only in the node's spool, as the node last reported. Seals list them until the spool is abandoned."`
	// Unsealed is as in signing.Revoked.
	Unsealed []signing.Unsealed `json:"unsealed,omitempty"`
}

// errExpelled refuses every request of an expelled node. Its status lets the node distinguish
// this from an unknown credential: another invitation does not help.
func errExpelled(nodeID string) *api.Error {
	return &api.Error{Code: api.AuthInvalid, HTTPStatus: http.StatusForbidden, Message: "the node " + nodeID + " was expelled: control refuses all its requests"}
}

// Expel permanently removes a node that was stolen, is lost, or is no longer needed. As for a
// revocation, it waits until the node has moved everything it signed into the log and that is
// sealed, unless q forces the expulsion. The node stops signing at the beginning of the wait. If
// the wait fails, the caller may repeat the call, which continues. Expelling an expelled node
// changes nothing, except that its spool may be abandoned.
//
// If a node is forced out while it holds a lease, it may sign until the lease ends, at most for
// the lease bound. What it signed since the last packs can no longer be proven.
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
		live, err := r.isLive(ctx, r.db.Read(), nodeID)
		if err == nil && live {
			err = api.Conflict("the node polled the feed a moment ago, and may still move what is in its spool into the log: stop it first")
		}
		if err != nil {
			return v, err
		}
	}
	if !m.expelledAt.IsZero() {
		if q.AbandonSpool {
			err = r.abandonLater(ctx, m, q.Reason, by)
		}
		if err == nil { // it may have been expelled by a call that could not confirm it
			err = r.db.Confirm(ctx)
		}
		if err != nil {
			return v, err
		}
		return r.expelledView(ctx, m)
	}
	if err := r.db.StopUnconfirmed(ctx, func(tx *store.Tx) error { return recallNode(ctx, tx, nodeID, q.Reason, by) }); err != nil {
		return v, err
	}
	stopped, err := r.awaitOutOfUse(ctx, nodeID, q.Force || q.AbandonSpool, nil)
	if refused, ok := errors.AsType[*api.Error](err); ok {
		refusal := *refused
		refusal.Message += ". The node was asked to leave: once it receives this from the feed, it permanently stops signing, even if it is not expelled"
		return v, &refusal
	}
	if err != nil {
		return v, err
	}
	unsealed, err := r.sealAll(ctx, nodeID, q)
	if err != nil {
		return v, err
	}
	if m, err = r.writeExpulsion(context.WithoutCancel(ctx), nodeID, stopped, q, by); err != nil {
		return v, err
	}
	r.cfg.Logger.Warn("a node was expelled", "nodeId", nodeID, "epoch", m.epoch)
	// The node is expelled, whether the log has it or not: the first thing that a caller who is gone misses is that.
	if err = r.db.Confirm(ctx); err != nil {
		return v, err
	}
	v, err = r.expelledView(ctx, m)
	v.Unsealed = unsealed
	return v, err
}

// sealAll seals what the node's keys signed, and returns the tenants that it could not seal.
func (r *Service) sealAll(ctx context.Context, nodeID string, q Expulsion) ([]signing.Unsealed, error) {
	all, err := signing.OfNode(ctx, r.db.Read(), nodeID)
	if err != nil || len(all) == 0 {
		return nil, err
	}
	return q.SealAll(ctx, "", all[0].Purpose)
}

func (r *Service) expelledView(ctx context.Context, m *member) (Expelled, error) {
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

// recallNode asks the node, through the feed, to leave. From then on it can enrol no key. by is the
// operator who expels it, which also bars its name, or the node that takes over its name. If the
// node was asked before, recallNode does nothing, except that an operator bars the name if only
// another node has asked so far.
func recallNode(ctx context.Context, tx *store.Tx, nodeID, reason string, by sealer.Ref) error {
	m, err := find(ctx, tx, nodeID)
	fields := map[string]any{"nodeId": nodeID, "reason": reason}
	var leavingAt int64
	switch {
	case err != nil || m.recalled || m.leaving && isTakeover(by):
		return err
	case !isTakeover(by):
		leavingAt = store.Millis(tx.Now())
		if m.name != "" {
			fields["name"] = m.name // a restored database may lack it
		}
	}
	revision, err := tx.Revision(ctx) // a new revision, so that the node's poll returns at once
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, `UPDATE nodes SET leaving_at = $2, updated_at = $3, revision = $4 WHERE node_id = $1`,
		nodeID, leavingAt, store.At(tx.Now()), revision)
	if err != nil {
		return err
	}
	return tx.EmitSystem(ctx, eventRecalled, by, sealer.Ref{Kind: kindNode, ID: nodeID}, fields)
}

// kindNode is the kind of a node as the actor or the subject of an event.
const kindNode = "node"

// isTakeover reports whether the actor that asked a node to leave is the node that took over its
// name. Any other actor is an operator.
func isTakeover(by sealer.Ref) bool { return by.Kind == kindNode }

// writeExpulsion expels the node in one change. stopped is true if the node has retired all
// keys: it signs nothing, even while it holds a lease.
func (r *Service) writeExpulsion(ctx context.Context, nodeID string, stopped bool, q Expulsion, by sealer.Ref) (m *member, err error) {
	err = r.keys.Stop(ctx, func(tx *store.Tx) error {
		if m, err = find(ctx, tx, nodeID); err != nil || !m.expelledAt.IsZero() { // a concurrent call has expelled it
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
		if err := revokeAccess(ctx, tx, nodeID); err != nil {
			return err
		}
		if stopped {
			if _, err := tx.ExecContext(ctx, `DELETE FROM node_polls WHERE node_id = $1`, nodeID); err != nil {
				return err
			}
		}
		m.expelledAt = now
		fields := map[string]any{"nodeId": nodeID, "epoch": m.epoch, "revokedKeyIds": revoked, "reason": q.Reason, "expelledAt": now.String()}
		if m.name != "" {
			fields["name"] = m.name
		}
		if err := tx.EmitSystem(ctx, eventExpelled, by, sealer.Ref{Kind: kindNode, ID: nodeID}, fields); err != nil || !q.AbandonSpool {
			return err
		}
		n, err := r.spooledOf(ctx, tx, nodeID)
		if err != nil {
			return err
		}
		return abandon(ctx, tx, m, n, q.Reason, by)
	})
	if err == nil && q.AbandonSpool {
		r.clearSpooled(nodeID)
	}
	if err == nil {
		r.markExpelled(nodeID, stopped)
	}
	return m, err
}

// revokeAccess deletes the node's credential, and the invitation that it joined by.
func revokeAccess(ctx context.Context, tx *store.Tx, nodeID string) error {
	for _, table := range []string{"node_credentials", "invitations"} {
		if _, err := tx.ExecContext(ctx, `DELETE FROM `+table+` WHERE node_id = $1`, nodeID); err != nil {
			return err
		}
	}
	return nil
}

// abandon gives up the n records in the node's spool, and emits the event.
func abandon(ctx context.Context, tx *store.Tx, m *member, n int64, reason string, by sealer.Ref) error {
	if _, err := tx.ExecContext(ctx, `UPDATE node_polls SET spooled = 0 WHERE node_id = $1`, m.nodeID); err != nil {
		return err
	}
	fields := map[string]any{"nodeId": m.nodeID, "epoch": m.epoch, "spooled": n, "reason": reason}
	return tx.EmitSystem(ctx, eventAbandoned, by, sealer.Ref{Kind: kindNode, ID: m.nodeID}, fields)
}

// abandonLater gives up the spool of a node that was expelled before. It does nothing if that
// spool was abandoned already.
func (r *Service) abandonLater(ctx context.Context, m *member, reason string, by sealer.Ref) error {
	err := r.db.Change(ctx, func(tx *store.Tx) error {
		n, err := r.spooledOf(ctx, tx, m.nodeID)
		if err != nil || n == 0 {
			return err
		}
		return abandon(ctx, tx, m, n, reason, by)
	})
	if err == nil {
		r.clearSpooled(m.nodeID)
	}
	return err
}
