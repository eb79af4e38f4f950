package control

import (
	"slices"

	"muniment/control/challenge"
	"muniment/control/ingest"
	"muniment/control/node"
	"muniment/control/offer"
	"muniment/control/proof"
	"muniment/control/right"
	"muniment/control/sandbox"
	"muniment/control/settle"
	"muniment/control/store"
	"muniment/control/tenant"
)

// Tables are those of all rooms, what refers to others before them.
var Tables = slices.Concat(
	sandbox.Tables, proof.Tables, ingest.Tables, challenge.Tables, offer.Tables, settle.Tables, right.Tables, tenant.Tables, node.Tables, store.OwnTables,
)
