package tenant

import (
	"muniment.example/control/store"
	"muniment.example/gateway/api"
)

// The events about tenants and their API keys. There is no scope that only reads keys.
var (
	tenantEvents  = &store.Noun{Name: "tenant", Scope: api.RightsRead}
	tenantCreated = tenantEvents.Kind("tenant.created", "The tenant was created.", TenantCreated{})

	keyEvents  = &store.Noun{Name: "key", Scope: api.KeysWrite}
	keyCreated = keyEvents.Kind("key.created", "An API key was created.", Key{})
	keyRotated = keyEvents.Kind("key.rotated", "An API key was replaced by another.", Key{}, Successor{})
	keyRevoked = keyEvents.Kind("key.revoked", "An API key was revoked.", Key{})
)

// Nouns are the nouns of this package's events.
var Nouns = []*store.Noun{tenantEvents, keyEvents}

// TenantCreated is the data of tenant.created.
type TenantCreated struct {
	TenantID    string        `json:"tenantId"`
	OrgID       string        `json:"orgId"`
	DeveloperID string        `json:"developerId" doc:"The developer's id."`
	TimeZone    string        `json:"timeZone" doc:"The tenant's IANA time zone."`
	CreatedAt   store.Instant `json:"createdAt"`
	Revision    int64         `json:"revision"`
	Sandbox     bool          `json:"sandbox,omitempty" doc:"True for a tenant of the sandbox."`
}

// Successor is what key.rotated has besides the replaced key.
type Successor struct {
	Successor Key `json:"successor" doc:"The key that replaces it."`
}

// SchemaName returns the schema name in the OpenAPI document.
func (Successor) SchemaName() string { return "KeySuccessor" }
