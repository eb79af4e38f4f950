package webhook

import (
	"context"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/control/roomtest"
	"muniment.example/control/store"
	"muniment.example/deploy/stack/stacktest"
	"muniment.example/gateway/api"
	"muniment.example/sealer"
)

// TestQueueIsBegunAgain: an event that came while no process queued is sent, and none twice.
func TestQueueIsBegunAgain(t *testing.T) {
	stacktest.Both(t)
	s := newFixture(t, roomtest.NewClock(noon), nil)
	r := newReceiver(t)
	w := s.hook(r, "right.*")
	s.run(func(ctx context.Context) error { return s.db.Outbox.Relay(ctx, s.log) })
	var sent []string
	job := s.job()
	for range 3 {
		sent = append(sent, s.emit("right.revoked", map[string]string{"id": "rgh_a"}))
		require.NoError(t, s.db.Outbox.Drain(t.Context(), tenantID))
		for range 2 {
			p, err := s.pass(t.Context(), job, 0)
			require.NoError(t, err)
			require.True(t, p.atEnd)
		}
	}
	page, _, err := listDeliveries(t.Context(), s.db.Read(), w.ID, "PENDING", store.Slice{Limit: 50})
	require.NoError(t, err)
	var queued []string
	for _, d := range page {
		queued = append(queued, d.EventID)
	}
	slices.Reverse(queued)
	require.ElementsMatch(t, sent, queued)
}

// TestPassesAreBounded: however many webhooks want each event, one transaction writes little, and
// nothing is left out.
func TestPassesAreBounded(t *testing.T) {
	s := newFixture(t, roomtest.NewClock(noon), nil)
	s.run(func(ctx context.Context) error { return s.db.Outbox.Relay(ctx, s.log) })
	roomtest.Fill(t, s.db, maxWebhooks, "webhooks", `webhook_id, tenant_id, url, events, description, key_id, state, secret, replaced_secrets, backlog, created_at, updated_at, revision`,
		`'whk_' || CAST(i AS TEXT), 'tnt_a', 'https://receiver.example/', 'right.*', '', 'key_a', 'ACTIVE', '', '[]', 0, 0, 0, 0`)
	const events = 10_000/maxWebhooks + 1
	require.NoError(t, s.db.Change(t.Context(), func(tx *store.Tx) error {
		for range events {
			at := tx.Now()
			e := sealer.Event{EventID: api.NewID(api.PrefixEvent, at), At: at, TenantID: tenantID, Actor: keyA, Subject: sealer.Ref{Kind: "right", ID: "rgh_a"}}
			if err := tx.EmitRecord(t.Context(), &store.Kind{Type: "right.revoked"}, e, struct{}{}); err != nil {
				return err
			}
		}
		return nil
	}))
	require.NoError(t, s.db.Outbox.Drain(t.Context(), tenantID))
	job := s.job()
	queued := func() (n int64) {
		all, err := listWaiting(t.Context(), s.db.Read())
		require.NoError(t, err)
		for _, w := range all {
			n += w.count
		}
		return n
	}
	p, err := s.pass(t.Context(), job, 0)
	require.NoError(t, err)
	require.False(t, p.atEnd)
	require.EqualValues(t, (events-1)*maxWebhooks, queued())
	p, err = s.pass(t.Context(), job, 0)
	require.NoError(t, err)
	require.True(t, p.atEnd)
	require.EqualValues(t, events*maxWebhooks, queued())
}
