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

// TestProofSaysWhatWaits: how much is in no pack, and since when.
func TestProofSaysWhatWaits(t *testing.T) {
	records := map[string]string{
		"/v1/packs":      `{"packs":[{"id":"ppk_2","treeSize":93,"sealedAt":"2026-10-05T08:00:00Z"},{"id":"ppk_1","treeSize":91,"sealedAt":"2026-10-05T07:00:00Z"}]}`,
		"/v1/checkpoint": `{"checkpoint":"note"}`,
		"/v1/tenant":     `{"tenant":{"counts":{"events":111}}}`,
	}
	show := func() string {
		s, _ := recorded(t, records)
		p, w := s.page(Path + "/proof")
		require.NoError(t, showProof(p))
		return readable(w.Body.String())
	}
	require.Contains(t, show(), "93 entries sealed 18 not sealed yet They came after the newest pack was sealed, on 5 Oct 2026, 08:00:00 .")
	records["/v1/tenant"] = `{"tenant":{"counts":{"events":93}}}`
	require.Contains(t, show(), "93 entries sealed nothing waits")
}

// TestFilesOfAnAuditor have every page of what they list: who did what to a right, and what the gate refused.
func TestFilesOfAnAuditor(t *testing.T) {
	s, asked := recorded(t, map[string]string{
		"/v1/events":       `{"events":[{"event":{"eventId":"evt_1","at":"2026-10-05T08:00:00Z","type":"right.suspended","actor":{"kind":"member","id":"mbr_1"},"data":{"stateReason":"=check"}}}],"nextCursor":null}`,
		"/v1/rights/rgh_1": `{}`,
		"/v1/refusals":     `{"rows":[{"bucket":"2026-10-05T00:00:00Z","rule":"messaging-optout","rightId":"rgh_1","refusals":3}],"nextCursor":null}`,
	})
	s.operations()["get-right"] = operation{method: "GET", path: "/v1/rights/{rightId}"}
	s.operations()["list-events"] = operation{method: "GET", path: "/v1/events"}
	s.operations()["get-refusals"] = operation{method: "GET", path: "/v1/refusals"}
	p, w := s.page(Path + "/rights/rgh_1/acts.csv")
	p.r.SetPathValue("rightId", "rgh_1")
	p.Session.Actor.ID, p.Session.Name = "mbr_1", "Ada"
	require.NoError(t, sendActsOn(p))
	require.Contains(t, w.Body.String(), "2026-10-05T08:00:00.000Z,suspended,mbr_1,Ada,'=check,evt_1\n")
	require.Contains(t, (*asked)[1], "subjectId=rgh_1&subjectKind=right&type=right.issued")
	p, w = s.page(Path + "/refusals.csv?from=2026-10-01T00:00:00Z&to=2026-10-08T00:00:00Z")
	require.NoError(t, sendRefusals(p))
	require.Contains(t, w.Body.String(), "Day,Rule,Right,Refused\n2026-10-05T00:00:00.000Z,messaging-optout,rgh_1,3\n")
	require.Equal(t, "/v1/refusals?bucket=day&from=2026-10-01T00%3A00%3A00Z&limit=500&timeZone=UTC&to=2026-10-08T00%3A00%3A00Z", (*asked)[len(*asked)-1])
}
