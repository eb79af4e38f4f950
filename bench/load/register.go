package load

import (
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"strings"
	"time"

	"muniment.example/bench/system"
)

// Tenant is a tenant with a right on each substrate that has a profile.
type Tenant struct {
	Client   system.Client
	TenantID string
	Bases    int
	Rights   map[string]string // by substrate
}

// Register makes a tenant on a running server, and through an API three bases and the
// rights.
func Register(ctx context.Context, exe string, server *system.Server, api string) (*Tenant, error) {
	out, err := exec.CommandContext(ctx, exe, "tenant", "create", "--data", server.Data, "--org", "org_demo", "--another", "--json").Output()
	if err != nil {
		return nil, fmt.Errorf("cannot create a tenant: %w%s", err, system.Stderr(err))
	}
	var tenant struct{ TenantID, APIKey string }
	if err := json.Unmarshal(out, &tenant); err != nil {
		return nil, fmt.Errorf("cannot read the tenant: %w", err)
	}
	r := &Tenant{Client: system.Client{API: api, Key: tenant.APIKey, HTTP: server.HTTP}, TenantID: tenant.TenantID, Rights: map[string]string{}}

	from := time.Now().UTC().Add(-time.Hour).Format(time.RFC3339)
	var bases []string
	for _, kind := range []string{"LICENSE", "CONSENT", "CONTRACT"} {
		var data struct{ Basis struct{ ID string } }
		err := r.Client.Do(ctx, "POST", "/v1/bases", map[string]any{
			"kind": kind, "title": "Demo " + strings.ToLower(kind), "holderOrgId": "org_demo", "jurisdiction": "EU",
			"reference": "demo/" + strings.ToLower(kind), "effectiveFrom": from,
		}, &data)
		if err != nil {
			return nil, err
		}
		bases = append(bases, data.Basis.ID)
	}
	r.Bases = len(bases)
	for i, p := range Profiles() {
		var data struct{ Right struct{ ID string } }
		body := map[string]any{"basisId": bases[i%len(bases)], "substrate": p.Substrate, "effectiveFrom": from, "scope": map[string]any{}}
		if p.Scope != nil {
			body["scope"] = p.Scope
		}
		if err := r.Client.Do(ctx, "POST", "/v1/rights", body, &data); err != nil {
			return nil, err
		}
		r.Rights[p.Substrate] = data.Right.ID
	}
	return r, nil
}
