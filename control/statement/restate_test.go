package statement

import (
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/control/store"
	"muniment.example/gateway/api"
	"muniment.example/pipeline"
)

// row is that of a receipt.
func (h *fixture) row(receiptID string) pipeline.Row {
	h.t.Helper()
	row, err := h.warehouse.Event(h.t.Context(), tenantID, api.EventOf(receiptID))
	require.NoError(h.t, err)
	return row
}

// TestStatementIsComputedAnew: a recomputation differs exactly if a stated amount changes, to the
// micro-unit.
func TestStatementIsComputedAnew(t *testing.T) {
	h := newFixture(t, t.TempDir())
	first, held, upheld := h.play("rgh_a", on(1)), h.play("rgh_a", on(1.2)), h.play("rgh_b", on(1.3))
	second := h.play("rgh_b", on(2))
	h.dispute("dsp_1", "", 0, held)
	h.dispute("dsp_2", "", 0, upheld)
	h.resolve("dsp_2", "UPHELD")
	s := h.mustIssue(statementFor(0, 3))
	require.Equal(t, []string{"3", "1"}, []string{s.Total, s.HeldAmount})
	restate := func() *Difference {
		t.Helper()
		d, err := h.Restate(t.Context(), tenantID, s.ID)
		require.NoError(t, err)
		return d
	}
	require.Nil(t, restate())

	// Late receipts, new rules and the ends of disputes are of other statements.
	h.play("rgh_a", on(1.4))
	h.resolve("dsp_1", "UPHELD")
	h.rule("EUR", "9")
	require.Nil(t, restate())

	spoil := h.warehouse.Spoiled()
	row := h.row(second)
	spoil.Alter(row, 999) // no rule is for milliseconds, but a line says them
	require.Equal(t, &Difference{0, "0", "0"}, restate())
	spoil.Alter(row, row.Delivery.QuantityMs)
	require.Nil(t, restate())
	spoil.Delete(h.row(upheld))
	require.Nil(t, restate(), "it is left out")
	spoil.Delete(h.row(held))
	require.Equal(t, &Difference{0, "0", "-1"}, restate())
	spoil.Delete(h.row(first))
	require.Equal(t, &Difference{-1, "-1", "-1"}, restate())

}

// TestEditedStatementIsADifference: the database may be edited, and the log not.
func TestEditedStatementIsADifference(t *testing.T) {
	h := newFixture(t, t.TempDir())
	h.play("rgh_a", on(4))
	s := h.mustIssue(statementFor(3, 5))
	differs := func() string {
		t.Helper()
		again, err := h.restate(t.Context(), tenantID, s.ID)
		require.NoError(t, err)
		difference, err := h.Restate(t.Context(), tenantID, s.ID)
		require.NoError(t, err)
		require.Equal(t, again.differs != "", difference != nil)
		return again.differs
	}
	h.unloaded = api.Unavailable(api.WarehouseBehind, "not loaded yet", 0)
	_, err := h.Restate(t.Context(), tenantID, s.ID)
	require.Equal(t, api.WarehouseBehind, api.From(err).Reason, "its event is still to be loaded: %v", err)
	h.unloaded = nil
	var settled Statement
	h.meanwhile = func() {
		settled, err = h.settle(t.Context(), tenantID, s.ID, payment("transfer 7"), byKey)
		require.NoError(t, err)
	}
	require.Empty(t, differs(), "it is settled while its event is awaited")
	require.Equal(t, Settled, settled.State)
	for column, other := range map[string]any{"total": "7.5", "sha256": "x", "reference": "transfer 8", "pack_id": "ppk_0_0", "as_of": "soon", "state": "ISSUED", "from_at": 1, "updated_at": int64(1) << 50} {
		h.change(`UPDATE statements SET `+column+` = $2 WHERE statement_id = $1`, s.ID, other)
		require.Contains(t, differs(), "differs from its event", column)
		h.change(`DELETE FROM statements`)
		require.NoError(t, h.db.Change(t.Context(), func(tx *store.Tx) error {
			return statements.Restore(t.Context(), tx, nil, &fullStatement{Statement: settled})
		}))
		require.Empty(t, differs(), "restored")
	}
	invented := fullStatement{Statement: settled}
	invented.ID = "stm_invented"
	h.change(`DELETE FROM statements`)
	require.NoError(t, h.db.Change(t.Context(), func(tx *store.Tx) error { return statements.Restore(t.Context(), tx, nil, &invented) }))
	difference, err := h.Restate(t.Context(), tenantID, invented.ID)
	require.NoError(t, err)
	require.NotNil(t, difference, "it was never issued")
	h.change(`UPDATE statements SET statement_id = $1`, s.ID)
	require.Empty(t, differs())

	// With the hash changed too, only the log shows the edit.
	h.change(`UPDATE statements SET document = '{"total":"9"}' WHERE statement_id = $1`, s.ID)
	require.Contains(t, differs(), "not the signed one")
}

// TestStatementThatCannotBeComputed is a difference, and other statements are still compared.
func TestStatementThatCannotBeComputed(t *testing.T) {
	h := newFixture(t, t.TempDir())
	h.play("rgh_a", on(1))
	lost := h.mustIssue(statementFor(0, 2))
	h.mustIssue(statementFor(2, 3))
	h.play("rgh_a", on(4))
	h.mustIssue(statementFor(3, 5))
	delete(h.ends, uint64(lost.TreeSize))
	r := h.reconcile(0, 5)
	require.Len(t, r.Statements, 3)
	require.Len(t, r.Differences, 2)
	require.Contains(t, r.Differences[0].Message, "can't be recomputed: no such proof pack")
	require.Nil(t, r.Statements[0].Recomputed)
	require.NotNil(t, r.Statements[2].Recomputed)
}
