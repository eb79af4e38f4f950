package storytest

import (
	"encoding/json"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/bench/system"
	"muniment.example/bench/system/systemtest"
	"muniment.example/bench/waittest"
	"muniment.example/sealer"
)

// write is a call of an operation that writes, and the events that it leaves, in their
// order, each as "<type> <kind>:<id> by <kind>:<id>": what it is about, and who did it,
// the caller's key if no actor is named. {names} in them stand for ids, from the first
// event on that has them.
type write struct {
	operation string
	events    []string
	makes     map[string]string // names of what it makes, by where the answer has their ids
	body      string            // the document's example unless it has one of its own
	again     int               // the status of the same call once more, which leaves nothing; 0 makes no second call
	toAll     bool              // no caller is refused
}

// one is where an answer has the id of what was made.
func one(name, at string) map[string]string { return map[string]string{name: at} }

var writes = []write{
	{operation: "create-api-key", events: []string{"key.created key:{keyId}"}, makes: one("keyId", "key.keyId")},
	{operation: "rotate-api-key", events: []string{"key.rotated key:{keyId}"}, again: 409},
	{operation: "revoke-api-key", events: []string{"key.revoked key:{keyId}"}, again: 200},
	{operation: "invite-member", events: []string{"member.invited member:{memberId}"}, makes: one("memberId", "member.id"), again: 409},
	{operation: "change-member", events: []string{"member.changed member:{memberId}"}, again: 200},
	{operation: "remove-member", events: []string{"member.removed member:{memberId}"}, again: 200},

	{operation: "create-basis", events: []string{"basis.created basis:{basisId}"}, makes: one("basisId", "basis.id")},
	{operation: "issue-right", events: []string{"right.issued right:{rightId}"}, makes: one("rightId", "right.id"), body: systemtest.NewRight},
	{operation: "suspend-right", events: []string{"right.suspended right:{rightId}"}, again: 409},
	{operation: "resume-right", events: []string{"right.resumed right:{rightId}"}, again: 409},

	{operation: "propose-offer", events: []string{"offer.proposed offer:{offerId}"}, makes: one("offerId", "offer.id")},
	{
		operation: "counter-offer", events: []string{"offer.countered offer:{offerId}", "offer.proposed offer:{counterId}"},
		makes: one("counterId", "offer.id"), again: 409,
	},
	{operation: "propose-offer", events: []string{"offer.proposed offer:{offerId}"}, makes: one("offerId", "offer.id")},
	{operation: "withdraw-offer", events: []string{"offer.withdrawn offer:{offerId}"}, again: 409},
	{operation: "propose-offer", events: []string{"offer.proposed offer:{offerId}"}, makes: one("offerId", "offer.id")},
	{operation: "reject-offer", events: []string{"offer.rejected offer:{offerId}"}, again: 409},
	{operation: "propose-offer", events: []string{"offer.proposed offer:{offerId}"}, makes: one("offerId", "offer.id")},
	{
		operation: "accept-offer", events: []string{"offer.accepted offer:{offerId}", "right.issued right:{derivedId}"},
		makes: one("derivedId", "right.id"), again: 409,
	},

	{operation: "observe-delivery", events: []string{"delivery.recorded right:{rightId}"}},
	{operation: "ingest-batch", events: []string{"delivery.recorded right:{rightId}"}},
	{operation: "create-mapping", events: []string{"mapping.created mapping:{mappingId}"}, makes: one("mappingId", "mapping.id")},
	{operation: "create-beacon", events: []string{"beacon.created right:{rightId}"}},
	{operation: "dismiss-rejected-plays"}, // there are none: TestPlayersPost
	{operation: "retire-mapping", events: []string{"mapping.retired mapping:{mappingId}"}},
	{
		operation: "import-mappings", events: []string{"mapping.created mapping:{importedId}"},
		body: "vendor,idType,vendorId,rightId,spatialAnchorId,effectiveFrom\nv,t,imported,{rightId},a,2026-01-01T00:00:00Z\n",
	},
	{operation: "create-counterparty", events: []string{"counterparty.created counterparty:{counterpartyId}"}, makes: one("counterpartyId", "counterparty.id")},
	{operation: "create-settlement-rule", events: []string{"settlement_rule.created settlement_rule:{ruleId}"}, makes: one("ruleId", "rule.id")},
	{operation: "change-settlement-rule", events: []string{"settlement_rule.changed settlement_rule:{ruleId}"}, again: 200},
	{operation: "dry-run-settlement-rule"}, // keeps nothing
	{operation: "retire-settlement-rule", events: []string{"settlement_rule.retired settlement_rule:{ruleId}"}, again: 200},
	{operation: "change-counterparty", events: []string{"counterparty.changed counterparty:{counterpartyId}"}, again: 200},
	{operation: "deactivate-counterparty", events: []string{"counterparty.deactivated counterparty:{counterpartyId}"}, again: 200},
	{operation: "create-webhook", events: []string{"webhook.created webhook:{webhookId}"}, makes: one("webhookId", "webhook.id")},
	{operation: "test-webhook", events: []string{"webhook.tested webhook:{webhookId}"}, makes: one("deliveryId", "delivery.id")},
	{operation: "resend-webhook-delivery", events: []string{"webhook.resent webhook:{webhookId}"}},
	{operation: "change-webhook", events: []string{"webhook.changed webhook:{webhookId}"}, again: 200},
	{operation: "rotate-webhook-secret", events: []string{"webhook.secret_rotated webhook:{webhookId}"}},
	{operation: "recover-webhook", body: `{"since":"2026-01-01T00:00:00Z","dryRun":true}`}, // counts only
	{operation: "delete-webhook", events: []string{"webhook.deleted webhook:{webhookId}"}, again: 404},
	{
		operation: "erase", events: []string{"subject.erased erasure:{erasureId}", "erasure.completed erasure:{erasureId} by system:control"},
		makes: one("erasureId", "erasure.id"),
	},
	{operation: "create-dsar-job", events: []string{"dsar.requested dsar_job:{jobId}"}, makes: one("jobId", "job.id"), body: systemtest.NewExport},
	{operation: "cancel-dsar-job", events: []string{"dsar.cancelled dsar_job:{jobId}"}, again: 409},
	{operation: "create-dsar-job", events: []string{"dsar.requested dsar_job:{jobId}"}, makes: one("jobId", "job.id"), body: systemtest.NewExport},
	{operation: "run-dsar-job", events: []string{"dsar.queued dsar_job:{jobId}", "dsar.collecting dsar_job:{jobId} by system:control", "dsar.packaging dsar_job:{jobId} by system:control", "dsar.ready dsar_job:{jobId} by system:control"}},
	{operation: "open-dispute", events: []string{"dispute.opened dispute:{disputeId}"}, makes: one("disputeId", "dispute.id"), body: systemtest.NewDispute},
	{operation: "investigate-dispute", events: []string{"dispute.investigation_started dispute:{disputeId}"}, again: 409},
	{operation: "respond-to-dispute", events: []string{"dispute.responded dispute:{disputeId}"}, again: 409},
	{operation: "resolve-dispute", events: []string{"dispute.resolved dispute:{disputeId}"}, again: 409},
	{operation: "seal-proof-packs", events: []string{"pack.sealed pack:{packId}"}, makes: one("packId", "pack.packId"), body: `{}`},
	{operation: "draft-statement", events: []string{"statement.created statement:{statementId}"}, makes: one("statementId", "statement.id")},
	{operation: "set-issuer", events: []string{"issuer.changed issuer:{issuerId}"}, makes: one("issuerId", "issuer.id"), again: 200},
	{operation: "issue-statement", events: []string{"payable.issued payable:{payableId}", "statement.issued statement:{statementId}"}, again: 409},
	{operation: "create-payee-link", events: []string{"payee_link.created payee_link:{payeeLinkId}"}, makes: one("payeeLinkId", "link.id"), body: `{"statementId":"{statementId}","counterpartyId":"{counterpartyId}"}`},
	{operation: "revoke-payee-link", events: []string{"payee_link.revoked payee_link:{payeeLinkId}"}, again: 200},
	{operation: "open-dispute", events: []string{"dispute.opened dispute:{disputeId}"}, makes: one("disputeId", "dispute.id"), body: systemtest.NewDispute},
	{
		operation: "correct-statement", events: []string{"pack.sealed pack:{laterPackId}", "statement.created statement:{correctionId}"}, makes: one("correctionId", "statement.id"),
	},
	{operation: "settle-statement", events: []string{"statement.settled statement:{statementId}"}, again: 409},
	{
		operation: "void-statement", events: []string{"payable.issued payable:{creditId}", "statement.voided statement:{voidId}", "statement.voided statement:{statementId}"}, makes: one("voidId", "statement.id"), again: 409,
	},
	{
		operation: "draft-statement", events: []string{"pack.sealed pack:{lastPackId}", "statement.created statement:{statementId}"}, makes: one("statementId", "statement.id"),
	},
	{operation: "discard-statement", events: []string{"statement.discarded statement:{statementId}"}, again: 409},
	{operation: "download-proof-pack", events: []string{"pack.downloaded pack:{packId}"}},
	{operation: "export-events", events: []string{"events.exported tenant:{tenantId}"}},

	{operation: "open-challenge", events: []string{"challenge.opened challenge:{challengeId}"}, makes: one("challengeId", "challenge.id")},
	{operation: "withdraw-challenge", events: []string{"challenge.withdrawn challenge:{challengeId}"}, again: 409},
	{operation: "open-challenge", events: []string{"challenge.opened challenge:{challengeId}"}, makes: one("challengeId", "challenge.id")},
	{operation: "resolve-challenge", events: []string{"challenge.overturned challenge:{challengeId}"}, again: 409},
	{operation: "open-challenge", events: []string{"challenge.opened challenge:{challengeId}"}, makes: one("challengeId", "challenge.id")},
	{
		operation: "resolve-challenge", events: []string{"challenge.upheld challenge:{challengeId}", "right.revoked right:{rightId}"},
		body: `{"upheld":true}`, again: 409,
	},

	{operation: "issue-right", events: []string{"right.issued right:{rightId}"}, makes: one("rightId", "right.id"), body: systemtest.NewRight},
	{operation: "revoke-right", events: []string{"right.revoked right:{rightId}"}, again: 200},
	// The last one shows that nothing comes behind those before it.
	{operation: "create-basis", events: []string{"basis.created basis:{basisId}"}, makes: one("basisId", "basis.id")},
}

// visits are the writes of a visitor of the sandbox, whose key no caller has.
var visits = []write{
	{
		operation: "sandbox-provision", toAll: true,
		events: []string{
			"tenant.created tenant:{tenantId} by system:control", "key.created key:{caller} by system:control",
			"basis.created basis:{basisId}", "basis.created basis:{second}", "basis.created basis:{third}",
			"right.issued right:{rightId}", "right.issued right:{ctv}", "right.issued right:{mobile}", "right.issued right:{messaging}",
			"counterparty.created counterparty:{counterpartyId}", "settlement_rule.created settlement_rule:{ruleId}",
		},
		makes: map[string]string{
			"tenantId": "tenantId", "basisId": "rights.0.basisId", "second": "rights.1.basisId", "third": "rights.3.basisId",
			"rightId": "rights.0.id", "ctv": "rights.1.id", "mobile": "rights.2.id", "messaging": "rights.3.id",
		},
		again: 200,
	},
	{operation: "sandbox-issue-right", events: []string{"right.issued right:{rightId}"}, makes: one("rightId", "right.id"), body: systemtest.NewRight},
	{operation: "sandbox-suspend-right", events: []string{"right.suspended right:{rightId}"}, body: `{"rightId":"{rightId}"}`, again: 409},
	{operation: "sandbox-suspend-right", events: []string{"right.resumed right:{rightId}"}, body: systemtest.Resumption, again: 409},

	{operation: "sandbox-propose-offer", events: []string{"offer.proposed offer:{offerId}"}, makes: one("offerId", "offer.id"), body: systemtest.NewOffer},
	{
		operation: "sandbox-counter-offer", events: []string{"offer.countered offer:{offerId}", "offer.proposed offer:{counterId}"},
		makes: one("counterId", "offer.id"), again: 409,
	},
	{operation: "sandbox-propose-offer", events: []string{"offer.proposed offer:{offerId}"}, makes: one("offerId", "offer.id"), body: systemtest.NewOffer},
	{operation: "sandbox-withdraw-offer", events: []string{"offer.withdrawn offer:{offerId}"}, body: `{"offerId":"{offerId}"}`, again: 409},
	{operation: "sandbox-propose-offer", events: []string{"offer.proposed offer:{offerId}"}, makes: one("offerId", "offer.id"), body: systemtest.NewOffer},
	{operation: "sandbox-withdraw-offer", events: []string{"offer.rejected offer:{offerId}"}, body: systemtest.Rejection, again: 409},
	{operation: "sandbox-propose-offer", events: []string{"offer.proposed offer:{offerId}"}, makes: one("offerId", "offer.id"), body: systemtest.NewOffer},
	{
		operation: "sandbox-accept-offer", events: []string{"offer.accepted offer:{offerId}", "right.issued right:{derivedId}"},
		makes: one("derivedId", "right.id"), again: 409,
	},

	{operation: "playground-deliver", events: []string{"delivery.recorded right:{mobile}"}, body: `{"rightId":"{mobile}","spatialAnchorId":"a","dwellMs":2000}`},
	{
		operation: "sandbox-run-demo", body: `{"eventCount":2,"seed":7}`,
		events: []string{"delivery.recorded right:{firstOn}", "delivery.recorded right:{thenOn}", "pack.sealed pack:{packId}"},
		makes:  map[string]string{"firstOn": "deliveries.0.rightId", "thenOn": "deliveries.1.rightId", "packId": "packId"},
	},
	{operation: "sandbox-constraint-demo", again: 200},

	{operation: "sandbox-open-challenge", events: []string{"challenge.opened challenge:{challengeId}"}, makes: one("challengeId", "challenge.id"), body: systemtest.Contested},
	{
		operation: "sandbox-resolve-challenge", events: []string{"challenge.withdrawn challenge:{challengeId}"},
		body: `{"challengeId":"{challengeId}","action":"withdraw"}`, again: 409,
	},
	{operation: "sandbox-open-challenge", events: []string{"challenge.opened challenge:{challengeId}"}, makes: one("challengeId", "challenge.id"), body: systemtest.Contested},
	{
		operation: "sandbox-resolve-challenge", events: []string{"challenge.overturned challenge:{challengeId}"},
		body: `{"challengeId":"{challengeId}"}`, again: 409,
	},
	{operation: "sandbox-open-challenge", events: []string{"challenge.opened challenge:{challengeId}"}, makes: one("challengeId", "challenge.id"), body: systemtest.Contested},
	{
		operation: "sandbox-resolve-challenge", events: []string{"challenge.upheld challenge:{challengeId}", "right.revoked right:{rightId}"},
		body: `{"challengeId":"{challengeId}","upheld":true}`, again: 409,
	},
	{operation: "sandbox-revoke-right", events: []string{"right.revoked right:{ctv}"}, body: `{"rightId":"{ctv}"}`, again: 200},
	{operation: "sandbox-reset", toAll: true, events: []string{"tenant.dropped tenant:{tenantId}"}, again: 200},
}

func AuditWrites(t *testing.T, s *systemtest.Service) {
	visitor := &audited{t: t, url: s.Server.API, ids: map[string]string{}, visitor: true}
	visitor.log = func(after *sealer.Position) []systemtest.Logged { return s.Events(visitor.ids["tenantId"], after) }
	visitor.writes(systemtest.OperationsOf(t, s.Server, true), visits)

	own := systemtest.CreateTenant(t, s.Data, "--scope", "*")
	tenant := &audited{t: t, url: s.Server.API, key: own.APIKey, ids: map[string]string{"caller": own.KeyID, "tenantId": own.TenantID}}
	tenant.log = func(after *sealer.Position) (list []systemtest.Logged) {
		path := "/v1/events?order=asc&limit=500"
		if after != nil {
			path += "&after=" + after.String()
		}
		var page struct {
			Events []struct {
				Position string
				Event    json.RawMessage
			}
		}
		require.NoError(t, system.Client{API: s.Server.API, Key: own.APIKey}.Do(t.Context(), "GET", path, nil, &page))
		for _, e := range page.Events {
			at, err := sealer.ParsePosition(e.Position)
			require.NoError(t, err)
			list = append(list, systemtest.ReadLogged(t, at, e.Event))
		}
		return list
	}
	tenant.expect("a new tenant", "tenant.created tenant:{tenantId} by operator:admin", "key.created key:{caller} by operator:admin")
	var narrow struct{ APIKey string }
	require.NoError(t, system.Client{API: s.Server.API, Key: own.APIKey}.Do(t.Context(), "POST", "/v1/api-keys",
		map[string]any{"label": "x", "scopes": []string{"disputes:read"}}, &narrow))
	tenant.expect("its second key", "key.created key:{second}")
	tenant.narrow = narrow.APIKey
	tenant.writes(systemtest.Operations(t, s.Server), writes)

	for _, a := range []*audited{visitor, tenant} {
		require.Equal(t, a.seen, a.log(nil), "the whole log, once more")
	}
}

// audited is a caller whose log is read.
type audited struct {
	t       *testing.T
	url     string
	key     string // of a tenant
	narrow  string // another one of the tenant, without any scope that is required
	visitor bool   // of the sandbox, with a cookie in place of a key
	cookie  string
	ids     map[string]string
	log     func(after *sealer.Position) []systemtest.Logged
	seen    []systemtest.Logged
}

// writes makes the calls in their order, which are all that these operations have.
func (a *audited) writes(operations []systemtest.Operation, calls []write) {
	t, known, untold := a.t, map[string]systemtest.Operation{}, map[string]bool{}
	for _, o := range operations {
		known[o.Id] = o
		if o.Method != http.MethodGet {
			untold[o.Id] = true
		}
	}
	refusals := 0
	for _, w := range calls {
		o, ok := known[w.operation]
		require.True(t, ok, "the document has no operation %s", w.operation)
		delete(untold, w.operation)
		if w.body != "" {
			o.Body = w.body
		}
		if !w.toAll {
			refusals += a.refusals(o)
		}
		answer, events := a.call(o.With(a.ids)), w.events
		for i := 0; i < systemtest.LoadTries && systemtest.NotLoaded(answer); i++ { // it sealed nothing, and what it did before that stays
			answer, events = a.call(o.With(a.ids)), slices.Concat(w.events[:len(w.events)-1], events)
		}
		require.Equal(t, 200, answer.Status, "%s: %s", o.Id, answer.Body)
		for name, at := range w.makes {
			a.ids[name] = systemtest.TextAt(t, answer.Body, "data."+at)
		}
		if given := (&http.Response{Header: answer.Header}).Cookies(); len(given) > 0 && given[0].MaxAge >= 0 {
			a.cookie = given[0].Name + "=" + given[0].Value
		}
		if w.again != 0 {
			again := a.call(o.With(a.ids))
			require.Equal(t, w.again, again.Status, "%s once more: %s", o.Id, again.Body)
			refusals++
		}
		a.expect(o.Id, events...)
	}
	require.Empty(t, untold, "operations that write, and of which it is not said what they leave in the log")
	t.Logf("%d writes that left %d events, %d calls that write nothing", len(calls), len(a.seen), refusals)
}

func (a *audited) call(o systemtest.Operation) systemtest.Response {
	if o.Id == "erase" {
		o.Body = systemtest.Confirmed(a.t, a.url, a.key, "nobody")
	}
	return systemtest.Call(a.t, a.url, a.key, o, "Cookie", a.cookie, "X-Forwarded-For", systemtest.AnyAddress())
}

// refusals calls an operation as it is refused.
func (a *audited) refusals(o systemtest.Operation) (n int) {
	t, ready := a.t, o.With(a.ids)
	refused := func(status int, code, own string, o systemtest.Operation, key, cookie string) {
		n++
		answer := systemtest.Call(t, a.url, key, o, "Cookie", cookie, "X-Forwarded-For", systemtest.AnyAddress())
		if a.visitor {
			code = own
		}
		require.Equal(t, status, answer.Status, "%s: %s", o.Id, answer.Body)
		require.Equal(t, code, systemtest.TextAt(t, answer.Body, "error"), o.Id)
	}
	if a.visitor {
		refused(404, "", "NO_TENANT", ready, "", "")
		refused(404, "", "NO_TENANT", ready, "", a.cookie+"x")
	} else {
		require.NotEqual(t, "disputes:read", o.Scope, o.Id)
		refused(401, "AUTH_REQUIRED", "", ready, "", "")
		refused(403, "SCOPE_MISSING", "", ready, a.narrow, "")
	}
	if o.Id == "import-mappings" { // each of its lines is refused by itself
		return n
	}
	if o.Body != "" {
		broken := ready
		broken.Body = strings.TrimSuffix(broken.Body, "}")
		refused(400, "BAD_REQUEST", "INVALID_BODY", broken, a.key, a.cookie)
	}
	if o.Id == "ingest-batch" { // each of its rows is refused by itself
		return n
	}
	for _, name := range o.Names() {
		require.Contains(t, a.ids, name, o.Id)
		none := o.With(map[string]string{name: unknown(a.ids[name])}).With(a.ids)
		if o.AmongFaults(name) {
			refused(422, "VALIDATION_FAILED", "", none, a.key, a.cookie)
			continue
		}
		refused(404, "RESOURCE_NOT_FOUND", "HANDLER_ERROR", none, a.key, a.cookie)
	}
	return n
}

// expect waits for the next events, and requires that they are these and no others.
func (a *audited) expect(about string, events ...string) {
	a.t.Helper()
	if len(events) == 0 {
		return // what comes next shows that there was none
	}
	var after *sealer.Position
	if len(a.seen) > 0 {
		after = &a.seen[len(a.seen)-1].At
	}
	var got []systemtest.Logged
	waittest.Until(a.t, func() bool {
		got = a.log(after)
		return len(got) >= len(events)
	}, "%s left %v, and no %v", about, &got, events)
	require.Len(a.t, got, len(events), about)
	for i, want := range events {
		if !strings.Contains(want, " by ") {
			want += " by key:{caller}"
		}
		want = systemtest.Operation{Body: want}.With(a.ids).Body
		found := regexp.MustCompile("^" + systemtest.Resource.ReplaceAllString(want, `(?P<$1>\w+)`) + "$").FindStringSubmatch(got[i].Text)
		require.True(a.t, found != nil, "%s: %q is not %q", about, got[i].Text, want)
		for n, m := range systemtest.Resource.FindAllStringSubmatch(want, -1) {
			a.ids[m[1]] = found[n+1]
		}
	}
	a.seen = append(a.seen, got...)
}
