package webhook

import (
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/control/roomtest"
	"muniment.example/control/store"
)

// TestReplay: an older copy of the database sends nothing that was stopped since.
func TestReplay(t *testing.T) {
	r := newService(t, t.TempDir(), roomtest.NewClock(noon), nil)
	was := r.mustCreate(t, webhookFor("right.*"))
	moved, err := r.change(t.Context(), tenantID, was.ID, byKey, func(next *Webhook) { next.State, next.URL = Paused, "https://other.example/" })
	require.NoError(t, err)
	// replay plays an event in the copy of before.
	replay := func(event int) (changed bool) {
		require.NoError(t, r.db.Change(t.Context(), func(tx *store.Tx) error {
			e := roomtest.Events(t, r.db)[event]
			_, err := tx.ExecContext(t.Context(), `UPDATE webhooks SET state = 'ACTIVE', url = $2, revision = $3 WHERE webhook_id = $1`, was.ID, was.URL, was.Revision)
			require.NoError(t, err)
			changed, err = Replay(t.Context(), tx, &e)
			return err
		}))
		return changed
	}
	require.False(t, replay(0), "it is as in the event")
	require.True(t, replay(1))
	now := r.mustFind(t, was.ID)
	require.Equal(t, []any{Paused, moved.URL, was.Secret}, []any{now.State, now.URL, now.Secret})
	_, err = r.remove(t.Context(), tenantID, was.ID, keyA)
	require.NoError(t, err)
	require.False(t, replay(2), "it is gone")

	again := r.mustCreate(t, webhookFor("right.*"))
	_, err = r.remove(t.Context(), tenantID, again.ID, keyA)
	require.NoError(t, err)
	require.NoError(t, r.db.Change(t.Context(), func(tx *store.Tx) error {
		require.NoError(t, webhooks.Insert(t.Context(), tx, &again))
		e := roomtest.Events(t, r.db)[4]
		changed, err := Replay(t.Context(), tx, &e)
		require.True(t, changed)
		return err
	}))
	_, err = webhooks.Find(t.Context(), r.db.Read(), tenantID, again.ID)
	require.True(t, store.IsNone(err))
}
