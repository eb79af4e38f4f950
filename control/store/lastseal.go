package store

import (
	"context"
	"fmt"
	"time"
)

// LastSeal is the latest moment that a proof pack states as that of its sealing; zero
// without a pack. It may be ahead of this clock: a pack is never older than what is
// in it, which nodes have dated.
func LastSeal(ctx context.Context, q Querier) (time.Time, error) {
	var at Instant
	if err := q.QueryRowContext(ctx, `SELECT MAX(sealed_at) FROM proof_packs`).Scan(&at); err != nil {
		return time.Time{}, fmt.Errorf("cannot tell when the last pack was sealed: %w", err)
	}
	return at.Time, nil
}
