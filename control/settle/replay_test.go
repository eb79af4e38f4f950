package settle

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/control/roomtest"
	"muniment.example/control/store"
	"muniment.example/sealer"
)

// TestReplay: packs are rated by the rules in the log, so an older copy of the database is brought to
// the same state.
func TestReplay(t *testing.T) {
	r, clock := newService(t)
	was := payee(t, r.db, tenantID)
	payeeID := was.ID
	made, err := createRule(t, r.db, ruleFor(was))
	require.NoError(t, err)
	clock.Advance(time.Hour)
	retired, err := r.retireRule(t.Context(), tenantID, made.ID, byKey)
	require.NoError(t, err)
	change := was
	change.Name, change.PayoutRef, change.TaxID = "Another name", new("DE00 1234"), new("tax 7")
	renamed, err := r.changeCounterparty(t.Context(), payeeID, change, byKey)
	require.NoError(t, err)
	newest := map[string]sealer.Event{}
	for _, e := range roomtest.Events(t, r.db) {
		newest[e.Subject.ID] = e
	}
	edit := func(statement string, args ...any) {
		t.Helper()
		require.NoError(t, r.db.Change(t.Context(), func(tx *store.Tx) error {
			_, err := tx.ExecContext(t.Context(), statement, args...)
			return err
		}))
	}
	replay := func() (changed int) {
		t.Helper()
		for _, id := range []string{payeeID, made.ID} {
			e := newest[id]
			require.NoError(t, r.db.Change(t.Context(), func(tx *store.Tx) error {
				did, err := Replay(t.Context(), tx, &e)
				if did {
					changed++
				}
				return err
			}))
		}
		return changed
	}
	shows := func(c Counterparty) {
		t.Helper()
		rule, err := rules.Find(t.Context(), r.db.Read(), tenantID, made.ID)
		require.NoError(t, err)
		require.Equal(t, retired, *rule)
		found, err := counterparties.Find(t.Context(), r.db.Read(), tenantID, payeeID)
		require.NoError(t, err)
		require.Equal(t, c, *found)
	}
	require.Zero(t, replay(), "the database shows it all")
	edit(`UPDATE settlement_rules SET state = 'ACTIVE', effective_until = NULL, revision = $1`, made.Revision)
	edit(`UPDATE counterparties SET name = 'Studio', revision = $1`, was.Revision)
	require.Equal(t, 2, replay())
	renamed.PayoutRef, renamed.TaxID = nil, nil // no event has them
	shows(renamed)

	edit(`DELETE FROM settlement_rules`)
	edit(`DELETE FROM counterparties`)
	require.Equal(t, 2, replay())
	require.Zero(t, replay())
	shows(renamed)
}
