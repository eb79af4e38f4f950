package service

import (
	"context"
	"time"

	"muniment.example/gateway/client"
)

// clientOperations are the client's methods by the operations of the document. Each is called with
// all that it may send.
func clientOperations() map[string]clientOperation {
	type C = *client.Client
	var (
		from = time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)
		to   = from.AddDate(0, 1, 0)
	)
	metering := filled[client.MeteringQuery]()
	metering.Rule = ""
	refusals := filled[client.MeteringQuery]()
	refusals.By, refusals.BOM = nil, false
	delivery := filled[client.Delivery]()
	delivery.Telemetry, delivery.PlayedAt = filled[client.Telemetry](), time.Time{}
	return map[string]clientOperation{
		"get-contract": {at: "", call: func(x context.Context, c C) (any, error) { return given(c.Contract(x)) }},
		"get-health":   {at: "", call: func(x context.Context, c C) (any, error) { return given(c.Health(x)) }},
		"get-tenant":   {at: "", call: func(x context.Context, c C) (any, error) { return given(c.Tenant(x)) }},

		"create-api-key": {at: "", call: func(x context.Context, c C) (any, error) {
			return given(c.APIKeys().Create(x, filled[client.NewAPIKey]()))
		}},
		"list-api-keys": {at: "keys/0", call: func(x context.Context, c C) (any, error) { return first(c.APIKeys().List(x)) }},
		"get-api-key":   {at: "key", call: func(x context.Context, c C) (any, error) { return given(c.APIKeys().Get(x, "key_1")) }},
		"rotate-api-key": {at: "", call: func(x context.Context, c C) (any, error) {
			return given(c.APIKeys().Rotate(x, "key_1", filled[client.APIKeyRotation]()))
		}},
		"revoke-api-key": {at: "", call: func(x context.Context, c C) (any, error) { return given(c.APIKeys().Revoke(x, "key_1")) }},

		"invite-member": {at: "member", call: func(x context.Context, c C) (any, error) {
			return given(c.Members().Invite(x, filled[client.MemberInvitation]()))
		}},
		"list-refused-requests": {at: "requests/0", call: func(x context.Context, c C) (any, error) {
			return first(c.APIKeys().Refused(x, filled[client.RefusedFilter]()))
		}},
		"list-members": {at: "members/0", call: func(x context.Context, c C) (any, error) { return first(c.Members().List(x, "ACTIVE")) }},
		"get-member":   {at: "member", call: func(x context.Context, c C) (any, error) { return given(c.Members().Get(x, "mbr_1")) }},
		"change-member": {at: "member", call: func(x context.Context, c C) (any, error) {
			return given(c.Members().Change(x, "mbr_1", filled[client.MemberRole]()))
		}},
		"remove-member": {at: "member", call: func(x context.Context, c C) (any, error) { return given(c.Members().Remove(x, "mbr_1")) }},

		"create-basis": {at: "basis", call: func(x context.Context, c C) (any, error) {
			return given(c.Bases().Create(x, filled[client.NewBasis]()))
		}},
		"list-bases": {at: "bases/0", call: func(x context.Context, c C) (any, error) { return first(c.Bases().List(x)) }},
		"get-basis":  {at: "basis", call: func(x context.Context, c C) (any, error) { return given(c.Bases().Get(x, "bas_1")) }},

		"issue-right": {at: "right", call: func(x context.Context, c C) (any, error) {
			return given(c.Rights().Issue(x, filled[client.NewRight]()))
		}},
		"list-rights": {at: "rights/0", call: func(x context.Context, c C) (any, error) {
			return first(c.Rights().List(x, filled[client.RightFilter]()))
		}},
		"get-right":             {at: "right", call: func(x context.Context, c C) (any, error) { return given(c.Rights().Get(x, "rgh_1")) }},
		"get-right-provenance":  {at: "", call: func(x context.Context, c C) (any, error) { return given(c.Rights().Provenance(x, "rgh_1")) }},
		"get-right-propagation": {at: "", call: func(x context.Context, c C) (any, error) { return given(c.Rights().Propagation(x, "rgh_1")) }},
		"suspend-right":         {at: "", call: func(x context.Context, c C) (any, error) { return given(c.Rights().Suspend(x, "rgh_1", "why")) }},
		"resume-right":          {at: "", call: func(x context.Context, c C) (any, error) { return given(c.Rights().Resume(x, "rgh_1", "why")) }},
		"revoke-right":          {at: "", call: func(x context.Context, c C) (any, error) { return given(c.Rights().Revoke(x, "rgh_1", "why")) }},

		"propose-offer": {at: "offer", call: func(x context.Context, c C) (any, error) {
			return given(c.Offers().Propose(x, filled[client.NewOffer]()))
		}},
		"list-offers": {at: "offers/0", call: func(x context.Context, c C) (any, error) {
			return first(c.Offers().List(x, filled[client.StateFilter]()))
		}},
		"get-offer": {at: "offer", call: func(x context.Context, c C) (any, error) { return given(c.Offers().Get(x, "ofr_1")) }},
		"counter-offer": {at: "", call: func(x context.Context, c C) (any, error) {
			return given(c.Offers().Counter(x, "ofr_1", filled[client.CounterOffer]()))
		}},
		"accept-offer":   {at: "", call: func(x context.Context, c C) (any, error) { return given(c.Offers().Accept(x, "ofr_1")) }},
		"withdraw-offer": {at: "offer", call: func(x context.Context, c C) (any, error) { return given(c.Offers().Withdraw(x, "ofr_1", "why")) }},
		"reject-offer":   {at: "offer", call: func(x context.Context, c C) (any, error) { return given(c.Offers().Reject(x, "ofr_1", "why")) }},

		"open-challenge": {at: "challenge", call: func(x context.Context, c C) (any, error) {
			return given(c.Challenges().Open(x, filled[client.NewChallenge]()))
		}},
		"list-challenges": {at: "challenges/0", call: func(x context.Context, c C) (any, error) {
			return first(c.Challenges().List(x, filled[client.StateFilter]()))
		}},
		"get-challenge": {at: "challenge", call: func(x context.Context, c C) (any, error) { return given(c.Challenges().Get(x, "chg_1")) }},
		"resolve-challenge": {at: "", call: func(x context.Context, c C) (any, error) {
			return given(c.Challenges().Resolve(x, "chg_1", filled[client.ChallengeResolution]()))
		}},
		"withdraw-challenge": {at: "challenge", call: func(x context.Context, c C) (any, error) {
			return given(c.Challenges().Withdraw(x, "chg_1", "why"))
		}},

		"observe-delivery": {at: "", call: func(x context.Context, c C) (any, error) {
			got, err := c.Deliver(x, delivery)
			if err != nil {
				return nil, err
			}
			return got.Delivered, nil
		}},
		"ingest-batch": {at: "results/0", call: func(x context.Context, c C) (any, error) {
			got, err := c.DeliverBatch(x, []client.Row{filled[client.Row]()})
			if err != nil {
				return nil, err
			}
			return got[0], nil
		}},
		"list-mappings": {at: "mappings/0", call: func(x context.Context, c C) (any, error) {
			return first(c.Mappings().List(x, filled[client.MappingFilter]()))
		}},
		"create-mapping": {at: "mapping", call: func(x context.Context, c C) (any, error) {
			return given(c.Mappings().Create(x, filled[client.NewMapping]()))
		}},
		"import-mappings": {at: "", call: func(x context.Context, c C) (any, error) {
			return given(c.Mappings().Import(x, []byte("vendor\nacme\n")))
		}},
		"retire-mapping": {at: "", call: func(x context.Context, c C) (any, error) { return given(c.Mappings().Retire(x, "map_1")) }},
		"list-held-rows": {at: "held/0", call: func(x context.Context, c C) (any, error) {
			return first(c.Held(x, filled[client.HeldFilter]()))
		}},
		"list-rejected-plays":    {at: "rejected/0", call: func(x context.Context, c C) (any, error) { return first(c.Rejected(x)) }},
		"dismiss-rejected-plays": {at: "", call: func(x context.Context, c C) (any, error) { return given(c.DismissRejected(x, "rej_1")) }},
		"create-beacon": {at: "", call: func(x context.Context, c C) (any, error) {
			return given(c.NewBeacon(x, filled[client.NewBeacon]()))
		}},

		"list-receipts": {at: "receipts/0", call: func(x context.Context, c C) (any, error) {
			if _, err := whole(c.Receipts().File(x, filled[client.ReceiptFilter](), "csv")); err != nil {
				return nil, err
			}
			return first(c.Receipts().List(x, filled[client.ReceiptFilter]()))
		}},
		"get-receipt":   {at: "", call: func(x context.Context, c C) (any, error) { return given(c.Receipts().Get(x, "rcp_1")) }},
		"prove-receipt": {at: "", call: func(x context.Context, c C) (any, error) { return given(c.Receipts().Proof(x, "rcp_1", client.Latest)) }},
		"list-events": {at: "events/0", call: func(x context.Context, c C) (any, error) {
			return first(c.Events().List(x, filled[client.EventFilter]()))
		}},
		"export-events": {call: func(x context.Context, c C) (any, error) {
			return whole(c.Events().Export(x, filled[client.ExportRange]()))
		}},

		"seal-proof-packs": {at: "", call: func(x context.Context, c C) (any, error) { return given(c.ProofPacks().SealStep(x, "1.0.7")) }},
		"list-proof-packs": {at: "packs/0", call: func(x context.Context, c C) (any, error) {
			return first(c.ProofPacks().List(x, filled[client.PackFilter]()))
		}},
		"get-proof-pack":      {at: "", call: func(x context.Context, c C) (any, error) { return given(c.ProofPacks().Get(x, "ppk_1")) }},
		"download-proof-pack": {call: func(x context.Context, c C) (any, error) { return whole(c.ProofPacks().Bundle(x, "ppk_1")) }},
		"get-checkpoint":      {at: "checkpoint", call: func(x context.Context, c C) (any, error) { return c.ProofPacks().Checkpoint(x) }},
		"prove-consistency": {at: "", call: func(x context.Context, c C) (any, error) {
			return given(c.ProofPacks().Consistency(x, "ppk_2", "ppk_1"))
		}},

		"get-metering": {at: "", call: func(x context.Context, c C) (any, error) {
			if _, err := first(c.Metering().Rows(x, metering)); err != nil {
				return nil, err
			}
			if _, err := whole(c.Metering().File(x, metering, "csv")); err != nil {
				return nil, err
			}
			return given(c.Metering().Get(x, metering))
		}},
		"get-refusals": {at: "", call: func(x context.Context, c C) (any, error) { return given(c.Metering().Refusals(x, refusals)) }},
		"get-settlement": {at: "", call: func(x context.Context, c C) (any, error) {
			return given(c.Settlement(x, filled[client.SettlementQuery]()))
		}},
		"reconcile-settlement": {at: "", call: func(x context.Context, c C) (any, error) { return given(c.Reconciliation(x, from, to)) }},

		"create-settlement-rule": {at: "rule", call: func(x context.Context, c C) (any, error) {
			return given(c.SettlementRules().Create(x, filled[client.NewSettlementRule]()))
		}},
		"list-settlement-rules": {at: "rules/0", call: func(x context.Context, c C) (any, error) {
			return first(c.SettlementRules().List(x, filled[client.RuleFilter]()))
		}},
		"get-settlement-rule": {at: "rule", call: func(x context.Context, c C) (any, error) { return given(c.SettlementRules().Get(x, "rule_1")) }},
		"change-settlement-rule": {at: "rule", call: func(x context.Context, c C) (any, error) {
			return given(c.SettlementRules().Change(x, "rule_1", filled[client.NewSettlementRule]()))
		}},
		"retire-settlement-rule": {at: "rule", call: func(x context.Context, c C) (any, error) { return given(c.SettlementRules().Retire(x, "rule_1")) }},
		"dry-run-settlement-rule": {at: "", call: func(x context.Context, c C) (any, error) {
			return given(c.SettlementRules().DryRun(x, filled[client.NewSettlementRule](), filled[client.StatementPeriod]()))
		}},
		"create-counterparty": {at: "counterparty", call: func(x context.Context, c C) (any, error) {
			return given(c.Counterparties().Create(x, filled[client.NewCounterparty]()))
		}},
		"list-counterparties": {at: "counterparties/0", call: func(x context.Context, c C) (any, error) {
			return first(c.Counterparties().List(x, "ACTIVE"))
		}},
		"get-counterparty": {at: "counterparty", call: func(x context.Context, c C) (any, error) { return given(c.Counterparties().Get(x, "cp_1")) }},
		"change-counterparty": {at: "counterparty", call: func(x context.Context, c C) (any, error) {
			return given(c.Counterparties().Change(x, "cp_1", filled[client.NewCounterparty]()))
		}},
		"deactivate-counterparty": {at: "counterparty", call: func(x context.Context, c C) (any, error) { return given(c.Counterparties().Deactivate(x, "cp_1")) }},

		"draft-statement": {at: "statement", call: func(x context.Context, c C) (any, error) {
			return given(c.Statements().Draft(x, filled[client.NewStatement]()))
		}},
		"list-statements": {at: "statements/0", call: func(x context.Context, c C) (any, error) {
			return first(c.Statements().List(x, filled[client.StatementFilter]()))
		}},
		"get-statement": {at: "", call: func(x context.Context, c C) (any, error) {
			if _, err := whole(c.Statements().File(x, "stm_1", client.StatementFile{Format: "csv", Table: "lines", Payee: "cp_1", BOM: true})); err != nil {
				return nil, err
			}
			return given(c.Statements().Get(x, "stm_1"))
		}},
		"discard-statement": {at: "statement", call: func(x context.Context, c C) (any, error) { return given(c.Statements().Discard(x, "stm_1")) }},
		"issue-statement":   {at: "statement", call: func(x context.Context, c C) (any, error) { return given(c.Statements().Issue(x, "stm_1")) }},
		"correct-statement": {at: "statement", call: func(x context.Context, c C) (any, error) { return given(c.Statements().Correct(x, "stm_1")) }},
		"void-statement":    {at: "statement", call: func(x context.Context, c C) (any, error) { return given(c.Statements().Void(x, "stm_1", "why")) }},
		"settle-statement": {at: "statement", call: func(x context.Context, c C) (any, error) {
			return given(c.Statements().Settle(x, "stm_1", filled[client.Payment]()))
		}},
		"list-payables": {at: "payables/0", call: func(x context.Context, c C) (any, error) {
			return first(c.Payables().List(x, filled[client.PayableFilter]()))
		}},
		"get-payable": {at: "payable", call: func(x context.Context, c C) (any, error) { return given(c.Payables().Get(x, "pay_1")) }},
		"list-payouts": {at: "payouts/0", call: func(x context.Context, c C) (any, error) {
			if _, err := whole(c.Payables().PayoutFile(x, filled[client.PayoutFilter]())); err != nil {
				return nil, err
			}
			return first(c.Payables().Payouts(x, filled[client.PayoutFilter]()))
		}},
		"create-payee-link": {at: "", call: func(x context.Context, c C) (any, error) {
			return given(c.PayeeLinks().Create(x, filled[client.NewPayeeLink]()))
		}},
		"list-payee-links": {at: "links/0", call: func(x context.Context, c C) (any, error) {
			return first(c.PayeeLinks().List(x, filled[client.PayeeLinkFilter]()))
		}},
		"revoke-payee-link": {at: "link", call: func(x context.Context, c C) (any, error) { return given(c.PayeeLinks().Revoke(x, "pln_1")) }},
		"get-issuer":        {at: "issuer", call: func(x context.Context, c C) (any, error) { return given(c.Payables().Issuer(x)) }},
		"set-issuer": {at: "issuer", call: func(x context.Context, c C) (any, error) {
			return given(c.Payables().SetIssuer(x, filled[client.NewIssuer]()))
		}},
		"list-statement-receipts": {at: "receipts/0", call: func(x context.Context, c C) (any, error) {
			return first(c.Statements().Receipts(x, "stm_1", filled[client.LineFilter]()))
		}},

		"open-dispute": {at: "dispute", call: func(x context.Context, c C) (any, error) {
			return given(c.Disputes().Open(x, filled[client.NewDispute]()))
		}},
		"list-disputes": {at: "disputes/0", call: func(x context.Context, c C) (any, error) {
			return first(c.Disputes().List(x, filled[client.DisputeFilter]()))
		}},
		"get-dispute":         {at: "dispute", call: func(x context.Context, c C) (any, error) { return given(c.Disputes().Get(x, "dsp_1")) }},
		"investigate-dispute": {at: "dispute", call: func(x context.Context, c C) (any, error) { return given(c.Disputes().Investigate(x, "dsp_1")) }},
		"respond-to-dispute": {at: "dispute", call: func(x context.Context, c C) (any, error) {
			return given(c.Disputes().Respond(x, "dsp_1", filled[client.DisputeAnswer]()))
		}},
		"resolve-dispute": {at: "dispute", call: func(x context.Context, c C) (any, error) {
			return given(c.Disputes().Resolve(x, "dsp_1", filled[client.DisputeResolution]()))
		}},

		"create-dsar-job": {at: "", call: func(x context.Context, c C) (any, error) {
			return given(c.DSAR().Create(x, filled[client.NewDSARJob]()))
		}},
		"list-dsar-jobs": {at: "jobs/0", call: func(x context.Context, c C) (any, error) { return first(c.DSAR().List(x, "READY")) }},
		"get-dsar-job":   {at: "job", call: func(x context.Context, c C) (any, error) { return given(c.DSAR().Get(x, "dsar:1")) }},
		"get-dsar-bundle": {at: "", call: func(x context.Context, c C) (any, error) {
			if _, err := whole(c.DSAR().Bundle(x, "dsar:1")); err != nil {
				return nil, err
			}
			return given(c.DSAR().Link(x, "dsar:1"))
		}},
		"run-dsar-job":    {at: "job", call: func(x context.Context, c C) (any, error) { return given(c.DSAR().Run(x, "dsar:1")) }},
		"cancel-dsar-job": {at: "job", call: func(x context.Context, c C) (any, error) { return given(c.DSAR().Cancel(x, "dsar:1", "why")) }},
		"list-erasures":   {at: "erasures/0", call: func(x context.Context, c C) (any, error) { return first(c.Erasures(x)) }},
		"get-erasure":     {at: "erasure", call: func(x context.Context, c C) (any, error) { return given(c.Erasure(x, "ers_1")) }},

		"create-webhook": {at: "", call: func(x context.Context, c C) (any, error) {
			return given(c.Webhooks().Create(x, filled[client.NewWebhook]()))
		}},
		"list-webhooks": {at: "webhooks/0", call: func(x context.Context, c C) (any, error) { return first(c.Webhooks().List(x)) }},
		"get-webhook":   {at: "webhook", call: func(x context.Context, c C) (any, error) { return given(c.Webhooks().Get(x, "whk_1")) }},
		"change-webhook": {at: "webhook", call: func(x context.Context, c C) (any, error) {
			return given(c.Webhooks().Change(x, "whk_1", filled[client.WebhookChange]()))
		}},
		"delete-webhook":        {at: "webhook", call: func(x context.Context, c C) (any, error) { return given(c.Webhooks().Delete(x, "whk_1")) }},
		"rotate-webhook-secret": {at: "", call: func(x context.Context, c C) (any, error) { return given(c.Webhooks().RotateSecret(x, "whk_1")) }},
		"test-webhook":          {at: "delivery", call: func(x context.Context, c C) (any, error) { return given(c.Webhooks().Test(x, "whk_1")) }},
		"list-webhook-deliveries": {at: "deliveries/0", call: func(x context.Context, c C) (any, error) {
			return first(c.Webhooks().Deliveries(x, "whk_1", "FAILED"))
		}},
		"resend-webhook-delivery": {at: "delivery", call: func(x context.Context, c C) (any, error) {
			return given(c.Webhooks().Resend(x, "whk_1", "dlv_1"))
		}},
		"recover-webhook": {at: "recovery", call: func(x context.Context, c C) (any, error) {
			return given(c.Webhooks().Recover(x, "whk_1", filled[client.NewWebhookRecovery]()))
		}},
	}
}
