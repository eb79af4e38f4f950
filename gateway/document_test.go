package gateway

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/gateway/api"
)

// TestDocuments: a vendor's document is a batch like any other, found by its name or its media
// type, packed or not; the rows of it that are none are rejected in the document's own words.
func TestDocuments(t *testing.T) {
	w := newWorld(t, nil)
	line := func(id, dwell string) string {
		return fmt.Sprintf("%s,%s,%s,%s,anchor\n", id, halfPast.Format(time.RFC3339), dwell, w.right)
	}
	text := "rowId,playedAt,dwellMs,rightId,spatialAnchorId\n" + line("1", "4200") + line("2", "long") + line("3", "4200")
	got := w.ingested(w.send("text/csv; charset=utf-8", text))
	require.Equal(t, []string{"accepted", "rejected", "accepted"}, statuses(got))
	require.Equal(t, api.ValidationFailed, got.Results[1].Error.Code)
	require.Contains(t, got.Results[1].Error.Field, "dwellMs")
	target := pathBatch + "?format=csv&" + url.Values{"column.rowId": {"id"}}.Encode()
	renamed := strings.Replace(text, "rowId", "id", 1)
	got = w.ingested(w.raw(targeted(target, w.token, "text/plain", packed(t, "gzip", renamed), "Content-Encoding: gzip")))
	require.Equal(t, []string{"duplicate", "rejected", "duplicate"}, statuses(got))

	for _, c := range []struct {
		query, mediaType, body string
		status                 int
		field                  string
	}{
		{"?format=csv&colunm.rowId=id", "", text, 400, ""},
		{"?format=csv", "", "a,b\n\"", 400, ""},
		{"?format=nobody", "text/csv", text, 422, "format"},
		{"?format=", "application/json", text, 422, "format"},
		{"?tz=UTC", "application/json", text, 422, "tz"},
		{"?format=csv", "", text + strings.Repeat(line("", "1"), 1000), 422, "rows"},
	} {
		got := w.raw(targeted(pathBatch+c.query, w.token, c.mediaType, c.body))
		require.Equal(t, []any{c.status, c.field}, []any{got.status, field(t, got)}, c.query+got.body)
		requireEnvelope(t, got)
	}
	require.Len(t, w.log.All(), 2)
}
