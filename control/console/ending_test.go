package console

import (
	"encoding/csv"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/control/route"
)

// TestWhatEndsWithinDays: the list is asked for by a number of days of the tenant's zone, the last one whole; it has all that ends then and is not
// revoked, in the order in which they end, and says how many these are. The choice is there whatever ends, and its address asks again.
func TestWhatEndsWithinDays(t *testing.T) {
	right := func(id, state, until string) string {
		return `{"id":"` + id + `","substrate":"DOOH","effectiveState":"` + state + `","scope":{"description":"` + id + ` wall"},"effectiveUntil":"` + until + `"}`
	}
	var asked []url.Values
	some, endless := true, false
	s := answering(t, nil)
	s.cfg.Now = func() time.Time { return time.Date(2026, 11, 30, 23, 30, 0, 0, time.UTC) } // 1 December in Berlin
	serve := func(w http.ResponseWriter, target string) {
		at, err := url.Parse(target)
		if err != nil {
			t.Error(err)
			return
		}
		response := `{"rights":[],"bases":[{"id":"bas_1","title":"a licence","state":"ACTIVE","effectiveUntil":"2026-12-15T23:00:00Z"}],"nextCursor":null}`
		if at.Path == "/v1/rights" {
			query := at.Query()
			switch {
			case query.Get("endsBy") != "":
				if asked = append(asked, query); !some {
					break
				}
				if endless {
					response = `{"rights":[` + strings.TrimSuffix(strings.Repeat(right("rgh_2", "REVOKED", "2026-12-20T23:00:00Z")+",", 500), ",") + `],"nextCursor":"older"}`
				} else if query.Get("cursor") == "" {
					response = `{"rights":[` + right("rgh_3", "SUSPENDED", "2026-12-31T23:00:00Z") + `,` + right("rgh_2", "REVOKED", "2026-12-20T23:00:00Z") + `],"nextCursor":"older"}`
				} else {
					response = `{"rights":[` + right("rgh_1", "ACTIVE", "2026-12-02T07:00:00Z") + `],"nextCursor":null}`
				}
			default:
				response = `{"rights":[` + right("rgh_9", "ACTIVE", "2030-12-31T23:00:00Z") + `],"nextCursor":null}`
			}
		}
		_, _ = w.Write([]byte(`{"data":` + response + `}`))
	}
	s.cfg.Serve = served(t, serve).cfg.Serve
	show := func(list handler, address string) (status int, text, page string) {
		asked = nil
		p, w := s.page(address)
		p.Session.Zone = berlin(t)
		require.NoError(t, list(p))
		return w.Code, readable(w.Body.String()), w.Body.String()
	}
	choice := `<option value="7">7 days</option><option value="14">14 days</option><option value="30">30 days</option><option value="90">90 days</option>`
	_, text, page := show(showRights, Path+"/rights")
	require.Contains(t, page, choice, "it is there before anything ends")
	require.Contains(t, text, "rgh_9 wall")

	_, text, page = show(showRights, Path+"/rights?ends=30&substrate=DOOH")
	require.Equal(t, []string{"2026-11-30T23:30:00.000Z", "2026-12-31T23:00:00.000Z", "DOOH", ""}, []string{asked[0].Get("endsAfter"), asked[0].Get("endsBy"), asked[0].Get("substrate"), asked[0].Get("ends")})
	require.Equal(t, "older", asked[1].Get("cursor"), "those that end first are the oldest")
	require.Contains(t, text, "2 rights end within 30 days, until the end of 31 Dec 2026, the first to end first.")
	require.Regexp(t, `rgh_1 wall active 2 Dec 2026, 08:00:00 .*rgh_3 wall suspended the end of 31 Dec 2026`, text)
	require.NotContains(t, text, "rgh_2 wall", "what is revoked ends no more")
	require.Contains(t, page, `<option value="30" selected>30 days</option>`)
	require.Contains(t, page, `href="/console/rights.csv?ends=30&amp;substrate=DOOH" download`)
	require.Contains(t, page, `href="/console/bases?ends=30"`)
	require.Contains(t, page, "curl &#39;https://muniment.example/v1/rights?endsAfter=")
	_, _, page = show(showRights, Path+"/rights?ends=45")
	require.Contains(t, page, `<option value="45" selected>45 days</option>`, "an address may name any number")

	p, w := s.page(Path + "/rights.csv?ends=30")
	p.Session.Zone = berlin(t)
	require.NoError(t, sendRights(p))
	require.Contains(t, w.Header().Get("Content-Disposition"), `"rights-that-end-within-30-days.csv"`)
	rows, err := csv.NewReader(strings.NewReader(strings.TrimPrefix(w.Body.String(), route.ByteOrderMark))).ReadAll()
	require.NoError(t, err)
	require.Len(t, rows, 3)
	require.Equal(t, []string{"rgh_1 wall", "ACTIVE", "2026-12-02T07:00:00.000Z"}, rows[1][:3])

	some = false
	_, text, page = show(showRights, Path+"/rights?ends=14")
	require.Contains(t, text, "Nothing ends No right ends within 14 days, until the end of 15 Dec 2026.")
	require.Contains(t, page, `<option value="30">30 days</option>`)
	_, text, _ = show(showRights, Path+"/rights?ends=7&state=ACTIVE")
	require.Contains(t, text, "No right that fits the other filters ends within 7 days")
	_, text, _ = show(showBases, Path+"/bases?ends=30")
	require.Contains(t, text, "1 basis ends within 30 days, until the end of 31 Dec 2026")
	for _, days := range []string{"0", "-1", "soon", "4000", "1.5"} {
		status, text, page := show(showRights, Path+"/rights?ends="+days)
		require.Equal(t, 422, status, days)
		require.Contains(t, text, "must be a number of days from 1 to 3650, such as 30")
		require.Contains(t, page, choice, "the choice is there")
		require.Empty(t, asked)
	}

	some, endless = true, true
	_, text, _ = show(showRights, Path+"/rights?ends=30")
	require.Contains(t, text, "0 rights end within 30 days, until the end of 31 Dec 2026, among the newest 2 000 that do")
	require.Len(t, asked, 4, "a page reads no more, though others are revoked")

	endless = false
	p, _ = s.page(Path)
	p.Session.Zone = berlin(t)
	var led []string
	for _, reader := range taskReaders {
		if reader.op == "list-rights" || reader.op == "list-bases" {
			found, err := reader.read(p, s.cfg.Now())
			require.NoError(t, err)
			if strings.Contains(found.Text, "within") {
				require.Equal(t, 1, found.Count)
				led = append(led, found.Href)
			}
		}
	}
	require.Equal(t, []string{"/console/rights?ends=14", "/console/bases?ends=14"}, led, "the overview leads to what it has counted")
}
