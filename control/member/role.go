package member

import "muniment.example/gateway/api"

// Role is what a member may do: a set of scopes.
type Role string

// The roles.
const (
	Owner      Role = "owner"
	Finance    Role = "finance"
	Operations Role = "operations"
	Viewer     Role = "viewer"
)

const reads = api.Scopes(api.RightsRead | api.OffersRead | api.ChallengesRead | api.AuditRead | api.MeteringRead | api.SettlementRead | api.WebhooksRead | api.DisputesRead)

// roles are the scopes of each role. Only owners have keys:write, and so change keys and members.
var roles = map[Role]api.Scopes{
	Owner:      api.Scopes(api.Wildcard),
	Finance:    reads | api.Scopes(api.SettlementWrite|api.DisputesWrite),
	Operations: reads | api.Scopes(api.RightsWrite|api.OffersWrite|api.ChallengesWrite|api.DeliveryWrite|api.ProofWrite|api.WebhooksWrite|api.DisputesWrite),
	Viewer:     reads,
}

// Roles are all roles, the one with the most scopes first.
func Roles() []Role { return []Role{Owner, Operations, Finance, Viewer} }

// Scopes are the scopes of the role; none for one that is unknown.
func (r Role) Scopes() api.Scopes { return roles[r] }
