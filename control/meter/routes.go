package meter

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"muniment/control/store"
	"muniment/gateway/api"
	"muniment/gateway/auth"
	"muniment/pipeline"
	"muniment/sealer"
)

// partition is the one that holds every tenant of the embedded log.
const partition = 0

// retryLoading is how soon a caller may ask again for what isn't loaded yet.
const retryLoading = time.Second

// Routes adds the room's operations to the API.
func (r *Room) Routes(a huma.API) {
	huma.Register(a, huma.Operation{
		OperationID: "get-metering",
		Method:      http.MethodGet,
		Path:        "/v1/metering",
		Summary:     "Sum the recorded metering decisions",
		Description: "Sums by right, substrate, basis, metering basis and reason. The window is of renderedAt. Totals are over all rows, not the page.",
		Tags:        []string{"Metering"},
		Metadata:    map[string]any{"scope": api.MeteringRead},
	}, r.get)
}

type question struct {
	From    string `query:"from" doc:"RFC 3339; deliveries rendered at or after it"`
	To      string `query:"to" doc:"RFC 3339; deliveries rendered before it"`
	RightID string `query:"rightId" doc:"one right only"`
	AsOf    string `query:"asOf" doc:"a position that an earlier answer named; default: all that is loaded now"`
	store.Page
}

// Metering is the answer.
type Metering struct {
	// From and To echo the window; null is open.
	From *string `json:"from"`
	To   *string `json:"to"`
	// AsOf is the position up to which events are counted; null while nothing is
	// loaded.
	AsOf       *string `json:"asOf"`
	Rows       []Row   `json:"rows"`
	Totals     Totals  `json:"totals"`
	NextCursor *string `json:"nextCursor"`
}

type answer struct {
	Body api.Body[Metering]
}

func (r *Room) get(ctx context.Context, q *question) (*answer, error) {
	query := pipeline.MeterQuery{TenantID: auth.PrincipalFrom(ctx).TenantID, RightID: q.RightID}
	body := Metering{Rows: []Row{}}
	var err error
	if query.From, body.From, err = bound("from", q.From); err != nil {
		return nil, err
	}
	if query.To, body.To, err = bound("to", q.To); err != nil {
		return nil, err
	}
	if !query.From.IsZero() && !query.To.IsZero() && !query.From.Before(query.To) {
		return nil, api.Invalid(api.ValidationError{Field: "to", Message: "must be later than from"})
	}
	from, err := q.place()
	if err != nil {
		return nil, err
	}
	if from.row > 0 {
		q.AsOf = from.asOf.String()
	}
	asOf, loaded, err := r.asOf(ctx, q.AsOf)
	if err != nil {
		return nil, err
	}
	if !loaded {
		return &answer{api.OK(body)}, nil
	}
	query.AsOf = &asOf
	body.AsOf = new(asOf.String())

	rows, err := r.warehouse.Metering(ctx, query)
	if err != nil {
		return nil, err
	}
	order(rows)
	body.Totals = sum(rows)
	page, next := store.Cut(rows[min(from.row, len(rows)):], q.Limit, func(pipeline.MeterRow) string {
		return place{asOf, from.row + q.Limit}.String()
	})
	for _, row := range page {
		body.Rows = append(body.Rows, Row(row))
	}
	body.NextCursor = next
	return &answer{api.OK(body)}, nil
}

// place is where the page begins that is asked for: row 0 without a cursor. A
// cursor stands for one asOf; another beside it is refused.
func (q *question) place() (place, error) {
	key, err := q.Key()
	if err != nil || key == "" {
		return place{}, err
	}
	from, ok := parsePlace(key)
	if !ok || (q.AsOf != "" && q.AsOf != from.asOf.String()) {
		return place{}, api.Invalid(api.ValidationError{Field: "cursor", Message: "is no cursor of this list"})
	}
	return from, nil
}

// bound reads one end of the window: its time, and how the answer repeats it.
func bound(field, text string) (time.Time, *string, error) {
	if text == "" {
		return time.Time{}, nil, nil
	}
	t, err := parseTime(text)
	if err != nil {
		return time.Time{}, nil, api.Invalid(api.ValidationError{Field: field, Message: err.Error()})
	}
	return t, new(sealer.FormatTime(t)), nil
}

// asOf is the position that the answer holds for: the one asked for, or all that
// is loaded. loaded is false while the warehouse is empty.
func (r *Room) asOf(ctx context.Context, asked string) (at sealer.Position, loaded bool, err error) {
	next, loaded, err := r.warehouse.Resume(ctx, partition)
	if err != nil {
		return at, false, err
	}
	if asked == "" {
		return next, loaded, nil
	}
	at, err = sealer.ParsePosition(asked)
	if err != nil || at.Partition != partition {
		return at, false, api.Invalid(api.ValidationError{Field: "asOf", Message: "is no position that the service has named"})
	}
	if !loaded || at.Compare(next) > 0 {
		// A warehouse that is being rebuilt gets there; answering now would give
		// other sums for a position that was answered before.
		return at, false, api.Unavailable(api.WarehouseBehind, "the warehouse has not loaded that position yet", retryLoading)
	}
	return at, true, nil
}
