package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"strings"
	"time"
)

// registered is a tenant with a right on each substrate that has a profile.
type registered struct {
	client   Client
	tenantID string
	bases    int
	rights   map[string]string // by substrate
}

// register makes a tenant on a running server, and through an API three bases and the
// rights.
func register(ctx context.Context, exe string, server *Server, api string) (*registered, error) {
	out, err := exec.CommandContext(ctx, exe, "tenant", "create", "--data", server.Data, "--org", "org_demo", "--another", "--json").Output()
	if err != nil {
		return nil, fmt.Errorf("cannot create a tenant: %w%s", err, stderrOf(err))
	}
	var tenant struct{ TenantID, APIKey string }
	if err := json.Unmarshal(out, &tenant); err != nil {
		return nil, fmt.Errorf("cannot read the tenant: %w", err)
	}
	r := &registered{client: Client{API: api, Key: tenant.APIKey, HTTP: server.HTTP}, tenantID: tenant.TenantID, rights: map[string]string{}}

	from := time.Now().UTC().Add(-time.Hour).Format(time.RFC3339)
	var bases []string
	for _, kind := range []string{"LICENSE", "CONSENT", "CONTRACT"} {
		var data struct{ Basis struct{ ID string } }
		err := r.client.Do(ctx, "POST", "/v1/bases", map[string]any{
			"kind": kind, "title": "Demo " + strings.ToLower(kind), "holderOrgId": "org_demo", "jurisdiction": "EU",
			"reference": "demo/" + strings.ToLower(kind), "effectiveFrom": from,
		}, &data)
		if err != nil {
			return nil, err
		}
		bases = append(bases, data.Basis.ID)
	}
	r.bases = len(bases)
	for i, p := range Profiles() {
		var data struct{ Right struct{ ID string } }
		body := map[string]any{"basisId": bases[i%len(bases)], "substrate": p.Substrate, "effectiveFrom": from, "scope": map[string]any{}}
		if p.Scope != nil {
			body["scope"] = p.Scope
		}
		if err := r.client.Do(ctx, "POST", "/v1/rights", body, &data); err != nil {
			return nil, err
		}
		r.rights[p.Substrate] = data.Right.ID
	}
	return r, nil
}
