package proof

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"muniment/control/store"
	"muniment/gateway/api"
	"muniment/gateway/auth"
	"muniment/pipeline"
	"muniment/sealer"
)

// LoggedEvent is an event of the tenant's log and where it stands. Its private
// part stays in the warehouse.
type LoggedEvent struct {
	Position string          `json:"position" doc:"opaque; may be handed back where a position is asked for"`
	Event    json.RawMessage `json:"event" doc:"verbatim: its canonical bytes are the leaf of the tenant's Merkle log"`
}

type eventsRequest struct {
	store.Page
	Type string `query:"type" maxLength:"100" doc:"only events of this type, such as delivery.recorded"`
}

type eventsResponse struct {
	Body api.Body[eventPage]
}

type eventPage struct {
	Events     []LoggedEvent `json:"events"`
	NextCursor *string       `json:"nextCursor"`
}

func (r *Room) eventRoutes(a huma.API) {
	huma.Register(a, huma.Operation{
		OperationID: "list-events",
		Method:      http.MethodGet,
		Path:        "/v1/events",
		Summary:     "List the tenant's events, newest first",
		Description: "What the warehouse has loaded: an event turns up here shortly after it is durable.",
		Tags:        []string{"Events"},
		Metadata:    map[string]any{"scope": api.AuditRead},
	}, r.listEvents)
}

func (r *Room) listEvents(ctx context.Context, in *eventsRequest) (*eventsResponse, error) {
	query := pipeline.EventQuery{
		TenantID: auth.PrincipalFrom(ctx).TenantID,
		Newest:   true,
		Limit:    in.Limit + 1,
	}
	if in.Type != "" {
		query.Types = []string{in.Type}
	}
	key, err := in.Key()
	if err != nil {
		return nil, err
	}
	if key != "" {
		before, err := sealer.ParsePosition(key)
		if err != nil {
			return nil, badCursor()
		}
		query.Before = &before
	}
	rows, err := r.warehouse.Events(ctx, query)
	if err != nil {
		return nil, err
	}
	page := eventPage{Events: []LoggedEvent{}}
	rows, page.NextCursor = store.Cut(rows, in.Limit, func(row pipeline.Row) string { return row.Position.String() })
	for _, row := range rows {
		page.Events = append(page.Events, LoggedEvent{row.Position.String(), row.Event})
	}
	return &eventsResponse{api.OK(page)}, nil
}
