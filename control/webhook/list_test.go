package webhook

import (
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/control/roomtest"
	"muniment.example/control/store"
)

// TestListsHaveIndexes: the newest of many deliveries are found without scanning the others, and so
// are due and failed ones, and those of an event.
func TestListsHaveIndexes(t *testing.T) {
	r := newService(t, t.TempDir(), roomtest.NewClock(noon), nil)
	roomtest.Fill(t, r.db, 5_000, "webhooks", `webhook_id, tenant_id, url, events, description, key_id, state, secret, replaced_secrets, backlog, created_at, updated_at, revision`,
		`'whk_' || CAST(i AS TEXT), 'tnt_a', 'https://receiver.example/', 'right.*', '', 'key_a', CASE WHEN i % 500 = 9 THEN 'ACTIVE' ELSE 'DISABLED' END, '', '[]', 0, 0, 0, 0`)
	roomtest.Fill(t, r.db, 5_000, "webhook_deliveries", deliveryColumns,
		`'dlv_' || CAST(i AS TEXT), 'whk_' || CAST(i % 50 AS TEXT), 'tnt_a', 'evt_' || CAST(i AS TEXT), 'right.revoked', i * 1000, 1, '1.0.1', '1.0.1',
		CASE WHEN i % 300 = 9 THEN 'FAILED' WHEN i % 3 = 0 THEN 'PENDING' ELSE 'DELIVERED' END, 0, 0, '[]', i * 1000, 0, i`)
	for index, requested := range map[string]func(q store.Querier) error{
		"webhooks_by_tenant": func(q store.Querier) error {
			_, _, err := list(t.Context(), q, tenantID, store.Slice{Limit: 50})
			return err
		},
		"webhook_deliveries_by_webhook": func(q store.Querier) error {
			_, _, err := listDeliveries(t.Context(), q, "whk_9", "", store.Slice{Behind: "dlv_3", Limit: 50})
			return err
		},
		"webhook_deliveries_by_state": func(q store.Querier) error {
			_, _, err := listDeliveries(t.Context(), q, "whk_9", "FAILED", store.Slice{Limit: 50})
			return err
		},
		"webhook_deliveries_due": func(q store.Querier) error {
			_, err := listDue(t.Context(), q, store.At(noon))
			return err
		},
		"webhook_deliveries_by_event": func(q store.Querier) error {
			_, err := isQueued(t.Context(), q, "whk_9", "evt_9")
			return err
		},
	} {
		require.Contains(t, roomtest.Plans(t, r.db, requested), index)
	}
}
