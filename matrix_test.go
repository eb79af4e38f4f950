package main

import (
	"fmt"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment/bench/system"
	"muniment/gateway/api"
)

// owner is a tenant that has one of every resource.
type owner struct {
	client system.Client
	ids    map[string]string
}

// settleIn makes a tenant with a key of all scopes, the wildcard among them, and one
// of every resource.
func settleIn(t *testing.T, server *system.Server) owner {
	t.Helper()
	tenant := createTenant(t, server.Data, "--scope", "*")
	o := owner{system.Client{API: server.API, Key: tenant.APIKey}, map[string]string{"keyId": tenant.KeyID}}
	do := func(method, path string, body, data any) {
		require.NoError(t, o.client.Do(t.Context(), method, path, body, data))
	}
	var made struct {
		Basis, Right, Offer, Challenge, Dispute, Mapping, Webhook, Job, Counterparty, Rule, Statement struct{ ID string }
		Receipt                                                                                       struct{ ReceiptID string }
		Pack                                                                                          struct{ PackID string }
	}
	do("POST", "/v1/bases", map[string]any{"kind": "LICENSE", "title": "x"}, &made)
	o.ids["basisId"] = made.Basis.ID
	do("POST", "/v1/rights", map[string]any{
		"basisId": made.Basis.ID, "substrate": "CTV", "scope": map[string]any{}, "effectiveFrom": "2026-01-01T00:00:00Z",
	}, &made)
	o.ids["rightId"] = made.Right.ID
	do("POST", "/v1/offers", map[string]any{"rightId": made.Right.ID, "toOrgId": "org_b", "scope": map[string]any{}}, &made)
	o.ids["offerId"] = made.Offer.ID
	do("POST", "/v1/challenges", map[string]any{"rightId": made.Right.ID, "challengerOrgId": "org_c", "reason": "x"}, &made)
	o.ids["challengeId"] = made.Challenge.ID
	do("POST", "/v1/disputes", map[string]any{
		"rightId": made.Right.ID, "window": map[string]any{"from": "2026-11-01", "to": "2026-12-01"}, "reason": "x",
	}, &made)
	o.ids["disputeId"] = made.Dispute.ID
	do("POST", "/v1/delivery/mappings", map[string]any{"vendor": "v", "idType": "t", "vendorId": made.Right.ID, "effectiveFrom": "2026-01-01",
		"target": map[string]any{"rightId": made.Right.ID, "spatialAnchorId": "a"}}, &made)
	o.ids["mappingId"] = made.Mapping.ID
	do("POST", "/v1/settlement/counterparties", map[string]any{"name": "x", "kind": "OTHER", "currency": "EUR"}, &made)
	o.ids["counterpartyId"] = made.Counterparty.ID
	do("POST", "/v1/settlement/rules", map[string]any{"match": map[string]any{"rightId": made.Right.ID}, "unit": "EVENT", "price": "1", "currency": "EUR",
		"shares": []any{map[string]any{"counterpartyId": made.Counterparty.ID, "bps": 10_000}}}, &made)
	o.ids["ruleId"] = made.Rule.ID
	do("POST", "/v1/webhooks", map[string]any{"url": "https://receiver.example/x", "events": []string{"offer.accepted"}}, &made)
	o.ids["webhookId"] = made.Webhook.ID
	do("POST", "/v1/compliance/dsar", map[string]any{"scope": map[string]any{"kind": "TENANT_FULL"}}, &made)
	o.ids["jobId"] = made.Job.ID
	var tested struct{ Delivery struct{ ID string } }
	do("POST", "/v1/webhooks/"+made.Webhook.ID+"/test", nil, &tested)
	o.ids["deliveryId"] = tested.Delivery.ID
	do("POST", "/v1/delivery", map[string]any{"rightId": made.Right.ID, "spatialAnchorId": "a", "dwellMs": 1500}, &made)
	o.ids["receiptId"] = made.Receipt.ReceiptID
	o.ids["erasureId"] = erased(t, server, tenant.APIKey, "nobody").ID
	do("POST", "/v1/proof-packs/seal", nil, &made)
	o.ids["packId"] = made.Pack.PackID
	do("POST", "/v1/settlement/statements", map[string]any{"from": "2026-01-01", "to": "2026-02-01", "currency": "EUR"}, &made)
	o.ids["statementId"] = made.Statement.ID
	for name, of := range resources {
		o.ids[name] = o.ids[of[0]]
	}
	for name, id := range o.ids {
		require.NotEmpty(t, id, name)
	}
	return o
}

// TestForeignResources requests everything that one tenant has with the key of
// another. Every answer has the status, headers and bytes of that for an unknown id.
func TestForeignResources(t *testing.T) { foreignResources(t, shared(t)) }

// position is what an answer says of how far the log is loaded, which goes on meanwhile.
var position = regexp.MustCompile(`"asOf":"[^"]*"`)

func foreignResources(t *testing.T, s *service) {
	server := s.server
	victim, stranger := settleIn(t, server), settleIn(t, server)
	state := func() (all []response) {
		for _, path := range []string{"/v1/rights/{rightId}", "/v1/offers/{offerId}", "/v1/challenges/{challengeId}", "/v1/disputes/{disputeId}", "/v1/settlement/statements/{statementId}", "/v1/api-keys/{keyId}"} {
			all = append(all, call(t, server.API, victim.client.Key, operation{method: "GET", path: path}.with(victim.ids)))
		}
		return all
	}
	before := state()

	try := func(o operation, name, id string) response {
		return call(t, server.API, stranger.client.Key, o.with(map[string]string{name: id}).with(stranger.ids))
	}
	requests := 0
	for _, o := range operations(t, server) {
		about := o.method + " " + o.path
		for _, name := range o.names() {
			for _, kind := range resources[name] {
				theirs := victim.ids[kind]
				foreign := try(o, name, theirs)
				switch {
				case o.id == "ingest-batch": // each of its rows is refused by itself
					require.Contains(t, foreign.body, `"error":{"error":"RESOURCE_NOT_FOUND"`, about)
				case o.amongFaults(name):
					foreign.refused(t, 422, api.ValidationFailed, about)
					require.Regexp(t, `"field":"[\w.\[\]]*`+name+`"`, foreign.body, about)
				default:
					foreign.refused(t, 404, api.ResourceNotFound, about)
				}
				require.Equal(t, try(o, name, unknown(theirs)), foreign, about)
				// Nor does the time differ, as far as that can be measured: the fastest of a hundred are of
				// one order. A right that the node has met before is spared one look-up.
				var fastest [2]time.Duration
				alike := func() bool { return max(fastest[0], fastest[1]) < 3*min(fastest[0], fastest[1]) }
				for round := 0; round < 5 || round < 100 && !alike(); round++ {
					for i, id := range []string{theirs, unknown(theirs)} {
						began := time.Now()
						try(o, name, id)
						if took := time.Since(began); fastest[i] == 0 || took < fastest[i] {
							fastest[i] = took
						}
					}
				}
				require.True(t, alike(), "%s: %v", about, fastest)
				requests++
			}
		}
		if len(o.names()) == 0 && o.method == "GET" {
			list := call(t, server.API, stranger.client.Key, o)
			require.Equal(t, 200, list.status, o.path)
			for _, id := range victim.ids {
				require.NotContains(t, list.body, id, o.path)
			}
		}
		// A list has nothing of what belongs to a foreign resource, as to an unknown one.
		for _, name := range o.filters {
			narrow := o
			narrow.path += "?" + name + "={" + name + "}"
			for _, kind := range resources[name] {
				foreign, none := try(narrow, name, victim.ids[kind]), try(narrow, name, unknown(victim.ids[kind]))
				require.Equal(t, 200, foreign.status, "%s: %s", narrow.path, foreign.body)
				none.body, foreign.body = position.ReplaceAllString(none.body, ""), position.ReplaceAllString(foreign.body, "")
				require.Equal(t, none, foreign, narrow.path)
				requests++
			}
		}
	}
	t.Logf("%d references, each to a foreign and to an unknown id", requests)

	require.Equal(t, before, state(), "nothing has happened to what is the victim's")
	var metering struct{ Totals struct{ Receipts int } }
	require.NoError(t, victim.client.Do(t.Context(), "GET", "/v1/metering", nil, &metering))
	require.Equal(t, 1, metering.Totals.Receipts)
}

// TestForeignResourcesOfTheSandbox requests with one visitor's cookie everything that
// another has, and that a tenant with a key has.
func TestForeignResourcesOfTheSandbox(t *testing.T) {
	t.Parallel()
	foreignInSandbox(t, shared(t))
}

func foreignInSandbox(t *testing.T, s *service) {
	server := s.server
	all := map[string]operation{}
	for _, o := range operationsOf(t, server, true) {
		all[o.id] = o
	}
	settle := func() (cookie string, ids map[string]string) {
		ids = map[string]string{}
		for _, id := range []string{"sandbox-provision", "sandbox-inspect", "sandbox-propose-offer", "sandbox-open-challenge", "sandbox-run-demo"} {
			try := func() response {
				return call(t, server.API, "", all[id].with(ids), "Cookie", cookie, "X-Forwarded-For", anyAddress())
			}
			a := try()
			for i := 0; i < loadTries && notLoaded(a); i++ {
				a = try()
			}
			require.Equal(t, 200, a.status, "%s: %s", id, a.body)
			cookie = a.cookie(cookie)
			for name, form := range ofOurs {
				if found := form.FindString(a.body); found != "" && ids[name] == "" {
					ids[name] = found
				}
			}
		}
		ids["parentRightId"] = ids["rightId"]
		return cookie, ids
	}
	cookie, own := settle()
	_, visitors := settle()
	tenants := settleIn(t, server).ids
	requests := 0
	for _, o := range all {
		about := o.method + " " + o.path
		for _, name := range o.names() {
			require.Contains(t, own, name, about)
			for _, theirs := range []string{visitors[name], tenants[name]} {
				try := func(id string) response {
					return call(t, server.API, "", o.with(map[string]string{name: id}).with(own), "Cookie", cookie, "X-Forwarded-For", anyAddress())
				}
				foreign, none := try(theirs), try(unknown(theirs))
				require.Equal(t, 404, foreign.status, "%s: %s", about, foreign.body)
				require.Equal(t, none, foreign, about)
				requests++
			}
		}
	}
	t.Logf("%d references of %d operations, each to a foreign and to an unknown id", requests, len(all))
}

// TestScopeMatrix calls every operation with keys of each scope alone, of all scopes but
// one, and of the wildcard. A key without any scope can't be made. What the document
// declares decides, and nothing else does.
func TestScopeMatrix(t *testing.T) {
	t.Parallel()
	scopeMatrix(t, shared(t))
}

func scopeMatrix(t *testing.T, s *service) {
	server := s.server
	tenant := settleIn(t, server)
	nothing := map[string]string{}
	for name, id := range tenant.ids {
		nothing[name] = unknown(id) // so that no operation does anything
	}
	public, scoped := []string{}, []operation{}
	for _, o := range operations(t, server) {
		if o.scope == "" {
			public = append(public, o.path)
			continue
		}
		o = o.with(nothing)
		require.Empty(t, o.names(), "%s %s", o.method, o.path)
		scoped = append(scoped, o)
	}
	require.ElementsMatch(t, open, public)

	every := api.EveryScope.Names()
	sets := [][]string{{api.Wildcard.String()}}
	for i, one := range every {
		sets = append(sets, []string{one}, slices.Delete(slices.Clone(every), i, i+1))
	}
	passed, refused := 0, 0
	for _, held := range sets {
		var made struct{ APIKey string }
		require.NoError(t, tenant.client.Do(t.Context(), "POST", "/v1/api-keys", map[string]any{"label": "x", "scopes": held}, &made))
		for _, o := range scoped {
			about := fmt.Sprintf("%s %s with %s", o.method, o.path, held)
			a := call(t, server.API, made.APIKey, o)
			if slices.Contains(held, o.scope) || slices.Contains(held, api.Wildcard.String()) {
				require.NotContains(t, []int{401, 403, 500}, a.status, "%s: %s", about, a.body)
				passed++
				continue
			}
			r := a.refused(t, 403, api.ScopeMissing, about)
			require.Equal(t, []string{o.scope}, r.RequiredScopes, about)
			require.Equal(t, held, r.KeyScopes, about)
			refused++
		}
	}
	t.Logf("%d operations, %d sets of scopes: %d let in, %d refused", len(scoped), len(sets), passed, refused)
	for _, o := range scoped {
		about := o.method + " " + o.path
		call(t, server.API, "", o).refused(t, 401, api.AuthRequired, about)
		call(t, server.API, "mun_test_nonsense", o).refused(t, 401, api.AuthInvalid, about)
	}
	for _, path := range open {
		require.Equal(t, 200, call(t, server.API, "", operation{method: "GET", path: path}).status, path)
	}
}
