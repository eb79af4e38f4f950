package meter

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"muniment/control/route"
	"muniment/control/store"
	"muniment/gateway/api"
	"muniment/gateway/auth"
	"muniment/sealer"
)

// Routes adds the service's operations to the API.
func (s *Service) Routes(a route.API) {
	route.AddDataOrFile(a, route.Operation{ID: "get-metering", Method: http.MethodGet, Path: "/v1/metering", Tag: "Metering", Access: route.Scope(api.MeteringRead), Heavy: true,
		Summary: "Sum the recorded metering decisions",
		Description: "Sums by right, substrate, basis, metering basis and reason, and by `bucket` and what `by` names when these are given. The window and the buckets " +
			"are of `renderedAt`. A first or last bucket that the window cuts counts what is inside the window. Totals are over all rows, not the page.\n\n" +
			"By campaign, each row is counted under every campaign that its right's scope lists, inherited ones included, and under null if it lists none. " +
			"Rows of a right with several campaigns are repeated, so don't add up rows by campaign: the totals count each receipt once.\n\n" +
			"With `format` csv or ndjson the answer is a file of all rows, without totals, as of the position in `" + headerAsOf + "`: the same question with that `asOf` " +
			"gives the same bytes. In CSV null is an empty cell, and an apostrophe precedes what a spreadsheet would take for a formula. " +
			"A file without its last chunk is not whole: ask again.",
		Files:   []string{typeCSV, typeNDJSON},
		Headers: map[string]string{headerAsOf: "Of a file: the log position that it holds for, which `asOf` takes. Absent while nothing is loaded."},
	}, s.getMetering)
	route.Add(a, route.Operation{ID: "get-refusals", Method: http.MethodGet, Path: "/v1/metering/refusals", Tag: "Metering", Access: route.Scope(api.MeteringRead),
		Summary: "Sum what the constraint gate refused",
		Description: "Sums refused deliveries by right, rule and bucket, an hour when none is given. A delivery that broke two rules is counted under both. " +
			"Nodes report their counts about once a minute; the window and the buckets are by the time of these reports."}, s.getRefusals)
}

// Question is what both operations take. It is exported because huma passes over
// the members of a struct that is not.
type Question struct {
	route.Window
	RightID  string `query:"rightId" maxLength:"64" doc:"One right only."`
	Bucket   string `query:"bucket" enum:"minute,hour,day,week,month" doc:"Also sum by stretches of time, cut by the clocks of timeZone. Weeks begin on Monday."`
	TimeZone string `query:"timeZone" maxLength:"64" doc:"IANA time zone that cuts the buckets; UTC when absent." example:"Europe/Berlin"`
	route.AsOf
	route.Page
}

// asked is a question that was read: what to ask the warehouse, and from which row on.
type asked struct {
	from, to store.Instant
	asOf     *sealer.Position // nil while nothing is loaded
	row      int
	campaign int      // of the row's right
	calendar calendar // without a unit when nothing is cut
}

// read checks the question. unit is what to cut by when it names none. A cursor of an answer by
// campaign is none of another.
func (in *Question) read(ctx context.Context, r *Service, unit string, byCampaign bool) (a asked, err error) {
	if a.from, a.to, err = in.Bounds(); err != nil {
		return a, err
	}
	if in.Bucket != "" {
		unit = in.Bucket
	}
	if unit == "" && in.TimeZone != "" {
		return a, api.InvalidField("timeZone", "is of use with bucket only")
	}
	if a.calendar, err = newCalendar(unit, in.TimeZone); err != nil {
		return a, err
	}
	slice, err := in.Slice()
	if err != nil {
		return a, err
	}
	if slice.Behind != "" {
		// A cursor is bound to one asOf; another one is refused.
		at, ok := parsePlace(slice.Behind)
		if !ok || at.campaign > 0 && !byCampaign || (in.AsOf.AsOf != "" && in.AsOf.AsOf != at.asOf.String()) {
			return a, route.BadCursor()
		}
		a.row, a.campaign, in.AsOf.AsOf = at.row, at.campaign, at.asOf.String()
	}
	a.asOf, err = in.Position(ctx, r.warehouse, r.log, auth.PrincipalFrom(ctx).TenantID)
	return a, err
}

// open says whether the data must show where buckets begin and end.
func (a *asked) open() bool { return a.calendar.unit != "" && (a.from.IsZero() || a.to.IsZero()) }

// buckets cuts the window. first and last are of the data, for its open ends.
func (a *asked) buckets(first, last time.Time) ([]time.Time, error) {
	if a.calendar.unit == "" {
		return nil, nil
	}
	if !a.from.IsZero() {
		first = a.from.Time
	}
	if !a.to.IsZero() {
		last = a.to.Add(-time.Millisecond)
	}
	starts, ok := a.calendar.starts(first, last.Add(time.Millisecond), maxBuckets)
	if !ok {
		return nil, api.InvalidField("bucket",
			fmt.Sprintf("the window has more than %d buckets of one %s: narrow from and to, or take a larger bucket", maxBuckets, a.calendar.unit))
	}
	return starts, nil
}

// Frame is what both answers have in common.
type Frame struct {
	From     store.Instant `json:"from" nullable:"true" doc:"The window as asked for; null is open."`
	To       store.Instant `json:"to" nullable:"true"`
	AsOf     *string       `json:"asOf" doc:"The log position that the answer holds for: everything before it is counted. Null while nothing is loaded."`
	Bucket   *string       `json:"bucket" doc:"What time is cut into; null when it is not."`
	TimeZone *string       `json:"timeZone" doc:"The IANA time zone of the buckets; null without any."`
}

// frame repeats the question.
func (a *asked) frame() Frame {
	f := Frame{From: a.from, To: a.to}
	if a.asOf != nil {
		f.AsOf = new(a.asOf.String())
	}
	if a.calendar.unit != "" {
		f.Bucket, f.TimeZone = new(a.calendar.unit), new(a.calendar.zone.String())
	}
	return f
}

// bucket is the start of a row's bucket; nil without any.
func (a *asked) bucket(start time.Time) *string {
	if a.calendar.unit == "" {
		return nil
	}
	return new(start.In(a.calendar.zone).Format(time.RFC3339))
}

// page cuts rows that were read with one more than limit.
func page[T any](a *asked, rows []T, limit int) ([]T, *string) {
	rows, next := store.Cut(rows, limit, func(T) string { return place{asOf: *a.asOf, row: a.row + limit}.String() })
	return rows, route.Cursor(next)
}
