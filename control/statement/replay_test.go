package statement

import (
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/control/roomtest"
	"muniment.example/control/store"
	"muniment.example/sealer"
)

// TestReplay brings the statements of an older database to the log's state: a billed period is not
// billed again.
func TestReplay(t *testing.T) {
	h := newFixture(t, t.TempDir())
	h.play("rgh_a", on(1))
	h.play("rgh_a", on(4))
	paid := h.mustIssue(statementFor(0, 2))
	open := h.mustIssue(statementFor(2, 3))
	draft := h.mustDraft(statementFor(3, 5))
	before := map[string]*fullStatement{}
	for _, id := range []string{paid.ID, open.ID, draft.ID} {
		before[id] = h.read(id)
	}
	paid, err := h.settle(t.Context(), tenantID, paid.ID, payment("transfer 7"), byKey)
	require.NoError(t, err)
	newest := map[string]sealer.Event{}
	for _, e := range roomtest.Events(t, h.db) {
		if e.Subject.Kind == "statement" {
			newest[e.Subject.ID] = e
		}
	}
	replay := func() (changed int) {
		for _, e := range newest {
			require.NoError(t, h.db.Change(t.Context(), func(tx *store.Tx) error {
				did, err := Replay(t.Context(), tx, &e)
				if did {
					changed++
				}
				return err
			}))
		}
		return changed
	}
	require.Zero(t, replay(), "the database shows it all")

	// The copy is from before the payment: the signed text is there.
	h.change(`UPDATE statements SET state = 'ISSUED', reference = NULL, settled_at = NULL, revision = $2 WHERE statement_id = $1`, paid.ID, before[paid.ID].Revision)
	require.Equal(t, 1, replay())
	require.Equal(t, fullStatement{paid, before[paid.ID].Document}, *h.read(paid.ID))

	// It is from before the issue: what was signed is not there, and its period is taken.
	h.change(`UPDATE statements SET state = 'DRAFT', reference = NULL, settled_at = NULL, issued_at = NULL, sha256 = NULL, revision = 1, sequence = 0, document = '{}' WHERE state <> 'DRAFT'`)
	require.Equal(t, 2, replay())
	require.Equal(t, fullStatement{Statement: paid}, *h.read(paid.ID))
	require.Equal(t, fullStatement{Statement: open}, *h.read(open.ID))

	// It is from before all of them.
	h.change(`DELETE FROM statements`)
	require.Equal(t, 3, replay())
	require.Zero(t, replay())
	require.Equal(t, fullStatement{Statement: paid}, *h.read(paid.ID))
	gone := h.read(draft.ID)
	require.Equal(t, Discarded, gone.State, "its text is lost")
	for _, period := range [][2]float64{{1, 2}, {2, 5}} {
		_, err = h.draft(t.Context(), statementFor(period[0], period[1]), byKey)
		conflict(t, err, "overlaps")
	}
	_, err = h.read(paid.ID).document()
	conflict(t, err, "the signed file that was handed out is the proof")
	_, err = h.receiptFinder(t.Context(), h.read(open.ID), line{})
	conflict(t, err, "the signed file")
	settled, err := h.settle(t.Context(), tenantID, open.ID, payment("transfer 8"), byKey)
	require.NoError(t, err)
	require.Equal(t, Settled, settled.State, "it is paid as any")
	again, err := h.restate(t.Context(), tenantID, open.ID)
	require.NoError(t, err)
	require.Nil(t, again.now, "there is no text to compare")
	require.Empty(t, again.differs)

	// What they state keeps its rules, without their texts.
	h.reprice("50")
	h.rule("USD", "3")
	dollars := statementFor(0, 2)
	dollars.Currency = "USD"
	require.Equal(t, "0", h.mustIssue(dollars).Total)

	foreign := newest[paid.ID]
	foreign.TenantID = "tnt_unknown"
	newest = map[string]sealer.Event{paid.ID: foreign}
	require.Zero(t, replay(), "the database knows no such tenant")
}

// TestReplayOfCorrections restores the corrections that an older database lacks: nothing is corrected
// twice.
func TestReplayOfCorrections(t *testing.T) {
	h := newFixture(t, t.TempDir())
	h.play("rgh_a", on(1))
	first := h.mustIssue(statementFor(0, 3))
	h.play("rgh_a", on(2))
	one := h.issued(h.mustCorrect(first.ID).ID)
	h.play("rgh_a", on(2.1))
	two := h.issued(h.mustCorrect(first.ID).ID)
	h.play("rgh_a", on(2.2))
	lost := h.mustCorrect(first.ID)
	require.EqualValues(t, []int64{0, 1, 2}, []int64{first.Correction, one.Correction, two.Correction})

	h.change(`DELETE FROM statements WHERE corrects IS NOT NULL`)
	for _, e := range roomtest.Events(t, h.db) {
		require.NoError(t, h.db.Change(t.Context(), func(tx *store.Tx) error {
			_, err := Replay(t.Context(), tx, &e)
			return err
		}))
	}
	require.Equal(t, fullStatement{Statement: two}, *h.read(two.ID))
	require.Equal(t, Discarded, h.read(lost.ID).State)
	_, err := h.correct(t.Context(), tenantID, first.ID, byKey)
	conflict(t, err, "older than the statement "+two.ID+", so its text is lost")
	conflict(t, err, "Restore a copy from after its issue")
}
