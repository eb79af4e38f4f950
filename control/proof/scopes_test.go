package proof

import (
	"context"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/bench/waittest"
	"muniment.example/control/objects"
	"muniment.example/control/settle"
	"muniment.example/control/store"
	"muniment.example/gate"
	"muniment.example/gateway/api"
	"muniment.example/pipeline"
	"muniment.example/sealer"
	"muniment.example/sealer/rate"
	"muniment.example/sealer/settlement"
)

// issue commits the event of a right with a scope. The database has no record of it.
func (h *fixture) issue(rightID, scope string) {
	h.T.Helper()
	require.NoError(h.T, h.DB.Change(h.T.Context(), func(tx *store.Tx) error {
		return tx.Emit(h.T.Context(), &store.Kind{Type: sealer.TypeRightIssued}, sealer.Event{
			TenantID: h.Tenant, Actor: operator, Subject: sealer.Ref{Kind: sealer.SubjectRight, ID: rightID}, Data: fmt.Appendf(nil, `{"scope":%s}`, scope),
		})
	}))
}

func under(right string) delivery { return delivery{Right: right, Substrate: gate.DOOH, DwellMs: 1000} }

// rated are the rights that have a line.
func rated(s *settlement.Settlement) (rights []string) {
	for _, l := range s.Lines {
		rights = append(rights, l.RightID)
	}
	return rights
}

// TestScopesOfThePack: what rules name of a right is what its event says, wherever in the log that is and whether
// or not the database has the right. A pack is not sealed as long as an event may be missing.
func TestScopesOfThePack(t *testing.T) {
	h := build(t)
	h.price("1", func(r *settle.Rule) { r.Unit, r.Match.Campaign = rate.Event, new("spring") })
	h.issue("rgh_before", `{"campaigns":["winter","spring"]}`)
	h.Deliver(under("rgh_before"), under("rgh_never"), under("rgh_behind"))
	h.issue("rgh_behind", `{"campaigns":["spring"]}`)
	s := h.seal()[0].Settlement
	require.Equal(t, []string{"rgh_before", "rgh_behind"}, rated(s))
	require.Equal(t, "rgh_never", s.Unrated[0].RightID)

	h.Deliver(under("rgh_late"))
	h.Pause(0)
	h.issue("rgh_late", `{"campaigns":["spring"]}`)
	usual := h.service.cfg.WaitFor
	h.service.cfg.WaitFor = 20 * time.Millisecond
	require.Equal(t, api.WarehouseBehind, h.refusalOfSome("").Reason)
	h.service.cfg.WaitFor = usual
	require.Len(t, h.packs(), 1)
	h.Loaders[0].Resume()
	require.NoError(t, h.service.AwaitLoaded(t.Context(), h.Tenant))
	require.Equal(t, []string{"rgh_late"}, rated(h.seal()[0].Settlement))
	h.check()

	h.issue("rgh_before", `{"campaigns":[]}`) // no honest service does this
	h.Deliver(under("rgh_before"))
	require.Equal(t, []string{"rgh_before"}, rated(h.seal()[0].Settlement), "the oldest event counts")
}

// cut is a warehouse that was lost, and lacks what the log no longer has.
type cut struct{ pipeline.Warehouse }

func (w *cut) Events(ctx context.Context, q pipeline.EventQuery) ([]pipeline.Row, error) {
	if len(q.SubjectIDs) == 0 {
		return w.Warehouse.Events(ctx, q)
	}
	return nil, q.Check()
}

// TestScopesOfALostWarehouse: packs still have the events that neither log nor warehouse has, and are read once for
// a right that they don't have either.
func TestScopesOfALostWarehouse(t *testing.T) {
	h := build(t)
	h.issue("rgh_a", `{"campaigns":["spring"]}`)
	h.seal()
	h.issue("rgh_a", `{}`)
	h.issue("rgh_b", `{"labels":{"venue":"north"}}`)
	h.seal()
	h.service.warehouse = &cut{h.Warehouse}
	scopes := func(ids ...string) (names []string) {
		rights, err := h.service.Scopes(t.Context(), h.Tenant, nil, ids)
		require.NoError(t, err)
		for _, r := range rights {
			names = append(names, fmt.Sprint(r.RightID, r.Campaigns, r.Labels))
		}
		return names
	}
	want := []string{"rgh_a[spring] map[]", "rgh_b[] map[venue:north]"}
	require.Equal(t, want, scopes("rgh_b", "rgh_never", "rgh_a"))
	require.Equal(t, want, scopes("rgh_a", "rgh_b", "rgh_b"))
	for _, p := range h.packs() {
		require.NoError(t, os.Remove(h.path(p.ID)))
	}
	require.Empty(t, scopes("rgh_never"))
	_, err := h.service.Scopes(t.Context(), h.Tenant, nil, []string{"rgh_other"})
	require.ErrorIs(t, err, objects.ErrNone)
	h.service.warehouse = h.Warehouse
}

// TestScopesOfManyRights: however many are asked for, each is found, once, and of this tenant.
func TestScopesOfManyRights(t *testing.T) {
	h := build(t)
	var ids []string
	for i := range 2*pageRows + 3 {
		ids = append(ids, fmt.Sprintf("rgh_%05d", i))
	}
	require.NoError(t, h.DB.Change(t.Context(), func(tx *store.Tx) error {
		for i, id := range ids {
			err := tx.Emit(t.Context(), &store.Kind{Type: sealer.TypeRightIssued}, sealer.Event{
				TenantID: h.Tenant, Actor: operator, Subject: sealer.Ref{Kind: sealer.SubjectRight, ID: id}, Data: fmt.Appendf(nil, `{"scope":{"campaigns":["%d","all"]}}`, i),
			})
			if err != nil {
				return err
			}
		}
		return nil
	}))
	waittest.Until(t, func() bool {
		left, err := store.List(t.Context(), h.DB.Read(), "an event that waits for the log", store.Text, `SELECT event_id FROM outbox LIMIT 1`)
		return err == nil && len(left) == 0
	}, "so many events are in the log")
	shuffled := slices.Clone(ids)
	slices.Reverse(shuffled)
	rights, err := h.service.Scopes(t.Context(), h.Tenant, nil, shuffled)
	require.NoError(t, err)
	require.Len(t, rights, len(ids))
	for i, r := range rights {
		require.Equal(t, ids[i], r.RightID)
		require.Contains(t, r.Campaigns, fmt.Sprint(i))
	}
	rights, err = h.service.Scopes(t.Context(), stranger, nil, ids[:1])
	require.NoError(t, err)
	require.Empty(t, rights)
}
