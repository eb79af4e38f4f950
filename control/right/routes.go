package right

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/http"

	"muniment.example/control/node"
	"muniment.example/control/route"
	"muniment.example/control/store"
	"muniment.example/gate"
	"muniment.example/gateway/api"
	"muniment.example/gateway/auth"
)

// Routes adds the service's operations to the API.
func (s *Service) Routes(a route.API) {
	const read, write = route.Scope(api.RightsRead), route.Scope(api.RightsWrite)
	route.Add(a, route.Operation{ID: "create-basis", Method: http.MethodPost, Path: "/v1/bases", Tag: "Bases", Access: write,
		Summary: "Register a legal basis"}, s.postBasis)
	route.Add(a, route.Operation{ID: "list-bases", Method: http.MethodGet, Path: "/v1/bases", Tag: "Bases", Access: read,
		Summary: "List the legal bases, newest first"}, s.getBases)
	route.Add(a, route.Operation{ID: "get-basis", Method: http.MethodGet, Path: "/v1/bases/{basisId}", Tag: "Bases", Access: read,
		Summary: "Get a legal basis"}, s.getBasis)

	route.Add(a, route.Operation{ID: "issue-right", Method: http.MethodPost, Path: "/v1/rights", Tag: "Rights", Access: write,
		Summary: "Issue a right under a basis, or derive one from another", Errors: []int{http.StatusNotFound}}, s.postRight)
	route.Add(a, route.Operation{ID: "list-rights", Method: http.MethodGet, Path: "/v1/rights", Tag: "Rights", Access: read,
		Summary: "List the rights, newest first"}, s.getRights)
	route.Add(a, route.Operation{ID: "get-right", Method: http.MethodGet, Path: "/v1/rights/{rightId}", Tag: "Rights", Access: read,
		Summary: "Get a right"}, s.getRight)
	route.Add(a, route.Operation{ID: "get-right-provenance", Method: http.MethodGet, Path: "/v1/rights/{rightId}/provenance", Tag: "Rights", Access: read,
		Summary: "Get a right's lineage: basis, ancestors, derived rights"}, s.getProvenance)
	route.Add(a, route.Operation{ID: "get-right-propagation", Method: http.MethodGet, Path: "/v1/rights/{rightId}/propagation", Tag: "Rights", Access: read,
		Summary: "Get which nodes have applied a right's newest state"}, s.getPropagation)
	route.Add(a, route.Operation{ID: "suspend-right", Method: http.MethodPost, Path: "/v1/rights/{rightId}/suspend", Tag: "Rights", Access: write,
		Summary: "Suspend an ACTIVE right", Stops: true}, s.action(Suspend))
	route.Add(a, route.Operation{ID: "resume-right", Method: http.MethodPost, Path: "/v1/rights/{rightId}/resume", Tag: "Rights", Access: write,
		Summary: "Resume a SUSPENDED right"}, s.action(Resume))
	route.Add(a, route.Operation{ID: "revoke-right", Method: http.MethodPost, Path: "/v1/rights/{rightId}/revoke", Tag: "Rights", Access: write,
		Summary: "Revoke a right permanently", Stops: true}, s.action(Revoke))
}

// SchemaName returns the schema name in the OpenAPI document.
func (View) SchemaName() string      { return "Right" }
func (BasisView) SchemaName() string { return "Basis" }

// BasisView is a basis in a response.
type BasisView struct {
	Basis
	State BasisState `json:"state" enum:"ACTIVE,EXPIRED"`
}

// BasisData and BasisList are responses about bases.
type (
	BasisData struct {
		Basis BasisView `json:"basis"`
	}
	BasisList struct {
		Bases      []BasisView `json:"bases"`
		NextCursor *string     `json:"nextCursor"`
	}
)

// NewBasis is a request for a basis.
type NewBasis struct {
	Kind           string      `json:"kind" enum:"LICENSE,CONSENT,CONTRACT,STATUTE,LEGITIMATE_INTEREST"`
	Title          string      `json:"title" minLength:"1" maxLength:"256"`
	HolderOrgID    route.OrgID `json:"holderOrgId,omitempty" doc:"The tenant's organisation when absent."`
	Jurisdiction   *string     `json:"jurisdiction,omitempty" nullable:"true" maxLength:"64"`
	Reference      *string     `json:"reference,omitempty" nullable:"true" maxLength:"1024"`
	EffectiveFrom  *route.Time `json:"effectiveFrom,omitempty" nullable:"true" doc:"Absent: since ever."`
	EffectiveUntil *route.Time `json:"effectiveUntil,omitempty" nullable:"true" doc:"Exclusive; absent: open."`
	ContentHash    *string     `json:"contentHash,omitempty" nullable:"true" maxLength:"64" doc:"SHA-256 of the document, base64url."`
}

type basisInput struct{ Body NewBasis }

func (s *Service) postBasis(ctx context.Context, in *basisInput) (BasisData, error) {
	caller, requested := auth.PrincipalFrom(ctx), in.Body
	b := Basis{
		TenantID: caller.TenantID, Kind: requested.Kind, Title: requested.Title, HolderOrgID: string(requested.HolderOrgID),
		Jurisdiction: requested.Jurisdiction, Reference: requested.Reference, ContentHash: requested.ContentHash,
	}
	if b.HolderOrgID == "" {
		b.HolderOrgID = caller.OrgID
	}
	var err error
	if b.EffectiveFrom, err = route.Given("effectiveFrom", requested.EffectiveFrom); err != nil {
		return BasisData{}, err
	}
	if b.EffectiveUntil, err = route.Given("effectiveUntil", requested.EffectiveUntil); err != nil {
		return BasisData{}, err
	}
	if h := b.ContentHash; h != nil && !isHash(*h) {
		return BasisData{}, api.InvalidField("contentHash", "must be a SHA-256 in base64url, without padding")
	}
	if !b.EffectiveUntil.IsZero() && !b.EffectiveFrom.Before(b.EffectiveUntil.Time) {
		return BasisData{}, api.InvalidField("effectiveUntil", "must be after effectiveFrom")
	}
	if err := s.createBasis(ctx, &b, store.ByKey(caller.ID)); err != nil {
		return BasisData{}, err
	}
	return BasisData{s.basisView(b)}, nil
}

// isHash reports whether a text is the canonical base64url form of 32 bytes.
func isHash(text string) bool {
	b, err := base64.RawURLEncoding.Strict().DecodeString(text)
	return err == nil && len(b) == sha256.Size && len(text) == base64.RawURLEncoding.EncodedLen(len(b)) // line breaks are skipped
}

func (s *Service) basisView(b Basis) BasisView { return BasisView{b, b.State(s.db.Now())} }

func (s *Service) getBases(ctx context.Context, in *struct {
	route.Page
	route.Ends
}) (BasisList, error) {
	slice, err := in.Slice()
	if err != nil {
		return BasisList{}, err
	}
	var e ending
	if e.after, e.by, err = in.Bounds(); err != nil {
		return BasisList{}, err
	}
	page, next, err := listBases(ctx, s.db.Read(), auth.PrincipalFrom(ctx).TenantID, e, slice)
	body := BasisList{Bases: make([]BasisView, 0, len(page)), NextCursor: in.Next(next)}
	for _, b := range page {
		body.Bases = append(body.Bases, s.basisView(b))
	}
	return body, err
}

func (s *Service) getBasis(ctx context.Context, in *struct {
	BasisID string `path:"basisId"`
}) (BasisData, error) {
	b, err := bases.Find(ctx, s.db.Read(), auth.PrincipalFrom(ctx).TenantID, in.BasisID)
	if err != nil {
		return BasisData{}, err
	}
	return BasisData{s.basisView(*b)}, nil
}

// RightData and RightList are responses about rights.
type (
	RightData struct {
		Right View `json:"right"`
	}
	RightList struct {
		Rights     []View  `json:"rights"`
		NextCursor *string `json:"nextCursor"`
	}
)

// NewRight is a request for a right.
type NewRight struct {
	BasisID        string          `json:"basisId" minLength:"1" maxLength:"64"`
	Substrate      string          `json:"substrate" minLength:"1" maxLength:"32"`
	Scope          json.RawMessage `json:"scope,omitempty" doc:"An object of limits: regions, maxSpeedMph, bvlos, channels and campaigns; besides them description, labels (an object of strings) and keys of your own that begin with x-. A string is kept as the description. Optional for a right that derives from another, which inherits what is not named, each label by itself."`
	EffectiveFrom  route.Time      `json:"effectiveFrom"`
	EffectiveUntil *route.Time     `json:"effectiveUntil,omitempty" nullable:"true" doc:"Exclusive; absent: the end of the parent or the basis."`
	ParentRightID  *string         `json:"parentRightId,omitempty" nullable:"true" maxLength:"64" doc:"The right to derive this one from."`
	HolderOrgID    route.OrgID     `json:"holderOrgId,omitempty" doc:"The tenant's organisation when absent."`
}

type rightInput struct{ Body NewRight }

func (s *Service) postRight(ctx context.Context, in *rightInput) (RightData, error) {
	caller, requested := auth.PrincipalFrom(ctx), in.Body
	if _, known := gate.ParseSubstrate(requested.Substrate); !known {
		return RightData{}, api.InvalidField("substrate", "is not a substrate")
	}
	if requested.ParentRightID == nil && len(requested.Scope) == 0 { // there is nothing to inherit
		return RightData{}, api.Invalid(api.MissingField("scope"))
	}
	if string(requested.Scope) == "null" {
		return RightData{}, api.InvalidField("scope", "must be an object or a string")
	}
	right := Right{TenantID: caller.TenantID, BasisID: requested.BasisID, Substrate: requested.Substrate, HolderOrgID: string(requested.HolderOrgID)}
	if right.HolderOrgID == "" {
		right.HolderOrgID = caller.OrgID
	}
	var err error
	if right.Scope, err = RequestedScope(requested.Scope); err != nil {
		return RightData{}, err
	}
	if right.EffectiveFrom, err = route.Given("effectiveFrom", &requested.EffectiveFrom); err != nil {
		return RightData{}, err
	}
	if right.EffectiveUntil, err = route.Given("effectiveUntil", requested.EffectiveUntil); err != nil {
		return RightData{}, err
	}
	issued, err := s.issueRight(ctx, right, requested.ParentRightID, store.ByKey(caller.ID))
	return RightData{issued}, err
}

type rightsInput struct {
	route.Page
	BasisID       string `query:"basisId" maxLength:"64" doc:"Only rights under this basis."`
	Substrate     string `query:"substrate" enum:"DOOH,CTV,MOBILE,STREAMING,AUDIO,MESSAGING,GAMING,GLASSES,AR_CONTACTS,HUD,VOLUMETRIC,HOLOGRAM,WEARABLES,AMBIENT,NEURAL,AUTOMOTIVE,SMART_HOME,ROBOTICS,DRONE,SATELLITE,AVIATION,MARITIME,SOCIAL_FEED,ANY" doc:"Only rights on this substrate."`
	State         string `query:"state" enum:"ACTIVE,SUSPENDED,REVOKED" doc:"Only rights whose own state it is."`
	ParentRightID string `query:"parentRightId" maxLength:"64" doc:"Only rights derived directly from this one."`
	route.Ends
}

func (s *Service) getRights(ctx context.Context, in *rightsInput) (RightList, error) {
	f := filter{basisID: in.BasisID, substrate: in.Substrate, state: in.State, parentID: in.ParentRightID}
	slice, err := in.Slice()
	if err != nil {
		return RightList{}, err
	}
	if f.ends.after, f.ends.by, err = in.Bounds(); err != nil {
		return RightList{}, err
	}
	var body RightList
	err = s.db.View(ctx, func(q store.Querier) error {
		page, next, err := listRights(ctx, q, auth.PrincipalFrom(ctx).TenantID, f, slice)
		if err != nil {
			return err
		}
		body.NextCursor = in.Next(next)
		body.Rights, err = viewAll(ctx, q, page, s.db.Now())
		return err
	})
	return body, err
}

type rightPath struct {
	RightID string `path:"rightId"`
}

// view reads the right of the path and its ancestors, from one state of the database.
func (s *Service) view(ctx context.Context, in *rightPath) (v View, err error) {
	err = s.db.View(ctx, func(q store.Querier) error {
		v, err = FindView(ctx, q, auth.PrincipalFrom(ctx).TenantID, in.RightID, s.db.Now())
		return err
	})
	return v, err
}

func (s *Service) getRight(ctx context.Context, in *rightPath) (RightData, error) {
	v, err := s.view(ctx, in)
	return RightData{v}, err
}

// RightPropagation is the response on which nodes have applied a right.
type RightPropagation struct {
	RightID     string           `json:"rightId"`
	Propagation node.Propagation `json:"propagation"`
}

func (s *Service) getPropagation(ctx context.Context, in *rightPath) (RightPropagation, error) {
	right, err := s.view(ctx, in)
	if err != nil {
		return RightPropagation{}, err
	}
	p, err := s.nodes.Propagation(ctx, right.Revision)
	return RightPropagation{right.ID, p}, err
}

// Provenance is a right's lineage.
type Provenance struct {
	Basis BasisView `json:"basis"`
	// Lineage runs from the root right down to the right itself.
	Lineage []View `json:"lineage" doc:"Root right first, the right itself last."`
	// Derived are the rights derived directly from it, newest first, 500 at most;
	// the list of rights by parentRightId has them all.
	Derived []View `json:"derived" doc:"Rights derived directly from it, newest first, 500 at most."`
}

const maxDerived = 500

func (s *Service) getProvenance(ctx context.Context, in *rightPath) (Provenance, error) {
	var body Provenance
	err := s.db.View(ctx, func(q store.Querier) (err error) {
		body, err = s.provenance(ctx, q, auth.PrincipalFrom(ctx).TenantID, in.RightID)
		return err
	})
	return body, err
}

// provenance reads a right's lineage. Its basis and ancestors exist as long as the right.
func (s *Service) provenance(ctx context.Context, q store.Querier, tenantID, id string) (p Provenance, err error) {
	right, err := rights.Find(ctx, q, tenantID, id)
	if err != nil {
		return p, err
	}
	basis, err := bases.Find(ctx, q, tenantID, right.BasisID)
	if err != nil {
		return p, err
	}
	p.Basis = s.basisView(*basis)
	line := []Right{*right}
	for _, id := range right.Ancestors {
		ancestor, err := rights.Find(ctx, q, tenantID, id)
		if err != nil {
			return p, err
		}
		line = append([]Right{*ancestor}, line...)
	}
	now := s.db.Now()
	if p.Lineage, err = viewAll(ctx, q, line, now); err != nil {
		return p, err
	}
	derived, _, err := listRights(ctx, q, tenantID, filter{parentID: right.ID}, store.Slice{Limit: maxDerived})
	if err != nil {
		return p, err
	}
	p.Derived, err = viewAll(ctx, q, derived, now)
	return p, err
}

type actionInput struct {
	RightID string `path:"rightId"`
	Body    *route.Reason
}

// MovedRight is the response to an action: in force here at once; propagation says at which nodes.
type MovedRight struct {
	Right       View             `json:"right"`
	Propagation node.Propagation `json:"propagation"`
}

func (s *Service) action(a Action) func(context.Context, *actionInput) (MovedRight, error) {
	return func(ctx context.Context, in *actionInput) (MovedRight, error) {
		caller := auth.PrincipalFrom(ctx)
		moved, err := s.move(ctx, caller.TenantID, in.RightID, a, in.Body.Text(), store.ByKey(caller.ID))
		if err != nil {
			return MovedRight{}, err
		}
		if a == Resume { // a node that still refuses does no harm
			p, err := s.nodes.Propagation(ctx, moved.Revision)
			return MovedRight{moved, p}, err
		}
		return MovedRight{moved, s.nodes.Await(ctx, moved.Revision)}, nil
	}
}
