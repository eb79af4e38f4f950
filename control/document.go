package control

import (
	"encoding/json"
	"fmt"
	"net/http"
	"path"
	"reflect"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"muniment.example/control/route"
	"muniment.example/gate"
	"muniment.example/gateway/api"
)

// schemaName is the name of a type in the OpenAPI document: the one that the type has
// (route.Named), or its Go name without the package. Types of the sandbox begin with Sandbox. The
// envelope around T, or around TData, is TResponse. If two types have one name huma panics, and
// control does not start.
func schemaName(t reflect.Type, hint string) string {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return "" // its schema is written where it is used
	}
	name, zero := t.Name(), reflect.Zero(t).Interface()
	if strings.HasPrefix(name, "Body[") {
		data, _ := t.FieldByName("Data")
		return ofSandbox(t, strings.TrimSuffix(schemaName(data.Type, hint), "Data")+"Response")
	}
	if verbatim, ok := zero.(interface{ Of() reflect.Type }); ok {
		return schemaName(verbatim.Of(), hint)
	}
	if named, ok := zero.(route.Named); ok {
		name = named.SchemaName()
	}
	if name == "" {
		name = hint
	}
	return ofSandbox(t, strings.ToUpper(name[:1])+name[1:])
}

func ofSandbox(t reflect.Type, name string) string {
	if path.Base(t.PkgPath()) == "sandbox" && !strings.HasPrefix(name, "Sandbox") {
		return "Sandbox" + name
	}
	return name
}

// examples has, for each operation, a request to a running service and its response.
type examples map[string]struct {
	Request  json.RawMessage `json:"request"`
	Response json.RawMessage `json:"answer"`
}

func readExamples() (examples, error) {
	text, err := page.ReadFile("page/examples.json")
	if err != nil {
		return nil, err
	}
	var all examples
	if err := json.Unmarshal(text, &all); err != nil {
		return nil, fmt.Errorf("cannot read the examples: %w", err)
	}
	return all, nil
}

// illustrate gives an operation its examples.
func (all examples) illustrate(op object) {
	e := all[op["operationId"].(string)]
	exemplify(op["requestBody"], e.Request)
	for status, response := range op["responses"].(object) {
		if strings.HasPrefix(status, "2") {
			exemplify(response, e.Response)
		}
	}
}

// exemplify gives a JSON body its example, if there is one.
func exemplify(holder any, example json.RawMessage) {
	body, _ := holder.(object)
	content, _ := body["content"].(object)
	if media, ok := content[jsonType].(object); ok && example != nil {
		media["example"] = example
	}
}

// The routes that the gateway serves itself, for the document.

const (
	tagDelivery = "Delivery"
	tagService  = "Service"
	ingestBatch = "ingest-batch"
)

// describeEdge adds the gateway's operations to the document. a serves nothing.
func describeEdge(a route.API) {
	a.OpenAPI().Components.Schemas.Map()["Telemetry"] = telemetrySchema()
	route.Describe[struct{}, api.Contract](a, route.Operation{ID: "get-contract", Method: http.MethodGet, Path: "/v1", Tag: tagService, Access: route.Public{},
		Summary: "Get the versions of contract and rules"})
	route.Describe[struct{}, api.Health](a, route.Operation{ID: "get-health", Method: http.MethodGet, Path: "/v1/healthz", Tag: tagService, Access: route.Public{},
		Summary: "Check whether the service is healthy"})
	route.Describe[struct{ Body api.Observation }, api.Delivered](a, route.Operation{ID: "observe-delivery", Method: http.MethodPost, Path: "/v1/delivery", Tag: tagDelivery,
		Access: route.Scope(api.DeliveryWrite), Summary: "Observe a delivery and get its signed receipt",
		Errors: []int{http.StatusNotFound, http.StatusPreconditionFailed, http.StatusUnsupportedMediaType},
		Description: "Observes a delivery against an ACTIVE right. The constraint gate runs first: if the delivery breaks a rule of the right's substrate, " +
			"the response is 412 with every violation, and nothing is signed. Otherwise the receipt is signed and made durable before it is returned: " +
			"after a 200 it is on disk. A delivery may have a receipt and yet not be billed; `metering` says why.\n\n" +
			"With an `Idempotency-Key` a retry gets the same bytes again. 503 promises nothing and may be retried after `Retry-After`. " +
			"The body is at most 64 KiB. Unknown fields are accepted and not kept, except for those that are a known name but for case, `_`, `-` or one letter, and for `renderedAt`, `issuedAt` and `playedAt`, which are refused (422): " +
			"a delivery is signed as of now. Send earlier plays to `POST /v1/delivery/ingest-batch`."})
	route.Describe[struct{ Body api.IngestBatch }, api.Ingested](a, route.Operation{ID: ingestBatch, Method: http.MethodPost, Path: "/v1/delivery/ingest-batch", Tag: tagDelivery,
		Access: route.Scope(api.DeliveryWrite), Summary: "Ingest plays in bulk, each with a receipt of its own",
		Errors: []int{http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType},
		Description: "Accepts up to 1,000 rows and delivers each as `POST /v1/delivery` does, as of the time when it was played: up to 30 days ago, at most " +
			"5 minutes ahead. A row has either its right and anchor, or a vendor's id that has a mapping at that time (`POST /v1/delivery/mappings`); a row with both is " +
			"`VALIDATION_FAILED`. The right must have been in force at the time of the play, and must not be revoked; while it is suspended the row is `held`.\n\n" +
			"One bad row never blocks another: a 200 has a result for each row, in their order. A body that can't be read (400), is larger than 8 MiB (413) or is not a " +
			"batch (422) is refused as a whole. Rows are JSON as here, or one per line (`application/x-ndjson`), and either may be compressed (`Content-Encoding: gzip` or `zstd`).\n\n" +
			"**Send a batch again** if its outcome is unknown, and after 503. A row that was sent before is recognised, however late, by its `rowId` with `vendor`; without a `rowId` by vendor, `idType`, `vendorId` " +
			"(or right and anchor), `playedAt` and placement, each as it was sent. It is then a `duplicate`, or counted only once if another node accepted it. " +
			"The same identity with other content is `rejected` with `STATE_CONFLICT`."})
}

// telemetrySchema is the gate's table of fields with what they mean.
func telemetrySchema() *huma.Schema {
	s := &huma.Schema{
		Type: huma.TypeObject, Properties: map[string]*huma.Schema{}, AdditionalProperties: true,
		Description: "What the device observed. Every field is optional, and further fields are accepted. The gate reads all of them; " +
			"the description of each says what is kept afterwards. Of further fields the gate reads optOut (or optedOut), guardianConsent, profiled, " +
			"bvlos, neuralDataConsent and substrate, and keeps none.",
	}
	for _, f := range gate.Fields() {
		p := &huma.Schema{Type: f.Type, Nullable: f.Nullable, Minimum: f.Min, Maximum: f.Max, Description: f.Meaning + " Kept " + string(f.Kept) + "."}
		for _, v := range f.Values {
			p.Enum = append(p.Enum, v)
		}
		if f.MaxBytes > 0 {
			p.MaxLength = &f.MaxBytes
		}
		s.Properties[f.Name] = p
	}
	return s
}
