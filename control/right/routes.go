package right

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/http"

	"muniment/control/node"
	"muniment/control/route"
	"muniment/control/store"
	"muniment/gate"
	"muniment/gateway/api"
	"muniment/gateway/auth"
)

// Routes adds the room's operations to the API.
func (r *Room) Routes(a route.API) {
	const read, write = api.RightsRead, api.RightsWrite
	route.Key(a, write, "Bases", "create-basis", http.MethodPost, "/v1/bases", "Register a legal basis", r.postBasis)
	route.Key(a, read, "Bases", "list-bases", http.MethodGet, "/v1/bases", "List the legal bases, newest first", r.getBases)
	route.Key(a, read, "Bases", "get-basis", http.MethodGet, "/v1/bases/{basisId}", "Get a legal basis", r.getBasis)

	route.Key(a, write, "Rights", "issue-right", http.MethodPost, "/v1/rights", "Issue a right under a basis, or derive one from another", r.postRight, route.Fails(http.StatusNotFound))
	route.Key(a, read, "Rights", "list-rights", http.MethodGet, "/v1/rights", "List the rights, newest first", r.getRights)
	route.Key(a, read, "Rights", "get-right", http.MethodGet, "/v1/rights/{rightId}", "Get a right", r.getRight)
	route.Key(a, read, "Rights", "get-right-provenance", http.MethodGet, "/v1/rights/{rightId}/provenance", "Get a right's lineage: basis, ancestors, derived rights", r.getProvenance)
	route.Key(a, read, "Rights", "get-right-propagation", http.MethodGet, "/v1/rights/{rightId}/propagation", "Get which nodes have applied a right's newest state", r.getPropagation)
	route.Key(a, write, "Rights", "suspend-right", http.MethodPost, "/v1/rights/{rightId}/suspend", "Suspend an ACTIVE right", r.action(Suspend), route.Stops)
	route.Key(a, write, "Rights", "resume-right", http.MethodPost, "/v1/rights/{rightId}/resume", "Resume a SUSPENDED right", r.action(Resume))
	route.Key(a, write, "Rights", "revoke-right", http.MethodPost, "/v1/rights/{rightId}/revoke", "Revoke a right for good", r.action(Revoke), route.Stops)
}

// BasisView is a basis as it is answered.
type BasisView struct {
	Basis
	State BasisState `json:"state" enum:"ACTIVE,EXPIRED"`
}

// OneBasis and Bases are answers about bases.
type (
	OneBasis struct {
		Basis BasisView `json:"basis"`
	}
	Bases struct {
		Bases      []BasisView `json:"bases"`
		NextCursor *string     `json:"nextCursor"`
	}
)

type basisInput struct {
	Body struct {
		Kind           string      `json:"kind" enum:"LICENSE,CONSENT,CONTRACT,STATUTE,LEGITIMATE_INTEREST"`
		Title          string      `json:"title" minLength:"1" maxLength:"256"`
		HolderOrgID    route.OrgID `json:"holderOrgId,omitempty" doc:"The tenant's organisation when absent."`
		Jurisdiction   *string     `json:"jurisdiction,omitempty" nullable:"true" maxLength:"64"`
		Reference      *string     `json:"reference,omitempty" nullable:"true" maxLength:"1024"`
		EffectiveFrom  *route.Time `json:"effectiveFrom,omitempty" nullable:"true" doc:"Absent: since ever."`
		EffectiveUntil *route.Time `json:"effectiveUntil,omitempty" nullable:"true" doc:"Exclusive; absent: open."`
		ContentHash    *string     `json:"contentHash,omitempty" nullable:"true" maxLength:"64" doc:"SHA-256 of the document, base64url."`
	}
}

func (r *Room) postBasis(ctx context.Context, in *basisInput) (*store.Answer[OneBasis], error) {
	caller, asked := auth.PrincipalFrom(ctx), in.Body
	b := Basis{
		TenantID: caller.TenantID, Kind: asked.Kind, Title: asked.Title, HolderOrgID: string(asked.HolderOrgID),
		Jurisdiction: asked.Jurisdiction, Reference: asked.Reference, ContentHash: asked.ContentHash,
	}
	if b.HolderOrgID == "" {
		b.HolderOrgID = caller.OrgID
	}
	var err error
	if b.EffectiveFrom, err = route.Given("effectiveFrom", asked.EffectiveFrom); err != nil {
		return nil, err
	}
	if b.EffectiveUntil, err = route.Given("effectiveUntil", asked.EffectiveUntil); err != nil {
		return nil, err
	}
	if h := b.ContentHash; h != nil && !isHash(*h) {
		return nil, api.InvalidField("contentHash", "must be a SHA-256 in base64url, without padding")
	}
	if !b.EffectiveUntil.IsZero() && !b.EffectiveFrom.Before(b.EffectiveUntil.Time) {
		return nil, api.InvalidField("effectiveUntil", "must be after effectiveFrom")
	}
	if err := r.createBasis(ctx, &b, store.ByKey(caller.ID)); err != nil {
		return nil, err
	}
	return store.Tell(OneBasis{r.basisView(b)}, nil)
}

// isHash says whether a text is 32 bytes in their one base64url spelling.
func isHash(text string) bool {
	b, err := base64.RawURLEncoding.Strict().DecodeString(text)
	return err == nil && len(b) == sha256.Size
}

func (r *Room) basisView(b Basis) BasisView { return BasisView{b, b.State(r.db.Now())} }

func (r *Room) getBases(ctx context.Context, in *struct{ route.Page }) (*store.Answer[Bases], error) {
	slice, err := in.Slice()
	if err != nil {
		return nil, err
	}
	page, next, err := listBases(ctx, r.db.Read(), auth.PrincipalFrom(ctx).TenantID, slice)
	body := Bases{Bases: make([]BasisView, 0, len(page)), NextCursor: route.Cursor(next)}
	for _, b := range page {
		body.Bases = append(body.Bases, r.basisView(b))
	}
	return store.Tell(body, err)
}

func (r *Room) getBasis(ctx context.Context, in *struct {
	BasisID string `path:"basisId"`
}) (*store.Answer[OneBasis], error) {
	b, err := bases.Find(ctx, r.db.Read(), auth.PrincipalFrom(ctx).TenantID, in.BasisID)
	if err != nil {
		return nil, err
	}
	return store.Tell(OneBasis{r.basisView(*b)}, nil)
}

// OneRight and Rights are answers about rights.
type (
	OneRight struct {
		Right View `json:"right"`
	}
	Rights struct {
		Rights     []View  `json:"rights"`
		NextCursor *string `json:"nextCursor"`
	}
)

type rightInput struct {
	Body struct {
		BasisID        string          `json:"basisId" minLength:"1" maxLength:"64"`
		Substrate      string          `json:"substrate" minLength:"1" maxLength:"32"`
		Scope          json.RawMessage `json:"scope,omitempty" doc:"An object of limits: regions, maxSpeedMph, bvlos, channels and campaigns; besides them description, labels (an object of strings) and keys of your own that begin with x-. A string is kept as the description. Optional for a right that derives from another, which inherits what is not named."`
		EffectiveFrom  route.Time      `json:"effectiveFrom"`
		EffectiveUntil *route.Time     `json:"effectiveUntil,omitempty" nullable:"true" doc:"Exclusive; absent: the end of the parent or the basis."`
		ParentRightID  *string         `json:"parentRightId,omitempty" nullable:"true" maxLength:"64" doc:"The right to derive this one from."`
		HolderOrgID    route.OrgID     `json:"holderOrgId,omitempty" doc:"The tenant's organisation when absent."`
	}
}

func (r *Room) postRight(ctx context.Context, in *rightInput) (*store.Answer[OneRight], error) {
	caller, asked := auth.PrincipalFrom(ctx), in.Body
	if _, known := gate.ParseSubstrate(asked.Substrate); !known {
		return nil, api.InvalidField("substrate", "is no substrate")
	}
	if asked.ParentRightID == nil && len(asked.Scope) == 0 { // there is nothing to inherit
		return nil, api.InvalidField("scope", "is missing")
	}
	right := Right{TenantID: caller.TenantID, BasisID: asked.BasisID, Substrate: asked.Substrate, HolderOrgID: string(asked.HolderOrgID)}
	if right.HolderOrgID == "" {
		right.HolderOrgID = caller.OrgID
	}
	var err error
	if right.Scope, err = AskedScope(asked.Scope); err != nil {
		return nil, err
	}
	if right.EffectiveFrom, err = route.Given("effectiveFrom", &asked.EffectiveFrom); err != nil {
		return nil, err
	}
	if right.EffectiveUntil, err = route.Given("effectiveUntil", asked.EffectiveUntil); err != nil {
		return nil, err
	}
	issued, err := r.issueRight(ctx, right, asked.ParentRightID, store.ByKey(caller.ID))
	return store.Tell(OneRight{View{Right: issued, EffectiveState: issued.State}}, err)
}

type rightsInput struct {
	route.Page
	BasisID       string `query:"basisId" maxLength:"64" doc:"Only rights under this basis."`
	Substrate     string `query:"substrate" maxLength:"32" doc:"Only rights on this substrate."`
	State         string `query:"state" enum:"ACTIVE,SUSPENDED,REVOKED" doc:"Only rights whose own state it is."`
	ParentRightID string `query:"parentRightId" maxLength:"64" doc:"Only rights derived directly from this one."`
}

func (r *Room) getRights(ctx context.Context, in *rightsInput) (*store.Answer[Rights], error) {
	f := filter{basisID: in.BasisID, substrate: in.Substrate, state: in.State, parentID: in.ParentRightID}
	slice, err := in.Slice()
	if err != nil {
		return nil, err
	}
	var body Rights
	err = r.db.View(ctx, func(q store.Querier) error {
		page, next, err := listRights(ctx, q, auth.PrincipalFrom(ctx).TenantID, f, slice)
		if err != nil {
			return err
		}
		body.NextCursor = route.Cursor(next)
		body.Rights, err = viewAll(ctx, q, page)
		return err
	})
	return store.Tell(body, err)
}

type rightPath struct {
	RightID string `path:"rightId"`
}

// view reads the right that the path names, and its ancestors, as they are at one moment.
func (r *Room) view(ctx context.Context, in *rightPath) (v View, err error) {
	err = r.db.View(ctx, func(q store.Querier) error {
		v, err = Find(ctx, q, auth.PrincipalFrom(ctx).TenantID, in.RightID)
		return err
	})
	return v, err
}

func (r *Room) getRight(ctx context.Context, in *rightPath) (*store.Answer[OneRight], error) {
	v, err := r.view(ctx, in)
	return store.Tell(OneRight{v}, err)
}

// Propagation is the answer about the nodes' knowledge of a right.
type Propagation struct {
	RightID     string           `json:"rightId"`
	Propagation node.Propagation `json:"propagation"`
}

func (r *Room) getPropagation(ctx context.Context, in *rightPath) (*store.Answer[Propagation], error) {
	right, err := r.view(ctx, in)
	if err != nil {
		return nil, err
	}
	p, err := r.nodes.Propagation(ctx, right.Revision)
	return store.Tell(Propagation{right.ID, p}, err)
}

// Provenance is a right's lineage.
type Provenance struct {
	Basis BasisView `json:"basis"`
	// Lineage runs from the root right down to the right asked for.
	Lineage []View `json:"lineage" doc:"Root right first, the right itself last."`
	// Derived are the rights derived directly from it, newest first, 500 at most;
	// the list of rights by parentRightId has them all.
	Derived []View `json:"derived" doc:"Rights derived directly from it, newest first, 500 at most."`
}

const maxDerived = 500

func (r *Room) getProvenance(ctx context.Context, in *rightPath) (*store.Answer[Provenance], error) {
	var body Provenance
	err := r.db.View(ctx, func(q store.Querier) (err error) {
		body, err = r.provenance(ctx, q, auth.PrincipalFrom(ctx).TenantID, in.RightID)
		return err
	})
	return store.Tell(body, err)
}

// provenance reads from one state: what a right rests on is there as long as the right.
func (r *Room) provenance(ctx context.Context, q store.Querier, tenantID, id string) (p Provenance, err error) {
	right, err := rights.Find(ctx, q, tenantID, id)
	if err != nil {
		return p, err
	}
	basis, err := bases.Find(ctx, q, tenantID, right.BasisID)
	if err != nil {
		return p, err
	}
	p.Basis = r.basisView(*basis)
	line := []Right{*right}
	for _, id := range right.Ancestors {
		ancestor, err := rights.Find(ctx, q, tenantID, id)
		if err != nil {
			return p, err
		}
		line = append([]Right{*ancestor}, line...)
	}
	if p.Lineage, err = viewAll(ctx, q, line); err != nil {
		return p, err
	}
	derived, _, err := listRights(ctx, q, tenantID, filter{parentID: right.ID}, store.Slice{Limit: maxDerived})
	if err != nil {
		return p, err
	}
	p.Derived, err = viewAll(ctx, q, derived)
	return p, err
}

type actionInput struct {
	RightID string `path:"rightId"`
	Body    *struct {
		Reason *string `json:"reason,omitempty" nullable:"true" maxLength:"1024" doc:"Kept in the audit log for good: no place for personal data."`
	}
}

// Moved is the answer to an action: in force here at once, at the nodes as told.
type Moved struct {
	Right       View             `json:"right"`
	Propagation node.Propagation `json:"propagation"`
}

func (r *Room) action(a Action) func(context.Context, *actionInput) (*store.Answer[Moved], error) {
	return func(ctx context.Context, in *actionInput) (*store.Answer[Moved], error) {
		caller := auth.PrincipalFrom(ctx)
		var reason *string
		if in.Body != nil {
			reason = in.Body.Reason
		}
		moved, err := r.move(ctx, caller.TenantID, in.RightID, a, reason, store.ByKey(caller.ID))
		if err != nil {
			return nil, err
		}
		if a == Resume { // nothing is at risk while a node still refuses
			p, err := r.nodes.Propagation(ctx, moved.Revision)
			return store.Tell(Moved{moved, p}, err)
		}
		return store.Tell(Moved{moved, r.nodes.Await(ctx, moved.Revision)}, nil)
	}
}
