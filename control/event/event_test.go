package event

import (
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"muniment.example/control/route"
	"muniment.example/control/route/routetest"
	"muniment.example/control/store"
	"muniment.example/gate"
	"muniment.example/gateway/api"
	"muniment.example/pipeline"
	"muniment.example/pipeline/conform"
	"muniment.example/sealer"
)

func cursor(key string) string { return *route.PageOf("/v1/events", "").Next(key) }

func TestEventsOverHTTP(t *testing.T) {
	h := build(t)
	h.script(t, []exchange{
		{tenant, "GET /v1/events", 200, `{"ok":true,"data":{"events":[],"asOf":null,"nextCursor":null},"contractVersion":"v1.0"}`},
		{tenant, "GET /v1/events?after=x", 422,
			routetest.Invalid("after: is no position that the service has named")},
	})
	h.Deliver(
		delivery{Substrate: gate.DOOH, DwellMs: 1, Subject: "Ada Lovelace"},
		delivery{Substrate: gate.CTV, DwellMs: 2, Subject: "Ada Lovelace"},
		delivery{Tenant: stranger, DwellMs: 3},
	)
	h.Audit("right.issued")
	h.seal() // everything is loaded now
	rows := h.sealed()
	require.Len(t, rows, 3)

	all := send(h.serve(), tenant, "GET /v1/events").Body.String()
	require.Contains(t, all, string(rows[1]), "verbatim")
	loaded, err := h.Warehouse.Events(t.Context(), pipeline.EventQuery{TenantID: tenant, Limit: 1})
	require.NoError(t, err)
	require.Contains(t, string(loaded[0].Private), "Ada Lovelace")
	require.NotContains(t, all, "Ada Lovelace", "private parts stay in the warehouse")

	event := func(n int) string {
		return fmt.Sprintf(`{"position":"%s","event":%s}`, []string{"1.0.0", "1.0.1", "1.0.3"}[n], rows[n])
	}
	page := func(next string, events ...string) string {
		return `{"ok":true,"data":{"events":[` + strings.Join(events, ",") + `],"asOf":"1.0.4","nextCursor":` + next + `},"contractVersion":"v1.0"}`
	}
	quoted := func(key string) string { return `"` + cursor(key) + `"` }
	var script []exchange
	for query, want := range map[string]string{
		"type=right.issued":                                             page("null", event(2)),
		"type=right.issued,delivery.recorded":                           page("null", event(2), event(1), event(0)),
		"type=right.issued&type=delivery.recorded":                      page("null", event(2), event(1), event(0)),
		"order=asc&type=delivery.recorded":                              page("null", event(0), event(1)),
		"order=asc&after=1.0.0":                                         page("null", event(1), event(2)),
		"before=1.0.3&after=1.0.0":                                      page("null", event(1)),
		"subjectKind=tenant":                                            page("null", event(2)),
		"actorKind=operator&actorId=admin":                              page("null", event(2)),
		"actorKind=node":                                                page("null"),
		"actorKind=member":                                              page("null"),
		"type=delivery.recorded&limit=1":                                page(quoted("desc/1.0.1"), event(1)),
		"order=asc&limit=1":                                             page(quoted("asc/1.0.0"), event(0)),
		"type=delivery.recorded&limit=1&cursor=" + cursor("desc/1.0.1"): page("null", event(0)),
		"order=asc&limit=1&cursor=" + cursor("asc/1.0.1"):               page("null", event(2)),
		// Bounds beside a cursor: the nearer one holds.
		"order=asc&after=1.0.1&cursor=" + cursor("asc/1.0.0"): page("null", event(2)),
		"before=1.0.1&cursor=" + cursor("desc/1.0.3"):         page("null", event(0)),
	} {
		script = append(script, exchange{tenant, "GET /v1/events?asOf=1.0.4&" + query, 200, want}) // without the event of sealing
	}
	script = append(script, exchange{tenant, "GET /v1/events?asOf=1.0.1", 200, strings.Replace(page("null", event(0)), "1.0.4", "1.0.1", 1)})
	for query, want := range map[string][2]string{
		"cursor=MTp4": {"cursor", "is no cursor of this list"},
		"cursor=%00":  {"cursor", "is no cursor of this list"},
		"order=asc&cursor=" + cursor("desc/1.0.1"): {"cursor", "is no cursor of this list"},
		"before=1.1.0":                      {"before", "is no position that the service has named"},
		"asOf=1.0.99":                       {"asOf", "is no position that the service has named"}, // behind the log
		"asOf=now":                          {"asOf", "is no position that the service has named"},
		"type=right.isued":                  {"type", "no kind of event has this name; the nearest is right.issued"},
		"type=delivery.recorded,key.revokd": {"type", "no kind of event has this name; the nearest is key.revoked"},
		"type=right.*":                      {"type", "no kind of event has this name; the nearest is right.issued"},
		"from=noon":                         {"from", "must be a date, such as 2026-11-01, or a time, such as 2026-11-01T12:00:00Z or 20261101T120000Z"},
		"from=2026-11-21T04:00:00Z&to=2026-11-21T04:00:00Z": {"to", "must be later than from"},
		"rightId=rgh_a&subjectKind=key":                     {"rightId", "contradicts subjectKind or subjectId"},
		"rightId=rgh_a&subjectId=rgh_b":                     {"rightId", "contradicts subjectKind or subjectId"},
	} {
		script = append(script, exchange{tenant, "GET /v1/events?" + query, 422, routetest.Invalid(want[0] + ": " + want[1])})
	}
	h.script(t, script)
}

// TestEventPagesWhileEventsArrive pages in both directions, under filters, while
// events are loaded between the pages: what was there at the start comes once each,
// in order, and what came later comes once if the listing goes up.
func TestEventPagesWhileEventsArrive(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := &conform.MemoryWarehouse{}
		server := serve(t, &Service{warehouse: w, turns: store.NewTurns(listsAtOnce), log: &conform.MemoryLog{}, kinds: kinds})
		var all []pipeline.Row
		arrive := func() {
			for range rapid.IntRange(0, 5).Draw(rt, "arriving") {
				n := len(all)
				r := pipeline.Row{
					Entry:     sealer.Entry{Position: sealer.Position{Generation: uint32(1 + n/9), Offset: int64(n)}},
					Type:      rapid.SampledFrom([]string{sealer.TypeDelivery, "right.issued", "key.revoked"}).Draw(rt, "type"),
					At:        time.Date(2026, 11, 21, 4, 0, rapid.IntRange(0, 9).Draw(rt, "second"), 0, time.UTC),
					ActorKind: rapid.SampledFrom([]string{"key", "operator"}).Draw(rt, "actor"), ActorID: "a",
					SubjectKind: "right", SubjectID: rapid.SampledFrom([]string{"rgh_a", "rgh_b"}).Draw(rt, "subject"),
				}
				r.TenantID, r.EventID = tenant, fmt.Sprint("evt_", n)
				r.Event = fmt.Appendf(nil, `{"n":%d}`, n)
				all = append(all, r)
				require.NoError(rt, w.Load(t.Context(), pipeline.Batch{From: r.Position, Rows: all[n:], Next: r.Next()}))
			}
		}
		arrive()
		before := len(all)

		query := url.Values{"limit": {fmt.Sprint(rapid.IntRange(1, 4).Draw(rt, "limit"))}}
		keep := func(pipeline.Row) bool { return true }
		and := func(further func(pipeline.Row) bool) {
			inner := keep
			keep = func(r pipeline.Row) bool { return inner(r) && further(r) }
		}
		order := rapid.SampledFrom([]string{"", "asc", "desc"}).Draw(rt, "order")
		if order != "" {
			query.Set("order", order)
		}
		if rapid.Bool().Draw(rt, "of types") {
			query["type"] = []string{"right.issued,key.revoked", sealer.TypeDelivery}[:rapid.IntRange(1, 2).Draw(rt, "how many")]
			if len(query["type"]) == 1 {
				and(func(r pipeline.Row) bool { return r.Type != sealer.TypeDelivery })
			}
		}
		if rapid.Bool().Draw(rt, "of a right") {
			query.Set("rightId", "rgh_a")
			and(func(r pipeline.Row) bool { return r.SubjectID == "rgh_a" })
		}
		if rapid.Bool().Draw(rt, "of an actor") {
			query.Set("actorKind", "operator")
			and(func(r pipeline.Row) bool { return r.ActorKind == "operator" })
		}
		if rapid.Bool().Draw(rt, "of a time") {
			query.Set("from", "2026-11-21T04:00:02Z")
			query.Set("to", "2026-11-21T05:00:08+01:00")
			and(func(r pipeline.Row) bool { return r.At.Second() >= 2 && r.At.Second() < 8 })
		}
		frozen := before > 0 && rapid.Bool().Draw(rt, "as of now")
		if frozen {
			query.Set("asOf", all[before-1].Next().String())
		}

		var got []int
		for {
			w := send(server, tenant, "GET /v1/events?"+query.Encode())
			require.Equal(rt, 200, w.Code, w.Body)
			var page api.Body[struct {
				Events     []struct{ Event struct{ N int } }
				NextCursor *string
			}]
			require.NoError(rt, json.Unmarshal(w.Body.Bytes(), &page))
			for _, e := range page.Data.Events {
				got = append(got, e.Event.N)
			}
			if page.Data.NextCursor == nil {
				break
			}
			query.Set("cursor", *page.Data.NextCursor)
			if len(all) < 40 {
				arrive()
			}
		}
		var want []int
		upTo := before
		if order == "asc" && !frozen {
			upTo = len(all)
		}
		for n, r := range all[:upTo] {
			if keep(r) {
				want = append(want, n)
			}
		}
		if order != "asc" {
			slices.Reverse(want)
		}
		require.Equal(rt, want, got)
	})
}
