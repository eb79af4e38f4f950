package systemtest

import (
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/bench/system"
)

// Owner is a tenant that has one of every resource.
type Owner struct {
	Client system.Client
	IDs    map[string]string
}

// SettleIn makes a tenant with a key of all scopes, the wildcard among them, and one
// of every resource.
func SettleIn(t *testing.T, server *system.Server) Owner {
	t.Helper()
	tenant := CreateTenant(t, server.Data, "--scope", "*")
	o := Owner{system.Client{API: server.API, Key: tenant.APIKey}, map[string]string{"keyId": tenant.KeyID}}
	o.Renew(t)
	do := o.do(t)
	var made struct {
		Receipt   struct{ ReceiptID string }
		Pack      struct{ PackID string }
		Statement struct{ ID string }
		Payables  []struct{ ID string }
		Link      struct{ ID string }
	}
	do("POST", "/v1/delivery", map[string]any{"rightId": o.IDs["rightId"], "spatialAnchorId": "a", "dwellMs": 1500}, &made)
	o.IDs["receiptId"] = made.Receipt.ReceiptID
	o.IDs["erasureId"] = Erased(t, server, tenant.APIKey, "nobody").ID
	do("POST", "/v1/proof-packs/seal", nil, &made)
	o.IDs["packId"] = made.Pack.PackID
	do("POST", "/v1/settlement/statements", map[string]any{"from": "2025-01-01", "to": "2025-02-01", "currency": "EUR", "counterpartyId": o.IDs["counterpartyId"]}, &made)
	do("POST", "/v1/settlement/statements/"+made.Statement.ID+"/issue", nil, nil)
	do("GET", "/v1/settlement/payables", nil, &made)
	o.IDs["payableId"] = made.Payables[0].ID
	do("POST", "/v1/settlement/payee-links", map[string]any{"statementId": made.Statement.ID, "counterpartyId": o.IDs["counterpartyId"]}, &made)
	o.IDs["payeeLinkId"] = made.Link.ID
	do("POST", "/v1/settlement/statements", map[string]any{"from": "2026-01-01", "to": "2026-02-01", "currency": "EUR"}, &made)
	o.IDs["statementId"] = made.Statement.ID
	o.names(t)
	return o
}

func (o Owner) do(t *testing.T) func(method, path string, body, data any) {
	return func(method, path string, body, data any) {
		t.Helper()
		require.NoError(t, o.Client.Do(t.Context(), method, path, body, data), "%s %s", method, path)
	}
}

// names gives each name of a parameter its resource.
func (o Owner) names(t *testing.T) {
	for name, of := range Resources {
		if id := o.IDs[of[0]]; id != "" {
			o.IDs[name] = id
		}
	}
	for name, id := range o.IDs {
		require.NotEmpty(t, id, name)
	}
}

// Renew makes the owner's records anew, each in its first state.
func (o Owner) Renew(t *testing.T) {
	t.Helper()
	do := o.do(t)
	var made struct {
		Basis, Right, Offer, Challenge, Dispute, Mapping, Webhook, Job, Counterparty, Rule, Member struct{ ID string }
	}
	do("POST", "/v1/bases", map[string]any{"kind": "LICENSE", "title": "x"}, &made)
	o.IDs["basisId"] = made.Basis.ID
	do("POST", "/v1/rights", map[string]any{
		"basisId": made.Basis.ID, "substrate": "CTV", "scope": map[string]any{}, "effectiveFrom": "2026-01-01T00:00:00Z",
	}, &made)
	o.IDs["rightId"] = made.Right.ID
	do("POST", "/v1/offers", map[string]any{"rightId": made.Right.ID, "toOrgId": "org_b", "scope": map[string]any{}}, &made)
	o.IDs["offerId"] = made.Offer.ID
	do("POST", "/v1/challenges", map[string]any{"rightId": made.Right.ID, "challengerOrgId": "org_c", "reason": "x"}, &made)
	o.IDs["challengeId"] = made.Challenge.ID
	do("POST", "/v1/disputes", map[string]any{
		"rightId": made.Right.ID, "window": map[string]any{"from": "2026-11-01", "to": "2026-12-01"}, "reason": "x",
	}, &made)
	o.IDs["disputeId"] = made.Dispute.ID
	do("POST", "/v1/delivery/mappings", map[string]any{"vendor": "v", "idType": "t", "vendorId": made.Right.ID, "effectiveFrom": "2026-01-01",
		"target": map[string]any{"rightId": made.Right.ID, "spatialAnchorId": "a"}}, &made)
	o.IDs["mappingId"] = made.Mapping.ID
	do("POST", "/v1/settlement/counterparties", map[string]any{"name": "x", "kind": "OTHER", "currency": "EUR"}, &made)
	o.IDs["counterpartyId"] = made.Counterparty.ID
	do("POST", "/v1/settlement/rules", map[string]any{"match": map[string]any{"rightId": made.Right.ID}, "unit": "EVENT", "price": "1", "currency": "EUR",
		"shares": []any{map[string]any{"counterpartyId": made.Counterparty.ID, "bps": 10_000}}}, &made)
	o.IDs["ruleId"] = made.Rule.ID
	do("POST", "/v1/webhooks", map[string]any{"url": "https://receiver.example/x", "events": []string{"offer.accepted"}}, &made)
	o.IDs["webhookId"] = made.Webhook.ID
	do("POST", "/v1/members", map[string]any{"email": made.Right.ID + "@example.org", "role": "viewer"}, &made)
	o.IDs["memberId"] = made.Member.ID
	if job := o.IDs["jobId"]; job != "" { // a tenant has a few at a time; it may have ended
		_ = o.Client.Do(t.Context(), "POST", "/v1/compliance/dsar/"+job+"/cancel", nil, nil)
	}
	do("POST", "/v1/compliance/dsar", map[string]any{"scope": map[string]any{"kind": "TENANT_FULL"}}, &made)
	o.IDs["jobId"] = made.Job.ID
	var tested struct{ Delivery struct{ ID string } }
	do("POST", "/v1/webhooks/"+made.Webhook.ID+"/test", nil, &tested)
	o.IDs["deliveryId"] = tested.Delivery.ID
	o.names(t)
}

// Position is what an answer says of how far the log is loaded, which goes on meanwhile.
var Position = regexp.MustCompile(`"asOf":"[^"]*"`)
