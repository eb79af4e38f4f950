package offer

import (
	"context"
	"encoding/json"
	"net/http"

	"muniment.example/control/right"
	"muniment.example/control/route"
	"muniment.example/control/store"
	"muniment.example/gateway/api"
	"muniment.example/gateway/auth"
)

// Routes adds the service's operations to the API.
func (s *Service) Routes(a route.API) {
	const read, write = route.Scope(api.OffersRead), route.Scope(api.OffersWrite)
	route.Add(a, route.Operation{ID: "propose-offer", Method: http.MethodPost, Path: "/v1/offers", Tag: "Offers", Access: write,
		Summary: "Propose to share, cede or sublet a part of a right", Errors: []int{http.StatusNotFound}}, s.post)
	route.Add(a, route.Operation{ID: "list-offers", Method: http.MethodGet, Path: "/v1/offers", Tag: "Offers", Access: read,
		Summary: "List the offers, newest first"}, s.getAll)
	route.Add(a, route.Operation{ID: "get-offer", Method: http.MethodGet, Path: "/v1/offers/{offerId}", Tag: "Offers", Access: read,
		Summary: "Get an offer"}, s.get)
	route.Add(a, route.Operation{ID: "counter-offer", Method: http.MethodPost, Path: "/v1/offers/{offerId}/counter", Tag: "Offers", Access: write,
		Summary: "Answer an offer with one in the opposite direction"}, s.postCounter)
	route.Add(a, route.Operation{ID: "accept-offer", Method: http.MethodPost, Path: "/v1/offers/{offerId}/accept", Tag: "Offers", Access: write,
		Summary: "Accept an offer, which issues the requested right", Effects: []route.Effect{{Does: "issues a right", Scope: api.RightsWrite}},
		Description: "A key of the tenant that proposed the offer may accept it for the recipient. The event records this: `assertedBy` is the tenant's organisation, `actingOrgId` the recipient."}, s.postAccept)
	route.Add(a, route.Operation{ID: "withdraw-offer", Method: http.MethodPost, Path: "/v1/offers/{offerId}/withdraw", Tag: "Offers", Access: write,
		Summary: "Withdraw an offer, for its proposer"}, s.postClose(Withdraw))
	route.Add(a, route.Operation{ID: "reject-offer", Method: http.MethodPost, Path: "/v1/offers/{offerId}/reject", Tag: "Offers", Access: write,
		Summary: "Reject an offer, for its recipient"}, s.postClose(Reject))
}

// byCaller returns the asserter of a request: the key and its tenant's organisation.
func byCaller(caller auth.Principal) asserter { return asserter{&caller.OrgID, store.ByKey(caller.ID)} }

// The responses about offers.
type (
	// OfferData is the response about one offer.
	OfferData struct {
		Offer Offer `json:"offer"`
	}
	// OfferList is one page of offers.
	OfferList struct {
		Offers     []Offer `json:"offers"`
		NextCursor *string `json:"nextCursor"`
	}
	// CounteredOffer is the response to a counter-offer.
	CounteredOffer struct {
		Offer     Offer `json:"offer" doc:"The counter-offer."`
		Countered Offer `json:"countered" doc:"The offer that it answers."`
	}
	// AcceptedOffer is the response to an acceptance.
	AcceptedOffer struct {
		Offer Offer      `json:"offer"`
		Right right.View `json:"right" doc:"The derived right; its contentHash is that of the offer."`
	}
)

// NewOffer is a request for an offer.
type NewOffer struct {
	RightID   string          `json:"rightId" minLength:"1" maxLength:"64" doc:"The right of which a part is requested."`
	FromOrgID route.OrgID     `json:"fromOrgId,omitempty" doc:"The organisation that proposes; the right's holder when absent."`
	ToOrgID   route.OrgID     `json:"toOrgId" doc:"The organisation that may accept; one of the two holds the right."`
	Scope     json.RawMessage `json:"scope,omitempty" doc:"The scope of the right that accepting issues: an object of limits, or a string, which is kept as its description. What it does not name is inherited from the right. Never wider than the right's."`
	Terms
}

type proposeInput struct{ Body NewOffer }

// Terms are the fields that an offer and a counter-offer have in common.
type Terms struct {
	TermsRef       *string     `json:"termsRef,omitempty" nullable:"true" maxLength:"1024" doc:"Where the terms are; no place for personal data."`
	ExpiresAt      *route.Time `json:"expiresAt,omitempty" nullable:"true" doc:"The first moment at which it can't be accepted any more; absent: in 7 days."`
	EffectiveFrom  *route.Time `json:"effectiveFrom,omitempty" nullable:"true" doc:"When the right that accepting issues begins, within the right's window; it may lie in the past. Absent: when it is accepted, or with the right if that begins later."`
	EffectiveUntil *route.Time `json:"effectiveUntil,omitempty" nullable:"true" doc:"When the right that accepting issues ends, within the right's window; exclusive. Absent: with the right."`
}

// requested is an offer with these fields.
func (t *Terms) requested(scope json.RawMessage) (o Offer, err error) {
	o.TermsRef = t.TermsRef
	if o.ExpiresAt, err = route.Given("expiresAt", t.ExpiresAt); err != nil {
		return o, err
	}
	if o.EffectiveFrom, err = route.Given("effectiveFrom", t.EffectiveFrom); err != nil {
		return o, err
	}
	if o.EffectiveUntil, err = route.Given("effectiveUntil", t.EffectiveUntil); err != nil {
		return o, err
	}
	o.Scope, err = right.RequestedScope(scope)
	return o, err
}

func (s *Service) post(ctx context.Context, in *proposeInput) (OfferData, error) {
	caller, requested := auth.PrincipalFrom(ctx), in.Body
	o, err := requested.requested(requested.Scope)
	if err != nil {
		return OfferData{}, err
	}
	o.TenantID, o.RightID, o.FromOrgID, o.ToOrgID = caller.TenantID, requested.RightID, string(requested.FromOrgID), string(requested.ToOrgID)
	made, err := s.propose(ctx, o, byCaller(caller))
	return OfferData{made}, err
}

type listInput struct {
	route.Page
	RightID string `query:"rightId" maxLength:"64" doc:"Only offers about this right."`
	State   string `query:"state" enum:"PROPOSED,COUNTERED,WITHDRAWN,REJECTED,ACCEPTED,EXPIRED" doc:"Only offers in this state."`
}

func (s *Service) getAll(ctx context.Context, in *listInput) (OfferList, error) {
	slice, err := in.Slice()
	if err != nil {
		return OfferList{}, err
	}
	now := store.At(s.db.Now())
	page, next, err := list(ctx, s.db.Read(), auth.PrincipalFrom(ctx).TenantID, filter{in.RightID, in.State}, now, slice)
	for i := range page {
		page[i].State = page[i].stateAt(now)
	}
	return OfferList{page, in.Next(next)}, err
}

type offerPath struct {
	OfferID string `path:"offerId"`
}

func (s *Service) get(ctx context.Context, in *offerPath) (OfferData, error) {
	o, err := offers.Find(ctx, s.db.Read(), auth.PrincipalFrom(ctx).TenantID, in.OfferID)
	if err != nil {
		return OfferData{}, err
	}
	o.State = o.stateAt(store.At(s.db.Now()))
	return OfferData{*o}, nil
}

// CounterOffer is a request for an offer in the opposite direction.
type CounterOffer struct {
	Scope json.RawMessage `json:"scope,omitempty" doc:"As in an offer: what it does not name is inherited from the right, not from the offer that it answers."`
	Terms
}

type counterInput struct {
	OfferID string `path:"offerId"`
	Body    CounterOffer
}

func (s *Service) postCounter(ctx context.Context, in *counterInput) (CounteredOffer, error) {
	caller, requested := auth.PrincipalFrom(ctx), in.Body
	o, err := requested.requested(requested.Scope)
	if err != nil {
		return CounteredOffer{}, err
	}
	countered, made, err := s.counter(ctx, caller.TenantID, in.OfferID, o, byCaller(caller))
	return CounteredOffer{made, countered}, err
}

func (s *Service) postAccept(ctx context.Context, in *offerPath) (AcceptedOffer, error) {
	caller := auth.PrincipalFrom(ctx)
	accepted, issued, err := s.accept(ctx, caller.TenantID, in.OfferID, byCaller(caller))
	return AcceptedOffer{accepted, issued}, err
}

type closeInput struct {
	OfferID string `path:"offerId"`
	Body    *route.Reason
}

func (s *Service) postClose(a Action) func(context.Context, *closeInput) (OfferData, error) {
	return func(ctx context.Context, in *closeInput) (OfferData, error) {
		caller := auth.PrincipalFrom(ctx)
		closed, err := s.close(ctx, caller.TenantID, in.OfferID, a, in.Body.Text(), byCaller(caller))
		return OfferData{closed}, err
	}
}
