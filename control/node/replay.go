package node

import (
	"context"
	"encoding/json"
	"fmt"

	"muniment/control/store"
	"muniment/sealer"
)

// Replay applies each event of nodes for store.Replay: one that was asked to leave, or
// expelled, stays so, and its name barred unless an operator has lifted that.
func Replay(ctx context.Context, tx *store.Tx, e *sealer.Event) (changed bool, err error) {
	switch e.Type {
	case eventRecalled:
		return recallAgain(ctx, tx, e)
	case eventExpelled:
		return expelAgain(ctx, tx, e)
	case eventUnbarred:
		return unbarAgain(ctx, tx, e)
	}
	return false, nil
}

// hasNode says whether there is a node with a value in a column.
func hasNode(ctx context.Context, q store.Querier, nodeID, column string) (bool, error) {
	id, err := store.One(ctx, q, "the node "+nodeID, store.Text, `SELECT node_id FROM nodes WHERE node_id = $1 AND `+column+` IS NOT NULL`, nodeID)
	return id != nil, err
}

// recallAgain has a node leave that an older database would keep, or lets join yet.
func recallAgain(ctx context.Context, tx *store.Tx, e *sealer.Event) (changed bool, err error) {
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
		return false, fmt.Errorf("cannot have the node %s leave again: %w", e.Subject.ID, err)
	}
	return changed, nil
}

// expelAgain puts a node out that an older database still knows, or lets join yet.
func expelAgain(ctx context.Context, tx *store.Tx, e *sealer.Event) (changed bool, err error) {
	var said struct {
		Epoch uint64 `json:"epoch"`
		Name  string `json:"name"`
	}
	if err := json.Unmarshal(e.Data, &said); err != nil {
		return false, fmt.Errorf("cannot read the record of the expulsion of the node %s: %w", e.Subject.ID, err)
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
		e.Subject.ID, store.At(e.At), revision, said.Epoch))
	if err == nil && changed {
		err = shutOut(ctx, tx, e.Subject.ID)
	}
	if err == nil && changed && said.Name != "" {
		err = barAgain(ctx, tx, said.Name, e)
	}
	if err != nil {
		return false, fmt.Errorf("cannot expel the node %s again: %w", e.Subject.ID, err)
	}
	return changed, nil
}
