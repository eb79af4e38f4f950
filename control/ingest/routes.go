package ingest

import (
	"context"
	"fmt"
	"net/http"

	"muniment.example/control/node"
	"muniment.example/control/route"
	"muniment.example/control/store"
	"muniment.example/gateway/api"
	"muniment.example/gateway/auth"
)

// Routes adds the service's operations to the API.
func (s *Service) Routes(a route.API) {
	const write = route.Scope(api.DeliveryWrite)
	route.Add(a, route.Operation{ID: "create-mapping", Method: http.MethodPost, Path: "/v1/delivery/mappings", Tag: "Mappings", Access: write,
		Summary: "Map a vendor's id to a right and an anchor", Errors: []int{http.StatusNotFound},
		Description: "Plays of the id at or after `effectiveFrom` and before `effectiveUntil` are deliveries on the target's right, at its anchor, " +
			"whenever their rows arrive. Held rows that the mapping covers are delivered now. " +
			"A vendor's id has one mapping at a time: a mapping that would overlap another is refused with 409, and the message names the other."}, s.postMapping)
	route.Add(a, route.Operation{ID: "list-mappings", Method: http.MethodGet, Path: "/v1/delivery/mappings", Tag: "Mappings", Access: write,
		Summary: "List the mappings, newest first"}, s.getMappings)
	route.Add(a, route.Operation{ID: "retire-mapping", Method: http.MethodDelete, Path: "/v1/delivery/mappings/{mappingId}", Tag: "Mappings", Access: write,
		Summary:     "Retire a mapping now",
		Description: "Plays before now still resolve by it, whenever their rows arrive. Waits up to 2 s for every live node to apply it, and reports which nodes have."}, s.deleteMapping)
	route.Add(a, route.Operation{ID: "import-mappings", Method: http.MethodPost, Path: "/v1/delivery/mappings/import", Tag: "Mappings", Access: write,
		Summary: "Import mappings from CSV or JSON lines", Heavy: true, Text: []string{"text/csv", "application/x-ndjson"},
		Description: fmt.Sprintf("CSV begins with a header line, which names the columns in any order: vendor, idType, vendorId, rightId, spatialAnchorId, "+
			"effectiveFrom, and optionally spatialPlacementId and effectiveUntil. Each JSON line is an object as in `POST /v1/delivery/mappings`. "+
			"The first byte decides between the two formats. At most %d lines and 1 MiB.\n\n"+
			"Each line is processed independently. Mappings of valid lines are in force when the response arrives. "+
			"Lines are written %d at a time; if the service can't go on, the lines that are left are `refused` with its error. "+
			"An import may be repeated: an identical mapping that exists already is `unchanged`.", maxImport, importChange)}, s.postImport)
	route.Add(a, route.Operation{ID: "list-held-rows", Method: http.MethodGet, Path: "/v1/delivery/held", Tag: "Mappings", Access: write,
		Summary: "List the rows that wait for a mapping or for a suspended right, or recently did, newest first"}, s.getHeld)
	s.rejectedRoutes(a)
}

// SchemaName returns the schema name in the OpenAPI document; so do the methods below.
func (HeldRow) SchemaName() string { return "HeldRow" }
func (Target) SchemaName() string  { return "MappingTarget" }

// The responses about mappings and held rows.
type (
	// MappingData is the response about one mapping.
	MappingData struct {
		Mapping Mapping `json:"mapping"`
	}
	// MappingList is one page of mappings.
	MappingList struct {
		Mappings   []Mapping `json:"mappings" doc:"The mappings of this page."`
		Total      int64     `json:"total" doc:"The number of mappings that the filters select, over all pages."`
		NextCursor *string   `json:"nextCursor"`
	}
	// RetiredMapping is the response to a retirement: in force here at once; propagation says at
	// which nodes.
	RetiredMapping struct {
		Mapping     Mapping          `json:"mapping"`
		Propagation node.Propagation `json:"propagation"`
	}
	// HeldRowList is one page of held rows.
	HeldRowList struct {
		Held       []HeldRow `json:"held" doc:"The rows of this page."`
		NextCursor *string   `json:"nextCursor"`
	}
)

// NewMapping is a request for a mapping.
type NewMapping struct {
	Vendor         string      `json:"vendor" minLength:"1" maxLength:"512" doc:"The vendor that issued the id, as rows of batches name it." example:"broadsign"`
	IDType         string      `json:"idType" minLength:"1" maxLength:"512" doc:"The vendor's type of id." example:"display_unit_id"`
	VendorID       string      `json:"vendorId" minLength:"1" maxLength:"512" doc:"The id of a player or placement. Kept in the audit log permanently: it must not name a person." example:"20077"`
	Target         NewTarget   `json:"target" doc:"The right and anchor that it is mapped to."`
	EffectiveFrom  route.Time  `json:"effectiveFrom" doc:"Start of the window: plays at this moment or later resolve; it may be in the past."`
	EffectiveUntil *route.Time `json:"effectiveUntil,omitempty" nullable:"true" doc:"Exclusive; absent: until it is retired."`
}

// NewTarget is the requested target of a mapping.
type NewTarget struct {
	RightID            string  `json:"rightId" minLength:"1" maxLength:"64" doc:"The right that its plays are deliveries on."`
	SpatialAnchorID    string  `json:"spatialAnchorId" minLength:"1" maxLength:"512" doc:"The anchor where the content is shown." example:"screen-0042"`
	SpatialPlacementID *string `json:"spatialPlacementId,omitempty" nullable:"true" maxLength:"512" doc:"The placement within the anchor, for rows that name none." example:"slot-3"`
}

// SchemaName returns the schema name in the OpenAPI document.
func (NewTarget) SchemaName() string { return "NewMappingTarget" }

// mapping returns the requested mapping, without a tenant.
func (n *NewMapping) mapping() (m Mapping, err error) {
	m = Mapping{Vendor: n.Vendor, IDType: n.IDType, VendorID: n.VendorID, Target: Target(n.Target)}
	if n.EffectiveFrom != "" {
		if m.EffectiveFrom, err = route.Given("effectiveFrom", &n.EffectiveFrom); err != nil {
			return m, err
		}
	}
	m.EffectiveUntil, err = route.Given("effectiveUntil", n.EffectiveUntil)
	return m, err
}

type newMappingInput struct{ Body NewMapping }

func (s *Service) postMapping(ctx context.Context, in *newMappingInput) (MappingData, error) {
	caller := auth.PrincipalFrom(ctx)
	requested, err := in.Body.mapping()
	if err != nil {
		return MappingData{}, err
	}
	requested.TenantID = caller.TenantID
	made, err := s.create(ctx, requested, store.ByKey(caller.ID))
	return MappingData{made}, err
}

type mappingsInput struct {
	route.Page
	Vendor   string `query:"vendor" maxLength:"512" doc:"Only mappings of this vendor's ids."`
	IDType   string `query:"idType" maxLength:"512" doc:"Only mappings of ids of this kind."`
	VendorID string `query:"vendorId" maxLength:"512" doc:"Only mappings of this id."`
	RightID  string `query:"rightId" maxLength:"64" doc:"Only mappings to this right."`
	State    string `query:"state" enum:"ACTIVE,RETIRED" doc:"Only mappings in this state."`
}

func (s *Service) getMappings(ctx context.Context, in *mappingsInput) (body MappingList, err error) {
	slice, err := in.Slice()
	if err != nil {
		return body, err
	}
	tenantID := auth.PrincipalFrom(ctx).TenantID
	f := filter{vendor: in.Vendor, idType: in.IDType, vendorID: in.VendorID, rightID: in.RightID, state: in.State}
	err = s.db.View(ctx, func(q store.Querier) error {
		if body.Total, err = total(ctx, q, tenantID, f); err != nil {
			return err
		}
		body.Mappings = []Mapping{}
		if body.Total == 0 { // avoid scanning an index for a filter that may select many
			return nil
		}
		var next string
		body.Mappings, next, err = list(ctx, q, tenantID, f, slice)
		body.NextCursor = in.Next(next)
		return err
	})
	return body, err
}

func (s *Service) deleteMapping(ctx context.Context, in *struct {
	MappingID string `path:"mappingId"`
}) (RetiredMapping, error) {
	caller := auth.PrincipalFrom(ctx)
	retired, p, err := s.retire(ctx, caller.TenantID, in.MappingID, store.ByKey(caller.ID))
	return RetiredMapping{retired, p}, err
}

type importInput struct {
	RawBody []byte `contentType:"text/csv"`
}

func (s *Service) postImport(ctx context.Context, in *importInput) (Import, error) {
	caller := auth.PrincipalFrom(ctx)
	return s.importAll(ctx, caller.TenantID, in.RawBody, store.ByKey(caller.ID))
}

type heldInput struct {
	route.Page
	VendorID string `query:"vendorId" maxLength:"512" doc:"Only rows of this id."`
	RightID  string `query:"rightId" maxLength:"64" doc:"Only rows that wait for this right, or did last."`
	Reason   string `query:"reason" enum:"UNMAPPED,RIGHT_SUSPENDED" doc:"Only rows that wait for this, or did last."`
	State    string `query:"state" enum:"HELD,REPLAYED,EXPIRED" doc:"Only rows in this state."`
}

func (s *Service) getHeld(ctx context.Context, in *heldInput) (HeldRowList, error) {
	slice, err := in.Slice()
	if err != nil {
		return HeldRowList{}, err
	}
	page, next, err := listHeld(ctx, s.db.Read(), auth.PrincipalFrom(ctx).TenantID, heldFilter{in.VendorID, in.RightID, in.Reason, in.State}, slice)
	return HeldRowList{page, in.Next(next)}, err
}
