package node

import "muniment/control/store"

// Tables are those of this room: nodes and their keys are no tenant's.
var Tables = store.Tables{
	{Name: "node_polls", Outlives: "nodes are the service's"},
	{Name: "node_credentials", Outlives: "nodes are the service's"},
	{Name: "invitations", Outlives: "nodes are the service's"},
	{Name: "signing_keys", Outlives: "what a key has signed is verified for ever"},
	{Name: "nodes", Outlives: "nodes are the service's"},
}
