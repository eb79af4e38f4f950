package meter

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"muniment.example/control/route"
	"muniment.example/control/store"
	"muniment.example/gateway/api"
	"muniment.example/gateway/auth"
	"muniment.example/sealer"
	"muniment.example/sealer/calendar"
)

// Routes adds the service's operations to the API.
func (s *Service) Routes(a route.API) {
	route.AddDataOrFile(a, route.Operation{ID: "get-metering", Method: http.MethodGet, Path: "/v1/metering", Tag: "Metering", Access: route.Scope(api.MeteringRead), Heavy: true,
		Summary: "Sum the recorded metering decisions",
		Description: "Sums by right, substrate, basis, metering basis and reason, and by `bucket` and `by` if they are given. The window and the buckets " +
			"are of `renderedAt`. The first and the last bucket count only what is inside the window. Totals are over all rows, not the page.\n\n" +
			"By campaign, each row is counted under every campaign that its right's scope lists, inherited ones included, and under null if it lists none. " +
			"Rows of a right with several campaigns are repeated, so don't add up rows by campaign: the totals count each receipt once.\n\n" +
			"With `format` csv or ndjson the response is a file of all rows, without totals, as of the position in `" + headerAsOf + "`: the same request with that `asOf` " +
			"returns the same bytes. In CSV null is an empty cell, and an apostrophe precedes text that a spreadsheet would interpret as a formula. " +
			"A transfer that ends without its last chunk is incomplete: send the request again.",
		Files:   []string{typeCSV, typeNDJSON},
		Headers: map[string]string{headerAsOf: "Of a file: the log position that it holds for, a value for `asOf`. Absent while nothing is loaded."},
	}, s.getMetering)
	route.Add(a, route.Operation{ID: "get-refusals", Method: http.MethodGet, Path: "/v1/metering/refusals", Tag: "Metering", Access: route.Scope(api.MeteringRead), Heavy: true,
		Summary: "Sum the constraint gate's refusals",
		Description: "Sums refused deliveries by right, rule and bucket, which is an hour by default. A delivery that violated two rules is counted under both. " +
			"`unrecognised` sums misspelt fields of telemetry, such as `speed_mph`: they are accepted, and the gate does not see their values. " +
			"Nodes report their counts about once a minute; the window and the buckets are of the time of these reports."}, s.getRefusals)
}

// Question has the query parameters of both operations. It is exported because huma ignores the
// members of an unexported struct.
type Question struct {
	route.Window
	RightID  string `query:"rightId" maxLength:"64" doc:"One right only."`
	Bucket   string `query:"bucket" enum:"minute,hour,day,week,month" doc:"Also sum by buckets of time in timeZone. Weeks begin on Monday."`
	TimeZone string `query:"timeZone" maxLength:"64" doc:"IANA time zone of the buckets, and of dates without a time in from and to. Default: UTC." example:"Europe/Berlin"`
	route.AsOf
	route.Page
}

// query is a parsed Question: the warehouse's query, and the row to begin at.
type query struct {
	from, to store.Instant
	paged    route.Page
	asOf     *sealer.Position // nil while nothing is loaded
	row      int
	campaign int               // of the row's right
	calendar calendar.Calendar // without a unit if there are no buckets
	zoned    bool              // the response names the zone
}

// read parses and checks the question. unit is the default bucket. A cursor of a response by campaign
// is invalid for other responses.
func (in *Question) read(ctx context.Context, r *Service, unit string, byCampaign bool) (a query, err error) {
	if in.Bucket != "" {
		unit = in.Bucket
	}
	if a.from, a.to, a.calendar.Zone, err = in.BoundsIn(in.TimeZone); err != nil {
		return a, err
	}
	if unit == "" && in.TimeZone != "" && !in.Dated() {
		return a, api.InvalidField("timeZone", "requires bucket, or a date without a time in from or to")
	}
	a.calendar.Unit, a.zoned = unit, unit != "" || in.TimeZone != ""
	a.paged = in.Page
	slice, err := in.Slice()
	if err != nil {
		return a, err
	}
	if slice.Behind != "" {
		// A cursor belongs to one asOf; another one is refused.
		at, ok := parsePlace(slice.Behind)
		if !ok || at.campaign > 0 && !byCampaign || (in.AsOf.AsOf != "" && in.AsOf.AsOf != at.asOf.String()) {
			return a, route.BadCursor()
		}
		a.row, a.campaign, in.AsOf.AsOf = at.row, at.campaign, at.asOf.String()
	}
	a.asOf, err = in.Position(ctx, r.warehouse, r.log, auth.PrincipalFrom(ctx).TenantID)
	return a, err
}

// open reports whether the data determines where buckets begin or end.
func (a *query) open() bool { return a.calendar.Unit != "" && (a.from.IsZero() || a.to.IsZero()) }

// buckets returns the buckets of the window. first and last are the ends of the data, for an open
// window.
func (a *query) buckets(first, last time.Time) ([]time.Time, error) {
	if a.calendar.Unit == "" {
		return nil, nil
	}
	if !a.from.IsZero() {
		first = a.from.Time
	}
	if !a.to.IsZero() {
		last = a.to.Add(-time.Millisecond)
	}
	starts, ok := a.calendar.Starts(first, last.Add(time.Millisecond), maxBuckets)
	if !ok {
		return nil, api.InvalidField("bucket",
			fmt.Sprintf("the window has more than %d buckets of one %s: narrow from and to, or choose a larger bucket", maxBuckets, a.calendar.Unit))
	}
	return starts, nil
}

// Frame is what both responses have in common.
type Frame struct {
	From     store.Instant `json:"from" nullable:"true" doc:"Start of the requested window; null is open."`
	To       store.Instant `json:"to" nullable:"true"`
	AsOf     *string       `json:"asOf" doc:"The log position that the response holds for: everything before it is counted. Null while nothing is loaded."`
	Bucket   *string       `json:"bucket" doc:"The size of the buckets; null without any."`
	TimeZone *string       `json:"timeZone" doc:"The IANA time zone of the buckets, and of dates without a time; null if there are no buckets and none was given."`
}

// frame returns the frame of a response, which repeats the request.
func (a *query) frame() Frame {
	f := Frame{From: a.from, To: a.to}
	if a.asOf != nil {
		f.AsOf = new(a.asOf.String())
	}
	if a.calendar.Unit != "" {
		f.Bucket = new(a.calendar.Unit)
	}
	if a.zoned {
		f.TimeZone = new(a.calendar.Zone.String())
	}
	return f
}

// bucket is the start of a row's bucket; nil without any.
func (a *query) bucket(start time.Time) *string {
	if a.calendar.Unit == "" {
		return nil
	}
	return new(start.In(a.calendar.Zone).Format(time.RFC3339))
}

// page cuts off the row that was read beyond limit.
func page[T any](a *query, rows []T, limit int) ([]T, *string) {
	rows, next := store.Cut(rows, limit, func(T) string { return place{asOf: *a.asOf, row: a.row + limit}.String() })
	return rows, a.paged.Next(next)
}
