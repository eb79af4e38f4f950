package proof

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/gateway/api"
	"muniment.example/pipeline"
	"muniment.example/sealer"
)

// some is one call with a short deadline.
func (h *fixture) some(upTo string) Sealed {
	h.T.Helper()
	sealed, err := h.service.SealSome(h.T.Context(), h.Tenant, h.position(upTo), operator)
	require.NoError(h.T, err)
	return sealed
}

func (h *fixture) position(text string) *sealer.Position {
	h.T.Helper()
	if text == "" {
		return nil
	}
	at, err := sealer.ParsePosition(text)
	require.NoError(h.T, err)
	return &at
}

// TestCallsUntilMoreIsFalse have time for one pack each.
func TestCallsUntilMoreIsFalse(t *testing.T) {
	h := build(t, Config{MaxEntries: 10, WorkFor: time.Nanosecond})
	h.Deliver(deliveries(25)...)
	end := h.End()
	first := h.some("")
	require.Equal(t, end.String(), first.UpTo)
	require.True(t, first.More)
	require.Len(t, first.Packs, 1)
	h.Deliver(deliveries(3)...)
	second := h.some(first.UpTo)
	require.Equal(t, first.UpTo, second.UpTo)
	require.True(t, second.More)
	third := h.some(first.UpTo)
	require.False(t, third.More)
	require.Len(t, h.packs(), 3)
	require.Empty(t, third.Pending)
	h.seal()
	require.Len(t, deliveriesOf(h.check()), 28)
}

// TestWhatIsLoadedIsSealed while the loader is short of the log's end.
func TestWhatIsLoadedIsSealed(t *testing.T) {
	h := build(t, Config{WaitFor: 20 * time.Millisecond})
	h.Deliver(deliveries(2)...)
	h.Pause(0)
	h.Deliver(deliveries(3)...)
	sealed := h.someBehind("")
	require.Len(t, sealed.Packs, 1)
	require.Equal(t, 2, headers(t, sealed)[0].Count)
	require.True(t, sealed.More)
	require.Equal(t, []Pending{{Source: sourceWarehouse, Count: 3}}, sealed.Pending)

	require.Equal(t, api.WarehouseBehind, h.refusalOfSome(sealed.UpTo).Reason, "nothing new can be sealed")
	require.Equal(t, api.WarehouseBehind, h.behind().Reason, "who needs the whole gets nothing less")

	h.reopen(Config{})
	rest := h.some(sealed.UpTo)
	require.False(t, rest.More)
	require.Empty(t, rest.Pending)
	require.Len(t, deliveriesOf(h.check()), 5)
}

// someBehind is some, as often as there was no time for the warehouse.
func (h *fixture) someBehind(upTo string) Sealed {
	h.T.Helper()
	for range 100 {
		sealed, err := h.service.SealSome(h.T.Context(), h.Tenant, h.position(upTo), operator)
		if err == nil || api.From(err).Reason != api.LogUnavailable {
			require.NoError(h.T, err)
			return sealed
		}
	}
	h.T.FailNow()
	return Sealed{}
}

// TestNoOldPackEndsWhereTheWarehouseIs: from the time of a pack that is not full a verifier
// concludes what it holds.
func TestNoOldPackEndsWhereTheWarehouseIs(t *testing.T) {
	h := build(t, Config{WaitFor: 20 * time.Millisecond, MaxEntries: 3})
	h.Deliver(deliveries(5)...)
	h.Pause(0)
	h.Deliver(deliveries(1)...)
	h.Advance(raggedFor + time.Second)
	sealed := h.someBehind("")
	require.Len(t, sealed.Packs, 1, "a full one may have been cut off anywhere")
	require.Equal(t, 3, headers(t, sealed)[0].Count)
	require.True(t, sealed.More)
	require.Equal(t, api.WarehouseBehind, h.refusalOfSome("").Reason)
	h.reopen(Config{})
	h.seal()
	require.Len(t, deliveriesOf(h.check()), 6)
}

// TestUpToIsNoEnd: a caller may name any position that the log has had, but not have a pack
// end there.
func TestUpToIsNoEnd(t *testing.T) {
	h := build(t)
	h.Deliver(deliveries(5)...)
	sealed := h.some(sealer.Position{Generation: h.End().Generation, Offset: 2}.String())
	require.Equal(t, 5, headers(t, sealed)[0].Count)
	require.False(t, sealed.More)

	behind := h.End()
	behind.Offset += 10
	_, err := h.service.SealSome(t.Context(), tenant, &behind, operator)
	require.Equal(t, "upTo", api.From(err).Field)
	for _, upTo := range []string{behind.String(), "0.1.0", "x", "1.0.-1"} {
		got := h.post(tenant, "/v1/proof-packs/seal", `{"upTo":"`+upTo+`"}`)
		require.Equal(t, 422, got.Code, "%s: %s", upTo, got.Body)
		require.Contains(t, got.Body.String(), `"field":"upTo"`)
	}
	require.Equal(t, 200, h.post(tenant, "/v1/proof-packs/seal", `{"upTo":"`+sealed.UpTo+`"}`).Code)
	require.Equal(t, 200, h.post(tenant, "/v1/proof-packs/seal", `{}`).Code)
}

// TestEachPackLooksAtItsOwnDuplicates counts the queries to the warehouse.
func TestEachPackLooksAtItsOwnDuplicates(t *testing.T) {
	h := build(t)
	counting := &countingWarehouse{Warehouse: h.Warehouse}
	h.reopen(Config{MaxEntries: 10})
	counting.Warehouse = h.Warehouse
	h.service.warehouse = counting
	for range 4 {
		h.Deliver(deliveries(9)...)
		h.Deliver(delivery{Key: "again"})
	}
	h.seal()
	require.Len(t, h.packs(), 4)
	require.Zero(t, counting.events, "no event is looked up by its id")
	for i, s := range counting.slices[1:] {
		require.Equal(t, counting.slices[i][1], s[0], "each begins where the last has ended")
	}
	h.check()
}

// countingWarehouse records the slices of duplicates that are read, and counts events that are.
type countingWarehouse struct {
	pipeline.Warehouse
	slices [][2]sealer.Position
	events int
}

func (a *countingWarehouse) Duplicates(ctx context.Context, tenantID string, after, upTo sealer.Position) ([]pipeline.Duplicate, error) {
	a.slices = append(a.slices, [2]sealer.Position{after, upTo})
	return a.Warehouse.Duplicates(ctx, tenantID, after, upTo)
}

func (a *countingWarehouse) Event(ctx context.Context, tenantID, eventID string) (pipeline.Row, error) {
	a.events++
	return a.Warehouse.Event(ctx, tenantID, eventID)
}
