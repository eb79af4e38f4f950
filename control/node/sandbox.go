package node

import (
	"context"
	"slices"
	"time"

	"muniment/sealer"
)

// SandboxKeys lists the keys that ever signed for the sandbox, of packs and of receipts:
// control's current one first, and the others newest first. issuedAt is the moment at
// which the list was true, and is after every change in it.
func (r *Room) SandboxKeys(ctx context.Context) (keys []sealer.Key, issuedAt time.Time, err error) {
	rows, err := r.keys(ctx)
	if err != nil {
		return nil, issuedAt, err
	}
	now := r.db.Now()
	current := newest(rows, sandboxRole, now)
	for _, row := range slices.Backward(rows) {
		switch {
		case row.Purpose != sealer.PurposeSandbox:
		case current != nil && row.KeyID == current.KeyID:
			keys = slices.Insert(keys, 0, row.Key)
		default:
			keys = append(keys, row.Key)
		}
	}
	return keys, issue(now, rows), nil
}
