package proof

import (
	"context"
	"time"
)

// countWait is how long a count waits for what is not loaded yet.
const countWait = 2 * time.Second

// CountEvents counts the tenant's events that were durable at the call: those that are on
// their way to the log, or from there to the warehouse, are waited for. Where that takes
// longer than countWait, as while the log or the loader is away, only those count that are
// loaded: it is a number for people, and no reason to refuse them everything else.
func (r *Room) CountEvents(ctx context.Context, tenantID string) (int64, error) {
	wait, cancel := context.WithTimeout(ctx, min(countWait, r.cfg.WaitFor))
	defer cancel()
	if err := r.db.Drain(wait, tenantID); err == nil {
		_, _ = r.loaded(wait, tenantID)
	}
	return r.warehouse.CountEvents(ctx, tenantID)
}
