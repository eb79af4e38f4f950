package proof

import (
	"context"
	"encoding/json"
	"net/http"

	"muniment/control/route"
	"muniment/control/store"
	"muniment/gateway/api"
	"muniment/gateway/auth"
	"muniment/pipeline"
	"muniment/sealer"
)

type receiptsRequest struct {
	CorrelationID   string `query:"correlationId" maxLength:"512" doc:"Only receipts with this tracing id, byte for byte." example:"play-0001"`
	SpatialAnchorID string `query:"spatialAnchorId" maxLength:"512" doc:"Only receipts of what was shown there." example:"screen-0042"`
	RightID         string `query:"rightId" maxLength:"64" doc:"Only receipts of deliveries under this right."`
	route.Window
	route.AsOf
	route.Page
}

// foundReceipt is a receipt in a list. Saved as it is, it is a file that muniment verify takes.
type foundReceipt struct {
	Receipt   json.RawMessage `json:"receipt" doc:"What is signed, verbatim."`
	Signature json.RawMessage `json:"signature"`
	Event     json.RawMessage `json:"event" doc:"Verbatim: its canonical bytes are the leaf of the tenant's Merkle log."`
	Position  string          `json:"position" doc:"Of the event, opaque."`
}

// receiptList is the answer to GET /v1/receipts.
type receiptList struct {
	Receipts   []foundReceipt `json:"receipts" doc:"The receipts of this page."`
	AsOf       *string        `json:"asOf" doc:"The log position up to which the page looked; null while nothing is loaded."`
	NextCursor *string        `json:"nextCursor"`
}

func (r *Room) searchRoutes(a route.API) {
	route.Add(a, route.Operation{ID: "list-receipts", Method: http.MethodGet, Path: "/v1/receipts", Tag: "Receipts", Access: route.Scope(api.AuditRead),
		Summary: "Find receipts by what their deliveries said, newest first",
		Description: "What the warehouse has loaded: a receipt turns up here shortly after its caller got it, and can be read by its id at once. " +
			"A receipt has to meet each filter that is given; `from` and `to` bound its `renderedAt`. Receipts are in the order of the log. A cursor neither " +
			"skips nor repeats one, whatever arrives meanwhile; the filters are given again beside it."}, r.listReceipts)
}

func (r *Room) listReceipts(ctx context.Context, in *receiptsRequest) (receiptList, error) {
	page := receiptList{Receipts: []foundReceipt{}}
	q := pipeline.EventQuery{
		TenantID: auth.PrincipalFrom(ctx).TenantID, Types: []string{sealer.TypeDelivery}, Newest: true, Limit: in.Limit + 1,
		RightID: in.RightID, SpatialAnchorID: in.SpatialAnchorID, CorrelationID: in.CorrelationID,
	}
	from, to, err := in.Bounds()
	if err != nil {
		return receiptList{}, err
	}
	q.RenderedFrom, q.RenderedTo = from.Time, to.Time
	asOf, err := in.Position(ctx, r.warehouse, r.log, q.TenantID)
	if err != nil {
		return receiptList{}, err
	}
	slice, err := in.Slice()
	if err != nil {
		return receiptList{}, err
	}
	if q.Before = asOf; slice.Behind != "" {
		last, err := sealer.ParsePosition(slice.Behind)
		if err != nil {
			return receiptList{}, route.BadCursor()
		}
		q.Before = nearer(asOf, &last, -1)
	}
	if asOf == nil {
		return page, nil
	}
	rows, err := r.warehouse.Events(ctx, q)
	if err != nil {
		return receiptList{}, err
	}
	page.AsOf = new(asOf.String())
	rows, next := store.Cut(rows, in.Limit, func(row pipeline.Row) string { return row.Position.String() })
	page.NextCursor = route.Cursor(next)
	for _, row := range rows {
		parts, err := sealer.SplitDelivery(row.Event)
		if err != nil {
			return receiptList{}, err
		}
		page.Receipts = append(page.Receipts, foundReceipt{parts.Receipt, parts.Signature, row.Event, row.Position.String()})
	}
	return page, nil
}
