package console

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestPacksOfAMonth are those that were sealed in it, by the clocks of the page's zone; those of a statement are from an hour before its
// time to the newest that it states.
func TestPacksOfAMonth(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	require.NoError(t, err)
	records := map[string]string{
		"/v1/packs":            `{"packs":[{"id":"ppk_1","sealedAt":"2026-10-05T00:00:00Z"}],"nextCursor":"c"}`,
		"/v1/statements":       `{"statements":[{"id":"stm_0","period":"2026-09","state":"ISSUED"},{"id":"stm_1","period":"2026-10","state":"ISSUED"}]}`,
		"/v1/statements/stm_1": `{"statement":{"id":"stm_1","period":"2026-10","state":"ISSUED","packId":"ppk_9","from":"2026-09-30T22:00:00Z"},"document":{"since":"2026-09-01T00:00:00Z"}}`,
	}
	show := func(query string) (text, page string, asked []string) {
		s, requests := recorded(t, records)
		p, w := s.page(Path + "/proof" + query)
		p.Session.Zone = berlin
		require.NoError(t, showProof(p))
		return readable(w.Body.String()), w.Body.String(), *requests
	}
	text, page, asked := show("?month=2026-10")
	require.Equal(t, []string{"/v1/packs?from=2026-09-30T22%3A00%3A00.000Z&limit=50&to=2026-10-31T23%3A00%3A00.000Z", "/v1/statements?limit=100"}, asked)
	require.Contains(t, text, "Packs of October 2026")
	require.Contains(t, page, `href="/console/proof?statementId=stm_1">The packs that Statement October 2026 rests on</a>`)
	require.Contains(t, page, `href="/console/proof?cursor=c&amp;month=2026-10"`)
	require.Contains(t, page, `href="/console/proof.csv?month=2026-10"`)
	text, page, asked = show("?statementId=stm_1")
	require.Equal(t, []string{"/v1/statements/stm_1", "/v1/packs?from=2026-08-31T23%3A00%3A00.000Z&limit=50&upTo=ppk_9"}, asked)
	require.Contains(t, text, "Statement October 2026 rests on these packs")
	require.Contains(t, page, `href="/console/proof.csv?statementId=stm_1"`)
	s, _ := recorded(t, records)
	p, w := s.page(Path + "/proof?month=2026-1x")
	require.NoError(t, showProof(p))
	require.Equal(t, 422, w.Code)
	records["/v1/packs"] = `{"packs":[]}`
	text, _, _ = show("?month=2026-10")
	require.Contains(t, text, "No pack was sealed then.")
}
