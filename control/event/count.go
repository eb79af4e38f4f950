package event

import (
	"context"
	"time"
)

// countWait is how long a count waits for what is not loaded yet.
const countWait = 2 * time.Second

// Count counts the tenant's events that were durable at the call: it waits for those that are on
// their way to the log, or from there to the warehouse. If that takes longer than countWait, for
// example because the log or the loader is down, it counts only those that are loaded.
func (s *Service) Count(ctx context.Context, tenantID string) (int64, error) {
	wait, cancel := context.WithTimeout(ctx, countWait)
	defer cancel()
	_ = s.packs.AwaitRecorded(wait, tenantID)
	return s.warehouse.CountEvents(ctx, tenantID)
}
