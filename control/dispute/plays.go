package dispute

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"muniment.example/control/store"
	"muniment.example/gateway/api"
	"muniment.example/pipeline"
	"muniment.example/sealer"
)

// DisputedPlay is a disputed receipt: when and where it was, and what it is worth.
type DisputedPlay struct {
	ReceiptID       string        `json:"receiptId" doc:"The receipt: GET /v1/receipts/{receiptId} returns it."`
	RightID         string        `json:"rightId" doc:"The right that it was delivered on."`
	SpatialAnchorID string        `json:"spatialAnchorId" doc:"Where it was rendered: the receipt's anchor."`
	RenderedAt      store.Instant `json:"renderedAt" doc:"When it was rendered."`
	DwellMs         float64       `json:"dwellMs" doc:"How long it was rendered, in milliseconds."`
	Metered         bool          `json:"metered" doc:"Whether it was recorded as billed. One that repeats another is billed by that alone."`
	Worth           []Amount      `json:"worth" nullable:"true" doc:"What it is worth alone, by currency, as heldAmount: empty if it is not billed or no rule rates it; null without settlement:read, and of all while it can't be computed within some seconds, which may also be because very many that were rendered in the same millisecond repeat each other. Lines round several together, so these may add up to something else than heldAmount in the sixth fractional digit."`
}

// plays returns the disputed receipts, in the order in which the dispute names them, without those that the
// warehouse lacks. priced says whether to tell what they are worth.
func (r *Service) plays(ctx context.Context, d *Dispute, priced bool) ([]DisputedPlay, error) {
	list, rows := []DisputedPlay{}, []pipeline.Row{}
	for ids := range slices.Chunk(d.ReceiptIDs, lookups) {
		found, err := r.lookUp(ctx, d.TenantID, ids)
		if err != nil {
			return nil, err
		}
		for _, row := range found {
			if row.Delivery == nil {
				continue
			}
			parts, err := sealer.SplitDelivery(row.Event)
			if err != nil {
				return nil, fmt.Errorf("cannot read the disputed event %s: %w", row.EventID, err)
			}
			var receipt api.Receipt
			if err := json.Unmarshal(parts.Receipt, &receipt); err != nil {
				return nil, fmt.Errorf("cannot read the disputed receipt of %s: %w", row.EventID, err)
			}
			rows = append(rows, row)
			list = append(list, DisputedPlay{
				ReceiptID: receipt.ReceiptID, RightID: row.Delivery.RightID, SpatialAnchorID: receipt.SpatialAnchorID,
				RenderedAt: store.At(row.Delivery.RenderedAt), DwellMs: receipt.DwellMs, Metered: row.Delivery.Metered,
			})
		}
	}
	if !priced {
		return list, nil
	}
	worth, err := r.worth(ctx, d.TenantID, rows)
	if err != nil { // return the plays without it
		return list, ctx.Err()
	}
	for i := range list {
		list[i].Worth = worth[i]
	}
	return list, nil
}
