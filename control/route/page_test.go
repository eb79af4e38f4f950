package route_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/control/route"
	"muniment.example/control/store"
	"muniment.example/gateway/api"
)

func TestCursors(t *testing.T) {
	rows := []string{"d", "c", "b", "a"}
	page, next := store.Cut(rows, 3, func(s string) string { return s })
	require.Equal(t, rows[:3], page)
	cursor := *route.PageOf("/v1/letters", "").Next(next)
	slice, err := route.PageOf("/v1/letters", cursor).Slice()
	require.NoError(t, err)
	require.Equal(t, store.Slice{Behind: "b"}, slice)
	_, err = route.PageOf("/v1/numbers", cursor).Slice()
	require.Equal(t, "cursor", api.From(err).Field, "of another list")
	page, next = store.Cut(rows, 4, func(s string) string { return s })
	require.Equal(t, rows, page)
	require.Nil(t, route.PageOf("/v1/letters", "").Next(next))
	for _, bad := range []string{"x", "bGlzdDo", "bGlzdA", "bGlzdDpi!", "bGlzdDpiYg==", "bGlzdDoA", "bGlzdDr_"} {
		_, err := route.PageOf("list", bad).Slice()
		require.Equal(t, "cursor", api.From(err).Field, bad)
	}
}
