package meter

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"muniment.example/control/route"
	"muniment.example/control/route/routetest"
	"muniment.example/gateway/api"
	"muniment.example/gateway/auth"
	"muniment.example/pipeline"
	"muniment.example/pipeline/sqlite"
	"muniment.example/sealer"
	"muniment.example/sealer/settlement"
)

// scopesOfTests are those of any tenant's rights: rgh_a and rgh_d have two campaigns and one.
func scopesOfTests(_ context.Context, _ string, _ *settlement.ScopeNames, rightIDs []string) ([]settlement.Right, error) {
	all := []settlement.Right{{RightID: "rgh_a", Campaigns: []string{"=1+1", "spring"}}, {RightID: "rgh_d", Campaigns: []string{"spring"}}}
	return slices.DeleteFunc(all, func(r settlement.Right) bool { return !slices.Contains(rightIDs, r.RightID) }), nil
}

const (
	tenant   = "tnt_01ARZ3NDEKTSV4RRFFQ69G5FAV"
	stranger = "tnt_01ARZ3NDEKTSV4RRFFQ69G5FAX"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// bench is a service over a SQLite warehouse that a test loads.
type bench struct {
	warehouse *sqlite.Warehouse
	server    http.Handler
	homes     map[string]int32 // partitions of tenants; 0 for all others
	loaded    map[int32]int64  // by partition
}

func open(t *testing.T) *bench {
	w, err := sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(t.TempDir(), "warehouse.db")})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, w.Close()) })
	b := &bench{warehouse: w, homes: map[string]int32{}, loaded: map[int32]int64{}}
	b.server = serve(t, w, b)
	return b
}

// PartitionOf makes the bench the log.
func (b *bench) PartitionOf(_ context.Context, tenantID string) (int32, error) {
	return b.homes[tenantID], nil
}

// end is the position of the next delivery to a tenant.
func (b *bench) end(tenantID string) sealer.Position {
	p := b.homes[tenantID]
	return sealer.Position{Generation: 1, Partition: p, Offset: b.loaded[p]}
}

// Bounds are those of a log with one record more than what is loaded.
func (b *bench) Bounds(_ context.Context, p int32) (first, end sealer.Position, err error) {
	first = sealer.Position{Generation: 1, Partition: p}
	return first, sealer.Position{Generation: 1, Partition: p, Offset: b.loaded[p] + 1}, nil
}

// summedWarehouse is a warehouse without packs, whose sums are of rows.
type summedWarehouse interface {
	Warehouse
	Sums
}

// serve serves the service's routes to whatever tenant the header Tenant names.
func serve(t *testing.T, w summedWarehouse, log route.LogBounds) http.Handler {
	service, err := New(Config{Sums: w, Warehouse: w, Log: log, Scopes: scopesOfTests})
	require.NoError(t, err)
	mux := http.NewServeMux()
	config := huma.DefaultConfig("test", "v1")
	config.CreateHooks = nil
	a := humago.New(mux, config)
	a.UseMiddleware(func(c huma.Context, next func(huma.Context)) {
		caller := auth.Principal{Key: &api.Key{TenantID: c.Header("Tenant")}}
		next(huma.WithContext(c, auth.WithPrincipal(c.Context(), caller)))
	})
	service.Routes(a)
	return routetest.Declared(a.OpenAPI()).Watch(t, mux)
}

// load adds deliveries to the end of the log and loads them.
func (b *bench) load(tb require.TestingT, tenantID string, deliveries ...pipeline.Delivery) {
	batch := pipeline.Batch{Partition: b.homes[tenantID], From: b.end(tenantID)}
	for _, d := range deliveries {
		row := pipeline.Row{Type: sealer.TypeDelivery, At: d.IssuedAt, Delivery: &d}
		row.Position = b.end(tenantID)
		row.TenantID, row.EventID = tenantID, api.NewID(api.PrefixEvent, d.IssuedAt)
		b.loaded[batch.Partition]++
		batch.Rows = append(batch.Rows, row)
	}
	batch.Next = b.end(tenantID)
	require.NoError(tb, b.warehouse.Load(context.Background(), batch))
}

func metered(right string, at time.Time, ms int64) pipeline.Delivery {
	return pipeline.Delivery{
		RightID: right, BasisID: "bas_a", Substrate: "CTV", RenderedAt: at, IssuedAt: at,
		Metered: true, Reason: "METERED", MeteringBasis: "viewable", QuantityMs: ms,
		Impressions: sealer.Impression, Completion: "none",
	}
}

func suppressed(right string, at time.Time) pipeline.Delivery {
	d := metered(right, at, 0)
	d.Metered, d.Reason, d.MeteringBasis, d.Impressions = false, "NOT_VISIBLE", "none", 0
	return d
}

func get(server http.Handler, tenantID, query string) *httptest.ResponseRecorder {
	return getAt(server, tenantID, "/v1/metering"+query)
}

func getAt(server http.Handler, tenantID, path string) *httptest.ResponseRecorder {
	r := httptest.NewRequest("GET", path, nil)
	r.Header.Set("Tenant", tenantID)
	w := httptest.NewRecorder()
	server.ServeHTTP(w, r)
	return w
}

func TestMeteringOverHTTP(t *testing.T) {
	b := open(t)
	const empty = `{"receipts":0,"metered":0,"suppressed":0,"duplicates":0,"quantityMs":0,"impressions":"0"}`
	answer := func(from, to, asOf, rows, totals, next string) string {
		return fmt.Sprintf(`{"ok":true,"data":{"from":%s,"to":%s,"asOf":%s,"bucket":null,"timeZone":null,"rows":[%s],"totals":%s,"nextCursor":%s},
			"contractVersion":"v1.0"}`, from, to, asOf, rows, totals, next)
	}
	require.JSONEq(t, answer("null", "null", "null", "", empty, "null"), get(b.server, tenant, "").Body.String(), "nothing is loaded")

	once := metered("rgh_a", noon, 1500)
	once.Idempotency, once.Impressions = "h", 25_000
	again := metered("rgh_a", noon.Add(time.Minute), 1500)
	again.Idempotency, again.Impressions = "h", 25_000
	b.load(t, tenant, once, again, metered("rgh_a", noon.Add(time.Hour), 500), suppressed("rgh_b", noon))
	b.load(t, stranger, metered("rgh_a", noon, 7))

	viewable := `{"rightId":"rgh_a","substrate":"CTV","basisId":"bas_a","meteringBasis":"viewable","reason":"METERED","receipts":2,"quantityMs":2000,"impressions":"3.5"}`
	duplicate := `{"rightId":"rgh_a","substrate":"CTV","basisId":"bas_a","meteringBasis":"none","reason":"DUPLICATE","receipts":1,"quantityMs":0,"impressions":"0"}`
	hidden := `{"rightId":"rgh_b","substrate":"CTV","basisId":"bas_a","meteringBasis":"none","reason":"NOT_VISIBLE","receipts":1,"quantityMs":0,"impressions":"0"}`
	totals := `{"receipts":4,"metered":2,"suppressed":1,"duplicates":1,"quantityMs":2000,"impressions":"3.5"}`
	const asOf = `"1.0.5"`
	for query, want := range map[string]string{
		"":                                     answer("null", "null", asOf, duplicate+","+viewable+","+hidden, totals, "null"),
		"?limit=2":                             answer("null", "null", asOf, duplicate+","+viewable, totals, `"L3YxL21ldGVyaW5nOjEuMC41LzI"`),
		"?cursor=L3YxL21ldGVyaW5nOjEuMC41LzI":  answer("null", "null", asOf, hidden, totals, "null"),
		"?cursor=L3YxL21ldGVyaW5nOjEuMC41Lzk5": answer("null", "null", asOf, "", totals, "null"),
		"?rightId=rgh_b":                       answer("null", "null", asOf, hidden, `{"receipts":1,"metered":0,"suppressed":1,"duplicates":0,"quantityMs":0,"impressions":"0"}`, "null"),
		"?rightId=rgh_c":                       answer("null", "null", asOf, "", empty, "null"),
		"?asOf=1.0.0":                          answer("null", "null", `"1.0.0"`, "", empty, "null"),
		"?from=2026-11-21T12:01:00.0001Z&to=2026-11-21T15:00:00%2B02:00": answer(
			`"2026-11-21T12:01:00.001Z"`, `"2026-11-21T13:00:00.000Z"`, asOf, "", empty, "null"),
		"?from=2026-11-21T13:00:00Z": answer(`"2026-11-21T13:00:00.000Z"`, "null", asOf,
			`{"rightId":"rgh_a","substrate":"CTV","basisId":"bas_a","meteringBasis":"viewable","reason":"METERED","receipts":1,"quantityMs":500,"impressions":"1"}`,
			`{"receipts":1,"metered":1,"suppressed":0,"duplicates":0,"quantityMs":500,"impressions":"1"}`, "null"),
	} {
		got := get(b.server, tenant, query)
		require.Equal(t, 200, got.Code, "%s: %s", query, got.Body)
		require.JSONEq(t, want, got.Body.String(), query)
	}
}

// TestBucketsOverHTTP requests days on which clocks are set back: such a day has 25 hours, and the
// response shows the offsets.
func TestBucketsOverHTTP(t *testing.T) {
	b := open(t)
	at := func(text string) time.Time {
		t, err := time.Parse(time.RFC3339, text)
		if err != nil {
			panic(err)
		}
		return t.UTC()
	}
	b.load(t, tenant,
		metered("rgh_a", at("2026-10-24T23:59:59+02:00"), 1),
		metered("rgh_a", at("2026-10-25T00:00:00+02:00"), 2),
		metered("rgh_a", at("2026-10-25T02:30:00+02:00"), 4),
		metered("rgh_a", at("2026-10-25T02:30:00+01:00"), 8),
		metered("rgh_a", at("2026-10-25T23:59:59+01:00"), 16),
		metered("rgh_a", at("2026-10-26T00:00:00+01:00"), 32),
	)
	type line struct {
		bucket string
		ms     int64
	}
	for query, want := range map[string][]line{
		"bucket=day&timeZone=Europe/Berlin": {
			{"2026-10-24T00:00:00+02:00", 1}, {"2026-10-25T00:00:00+02:00", 30}, {"2026-10-26T00:00:00+01:00", 32}},
		"bucket=day&timeZone=Europe/Berlin&from=2026-10-25&to=20261026":             {{"2026-10-25T00:00:00+02:00", 30}},
		"bucket=day&timeZone=Europe/Berlin&from=2026-10-25&to=2026-10-26T00:00:00Z": {{"2026-10-25T00:00:00+02:00", 30}, {"2026-10-26T00:00:00+01:00", 32}},
		"bucket=day": {{"2026-10-24T00:00:00Z", 3}, {"2026-10-25T00:00:00Z", 60}},
		"bucket=hour&timeZone=Europe/Berlin&from=2026-10-25T00:00:00Z&to=2026-10-25T02:00:00Z": {
			{"2026-10-25T02:00:00+02:00", 4}, {"2026-10-25T02:00:00+01:00", 8}},
		"bucket=month&timeZone=Pacific/Kiritimati&to=2026-10-25": nil, // 10:00 UTC on the day before
		"bucket=hour&timeZone=Asia/Kolkata&from=2026-10-25T00:00:00Z&to=2026-10-25T02:00:00Z": {
			{"2026-10-25T06:00:00+05:30", 4}, {"2026-10-25T07:00:00+05:30", 8}}, // 00:30 UTC is 06:00 there
		"bucket=week&timeZone=Europe/Berlin":                        {{"2026-10-19T00:00:00+02:00", 31}, {"2026-10-26T00:00:00+01:00", 32}},
		"bucket=month&timeZone=Europe/Berlin":                       {{"2026-10-01T00:00:00+02:00", 63}},
		"bucket=month&timeZone=Europe/Berlin&asOf=1.0.2":            {{"2026-10-01T00:00:00+02:00", 3}},
		"bucket=minute&from=2026-10-25T00:30:00Z&rightId=rgh_other": nil,
	} {
		got := get(b.server, tenant, "?"+query)
		require.Equal(t, 200, got.Code, "%s: %s", query, got.Body)
		var body api.Body[Metering]
		require.NoError(t, json.Unmarshal(got.Body.Bytes(), &body))
		var lines []line
		var sum int64
		for _, row := range body.Data.Rows {
			lines = append(lines, line{*row.Bucket, row.QuantityMs})
			sum += row.QuantityMs
		}
		require.Equal(t, want, lines, query)
		require.Equal(t, sum, body.Data.Totals.QuantityMs, query)
	}
	require.JSONEq(t, `{"ok":true,"data":{"from":null,"to":null,"asOf":"1.0.6","bucket":"month","timeZone":"Europe/Berlin","rows":[],
		"totals":{"receipts":0,"metered":0,"suppressed":0,"duplicates":0,"quantityMs":0,"impressions":"0"},"nextCursor":null},"contractVersion":"v1.0"}`,
		get(b.server, stranger, "?bucket=month&timeZone=Europe/Berlin").Body.String())
}

// TestAnswersAreOfTheTenantsPartition has two tenants in different partitions.
func TestAnswersAreOfTheTenantsPartition(t *testing.T) {
	b := open(t)
	b.homes[stranger] = 3
	answer := func(tenantID, query string) (asOf string, receipts int64) {
		t.Helper()
		got := get(b.server, tenantID, query)
		require.Equal(t, 200, got.Code, got.Body)
		var body api.Body[Metering]
		require.NoError(t, json.Unmarshal(got.Body.Bytes(), &body))
		if body.Data.AsOf != nil {
			asOf = *body.Data.AsOf
		}
		return asOf, body.Data.Totals.Receipts
	}
	refused := func(tenantID, query string) {
		t.Helper()
		got := get(b.server, tenantID, query)
		require.Equal(t, 422, got.Code, got.Body)
		require.Contains(t, got.Body.String(), "is no position that the service has named")
	}
	b.load(t, tenant, metered("rgh_a", noon, 1), metered("rgh_a", noon, 1))
	asOf, _ := answer(stranger, "")
	require.Empty(t, asOf, "nothing of its partition is loaded")
	b.load(t, stranger, metered("rgh_b", noon, 1), metered("rgh_b", noon, 1), metered("rgh_b", noon, 1))
	for _, c := range []struct {
		tenant, query, asOf string
		receipts            int64
	}{
		{tenant, "", "1.0.2", 2},
		{stranger, "", "1.3.3", 3},
		{tenant, "?asOf=1.0.1", "1.0.1", 1},
		{stranger, "?asOf=1.3.2", "1.3.2", 2},
	} {
		asOf, receipts := answer(c.tenant, c.query)
		require.Equal(t, c.asOf, asOf)
		require.Equal(t, c.receipts, receipts)
	}
	refused(tenant, "?asOf=1.3.1")
	refused(stranger, "?asOf=1.0.1")
}

func TestRefusedQuestions(t *testing.T) {
	b := open(t)
	b.load(t, tenant, metered("rgh_a", noon, 1))
	for query, want := range map[string]string{
		"?from=yesterday":       "from: must be a date, such as 2026-11-01, or a time, such as 2026-11-01T12:00:00Z or 20261101T120000Z",
		"?to=2026-11-21T12:00":  "to: has no time zone: end it with Z, or with an offset such as +01:00",
		"?to=2026-13-01T00:00Z": "to: month 13 is out of range: the last is 12",
		"?from=2026-11-21T12:00:00Z&to=2026-11-21T12:00:00Z": "to: must be later than from",
		"?asOf=now":                           "asOf: is no position that the service has named",
		"?asOf=1.0.3":                         "asOf: is no position that the service has named", // behind the log
		"?asOf=9.0.1":                         "asOf: is no position that the service has named",
		"?asOf=1.7.0":                         "asOf: is no position that the service has named",
		"?cursor=L3YxL21ldGVyaW5nOjEuMC4xLzA": "cursor: is no cursor of this list", // row 0
		"?cursor=MTp4":                        "cursor: is no cursor of this list",
		"?cursor=L3YxL21ldGVyaW5nOjEuMC4xLzE&asOf=1.0.0":    "cursor: is no cursor of this list",
		"?timeZone=Europe/Berlin":                           "timeZone: requires bucket, or a date without a time in from or to",
		"?from=2026-10-25T00:00:00Z&timeZone=Europe/Berlin": "timeZone: requires bucket, or a date without a time in from or to",
		"?from=2026-10-25&timeZone=Mars/Olympus":            "timeZone: is not an IANA time zone, such as Europe/Berlin",
		"?bucket=day&timeZone=Berlin":                       "timeZone: is not an IANA time zone, such as Europe/Berlin",
		"?bucket=minute&from=2026-01-01T00:00:00Z&to=2026-02-01T00:00:00Z": "bucket: the window has more than 12000 buckets of one minute: " +
			"narrow from and to, or choose a larger bucket",
	} {
		got := get(b.server, tenant, query)
		require.Equal(t, 422, got.Code, "%s: %s", query, got.Body)
		require.JSONEq(t, routetest.Invalid(want), got.Body.String(), query)
	}
	// A position that a warehouse under repair has not reached again.
	got := get(b.server, tenant, "?asOf=1.0.2")
	require.Equal(t, 503, got.Code)
	require.JSONEq(t, `{"ok":false,"error":"INTERNAL_ERROR","message":"the warehouse has not loaded that position yet",
		"contractVersion":"v1.0","reason":"WAREHOUSE_BEHIND"}`, got.Body.String())
}

// TestPagesAreTheModel loads at random, requests everything page by page while more is loaded, and
// compares with a model's sums.
func TestPagesAreTheModel(t *testing.T) {
	b := open(t)
	run := 0
	rapid.Check(t, func(rt *rapid.T) {
		run++
		id := fmt.Sprintf("tnt_%d", run)
		var all []pipeline.Delivery
		draw := func() []pipeline.Delivery {
			n := rapid.IntRange(0, 12).Draw(rt, "deliveries")
			some := make([]pipeline.Delivery, n)
			for i := range some {
				some[i] = metered(rapid.SampledFrom([]string{"rgh_a", "rgh_b", "rgh_c"}).Draw(rt, "right"),
					noon.Add(time.Duration(rapid.IntRange(0, 40).Draw(rt, "hour"))*time.Hour), rapid.Int64Range(0, 9000).Draw(rt, "ms"))
				if rapid.Bool().Draw(rt, "suppressed") {
					some[i] = suppressed(some[i].RightID, some[i].RenderedAt)
				}
				some[i].Idempotency = rapid.SampledFrom([]string{"", "x", "y"}).Draw(rt, "key")
				if some[i].Metered {
					some[i].Impressions = rapid.SampledFrom([]int64{sealer.Impression, 1, 25_000}).Draw(rt, "impressions")
				}
			}
			return some
		}
		all = draw()
		b.load(rt, id, all...)
		limit := rapid.IntRange(1, 4).Draw(rt, "limit")
		query := url.Values{"limit": {fmt.Sprint(limit)}}
		var from, to time.Time
		if rapid.Bool().Draw(rt, "has from") {
			from = noon.Add(time.Duration(rapid.IntRange(0, 20).Draw(rt, "from")) * time.Hour)
			query.Set("from", from.Format(time.RFC3339))
		}
		if rapid.Bool().Draw(rt, "has to") {
			to = noon.Add(time.Duration(rapid.IntRange(21, 50).Draw(rt, "to")) * time.Hour)
			query.Set("to", to.Format(time.RFC3339))
		}
		// The model's own idea of a bucket: what the clock shows, cut off.
		bucket := func(time.Time) *string { return nil }
		if unit := rapid.SampledFrom([]string{"", "hour", "day"}).Draw(rt, "bucket"); unit != "" {
			query.Set("bucket", unit)
			query.Set("timeZone", "Asia/Kolkata")
			shown := map[string]string{"hour": "2006-01-02T15:00:00Z07:00", "day": "2006-01-02T00:00:00Z07:00"}[unit]
			bucket = func(t time.Time) *string { return new(t.In(time.FixedZone("", 19800)).Format(shown)) }
		}
		rows, totals := model(all, from, to, bucket)

		got := []MeteringRow{}
		for {
			w := get(b.server, id, "?"+query.Encode())
			require.Equal(rt, 200, w.Code, w.Body)
			var page api.Body[Metering]
			require.NoError(rt, json.Unmarshal(w.Body.Bytes(), &page))
			require.Equal(rt, totals, page.Data.Totals, "totals are over all pages")
			require.LessOrEqual(rt, len(page.Data.Rows), limit)
			got = append(got, page.Data.Rows...)
			if page.Data.NextCursor == nil {
				break
			}
			query.Set("cursor", *page.Data.NextCursor)
			b.load(rt, id, draw()...) // does not disturb the listing
		}
		require.Equal(rt, rows, got)
	})
}

func model(all []pipeline.Delivery, from, to time.Time, bucket func(time.Time) *string) ([]MeteringRow, MeteringTotals) {
	sums, impressions := map[string]MeteringRow{}, map[string]int64{}
	var totals MeteringTotals
	for i, d := range all {
		duplicate := d.Idempotency != "" && slices.ContainsFunc(all[:i], func(e pipeline.Delivery) bool {
			return e.Idempotency == d.Idempotency && d.IssuedAt.Sub(e.IssuedAt) <= 24*time.Hour
		})
		if d.RenderedAt.Before(from) || !to.IsZero() && !d.RenderedAt.Before(to) {
			continue
		}
		key := MeteringRow{Bucket: bucket(d.RenderedAt), RightID: d.RightID, Substrate: d.Substrate, BasisID: d.BasisID, MeteringBasis: d.MeteringBasis, Reason: d.Reason}
		totals.Receipts++
		switch {
		case duplicate:
			key.MeteringBasis, key.Reason, d.QuantityMs = "none", "DUPLICATE", 0
			totals.Duplicates++
		case d.Metered:
			totals.Metered++
			impressions[text(key)] += d.Impressions
			impressions[""] += d.Impressions
		default:
			totals.Suppressed++
		}
		totals.QuantityMs += d.QuantityMs
		sum, ok := sums[text(key)]
		if !ok {
			sum = key
		}
		sum.Receipts++
		sum.QuantityMs += d.QuantityMs
		sums[text(key)] = sum
	}
	rows := []MeteringRow{}
	for _, row := range sums {
		row.Impressions = sealer.FormatImpressions(impressions[text(row)])
		rows = append(rows, row)
	}
	totals.Impressions = sealer.FormatImpressions(impressions[""])
	slices.SortFunc(rows, func(a, b MeteringRow) int { return strings.Compare(text(a), text(b)) })
	return rows, totals
}

// text is a row's key. Buckets of one zone without summer time sort as texts.
func text(r MeteringRow) string {
	bucket := ""
	if r.Bucket != nil {
		bucket = *r.Bucket
	}
	return strings.Join([]string{bucket, r.RightID, r.Substrate, r.BasisID, r.MeteringBasis, r.Reason}, " ")
}

// broken is a warehouse that is unavailable.
type broken struct{ summedWarehouse }

var errAway = errors.New("warehouse at 10.0.0.7 is away")

func (broken) Resume(context.Context, int32) (sealer.Position, bool, error) {
	return sealer.Position{}, false, errAway
}

func TestWarehouseAway(t *testing.T) {
	require.Equal(t, 500, get(serve(t, broken{}, new(bench)), tenant, "").Code)
	_, err := New(Config{})
	require.ErrorContains(t, err, "Warehouse")
}
