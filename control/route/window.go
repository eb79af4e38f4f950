package route

import (
	"context"
	"slices"
	"strings"
	"time"

	"muniment.example/control/store"
	"muniment.example/gateway/api"
	"muniment.example/sealer"
	"muniment.example/sealer/calendar"
)

// Window is embedded by the input of an operation about a period of time.
type Window struct {
	From string `query:"from" maxLength:"64" doc:"The beginning of the period, inclusive: a date or a time, as in bodies. Open when absent." example:"2026-11-01T00:00:00Z"`
	To   string `query:"to" maxLength:"64" doc:"The end of the period, exclusive: a date or a time, as in bodies. Open when absent." example:"2026-12-01T00:00:00Z"`
}

// Bounds reads the window; an open end is the zero store.Instant. Records have whole
// milliseconds, so a finer bound is rounded up, which selects the same records.
func (w Window) Bounds() (from, to store.Instant, err error) {
	from, to, _, err = w.BoundsIn("")
	return from, to, err
}

// BoundsIn is Bounds with dates in the IANA time zone of the parameter timeZone, which it returns.
func (w Window) BoundsIn(timeZone string) (from, to store.Instant, zone *time.Location, err error) {
	if zone, err = Zone(timeZone); err != nil {
		return from, to, nil, err
	}
	from, to, err = w.bounds(zone)
	return from, to, zone, err
}

// Dated reports whether an end of the window is a date without a time.
func (w Window) Dated() bool {
	return slices.ContainsFunc([]string{w.From, w.To}, func(text string) bool { return text != "" && !strings.ContainsAny(text, "Tt") })
}

// Zone reads the parameter or member timeZone; empty is UTC.
func Zone(timeZone string) (*time.Location, error) {
	zone, err := calendar.Zone(timeZone)
	if err != nil {
		err = api.InvalidField("timeZone", err.Error())
	}
	return zone, err
}

func (w Window) bounds(zone *time.Location) (from, to store.Instant, err error) {
	if from, err = bound("from", w.From, zone); err != nil {
		return from, to, err
	}
	if to, err = bound("to", w.To, zone); err != nil {
		return from, to, err
	}
	if !from.IsZero() && !to.IsZero() && !from.Before(to.Time) {
		return from, to, api.InvalidField("to", "must be later than from")
	}
	return from, to, nil
}

func bound(field, text string, zone *time.Location) (store.Instant, error) {
	t, err := moment(field, text, zone)
	if err != nil || t.IsZero() {
		return store.Instant{}, err
	}
	if whole := t.Truncate(time.Millisecond); whole.Before(t) {
		t = whole.Add(time.Millisecond)
	}
	return instant(field, t)
}

// moment reads a time of a query; empty is the zero time.
func moment(field, text string, zone *time.Location) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if strings.Contains(text, " ") {
		return time.Time{}, api.InvalidField(field, "has a space: in a query, + is written as %2B")
	}
	t, err := ParseTime(text, zone)
	if err != nil {
		err = api.InvalidField(field, err.Error())
	}
	return t, err
}

// Ends is embedded by the input of an operation that lists records with an end, which is exclusive: a record ends at its
// first moment without effect.
type Ends struct {
	EndsAfter string `query:"endsAfter" maxLength:"64" doc:"Only those that end, and later than this: a date or a time, as in bodies. With the current time, those that have not ended yet." example:"2026-12-01T00:00:00Z"`
	EndsBy    string `query:"endsBy" maxLength:"64" doc:"Only those that end at this time or before it: a date or a time, as in bodies." example:"2026-12-31T00:00:00Z"`
}

// Bounds reads both; the zero store.Instant is none. Records have whole milliseconds, so what is finer selects the same.
func (e Ends) Bounds() (after, by store.Instant, err error) {
	for _, of := range []struct {
		field, text string
		to          *store.Instant
	}{{"endsAfter", e.EndsAfter, &after}, {"endsBy", e.EndsBy, &by}} {
		t, err := moment(of.field, of.text, time.UTC)
		if err == nil && !t.IsZero() {
			*of.to, err = instant(of.field, t)
		}
		if err != nil {
			return after, by, err
		}
	}
	if !after.IsZero() && !by.IsZero() && !after.Before(by.Time) {
		return after, by, api.InvalidField("endsBy", "must be later than endsAfter")
	}
	return after, by, nil
}

// AsOf is embedded by the input of an operation that reads the warehouse. Requests as of one
// position always have the same response.
type AsOf struct {
	AsOf string `query:"asOf" maxLength:"64" doc:"A position from an earlier response: only what is before it counts. Default: everything that is loaded now." example:"1.0.20481"`
}

// LogBounds says where a log ends, and which of its partitions a tenant has, with the contract of
// pipeline.Reader.
type LogBounds interface {
	PartitionOf(ctx context.Context, tenantID string) (int32, error)
	Bounds(ctx context.Context, partition int32) (first, end sealer.Position, err error)
}

// Loaded says how far a warehouse has loaded the log, with the contract of pipeline.Sink.
type Loaded interface {
	Resume(ctx context.Context, partition int32) (next sealer.Position, ok bool, err error)
}

// retryLoading is the Retry-After for a position that isn't loaded yet.
const retryLoading = time.Second

// Position returns the position as of which to respond to a tenant: the requested one, or the end of
// what is loaded; nil while nothing is loaded. A position that isn't loaded yet is 503
// WAREHOUSE_BEHIND: a warehouse that is being rebuilt will reach it, and must not give another
// response for a position than before. A position after the end of the log, or in another
// partition than the tenant's, was in no response, and is VALIDATION_FAILED.
func (a AsOf) Position(ctx context.Context, w Loaded, log LogBounds, tenantID string) (*sealer.Position, error) {
	partition, err := log.PartitionOf(ctx, tenantID)
	if err != nil {
		return nil, err
	}
	next, loaded, err := w.Resume(ctx, partition)
	switch {
	case err != nil:
		return nil, err
	case a.AsOf == "" && !loaded:
		return nil, nil
	case a.AsOf == "":
		return &next, nil
	}
	at, err := GivenPosition("asOf", a.AsOf, partition)
	if err != nil {
		return nil, err
	}
	if !loaded || at.Compare(next) > 0 {
		if _, end, err := log.Bounds(ctx, partition); err == nil && at.Compare(end) > 0 {
			return nil, neverNamed("asOf")
		}
		return nil, api.Unavailable(api.WarehouseBehind, "the warehouse has not loaded that position yet", retryLoading)
	}
	return at, nil
}

// GivenPosition reads an optional position of a request; nil if it is empty. A position that can't
// have been in a response to a tenant of the partition is VALIDATION_FAILED.
func GivenPosition(field, text string, partition int32) (*sealer.Position, error) {
	if text == "" {
		return nil, nil
	}
	at, err := sealer.ParsePosition(text)
	if err != nil || at.Partition != partition {
		return nil, neverNamed(field)
	}
	return &at, nil
}

func neverNamed(field string) error {
	return api.InvalidField(field, "is no position that the service has named")
}
