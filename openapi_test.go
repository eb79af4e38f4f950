package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment/bench"
	"muniment/control/route/routetest"
)

// TestDocumentedOperations is a tenant's first day: it calls every operation of the
// OpenAPI document, and nothing else, through the gateway of a running service, and
// holds what it sends and what it is answered against the document's examples.
// MUNIMENT_UPDATE=1 makes the examples anew.
func TestDocumentedOperations(t *testing.T) {
	t.Parallel()
	h := notStarted(t, filepath.Join(t.TempDir(), "data"), "--sandbox-burst", "1000")
	h.start()
	d := &day{t: t, server: h.server, ids: map[string]string{}, visited: map[string]example{}}
	d.key, d.known = createTenant(t, h.data).APIKey, document(t, d.server)
	require.Contains(t, d.visit("get-docs", "", ""), "<!doctype html>")
	require.Contains(t, d.visit("get-gate-page", "", ""), "<!doctype html>")
	d.visit("get-gate", "", "")
	d.visit("get-openapi", "", "")
	d.visit("get-openapi-3-0", "", "")
	d.visit("get-contract", "", "")
	d.visit("get-health", "", "")
	d.visit("get-key-directory", "", "")

	d.visit("create-api-key", "", `{"label": "fleet west", "scopes": ["delivery:write", "rights:read"]}`)
	d.visit("list-api-keys", "", "")
	d.visit("get-api-key", "", "")
	d.visit("rotate-api-key", "", `{"overlapSeconds": 3600}`)
	d.visit("revoke-api-key", "", "")

	d.visit("create-basis", "", `{"kind": "LICENSE", "title": "Spring campaign", "jurisdiction": "US", "reference": "contract 2026/117",
		"effectiveFrom": "2026-01-01T00:00:00Z"}`)
	d.visit("list-bases", "", "")
	d.visit("get-basis", "", "")
	d.visit("issue-right", "", `{"basisId": "{basisId}", "substrate": "AUTOMOTIVE", "scope": {"campaigns": ["spring"]},
		"effectiveFrom": "2026-01-01T00:00:00Z", "effectiveUntil": "2027-01-01T00:00:00Z"}`)
	d.visit("list-rights", "?substrate=AUTOMOTIVE", "")
	d.visit("get-right", "", "")

	const offer = `{"rightId": "{rightId}", "toOrgId": "org_fleet_east", "scope": {"campaigns": ["spring"], "regions": ["US-NY"]},
		"termsRef": "https://example.com/terms/117"}`
	d.visit("propose-offer", "", offer)
	d.visit("get-offer", "", "")
	d.visit("reject-offer", "", `{"reason": "too small a region"}`)
	d.anew("offerId", "propose-offer", offer)
	d.visit("withdraw-offer", "", `{"reason": "made twice"}`)
	d.anew("offerId", "propose-offer", offer)
	d.anew("offerId", "counter-offer", `{"scope": {"campaigns": ["spring"], "regions": ["US-NY", "US-NJ"]}, "termsRef": "https://example.com/terms/118"}`)
	d.visit("accept-offer", "", "")
	d.visit("list-offers", "?rightId={rightId}", "")

	const challenge = `{"rightId": "{rightId}", "challengerOrgId": "org_fleet_east", "reason": "the campaign is ours since May"}`
	d.visit("open-challenge", "", challenge)
	d.visit("get-challenge", "", "")
	d.visit("withdraw-challenge", "", `{"reason": "settled between us"}`)
	d.anew("challengeId", "open-challenge", challenge)
	d.visit("list-challenges", "?rightId={rightId}", "")
	d.visit("resolve-challenge", "", `{"upheld": false, "resolution": "the contract of June says otherwise"}`)

	const delivery = `{"rightId": "{rightId}", "spatialAnchorId": "dash-1", "spatialPlacementId": "center-display",
		"correlationId": "play-0001", "dwellMs": 8200, "telemetry": {"speedMph": %d, "viewable": true, "appState": "foreground"}}`
	d.visit("observe-delivery", "", fmt.Sprintf(delivery, 0))
	refused := d.ask("observe-delivery", "", fmt.Sprintf(delivery, 65))
	require.Equal(t, 412, refused.status, refused.body)

	d.visit("create-mapping", "", `{"vendor": "broadsign", "idType": "display_unit_id", "vendorId": "20077",
		"target": {"rightId": "{rightId}", "spatialAnchorId": "screen-0042"}, "effectiveFrom": "2026-11-01T00:00:00Z"}`)
	d.visit("import-mappings", "", "vendor,idType,vendorId,rightId,spatialAnchorId,effectiveFrom\nbroadsign,display_unit_id,20078,{rightId},screen-0043,2026-11-01T00:00:00Z\n")
	d.visit("list-mappings", "?vendor=broadsign&idType=display_unit_id&vendorId=20077&rightId={rightId}&state=ACTIVE", "")
	d.visit("retire-mapping", "", "")
	d.hold()
	d.visit("list-held-rows", "?state=HELD", "")
	d.visit("create-beacon", "", fmt.Sprintf(`{"rightId": "{rightId}", "spatialAnchorId": "dash-1", "expiresAt": %q, "maxReceiptsPerHour": 120}`, time.Now().Add(24*time.Hour).UTC().Format(time.RFC3339)))

	d.sealAll()
	d.visit("list-proof-packs", "", "")
	d.visit("get-proof-pack", "", "")
	d.visit("download-proof-pack", "", "")
	d.visit("get-checkpoint", "", "")
	d.visit("prove-consistency", "?from={packId}", "")
	d.visit("get-receipt", "", "")
	d.visit("list-receipts", "?correlationId=play-0001&rightId={rightId}", "")
	d.visit("prove-receipt", "", "")
	d.visit("list-events", "?rightId={rightId}&limit=2", "")
	d.visit("export-events", "", "")
	d.visit("get-metering", "?bucket=day&timeZone=Europe/Berlin", "")

	// A node that stops tells what it has refused, and a seal waits until that is loaded.
	h.stop()
	h.start()
	d.server = h.server
	d.sealAll()
	d.visit("get-refusals", "", "")

	played := time.Now().Add(-time.Hour).UTC().Format(time.RFC3339)
	d.visit("ingest-batch", "", fmt.Sprintf(`{"rows": [
		{"rowId": "play-0002", "rightId": "{rightId}", "spatialAnchorId": "dash-1", "playedAt": %[1]q, "dwellMs": 8200, "multiplier": "2.5", "telemetry": {"speedMph": 0}},
		{"rowId": "play-0002", "rightId": "{rightId}", "spatialAnchorId": "dash-1", "playedAt": %[1]q, "dwellMs": 8200, "multiplier": "2.5", "telemetry": {"speedMph": 0}},
		{"rowId": "play-0003", "rightId": "{rightId}", "spatialAnchorId": "dash-1", "playedAt": %[1]q, "dwellMs": 8200, "telemetry": {"speedMph": 65}}], "vendor": "acme"}`, played))

	d.visit("suspend-right", "", `{"reason": "complaint of the holder"}`)
	d.visit("resume-right", "", `{"reason": "settled"}`)
	d.visit("revoke-right", "", `{"reason": "the campaign is over"}`)
	d.visit("get-right-provenance", "", "")
	d.visit("get-right-propagation", "", "")
	d.visit("get-tenant", "", "")
	d.sandbox()
	d.end()
}

// hold sends a row that no mapping knows.
func (d *day) hold() {
	d.t.Helper()
	a := call(d.t, d.server.API, d.key, operation{method: "POST", path: "/v1/delivery/ingest-batch", body: fmt.Sprintf(
		`{"vendor": "broadsign", "rows": [{"idType": "display_unit_id", "vendorId": "20099", "playedAt": %q, "dwellMs": 8200}]}`, time.Now().UTC().Format(time.RFC3339))})
	require.Equal(d.t, 200, a.status, a.body)
	require.Contains(d.t, a.body, `"status":"unmapped"`)
}

// sandbox is a visit to the sandbox, to all of its operations.
func (d *day) sandbox() {
	clear(d.ids)
	d.visit("sandbox-provision", "", "")
	d.visit("sandbox-get-tenant", "", "")
	d.visit("sandbox-issue-right", "", `{"basisId": "{basisId}", "substrate": "AUDIO", "scope": {"campaigns": ["spring"]}, "effectiveFrom": "2026-01-01T00:00:00Z"}`)
	d.visit("sandbox-suspend-right", "", `{"rightId": "{rightId}", "reason": "complaint of the holder"}`)
	d.visit("sandbox-suspend-right", "", `{"rightId": "{rightId}", "action": "resume"}`)

	const offer = `{"rightId": "{rightId}", "toOrgId": "org_fleet_east", "scope": {"campaigns": ["sandbox"], "regions": ["US-NY"]}}`
	d.visit("sandbox-propose-offer", "", offer)
	d.visit("sandbox-withdraw-offer", "", `{"offerId": "{offerId}", "action": "reject", "reason": "too small a region"}`)
	d.anew("offerId", "sandbox-propose-offer", offer)
	d.anew("offerId", "sandbox-counter-offer", `{"offerId": "{offerId}", "scope": {"campaigns": ["sandbox"], "regions": ["US-NY", "US-NJ"]}}`)
	accepted := d.visit("sandbox-accept-offer", "", `{"offerId": "{offerId}"}`)
	d.ids["derivedId"] = regexp.MustCompile(`"derivedRightId":"(\w+)"`).FindStringSubmatch(accepted)[1]
	d.visit("sandbox-get-provenance", "?rightId={derivedId}", "")

	const challenge = `{"rightId": "{rightId}", "reason": "the campaign is ours since May"}`
	d.visit("sandbox-open-challenge", "", challenge)
	d.visit("sandbox-resolve-challenge", "", `{"challengeId": "{challengeId}", "upheld": false, "resolution": "the contract of June says otherwise"}`)

	d.visit("sandbox-run-demo", "", `{"eventCount": 2, "seed": 7}`)
	d.visit("sandbox-constraint-demo", "", `{"scenario": "automotive-speed"}`)
	d.visit("sandbox-list-proof-packs", "", "")
	d.visit("sandbox-get-proof-pack", "", "")
	d.visit("sandbox-get-runtime-keys", "", "")
	until(d.t, func() bool { return strings.Contains(d.ask("sandbox-inspect", "", "").body, `"pack.sealed"`) }, "all events are loaded")
	d.visit("sandbox-inspect", "", "")
	d.visit("sandbox-revoke-right", "", `{"rightId": "{rightId}", "reason": "the campaign is over"}`)
	d.visit("sandbox-reset", "", "")
}

// example is what was sent and what was answered, where that is JSON.
type example struct {
	Request json.RawMessage `json:"request,omitempty"`
	Answer  json.RawMessage `json:"answer,omitempty"`
}

// documented is an operation as the document has it.
type documented struct {
	operation
	parameters []parameter
	bodyIDs    []string // the members of its body that are named as ids, those of inner objects among them
	shown      example
}

// parameter is one that an operation takes.
type parameter struct {
	Name, In string
	Required bool
}

// document is the OpenAPI document of a service, by the ids of its operations.
func document(t *testing.T, server *bench.Server) map[string]documented {
	t.Helper()
	text := call(t, server.API, "", operation{method: "GET", path: "/openapi.json"})
	require.Equal(t, 200, text.status, "without a key")
	type media struct {
		Required bool
		Content  map[string]struct {
			Example json.RawMessage
			Schema  schema
		}
	}
	var spec struct {
		Paths map[string]map[string]struct {
			OperationID string
			Scope       string `json:"x-required-scope"`
			Parameters  []parameter
			RequestBody media
			Responses   map[string]media
		}
		Components struct{ Schemas map[string]schema }
	}
	require.NoError(t, json.Unmarshal([]byte(text.body), &spec))
	const kind = "application/json"
	known := map[string]documented{}
	for path, item := range spec.Paths {
		for method, o := range item {
			known[o.OperationID] = documented{
				operation{id: o.OperationID, method: strings.ToUpper(method), path: path, scope: o.Scope, bodiless: !o.RequestBody.Required},
				o.Parameters, o.RequestBody.Content[kind].Schema.ids(spec.Components.Schemas),
				example{o.RequestBody.Content[kind].Example, o.Responses["200"].Content[kind].Example},
			}
		}
	}
	return known
}

// named are the statuses that the document names: that of the first service that a test
// asked, as all are one program.
var named struct {
	sync.Mutex
	operations routetest.Operations
}

// checkStatus asks that the document names the status that an operation answered with. It
// passes over what is answered while no service has answered with its document.
func checkStatus(t *testing.T, url, method, target string, status int) {
	t.Helper()
	named.Lock()
	defer named.Unlock()
	if named.operations == nil {
		resp, err := http.Get(url + "/openapi.json")
		if err != nil {
			return
		}
		defer resp.Body.Close()
		if text, err := io.ReadAll(resp.Body); err == nil && resp.StatusCode == 200 {
			named.operations, err = routetest.Documented(text)
			require.NoError(t, err)
		}
	}
	named.operations.Check(t, method, target, status)
}

// schema is as much of a JSON Schema as leads to the names of an object's members.
type schema struct {
	Ref        string `json:"$ref"`
	Properties map[string]schema
	Items      *schema
	AllOf      []schema
}

// ids are the members that are named as ids, in all depths.
func (s schema) ids(known map[string]schema) (names []string) {
	if s.Ref != "" {
		s = known[path.Base(s.Ref)]
	}
	for name, inner := range s.Properties {
		if strings.HasSuffix(name, "Id") || strings.HasSuffix(name, "Ids") {
			names = append(names, name)
		}
		names = append(names, inner.ids(known)...)
	}
	if s.Items != nil {
		names = append(names, s.Items.ids(known)...)
	}
	for _, part := range s.AllOf {
		names = append(names, part.ids(known)...)
	}
	slices.Sort(names)
	return names
}

// day goes through the operations of a document.
type day struct {
	t       *testing.T
	server  *bench.Server
	key     string
	known   map[string]documented
	ids     map[string]string
	visited map[string]example
	cookie  string // of the sandbox
}

// ask calls an operation. Ids come from the answers so far.
func (d *day) ask(id, query, body string) told {
	d.t.Helper()
	o, ok := d.known[id]
	require.True(d.t, ok, "the document has no operation %s", id)
	key := d.key
	if o.scope == "" {
		key = ""
	}
	o.path, o.body = o.path+query, body
	a := call(d.t, d.server.API, key, o.with(d.ids), "Cookie", d.cookie)
	d.cookie = a.cookie(d.cookie)
	return a
}

// ofOurs are ids by the names that paths have for them.
var ofOurs = map[string]*regexp.Regexp{
	"keyId": regexp.MustCompile(`key_\w{26}`), "basisId": regexp.MustCompile(`bas_\w{26}`), "rightId": regexp.MustCompile(`rgh_\w{26}`),
	"challengeId": regexp.MustCompile(`chg_\w{26}`), "offerId": regexp.MustCompile(`ofr_\w{26}`), "packId": regexp.MustCompile(`ppk_\w{26}`), "mappingId": regexp.MustCompile(`map_\w{26}`), "receiptId": regexp.MustCompile(`rcp_\w{26}`),
}

// secret is the part of an API key that an example must not show.
var secret = regexp.MustCompile(`(mun_test_\w{26}_)[0-9A-Za-z]+_[0-9A-Za-z]+`)

// beaconToken is what of a beacon's URL an example must not show; it is long, too.
var beaconToken = regexp.MustCompile(`http[^"]*/beacon/[\w.-]+`)

// visit asks for an answer of 200, and keeps it as an example.
func (d *day) visit(id, query, body string) string {
	d.t.Helper()
	a := d.ask(id, query, body)
	require.Equal(d.t, 200, a.status, "%s: %s", id, a.body)
	var e example
	if strings.HasPrefix(body, "{") {
		e.Request = json.RawMessage(operation{body: body}.with(d.ids).body)
	}
	if a.header.Get("Content-Type") == "application/json" && !strings.HasPrefix(id, "get-openapi") && id != "get-gate" { // documents
		e.Answer = json.RawMessage(secret.ReplaceAllString(strings.TrimSpace(a.body), "${1}"+strings.Repeat("0", 43)+"_000000"))
		e.Answer = beaconToken.ReplaceAll(e.Answer, []byte("https://muniment.example/beacon/eyJ0ZW5hbnRJZCI6InRudF8wMU04.c2lnbmF0dXJl"))
	}
	for name, form := range ofOurs {
		if found := form.FindString(string(e.Answer)); found != "" && d.ids[name] == "" {
			d.ids[name] = found
		}
	}
	d.visited[id] = e
	return a.body
}

// sealAll seals until there is no more, and once again.
func (d *day) sealAll() {
	d.t.Helper()
	body := ""
	for more := true; more; {
		var answer struct {
			Data struct {
				UpTo string
				More bool
			}
		}
		require.NoError(d.t, json.Unmarshal([]byte(d.visit("seal-proof-packs", "", body)), &answer))
		more = answer.Data.More || body == ""
		body = fmt.Sprintf(`{"upTo": %q}`, answer.Data.UpTo)
	}
}

// anew is visit, which makes another record of a name; what follows is about that.
func (d *day) anew(name, id, body string) {
	d.t.Helper()
	d.visit(id, "", body)
	d.ids[name] = ofOurs[name].FindString(string(d.visited[id].Answer))
}

// end asks that nothing was left out, and that the examples are of this service.
func (d *day) end() {
	for id := range d.known {
		require.Contains(d.t, d.visited, id, "an operation was not called")
	}
	if os.Getenv("MUNIMENT_UPDATE") != "" {
		text, err := json.MarshalIndent(d.visited, "", " ")
		require.NoError(d.t, err)
		require.NoError(d.t, os.WriteFile("control/page/examples.json", append(text, '\n'), 0o644))
		return
	}
	for id, now := range d.visited {
		const about = "%s: the example is of another service; MUNIMENT_UPDATE=1 makes it anew"
		require.Equal(d.t, shape(d.t, now.Request), shape(d.t, d.known[id].shown.Request), about, id)
		require.Equal(d.t, shape(d.t, now.Answer), shape(d.t, d.known[id].shown.Answer), about, id)
	}
}

// shape lists the members of a JSON text with the kinds of their values.
func shape(t *testing.T, text json.RawMessage) (lines []string) {
	if len(text) == 0 {
		return nil
	}
	var value any
	require.NoError(t, json.Unmarshal(text, &value))
	var walk func(at string, v any)
	walk = func(at string, v any) {
		lines = append(lines, fmt.Sprintf("%s %T", at, v))
		switch v := v.(type) {
		case map[string]any:
			for name, inner := range v {
				walk(at+"."+name, inner)
			}
		case []any:
			for _, inner := range v {
				walk(at+"[]", inner)
			}
		}
	}
	walk("", value)
	slices.Sort(lines)
	return slices.Compact(lines)
}
