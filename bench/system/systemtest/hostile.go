package systemtest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/bench/system"
	"muniment.example/control/access"
	"muniment.example/control/sandbox"
	"muniment.example/gateway/api"
)

// Operation is a route of the contract: the scope it needs, if any, and a body that
// it takes. {names} in path and body stand for ids of resources.
type Operation struct {
	Id, Method, Path, Scope, Body string
	bodiless                      bool     // the body may be left out, and so may all of its members
	Filters                       []string // parameters that narrow a list to what belongs to one resource
	Effects                       []Effect
}

// Effect is what an operation does that needs more than its scope.
type Effect struct {
	// Scope is what it needs; empty if that depends on the request.
	Scope string
	// Always says that the operation never goes without.
	Always bool
}

// Operations are those of the service's OpenAPI document that take a key, or none, in
// the order of their ids.
// What is new in the contract is attacked as well: a parameter, or an id in a body, of
// which it is not known here what it names, fails the test.
func Operations(t *testing.T, server *system.Server) []Operation {
	return OperationsOf(t, server, false)
}

// OperationsOf are the sandbox's operations, which take a cookie, or those besides.
func OperationsOf(t *testing.T, server *system.Server, visitors bool) (all []Operation) {
	known := Document(t, server)
	for _, id := range slices.Sorted(maps.Keys(known)) {
		o := known[id].Operation
		if sandbox.Owns(o.Path) != visitors || id == "download-bundle" || strings.HasPrefix(o.Path, access.Base+"/") { // whose token opens it: TestBundleOfAService, control's TestAccessRefusals
			continue
		}
		for _, p := range known[id].parameters {
			switch {
			case p.In == "path":
				require.Contains(t, Resources, p.Name, "%s: parameter of unknown meaning", id)
			case p.Required:
				require.Contains(t, Resources, p.Name, "%s: parameter of unknown meaning", id)
				o.Path += "?" + p.Name + "={" + p.Name + "}" // of those that are here, none has two
			case slices.Contains(plain, p.Name):
			default:
				require.Contains(t, Resources, p.Name, "%s: parameter of unknown meaning", id)
				o.Filters = append(o.Filters, p.Name)
			}
		}
		var body bytes.Buffer
		if example := known[id].Shown.Request; example != nil {
			require.NoError(t, json.Compact(&body, example))
		}
		o.Body = body.String()
		for name, form := range OfOurs {
			o.Body = form.ReplaceAllString(o.Body, "{"+name+"}")
		}
		if id == "create-api-key" {
			o.Body = `{"label":"x","scopes":["keys:write"]}` // a key can give no scopes that it lacks
		}
		if id == "create-beacon" { // that of the document has ended some time
			o.Body = fmt.Sprintf(`{"rightId":"{rightId}","spatialAnchorId":"a","expiresAt":%q,"maxReceiptsPerHour":1}`, time.Now().Add(time.Hour).Format(time.RFC3339))
		}
		if id == "create-dsar-job" {
			o.Body = NewExport
		}
		if id == "open-dispute" { // which names receipts or a right: control's TestDisputes requests foreign receipts
			o.Body = NewDispute
		}
		if id == "ingest-batch" { // that of the document is of a day that is too long ago some time
			o.Body = fmt.Sprintf(`{"rows":[{"rowId":"1","rightId":"{rightId}","spatialAnchorId":"a","playedAt":%q,"dwellMs":1500}]}`, time.Now().Add(-time.Hour).Format(time.RFC3339))
		}
		if id == "draft-statement" { // with the row of that batch
			o.Body = fmt.Sprintf(`{"from":%q,"to":%q,"currency":"EUR","counterpartyId":"{counterpartyId}"}`, time.Now().Add(-24*time.Hour).Format(time.RFC3339), time.Now().Format(time.RFC3339))
		}
		for _, name := range known[id].bodyIDs {
			if free.MatchString(name) {
				continue
			}
			require.Contains(t, Resources, name, "%s: member of unknown meaning", id)
			if !strings.Contains(o.Body, `"`+name+`":`) {
				o.Body = strings.TrimSuffix(o.Body, "}") + `,"` + name + `":"{` + name + `}"}`
			}
		}
		all = append(all, o)
	}
	require.NotEmpty(t, all)
	return all
}

// Resources are the ids that parameters and members take, and of which resources.
var Resources = map[string][]string{
	"basisId": {"basisId"}, "rightId": {"rightId"}, "parentRightId": {"rightId"}, "offerId": {"offerId"}, "challengeId": {"challengeId"}, "disputeId": {"disputeId"},
	"keyId": {"keyId"}, "packId": {"packId"}, "from": {"packId"}, "receiptId": {"receiptId"}, "actorId": {"keyId"}, "mappingId": {"mappingId"}, "webhookId": {"webhookId"}, "counterpartyId": {"counterpartyId"}, "statementId": {"statementId"}, "payableId": {"payableId"}, "payeeLinkId": {"payeeLinkId"}, "corrects": {"statementId"}, "ruleId": {"ruleId"}, "erasureId": {"erasureId"}, "jobId": {"jobId"}, "deliveryId": {"deliveryId"}, "memberId": {"memberId"},
	"subjectId": {"basisId", "rightId", "offerId", "challengeId", "disputeId", "keyId", "packId", "receiptId"},
}

// plain are optional parameters that name no resource.
var plain = []string{"reason", "meteringBasis",
	"Accept-Encoding", "actorKind", "after", "asOf", "before", "bom", "bucket", "by", "checkpoint", "code", "cursor", "format", "from", "Idempotency-Key", "limit", "number", "order", "payee", "Range", "rule",
	"correlationId", "currency", "dueBy", "dueSince", "endsAfter", "endsBy", "idType", "issuedBy", "issuedSince", "overdue", "plays", "receiptIdEnd", "spatialAnchorId", "state", "table", "vendor", "vendorId", "subjectKind", "substrate", "timeZone", "to", "type", "upTo",
	"bases", "challenges", "events", "offers", "packs", "rights", // cursors of the sandbox's inspection
}

// free are the members that hold ids of the caller's own making: of organisations, and
// of what was observed. receiptIds of a dispute exclude its rightId. For rejected plays of another tenant see
// ingest/TestRejectedPlays.
var free = regexp.MustCompile(`OrgId$|^(beam|bvlosWaiver|correlation|coverageCell|dataSubject|groundStation|org|row|tax|spatialAnchor|spatialPlacement|vendor)Id$|^(campaign|dataSubject|receipt|rejected)Ids$`)

// Resource finds the names in paths and bodies.
var Resource = regexp.MustCompile(`{(\w+)}`)

// With puts ids in for the names.
func (o Operation) With(ids map[string]string) Operation {
	fill := func(text string) string {
		return Resource.ReplaceAllStringFunc(text, func(name string) string {
			if id, ok := ids[strings.Trim(name, "{}")]; ok {
				return id
			}
			return name
		})
	}
	o.Path, o.Body = fill(o.Path), fill(o.Body)
	return o
}

// AmongFaults says that an id which the tenant doesn't have is one of the faults of the
// operation's body, and no resource that is missing.
func (o Operation) AmongFaults(name string) bool {
	return (strings.HasSuffix(o.Id, "-settlement-rule") || o.Id == "draft-statement" || o.Id == "settle-statement" || o.Id == "create-payee-link" && name == "counterpartyId") && !strings.Contains(o.Path, "{"+name+"}")
}

// Names are the resources that the operation refers to.
func (o Operation) Names() (names []string) {
	for _, m := range Resource.FindAllStringSubmatch(o.Path+o.Body, -1) {
		names = append(names, m[1])
	}
	return names
}

// Refusal is the contract's error envelope.
type Refusal struct {
	OK                       *bool
	Error                    api.Code
	Message, ContractVersion string
	RequestID                string
	RequiredScopes           []string
	KeyScopes                []string
}

// Refused requires the envelope of an error.
func (a Response) Refused(t *testing.T, status int, code api.Code, about string) Refusal {
	t.Helper()
	require.Equal(t, status, a.Status, "%s: %s", about, a.Body)
	var r Refusal
	require.NoError(t, json.Unmarshal([]byte(a.Body), &r), about)
	require.NotNil(t, r.OK, about)
	require.False(t, *r.OK, about)
	require.Equal(t, code, r.Error, about)
	require.Equal(t, api.ContractVersion, r.ContractVersion, about)
	require.Equal(t, "same", r.RequestID, about)
	require.NotEmpty(t, r.Message, about)
	return r
}
