package node

import (
	"context"
	"fmt"
	"time"

	"muniment.example/control/signing"
	"muniment.example/control/store"
)

// # Nodes that do not come back
//
// A scale-in, or a machine that is switched off, looks like a restart: the node stops, and nobody
// expels it. Its keys must not stay in force for ever, since who finds its folder could sign with
// them. So control ends the key of a node that has been silent for SilentFor, as a rotation does: the
// window closes api.KeyOverlap later. Nothing is revoked, and what the key signed stays valid. A node
// that comes back enrols another key by itself, vouched for by the old one.
//
// A node whose spool held records at its last poll keeps its key: it is expected back, and seals
// name it.

// SilentFor is how long a node has not polled when its key is ended.
const SilentFor = 7 * 24 * time.Hour

// settledAfter is how long control has run when it first ends keys: nodes that could not poll while
// it was away have polled by then.
const settledAfter = 10 * time.Minute

// EndSilent ends the keys of the nodes that have been silent for SilentFor, and records which nodes
// have polled: that makes their silence known to a control process that starts later.
func (r *Service) EndSilent(ctx context.Context) error {
	polls, err := r.polls(ctx, r.db.Read())
	if err != nil {
		return fmt.Errorf("cannot read the polls of nodes: %w", err)
	}
	now, clock := r.db.Now(), r.cfg.Clock()
	var live []any
	for id, p := range polls {
		if p.epoch > 0 && r.mayHoldLease(clock, p) { // not one that only may have polled a previous process
			live = append(live, id)
		}
	}
	if len(live) > 0 {
		err := r.db.Notes.Write(ctx, `UPDATE nodes SET polled_at = $1 WHERE node_id IN (`+store.Marks(1, len(live))+`)`, append([]any{store.Millis(now)}, live...)...)
		if err != nil {
			return fmt.Errorf("cannot record which nodes have polled: %w", err)
		}
	}
	if clock-r.began < settledAfter {
		return nil
	}
	silent, err := store.List(ctx, r.db.Read(), "the silent nodes", store.Text, `SELECT n.node_id FROM nodes n
		WHERE n.expelled_at IS NULL AND n.polled_at < $1 AND n.updated_at < $1 AND EXISTS (SELECT 1 FROM signing_keys k
			WHERE k.node_id = n.node_id AND k.revoked_at IS NULL AND k.not_after IS NULL)
		ORDER BY n.node_id`, store.Millis(now.Add(-SilentFor)))
	if err != nil {
		return err
	}
	for _, id := range silent {
		if polls[id].spooled > 0 {
			continue
		}
		if err := r.endKey(ctx, id); err != nil {
			return fmt.Errorf("cannot end the key of the node %s, which is silent: %w", id, err)
		}
	}
	return nil
}

// endKey ends the current key of a node.
func (r *Service) endKey(ctx context.Context, nodeID string) error {
	all, err := signing.OfNode(ctx, r.db.Read(), nodeID)
	if err != nil || len(all) == 0 {
		return err
	}
	key, err := r.keys.Current(ctx, &all[len(all)-1])
	if err != nil || key == nil || key.NotAfter != nil {
		return err
	}
	if err := r.keys.Recall(ctx, key, store.BySystem()); err != nil {
		return err
	}
	r.cfg.Logger.Info("a node has been silent for long: its signing key ends", "nodeId", nodeID, "keyId", key.KeyID)
	return nil
}
