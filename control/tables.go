package control

import (
	"slices"

	"muniment/control/challenge"
	"muniment/control/dispute"
	"muniment/control/dsar"
	"muniment/control/erasure"
	"muniment/control/ingest"
	"muniment/control/node"
	"muniment/control/offer"
	"muniment/control/proof"
	"muniment/control/right"
	"muniment/control/sandbox"
	"muniment/control/settle"
	"muniment/control/signing"
	"muniment/control/statement"
	"muniment/control/store"
	"muniment/control/tenant"
	"muniment/control/webhook"
)

// Tables are those of all services, what refers to others before them.
var Tables = slices.Concat(
	webhook.Tables, statement.Tables, sandbox.Tables, erasure.Tables, dsar.Tables, proof.Tables, ingest.Tables, challenge.Tables, dispute.Tables, offer.Tables, settle.Tables, right.Tables, tenant.Tables, node.Tables, signing.Tables, store.OwnTables,
)
