package node

import "muniment/control/store"

// Tables are those of this package: nodes are no tenant's.
var Tables = store.Tables{
	{Name: "node_polls", Outlives: "nodes are the service's"},
	{Name: "node_names", Outlives: "nodes are the service's"},
	{Name: "node_credentials", Outlives: "nodes are the service's"},
	{Name: "invitations", Outlives: "nodes are the service's"},
	{Name: "nodes", Outlives: "nodes are the service's"},
}
