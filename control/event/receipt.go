package event

import (
	"context"
	"encoding/json"
	"errors"
	"strings"

	"muniment.example/control/route"
	"muniment.example/control/store"
	"muniment.example/control/table"
	"muniment.example/gateway/api"
	"muniment.example/gateway/auth"
	"muniment.example/pipeline"
	"muniment.example/sealer"
)

type receiptsRequest struct {
	CorrelationID   string `query:"correlationId" maxLength:"512" doc:"Only receipts with this tracing id, byte for byte." example:"play-0001"`
	SpatialAnchorID string `query:"spatialAnchorId" maxLength:"512" doc:"Only receipts of deliveries at this anchor." example:"screen-0042"`
	RightID         string `query:"rightId" maxLength:"64" doc:"Only receipts of deliveries under this right."`
	ReceiptIDEnd    string `query:"receiptIdEnd" maxLength:"26" pattern:"^(.{6,26})?$" doc:"Only receipts whose id ends with these characters, as somebody reads them from a paper: small letters count as large, I and L as 1, O as 0. Requires from and to, at most 7 days apart." example:"7Q2ZDK"`
	Format          string `query:"format" enum:"json,csv,ndjson,parquet" default:"json" doc:"json: a page in the envelope. csv, ndjson, parquet: a file of all receipts, without limit and cursor."`
	BOM             string `query:"bom" enum:"true,false" doc:"Requires format csv: the file begins with a byte order mark, as spreadsheets need it to read UTF-8."`
	route.Window
	route.AsOf
	route.Page
}

// foundReceipt is a receipt in a list. Its JSON is a file that muniment verify accepts.
type foundReceipt struct {
	Receipt   json.RawMessage `json:"receipt" doc:"The signed content, verbatim."`
	Signature json.RawMessage `json:"signature"`
	Event     json.RawMessage `json:"event" doc:"Verbatim: its canonical bytes are the leaf of the tenant's Merkle log."`
	Position  string          `json:"position" doc:"The event's position, opaque."`
}

// receiptList is the response to GET /v1/receipts.
type receiptList struct {
	Receipts   []foundReceipt `json:"receipts" doc:"The receipts of this page."`
	AsOf       *string        `json:"asOf" doc:"The log position up to which receipts were searched; null while nothing is loaded."`
	NextCursor *string        `json:"nextCursor"`
}

func (s *Service) listReceipts(ctx context.Context, in *receiptsRequest) (receiptList, *route.File, error) {
	switch file := in.Format != string(table.JSON); {
	case file && in.PageGiven():
		return receiptList{}, nil, api.InvalidField("format", "is a file of all receipts: limit and cursor are for json")
	case in.BOM == "true" && in.Format != string(table.CSV):
		return receiptList{}, nil, api.InvalidField("bom", "requires format csv")
	}
	q := pipeline.EventQuery{
		TenantID: auth.PrincipalFrom(ctx).TenantID, Types: []string{sealer.TypeDelivery}, Newest: true, Limit: in.Limit + 1,
		RightID: in.RightID, SpatialAnchorID: in.SpatialAnchorID, CorrelationID: in.CorrelationID,
	}
	from, to, err := in.Bounds()
	if err != nil {
		return receiptList{}, nil, err
	}
	q.RenderedFrom, q.RenderedTo = from.Time, to.Time
	if in.ReceiptIDEnd != "" {
		var ok bool
		if q.EventIDEnd, ok = api.IDEnd(in.ReceiptIDEnd); !ok { // that of the event's id, too
			return receiptList{}, nil, api.InvalidField("receiptIdEnd", "must be the last letters and digits of a receipt's id, such as 7Q2ZDK")
		}
		if from.IsZero() || to.IsZero() || to.Sub(from.Time) > api.MostIDEndSpan {
			return receiptList{}, nil, api.InvalidField("receiptIdEnd", "requires from and to, at most 7 days apart: all receipts of that time are looked through")
		}
	}
	asOf, err := in.Position(ctx, s.warehouse, s.log, q.TenantID)
	if err != nil {
		return receiptList{}, nil, err
	}
	if in.Format != string(table.JSON) {
		return receiptList{}, s.receiptFile(q, asOf, table.Format(in.Format), in.BOM == "true"), nil
	}
	page, err := s.receiptPage(ctx, in, q, asOf)
	return page, nil, err
}

func (s *Service) receiptPage(ctx context.Context, in *receiptsRequest, q pipeline.EventQuery, asOf *sealer.Position) (receiptList, error) {
	page := receiptList{Receipts: []foundReceipt{}}
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
	rows, err := s.list(ctx, q)
	if err != nil {
		return receiptList{}, err
	}
	page.AsOf = new(asOf.String())
	rows, next := store.Cut(rows, in.Limit, func(row pipeline.Row) string { return row.Position.String() })
	page.NextCursor = in.Next(next)
	for _, row := range rows {
		parts, err := sealer.SplitDelivery(row.Event)
		if err != nil {
			return receiptList{}, err
		}
		page.Receipts = append(page.Receipts, foundReceipt{parts.Receipt, parts.Signature, row.Event, row.Position.String()})
	}
	return page, nil
}

// receiptRequest names a receipt.
type receiptRequest struct {
	ReceiptID string `path:"receiptId"`
}

type loggedReceipt struct {
	Receipt   json.RawMessage `json:"receipt" doc:"The signed content, verbatim."`
	Signature json.RawMessage `json:"signature"`
	Event     json.RawMessage `json:"event" doc:"Verbatim: its canonical bytes are the leaf of the tenant's Merkle log."`
	Position  string          `json:"position" doc:"The event's position, opaque."`
	Sealed    *sealedLeaf     `json:"sealed" doc:"Null until a proof pack holds the event."`
}

// sealedLeaf is the pack and the leaf of a sealed event.
type sealedLeaf struct {
	_         struct{} `nullable:"true"`
	PackID    string   `json:"packId"`
	LeafIndex uint64   `json:"leafIndex" doc:"Leaf index in the tenant's Merkle log, from 0."`
}

func (s *Service) getReceipt(ctx context.Context, in *receiptRequest) (loggedReceipt, error) {
	row, err := s.receipt(ctx, in.ReceiptID)
	if err != nil {
		return loggedReceipt{}, err
	}
	parts, err := sealer.SplitDelivery(row.Event)
	if err != nil {
		return loggedReceipt{}, err
	}
	detail := loggedReceipt{Receipt: parts.Receipt, Signature: parts.Signature, Event: row.Event, Position: row.Position.String()}
	p, index, found, err := s.packs.LeafOf(ctx, row)
	if err != nil {
		return loggedReceipt{}, err
	}
	if found {
		detail.Sealed = &sealedLeaf{PackID: p.ID, LeafIndex: index}
	}
	return detail, nil
}

type proofRequest struct {
	ReceiptID  string `path:"receiptId"`
	Checkpoint string `query:"checkpoint" enum:"pack,latest" default:"pack" doc:"pack: the checkpoint of the pack that holds the receipt, which is the oldest one possible; if that pack's key is revoked, the checkpoint of the first later pack whose key is not. latest: the checkpoint of the tenant's newest pack."`
}

// The order of the members is that of the file that muniment verify reads.
type inclusionProof struct {
	Event json.RawMessage `json:"event" doc:"Verbatim: it is the leaf."`
	Proof string          `json:"proof" doc:"C2SP tlog-proof."`
}

// errNotSealed refuses to prove a receipt that is in no pack.
var errNotSealed = api.Conflict("no proof pack holds the receipt yet: seal one first")

func (s *Service) proveReceipt(ctx context.Context, in *proofRequest) (inclusionProof, error) {
	row, err := s.receipt(ctx, in.ReceiptID)
	if err != nil {
		return inclusionProof{}, err
	}
	proof, found, err := s.packs.Inclusion(ctx, row, in.Checkpoint == "latest")
	if err == nil && !found {
		err = errNotSealed
	}
	if err != nil {
		return inclusionProof{}, err
	}
	return inclusionProof{Event: row.Event, Proof: proof.Text()}, nil
}

// receipt returns the event with a receipt of the caller's tenant; RESOURCE_NOT_FOUND if there is
// none. It waits for the log to be loaded, so a receipt that the caller has is found.
func (s *Service) receipt(ctx context.Context, receiptID string) (pipeline.Row, error) {
	none := api.NotFound("receipt")
	ulid, ok := strings.CutPrefix(receiptID, string(api.PrefixReceipt))
	if !ok {
		return pipeline.Row{}, none
	}
	tenantID, eventID := auth.PrincipalFrom(ctx).TenantID, string(api.PrefixEvent)+ulid
	row, err := s.warehouse.Event(ctx, tenantID, eventID)
	if errors.Is(err, pipeline.ErrNoEvent) {
		if err = s.packs.AwaitLoaded(ctx, tenantID); err == nil {
			row, err = s.warehouse.Event(ctx, tenantID, eventID)
		}
	}
	if errors.Is(err, pipeline.ErrNoEvent) || err == nil && row.Delivery == nil {
		err = none
	}
	return row, err
}
