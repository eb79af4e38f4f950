package dispute

import (
	"context"
	"net/http"

	"muniment.example/control/route"
	"muniment.example/control/store"
	"muniment.example/gateway/api"
	"muniment.example/gateway/auth"
)

// Routes adds the service's operations to the API.
func (r *Service) Routes(a route.API) {
	const read, write = route.Scope(api.DisputesRead), route.Scope(api.DisputesWrite)
	route.Add(a, route.Operation{ID: "open-dispute", Method: http.MethodPost, Path: "/v1/disputes", Tag: "Disputes", Access: write, Heavy: true,
		Summary: "Dispute receipts, or the deliveries of a right in a window",
		Description: "Name either receiptIds, or rightId with window. Settlement leaves out the disputed deliveries until the dispute is resolved, and permanently if it is UPHELD. " +
			"The response is 404 if a receipt is not in the warehouse, which may be some seconds behind. A tenant has at most 1,000 unresolved disputes.", Errors: []int{http.StatusNotFound}}, r.post)
	route.Add(a, route.Operation{ID: "list-disputes", Method: http.MethodGet, Path: "/v1/disputes", Tag: "Disputes", Access: read,
		Summary: "List the disputes without their evidence, newest first"}, r.getAll)
	route.Add(a, route.Operation{ID: "get-dispute", Method: http.MethodGet, Path: "/v1/disputes/{disputeId}", Tag: "Disputes", Access: read, Heavy: true,
		Summary: "Get a dispute with its evidence and the amount that it holds", Description: "With `plays=true`, which requires `audit:read` too, the response also says of each disputed receipt when and where it was, and, with `settlement:read`, what it is worth."}, r.get)
	route.Add(a, route.Operation{ID: "investigate-dispute", Method: http.MethodPost, Path: "/v1/disputes/{disputeId}/investigate", Tag: "Disputes", Access: write,
		Summary: "Begin to investigate a dispute that is OPEN"}, r.postInvestigate)
	route.Add(a, route.Operation{ID: "respond-to-dispute", Method: http.MethodPost, Path: "/v1/disputes/{disputeId}/respond", Tag: "Disputes", Access: write,
		Summary: "Respond with evidence to a dispute that is INVESTIGATING"}, r.postRespond)
	route.Add(a, route.Operation{ID: "resolve-dispute", Method: http.MethodPost, Path: "/v1/disputes/{disputeId}/resolve", Tag: "Disputes", Access: write,
		Summary: "Uphold or reject a dispute", Effects: []route.Effect{{Does: "decides what is paid for", Scope: api.SettlementWrite}},
		Description: "UPHELD is refused with 409 once a statement would have to exclude too much: more than 50,000 receipts by their ids, or 1,000 windows. A dispute about a right and a window covers any number of receipts."}, r.postResolve)
}

// The responses about disputes.
type (
	// DisputeData is the response about one dispute.
	DisputeData struct {
		Dispute Dispute `json:"dispute"`
	}
	// PricedDisputeData is the response about one dispute, with the amount that it holds.
	PricedDisputeData struct {
		Dispute PricedDispute `json:"dispute"`
	}
	// PricedDispute is a dispute with the amount that it holds.
	PricedDispute struct {
		Dispute
		HeldAmount []Amount       `json:"heldAmount" nullable:"true" doc:"What its deliveries are worth alone, by the current rules, by currency, without minimums and caps, so it may differ in the sixth fractional digit from what they add to lines with others, which are rounded once; null while it can't be computed, for example because the warehouse is unavailable. A delivery under several disputes counts in each. Once it is RESOLVED: the amount that UPHELD excludes permanently; empty if it was REJECTED."`
		Plays      []DisputedPlay `json:"plays,omitempty" doc:"With plays=true: the disputed receipts that the warehouse has, in the order of receiptIds. Absent for a dispute about a right and a window, whose receipts GET /v1/receipts lists."`
	}
	// Amount is money in one currency.
	Amount struct {
		Currency string `json:"currency" doc:"A code of ISO 4217."`
		Amount   string `json:"amount" doc:"Decimal."`
	}
	// DisputeList is one page of disputes.
	DisputeList struct {
		Disputes   []DisputeSummary `json:"disputes"`
		NextCursor *string          `json:"nextCursor"`
	}
)

// NewDispute is the body of a request for a dispute.
type NewDispute struct {
	ReceiptIDs    []string      `json:"receiptIds,omitempty" maxItems:"1000" minLength:"1" maxLength:"64" doc:"The receipts to dispute, each once. Can't be combined with rightId and window."`
	RightID       *string       `json:"rightId,omitempty" nullable:"true" minLength:"1" maxLength:"64" doc:"The right whose deliveries are disputed, without those on derived rights; requires window."`
	Window        *NewWindow    `json:"window,omitempty" doc:"When the deliveries were rendered, at most 400 days; requires rightId."`
	RaisedByOrgID *route.OrgID  `json:"raisedByOrgId,omitempty" nullable:"true" doc:"The organisation that raises the dispute. Default: the tenant's."`
	Reason        string        `json:"reason" minLength:"1" maxLength:"1024" doc:"Kept in the audit log permanently: no place for personal data."`
	Evidence      []NewEvidence `json:"evidence,omitempty" maxItems:"20" doc:"Evidence to submit with it."`
}

// NewWindow is the requested window of a dispute.
type NewWindow struct {
	_    struct{}   `nullable:"true"`
	From route.Time `json:"from" doc:"Start of the window."`
	To   route.Time `json:"to" doc:"End of the window, exclusive."`
}

// SchemaName returns the schema name in the OpenAPI document.
func (NewWindow) SchemaName() string { return "NewDisputeWindow" }

// NewEvidence is evidence in a request.
type NewEvidence struct {
	Text       string   `json:"text" minLength:"1" maxLength:"4096" doc:"The evidence, up to 4096 bytes. Kept in the audit log permanently: no place for personal data."`
	References []string `json:"references,omitempty" maxItems:"20" minLength:"1" maxLength:"256" doc:"Where to find more: URLs or names of documents, each up to 256 bytes. Kept in the audit log permanently: no place for personal data." example:"[\"https://example.com/invalid-traffic/2026-11\"]"`
}

// SchemaName returns the schema name in the OpenAPI document.
func (NewEvidence) SchemaName() string { return "NewDisputeEvidence" }

// dispute returns the requested dispute. orgID raises it unless the request names another
// organisation.
func (n *NewDispute) dispute(tenantID, orgID string) (d Dispute, err error) {
	d.TenantID, d.ReceiptIDs, d.RightID, d.RaisedByOrgID, d.Reason = tenantID, append([]string{}, n.ReceiptIDs...), n.RightID, given(n.RaisedByOrgID, orgID), n.Reason
	if n.Window == nil {
		return d, nil
	}
	if d.Window.From, err = route.Given("window.from", &n.Window.From); err != nil {
		return d, err
	}
	d.Window.To, err = route.Given("window.to", &n.Window.To)
	return d, err
}

// given returns the organisation that a caller names, or orgID if there is none.
func given(named *route.OrgID, orgID string) string {
	if named != nil {
		return string(*named)
	}
	return orgID
}

type openInput struct{ Body NewDispute }

func (r *Service) post(ctx context.Context, in *openInput) (DisputeData, error) {
	caller := auth.PrincipalFrom(ctx)
	requested, err := in.Body.dispute(caller.TenantID, caller.OrgID)
	if err != nil {
		return DisputeData{}, err
	}
	made, err := r.open(ctx, requested, in.Body.Evidence, caller.OrgID, store.ByKey(caller.ID))
	return DisputeData{made}, err
}

type listInput struct {
	route.Page
	RightID   string `query:"rightId" maxLength:"64" doc:"Only disputes about this right by its id, not those about its receipts."`
	ReceiptID string `query:"receiptId" maxLength:"64" doc:"Only disputes that name this receipt."`
	State     string `query:"state" enum:"OPEN,INVESTIGATING,RESPONDED,RESOLVED" doc:"Only disputes in this state."`
}

func (r *Service) getAll(ctx context.Context, in *listInput) (DisputeList, error) {
	slice, err := in.Slice()
	if err != nil {
		return DisputeList{}, err
	}
	page, next, err := list(ctx, r.db.Read(), auth.PrincipalFrom(ctx).TenantID, filter{in.RightID, in.ReceiptID, in.State}, slice)
	return DisputeList{page, in.Next(next)}, err
}

type disputePath struct {
	DisputeID string `path:"disputeId"`
}

// SchemaName returns the schema name in the OpenAPI document.
func (Amount) SchemaName() string { return "DisputedAmount" }

type getInput struct {
	DisputeID string `path:"disputeId"`
	Plays     string `query:"plays" enum:"true,false" doc:"true: also when and where each disputed receipt was, which requires audit:read, and what it is worth, which is null without settlement:read."`
}

func (r *Service) get(ctx context.Context, in *getInput) (PricedDisputeData, error) {
	caller := auth.PrincipalFrom(ctx)
	if in.Plays == "true" {
		if err := caller.Require(api.AuditRead); err != nil {
			return PricedDisputeData{}, err
		}
	}
	d, err := disputes.Find(ctx, r.db.Read(), caller.TenantID, in.DisputeID)
	if err != nil {
		return PricedDisputeData{}, err
	}
	priced := PricedDispute{Dispute: *d, HeldAmount: []Amount{}}
	if in.Plays == "true" {
		if priced.Plays, err = r.plays(ctx, d, caller.Require(api.SettlementRead) == nil); err != nil {
			return PricedDisputeData{}, err
		}
	}
	if x := d.exclusion(); x.excludes() {
		if priced.HeldAmount, err = r.heldAmount(ctx, d.TenantID, &x); err != nil { // return the dispute without the amount
			priced.HeldAmount = nil
		}
	}
	return PricedDisputeData{priced}, nil
}

// moveAs moves a dispute of the caller's tenant. The tenant's organisation acts unless how names
// another.
func (r *Service) moveAs(ctx context.Context, id string, a Action, how move) (DisputeData, error) {
	caller := auth.PrincipalFrom(ctx)
	how.tenantID, how.id, how.action, how.tenantOrgID, how.by = caller.TenantID, id, a, caller.OrgID, store.ByKey(caller.ID)
	if how.byOrgID == "" {
		how.byOrgID = caller.OrgID
	}
	moved, err := r.move(ctx, how)
	return DisputeData{moved}, err
}

func (r *Service) postInvestigate(ctx context.Context, in *disputePath) (DisputeData, error) {
	return r.moveAs(ctx, in.DisputeID, Investigate, move{})
}

// NewResponse is the body of a response to a dispute.
type NewResponse struct {
	ByOrgID  *route.OrgID  `json:"byOrgId,omitempty" nullable:"true" doc:"The organisation that responds. Default: the tenant's."`
	Evidence []NewEvidence `json:"evidence" minItems:"1" maxItems:"20" doc:"The evidence to submit."`
}

// SchemaName returns the schema name in the OpenAPI document.
func (NewResponse) SchemaName() string { return "NewDisputeResponse" }

func (r *Service) postRespond(ctx context.Context, in *struct {
	DisputeID string `path:"disputeId"`
	Body      NewResponse
}) (DisputeData, error) {
	return r.moveAs(ctx, in.DisputeID, Respond, move{byOrgID: given(in.Body.ByOrgID, ""), evidence: in.Body.Evidence})
}

// DisputeResolution is the body of a request to resolve a dispute.
type DisputeResolution struct {
	Outcome    Outcome `json:"outcome" enum:"UPHELD,REJECTED" doc:"UPHELD excludes the deliveries from settlement permanently; REJECTED includes them again."`
	Resolution *string `json:"resolution,omitempty" nullable:"true" maxLength:"1024" doc:"Kept in the audit log permanently: no place for personal data."`
}

func (r *Service) postResolve(ctx context.Context, in *struct {
	DisputeID string `path:"disputeId"`
	Body      DisputeResolution
}) (DisputeData, error) {
	return r.moveAs(ctx, in.DisputeID, Resolve, move{outcome: &in.Body.Outcome, resolution: in.Body.Resolution})
}
