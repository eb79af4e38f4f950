package statement

import (
	"context"
	"database/sql"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/control/store"
	"muniment.example/gateway/api"
	"muniment.example/gateway/auth"
)

// TestStaleDrafts: a draft is said to be stale, by what overtook it, where it can't be issued, and nowhere else.
func TestStaleDrafts(t *testing.T) {
	h := newFixture(t, t.TempDir())
	ctx := auth.WithPrincipal(t.Context(), auth.Principal{Key: &api.Key{TenantID: tenantID}})
	stale := func(id string) string {
		t.Helper()
		one, _, err := h.get(ctx, &getInput{StatementID: id, Format: "json"})
		require.NoError(t, err)
		in := listInput{State: string(Draft)}
		in.Limit = 500
		list, err := h.getAll(ctx, &in)
		require.NoError(t, err)
		for _, s := range list.Statements {
			if s.ID == id {
				require.Equal(t, one.Statement, s, "a list says the same")
			}
		}
		if one.Statement.Stale == nil {
			return ""
		}
		return string(*one.Statement.Stale)
	}
	refused := func(id string) {
		t.Helper()
		_, err := h.issue(t.Context(), tenantID, id, byKey)
		conflict(t, err, "draft it again")
	}
	played := h.play("rgh_a", on(1))
	euros, same := h.mustDraft(statementFor(0, 3)), h.mustDraft(statementFor(1, 4))
	dollars := statementFor(2, 5)
	dollars.Currency = "USD"
	beside := h.mustDraft(dollars)
	apart := h.mustDraft(statementFor(6, 9))
	for _, s := range []Statement{euros, beside, apart} {
		require.Empty(t, stale(s.ID))
	}
	first := h.issued(euros.ID)
	require.Empty(t, stale(first.ID), "what is issued never is")
	require.Equal(t, "OVERLAPPED", stale(beside.ID))
	refused(beside.ID)
	require.Equal(t, "STATED", stale(same.ID))
	refused(same.ID)
	_, err := h.draft(t.Context(), statementFor(1, 4), byKey)
	conflict(t, err, "Correct that statement")
	require.Empty(t, stale(apart.ID))

	h.play("rgh_a", on(2))
	one, other := h.mustCorrect(first.ID), h.mustCorrect(first.ID)
	h.dispute("dsp_1", "", 0, played)
	require.Equal(t, "DISPUTED", stale(one.ID))
	require.Empty(t, stale(apart.ID), "the dispute is about another time")
	refused(one.ID)
	h.resolve("dsp_1", "REJECTED")
	require.Empty(t, stale(one.ID))
	h.issued(one.ID)
	require.Equal(t, "CORRECTED", stale(other.ID))
	refused(other.ID)

	h.dispute("dsp_2", "", 0, played)
	h.resolve("dsp_2", "UPHELD")
	third := h.mustCorrect(first.ID)
	require.Empty(t, stale(third.ID), "it was drafted with the dispute")
	require.NoError(t, h.voids(first.ID))
	require.Equal(t, "CORRECTED", stale(third.ID))
	refused(third.ID)
}

// asking counts queries.
type asking struct {
	store.Querier
	queries int
}

func (a *asking) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	a.queries++
	return a.Querier.QueryContext(ctx, query, args...)
}

// TestStaleDraftsOfOneTime: what overtook drafts of one time is read once for all. One that is issued after it was read was not
// overtaken by itself.
func TestStaleDraftsOfOneTime(t *testing.T) {
	h := newFixture(t, t.TempDir())
	h.play("rgh_a", on(1))
	var drafts []Statement
	for range 9 {
		drafts = append(drafts, h.mustDraft(statementFor(0, 3)))
	}
	mark := func(q store.Querier) (marked string) {
		t.Helper()
		list := slices.Clone(drafts)
		require.NoError(t, markStale(t.Context(), q, tenantID, list))
		for _, s := range list {
			if s.Stale != nil {
				marked += string(*s.Stale) + " "
			}
		}
		return marked
	}
	counts := &asking{Querier: h.db.Read()}
	require.Empty(t, mark(counts))
	require.LessOrEqual(t, counts.queries, 3)
	h.issued(drafts[4].ID)
	require.Equal(t, strings.Repeat("STATED ", 8), mark(h.db.Read()), "all but the one that was issued")
}
