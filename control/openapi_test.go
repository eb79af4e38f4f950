package control_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/danielgtaylor/huma/v2"
	"github.com/stretchr/testify/require"

	"muniment.example/control"
	"muniment.example/control/access"
	"muniment.example/control/event"
	"muniment.example/control/mailer"
	"muniment.example/control/meter"
	page "muniment.example/control/playground"
	"muniment.example/control/proof"
	"muniment.example/control/route"
	"muniment.example/control/sandbox"
	"muniment.example/gate"
	"muniment.example/gateway/api"
	"muniment.example/gateway/auth"
)

// registrar sees what the API has registered.
type registrar struct{ api *huma.OpenAPI }

func (r *registrar) Routes(a route.API) { r.api = a.OpenAPI() }

// openService has every service that the service mounts, and the document that it serves.
func openService(t *testing.T) (h *fixture, registered *huma.OpenAPI, document map[string]any) {
	h = newFixture(t)
	var r registrar
	cfg := h.config()
	unlimited := sandbox.Limits{Burst: 1_000_000, Sustained: 1_000_000}
	// Without the service of trouble, and without requests to the two services on a warehouse.
	visitors, err := sandbox.New(t.Context(), sandbox.Config{
		DB: h.db, Tables: control.Tables, Keys: h.keys, Deliver: noDelivery, Call: func(ctx context.Context, caller auth.Principal, method, target string, body []byte) (int, []byte, error) {
			return h.control().Call(ctx, caller, method, target, body)
		}, Limits: unlimited,
	})
	require.NoError(t, err)
	strangers, err := access.New(access.Config{DB: h.db, Limits: unlimited, PublicURL: "https://muniment.example", Mails: &mailer.Mails{Outbox: t.TempDir()}, Failed: func(_ string, _ bool, err error) error { return err }})
	require.NoError(t, err)
	watched, err := page.New(page.Config{Visitors: visitors, Feed: page.NewFeed()})
	require.NoError(t, err)
	cfg.Packs, cfg.Sandbox = &proof.Service{}, visitors
	cfg.Services = append(slices.Clone(h.services[:len(h.services)-1]), &meter.Service{}, cfg.Packs, &event.Service{}, visitors, watched, strangers, &r)
	h.made, err = control.New(cfg)
	require.NoError(t, err)
	served := h.call("", "GET", "/openapi.json", "")
	require.Equal(t, 200, served.status, "without a key")
	require.Equal(t, "application/json", served.header.Get("Content-Type"))
	require.NoError(t, json.Unmarshal([]byte(served.text), &document))
	return h, r.api, document
}

// op is an operation of the document.
type op struct {
	method, path string
	text         map[string]any
}

func operations(t *testing.T, document map[string]any) (list []op) {
	for path, item := range get[map[string]any](t, document, "paths") {
		for method, text := range item.(map[string]any) {
			list = append(list, op{strings.ToUpper(method), path, text.(map[string]any)})
		}
	}
	slices.SortFunc(list, func(a, b op) int { return strings.Compare(a.path+" "+a.method, b.path+" "+b.method) })
	return list
}

// edge is what the gateway answers itself: control has no such routes.
var edge = []string{"GET /v1", "GET /v1/healthz", "POST /v1/delivery", "POST /v1/delivery/ingest-batch"}

func TestDocumentHasEveryRoute(t *testing.T) {
	h, registered, document := openService(t)
	require.Equal(t, "3.1.0", document["openapi"])
	var listed []string
	for _, o := range operations(t, document) {
		route := o.method + " " + o.path
		listed = append(listed, route)
		if slices.Contains(edge, route) {
			continue
		}
		status := h.call("", o.method, regexp.MustCompile(`\{\w+\}`).ReplaceAllString(o.path, "x"), "").status
		served := []int{200, 401}
		if sandbox.Owns(o.path) && len(o.text["security"].([]any)) == 1 {
			served = []int{404} // NO_TENANT
		}
		if strings.HasPrefix(o.path, access.Base+"/") {
			served = []int{400} // no body
		}
		if route == "GET /downloads/{token}" {
			served = []int{404} // no such link: the root's test downloads
		}
		require.Contains(t, served, status, "%s is not served", route)
	}
	for path, item := range registered.Paths {
		for method, there := range map[string]*huma.Operation{"GET": item.Get, "POST": item.Post, "PUT": item.Put, "PATCH": item.Patch, "DELETE": item.Delete} {
			if there != nil {
				require.Contains(t, listed, method+" "+path)
			}
		}
	}
	for _, route := range append(slices.Clone(edge), "GET /v1/tenant", "POST /v1/rights", "POST /v1/offers", "POST /v1/challenges", "GET /v1/events", "GET /v1/metering",
		"GET /api/sandbox/tenant", "POST /api/sandbox/tenant", "POST /api/access/apply", "POST /api/access/confirm", "POST /api/access/activate", "GET /v1/metering/refusals", "POST /v1/proof-packs/seal", "GET /.well-known/muniment/keys.json", "GET /openapi.json", "GET /docs") {
		require.Contains(t, listed, route)
	}
	require.NotContains(t, strings.Join(listed, "\n"), "/admin/", "operators have a listener of their own")
}

// TestDocumentNamesTheScope sends each operation a key with another scope.
func TestDocumentNamesTheScope(t *testing.T) {
	h, _, document := openService(t)
	_, narrow := h.tenant(api.DisputesRead.String())
	_, narrower := h.tenant(api.SettlementRead.String())
	for _, o := range operations(t, document) {
		route := o.method + " " + o.path
		security := o.text["security"].([]any)
		scope, scoped := o.text["x-required-scope"].(string)
		if sandbox.Enveloped(o.path) {
			require.False(t, scoped, "%s: visitors have no key", route)
			continue
		}
		if !scoped {
			require.Empty(t, security, route)
			continue
		}
		require.Equal(t, []any{map[string]any{"bearer": []any{scope}}}, security, route)
		_, err := api.ParseScopes([]string{scope})
		require.NoError(t, err, route)
		if slices.Contains(edge, route) {
			continue
		}
		key := narrow
		if scope == api.DisputesRead.String() {
			key = narrower
		}
		refused := h.call(key, o.method, regexp.MustCompile(`\{\w+\}`).ReplaceAllString(o.path, "x"), "")
		require.Equal(t, 403, refused.status, route)
		require.Contains(t, refused.text, fmt.Sprintf(`"requiredScopes":[%q]`, scope), route)
	}
}

// TestScopesAreTheContracts holds what the document declares against the contract's
// list. An operation that is new has to be put there.
func TestScopesAreTheContracts(t *testing.T) {
	_, _, document := openService(t)
	contract := map[string][]string{
		"": {"GET /downloads/{token}", "GET /.well-known/muniment/keys.json", "GET /docs", "GET /docs/gate", "GET /gate.json", "GET /openapi.json", "GET /openapi-3.0.json", "GET /playground", "GET /v1", "GET /v1/healthz"},
		"rights:read": {
			"GET /v1/tenant", "GET /v1/bases", "GET /v1/bases/{basisId}", "GET /v1/rights", "GET /v1/rights/{rightId}",
			"GET /v1/rights/{rightId}/provenance", "GET /v1/rights/{rightId}/propagation",
		},
		"rights:write": {
			"POST /v1/bases", "POST /v1/rights", "POST /v1/rights/{rightId}/suspend", "POST /v1/rights/{rightId}/resume", "POST /v1/rights/{rightId}/revoke",
		},
		"offers:read": {"GET /v1/offers", "GET /v1/offers/{offerId}"},
		"offers:write": {
			"POST /v1/offers", "POST /v1/offers/{offerId}/counter", "POST /v1/offers/{offerId}/accept", "POST /v1/offers/{offerId}/withdraw",
			"POST /v1/offers/{offerId}/reject",
		},
		"challenges:read":  {"GET /v1/challenges", "GET /v1/challenges/{challengeId}"},
		"challenges:write": {"POST /v1/challenges", "POST /v1/challenges/{challengeId}/resolve", "POST /v1/challenges/{challengeId}/withdraw"},
		"disputes:read":    {"GET /v1/disputes", "GET /v1/disputes/{disputeId}"},
		"disputes:write": {
			"POST /v1/disputes", "POST /v1/disputes/{disputeId}/investigate", "POST /v1/disputes/{disputeId}/respond", "POST /v1/disputes/{disputeId}/resolve",
		},
		"delivery:write": {
			"POST /v1/delivery", "POST /v1/delivery/beacons", "POST /v1/delivery/ingest-batch", "GET /v1/delivery/mappings", "POST /v1/delivery/mappings",
			"DELETE /v1/delivery/mappings/{mappingId}", "POST /v1/delivery/mappings/import", "GET /v1/delivery/held", "GET /v1/delivery/rejected", "POST /v1/delivery/rejected/dismiss",
		},
		"audit:read": {
			"GET /v1/receipts", "GET /v1/receipts/{receiptId}", "GET /v1/receipts/{receiptId}/proof", "GET /v1/events", "GET /v1/events/export", "GET /v1/proof-packs",
			"POST /v1/compliance/dsar", "GET /v1/compliance/dsar", "GET /v1/compliance/dsar/{jobId}", "POST /v1/compliance/dsar/{jobId}/cancel", "POST /v1/compliance/dsar/{jobId}/run", "GET /v1/compliance/dsar/{jobId}/bundle",
			"GET /v1/proof-packs/checkpoint", "GET /v1/proof-packs/{packId}", "GET /v1/proof-packs/{packId}/bundle", "GET /v1/proof-packs/{packId}/consistency",
		},
		"*":             {"POST /v1/compliance/erase", "GET /v1/compliance/erasures", "GET /v1/compliance/erasures/{erasureId}"},
		"proof:write":   {"POST /v1/proof-packs/seal"},
		"metering:read": {"GET /v1/metering", "GET /v1/metering/refusals"},
		"settlement:read": {
			"GET /v1/settlement", "GET /v1/settlement/reconciliation", "POST /v1/settlement/rules/dry-run", "GET /v1/settlement/statements", "GET /v1/settlement/statements/{statementId}", "GET /v1/settlement/statements/{statementId}/receipts",
			"GET /v1/settlement/issuer", "GET /v1/settlement/payables", "GET /v1/settlement/payables/{payableId}", "GET /v1/settlement/payouts", "GET /v1/settlement/payee-links",
			"GET /v1/settlement/counterparties", "GET /v1/settlement/counterparties/{counterpartyId}", "GET /v1/settlement/rules", "GET /v1/settlement/rules/{ruleId}",
		},
		"settlement:write": {
			"DELETE /v1/settlement/statements/{statementId}", "PUT /v1/settlement/issuer", "POST /v1/settlement/payee-links", "DELETE /v1/settlement/payee-links/{payeeLinkId}",
			"POST /v1/settlement/counterparties", "PUT /v1/settlement/counterparties/{counterpartyId}", "DELETE /v1/settlement/counterparties/{counterpartyId}",
			"POST /v1/settlement/statements", "POST /v1/settlement/statements/{statementId}/issue", "POST /v1/settlement/statements/{statementId}/correct", "POST /v1/settlement/statements/{statementId}/void", "POST /v1/settlement/statements/{statementId}/settle",
			"POST /v1/settlement/rules", "PUT /v1/settlement/rules/{ruleId}", "DELETE /v1/settlement/rules/{ruleId}",
		},
		"webhooks:read": {"GET /v1/webhooks", "GET /v1/webhooks/{webhookId}", "GET /v1/webhooks/{webhookId}/deliveries"},
		"webhooks:write": {"POST /v1/webhooks", "PATCH /v1/webhooks/{webhookId}", "DELETE /v1/webhooks/{webhookId}", "POST /v1/webhooks/{webhookId}/rotate-secret",
			"POST /v1/webhooks/{webhookId}/test", "POST /v1/webhooks/{webhookId}/recover", "POST /v1/webhooks/{webhookId}/deliveries/{deliveryId}/resend"},
		"keys:write": {
			"GET /v1/api-keys", "POST /v1/api-keys", "GET /v1/api-keys/{keyId}", "DELETE /v1/api-keys/{keyId}", "POST /v1/api-keys/{keyId}/rotate", "GET /v1/requests",
			"GET /v1/members", "POST /v1/members", "GET /v1/members/{memberId}", "PATCH /v1/members/{memberId}", "DELETE /v1/members/{memberId}",
		},
	}
	declared := map[string][]string{}
	for _, o := range operations(t, document) {
		if sandbox.Enveloped(o.path) {
			continue // a cookie opens those
		}
		scope, _ := o.text["x-required-scope"].(string)
		declared[scope] = append(declared[scope], o.method+" "+o.path)
	}
	for scope := range declared {
		require.ElementsMatch(t, contract[scope], declared[scope], scope)
	}
	require.Len(t, declared, len(contract))
}

func TestDocumentIsWhole(t *testing.T) {
	_, _, document := openService(t)
	v := validator{t, get[map[string]any](t, document, "components", "schemas")}
	seen := map[string]bool{}
	tags := map[string]bool{}
	for _, tag := range document["tags"].([]any) {
		require.NotEmpty(t, tag.(map[string]any)["description"])
		tags[tag.(map[string]any)["name"].(string)] = true
	}
	for _, o := range operations(t, document) {
		route := o.method + " " + o.path
		id := o.text["operationId"].(string)
		require.False(t, seen[id], "two operations %s", id)
		seen[id] = true
		require.NotEmpty(t, o.text["summary"], route)
		require.NotEmpty(t, o.text["tags"], route)
		for _, tag := range o.text["tags"].([]any) {
			require.True(t, tags[tag.(string)], "%s: tag %s", route, tag)
		}
		parameters, _ := o.text["parameters"].([]any)
		for _, p := range parameters {
			require.NotEmpty(t, p.(map[string]any)["description"], "%s: parameter %s", route, p.(map[string]any)["name"])
		}
		if body, ok := o.text["requestBody"].(map[string]any); ok {
			v.illustrated(body, route+": body")
		}
		responses := o.text["responses"].(map[string]any)
		if !strings.HasPrefix(o.path, "/openapi") && o.path != "/gate.json" { // a document is its own example
			v.illustrated(responses["200"].(map[string]any), route+": answer")
		}
		require.NotContains(t, responses, "default", route)
	}

	// What is said of a member wherever it is must be true of the type that it is in.
	about := map[string]string{
		"page": `List$|Receipts$|Metering|Refusals|Settlement`, "basis": `(?i)basis|right|metering|delivery`,
		"key": `Key|Tenant|Receipt|Pack|Error`, "rule": `Refusal|Violation|Rule`, "limit": `Violation`,
	}
	notInNames := regexp.MustCompile(`[^A-Za-z0-9]`)
	unique := func(of string, names ...string) { // generators of clients make one name of apiKey, ApiKey and api-key
		spelt := map[string]string{}
		for _, name := range names {
			one := strings.ToLower(notInNames.ReplaceAllString(name, ""))
			require.Empty(t, spelt[one], "%s: %s", of, name)
			spelt[one] = name
		}
	}
	for of, schema := range v.schemas {
		require.Regexp(t, `^[A-Z][A-Za-z]+$`, of, "a schema is called by a noun of the API")
		require.NotRegexp(t, `Body|Input|Answer|View`, of)
		properties, _ := schema.(map[string]any)["properties"].(map[string]any)
		unique(of, slices.Collect(maps.Keys(properties))...)
		for name, p := range properties {
			said := p.(map[string]any)["description"]
			if p.(map[string]any)["$ref"] == nil {
				require.NotEmpty(t, said, "%s.%s", of, name)
			}
			if said == nil || said != control.Glossary[name] {
				continue
			}
			for noun, types := range about {
				if regexp.MustCompile(`\b`+noun+`\b`).MatchString(said.(string)) && !strings.Contains(strings.ToLower(name), noun) {
					require.Regexp(t, types, of, "%s: %s", name, said)
				}
			}
		}
	}

	unique("operations", slices.Collect(maps.Keys(seen))...)
	unique("components", slices.AppendSeq(slices.Collect(maps.Keys(v.schemas)), maps.Keys(get[map[string]any](t, document, "components", "securitySchemes")))...)

	// Every reference leads somewhere.
	text, err := json.Marshal(document)
	require.NoError(t, err)
	require.NotContains(t, string(text), "contentEncoding", "bytes are described by what they hold")
	require.NotContains(t, string(text), route.Form, "it is the pattern")
	references := regexp.MustCompile(`"\$ref":"#/([^"]+)"`).FindAllSubmatch(text, -1)
	require.NotEmpty(t, references)
	for _, r := range references {
		var at any = document
		for step := range strings.SplitSeq(string(r[1]), "/") {
			require.Contains(t, at, step, "%s", r[1])
			at = at.(map[string]any)[step]
		}
	}
}

// TestOlderDocument: OpenAPI 3.0 has the same operations and names, in its own words for null and
// scopes.
func TestOlderDocument(t *testing.T) {
	h, _, document := openService(t)
	served := h.call("", "GET", "/openapi-3.0.json", "")
	require.Equal(t, 200, served.status, "without a key")
	var older map[string]any
	require.NoError(t, json.Unmarshal([]byte(served.text), &older))
	require.Equal(t, "3.0.3", older["openapi"])
	names := func(of map[string]any, kind string) []string {
		return slices.Sorted(maps.Keys(get[map[string]any](t, of, "components", kind)))
	}
	for _, kind := range []string{"schemas", "responses", "headers", "securitySchemes"} {
		require.Equal(t, names(document, kind), names(older, kind))
	}
	of := operations(t, document)
	for i, o := range operations(t, older) {
		require.Equal(t, of[i].text["operationId"], o.text["operationId"])
		require.Equal(t, slices.Sorted(maps.Keys(of[i].text["responses"].(map[string]any))), slices.Sorted(maps.Keys(o.text["responses"].(map[string]any))))
		if scope := of[i].text["x-required-scope"]; scope != nil {
			require.Equal(t, scope, o.text["x-required-scope"])
			require.Equal(t, []any{map[string]any{"bearer": []any{}}}, o.text["security"])
		}
	}
	holder := get[map[string]any](t, older, "components", "schemas", "NewRight", "properties", "holderOrgId")
	require.Equal(t, "string", holder["type"])
	require.Equal(t, true, holder["nullable"])
}

// TestDocumentTellsRefusals holds the envelopes against the contract's closed list.
func TestDocumentTellsRefusals(t *testing.T) {
	_, registered, document := openService(t)
	v := validator{t, get[map[string]any](t, document, "components", "schemas")}
	responses := get[map[string]any](t, document, "components", "responses")
	for path, item := range registered.Paths {
		for _, op := range []*huma.Operation{item.Get, item.Post, item.Put, item.Patch, item.Delete} {
			if op == nil || route.Of(op).Hidden {
				continue
			}
			for _, status := range route.Of(op).Errors {
				require.Contains(t, get[map[string]any](t, document, "paths", path, strings.ToLower(op.Method), "responses"), strconv.Itoa(status), path)
			}
		}
	}
	documented := map[string]bool{}
	used := map[string]bool{}
	for _, o := range operations(t, document) {
		for status, response := range o.text["responses"].(map[string]any) {
			n, err := strconv.Atoi(status)
			if err != nil || n < 400 {
				continue
			}
			name := strings.TrimPrefix(response.(map[string]any)["$ref"].(string), "#/components/responses/")
			used[name] = true
			media := get[map[string]any](t, responses, name, "content", "application/json")
			schema := media["schema"].(map[string]any)
			of := "Error"
			if strings.HasPrefix(name, "Sandbox") {
				of = "SandboxError"
			}
			require.Equal(t, map[string]any{"$ref": "#/components/schemas/" + of}, schema, name)
			codes := get[[]any](t, responses, name, "x-error-codes")
			require.Contains(t, codes, media["example"].(map[string]any)["error"], name)
			for _, code := range codes {
				if strings.HasPrefix(name, "Sandbox") {
					documented["sandbox "+code.(string)] = true
					require.True(t, sandbox.Enveloped(o.path), "%s has an answer of the sandbox", o.path)
					continue
				}
				documented[code.(string)] = true
				if n != 408 && n != 413 && n != 415 && n != 431 && n != 503 {
					require.Equal(t, n, api.Code(code.(string)).Status(), name)
				}
			}
			v.check(schema, media["example"], name)
		}
	}
	require.Len(t, used, len(responses), "every answer is used")
	for _, code := range api.Codes() {
		require.True(t, documented[string(code)], "no answer has the code %s", code)
	}
	for _, code := range sandbox.Codes() {
		require.True(t, documented["sandbox "+string(code)], "no answer of the sandbox has the code %s", code)
	}
	for _, o := range operations(t, document) {
		require.Contains(t, o.text["responses"], "431", o.path)
	}
	for _, path := range []string{"/v1/rights", "/v1/offers", "/v1/challenges", "/v1/disputes"} {
		require.Contains(t, get[map[string]any](t, document, "paths", path, "post", "responses"), "404", "%s takes ids", path)
	}
	// The contract's list of POST /v1/delivery.
	delivery := get[map[string]any](t, document, "paths", "/v1/delivery", "post", "responses")
	for _, status := range []string{"200", "401", "403", "404", "409", "412", "422", "429", "503"} {
		require.Contains(t, delivery, status)
	}
}

// TestDocumentTellsNull: what may be null, in answers and in bodies.
func TestDocumentTellsNull(t *testing.T) {
	_, _, document := openService(t)
	schemas := get[map[string]any](t, document, "components", "schemas")
	require.Equal(t, []any{"object", "null"}, get[[]any](t, schemas, "SealedLeaf", "type"))
	holder := get[map[string]any](t, schemas, "NewRight", "properties")
	require.Equal(t, []any{"string", "null"}, get[[]any](t, holder, "holderOrgId", "type"), "optional")
	require.Equal(t, "string", get[string](t, holder, "basisId", "type"), "required")
	action := get[map[string]any](t, schemas, "SandboxRightSuspension", "properties", "action")
	require.Equal(t, []any{"suspend", "resume", nil}, action["enum"])
}

func TestDocumentHasTheTelemetryTable(t *testing.T) {
	_, _, document := openService(t)
	properties := get[map[string]any](t, document, "components", "schemas", "Telemetry", "properties")
	var names []string
	for _, f := range gate.Fields() {
		names = append(names, f.Name)
		p := get[map[string]any](t, properties, f.Name)
		require.Regexp(t, `^[A-Z].*\. Kept .*\.$`, p["description"], f.Name)
		require.Equal(t, f.Type == "number", p["maximum"] != nil, f.Name)
		require.Equal(t, f.Nullable, slices.Contains(optional(p["type"]), any("null")), "%s: null is refused but where it means something", f.Name)
		require.Len(t, optional(p["enum"]), len(f.Values), f.Name)
	}
	require.ElementsMatch(t, names, slices.Collect(maps.Keys(properties)))
}

func optional(list any) []any {
	some, _ := list.([]any)
	return some
}
