package meter

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"muniment.example/control/route"
	"muniment.example/control/route/routetest"
	"muniment.example/gateway/api"
	"muniment.example/pipeline"
	"muniment.example/sealer"
)

// at makes a delivery of one to an anchor and a placement.
func at(d pipeline.Delivery, anchor, placement string) pipeline.Delivery {
	d.SpatialAnchorID, d.SpatialPlacementID = anchor, placement
	return d
}

func loadPlaces(t *testing.T, b *bench) {
	b.load(t, tenant,
		at(metered("rgh_a", noon, 1), "screen 1", ""), at(metered("rgh_a", noon, 2), "screen 1", "slot,1"),
		at(metered("rgh_a", noon, 4), "=HYPERLINK(\"x\")", "slot,1"), at(metered("rgh_b", noon.Add(time.Hour), 8), "screen 1", ""))
}

func TestMeteringByMore(t *testing.T) {
	b := open(t)
	loadPlaces(t, b)
	for query, want := range map[string]string{
		"by=anchor": `{"rightId":"rgh_a","spatialAnchorId":"=HYPERLINK(\"x\")","quantityMs":4},{"rightId":"rgh_a","spatialAnchorId":"screen 1","quantityMs":3},
			{"rightId":"rgh_b","spatialAnchorId":"screen 1","quantityMs":8}`,
		"by=placement": `{"rightId":"rgh_a","spatialPlacementId":null,"quantityMs":1},{"rightId":"rgh_a","spatialPlacementId":"slot,1","quantityMs":6},
			{"rightId":"rgh_b","spatialPlacementId":null,"quantityMs":8}`,
		"by=campaign": `{"rightId":"rgh_a","campaignId":"=1+1","quantityMs":7},{"rightId":"rgh_a","campaignId":"spring","quantityMs":7},{"rightId":"rgh_b","campaignId":null,"quantityMs":8}`,
		"by=placement,anchor&rightId=rgh_a": `{"rightId":"rgh_a","spatialAnchorId":"=HYPERLINK(\"x\")","spatialPlacementId":"slot,1","quantityMs":4},
			{"rightId":"rgh_a","spatialAnchorId":"screen 1","spatialPlacementId":null,"quantityMs":1},{"rightId":"rgh_a","spatialAnchorId":"screen 1","spatialPlacementId":"slot,1","quantityMs":2}`,
		"by=campaign&by=placement&by=campaign&rightId=rgh_b": `{"rightId":"rgh_b","spatialPlacementId":null,"campaignId":null,"quantityMs":8}`,
	} {
		var rows []json.RawMessage
		pages := url.Values{"limit": {"1"}}
		for { // of one row each
			got := get(b.server, tenant, "?"+query+"&"+pages.Encode())
			require.Equal(t, 200, got.Code, "%s: %s", query, got.Body)
			require.Equal(t, "application/json", got.Header().Get("Content-Type"))
			var page struct {
				Data struct {
					Rows       []map[string]any
					Totals     MeteringTotals
					NextCursor *string
				}
			}
			require.NoError(t, json.Unmarshal(got.Body.Bytes(), &page))
			require.Len(t, page.Data.Rows, 1)
			wantTotal := map[bool]int64{true: 15, false: 7}[!strings.Contains(query, "rightId")]
			if strings.HasSuffix(query, "rgh_b") {
				wantTotal = 8
			}
			require.Equal(t, wantTotal, page.Data.Totals.QuantityMs, "each receipt once")
			for _, same := range []string{"substrate", "basisId", "meteringBasis", "reason", "receipts", "impressions"} {
				require.Contains(t, page.Data.Rows[0], same)
				delete(page.Data.Rows[0], same)
			}
			row, err := json.Marshal(page.Data.Rows[0])
			require.NoError(t, err)
			rows = append(rows, row)
			require.Less(t, len(rows), 20, "paging doesn't end")
			if page.Data.NextCursor == nil {
				break
			}
			pages.Set("cursor", *page.Data.NextCursor)
		}
		got, err := json.Marshal(rows)
		require.NoError(t, err)
		require.JSONEq(t, "["+want+"]", string(got), query)
	}
}

func TestMeteringFiles(t *testing.T) {
	b := open(t)
	const head = "rightId,substrate,basisId,meteringBasis,reason,receipts,quantityMs,impressions\n"
	empty := get(b.server, tenant, "?format=csv")
	require.Equal(t, 200, empty.Code)
	require.Equal(t, head, empty.Body.String(), "nothing is loaded")
	require.Equal(t, []string{`attachment; filename="metering.csv"`}, empty.Header()["Content-Disposition"])
	require.NotContains(t, empty.Header(), "Muniment-As-Of")

	loadPlaces(t, b)
	for query, want := range map[string]string{
		"format=csv": head + "rgh_a,CTV,bas_a,viewable,METERED,3,7,3\nrgh_b,CTV,bas_a,viewable,METERED,1,8,1\n",
		"format=csv&bucket=day&timeZone=Asia/Kolkata&by=campaign,anchor,placement": "bucket,rightId,substrate,basisId,meteringBasis,reason,spatialAnchorId,spatialPlacementId,campaignId,receipts,quantityMs,impressions\n" +
			"2026-11-21T00:00:00+05:30,rgh_a,CTV,bas_a,viewable,METERED,\"'=HYPERLINK(\"\"x\"\")\",\"slot,1\",'=1+1,1,4,1\n" +
			"2026-11-21T00:00:00+05:30,rgh_a,CTV,bas_a,viewable,METERED,\"'=HYPERLINK(\"\"x\"\")\",\"slot,1\",spring,1,4,1\n" +
			"2026-11-21T00:00:00+05:30,rgh_a,CTV,bas_a,viewable,METERED,screen 1,,'=1+1,1,1,1\n" +
			"2026-11-21T00:00:00+05:30,rgh_a,CTV,bas_a,viewable,METERED,screen 1,,spring,1,1,1\n" +
			"2026-11-21T00:00:00+05:30,rgh_a,CTV,bas_a,viewable,METERED,screen 1,\"slot,1\",'=1+1,1,2,1\n" +
			"2026-11-21T00:00:00+05:30,rgh_a,CTV,bas_a,viewable,METERED,screen 1,\"slot,1\",spring,1,2,1\n" +
			"2026-11-21T00:00:00+05:30,rgh_b,CTV,bas_a,viewable,METERED,screen 1,,,1,8,1\n",
		"format=ndjson&rightId=rgh_b&by=placement": `{"rightId":"rgh_b","substrate":"CTV","basisId":"bas_a","meteringBasis":"viewable","reason":"METERED","spatialPlacementId":null,"receipts":1,"quantityMs":8,"impressions":"1"}` + "\n",
		"format=ndjson&rightId=rgh_c":              "",
		"format=ndjson&rightId=rgh_c&bucket=hour":  "",
		"format=csv&rightId=rgh_c&bucket=hour":     "bucket," + head,
		"format=csv&to=2026-11-21":                 head,
		"format=csv&bom=true&to=2026-11-21":        route.ByteOrderMark + head,
	} {
		got := get(b.server, tenant, "?"+query)
		require.Equal(t, 200, got.Code, "%s: %s", query, got.Body)
		require.Equal(t, want, got.Body.String(), query)
		kind, extension := "text/csv", "csv"
		if strings.Contains(query, "ndjson") {
			kind, extension = "application/x-ndjson", "ndjson"
		}
		require.Equal(t, kind, got.Header().Get("Content-Type"))
		require.Equal(t, "1.0.4", got.Header().Get("Muniment-As-Of"))
		require.Equal(t, `attachment; filename="metering-1.0.4.`+extension+`"`, got.Header().Get("Content-Disposition"))
		require.NotContains(t, got.Header(), "Content-Length")

		// As of that position it stays what it is.
		b.load(t, stranger, at(metered("rgh_a", noon, 1), "screen 1", ""))
		more := b.end(tenant).Offset
		b.load(t, tenant, at(metered("rgh_a", noon, 16), "screen 1", ""), at(metered("rgh_0", noon, 16), "screen 2", ""), at(metered("rgh_b", noon.AddDate(1, 0, 0), 1), "screen 3", ""))
		require.NotEqual(t, b.end(tenant).Offset, more)
		again := get(b.server, tenant, "?"+query+"&asOf=1.0.4")
		require.Equal(t, want, again.Body.String(), query)
		require.Equal(t, got.Header(), again.Header())
		b = open(t)
		loadPlaces(t, b)
	}
	r := httptest.NewRequest("HEAD", "/v1/metering?format=csv", nil)
	r.Header.Set("Tenant", tenant)
	w := httptest.NewRecorder()
	b.server.ServeHTTP(w, r)
	require.Equal(t, "1.0.4", w.Header().Get("Muniment-As-Of"))
	require.Zero(t, w.Body.Len())
}

func TestRefusedFiles(t *testing.T) {
	b := open(t)
	loadPlaces(t, b)
	whole := "format: is a file of all rows: limit and cursor are for json"
	for query, want := range map[string]string{
		"?by=screen":                               "by: must be anchor, placement or campaign",
		"?by=anchor,":                              "by: must be anchor, placement or campaign",
		"?format=csv&limit=50":                     whole,
		"?format=ndjson&bom=true":                  "bom: requires format csv",
		"?bom=true":                                "bom: requires format csv",
		"?format=ndjson&cursor=x":                  whole,
		"?cursor=L3YxL21ldGVyaW5nOjEuMC40LzAvMQ":   "cursor: is no cursor of this list", // 1.0.4/0/1
		"?cursor=L3YxL21ldGVyaW5nOjEuMC40LzAvMAo":  "cursor: is no cursor of this list",
		"?format=csv&asOf=1.0.9":                   "asOf: is no position that the service has named",
		"?format=csv&timeZone=UTC":                 "timeZone: requires bucket, or a date without a time in from or to",
		"?by=campaign&cursor=L3YxL21ldGVyaW5nOi8v": "cursor: is no cursor of this list",
		"?format=csv&bucket=minute&from=2026-01-01&to=2026-02-01": "bucket: the window has more than 12000 buckets of one minute: " +
			"narrow from and to, or choose a larger bucket",
	} {
		got := get(b.server, tenant, query)
		require.Equal(t, 422, got.Code, "%s: %s", query, got.Body)
		require.JSONEq(t, routetest.Invalid(want), got.Body.String(), query)
	}
	require.Equal(t, 200, get(b.server, tenant, "?by=campaign&cursor=L3YxL21ldGVyaW5nOjEuMC40LzAvMQ").Code)
	refusals := getAt(b.server, tenant, "/v1/metering/refusals?cursor=L3YxL21ldGVyaW5nL3JlZnVzYWxzOjEuMC40LzAvMQ")
	require.Equal(t, 422, refusals.Code, refusals.Body)
}

// long is a warehouse of so many lines that a file takes several pages, of which some can't be
// read.
type long struct {
	summedWarehouse
	lines, fails int
	queries      []pipeline.MeterQuery
}

func (w *long) Resume(context.Context, int32) (sealer.Position, bool, error) {
	return sealer.Position{Generation: 1, Offset: 7}, true, nil
}

func (w *long) Metering(_ context.Context, q pipeline.MeterQuery) ([]pipeline.MeterRow, error) {
	w.queries = append(w.queries, q)
	if len(w.queries) == w.fails {
		return nil, errAway
	}
	rows := make([]pipeline.MeterRow, max(0, min(q.Limit, w.lines-q.Skip)))
	for i := range rows {
		rows[i] = pipeline.MeterRow{RightID: fmt.Sprint("rgh_", q.Skip+i), Receipts: 1}
	}
	return rows, nil
}

// TestLongFiles: each page is read once, as of one position. A page that can't be read aborts the
// file; if it is the first one, the response is an error.
func TestLongFiles(t *testing.T) {
	for _, c := range []struct{ lines, fails, pages int }{
		{0, 0, 1}, {rowsAPage - 1, 0, 1}, {rowsAPage, 0, 2}, {2*rowsAPage + 3, 0, 3}, {2*rowsAPage + 3, 1, 1}, {2*rowsAPage + 3, 3, 3},
	} {
		for _, format := range []string{"csv", "ndjson"} {
			w := &long{lines: c.lines, fails: c.fails}
			server := httptest.NewServer(serve(t, w, new(bench)))
			r, err := http.NewRequestWithContext(t.Context(), "GET", server.URL+"/v1/metering?by=campaign&format="+format, nil)
			require.NoError(t, err)
			got, err := http.DefaultClient.Do(r)
			require.NoError(t, err)
			text, err := io.ReadAll(got.Body)
			require.NoError(t, got.Body.Close())
			server.Close()
			if c.fails == 1 {
				require.Equal(t, 500, got.StatusCode)
				continue
			}
			require.Equal(t, 200, got.StatusCode)
			require.Len(t, w.queries, c.pages)
			for i, q := range w.queries {
				require.Equal(t, rowsAPage*i, q.Skip)
				require.Equal(t, &sealer.Position{Generation: 1, Offset: 7}, q.AsOf)
			}
			if c.fails > 0 {
				require.ErrorIs(t, err, io.ErrUnexpectedEOF)
				continue
			}
			require.NoError(t, err)
			lines := strings.Count(string(text), "\n")
			if format == "csv" {
				lines--
			}
			require.Equal(t, c.lines, lines)
		}
	}
}

// TestFilesAreThePages compares the files with the pages of one request.
func TestFilesAreThePages(t *testing.T) {
	b := open(t)
	run := 0
	rapid.Check(t, func(rt *rapid.T) {
		run++
		id := fmt.Sprintf("tnt_%d", run)
		for range rapid.IntRange(0, 15).Draw(rt, "deliveries") {
			d := metered(rapid.SampledFrom([]string{"rgh_a", "rgh_b", "rgh_d"}).Draw(rt, "right"), noon.Add(time.Duration(rapid.IntRange(0, 3).Draw(rt, "hour"))*time.Hour), 1)
			d.Idempotency = rapid.SampledFrom([]string{"", "x"}).Draw(rt, "key")
			b.load(rt, id, at(d, rapid.SampledFrom([]string{"s 1", "+s", "s\n2"}).Draw(rt, "anchor"), rapid.SampledFrom([]string{"", "p"}).Draw(rt, "placement")))
		}
		query := url.Values{"by": rapid.SliceOfN(rapid.SampledFrom([]string{"anchor", "placement", "campaign"}), 0, 3).Draw(rt, "by"), "limit": {fmt.Sprint(rapid.IntRange(1, 5).Draw(rt, "limit"))}}
		if rapid.Bool().Draw(rt, "cut") {
			query.Set("bucket", "hour")
		}
		var pages []MeteringRow
		counted := map[string]int64{}
		var totals MeteringTotals
		for {
			w := get(b.server, id, "?"+query.Encode())
			require.Equal(rt, 200, w.Code, w.Body)
			var page api.Body[Metering]
			require.NoError(rt, json.Unmarshal(w.Body.Bytes(), &page))
			pages, totals = append(pages, page.Data.Rows...), page.Data.Totals
			require.Less(rt, len(pages), 200, "paging doesn't end")
			if page.Data.NextCursor == nil {
				break
			}
			query.Set("cursor", *page.Data.NextCursor)
		}
		for _, row := range pages {
			if row.CampaignID == nil || *row.CampaignID == nil || **row.CampaignID != "spring" || row.RightID != "rgh_a" { // rgh_a has two
				counted["receipts"] += row.Receipts
			}
		}
		require.Equal(rt, totals.Receipts, counted["receipts"])
		query.Del("limit")
		query.Del("cursor")
		query.Set("format", "ndjson")
		var file []MeteringRow
		for line := range strings.Lines(get(b.server, id, "?"+query.Encode()).Body.String()) {
			var row MeteringRow
			require.NoError(rt, json.Unmarshal([]byte(line), &row))
			file = append(file, row)
		}
		require.Equal(rt, pages, file)
		query.Set("format", "csv")
		cells, err := csv.NewReader(get(b.server, id, "?"+query.Encode()).Body).ReadAll()
		require.NoError(rt, err)
		require.Len(rt, cells, len(pages)+1)
		anchor := slices.Index(cells[0], "spatialAnchorId")
		for i, row := range cells[1:] {
			require.Equal(rt, pages[i].RightID, row[slices.Index(cells[0], "rightId")])
			require.Equal(rt, fmt.Sprint(pages[i].Receipts), row[slices.Index(cells[0], "receipts")])
			if anchor >= 0 {
				require.Equal(rt, *pages[i].SpatialAnchorID, strings.TrimPrefix(row[anchor], "'"))
			}
		}
	})
}
