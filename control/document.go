package control

import (
	"encoding/json"
	"fmt"
	"net/http"
	"path"
	"reflect"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"muniment/control/route"
	"muniment/gate"
	"muniment/gateway/api"
)

// schemaName is how the OpenAPI document calls a type: as the type says itself (route.Named), or
// as Go does, without its package. The sandbox's begin with Sandbox. The envelope around T, or
// around TData, is TResponse. Two types of one name keep control from starting: huma panics.
func schemaName(t reflect.Type, hint string) string {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return "" // is written where it is used
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

// examples are, by operation, what a caller sent to a running service and what it
// was answered.
type examples map[string]struct {
	Request json.RawMessage `json:"request"`
	Answer  json.RawMessage `json:"answer"`
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
			exemplify(response, e.Answer)
		}
	}
}

// exemplify gives a body, if it may be JSON, its example, if there is one.
func exemplify(holder any, example json.RawMessage) {
	body, _ := holder.(object)
	content, _ := body["content"].(object)
	if media, ok := content[jsonType].(object); ok && example != nil {
		media["example"] = example
	}
}

// The routes that the gateway answers itself, for the document.

const (
	tagDelivery = "Delivery"
	tagService  = "Service"
)

// describeEdge adds the gateway's operations to the document. a serves nothing.
func describeEdge(a route.API) {
	a.OpenAPI().Components.Schemas.Map()["Telemetry"] = telemetrySchema()
	route.Describe[struct{}, api.Contract](a, route.Operation{ID: "get-contract", Method: http.MethodGet, Path: "/v1", Tag: tagService, Access: route.Public{},
		Summary: "Get the versions of contract and rules", Errors: []int{http.StatusUnprocessableEntity}})
	route.Describe[struct{}, api.Health](a, route.Operation{ID: "get-health", Method: http.MethodGet, Path: "/v1/healthz", Tag: tagService, Access: route.Public{},
		Summary: "Ask whether requests are answered"})
	route.Describe[struct{ Body api.Observation }, api.Delivered](a, route.Operation{ID: "observe-delivery", Method: http.MethodPost, Path: "/v1/delivery", Tag: tagDelivery,
		Access: route.Scope(api.DeliveryWrite), Summary: "Observe a delivery and get its signed receipt",
		Errors: []int{http.StatusNotFound, http.StatusPreconditionFailed},
		Description: "Observes a delivery against an ACTIVE right. The constraint gate runs first: what breaks a rule of the right's substrate is " +
			"answered with 412 and every violation, and nothing is signed. Otherwise the receipt is signed, made durable, and then answered: " +
			"an answer of 200 is on disk. A delivery may be receipted and yet not billed; `metering` says why.\n\n" +
			"With an `Idempotency-Key` a retry gets the same bytes again. 503 promises nothing and may be retried after `Retry-After`. " +
			"The body is at most 64 KiB; unknown fields are accepted and not kept, but for `renderedAt`, `issuedAt` and `playedAt`, which are refused (422): " +
			"a delivery is signed as of now, and plays of an earlier time go to `POST /v1/delivery/ingest-batch`."})
	route.Describe[struct{ Body api.IngestBatch }, api.Ingested](a, route.Operation{ID: "ingest-batch", Method: http.MethodPost, Path: "/v1/delivery/ingest-batch", Tag: tagDelivery,
		Access: route.Scope(api.DeliveryWrite), Summary: "Ingest plays in bulk, each with a receipt of its own",
		Errors: []int{http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType},
		Description: "Takes up to 1,000 rows and delivers each as `POST /v1/delivery` does, as of the time when it was played: up to 30 days ago, at most " +
			"5 minutes ahead. A row names its right and anchor, or an id of a vendor's that a mapping knows at that time (`POST /v1/delivery/mappings`); both are its " +
			"`VALIDATION_FAILED`. The right must be ACTIVE now, and its window must cover the time of the play.\n\n" +
			"One bad row never blocks another: 200 answers with a result for each, in their order. A body that can't be read (400), is larger than 8 MiB (413) or is no " +
			"batch (422) is refused as a whole. Rows are JSON as here, or one a line (`application/x-ndjson`), and either may be packed (`Content-Encoding: gzip` or `zstd`).\n\n" +
			"**Send a batch again** whenever its outcome is unknown, and after 503. A row is known again, however late, by its `rowId` with `vendor`; without one by vendor, `idType`, `vendorId` " +
			"(or right and anchor), `playedAt` and placement, each as it was sent. It is then a `duplicate`, or counted once where another node took it. " +
			"The same identity with other content is `rejected` with `STATE_CONFLICT`. " +
			"An `Idempotency-Key` only keeps two attempts of one batch apart: rows are judged one by one."})
}

// telemetrySchema is the gate's table of fields with what they mean.
func telemetrySchema() *huma.Schema {
	s := &huma.Schema{
		Type: huma.TypeObject, Properties: map[string]*huma.Schema{}, AdditionalProperties: true,
		Description: "What the device observed. Every field is optional, and further fields are accepted. The gate reads all of them; " +
			"what is kept afterwards is said with each. Of the further fields the gate knows optOut (or optedOut), guardianConsent, profiled, " +
			"bvlos, neuralDataConsent and substrate; none of them is kept.",
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
