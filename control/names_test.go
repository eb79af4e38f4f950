package control_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/control/sandbox"
	"muniment.example/gateway/api"
)

// openMembers are read by their operations, in ways of their own: scopes by package right, telemetry by
// the gate.
var openMembers = []string{"scope", "telemetry"}

// member is a name in a body's schema, with a body that has a value at that place.
type member struct {
	path string // such as shares[0].bps
	body func(name string, value any) any
	name string
	root bool
}

// membersOf lists the members of a schema of the document, at every depth.
func membersOf(t *testing.T, schemas, schema map[string]any, path string, wrap func(any) any) (found []member) {
	if ref, ok := schema["$ref"].(string); ok {
		schema = schemas[strings.TrimPrefix(ref, "#/components/schemas/")].(map[string]any)
	}
	if items, ok := schema["items"].(map[string]any); ok {
		return membersOf(t, schemas, items, path+"[0]", func(v any) any { return wrap([]any{v}) })
	}
	properties, _ := schema["properties"].(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		found = append(found, member{strings.TrimPrefix(path+".", "."), func(name string, value any) any { return wrap(map[string]any{name: value}) }, name, path == ""})
		inner := properties[name].(map[string]any)
		if inner["type"] == nil && inner["$ref"] == nil {
			require.Contains(t, openMembers, name, "a member that anything fits says who reads it")
		}
		found = append(found, membersOf(t, schemas, inner, path+"."+name, func(v any) any { return wrap(map[string]any{name: v}) })...)
	}
	return found
}

// misspellings are a name in other cases, with the separators of other styles, and with each edit of one
// letter.
func misspellings(name string) (list []string) {
	snake := regexp.MustCompile(`[A-Z]`).ReplaceAllStringFunc(name, func(c string) string { return "_" + strings.ToLower(c) })
	list = append(list, strings.ToUpper(name), strings.ToLower(name), strings.ToUpper(name[:1])+name[1:], snake, strings.ReplaceAll(snake, "_", "-"), name+" ", name+"s")
	for i := range name {
		list = append(list, name[:i]+name[i+1:], name[:i]+"x"+name[i+1:], name[:i]+"e"+name[i:])
		if i > 0 {
			list = append(list, name[:i-1]+name[i:i+1]+name[i-1:i]+name[i+1:])
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// TestUnknownMembers misspells every member of every body in the document, and sends bodies to the
// operations that take none: each is refused, and the answer names its path.
func TestUnknownMembers(t *testing.T) {
	h, _, document := openService(t)
	_, key := h.tenant("*")
	cookie, _, _ := strings.Cut(h.call("", "POST", sandbox.Base+"/tenant", "").header.Get("Set-Cookie"), ";")
	schemas := get[map[string]any](t, document, "components", "schemas")
	operationsTried, sent := 0, 0
	for _, o := range operations(t, document) {
		if o.method == "GET" || slices.Contains(edge, o.method+" "+o.path) {
			continue
		}
		body, _ := o.text["requestBody"].(map[string]any)
		var members []member
		if body != nil {
			media, isJSON := get[map[string]any](t, body, "content")["application/json"].(map[string]any)
			if !isJSON || media["schema"].(map[string]any)["$ref"] == "#/components/schemas/Observation" {
				continue // CSV and JSON lines; a delivery, which the gateway reads
			}
			members = membersOf(t, schemas, media["schema"].(map[string]any), "", func(v any) any { return v })
			require.NotEmpty(t, members, "%s %s", o.method, o.path)
		} else {
			members = []member{{name: "reason", root: true, body: func(name string, value any) any { return map[string]any{name: value} }}}
		}
		operationsTried++
		path := regexp.MustCompile(`\{\w+\}`).ReplaceAllString(o.path, "x")
		for _, m := range members {
			known := map[string]bool{}
			for _, other := range members {
				if other.path == m.path {
					known[other.name] = body != nil
				}
			}
			names := slices.DeleteFunc(append(misspellings(m.name), "unknown", "_", "x-"+m.name), func(name string) bool { return known[name] || name == "" })
			if os.Getenv("MUNIMENT_TEST_FULL") == "" {
				rand.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
				names = names[:min(len(names), 4)]
			}
			for _, name := range names {
				text, err := json.Marshal(m.body(name, 1))
				require.NoError(t, err)
				a := h.call(key, o.method, path, string(text), "Cookie", cookie)
				sent++
				where := fmt.Sprintf("%s %s %s: %s", o.method, path, text, a.text)
				require.Equal(t, 422, a.status, where)
				if strings.HasPrefix(o.path, sandbox.Base) || strings.HasPrefix(o.path, "/api/") {
					require.Contains(t, a.text, m.path+name+": is unknown", where)
					continue
				}
				var refused struct {
					Error            api.Code
					ValidationErrors []api.ValidationError
				}
				require.NoError(t, json.Unmarshal([]byte(a.text), &refused))
				require.Equal(t, api.ValidationFailed, refused.Error, where)
				require.Equal(t, m.path+name, refused.ValidationErrors[0].Field, where)
				require.Contains(t, refused.ValidationErrors[0].Message, "is unknown", where)
			}
		}
	}
	require.Greater(t, operationsTried, 50)
	h.call(key, "POST", "/v1/api-keys", `{"label":"x","scopes":null}`).refused(422, api.ValidationFailed)
	h.call(key, "POST", "/v1/offers/x/accept", `[{"dryRun":true}]`).refused(400, api.BadRequest)
	h.call(key, "POST", "/v1/offers/x/accept", `{"dryRun":`).refused(400, api.BadRequest)
	t.Log(operationsTried, "operations,", sent, "bodies")
}

// TestRecordsAreSentBack reads each record that can be replaced, and sends all of it back: unchanged, with
// a change, and with a read-only member that is not as it is stored.
func TestRecordsAreSentBack(t *testing.T) {
	h, _, document := openService(t)
	_, key := h.tenant("*")
	payee := get[string](t, h.call(key, "POST", "/v1/settlement/counterparties", `{"name":"Acme","kind":"PUBLISHER","currency":"EUR"}`).ok(), "counterparty", "id")
	rule := get[string](t, h.call(key, "POST", "/v1/settlement/rules", fmt.Sprintf(
		`{"match":{"substrate":"CTV"},"unit":"EVENT","price":"1","currency":"EUR","shares":[{"counterpartyId":%q,"bps":10000}]}`, payee)).ok(), "rule", "id")
	hook := get[string](t, h.call(key, "POST", "/v1/webhooks", `{"url":"https://receiver.example/","events":["right.*"]}`).ok(), "webhook", "id")
	person := get[string](t, h.call(key, "POST", "/v1/members", `{"email":"ada@example.org","name":"Ada","role":"viewer"}`).ok(), "member", "id")
	issuer := get[string](t, h.call(key, "PUT", "/v1/settlement/issuer", `{"legalName":"Acme AG"}`).ok(), "issuer", "id")
	records := map[string]string{
		"PUT /v1/settlement/issuer":                          issuer,
		"PUT /v1/settlement/counterparties/{counterpartyId}": payee, "PUT /v1/settlement/rules/{ruleId}": rule, "PATCH /v1/webhooks/{webhookId}": hook, "PATCH /v1/members/{memberId}": person,
	}
	for _, o := range operations(t, document) {
		if o.method != "PUT" && o.method != "PATCH" {
			continue
		}
		id := records[o.method+" "+o.path]
		require.NotEmpty(t, id, "%s %s: a record for it", o.method, o.path)
		path := regexp.MustCompile(`\{\w+\}`).ReplaceAllString(o.path, id)
		var stored map[string]any
		for _, record := range h.call(key, "GET", path, "").ok() {
			stored = record.(map[string]any)
		}
		send := func(record map[string]any) answer {
			text, err := json.Marshal(record)
			require.NoError(t, err)
			return h.call(key, o.method, path, string(text))
		}
		send(stored).ok()
		for _, name := range []string{"id", "createdAt", "revision"} {
			altered := maps.Clone(stored)
			altered[name] = "other"
			require.Contains(t, send(altered).refused(422, api.ValidationFailed), fmt.Sprintf(`"field":%q`, name), path)
		}
	}
}
