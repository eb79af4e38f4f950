package webhook

import (
	"context"
	"fmt"

	"muniment.example/control/store"
	"muniment.example/gateway/api"
)

// discardRunning discards the outcomes of the tenant's running attempts before a person is erased:
// their processes would write the old responses back, or new ones that name the person. Those
// deliveries are sent again.
func discardRunning(ctx context.Context, tx *store.Tx, tenantID string) error {
	// While an attempt runs, the next one is due within claimTerm.
	_, err := tx.ExecContext(ctx, `UPDATE webhook_deliveries SET claim = claim + 1 WHERE tenant_id = $1 AND state = 'PENDING' AND next_at > $2 AND next_at <= $3`,
		tenantID, store.At(tx.Now().Add(-api.ClockSlack)), store.At(tx.Now().Add(claimTerm+api.ClockSlack)))
	if err != nil {
		return fmt.Errorf("cannot discard the outcomes of webhook attempts: %w", err)
	}
	return nil
}
