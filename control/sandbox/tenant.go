package sandbox

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"

	"muniment.example/control/right"
	"muniment.example/control/store"
	"muniment.example/control/tenant"
	"muniment.example/gateway/api"
	"muniment.example/gateway/auth"
)

// Tenant is a visitor's tenant, as in /v1.
type Tenant struct {
	TenantID  string        `json:"tenantId"`
	OrgID     string        `json:"orgId"`
	CreatedAt store.Instant `json:"createdAt"`
	Counts    tenant.Counts `json:"counts"`
}

// shown is a tenant as the contract has it.
func shown(t tenant.Tenant) Tenant { return Tenant{t.TenantID, t.OrgID, t.CreatedAt, t.Counts} }

// Summary is a visitor's tenant with its rights.
type Summary struct {
	Tenant
	Rights []right.View `json:"rights" doc:"The newest 500 at most, or about 2 MiB of them, oldest first. counts.rights is how many there are; inspect has all."`
}

func (s *Service) summary(ctx context.Context) (made Summary, err error) {
	t, err := read[tenant.Snapshot](ctx, s.core, "/v1/tenant")
	if err != nil {
		return made, err
	}
	rights, _, err := all[right.View](ctx, s.core, "rights", "rights", nil)
	slices.SortFunc(rights, func(a, b right.View) int { // ids of one millisecond are not in order
		return cmp.Or(a.CreatedAt.Compare(b.CreatedAt.Time), cmp.Compare(a.Revision, b.Revision))
	})
	return Summary{shown(t.Tenant), rights}, err
}

// provision creates a tenant with the standard seed. A tenant that can't be seeded is dropped. A
// tenant that a crash leaves half seeded, or whose cookie never arrives, is evicted as idle.
func (s *Service) provision(ctx context.Context) (auth.Principal, error) {
	if err := s.admit(ctx, seedEvents); err != nil {
		return auth.Principal{}, err
	}
	if err := s.makePlace(ctx); err != nil {
		return auth.Principal{}, err
	}
	id := api.NewID("sandbox_", s.db.Now())
	var made tenant.Created
	err := s.db.Change(ctx, func(tx *store.Tx) (err error) {
		if err := s.hasPlace(ctx, tx); err != nil { // another visitor took the place
			return err
		}
		made, err = tenant.Make(ctx, tx, tenant.Request{Org: strings.ToLower(id), Label: "sandbox", Sandbox: true})
		if err != nil {
			return err
		}
		if err := insertVisitorTenant(ctx, tx, visitorTenant{made.TenantID, made.KeyID, store.At(tx.Now())}); err != nil {
			return err
		}
		return addEvents(ctx, tx, visitorOf(ctx).address, seedEvents)
	})
	if err != nil {
		return auth.Principal{}, err
	}
	of, err := s.callerOf(ctx, made.KeyID)
	if err == nil {
		err = s.seed(visitor{caller: of}.in(ctx))
	}
	return of, s.orDrop(ctx, made.TenantID, err)
}

// orDrop drops a tenant that err leaves without a visitor, and returns err.
func (s *Service) orDrop(ctx context.Context, tenantID string, err error) error {
	if err == nil {
		return nil
	}
	_, also := s.drop(context.WithoutCancel(ctx), tenantID, unfinished, store.BySystem())
	return errors.Join(err, also)
}

// Provisioned is the response that sets the cookie.
type Provisioned struct {
	SetCookie http.Cookie `header:"Set-Cookie"`
	Body      BoundTenant
}

// BoundTenant is the tenant that the cookie is bound to.
type BoundTenant struct {
	Body[Summary]
	Rebound bool `json:"rebound" doc:"Whether the tenant is the one of the request's cookie, and not a new one."`
}

func (s *Service) postTenant(ctx context.Context, _ *struct{}) (*Provisioned, error) {
	v, response := visitorOf(ctx), &Provisioned{}
	response.Body.OK = true
	secret, err := readSecret(ctx, s.db.Read())
	if err != nil {
		return nil, err
	}
	if v.hasTenant() {
		response.Body.Data, err = s.summary(ctx)
		response.Body.Rebound = !s.gone(ctx, err)
	}
	if !response.Body.Rebound {
		if v.caller, err = s.provision(ctx); err == nil {
			response.Body.Data, err = s.summary(v.in(ctx))
			err = s.orDrop(ctx, v.caller.TenantID, err) // without its cookie nobody can use it
		}
	}
	if err != nil {
		return nil, err
	}
	response.SetCookie = *cookie(secret.sign(v.caller.TenantID), v.within)
	return response, nil
}

func (s *Service) getTenant(ctx context.Context, _ *struct{}) (Summary, error) {
	return s.summary(ctx)
}

// Reset is the response that deletes the cookie.
type Reset struct {
	SetCookie http.Cookie `header:"Set-Cookie"`
	Body      Body[Dropped]
}

// Dropped is the result of a reset.
type Dropped struct {
	TenantID *string `json:"tenantId" doc:"The tenant of the cookie; null without a cookie."`
	Dropped  bool    `json:"dropped" doc:"Whether there was a tenant to drop."`
}

func (s *Service) postReset(ctx context.Context, _ *struct{}) (*Reset, error) {
	v, response := visitorOf(ctx), &Reset{SetCookie: *cookie("", visitorOf(ctx).within)}
	response.Body.OK = true
	if v.tenantID != "" {
		response.Body.Data.TenantID = &v.tenantID
	}
	if !v.hasTenant() {
		return response, nil
	}
	var err error
	response.Body.Data.Dropped, err = s.drop(ctx, v.tenantID, wasReset, store.ByKey(v.caller.ID))
	return response, err
}
