package node

import "muniment.example/control/store"

// Tables are the tables of this package. No row of them belongs to a tenant.
var Tables = store.Tables{
	{Name: "node_polls", Outlives: "nodes are the service's"},
	{Name: "node_names", Outlives: "nodes are the service's"},
	{Name: "node_credentials", Outlives: "nodes are the service's"},
	{Name: "invitations", Outlives: "nodes are the service's"},
	{Name: "nodes", Outlives: "nodes are the service's"},
}
