package control

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/go-json-experiment/json/jsontext"

	"muniment.example/control/access"
	"muniment.example/control/beacon"
	"muniment.example/control/challenge"
	"muniment.example/control/dispute"
	"muniment.example/control/dsar"
	"muniment.example/control/erasure"
	"muniment.example/control/event"
	"muniment.example/control/ingest"
	"muniment.example/control/member"
	"muniment.example/control/node"
	"muniment.example/control/offer"
	"muniment.example/control/payable"
	"muniment.example/control/payeelink"
	"muniment.example/control/proof"
	"muniment.example/control/right"
	"muniment.example/control/rollback"
	"muniment.example/control/sandbox"
	"muniment.example/control/settle"
	"muniment.example/control/signing"
	"muniment.example/control/statement"
	"muniment.example/control/store"
	"muniment.example/control/tenant"
	"muniment.example/control/webhook"
)

// Kinds are the kinds of the events of all services, and of those that nodes write. Webhooks, the
// filter of GET /v1/events and the catalogue in the document read them here.
var Kinds = store.KindsOf(slices.Concat(
	event.Nouns, right.Nouns, offer.Nouns, challenge.Nouns, dispute.Nouns, ingest.Nouns, beacon.Nouns, settle.Nouns, payable.Nouns, payeelink.Nouns, statement.Nouns, webhook.Nouns,
	proof.Nouns, dsar.Nouns, erasure.Nouns, tenant.Nouns, member.Nouns, sandbox.Nouns, signing.Nouns, node.Nouns, access.Nouns, rollback.Nouns,
))

// eventKinds is the catalogue of tenants' events in the document: their types, the scopes of which a
// key needs one to get them, and their data. It also returns the schemas of the data. They are beside
// those of the operations, which linters and generators of clients take for unused otherwise, and
// their names begin with Event, as some records are not the same as in responses.
func eventKinds() (list []any, schemas object, err error) {
	registry := huma.NewMapRegistry("#/"+eventSchemas+"/", func(t reflect.Type, hint string) string { return "Event" + schemaName(t, hint) })
	registry.RegisterTypeAlias(reflect.TypeFor[store.Instant](), reflect.TypeFor[time.Time]())
	registry.RegisterTypeAlias(reflect.TypeFor[jsontext.Value](), reflect.TypeFor[json.RawMessage]())
	kinds := Kinds.OfTenants()
	slices.SortStableFunc(kinds, func(a, b *store.Kind) int { return strings.Compare(a.Type, b.Type) })
	for _, k := range kinds {
		data := object{"type": "object"}
		var parts []any
		for _, part := range k.Data {
			parts = append(parts, object{"$ref": registry.Schema(reflect.TypeOf(part), true, "").Ref})
		}
		if parts != nil {
			data["allOf"] = parts
		}
		list = append(list, object{"type": k.Type, "noun": k.Name, "description": k.Means, "scopes": k.Scopes(), "data": data})
	}
	text, err := json.Marshal(registry)
	if err == nil {
		err = json.Unmarshal(text, &schemas)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("cannot write the schemas of events: %w", err)
	}
	return list, schemas, nil
}

// eventSchemas is the member of the document that has the schemas of events.
const eventSchemas = "x-event-schemas"
