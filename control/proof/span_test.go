package proof

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/control/route"
	"muniment.example/gateway/api"
	"muniment.example/gateway/auth"
	"muniment.example/pipeline"
	"muniment.example/sealer/pack"
)

// TestSpan: a run of packs counts what its entries are, as the warehouse does.
func TestSpan(t *testing.T) {
	h := build(t)
	began := h.Now()
	_, none, err := h.service.SealedIn(t.Context(), h.Tenant, time.Time{}, h.Now(), nil)
	require.NoError(t, err)
	require.Zero(t, none)
	for range 4 {
		h.Deliver(deliveries(3)...)
		h.Deliver(delivery{DwellMs: 100, Key: "a"})
		h.seal()
		h.Advance(time.Hour)
	}
	packs := h.packs()
	first, last, err := h.service.SealedIn(t.Context(), h.Tenant, began, h.Now(), nil)
	require.NoError(t, err)
	all, err := h.service.Span(t.Context(), h.Tenant, first, last)
	require.NoError(t, err)
	require.Equal(t, []any{packs[0].ID, packs[3].ID, packs[0].First, packs[3].Last}, []any{all.FirstID, all.LastID, all.From, all.To})
	sums, err := h.Warehouse.Metering(t.Context(), pipeline.MeterQuery{TenantID: h.Tenant, AsOf: new(all.To.Next())})
	require.NoError(t, err)
	var want []pack.MeterRow
	for i := range sums {
		want = append(want, sums[i].Sealed())
	}
	require.ElementsMatch(t, want, all.Metering)
	entries := int64(0)
	for _, p := range packs {
		entries += int64(p.Count)
	}
	require.Equal(t, entries, all.Entries)

	for name, c := range map[string]struct {
		from, to    time.Time
		through     []string
		first, last int64
	}{
		"those of a time":          {began.Add(time.Hour), began.Add(3 * time.Hour), nil, 2, 3},
		"up to another":            {began.Add(time.Hour), began.Add(2 * time.Hour), []string{packs[0].ID, packs[3].ID}, 2, 4},
		"up to one that is before": {began.Add(2 * time.Hour), began.Add(3 * time.Hour), []string{packs[0].ID}, 3, 3},
	} {
		first, last, err := h.service.SealedIn(t.Context(), h.Tenant, c.from, c.to, c.through)
		require.NoError(t, err)
		require.Equal(t, [2]int64{c.first, c.last}, [2]int64{first, last}, name)
	}
	_, foreign, err := h.service.SealedIn(t.Context(), "tnt_other", began, h.Now(), []string{packs[0].ID})
	require.NoError(t, err)
	require.Zero(t, foreign)
}

// TestListOfSomePacks: the packs of a time, and those up to one, page by page.
func TestListOfSomePacks(t *testing.T) {
	h := build(t)
	began := h.Now()
	for range 4 {
		h.Deliver(deliveries(1)...)
		h.seal()
		h.Advance(time.Hour)
	}
	packs := h.packs()
	at := func(hours time.Duration) string { return began.Add(hours * time.Hour).UTC().Format(time.RFC3339Nano) }
	of := func(tenantID string, in listInput) (numbers []int64, err error) {
		ctx := auth.WithPrincipal(t.Context(), auth.Principal{Key: &api.Key{TenantID: tenantID}})
		in.Limit = 1
		for {
			page, err := h.service.list(ctx, &in)
			if err != nil {
				return nil, err
			}
			for _, p := range page.Packs {
				numbers = append(numbers, int64(slices.IndexFunc(packs, func(k Pack) bool { return k.ID == p.ID })))
			}
			if page.NextCursor == nil {
				return numbers, nil
			}
			in.Cursor = *page.NextCursor
		}
	}
	for name, c := range map[string]struct {
		in   listInput
		want []int64
	}{
		"all":               {listInput{}, []int64{0, 1, 2, 3}},
		"of a time":         {listInput{Window: route.Window{From: at(1), To: at(3)}}, []int64{1, 2}},
		"up to one":         {listInput{UpTo: packs[2].ID}, []int64{0, 1, 2}},
		"of both":           {listInput{Window: route.Window{From: at(1)}, UpTo: packs[2].ID}, []int64{1, 2}},
		"none of that time": {listInput{Window: route.Window{From: at(9)}}, nil},
	} {
		got, err := of(h.Tenant, c.in)
		require.NoError(t, err, name)
		require.Equal(t, c.want, got, name)
	}
	_, err := of("tnt_other", listInput{UpTo: packs[0].ID})
	require.Equal(t, api.ValidationFailed, api.From(err).Code, "another tenant's is none")
}

// TestLastSeal is what the newest pack of any tenant states.
func TestLastSeal(t *testing.T) {
	h := build(t)
	at, err := LastSeal(t.Context(), h.DB.Read())
	require.NoError(t, err)
	require.Zero(t, at)
	for range 2 {
		h.Deliver(deliveries(1)...)
		h.seal()
		h.Advance(time.Minute)
	}
	packs := h.packs()
	at, err = LastSeal(t.Context(), h.DB.Read())
	require.NoError(t, err)
	require.Equal(t, packs[1].SealedAt.Time, at)
	require.True(t, at.After(packs[0].SealedAt.Time))
}
