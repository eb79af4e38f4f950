package sandbox

import (
	"muniment.example/control/store"
	"muniment.example/gateway/api"
	"muniment.example/pipeline"
)

// The events about the sandbox, and about tenants of it that are deleted.
var (
	tenantEvents  = &store.Noun{Name: "tenant", Scope: api.RightsRead}
	tenantDropped = tenantEvents.Kind(pipeline.TypeDropped, "The tenant of the sandbox was deleted with all its data.", TenantDropped{})

	sandboxEvents = &store.Noun{Name: "sandbox", System: true}
	secretRotated = sandboxEvents.Kind("sandbox.secret_rotated", "The secret of the sandbox's cookies was replaced.")
)

// Nouns are the nouns of this package's events.
var Nouns = []*store.Noun{tenantEvents, sandboxEvents}

// TenantDropped is the data of tenant.dropped.
type TenantDropped struct {
	TenantID string `json:"tenantId"`
	Reason   string `json:"reason" doc:"Why it was deleted."`
}

// SchemaName returns the schema name in the OpenAPI document.
func (TenantDropped) SchemaName() string { return "TenantDropped" }
