package service

import (
	"fmt"
	"net/http"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"

	"muniment.example/bench/system/systemtest"
	"muniment.example/bench/waittest"
	"muniment.example/control/webhook"
)

// TestDocumentedOperations is a tenant's first day: it calls every operation of the
// OpenAPI document, and nothing else, through the gateway of a running service, and
// holds what it sends and what it is answered against the document's examples.
// MUNIMENT_UPDATE=1 makes the examples anew.
func TestDocumentedOperations(t *testing.T) {
	t.Parallel()
	h := systemtest.NotStarted(t, filepath.Join(t.TempDir(), "data"), "--sandbox-burst", "1000", "--trusted-proxies", "1")
	h.Start()
	d := &day{t: t, server: h.Server, ids: map[string]string{}, visited: map[string]systemtest.Example{}}
	d.key, d.known = systemtest.CreateTenant(t, h.Data, "--scope", "*").APIKey, systemtest.Document(t, d.server)
	require.Contains(t, d.visit("get-docs", "", ""), "<!doctype html>")
	require.Contains(t, d.visit("get-playground", "", ""), "<!doctype html>")
	require.Contains(t, d.visit("get-verifier", "", ""), "<!doctype html>")
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
	require.Equal(t, 404, d.do("get-member", "", "").Status)
	waittest.Until(t, func() bool { return strings.Contains(d.do("list-refused-requests", "", "").Body, `"get-member"`) }, "it is written")
	d.visit("list-refused-requests", "?code=RESOURCE_NOT_FOUND", "")
	d.visit("rotate-api-key", "", `{"overlapSeconds": 3600}`)
	d.visit("revoke-api-key", "", "")

	d.visit("invite-member", "", `{"email": "grace@studio-north.example", "name": "Grace", "role": "finance"}`)
	d.visit("list-members", "?state=INVITED", "")
	d.visit("get-member", "", "")
	d.visit("change-member", "", `{"role": "viewer"}`)
	d.visit("remove-member", "", "")

	d.visit("create-basis", "", `{"kind": "LICENSE", "title": "Spring campaign", "jurisdiction": "US", "reference": "contract 2026/117",
		"effectiveFrom": "2026-01-01T00:00:00Z"}`)
	d.visit("list-bases", "", "")
	d.visit("get-basis", "", "")
	d.visit("issue-right", "", `{"basisId": "{basisId}", "substrate": "AUTOMOTIVE", "scope": {"campaigns": ["spring"], "labels": {"venue": "north"}},
		"effectiveFrom": "2026-01-01T00:00:00Z", "effectiveUntil": "2027-01-01T00:00:00Z"}`)
	d.visit("list-rights", "?substrate=AUTOMOTIVE", "")
	d.visit("get-right", "", "")

	const offer = `{"rightId": "{rightId}", "toOrgId": "org_fleet_east", "scope": {"campaigns": ["spring"], "regions": ["US-NY"]},
		"effectiveFrom": "2026-04-01T00:00:00Z", "effectiveUntil": "2026-12-31T00:00:00Z", "termsRef": "https://example.com/terms/117"}`
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
		"correlationId": "play-0001", "dwellMs": 8200, "telemetry": {"speedMph": %d, "viewable": true, "appState": "foreground", "completionState": "complete"}}`
	d.visit("observe-delivery", "", fmt.Sprintf(delivery, 0))
	refused := d.do("observe-delivery", "", fmt.Sprintf(delivery, 65))
	require.Equal(t, 412, refused.Status, refused.Body)
	misspelt := d.do("observe-delivery", "", strings.Replace(fmt.Sprintf(delivery, 0), "appState", "app_state", 1))
	require.Equal(t, 200, misspelt.Status, misspelt.Body)

	d.visit("create-mapping", "", `{"vendor": "broadsign", "idType": "display_unit_id", "vendorId": "20077",
		"target": {"rightId": "{rightId}", "spatialAnchorId": "screen-0042"}, "effectiveFrom": "2026-11-01T00:00:00Z"}`)
	d.visit("import-mappings", "", "vendor,idType,vendorId,rightId,spatialAnchorId,effectiveFrom\nbroadsign,display_unit_id,20078,{rightId},screen-0043,2026-11-01T00:00:00Z\n")
	d.visit("list-mappings", "?vendor=broadsign&idType=display_unit_id&vendorId=20077&rightId={rightId}&state=ACTIVE", "")
	d.visit("retire-mapping", "", "")
	d.hold()
	d.visit("list-held-rows", "?state=HELD", "")
	d.visit("list-rejected-plays", "", "")
	d.visit("dismiss-rejected-plays", "", `{"rejectedIds": ["rej_01M7Y45MG0YQ2E2D8Z1V5K3T9B"]}`)
	d.visit("create-beacon", "", fmt.Sprintf(`{"rightId": "{rightId}", "spatialAnchorId": "dash-1", "expiresAt": %q, "maxReceiptsPerHour": 120}`, time.Now().Add(24*time.Hour).UTC().Format(time.RFC3339)))

	d.visit("create-counterparty", "", `{"name": "Studio North", "orgId": "org_studio_north", "kind": "RIGHTS_HOLDER", "legalName": "Studio North GmbH", "address": "Hafenstraße 1\n20457 Hamburg\nGermany", "taxId": "DE123456789", "email": "accounts@studio-north.example", "payoutRef": "account 7", "currency": "EUR", "taxBps": 1900, "reverseCharge": false, "paymentDays": 14}`)
	d.visit("list-counterparties", "?state=ACTIVE", "")
	d.visit("get-counterparty", "", "")
	const rule = `{"match": {"rightId": "{rightId}", "basisId": "{basisId}", "campaign": "spring", "label": {"name": "venue", "value": "north"}, "substrate": "AUTOMOTIVE", "meteringBasis": "viewable", "completion": "complete"}, "unit": "SECOND", "price": "%s",
		"currency": "EUR", "minimum": "10", "cap": "250.5", "tiers": [{"above": 100000, "price": "0.01"}], "tiersMode": "VOLUME", "timeZone": "Europe/Berlin", "shares": [{"counterpartyId": "{counterpartyId}", "bps": 10000}], "effectiveFrom": "2026-11-01T00:00:00Z", "effectiveUntil": %s, "priority": 10}`
	d.matchesAnything()
	d.visit("create-settlement-rule", "", fmt.Sprintf(rule, "0.0125", "null"))
	d.visit("list-settlement-rules", "?state=ACTIVE&rightId={rightId}&counterpartyId={counterpartyId}", "")
	d.visit("get-settlement-rule", "", "")
	d.visit("change-settlement-rule", "", fmt.Sprintf(rule, "0.02", `"2028-01-01T00:00:00Z"`))
	d.visit("change-counterparty", "", `{"name": "Studio North", "orgId": "org_studio_north", "kind": "RIGHTS_HOLDER", "legalName": "Studio North GmbH", "address": "Hafenstraße 1\n20457 Hamburg\nGermany", "taxId": "DE123456789", "email": "accounts@studio-north.example", "payoutRef": "account 8", "currency": "EUR", "taxBps": 1900, "reverseCharge": false, "paymentDays": 14}`)
	d.visit("create-webhook", "", `{"url": "https://receiver.example/muniment", "events": ["right.*", "offer.accepted"], "description": "the planner"}`)
	d.visit("list-webhooks", "", "")
	d.visit("get-webhook", "", "")
	d.visit("test-webhook", "", "")
	waittest.Until(t, func() bool { // the receiver is nowhere
		list := systemtest.Parse[struct {
			Data struct{ Deliveries []webhook.Delivery }
		}](t, d.visit("list-webhook-deliveries", "", ""))
		return slices.ContainsFunc(list.Data.Deliveries, func(sent webhook.Delivery) bool { return sent.ID == d.ids["deliveryId"] && len(sent.Attempts) > 0 })
	}, "the delivery that is sent again was attempted")
	d.visit("resend-webhook-delivery", "", "")
	d.visit("recover-webhook", "", `{"since": "2026-11-01T00:00:00Z", "dryRun": true}`)
	d.visit("change-webhook", "", `{"state": "PAUSED"}`)
	d.visit("rotate-webhook-secret", "", "")
	d.visit("delete-webhook", "", "")
	d.visit("create-dsar-job", "", `{"scope": {"kind": "TENANT_SLICE", "windowStart": "2026-11-01", "windowEnd": "2026-12-01", "campaignIds": ["spring"], "substrates": ["AUTOMOTIVE"]},
		"format": "CSV", "requestNotes": "the auditors' sample of November"}`)
	d.visit("cancel-dsar-job", "", `{"reason": "the whole month is needed"}`)
	d.anew("jobId", "create-dsar-job", `{"scope": {"kind": "DATA_SUBJECT", "dataSubjectId": "subject-0815"}, "requestNotes": "asked for by letter"}`)
	d.visit("list-dsar-jobs", "?state=REQUESTED", "")
	d.visit("run-dsar-job", "", "")
	waittest.Until(d.t, func() bool { return strings.Contains(d.do("get-dsar-job", "", "").Body, `"READY"`) }, "the export is READY")
	d.visit("get-dsar-job", "", "")
	link := d.visit("get-dsar-bundle", "", "")
	d.ids["token"] = regexp.MustCompile(`/downloads/([\w.-]+)`).FindStringSubmatch(link)[1]
	d.visit("download-bundle", "", "")

	d.sealAll()
	d.visit("list-proof-packs", "?from=2026-11-01&upTo={packId}", "")
	d.visit("get-proof-pack", "", "")
	d.visit("download-proof-pack", "", "")
	d.visit("get-checkpoint", "", "")
	d.visit("prove-consistency", "?from={packId}", "")
	d.visit("get-receipt", "", "")
	d.visit("open-dispute", "", `{"receiptIds": ["{receiptId}"], "raisedByOrgId": "org_fleet_east", "reason": "the screen was dark",
		"evidence": [{"text": "the player's log of that hour", "references": ["https://example.com/players/0042/2026-11-23"]}]}`)
	d.visit("list-disputes", "?receiptId={receiptId}&state=OPEN", "")
	d.visit("investigate-dispute", "", "")
	d.visit("respond-to-dispute", "", `{"evidence": [{"text": "the camera of that hour shows it lit"}]}`)
	d.visit("get-dispute", "", "")
	d.visit("resolve-dispute", "", `{"outcome": "REJECTED", "resolution": "both saw the camera's pictures"}`)
	d.statement(strings.Replace(fmt.Sprintf(rule, "0.025", "null"), `"priority": 10`, `"priority": 20`, 1))
	d.visit("list-receipts", "?correlationId=play-0001&rightId={rightId}", "")
	d.visit("prove-receipt", "", "")
	d.visit("list-events", "?rightId={rightId}&limit=2", "")
	d.visit("export-events", "", "")
	d.visit("get-metering", "?bucket=day&timeZone=Europe/Berlin&by=placement,campaign", "")

	// A node that stops records what it has refused, and a seal waits until that is loaded.
	h.Stop()
	h.Start()
	d.server = h.Server
	d.sealAll()
	d.visit("get-refusals", "", "")

	played := time.Now().Add(-time.Hour).UTC().Format(time.RFC3339)
	d.visit("ingest-batch", "", fmt.Sprintf(`{"rows": [
		{"rowId": "play-0002", "rightId": "{rightId}", "spatialAnchorId": "dash-1", "playedAt": %[1]q, "dwellMs": 8200, "multiplier": "2.5", "telemetry": {"speedMph": 0}},
		{"rowId": "play-0002", "rightId": "{rightId}", "spatialAnchorId": "dash-1", "playedAt": %[1]q, "dwellMs": 8200, "multiplier": "2.5", "telemetry": {"speedMph": 0}},
		{"rowId": "play-0003", "rightId": "{rightId}", "spatialAnchorId": "dash-1", "playedAt": %[1]q, "dwellMs": 8200, "telemetry": {"speedMph": 65}}], "vendor": "acme"}`, played))

	d.visit("erase", "", systemtest.Confirmed(t, d.server.API, d.key, "visitor-0001"))
	waittest.Until(t, func() bool { return strings.Contains(d.do("get-erasure", "", "").Body, `"COMPLETED"`) }, "the person is erased")
	d.visit("get-erasure", "", "")
	d.visit("list-erasures", "", "")

	d.visit("suspend-right", "", `{"reason": "complaint of the holder"}`)
	d.visit("resume-right", "", `{"reason": "settled"}`)
	d.visit("revoke-right", "", `{"reason": "the campaign is over"}`)
	d.visit("get-right-provenance", "", "")
	d.visit("get-right-propagation", "", "")
	d.visit("get-tenant", "", "")
	d.sandbox()
	d.access()
	d.end()
	d.members()
}

// matchesAnything makes a rule without a match, and retires it: what its answer has of null, the document allows.
func (d *day) matchesAnything() {
	d.t.Helper()
	created := d.do("create-settlement-rule", "", `{"unit": "EVENT", "price": "1", "currency": "EUR", "shares": [{"counterpartyId": "{counterpartyId}", "bps": 10000}], "effectiveFrom": "2098-01-01T00:00:00Z"}`)
	require.Contains(d.t, created.Body, `"label":null`)
	answer, err := jsonschema.UnmarshalJSON(strings.NewReader(created.Body))
	require.NoError(d.t, err)
	for _, path := range []string{"/openapi.json", "/openapi-3.0.json"} {
		c := openContract(d.t, d.server.API, path)
		_, pointer := c.at("paths", "/v1/settlement/rules", "post", "responses", "200", "content", "application/json", "schema")
		require.Empty(d.t, c.refuses(pointer, answer), path)
	}
	d.ids["ruleId"] = systemtest.OfOurs["ruleId"].FindString(created.Body)
	require.Equal(d.t, 200, d.do("retire-settlement-rule", "", "").Status)
	delete(d.ids, "ruleId")
}

// statement states what was delivered, and retires what it is rated by.
func (d *day) statement(rule string) {
	d.t.Helper()
	now := time.Now().UTC().Format("2006-01-02T15:04:05.000Z")
	d.visit("get-settlement", "?currency=EUR&by=campaign&rightId={rightId}", "")
	d.visit("dry-run-settlement-rule", "", fmt.Sprintf(`{"rule": %s, "from": "2026-11-01T00:00:00Z", "to": %q}`, rule, now))
	d.visit("draft-statement", "", fmt.Sprintf(`{"from": "2026-11-01T00:00:00Z", "to": %q, "currency": "EUR", "counterpartyId": "{counterpartyId}"}`, now))
	d.visit("list-statements", "?state=DRAFT&currency=EUR&counterpartyId={counterpartyId}", "")
	d.visit("discard-statement", "", "")
	d.anew("statementId", "draft-statement", fmt.Sprintf(`{"from": "2026-11-01T00:00:00Z", "to": %q, "currency": "EUR", "counterpartyId": "{counterpartyId}"}`, now))
	d.visit("set-issuer", "", `{"legalName": "Transit Screens AG", "address": "Bahnhofplatz 3\n8001 Zürich\nSwitzerland", "taxId": "CHE-123.456.789 MWST", "email": "accounts@transit-screens.example", "note": "Self-billing", "paymentDays": 30}`)
	d.visit("get-issuer", "", "")
	d.visit("issue-statement", "", "")
	d.visit("get-statement", "", "")
	d.visit("list-payables", "?statementId={statementId}&issuedSince=2026-11-01&dueBy=2099-12-31", "")
	d.visit("get-payable", "", "")
	d.visit("list-payouts", "?dueBy=2027-12-31", "")
	d.visit("reconcile-settlement", "?from=2026-11-01T00:00:00Z&to="+now, "")
	d.visit("list-statement-receipts", "?rightId={rightId}&ruleId={ruleId}&meteringBasis=viewable", "")
	d.visit("create-payee-link", "", `{"statementId": "{statementId}", "counterpartyId": "{counterpartyId}"}`)
	d.visit("list-payee-links", "?statementId={statementId}&state=ACTIVE", "")
	d.visit("revoke-payee-link", "", "")
	d.visit("settle-statement", "", `{"reference": "transfer of 2026-12-03, 4711"}`)
	late := d.do("ingest-batch", "", fmt.Sprintf(`{"rows": [{"rowId": "play-0004", "rightId": "{rightId}", "spatialAnchorId": "dash-1", "playedAt": %q, "dwellMs": 600000,
		"telemetry": {"speedMph": 0, "viewable": true, "appState": "foreground", "completionState": "complete"}}]}`, time.Now().Add(-time.Hour).UTC().Format(time.RFC3339)))
	require.Contains(d.t, late.Body, `"status":"accepted"`)
	d.sealAll()
	d.visit("correct-statement", "", "")
	d.visit("void-statement", "", `{"reason": "the price was that of another contract"}`)
	d.visit("retire-settlement-rule", "", "")
	d.visit("deactivate-counterparty", "", "")
}

// hold sends a row that no mapping knows.
func (d *day) hold() {
	d.t.Helper()
	a := systemtest.Call(d.t, d.server.API, d.key, systemtest.Operation{Method: "POST", Path: "/v1/delivery/ingest-batch", Body: fmt.Sprintf(
		`{"vendor": "broadsign", "rows": [{"idType": "display_unit_id", "vendorId": "20099", "playedAt": %q, "dwellMs": 8200}]}`, time.Now().UTC().Format(time.RFC3339))})
	require.Equal(d.t, 200, a.Status, a.Body)
	require.Contains(d.t, a.Body, `"status":"unmapped"`)
}

// access is a stranger's way to a key of the sandbox.
func (d *day) access() {
	d.visit("access-apply", "", `{"email": "dev@example.com", "organisation": "Example Ltd", "use": "measuring plays on station screens"}`)
	d.confirmed()
	a := systemtest.Applicant{T: d.t, URL: d.server.API, Data: d.server.Data}
	d.visit("access-activate", "", fmt.Sprintf(`{"token": %q}`, a.Written(a.Approved("ada@example.org"))))
}

// confirmed confirms an application at a service with a mail server.
func (d *day) confirmed() {
	own := d.server
	defer func() { d.server = own }()
	box, address := systemtest.OpenMailbox(d.t)
	d.server = systemtest.NewService(d.t, "--mail-smtp", address, "--mail-from", "keys@muniment.example", "--mail-tls", "none", "--public-url", "https://muniment.example").Server
	require.Equal(d.t, 200, d.do("access-apply", "", `{"email": "ada@example.org", "organisation": "Example Ltd", "use": "measuring plays"}`).Status)
	d.visit("access-confirm", "", fmt.Sprintf(`{"token": %q}`, box.Token(d.t, "ada@example.org", "https://muniment.example", "confirm")))
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
	d.visit("playground-deliver", "", `{"rightId": "{rightId}", "spatialAnchorId": "union-square-kiosk-4", "dwellMs": 6800, "correlationId": "play-0001", "telemetry": {"viewable": true, "appState": "foreground"}}`)
	d.watch()
	d.visit("sandbox-constraint-demo", "", `{"scenario": "automotive-speed"}`)
	d.visit("sandbox-list-proof-packs", "", "")
	d.visit("sandbox-get-proof-pack", "", "")
	d.visit("sandbox-get-runtime-keys", "", "")
	waittest.Until(d.t, func() bool { return strings.Contains(d.do("sandbox-inspect", "", "").Body, `"pack.sealed"`) }, "all events are loaded")
	d.visit("sandbox-inspect", "", "")
	d.visit("sandbox-revoke-right", "", `{"rightId": "{rightId}", "reason": "the campaign is over"}`)
	d.visit("sandbox-reset", "", "")
}

// watch begins the stream of a visitor's deliveries, and leaves it: it has no end.
func (d *day) watch() {
	d.t.Helper()
	o := d.known["playground-events"]
	r, err := http.NewRequestWithContext(d.t.Context(), o.Method, d.server.API+o.Path, nil)
	require.NoError(d.t, err)
	r.Header.Set("Cookie", d.cookie)
	resp, err := http.DefaultClient.Do(r)
	require.NoError(d.t, err)
	require.Equal(d.t, 200, resp.StatusCode)
	require.NoError(d.t, resp.Body.Close())
	d.visited["playground-events"] = systemtest.Example{}
}
