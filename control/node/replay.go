package node

import (
	"context"
	"encoding/json"
	"fmt"

	"muniment.example/control/store"
	"muniment.example/sealer"
)

// Replay applies one event about nodes to an older database, for rollback.Replay: a node that was
// asked to leave or was expelled stays so, and the name of a node that was expelled, or that an
// operator asked to leave, stays barred unless an operator has lifted the bar.
func Replay(ctx context.Context, tx *store.Tx, e *sealer.Event) (changed bool, err error) {
	switch e.Type {
	case eventRecalled.Type:
		return replayRecalled(ctx, tx, e)
	case eventExpelled.Type:
		return replayExpelled(ctx, tx, e)
	case eventUnbarred.Type:
		return replayUnbarred(ctx, tx, e)
	}
	return false, nil
}

// replayRecalled marks the node as leaving, and bars its name if an operator asked it to leave. A
// takeover bars nothing: the node that took over the name may have to join again. If the database
// does not have the node, it adds the row.
func replayRecalled(ctx context.Context, tx *store.Tx, e *sealer.Event) (changed bool, err error) {
	var recall struct {
		Name string `json:"name"`
	}
	if err := json.Unmarshal(e.Data, &recall); err != nil {
		return false, fmt.Errorf("cannot read the event that asked the node %s to leave: %w", e.Subject.ID, err)
	}
	m, err := find(ctx, tx, e.Subject.ID)
	if err != nil || m != nil && (m.recalled || m.leaving && isTakeover(e.Actor)) {
		return false, err
	}
	var leavingAt int64
	if !isTakeover(e.Actor) {
		leavingAt = store.Millis(e.At)
	}
	revision, err := tx.Revision(ctx)
	if err == nil {
		_, err = tx.ExecContext(ctx, `INSERT INTO nodes (node_id, epoch, created_at, updated_at, revision, leaving_at) VALUES ($1, 0, $2, $2, $3, $4)
			ON CONFLICT (node_id) DO UPDATE SET leaving_at = excluded.leaving_at, revision = excluded.revision`,
			e.Subject.ID, store.At(e.At), revision, leavingAt)
	}
	if err == nil && recall.Name != "" {
		err = addName(ctx, tx, e, recall.Name)
	}
	if err != nil {
		return false, fmt.Errorf("cannot replay that the node %s was asked to leave: %w", e.Subject.ID, err)
	}
	return true, nil
}

// addName gives the event's node the name that it had, if the database lacks it.
func addName(ctx context.Context, tx *store.Tx, e *sealer.Event, name string) error {
	_, err := tx.ExecContext(ctx, `INSERT INTO node_names (node_id, name, taken_at) VALUES ($1, $2, $3) ON CONFLICT (node_id) DO NOTHING`,
		e.Subject.ID, name, store.At(e.At))
	return err
}

// replayExpelled expels the node, and bars its name. If the database does not have the node, it
// adds the row: otherwise the node could join as a new one.
func replayExpelled(ctx context.Context, tx *store.Tx, e *sealer.Event) (changed bool, err error) {
	var expulsion struct {
		Epoch uint64 `json:"epoch"`
		Name  string `json:"name"`
	}
	if err := json.Unmarshal(e.Data, &expulsion); err != nil {
		return false, fmt.Errorf("cannot read the event of the expulsion of the node %s: %w", e.Subject.ID, err)
	}
	if m, err := find(ctx, tx, e.Subject.ID); err != nil || m != nil && !m.expelledAt.IsZero() {
		return false, err
	}
	revision, err := tx.Revision(ctx)
	if err != nil {
		return false, err
	}
	changed, err = store.Affected(tx.ExecContext(ctx, `INSERT INTO nodes (node_id, epoch, created_at, updated_at, revision, leaving_at, expelled_at) VALUES ($1, $4, $2, $2, $3, $2, $2)
		ON CONFLICT (node_id) DO UPDATE SET expelled_at = excluded.expelled_at, revision = excluded.revision,
			epoch = CASE WHEN nodes.epoch < excluded.epoch THEN excluded.epoch ELSE nodes.epoch END WHERE nodes.expelled_at IS NULL`,
		e.Subject.ID, store.At(e.At), revision, expulsion.Epoch))
	if err == nil && changed {
		err = revokeAccess(ctx, tx, e.Subject.ID)
	}
	if err == nil && changed && expulsion.Name != "" {
		err = addName(ctx, tx, e, expulsion.Name)
	}
	if err != nil {
		return false, fmt.Errorf("cannot replay the expulsion of the node %s: %w", e.Subject.ID, err)
	}
	return changed, nil
}

// replayUnbarred lifts the bar on the name of a node, whether the database had it, or
// replayRecalled or replayExpelled has set it.
func replayUnbarred(ctx context.Context, tx *store.Tx, e *sealer.Event) (changed bool, err error) {
	changed, err = store.Affected(tx.ExecContext(ctx, `DELETE FROM node_names WHERE node_id = $1
		AND EXISTS (SELECT 1 FROM nodes n WHERE n.node_id = node_names.node_id AND (n.expelled_at IS NOT NULL OR n.leaving_at > 0))`, e.Subject.ID))
	if err != nil {
		return false, fmt.Errorf("cannot replay that the bar on the name of the node %s was lifted: %w", e.Subject.ID, err)
	}
	return changed, nil
}
