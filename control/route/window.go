package route

import (
	"context"
	"strings"
	"time"

	"muniment/control/store"
	"muniment/gateway/api"
	"muniment/sealer"
)

// Window is what an operation takes that can be asked about a stretch of time; its
// input embeds it.
type Window struct {
	From string `query:"from" maxLength:"64" doc:"A date or a time, as in bodies; at or after it. Open when absent." example:"2026-11-01T00:00:00Z"`
	To   string `query:"to" maxLength:"64" doc:"A date or a time, as in bodies; before it. Open when absent." example:"2026-12-01T00:00:00Z"`
}

// Bounds reads the window; an open end is the zero store.Instant. Records have whole
// milliseconds, so a finer bound is rounded up, which selects the same of them.
func (w Window) Bounds() (from, to store.Instant, err error) {
	if from, err = bound("from", w.From); err != nil {
		return from, to, err
	}
	if to, err = bound("to", w.To); err != nil {
		return from, to, err
	}
	if !from.IsZero() && !to.IsZero() && !from.Before(to.Time) {
		return from, to, api.InvalidField("to", "must be later than from")
	}
	return from, to, nil
}

func bound(field, text string) (store.Instant, error) {
	if text == "" {
		return store.Instant{}, nil
	}
	if strings.Contains(text, " ") {
		return store.Instant{}, api.InvalidField(field, "has a space: in a query, + is written as %2B")
	}
	t, err := ParseTime(text)
	if err != nil {
		return store.Instant{}, api.InvalidField(field, err.Error())
	}
	if whole := t.Truncate(time.Millisecond); whole.Before(t) {
		t = whole.Add(time.Millisecond)
	}
	return held(field, t)
}

// AsOf is what an operation takes that answers from the warehouse; its input embeds
// it. The same question as of one position has the same answer for ever.
type AsOf struct {
	AsOf string `query:"asOf" maxLength:"64" doc:"A position that an earlier answer named: nothing from there on counts. Default: all that is loaded now." example:"1.0.20481"`
}

// Ended says where a log ends, and in which of its partitions a tenant is, with the
// contract of pipeline.Reader.
type Ended interface {
	PartitionOf(ctx context.Context, tenantID string) (int32, error)
	Bounds(ctx context.Context, partition int32) (first, end sealer.Position, err error)
}

// retryLoading is how soon a caller may ask again for what isn't loaded yet.
const retryLoading = time.Second

// Position is the position that the answer to a tenant holds for: the one asked for, or
// all that is loaded; nil while nothing is. One that isn't loaded yet is 503
// WAREHOUSE_BEHIND: a warehouse that is being rebuilt gets there, and answering
// sooner would give another answer for a position that was answered before. One that
// the log hasn't reached, or of a partition that is not the tenant's, was never named,
// and is VALIDATION_FAILED.
func (a AsOf) Position(ctx context.Context, w store.Loaded, log Ended, tenantID string) (*sealer.Position, error) {
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

// GivenPosition reads an optional position of a request; nil when it is empty. One
// that this service can't have named to a tenant of the partition is VALIDATION_FAILED.
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
