package route_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"muniment/control/route"
	"muniment/control/store"
	"muniment/gateway/api"
)

func TestCursors(t *testing.T) {
	rows := []string{"d", "c", "b", "a"}
	page, next := store.Cut(rows, 3, func(s string) string { return s })
	require.Equal(t, rows[:3], page)
	slice, err := route.Page{Limit: 3, Cursor: *route.Cursor(next)}.Slice()
	require.NoError(t, err)
	require.Equal(t, store.Slice{Behind: "b", Limit: 3}, slice)
	page, next = store.Cut(rows, 4, func(s string) string { return s })
	require.Equal(t, rows, page)
	require.Nil(t, route.Cursor(next))
	for _, bad := range []string{"x", "MTo", "Mjph", "MTph!", "MTphYg==", "MToA", "MTr_"} {
		_, err := route.Page{Cursor: bad}.Slice()
		require.Equal(t, "cursor", api.From(err).Field, bad)
	}
}
