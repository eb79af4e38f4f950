package tenant

import (
	"context"
	"net/http"

	"muniment.example/control/route"
	"muniment.example/control/store"
	"muniment.example/gateway/api"
	"muniment.example/gateway/auth"
)

// Routes adds the service's operations to the API.
func (s *Service) Routes(a route.API) {
	route.Add(a, route.Operation{ID: "get-tenant", Method: http.MethodGet, Path: "/v1/tenant", Tag: "Tenant", Access: route.Scope(api.RightsRead),
		Summary: "Get the tenant, its counts, and the calling key"}, s.get)
	route.Add(a, route.Operation{ID: "create-api-key", Method: http.MethodPost, Path: "/v1/api-keys", Tag: "Tenant", Access: route.Scope(api.KeysWrite),
		Summary: "Create an API key; it is shown only once", Confirms: true, Effects: []route.Effect{grants}}, s.create)
	route.Add(a, route.Operation{ID: "list-api-keys", Method: http.MethodGet, Path: "/v1/api-keys", Tag: "Tenant", Access: route.Scope(api.KeysWrite),
		Summary: "List the API keys, newest first"}, s.list)
	route.Add(a, route.Operation{ID: "get-api-key", Method: http.MethodGet, Path: "/v1/api-keys/{keyId}", Tag: "Tenant", Access: route.Scope(api.KeysWrite),
		Summary: "Get an API key's record, and what it has made that works on when it ends"}, s.one)
	route.Add(a, route.Operation{ID: "rotate-api-key", Method: http.MethodPost, Path: "/v1/api-keys/{keyId}/rotate", Tag: "Tenant", Access: route.Scope(api.KeysWrite),
		Summary: "Replace an API key by a new one, which is shown only once", Confirms: true, Effects: []route.Effect{grants}}, s.rotate)
	route.Add(a, route.Operation{ID: "revoke-api-key", Method: http.MethodDelete, Path: "/v1/api-keys/{keyId}", Tag: "Tenant", Access: route.Scope(api.KeysWrite),
		Summary: "Permanently revoke an API key", Description: "Members whom the key has invited and who have not signed in yet are removed with it. What else it has made works on: the response names its keys, members and payees' links.", Effects: []route.Effect{revokes}}, s.revoke)
}

// The effects of operations on keys.
var (
	grants  = route.Effect{Does: "grants scopes to a key", Needs: "these scopes"}
	revokes = route.Effect{Does: "ends another key than the calling one", Needs: "all scopes of that key"}
)

// SchemaName is the type's name in the OpenAPI document, where it has no package before it.
func (Key) SchemaName() string           { return "ApiKey" }
func (KeyRequest) SchemaName() string    { return "NewApiKey" }
func (Rotation) SchemaName() string      { return "ApiKeyRotation" }
func (Rotated) SchemaName() string       { return "RotatedApiKey" }
func (Revocation) SchemaName() string    { return "RevokedApiKey" }
func (Made) SchemaName() string          { return "CreatedApiKey" }
func (MadeKey) SchemaName() string       { return "MadeApiKey" }
func (MadeMember) SchemaName() string    { return "MadeMember" }
func (MadePayeeLink) SchemaName() string { return "MadePayeeLink" }
func (Details) SchemaName() string       { return "ApiKeyDetails" }
func (One) SchemaName() string           { return "ApiKeyData" }
func (List) SchemaName() string          { return "ApiKeyList" }
func (Counts) SchemaName() string        { return "TenantCounts" }
func (Snapshot) SchemaName() string      { return "TenantData" }

// The parts of a Snapshot.
type (
	Tenant struct {
		TenantID  string        `json:"tenantId"`
		OrgID     string        `json:"orgId"`
		TimeZone  string        `json:"timeZone" doc:"The IANA time zone of its statements and rules, unless they name another."`
		CreatedAt store.Instant `json:"createdAt"`
		Counts    Counts        `json:"counts"`
	}
	Developer struct {
		DeveloperID string `json:"developerId" doc:"The developer's id."`
		OrgID       string `json:"orgId"`
		Email       string `json:"email" doc:"Empty when none was given."`
	}
	CallingKey struct {
		KeyID  string   `json:"keyId"`
		Label  string   `json:"label"`
		Prefix string   `json:"prefix"`
		Scopes []string `json:"scopes"`
	}
)

// Snapshot is the tenant as the contract has it.
type Snapshot struct {
	Tenant    Tenant     `json:"tenant"`
	Developer Developer  `json:"developer"`
	Key       CallingKey `json:"key"`
}

// Counts of a tenant's records.
type Counts struct {
	Bases      int64 `json:"bases" doc:"How many there are."`
	Rights     int64 `json:"rights" doc:"How many there are."`
	Offers     int64 `json:"offers" doc:"How many there are."`
	Challenges int64 `json:"challenges" doc:"How many there are."`
	ProofPacks int64 `json:"proofPacks" doc:"How many there are."`
	Events     int64 `json:"events" doc:"How many are durable; while the warehouse is more than 2 seconds behind, how many it has loaded."`
}

func (s *Service) get(ctx context.Context, _ *struct{}) (Snapshot, error) {
	caller := auth.PrincipalFrom(ctx)
	known, err := s.summary(ctx, caller.TenantID, caller.DeveloperID)
	if err != nil {
		return Snapshot{}, err
	}
	if known == nil {
		return Snapshot{}, auth.ErrInvalid
	}
	known.Key.KeyID, known.Key.Label, known.Key.Prefix, known.Key.Scopes = caller.ID, caller.Label, caller.Prefix, caller.Scopes.Names()
	n := &known.Tenant.Counts
	for _, c := range []struct {
		count Counter
		into  *int64
	}{
		{s.counters.Bases, &n.Bases}, {s.counters.Rights, &n.Rights}, {s.counters.Offers, &n.Offers},
		{s.counters.Challenges, &n.Challenges}, {s.counters.ProofPacks, &n.ProofPacks}, {s.counters.Events, &n.Events},
	} {
		if c.count == nil {
			continue
		}
		if *c.into, err = c.count(ctx, caller.TenantID); err != nil {
			return Snapshot{}, err
		}
	}
	return *known, nil
}

type createInput struct{ Body KeyRequest }

// Made is the response that shows a new key.
type Made struct {
	Key    Key    `json:"key"`
	APIKey string `json:"apiKey" doc:"The key itself; it can't be shown again."`
}

func (s *Service) create(ctx context.Context, in *createInput) (Made, error) {
	caller := auth.PrincipalFrom(ctx)
	owner := Key{TenantID: caller.TenantID, OrgID: caller.OrgID, DeveloperID: caller.DeveloperID}
	return s.makeKey(ctx, callerOf(caller), owner, EnvOf(caller.Prefix), in.Body)
}

type rotateInput struct {
	KeyID string    `path:"keyId"`
	Body  *Rotation // may be absent
}

func (in *rotateInput) rotation() Rotation {
	if in.Body == nil {
		return Rotation{}
	}
	return *in.Body
}

func (s *Service) rotate(ctx context.Context, in *rotateInput) (Rotated, error) {
	return s.rotateKey(ctx, callerOf(auth.PrincipalFrom(ctx)), in.KeyID, in.rotation())
}

// List is one page of keys.
type List struct {
	Keys       []Key   `json:"keys"`
	NextCursor *string `json:"nextCursor"`
}

func (s *Service) list(ctx context.Context, in *struct{ route.Page }) (List, error) {
	return s.page(ctx, auth.PrincipalFrom(ctx).TenantID, in.Page)
}

func (s *Service) page(ctx context.Context, tenantID string, page route.Page) (List, error) {
	slice, err := page.Slice()
	if err != nil {
		return List{}, err
	}
	list, next, err := listKeys(ctx, s.db.Read(), tenantID, slice)
	if err == nil {
		err = s.noteUses(ctx, list)
	}
	return List{list, page.Next(next)}, err
}

// noteUses completes keys that are read.
func (s *Service) noteUses(ctx context.Context, list []Key) (err error) {
	last := map[string]store.Instant{}
	if s.lastUsed != nil {
		ids := make([]string, len(list))
		for i := range list {
			ids[i] = list[i].KeyID
		}
		last, err = s.lastUsed(ctx, ids)
	}
	for i := range list {
		list[i].LastUsedAt = new(last[list[i].KeyID])
	}
	return err
}

type keyInput struct {
	KeyID string `path:"keyId"`
}

// One is the response about one key.
type One struct {
	Key Key `json:"key"`
}

// Details is the response about one key and what outlasts it.
type Details struct {
	Key Key `json:"key"`
	Outlasting
}

func (s *Service) one(ctx context.Context, in *keyInput) (d Details, err error) {
	k, err := keys.Find(ctx, s.db.Read(), auth.PrincipalFrom(ctx).TenantID, in.KeyID)
	if err != nil {
		return d, err
	}
	one := []Key{*k}
	if err = s.noteUses(ctx, one); err == nil {
		d.Key = one[0]
		d.Outlasting, err = madeBy(ctx, s.db.Read(), k, s.db.Now())
	}
	return d, err
}

func (s *Service) revoke(ctx context.Context, in *keyInput) (Revocation, error) {
	return s.revokeKey(ctx, callerOf(auth.PrincipalFrom(ctx)), in.KeyID)
}
