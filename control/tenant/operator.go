package tenant

import (
	"context"
	"net/http"

	"muniment.example/control/route"
	"muniment.example/control/store"
	"muniment.example/gateway/api"
	"muniment.example/gateway/auth"
)

// OperatorRoutes adds what an operator may do to the API of the admin listener.
func (s *Service) OperatorRoutes(a route.API) {
	route.Add(a, route.Operation{ID: "create-tenant", Method: http.MethodPost, Path: "/admin/tenants", Tag: "Operator", Access: route.Operator{},
		Summary: "Create a tenant with its first developer and API key"}, s.createTenant)
	route.Add(a, route.Operation{ID: "list-tenants", Method: http.MethodGet, Path: "/admin/tenants", Tag: "Operator", Access: route.Operator{},
		Summary: "List the tenants, newest first, without those of the sandbox's visitors"}, s.listTenants)
	route.Add(a, route.Operation{ID: "operator-create-api-key", Method: http.MethodPost, Path: "/admin/api-keys", Tag: "Operator", Access: route.Operator{},
		Summary: "Create an API key for any tenant; it is shown only once"}, s.operatorCreate)
	route.Add(a, route.Operation{ID: "operator-list-api-keys", Method: http.MethodGet, Path: "/admin/api-keys", Tag: "Operator", Access: route.Operator{},
		Summary: "List the API keys of a tenant, newest first"}, s.operatorList)
	route.Add(a, route.Operation{ID: "operator-rotate-api-key", Method: http.MethodPost, Path: "/admin/api-keys/{keyId}/rotate", Tag: "Operator", Access: route.Operator{},
		Summary: "Replace an API key by a new one, which is shown only once"}, s.operatorRotate)
	route.Add(a, route.Operation{ID: "operator-revoke-api-key", Method: http.MethodPost, Path: "/admin/api-keys/{keyId}/revoke", Tag: "Operator", Access: route.Operator{},
		Summary: "Permanently revoke an API key"}, s.operatorRevoke)
}

type tenantInput struct{ Body Request }

func (s *Service) createTenant(ctx context.Context, in *tenantInput) (Created, error) {
	return s.Create(ctx, in.Body)
}

// Tenants is one page of tenants.
type Tenants struct {
	Tenants    []Listed `json:"tenants"`
	NextCursor *string  `json:"nextCursor"`
}

// Listed is a tenant as operators see it.
type Listed struct {
	TenantID  string        `json:"tenantId"`
	OrgID     string        `json:"orgId"`
	Email     string        `json:"email" doc:"Of its first developer; empty when none was given."`
	Sandbox   bool          `json:"sandbox" doc:"Whether keys of the sandbox sign for it."`
	Keys      int64         `json:"keys" doc:"How many API keys it has that were not revoked."`
	CreatedAt store.Instant `json:"createdAt"`
}

func (s *Service) listTenants(ctx context.Context, in *struct{ route.Page }) (Tenants, error) {
	slice, err := in.Slice()
	if err != nil {
		return Tenants{}, err
	}
	page, next, err := listTenants(ctx, s.db.Read(), slice)
	return Tenants{page, in.Next(next)}, err
}

// OperatorKeyRequest is a request for a key of any tenant, for its first developer.
type OperatorKeyRequest struct {
	TenantID string `json:"tenantId" maxLength:"64"`
	// Env is test or live; test when empty.
	Env string `json:"env,omitempty" enum:"test,live"`
	KeyRequest
}

type operatorKeyInput struct{ Body OperatorKeyRequest }

func (s *Service) operatorCreate(ctx context.Context, in *operatorKeyInput) (Made, error) {
	q := in.Body
	whose, err := owner(ctx, s.db.Read(), q.TenantID)
	if err != nil {
		return Made{}, err
	}
	if whose == nil {
		return Made{}, noTenant()
	}
	if err := s.refuseVisitor(ctx, q.TenantID); err != nil {
		return Made{}, err
	}
	if q.Env == "" {
		q.Env = auth.EnvTest
	}
	return s.makeKey(ctx, anOperator(), *whose, q.Env, q.KeyRequest)
}

// refuseVisitor refuses keys for visitors' tenants: nodes would accept such a
// key after its tenant was dropped (store.Tables.DropTenant).
func (s *Service) refuseVisitor(ctx context.Context, tenantID string) error {
	visitor, err := isVisitor(ctx, s.db.Read(), tenantID)
	if err == nil && visitor {
		err = api.Conflict("a visitor of the sandbox has no key but the one that acts for it, which can be revoked only")
	}
	return err
}

func noTenant() error {
	return &api.Error{Code: api.ResourceNotFound, Message: "no such tenant"}
}

type operatorListInput struct {
	TenantID string `query:"tenantId" required:"true"`
	route.Page
}

func (s *Service) operatorList(ctx context.Context, in *operatorListInput) (List, error) {
	whose, err := owner(ctx, s.db.Read(), in.TenantID)
	if err != nil {
		return List{}, err
	}
	if whose == nil {
		return List{}, noTenant()
	}
	return s.page(ctx, in.TenantID, in.Page)
}

func (s *Service) operatorRotate(ctx context.Context, in *rotateInput) (Rotated, error) {
	k, err := findAnyKey(ctx, s.db.Read(), in.KeyID)
	if err == nil {
		err = s.refuseVisitor(ctx, k.TenantID)
	}
	if err != nil {
		return Rotated{}, err
	}
	return s.rotateKey(ctx, anOperator(), in.KeyID, in.rotation())
}

func (s *Service) operatorRevoke(ctx context.Context, in *keyInput) (Revocation, error) {
	return s.revokeKey(ctx, anOperator(), in.KeyID)
}
