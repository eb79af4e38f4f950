package node

import (
	"context"
	"fmt"
	"time"

	"muniment.example/control/store"
)

// member is a node's record in the database.
type member struct {
	nodeID     string
	epoch      uint64
	expelledAt store.Instant
	leaving    bool   // it was asked to leave
	recalled   bool   // an operator asked it, which bars its name, and not only the node that took over its name
	joined     bool   // it has a credential
	name       string // in the certificate that it joined by; "" if it joined by an invitation, or the name was unbarred
}

// find returns a node, nil when there is none. Its leaving_at is NULL until it is asked to leave,
// and 0 while only the node that took over its name has asked it, not an operator.
func find(ctx context.Context, q store.Querier, nodeID string) (*member, error) {
	return store.One(ctx, q, "the node "+nodeID, func(row store.Row) (m member, err error) {
		return m, row.Scan(&m.nodeID, &m.epoch, &m.expelledAt, &m.leaving, &m.recalled, &m.joined, &m.name)
	}, `SELECT n.node_id, n.epoch, n.expelled_at, n.leaving_at IS NOT NULL, COALESCE(n.leaving_at > 0, FALSE), c.node_id IS NOT NULL, COALESCE(named.name, '')
		FROM nodes n LEFT JOIN node_credentials c ON c.node_id = n.node_id LEFT JOIN node_names named ON named.node_id = n.node_id
		WHERE n.node_id = $1`, nodeID)
}

// startNode counts a start of the node, and returns its number, which is more than polled, that of a
// start that has polled: a restored database may lack it. It creates the node's row if there is none.
func startNode(ctx context.Context, tx *store.Tx, nodeID string, polled uint64, now time.Time) (epoch uint64, err error) {
	revision, err := tx.Revision(ctx)
	if err != nil {
		return 0, err
	}
	err = tx.QueryRowContext(ctx, `INSERT INTO nodes (node_id, epoch, created_at, updated_at, revision) VALUES ($1, CAST($4 AS BIGINT) + 1, $2, $2, $3)
		ON CONFLICT (node_id) DO UPDATE SET epoch = CASE WHEN nodes.epoch < CAST($4 AS BIGINT) THEN CAST($4 AS BIGINT) ELSE nodes.epoch END + 1, updated_at = excluded.updated_at, revision = excluded.revision
		RETURNING epoch`, nodeID, store.Millis(now), revision, polled).Scan(&epoch)
	return epoch, err
}

// registered says whether there is a node that was not expelled.
func registered(ctx context.Context, q store.Querier) (is bool, err error) {
	if err := q.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM nodes WHERE expelled_at IS NULL)`).Scan(&is); err != nil {
		return false, fmt.Errorf("cannot read whether a node is registered: %w", err)
	}
	return is, nil
}

// nodeIDs lists the nodes that were not expelled.
func nodeIDs(ctx context.Context, q store.Querier) ([]string, error) {
	return store.List(ctx, q, "the nodes", store.Text, `SELECT node_id FROM nodes WHERE expelled_at IS NULL ORDER BY node_id`)
}
