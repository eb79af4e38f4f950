package control

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"muniment/control/tenant"
	"muniment/gateway/api"
)

// operatorRoutes are what an operator may do.
func (c *Control) operatorRoutes(a huma.API) {
	huma.Register(a, huma.Operation{
		OperationID: "create-tenant",
		Method:      http.MethodPost,
		Path:        "/admin/tenants",
		Summary:     "Create a tenant with its first developer and API key",
		Tags:        []string{"Operator"},
		Metadata:    map[string]any{"operator": true},
	}, c.createTenant)
}

type tenantInput struct{ Body tenant.Request }

type tenantAnswer struct{ Body api.Body[tenant.Created] }

func (c *Control) createTenant(ctx context.Context, in *tenantInput) (*tenantAnswer, error) {
	created, err := c.cfg.Tenants.Create(ctx, in.Body)
	if err != nil {
		return nil, err
	}
	return &tenantAnswer{api.OK(created)}, nil
}
