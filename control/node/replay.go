package node

import (
	"context"
	"encoding/json"
	"fmt"

	"muniment/control/store"
	"muniment/sealer"
)

// Replay applies one event about nodes to an older database, for store.Replay: a node that was
// asked to leave or was expelled stays so, and the name of an expelled node stays barred unless
// an operator has lifted the bar.
func Replay(ctx context.Context, tx *store.Tx, e *sealer.Event) (changed bool, err error) {
	switch e.Type {
	case eventRecalled:
		return replayRecalled(ctx, tx, e)
	case eventExpelled:
		return replayExpelled(ctx, tx, e)
	case eventUnbarred:
		return replayUnbarred(ctx, tx, e)
	}
	return false, nil
}

// hasNode reports whether the node exists and has a value in the column.
func hasNode(ctx context.Context, q store.Querier, nodeID, column string) (bool, error) {
	id, err := store.One(ctx, q, "the node "+nodeID, store.Text, `SELECT node_id FROM nodes WHERE node_id = $1 AND `+column+` IS NOT NULL`, nodeID)
	return id != nil, err
}

// replayRecalled marks the node as leaving. If the database does not have the node, it adds the
// row.
func replayRecalled(ctx context.Context, tx *store.Tx, e *sealer.Event) (changed bool, err error) {
	if known, err := hasNode(ctx, tx, e.Subject.ID, "leaving_at"); err != nil || known {
		return false, err
	}
	revision, err := tx.Revision(ctx)
	if err == nil {
		changed, err = store.Affected(tx.ExecContext(ctx, `INSERT INTO nodes (node_id, epoch, created_at, updated_at, revision, leaving_at) VALUES ($1, 0, $2, $2, $3, $2)
			ON CONFLICT (node_id) DO UPDATE SET leaving_at = excluded.leaving_at, revision = excluded.revision WHERE nodes.leaving_at IS NULL`,
			e.Subject.ID, store.At(e.At), revision))
	}
	if err != nil {
		return false, fmt.Errorf("cannot replay that the node %s was asked to leave: %w", e.Subject.ID, err)
	}
	return changed, nil
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
	if known, err := hasNode(ctx, tx, e.Subject.ID, "expelled_at"); err != nil || known {
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
		_, err = tx.ExecContext(ctx, `INSERT INTO node_names (node_id, name, taken_at) VALUES ($1, $2, $3) ON CONFLICT (node_id) DO NOTHING`,
			e.Subject.ID, expulsion.Name, store.At(e.At))
	}
	if err != nil {
		return false, fmt.Errorf("cannot replay the expulsion of the node %s: %w", e.Subject.ID, err)
	}
	return changed, nil
}

// replayUnbarred lifts the bar on the name of an expelled node, whether the database had it or
// replayExpelled has set it.
func replayUnbarred(ctx context.Context, tx *store.Tx, e *sealer.Event) (changed bool, err error) {
	changed, err = store.Affected(tx.ExecContext(ctx, `DELETE FROM node_names WHERE node_id = $1
		AND EXISTS (SELECT 1 FROM nodes n WHERE n.node_id = node_names.node_id AND n.expelled_at IS NOT NULL)`, e.Subject.ID))
	if err != nil {
		return false, fmt.Errorf("cannot replay that the bar on the name of the node %s was lifted: %w", e.Subject.ID, err)
	}
	return changed, nil
}
