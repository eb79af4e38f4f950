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
	"testing"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"muniment/gateway/api"
	"muniment/gateway/auth"
	"muniment/pipeline"
	"muniment/pipeline/sqlite"
	"muniment/sealer"
)

const (
	tenant   = "tnt_01ARZ3NDEKTSV4RRFFQ69G5FAV"
	stranger = "tnt_01ARZ3NDEKTSV4RRFFQ69G5FAX"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// bench is a room over a SQLite warehouse that a test loads as it likes.
type bench struct {
	warehouse *sqlite.Warehouse
	server    http.Handler
	loaded    int64
}

func open(t *testing.T) *bench {
	w, err := sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(t.TempDir(), "warehouse.db")})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, w.Close()) })
	return &bench{warehouse: w, server: serve(t, w)}
}

// serve serves the room's routes to whatever tenant the header Tenant names.
func serve(t *testing.T, w Warehouse) http.Handler {
	room, err := New(Config{Warehouse: w})
	require.NoError(t, err)
	mux := http.NewServeMux()
	config := huma.DefaultConfig("test", "v1")
	config.CreateHooks = nil
	a := humago.New(mux, config)
	a.UseMiddleware(func(c huma.Context, next func(huma.Context)) {
		caller := auth.Principal{Key: &api.Key{TenantID: c.Header("Tenant")}}
		next(huma.WithContext(c, auth.WithPrincipal(c.Context(), caller)))
	})
	room.Routes(a)
	return mux
}

// load adds deliveries to the end of the log and loads them.
func (b *bench) load(tb require.TestingT, tenantID string, deliveries ...pipeline.Delivery) {
	batch := pipeline.Batch{}
	for _, d := range deliveries {
		row := pipeline.Row{Type: sealer.TypeDelivery, At: d.IssuedAt, Delivery: &d}
		row.Position = sealer.Position{Generation: 1, Offset: b.loaded}
		row.TenantID, row.EventID = tenantID, api.NewID(api.PrefixEvent, d.IssuedAt)
		b.loaded++
		batch.Rows = append(batch.Rows, row)
	}
	batch.Next = sealer.Position{Generation: 1, Offset: b.loaded}
	require.NoError(tb, b.warehouse.Load(context.Background(), batch))
}

func metered(right string, at time.Time, ms int64) pipeline.Delivery {
	return pipeline.Delivery{
		RightID: right, BasisID: "bas_a", Substrate: "CTV", RenderedAt: at, IssuedAt: at,
		Metered: true, Reason: "METERED", MeteringBasis: "viewable", QuantityMs: ms,
	}
}

func suppressed(right string, at time.Time) pipeline.Delivery {
	d := metered(right, at, 0)
	d.Metered, d.Reason, d.MeteringBasis = false, "NOT_VISIBLE", "none"
	return d
}

func ask(server http.Handler, tenantID, query string) *httptest.ResponseRecorder {
	r := httptest.NewRequest("GET", "/v1/metering"+query, nil)
	r.Header.Set("Tenant", tenantID)
	w := httptest.NewRecorder()
	server.ServeHTTP(w, r)
	return w
}

func TestMeteringOverHTTP(t *testing.T) {
	b := open(t)
	const empty = `{"receipts":0,"metered":0,"suppressed":0,"duplicates":0,"quantityMs":0}`
	answer := func(body string) string { return `{"ok":true,"data":` + body + `,"contractVersion":"v1.0"}` }
	require.JSONEq(t, answer(`{"from":null,"to":null,"asOf":null,"rows":[],"totals":`+empty+`,"nextCursor":null}`),
		ask(b.server, tenant, "").Body.String(), "nothing is loaded")

	once := metered("rgh_a", noon, 1500)
	once.Idempotency = "h"
	again := metered("rgh_a", noon.Add(time.Minute), 1500)
	again.Idempotency = "h"
	b.load(t, tenant, once, again, metered("rgh_a", noon.Add(time.Hour), 500), suppressed("rgh_b", noon))
	b.load(t, stranger, metered("rgh_a", noon, 7))

	viewable := `{"rightId":"rgh_a","substrate":"CTV","basisId":"bas_a","meteringBasis":"viewable","reason":"METERED","receipts":2,"quantityMs":2000}`
	duplicate := `{"rightId":"rgh_a","substrate":"CTV","basisId":"bas_a","meteringBasis":"none","reason":"DUPLICATE","receipts":1,"quantityMs":0}`
	hidden := `{"rightId":"rgh_b","substrate":"CTV","basisId":"bas_a","meteringBasis":"none","reason":"NOT_VISIBLE","receipts":1,"quantityMs":0}`
	totals := `{"receipts":4,"metered":2,"suppressed":1,"duplicates":1,"quantityMs":2000}`
	for query, want := range map[string]string{
		"":                       `{"from":null,"to":null,"asOf":"1.0.5","rows":[` + duplicate + `,` + viewable + `,` + hidden + `],"totals":` + totals + `,"nextCursor":null}`,
		"?limit=2":               `{"from":null,"to":null,"asOf":"1.0.5","rows":[` + duplicate + `,` + viewable + `],"totals":` + totals + `,"nextCursor":"MToxLjAuNS8y"}`,
		"?cursor=MToxLjAuNS8y":   `{"from":null,"to":null,"asOf":"1.0.5","rows":[` + hidden + `],"totals":` + totals + `,"nextCursor":null}`,
		"?cursor=MToxLjAuNS85OQ": `{"from":null,"to":null,"asOf":"1.0.5","rows":[],"totals":` + totals + `,"nextCursor":null}`,
		"?rightId=rgh_b":         `{"from":null,"to":null,"asOf":"1.0.5","rows":[` + hidden + `],"totals":{"receipts":1,"metered":0,"suppressed":1,"duplicates":0,"quantityMs":0},"nextCursor":null}`,
		"?rightId=rgh_c":         `{"from":null,"to":null,"asOf":"1.0.5","rows":[],"totals":` + empty + `,"nextCursor":null}`,
		"?asOf=1.0.0":            `{"from":null,"to":null,"asOf":"1.0.0","rows":[],"totals":` + empty + `,"nextCursor":null}`,
		"?from=2026-11-21T12:01:00.0001Z&to=2026-11-21T15:00:00%2B02:00": `{"from":"2026-11-21T12:01:00.001Z","to":"2026-11-21T13:00:00.000Z","asOf":"1.0.5",
			"rows":[],"totals":` + empty + `,"nextCursor":null}`,
		"?from=2026-11-21T13:00:00Z": `{"from":"2026-11-21T13:00:00.000Z","to":null,"asOf":"1.0.5",
			"rows":[{"rightId":"rgh_a","substrate":"CTV","basisId":"bas_a","meteringBasis":"viewable","reason":"METERED","receipts":1,"quantityMs":500}],
			"totals":{"receipts":1,"metered":1,"suppressed":0,"duplicates":0,"quantityMs":500},"nextCursor":null}`,
	} {
		got := ask(b.server, tenant, query)
		require.Equal(t, 200, got.Code, "%s: %s", query, got.Body)
		require.JSONEq(t, answer(want), got.Body.String(), query)
	}
}

func TestRefusedQuestions(t *testing.T) {
	b := open(t)
	b.load(t, tenant, metered("rgh_a", noon, 1))
	for query, want := range map[string]string{
		"?from=yesterday":       `"message":"from: must be an RFC 3339 time","field":"from"`,
		"?to=2026-11-21":        `"message":"to: must be an RFC 3339 time","field":"to"`,
		"?to=2026-13-01T00:00Z": `"message":"to: must be an RFC 3339 time","field":"to"`,
		"?from=2026-11-21T12:00:00Z&to=2026-11-21T12:00:00Z": `"message":"to: must be later than from","field":"to"`,
		"?asOf=now":                       `"message":"asOf: is no position that the service has named","field":"asOf"`,
		"?asOf=1.7.0":                     `"message":"asOf: is no position that the service has named","field":"asOf"`,
		"?cursor=MToxLjAuMS8w":            `"message":"cursor: is no cursor of this list","field":"cursor"`, // row 0
		"?cursor=MTp4":                    `"message":"cursor: is no cursor of this list","field":"cursor"`,
		"?cursor=MToxLjAuMS8x&asOf=1.0.0": `"message":"cursor: is no cursor of this list","field":"cursor"`,
	} {
		got := ask(b.server, tenant, query)
		require.Equal(t, 422, got.Code, "%s: %s", query, got.Body)
		require.JSONEq(t, `{"ok":false,"error":"VALIDATION_FAILED",`+want+`,"contractVersion":"v1.0"}`, got.Body.String(), query)
	}
	// A position that a warehouse under repair has not reached again.
	got := ask(b.server, tenant, "?asOf=1.0.2")
	require.Equal(t, 503, got.Code)
	require.JSONEq(t, `{"ok":false,"error":"INTERNAL_ERROR","message":"the warehouse has not loaded that position yet",
		"contractVersion":"v1.0","reason":"WAREHOUSE_BEHIND"}`, got.Body.String())
}

// TestPagesAreTheModel loads at random, asks for everything page by page while
// more is loaded, and compares with sums made here.
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
			}
			return some
		}
		all = draw()
		b.load(rt, id, all...)
		from := noon.Add(time.Duration(rapid.IntRange(0, 20).Draw(rt, "from")) * time.Hour)
		to := from.Add(time.Duration(rapid.IntRange(1, 30).Draw(rt, "window")) * time.Hour)
		rows, totals := model(all, from, to)

		limit := rapid.IntRange(1, 4).Draw(rt, "limit")
		query := url.Values{"from": {from.Format(time.RFC3339)}, "to": {to.Format(time.RFC3339)}, "limit": {fmt.Sprint(limit)}}
		got := []Row{}
		for {
			w := ask(b.server, id, "?"+query.Encode())
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

func model(all []pipeline.Delivery, from, to time.Time) ([]Row, Totals) {
	sums := map[Row]Row{}
	var totals Totals
	for i, d := range all {
		duplicate := d.Idempotency != "" && slices.ContainsFunc(all[:i], func(e pipeline.Delivery) bool {
			return e.Idempotency == d.Idempotency && d.IssuedAt.Sub(e.IssuedAt) <= 24*time.Hour
		})
		if d.RenderedAt.Before(from) || !d.RenderedAt.Before(to) {
			continue
		}
		key := Row{RightID: d.RightID, Substrate: d.Substrate, BasisID: d.BasisID, MeteringBasis: d.MeteringBasis, Reason: d.Reason}
		totals.Receipts++
		switch {
		case duplicate:
			key.MeteringBasis, key.Reason, d.QuantityMs = "none", "DUPLICATE", 0
			totals.Duplicates++
		case d.Metered:
			totals.Metered++
		default:
			totals.Suppressed++
		}
		totals.QuantityMs += d.QuantityMs
		sum, ok := sums[key]
		if !ok {
			sum = key
		}
		sum.Receipts++
		sum.QuantityMs += d.QuantityMs
		sums[key] = sum
	}
	rows := []Row{}
	for _, row := range sums {
		rows = append(rows, row)
	}
	slices.SortFunc(rows, func(a, b Row) int {
		text := func(r Row) string {
			return r.RightID + " " + r.Substrate + " " + r.BasisID + " " + r.MeteringBasis + " " + r.Reason
		}
		if text(a) < text(b) {
			return -1
		}
		return 1
	})
	return rows, totals
}

// backwards is a warehouse that has its own idea of order.
type backwards struct{ Warehouse }

func (w backwards) Metering(ctx context.Context, q pipeline.MeterQuery) ([]pipeline.MeterRow, error) {
	rows, err := w.Warehouse.Metering(ctx, q)
	slices.Reverse(rows)
	return rows, err
}

func TestOrderIsTheRooms(t *testing.T) {
	b := open(t)
	b.load(t, tenant, metered("rgh_b", noon, 1), metered("rgh_a", noon, 1), suppressed("rgh_a", noon))
	require.Equal(t, ask(b.server, tenant, "").Body.String(), ask(serve(t, backwards{b.warehouse}), tenant, "").Body.String())
}

// broken is a warehouse that is away.
type broken struct{ Warehouse }

var errAway = errors.New("warehouse at 10.0.0.7 is away")

func (broken) Resume(context.Context, int32) (sealer.Position, bool, error) {
	return sealer.Position{}, false, errAway
}

func TestWarehouseAway(t *testing.T) {
	require.Equal(t, 500, ask(serve(t, broken{}), tenant, "").Code)
	_, err := New(Config{})
	require.ErrorContains(t, err, "Warehouse")
}
