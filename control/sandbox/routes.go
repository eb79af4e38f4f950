package sandbox

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"reflect"
	"slices"

	"github.com/danielgtaylor/huma/v2"

	"muniment.example/control/challenge"
	"muniment.example/control/node"
	"muniment.example/control/offer"
	"muniment.example/control/right"
	"muniment.example/control/route"
	"muniment.example/gateway/api"
)

// SecurityScheme is the name of the cookie's security scheme, and CookieName that of the cookie.
const (
	SecurityScheme = "sandboxCookie"
	CookieName     = cookieName
)

// Base begins the path of every route; PlaygroundBase that of the playground's, which are for the
// same visitors (operation.go).
const (
	Base           = "/api/sandbox"
	PlaygroundBase = "/api/playground"
)

// Body is the envelope of a success.
type Body[T any] struct {
	OK   bool `json:"ok" doc:"Always true."`
	Data T    `json:"data" doc:"The response's data."`
}

// response is the response of most operations.
type response[T any] struct{ Body Body[T] }

// Verbatim is data of a response of /v1, passed on unchanged; its type is T.
type Verbatim[T any] struct{ json.RawMessage }

// Of is the type of the data.
func (Verbatim[T]) Of() reflect.Type { return reflect.TypeFor[T]() }

// Schema is the schema of T.
func (v Verbatim[T]) Schema(all huma.Registry) *huma.Schema { return all.Schema(v.Of(), true, "") }

// admission says who may call an operation.
type admission int

const (
	toAnyone   admission = iota // without a cookie
	toVisitors                  // with or without a tenant
	toTenants                   // with a tenant
)

// add adds an operation that responds with data in the sandbox's envelope.
func add[I, O any](r *Service, a route.API, to admission, op route.Operation, do func(context.Context, *I) (O, error)) {
	addRaw(r, a, to, op, func(ctx context.Context, in *I) (*response[O], error) {
		data, err := do(ctx, in)
		return &response[O]{Body[O]{true, data}}, err
	})
}

// addRaw adds an operation whose output is the whole response.
func addRaw[I, O any](r *Service, a route.API, to admission, op route.Operation, do func(context.Context, *I) (*O, error)) {
	op.ID, op.Path, op.Tag = "sandbox-"+op.ID, Base+op.Path, tag
	op = r.open(op, to)
	route.AddRaw(a, op, func(ctx context.Context, in *I) (*O, error) {
		out, err := do(ctx, in)
		return out, r.Refuse(ctx, err)
	})
}

// Add adds an operation of another service to the API, for anyone within the limits of the callers.
// It answers with data in the sandbox's envelope, and refuses with the sandbox's codes.
func Add[I, O any](a route.API, callers *Callers, op route.Operation, do func(context.Context, *I) (O, error)) {
	op.Access, op.Refuse = callers.anyone(), refuseNaming
	addEnveloped(a, op, func(ctx context.Context, in *I) (*response[O], error) {
		data, err := do(ctx, in)
		if e, ok := errors.AsType[*api.Error](err); ok {
			err = refuseNaming(e, []error{err})
		}
		return &response[O]{Body[O]{true, data}}, err
	})
}

// anyone is the access of operations that need no cookie.
func (c *Callers) anyone() route.Access {
	return route.Own{Let: c.Anyone, Security: []map[string][]string{}}
}

// addEnveloped adds an operation that is limited by address and refuses in the sandbox's envelope.
func addEnveloped[I, O any](a route.API, op route.Operation, do func(context.Context, *I) (*O, error)) {
	if op.EmptyIsMissing = true; op.Refuse == nil {
		op.Refuse = refuse
	}
	if op.Method != http.MethodGet { // sent by a page of another site
		op.Errors = append(op.Errors, http.StatusForbidden)
	}
	route.AddRaw(a, op, do)
}

// Routes adds the service's operations to the API.
func (s *Service) Routes(a route.API) {
	const get, post = http.MethodGet, http.MethodPost
	addRaw(s, a, toVisitors, route.Operation{ID: "provision", Method: post, Path: "/tenant",
		Summary:     "Get a tenant with the standard seed",
		Description: "Sets the cookie. If the request has the cookie of an existing tenant, returns that tenant."}, s.postTenant)
	add(s, a, toTenants, route.Operation{ID: "get-tenant", Method: get, Path: "/tenant",
		Summary: "Get the tenant"}, s.getTenant)
	addRaw(s, a, toVisitors, route.Operation{ID: "reset", Method: post, Path: "/reset",
		Summary: "Drop the tenant and clear the cookie"}, s.postReset)
	add(s, a, toTenants, route.Operation{ID: "issue-right", Method: post, Path: "/rights/issue",
		Summary: "Issue a right under a basis, or derive one from another", Faults: scopeFaults}, s.issue)
	add(s, a, toTenants, route.Operation{ID: "suspend-right", Method: post, Path: "/rights/suspend",
		Summary: "Suspend a right, or resume it"}, s.suspend)
	add(s, a, toTenants, route.Operation{ID: "revoke-right", Method: post, Path: "/rights/revoke",
		Summary: "Permanently revoke a right"}, s.revoke)
	add(s, a, toTenants, route.Operation{ID: "propose-offer", Method: post, Path: "/offers/propose",
		Summary: "Propose to share, cede or sublet a part of a right"}, s.propose)
	add(s, a, toTenants, route.Operation{ID: "accept-offer", Method: post, Path: "/offers/accept",
		Summary: "Accept an offer, which issues the right that it requests"}, s.accept)
	add(s, a, toTenants, route.Operation{ID: "counter-offer", Method: post, Path: "/offers/counter",
		Summary: "Counter an offer with one in the opposite direction"}, s.counter)
	add(s, a, toTenants, route.Operation{ID: "withdraw-offer", Method: post, Path: "/offers/withdraw",
		Summary: "Withdraw an offer, for its proposer, or reject it, for its recipient"}, s.withdraw)
	add(s, a, toTenants, route.Operation{ID: "open-challenge", Method: post, Path: "/challenges/open",
		Summary: "Open a challenge against an ACTIVE right"}, s.challenge)
	add(s, a, toTenants, route.Operation{ID: "resolve-challenge", Method: post, Path: "/challenges/resolve",
		Summary: "Resolve a challenge, which revokes the right if it is upheld, or withdraw it"}, s.resolve)
	add(s, a, toTenants, route.Operation{ID: "run-demo", Method: post, Path: "/run-demo",
		Summary:     "Make deliveries, and seal them into a proof pack",
		Description: "The deliveries go through the gate, are signed and made durable like any other. Then the pack is sealed, with the projected metering and the reconciled settlement."}, s.runDemo)
	add(s, a, toTenants, route.Operation{ID: "constraint-demo", Method: post, Path: "/constraint-demo",
		Summary:     "Show how the constraint gate refuses a delivery",
		Description: "Nothing is signed, and nothing of the tenant changes."}, s.constraintDemo)
	add(s, a, toTenants, route.Operation{ID: "list-proof-packs", Method: get, Path: "/proof-packs",
		Summary: "List the proof packs, newest last"}, s.getPacks)
	add(s, a, toTenants, route.Operation{ID: "get-proof-pack", Method: get, Path: "/proof-packs/{packId}", Heavy: true,
		Summary:     "Get a whole proof pack, and the key that signed it",
		Description: "A pack of more than 8 MiB is refused with 422: the operator has it as a file."}, s.getPack)
	add(s, a, toTenants, route.Operation{ID: "get-provenance", Method: get, Path: "/provenance", Heavy: true,
		Summary: "Get a right's lineage: basis, root right, derived rights, the right itself"}, s.getProvenance)
	add(s, a, toTenants, route.Operation{ID: "inspect", Method: get, Path: "/inspect", Heavy: true,
		Summary: "Get everything that the tenant has",
		Description: "If `truncated` is empty, all lists are complete. A list of more than 500 records, or of more than about 2 MiB, comes in parts: `truncated` has its name, with a cursor. " +
			"Send the members of `truncated` as the query, `GET /api/sandbox/inspect?events=<cursor>&rights=<cursor>`, for the next part of each list " +
			"that it names; the other lists are empty in that response. Repeat until `truncated` is empty."}, s.inspect)
	addRaw(s, a, toAnyone, route.Operation{ID: "get-runtime-keys", Method: get, Path: "/runtime-keys",
		Summary:     "Get the keys that sign for the sandbox",
		Description: "`muniment verify --keys` accepts the response as a file."}, s.getKeys)
}

// changes sends what a visitor changes to /v1, if the budget has space for it.
type changes struct {
	*core
	*budget
}

// NewRight is a request for a right.
type NewRight struct {
	BasisID        string          `json:"basisId" minLength:"1" maxLength:"64"`
	Substrate      string          `json:"substrate" minLength:"1" maxLength:"32"`
	Scope          json.RawMessage `json:"scope,omitempty" doc:"An object of limits, or a string, which becomes its description. Optional with parentRightId: limits that it does not name are inherited."`
	EffectiveFrom  route.Time      `json:"effectiveFrom"`
	EffectiveUntil *route.Time     `json:"effectiveUntil,omitempty" nullable:"true" doc:"Exclusive; absent: the end of the parent or the basis."`
	ParentRightID  *string         `json:"parentRightId,omitempty" nullable:"true" maxLength:"64" doc:"The right to derive this one from."`
}

type issueInput struct{ Body NewRight }

func (s *changes) issue(ctx context.Context, in *issueInput) (Verbatim[right.RightData], error) {
	if lacksScope(in.Body.ParentRightID, in.Body.Scope) {
		return Verbatim[right.RightData]{}, refusal(http.StatusUnprocessableEntity, MissingFields, "missing: scope")
	}
	return verbatim[right.RightData](s.write(ctx, "/v1/rights", in.Body))
}

// lacksScope says that a new right has neither a scope nor a parent to inherit it from.
func lacksScope(parent *string, scope json.RawMessage) bool {
	return parent == nil && slices.Contains([]string{"", "null", `""`}, string(scope))
}

func scopeFaults(_ context.Context, read func(any) error) []api.ValidationError {
	var body struct {
		Scope         json.RawMessage `json:"scope"`
		ParentRightID *string         `json:"parentRightId"`
	}
	if read(&body) == nil && lacksScope(body.ParentRightID, body.Scope) {
		return []api.ValidationError{api.MissingField("scope")}
	}
	return nil
}

// reasoned is the body of those actions of /v1 that only take a reason.
type reasoned struct {
	Reason *string `json:"reason,omitempty"`
}

// RightSuspension suspends a right, or resumes it.
type RightSuspension struct {
	RightID string  `json:"rightId" minLength:"1" maxLength:"64"`
	Reason  *string `json:"reason,omitempty" nullable:"true" maxLength:"1024" doc:"Kept permanently in the audit log: must not contain personal data."`
	Action  string  `json:"action,omitempty" enum:"suspend,resume" default:"suspend" doc:"The action."`
}

type suspendInput struct{ Body RightSuspension }

func (s *changes) suspend(ctx context.Context, in *suspendInput) (Verbatim[right.MovedRight], error) {
	action := in.Body.Action
	return verbatim[right.MovedRight](s.act(ctx, "rights", in.Body.RightID, action, reasoned{in.Body.Reason}))
}

// RightRevocation revokes a right.
type RightRevocation struct {
	RightID string  `json:"rightId" minLength:"1" maxLength:"64"`
	Reason  *string `json:"reason,omitempty" nullable:"true" maxLength:"1024" doc:"Kept permanently in the audit log: must not contain personal data."`
}

type revokeInput struct{ Body RightRevocation }

func (s *changes) revoke(ctx context.Context, in *revokeInput) (Verbatim[right.MovedRight], error) {
	return verbatim[right.MovedRight](s.act(ctx, "rights", in.Body.RightID, "revoke", reasoned{in.Body.Reason}))
}

// NewOffer is a request for an offer.
type NewOffer struct {
	RightID string          `json:"rightId" minLength:"1" maxLength:"64" doc:"The right of which a part is requested."`
	ToOrgID route.OrgID     `json:"toOrgId" doc:"The organisation that may accept."`
	Scope   json.RawMessage `json:"scope" doc:"The scope of the right that accepting issues: an object of limits, or a string, which becomes its description. Limits that it does not name are inherited from the right."`
	offer.Terms
}

type proposeInput struct{ Body NewOffer }

func (s *changes) propose(ctx context.Context, in *proposeInput) (Verbatim[offer.OfferData], error) {
	return verbatim[offer.OfferData](s.write(ctx, "/v1/offers", in.Body))
}

// OfferAcceptance accepts an offer.
type OfferAcceptance struct {
	OfferID string `json:"offerId" minLength:"1" maxLength:"64"`
}

type acceptInput struct{ Body OfferAcceptance }

func (s *changes) accept(ctx context.Context, in *acceptInput) (Verbatim[offer.AcceptedOffer], error) {
	return verbatim[offer.AcceptedOffer](s.act(ctx, "offers", in.Body.OfferID, "accept", nil))
}

// CounterOffer counters an offer.
type CounterOffer struct {
	OfferID string          `json:"offerId" minLength:"1" maxLength:"64"`
	Scope   json.RawMessage `json:"scope" doc:"As in an offer."`
	offer.Terms
}

type counterInput struct{ Body CounterOffer }

func (s *changes) counter(ctx context.Context, in *counterInput) (Verbatim[offer.CounteredOffer], error) {
	body := struct {
		Scope json.RawMessage `json:"scope"`
		offer.Terms
	}{in.Body.Scope, in.Body.Terms}
	return verbatim[offer.CounteredOffer](s.act(ctx, "offers", in.Body.OfferID, "counter", body))
}

// OfferWithdrawal withdraws an offer, or rejects it.
type OfferWithdrawal struct {
	OfferID string  `json:"offerId" minLength:"1" maxLength:"64"`
	Action  string  `json:"action,omitempty" enum:"withdraw,reject" default:"withdraw" doc:"withdraw is for the proposer, reject for the recipient."`
	Reason  *string `json:"reason,omitempty" nullable:"true" maxLength:"1024" doc:"Kept permanently in the audit log: must not contain personal data."`
}

type withdrawInput struct{ Body OfferWithdrawal }

func (s *changes) withdraw(ctx context.Context, in *withdrawInput) (Verbatim[offer.OfferData], error) {
	return verbatim[offer.OfferData](s.act(ctx, "offers", in.Body.OfferID, in.Body.Action, reasoned{in.Body.Reason}))
}

// NewChallenge is a request for a challenge.
type NewChallenge struct {
	RightID         string      `json:"rightId" minLength:"1" maxLength:"64"`
	ChallengerOrgID route.OrgID `json:"challengerOrgId,omitempty" default:"org_thirdparty_sandbox" doc:"The organisation that challenges it."`
	Reason          string      `json:"reason" minLength:"1" maxLength:"1024" doc:"Kept permanently in the audit log: must not contain personal data."`
}

type challengeInput struct{ Body NewChallenge }

func (s *changes) challenge(ctx context.Context, in *challengeInput) (Verbatim[challenge.ChallengeData], error) {
	return verbatim[challenge.ChallengeData](s.write(ctx, "/v1/challenges", in.Body))
}

// ChallengeResolution ends a challenge.
type ChallengeResolution struct {
	ChallengeID string  `json:"challengeId" minLength:"1" maxLength:"64"`
	Upheld      bool    `json:"upheld,omitempty" doc:"Whether the right is revoked; absent: it is not, and the challenge is overturned."`
	Resolution  *string `json:"resolution,omitempty" nullable:"true" maxLength:"1024" doc:"Kept permanently in the audit log: must not contain personal data."`
	Action      string  `json:"action,omitempty" enum:"resolve,withdraw" default:"resolve" doc:"withdraw is for the challenger."`
}

type resolveInput struct{ Body ChallengeResolution }

// Resolved is the response to a resolution; that to a withdrawal has only the challenge.
type Resolved struct {
	Challenge   challenge.Challenge `json:"challenge"`
	Right       *right.View         `json:"right,omitempty"`
	Propagation *node.Propagation   `json:"propagation,omitempty"`
}

func (s *changes) resolve(ctx context.Context, in *resolveInput) (Verbatim[Resolved], error) {
	q := in.Body
	if q.Action == "withdraw" {
		return verbatim[Resolved](s.act(ctx, "challenges", q.ChallengeID, "withdraw", reasoned{q.Resolution}))
	}
	return verbatim[Resolved](s.act(ctx, "challenges", q.ChallengeID, "resolve", object{"upheld": q.Upheld, "resolution": q.Resolution}))
}

// write sends a change to /v1.
func (s *changes) write(ctx context.Context, target string, body any) (json.RawMessage, error) {
	if err := s.admit(ctx, 1); err != nil {
		return nil, err
	}
	data, err := s.call(ctx, http.MethodPost, target, body)
	if err == nil {
		s.count(ctx, weight(len(data)))
	}
	return data, err
}

// act sends an action on a record to /v1.
func (s *changes) act(ctx context.Context, of, id, action string, body any) (json.RawMessage, error) {
	return s.write(ctx, "/v1/"+of+"/"+url.PathEscape(id)+"/"+action, body)
}

func verbatim[T any](data json.RawMessage, err error) (Verbatim[T], error) {
	return Verbatim[T]{data}, err
}
