package service

import (
	"archive/zip"
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/bench/system/systemtest"
	"muniment.example/bench/waittest"
	"muniment.example/control"
	"muniment.example/control/store"
	"muniment.example/sealer"
)

// rowsOf reads all rows of a database of the running service, by table and the values of its first two
// columns.
func rowsOf(t *testing.T, file string) map[string]map[string]string {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+file+"?_pragma=busy_timeout(5000)&_pragma=query_only(1)")
	require.NoError(t, err)
	defer db.Close()
	query := func(text string, each func(scan func(...any) error, columns []string)) {
		rows, err := db.QueryContext(t.Context(), text)
		require.NoError(t, err, text)
		defer rows.Close()
		columns, err := rows.Columns()
		require.NoError(t, err)
		for rows.Next() {
			each(rows.Scan, columns)
		}
		require.NoError(t, rows.Err())
	}
	var tables []string
	query(`SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'`, func(scan func(...any) error, _ []string) {
		var name string
		require.NoError(t, scan(&name))
		tables = append(tables, name)
	})
	all := map[string]map[string]string{}
	for _, table := range tables {
		query(`SELECT * FROM `+table, func(scan func(...any) error, columns []string) {
			values, into := make([]sql.NullString, len(columns)), make([]any, len(columns))
			for i := range values {
				into[i] = &values[i]
			}
			require.NoError(t, scan(into...))
			row := map[string]string{}
			for i, v := range values {
				if v.Valid {
					row[columns[i]] = v.String
				}
			}
			all[table+" "+values[0].String+" "+values[min(1, len(values)-1)].String] = row
		})
	}
	return all
}

// speaker writes a text that names a person into every member of a request that is free text. Each text
// has a number, by which it is found wherever it stands.
type speaker struct {
	t      *testing.T
	s      *systemtest.Service
	known  map[string]systemtest.Documented
	person string
	said   map[string]string // the text of each member, by operation and member
	ids    map[string]string
}

// tag is the part of a text that is in no other.
func tag(n int) string { return fmt.Sprintf("text%03d.", n) }

// call calls an operation. In the body § stands for a text, {name} for an id. take are the ids in the
// answer that later calls need, by name, with their places.
func (p *speaker) call(operation, body string, take ...string) string {
	p.t.Helper()
	o := p.known[operation].With(p.ids)
	for name, id := range p.ids {
		body = strings.ReplaceAll(body, "{"+name+"}", id)
	}
	if body != "" {
		var value any
		require.NoError(p.t, json.Unmarshal([]byte(body), &value), body)
		text, err := json.Marshal(p.fill(operation+" ", value))
		require.NoError(p.t, err)
		body = string(text)
	}
	o.Body = body
	a := systemtest.Call(p.t, p.s.Client.API, p.s.Client.Key, o)
	require.Equal(p.t, 200, a.Status, "%s: %s", operation, a.Body)
	for i := 0; i < len(take); i += 2 {
		p.ids[take[i]] = systemtest.TextAt(p.t, a.Body, take[i+1])
	}
	return a.Body
}

func (p *speaker) fill(at string, value any) any {
	switch v := value.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			inner := v[name]
			delete(v, name)
			said := name
			if strings.Contains(name, "§") {
				said = strings.ReplaceAll(name, "§", p.fill(at+".name of "+name, "§").(string))
			}
			v[said] = p.fill(at+"."+name, inner)
		}
	case []any:
		for i := range v {
			v[i] = p.fill(at+"[]", v[i])
		}
	case string:
		if v == "§" {
			if p.said[at] == "" {
				p.said[at] = "of " + p.person + ", " + tag(len(p.said))
			}
			return p.said[at]
		}
		if v == p.person {
			p.said[at] = v
		}
	}
	return value
}

// freeTexts lists the members of requests that are free text: strings without a closed list, a format
// or a pattern.
func freeTexts(t *testing.T, s *systemtest.Service) (list []string) {
	t.Helper()
	type schema struct {
		Ref                 string `json:"$ref"`
		Type                any
		Enum                []any
		Format, Pattern     string
		Properties          map[string]json.RawMessage
		Items               json.RawMessage
		OneOf, AnyOf, AllOf []json.RawMessage
	}
	var document struct {
		Paths map[string]map[string]struct {
			OperationID string
			RequestBody struct {
				Content map[string]struct{ Schema json.RawMessage }
			}
		}
		Components struct{ Schemas map[string]json.RawMessage }
	}
	a := systemtest.Call(t, s.Client.API, "", systemtest.Operation{Method: "GET", Path: "/openapi.json"})
	require.NoError(t, json.Unmarshal([]byte(a.Body), &document))
	var walk func(at string, text json.RawMessage)
	walk = func(at string, text json.RawMessage) {
		if len(text) == 0 {
			return
		}
		var x schema
		require.NoError(t, json.Unmarshal(text, &x))
		if _, name, found := strings.Cut(x.Ref, "#/components/schemas/"); found {
			walk(at, document.Components.Schemas[name])
		}
		if types, _ := json.Marshal(x.Type); strings.Contains(string(types), `"string"`) && x.Enum == nil && x.Format == "" && x.Pattern == "" {
			list = append(list, at)
		}
		for name, inner := range x.Properties {
			walk(at+"."+name, inner)
		}
		walk(at+"[]", x.Items)
		for _, inner := range slices.Concat(x.OneOf, x.AnyOf, x.AllOf) {
			walk(at, inner)
		}
	}
	for path, item := range document.Paths {
		for _, o := range item {
			if strings.HasPrefix(path, "/v1/") {
				walk(o.OperationID+" ", o.RequestBody.Content["application/json"].Schema)
			}
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// notTexts are members that are no free text, and why. A name without an operation stands for the
// member in all of them, and an operation for all its members.
var notTexts = map[string]string{
	"rightId": "an id of ours", "basisId": "an id of ours", "parentRightId": "an id of ours", "receiptIds[]": "an id of ours", "counterpartyId": "an id of ours", "statementId": "an id of ours",
	"rejectedIds[]": "an id of ours", "confirmationToken": "ours", "timeZone": "an IANA name", "period": "a date",
	"dry-run-settlement-rule":                     "stores nothing",
	"create-dsar-job .format":                     "JSON if it is unknown, and not stored",
	"erase .dataSubjectId":                        "stored as a hash",
	"invite-member .email":                        "stored as that of the owner for whom the tenant was made",
	"create-beacon .spatialAnchorId":              "not stored: it is in the signed token",
	"ingest-batch .rows[].vendor":                 "the batch's says the same",
	"withdraw-offer .reason":                      "stored as that of reject-offer",
	"withdraw-challenge .reason":                  "stored as that of resolve-challenge",
	"change-counterparty .name":                   "as in create-counterparty",
	"change-settlement-rule .match.campaign":      "as in create-settlement-rule",
	"change-settlement-rule .match.label.name":    "as in create-settlement-rule",
	"change-settlement-rule .match.label.value":   "as in create-settlement-rule",
	"respond-to-dispute .evidence[].text":         "stored beside that of open-dispute",
	"respond-to-dispute .evidence[].references[]": "stored beside that of open-dispute",
}

const anIDOfPlayers = "a vendor's id of players"

// unlisted are columns of control's database that are not in the list, and why.
var unlisted = map[string]string{
	"outbox.event": "on its way to the log", "outbox.private": "on its way to the log", "idempotency.answer": "deleted by an erasure", "link_requests.email": "deleted by a job at once", "member_choices.email": "deleted once the person has chosen",
	"statements.document": "made of permanent records", "proof_packs.header": "made of permanent records",
	"feed.snapshot":         "what nodes apply of a permanent record",
	"mapping_totals.vendor": anIDOfPlayers, "mapping_totals.id_type": anIDOfPlayers,
}

// TestTextsOfPersons: each member of a request that is free text is written, with the name of a person.
// Each column that it is stored in is in the one list. What an erasure would remove an export shows and
// the preview counts, and it is gone after; what stays stands in events that the preview names.
func TestTextsOfPersons(t *testing.T) {
	t.Parallel()
	s := systemtest.NewService(t, "--webhook-allow", "127.0.0.1")
	const person = "Ada.Lovelace@example.org"
	s.Tenant = systemtest.CreateTenant(t, s.Data, "--email", person, "--scope", "*")
	s.Client.Key = s.Tenant.APIKey
	r := systemtest.NewHookReceiver(t)
	r.Answers(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintf(w, "thank you, %s.", person) })
	p := &speaker{t: t, s: s, known: systemtest.Document(t, s.Server), person: person, said: map[string]string{}, ids: map[string]string{}}
	p.journey(r.URL)
	for _, at := range freeTexts(t, s) {
		operation, member, _ := strings.Cut(at, " ")
		last := member[strings.LastIndex(member, ".")+1:]
		if notTexts[at] == "" && notTexts[last] == "" && notTexts[operation] == "" {
			require.NotEmpty(t, p.said[at], "no request says %s", at)
		}
	}
	waittest.Until(t, func() bool { return s.Query("control.db", "SELECT COUNT(*) FROM outbox") == 0 }, "all events are in the log")
	s.Seal()
	waittest.Until(t, func() bool {
		return s.Query("control.db", "SELECT COUNT(*) FROM webhook_deliveries WHERE state = 'DELIVERED' AND event_type = 'right.revoked'") > 0 && s.Query("control.db", "SELECT COUNT(*) FROM webhook_deliveries WHERE state = 'PENDING'") == 0
	}, "the receiver has answered")

	// Where is it stored?
	columns := map[string][]string{} // the places of each text
	personal, public, kept := map[string]*store.Personal{}, map[string]bool{}, map[string]bool{}
	for _, table := range control.Tables {
		for _, path := range table.Public {
			c, _, _ := strings.Cut(path, ".")
			public[table.Name+"."+c] = true
		}
		if p := table.Personal; p != nil {
			for _, c := range slices.Concat(p.Person, p.Persons, p.Text, p.Related) {
				personal[table.Name+"."+c] = p
			}
			for _, path := range p.JSON {
				c, _, _ := strings.Cut(path, ".")
				personal[table.Name+"."+c] = p
			}
			for _, c := range p.Kept {
				kept[table.Name+"."+c] = true
			}
		}
	}
	counts := map[string]int{}
	for name, row := range rowsOf(t, filepath.Join(s.Data, "control.db")) {
		table, _, _ := strings.Cut(name, " ")
		kind := ""
		for column, value := range row {
			if !strings.Contains(strings.ToLower(value), strings.ToLower(person)) {
				continue
			}
			at := table + "." + column
			require.True(t, personal[at] != nil || public[at] || kept[at] || unlisted[at] != "", "%s holds %s, and is not listed", at, value)
			columns[value] = append(columns[value], at)
			if personal[at] != nil {
				kind = personal[at].Kind
			}
		}
		if kind != "" {
			counts[kind]++
		}
	}
	for name, p := range personal {
		if name == "webhook_deliveries.attempts" { // of a receiver that only the operator allows: control/webhook/TestPersonsAreErased has others
			require.Zero(t, counts[p.Kind], "its response is not kept")
			continue
		}
		require.Greater(t, counts[p.Kind]+boolInt(strings.HasPrefix(name, "access_") || strings.HasPrefix(name, "outbox.")), 0, "nothing is said in %s", name)
	}

	// Events that will still name the person.
	permanent, permanentTexts := map[string]int{}, ""
	for _, text := range systemtest.TextsIn(t, filepath.Join(s.Data, "warehouse.db")) {
		if strings.Contains(strings.ToLower(text.Event), strings.ToLower(person)) {
			permanent[systemtest.Parse[struct{ Type string }](t, text.Event).Type]++
			permanentTexts += text.Event
		}
	}
	preview := func() (c systemtest.ErasureCounts) {
		a := systemtest.Call(t, s.Client.API, s.Client.Key, systemtest.Operation{Method: "POST", Path: "/v1/compliance/erase", Body: fmt.Sprintf(`{"dataSubjectId":%q}`, strings.ToUpper(person))})
		require.Equal(t, 412, a.Status, a.Body)
		return systemtest.Parse[struct{ Preview systemtest.ErasureCounts }](t, a.Body).Preview
	}
	for name, row := range rowsOf(t, filepath.Join(s.Data, "control.db")) {
		if table, _, _ := strings.Cut(name, " "); table == "held_rows" && strings.Contains(strings.ToLower(row["vendor_id"]), strings.ToLower(person)) {
			permanent["heldRow"]++
		}
	}
	require.Equal(t, 1, permanent["heldRow"])
	seen := preview()
	require.Equal(t, counts, seen.Records)
	require.Equal(t, permanent, seen.Permanent)
	require.Positive(t, seen.PrivateParts)

	// The export.
	exported := s.Exported(s.Export(map[string]any{"scope": map[string]any{"kind": "DATA_SUBJECT", "dataSubjectId": strings.ToLower(person)}, "format": "NDJSON"}))
	require.Equal(t, "READY", exported.State)
	bundles, err := filepath.Glob(filepath.Join(s.Data, "bundles", s.Tenant.TenantID, strings.TrimPrefix(exported.ID, "dsar:")+"-*.zip"))
	require.NoError(t, err)
	require.Len(t, bundles, 1)
	shown := map[string]int{}
	var mentioned strings.Builder
	for line := range strings.Lines(section(t, bundles[0], "mentions.ndjson")) {
		m := systemtest.Parse[store.Mention](t, line)
		shown[m.Kind+" "+m.ID]++
		mentioned.WriteString(m.Text + "\n")
	}
	kinds := map[string]int{}
	for row := range shown {
		kind, _, _ := strings.Cut(row, " ")
		kinds[kind]++
	}
	counts["dsarJob"]++ // this export
	require.Equal(t, counts, kinds)

	done := systemtest.Erased(t, s.Server, s.Client.Key, person)
	require.Equal(t, counts, done.Counts.Records)
	require.Equal(t, permanent, done.Counts.Permanent)
	for _, n := range slices.Sorted(maps.Keys(permanent)) {
		require.Contains(t, done.Certificate, fmt.Sprintf(`"%s":%d`, n, permanent[n]))
	}
	again := preview()
	require.Empty(t, again.Records)
	require.Zero(t, again.PrivateParts)
	require.Equal(t, permanent, again.Permanent)
	for at, text := range p.said {
		var inPersonal, anID bool
		for value, places := range columns {
			for _, place := range places {
				if strings.Contains(value, text) {
					inPersonal, anID = inPersonal || personal[place] != nil, anID || kept[place] || unlisted[place] == anIDOfPlayers
				}
			}
		}
		switch {
		case anID || strings.Contains(permanentTexts, text):
			continue
		case inPersonal:
			require.Contains(t, mentioned.String(), text, at)
		}
		require.Empty(t, systemtest.Holding(t, s.Data, text, "log"), "%s is left", at)
	}
	for name, row := range rowsOf(t, filepath.Join(s.Data, "control.db")) {
		table, _, _ := strings.Cut(name, " ")
		for column, value := range row {
			if p := personal[table+"."+column]; p != nil {
				members := []string{}
				for _, path := range p.JSON {
					if in, member, _ := strings.Cut(path, "."); in == column {
						members = append(members, member)
					}
				}
				if len(members) > 0 {
					texts := ""
					require.NoError(t, store.EachText(value, members, func(text string) { texts += text }))
					value = texts
				}
				require.NotContains(t, strings.ToLower(value), strings.ToLower(person), "%s.%s", table, column)
			}
		}
	}
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// section reads a file of a bundle.
func section(t *testing.T, bundle, name string) string {
	t.Helper()
	r, err := zip.OpenReader(bundle)
	require.NoError(t, err)
	defer r.Close()
	f, err := r.Open(name)
	require.NoError(t, err)
	text, err := io.ReadAll(f)
	require.NoError(t, err)
	return string(text)
}

// journey calls the operations.
func (p *speaker) journey(hook string) {
	p.t.Helper()
	now := time.Now().UTC()
	at := func(d time.Duration) string { return now.Add(d).Format(time.RFC3339) }
	p.call("create-api-key", `{"label": "§", "scopes": ["rights:read"]}`)
	p.call("create-basis", `{"kind": "LICENSE", "title": "§", "jurisdiction": "§", "reference": "§"}`, "basisId", "data.basis.id")
	right := fmt.Sprintf(`{"basisId": "{basisId}", "substrate": "DOOH", "scope": "§", "effectiveFrom": %q}`, at(-48*time.Hour))
	for _, scope := range []string{`{"labels": {"§": "owner"}}`, `{"x-§": 1}`, `{"labels": {"owner": "§"}, "x-note": [{"by": "§", "§": 1}], "campaigns": ["§"], "description": "§"}`} {
		p.call("issue-right", strings.Replace(right, `"§"`, scope, 1))
	}
	p.call("issue-right", right, "rightId", "data.right.id")
	p.call("suspend-right", `{"reason": "§"}`)
	p.call("resume-right", `{"reason": "§"}`)
	offer := `{"rightId": "{rightId}", "toOrgId": "org_b", "scope": "§", "termsRef": "§"}`
	p.call("propose-offer", offer, "offerId", "data.offer.id")
	p.call("reject-offer", `{"reason": "§"}`)
	p.call("propose-offer", offer, "offerId", "data.offer.id")
	p.call("counter-offer", `{"scope": "§", "termsRef": "§"}`)
	p.call("open-challenge", `{"rightId": "{rightId}", "challengerOrgId": "org_c", "reason": "§"}`, "challengeId", "data.challenge.id")
	p.call("resolve-challenge", `{"upheld": false, "resolution": "§"}`)
	p.call("create-mapping", fmt.Sprintf(`{"vendor": "§", "idType": "§", "vendorId": "§", "target": {"rightId": "{rightId}", "spatialAnchorId": "§", "spatialPlacementId": "§"}, "effectiveFrom": %q}`, at(-48*time.Hour)))
	p.call("create-counterparty", `{"name": "§", "kind": "OTHER", "legalName": "§", "address": "§", "email": "§", "payoutRef": "§", "currency": "EUR", "taxId": "§"}`, "counterpartyId", "data.counterparty.id")
	p.call("change-counterparty", `{"name": "a studio", "kind": "OTHER", "legalName": "§", "address": "§", "email": "§", "payoutRef": "§", "currency": "EUR", "taxId": "§"}`)
	p.call("set-issuer", `{"legalName": "§", "address": "§", "taxId": "§", "email": "§", "note": "§"}`)
	p.call("invite-member", `{"email": "somebody@example.org", "name": "§", "role": "viewer"}`)
	p.call("create-webhook", fmt.Sprintf(`{"url": %q, "events": ["right.*"], "description": "§"}`, hook), "webhookId", "data.webhook.id")
	p.call("change-webhook", `{"description": "§"}`)

	telemetry := `"telemetry": {"beamId": "§", "bvlosWaiverId": "§", "coverageCellId": "§", "footprintRegion": "§", "groundStationId": "§", "spectrumBand": "§"}`
	p.call("observe-delivery", `{"rightId": "{rightId}", "spatialAnchorId": "§", "spatialPlacementId": "§", "correlationId": "§", "dwellMs": 5000, "dataSubjectId": "`+p.person+`", "dataSubjectIds": ["`+p.person+`", "somebody"], `+telemetry+`}`, "receiptId", "data.receipt.receiptId")
	answer := p.call("ingest-batch", fmt.Sprintf(`{"vendor": "§", "rows": [
		{"rowId": "row-1", "rightId": "{rightId}", "spatialAnchorId": "§", "spatialPlacementId": "§", "correlationId": "§", "playedAt": %[1]q, "dwellMs": 5000, "dataSubjectId": %[2]q, "dataSubjectIds": [%[2]q], %[3]s},
		{"rowId": "§", "idType": "§", "vendorId": "§", "spatialPlacementId": "§", "correlationId": "§", "playedAt": %[1]q, "dwellMs": 5001, "dataSubjectId": %[2]q, %[3]s}]}`, at(-time.Hour), p.person, telemetry))
	require.Contains(p.t, answer, `"status":"accepted"`)
	require.Contains(p.t, answer, `"status":"unmapped"`)
	p.s.Seal()
	p.call("open-dispute", `{"receiptIds": ["{receiptId}"], "reason": "§", "evidence": [{"text": "§", "references": ["§"]}]}`, "disputeId", "data.dispute.id")
	p.call("resolve-dispute", `{"outcome": "REJECTED", "resolution": "§"}`)

	p.call("create-settlement-rule", `{"match": {"campaign": "§", "label": {"name": "§", "value": "§"}}, "unit": "EVENT", "price": "1", "currency": "EUR", "minimum": "1", "shares": [{"counterpartyId": "{counterpartyId}", "bps": 10000}], "effectiveFrom": "2026-01-01"}`)
	p.call("draft-statement", fmt.Sprintf(`{"from": "2026-01-01", "to": %q, "currency": "EUR"}`, at(0)), "statementId", "data.statement.id")
	p.call("issue-statement", "")
	p.call("settle-statement", `{"reference": "§"}`)
	p.call("void-statement", `{"reason": "§"}`)
	p.call("create-api-key", `{"label": "players", "scopes": ["delivery:write"]}`, "playerKey", "data.apiKey")
	p.reject("§")

	p.call("create-dsar-job", fmt.Sprintf(`{"scope": {"kind": "TENANT_SLICE", "windowStart": %q, "windowEnd": %q, "campaignIds": ["§"]}, "requestedBy": "§", "requestNotes": "§"}`, at(-time.Hour), at(0)), "jobId", "data.job.id")
	p.call("cancel-dsar-job", `{"reason": "§"}`)
	p.call("create-dsar-job", `{"scope": {"kind": "DATA_SUBJECT", "dataSubjectId": "`+p.person+`"}}`, "jobId", "data.job.id")
	p.call("cancel-dsar-job", `{"reason": "§"}`)
	p.call("revoke-right", `{"reason": "§"}`)
}

// reject has a player post a play that is too old, and one without a duration, which can't be made a row.
func (p *speaker) reject(text string) {
	p.t.Helper()
	body := fmt.Sprintf(`{"api_key": %[1]q, "player_id": 9, "pop": [[71, 5, 1, %[2]q, 51, 52, 1, 0, "2020-01-01T00:00:00.000", 5000, "", "", ""],
		[71, 5, 1, %[2]q, 51, 52, 1, 0, "2020-01-01T00:00:00.000", null, "", "", ""]]}`, p.ids["playerKey"], p.fill("broadsign .pop[].ad_copy_id", text))
	waittest.Until(p.t, func() bool {
		a := systemtest.Call(p.t, p.s.Client.API, "", systemtest.Operation{Method: "POST", Path: "/adapters/broadsign?tz=UTC", Body: body})
		return a.Status == 200 && strings.Contains(a.Body, `"rejected":2`)
	}, "the node knows the players' key, and rejects the play")
}

// TestThirtyPersons erases persons with short, common and odd references beside others who have a part
// of them in theirs. Each loses its own records, byte for byte; nobody else's change.
func TestThirtyPersons(t *testing.T) {
	t.Parallel()
	erased := []string{
		"1", "31", "e", "tnt", "a b", "a@example.org", "Bob@Example.ORG", "x.y", "x", "null", "true", "dsar", "key", "org", "%", "_", `\`, "'", `"quoted"`, "a.*b",
		"(?i)c", "[0-9]+", "🙂", "👩‍💻", "Jose\u0301", "ß", "İ@x.org", "0", "-", "..",
	}
	others := []string{
		"11", "131", "ee", "tnt_a", "ab", "b+a@example.org", "a@example.orgs", "xbob@example.org", "x.y.z", "xx", "nulls", "untrue", "dsar-x", "key_31", "org_x", "percent", "under_score",
		`b\ack`, "it's", `un"quoted"s`, "axxb", "c", "12345", "xz", "👩", "Jose", "ss", "i@x.org", "00", "a..b",
	}
	require.Len(t, erased, 30)
	require.Len(t, others, 30)
	s := systemtest.NewService(t)
	s.Tenant = systemtest.CreateTenant(t, s.Data, "--scope", "*")
	s.Client.Key = s.Tenant.APIKey
	s.Rights = systemtest.IssueRights(t, s.Client)
	records, payees := map[string]string{}, []string{} // whose they are, by id
	for i, who := range slices.Concat(erased, others) {
		var held struct{ Results []struct{ HeldID string } }
		s.Post("/v1/delivery/ingest-batch", map[string]any{"vendor": "acme", "rows": []any{map[string]any{
			"rowId": fmt.Sprintf("row-%d", i), "idType": "player", "vendorId": "player-1", "playedAt": time.Now().UTC().Format(time.RFC3339), "dwellMs": 5000, "dataSubjectId": who,
			"correlationId": "for " + who, "telemetry": map[string]any{"viewable": true},
		}}}, &held)
		records[held.Results[0].HeldID] = who
		var payee struct{ Counterparty struct{ ID string } }
		s.Post("/v1/settlement/counterparties", map[string]any{"name": fmt.Sprint("payee ", i), "kind": "OTHER", "currency": "EUR", "payoutRef": "IBAN of " + who + ".", "taxId": who,
			"legalName": "Studio of " + who, "address": "care of " + who + "\nBerlin", "email": mailOf(who)}, &payee)
		records[payee.Counterparty.ID] = who
		payees = append(payees, payee.Counterparty.ID)
		var made struct{ Job systemtest.Exported }
		s.Post("/v1/compliance/dsar", map[string]any{"scope": map[string]any{"kind": "TENANT_FULL"}, "requestedBy": "desk of " + who, "requestNotes": "(" + who + ")"}, &made)
		s.Post("/v1/compliance/dsar/"+made.Job.ID+"/cancel", map[string]any{"reason": "not for " + who}, nil)
		records[made.Job.ID] = who
		var shown struct{ Receipt struct{ ReceiptID string } }
		s.Post("/v1/delivery", map[string]any{"rightId": s.Rights["CTV"], "spatialAnchorId": "screen-1", "dwellMs": 5000, "dataSubjectId": who, "telemetry": map[string]any{"viewable": true}}, &shown)
		records["evt_"+strings.TrimPrefix(shown.Receipt.ReceiptID, "rcp_")] = who
	}
	all := slices.Concat(erased, others)
	payables := map[string][2]string{} // who is named by the recipient and by the issuer, who is another
	for i, who := range all {
		contact := all[(i+1)%len(all)]
		require.NoError(t, s.Client.Do(t.Context(), "PUT", "/v1/settlement/issuer", map[string]any{
			"legalName": "Screens", "address": "at " + contact + ".", "email": mailOf(contact), "note": "Questions? Write to " + contact + "!",
		}, nil))
		var draft struct{ Statement struct{ ID string } }
		s.Post("/v1/settlement/statements", map[string]any{"from": "2026-01-01", "to": "2026-02-01", "currency": "EUR", "counterpartyId": payees[i]}, &draft)
		s.Post("/v1/settlement/statements/"+draft.Statement.ID+"/issue", map[string]any{}, nil)
		var list struct{ Payables []struct{ ID string } }
		require.NoError(t, s.Client.Do(t.Context(), "GET", "/v1/settlement/payables?statementId="+draft.Statement.ID, nil, &list))
		require.Len(t, list.Payables, 1)
		payables[list.Payables[0].ID] = [2]string{who, contact}
	}
	random := rand.New(rand.NewPCG(3, 4))
	together := map[string]bool{} // deliveries to several
	for range 40 {
		var named []string
		for _, n := range random.Perm(len(all))[:random.IntN(9)] {
			named = append(named, all[n])
		}
		var shown struct{ Receipt struct{ ReceiptID string } }
		s.Post("/v1/delivery", map[string]any{"rightId": s.Rights["CTV"], "spatialAnchorId": "screen-1", "dwellMs": 5000, "dataSubjectIds": named, "telemetry": map[string]any{"viewable": true}}, &shown)
		together["evt_"+strings.TrimPrefix(shown.Receipt.ReceiptID, "rcp_")] = true
	}
	var bundled []string
	for _, who := range []string{others[0], others[5], erased[1]} {
		exported := s.Exported(s.Export(map[string]any{"scope": map[string]any{"kind": "DATA_SUBJECT", "dataSubjectId": who}}))
		bundled, records[exported.ID] = append(bundled, exported.ID), who
	}
	systemtest.SealAndExport(t, s.Client)
	waittest.Until(t, func() bool { return s.Query("control.db", "SELECT COUNT(*) FROM outbox") == 0 }, "all events are in the log")
	s.Seal()

	files := func() map[string]string {
		all := map[string]string{}
		for _, folder := range []string{"packs", "bundles"} {
			require.NoError(t, filepath.WalkDir(filepath.Join(s.Data, folder), func(path string, entry os.DirEntry, err error) error {
				if err == nil && !entry.IsDir() {
					all[strings.TrimPrefix(path, s.Data)] = string(systemtest.ReadFile(t, path))
				}
				return err
			}))
		}
		return all
	}
	beforeFiles, before, privateBefore := files(), otherRows(t, s.Data), privateParts(t, s)
	hashes := map[string]string{}
	for _, who := range erased {
		done := systemtest.Erased(t, s.Server, s.Client.Key, who)
		hashes[who] = done.SubjectHash
		require.Equal(t, 1, done.Counts.Records["heldRow"], who)
		require.Equal(t, 1, done.Counts.Records["counterparty"], who)
		require.Equal(t, 1, done.Counts.Records["dsarNote"], who)
		require.Equal(t, 2, done.Counts.Records["payable"], who)
	}
	require.Len(t, hashes, 30)
	owner := func(row map[string]string) string {
		for _, id := range []string{"held_id", "counterparty_id", "job_id", "event_id"} {
			if who := records[row[id]]; who != "" {
				return who
			}
		}
		return ""
	}
	after := otherRows(t, s.Data)
	require.Equal(t, slices.Sorted(maps.Keys(before)), slices.Sorted(maps.Keys(after)))
	changed := 0
	for name, was := range before {
		hash := hashes[owner(was)]
		want := maps.Clone(was)
		table, _, _ := strings.Cut(name, " ")
		switch named := payables[was["payable_id"]]; {
		case table == "payables":
			for n, column := range []string{"recipient", "issuer"} {
				want[column] = withoutPerson(t, was[column], named[n], hashes[named[n]])
			}
		case table == "issuers": // that of the last
			for _, column := range []string{"address", "note"} {
				delete(want, column) // it is null
			}
		case hash != "":
			changed++
			replace := map[string][]string{"counterparties": {"payout_ref", "tax_id", "legal_name", "address", "email"}, "dsar_jobs": {"data_subject_id", "requested_by", "request_notes"}, "dsar_timeline": {"notes"}}[table]
			for _, column := range replace {
				if was[column] != "" && was[column] != mailOf("") && !strings.HasPrefix(was[column], "dev_") && was["actor"] != "control" {
					want[column] = hash
				}
				if table == "counterparties" && want[column] == hash {
					delete(want, column) // it is null
				}
			}
			if table == "held_rows" {
				want["data_subjects"], want["telemetry"], want["content_hash"] = "", "", ""
				want["row_text"] = strings.Replace(was["row_text"], quoted(t, "for "+owner(was)), quoted(t, hash), 1)
			}
		}
		if owner(was) == erased[1] && was["bundle_store_key"] != "" { // the bundle is gone
			continue
		}
		require.Equal(t, want, after[name], "%s of %q", name, owner(was))
	}
	require.Greater(t, changed, 30*4)
	privateAfter := privateParts(t, s)
	for event, private := range privateBefore {
		of, _, _ := strings.Cut(event, " ")
		if named, ok := payables[of]; ok {
			requireNotes(t, private, privateAfter[event], map[string]bool{"recipient": hashes[named[0]] != "", "issuer": hashes[named[1]] != ""})
			continue
		}
		if together[of] {
			left, err := sealer.Forget([]byte(private), func(reference string) bool { return slices.Contains(erased, reference) })
			require.NoError(t, err)
			require.Equal(t, string(left), privateAfter[event], "exactly the erased are gone, the others stay")
			continue
		}
		if hash := hashes[records[of]]; hash != "" {
			require.Empty(t, privateAfter[event], "of %q", records[of])
		} else {
			require.Equal(t, private, privateAfter[event], "of %q", records[of])
		}
	}
	afterFiles := files()
	for name, was := range beforeFiles {
		if strings.Contains(name, strings.TrimPrefix(bundled[2], "dsar:")) {
			require.NotContains(t, afterFiles, name)
			continue
		}
		require.Equal(t, was == afterFiles[name], true, name)
	}
}

// mailOf is the person, or an address of nobody if that is no address.
func mailOf(who string) string {
	if strings.Contains(who, "@") {
		return who
	}
	return "info@example.net"
}

// withoutPerson is a column with a party whose texts that name a person are replaced; an empty hash replaces
// none.
func withoutPerson(t *testing.T, party, who, hash string) string {
	t.Helper()
	if hash == "" {
		return party
	}
	next, err := store.ReplaceTexts(party, []string{"*"}, func(_, text string) (string, bool) { return hash, sealer.NewPerson(who).In(text) })
	require.NoError(t, err)
	require.NotEqual(t, party, next, who)
	return next
}

// requireNotes checks the notes in a private part: of those that are gone is a hash left, of the others each
// byte.
func requireNotes(t *testing.T, before, after string, gone map[string]bool) {
	t.Helper()
	type part struct{ Notes map[string]json.RawMessage }
	was := systemtest.Parse[part](t, before)
	if !slices.Contains(slices.Collect(maps.Values(gone)), false) {
		require.Empty(t, after)
		return
	}
	left := systemtest.Parse[part](t, after)
	require.Len(t, left.Notes, len(gone))
	for name, erased := range gone {
		if !erased {
			require.Equal(t, string(was.Notes[name]), string(left.Notes[name]))
		}
	}
	var commitments []string
	for _, private := range []string{before, after} {
		p, err := sealer.ParsePrivate([]byte(private))
		require.NoError(t, err)
		commitments = append(commitments, p.Commitment())
	}
	require.Equal(t, commitments[0], commitments[1], "it is still that of the event")
}

func quoted(t *testing.T, text string) string {
	t.Helper()
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	require.NoError(t, e.Encode(text))
	return strings.TrimSpace(b.String())
}

// running are the tables that a running service writes, and those of erasures themselves.
var running = []string{"erasures", "tombstones", "outbox", "jobs", "counters", "proof_merges", "proof_merged", "high_water", "node_polls", "webhook_cursors", "probe", "key_uses", "refused_requests"}

// otherRows are the rows of control's database that a request changes.
func otherRows(t *testing.T, data string) map[string]map[string]string {
	t.Helper()
	all := rowsOf(t, filepath.Join(data, "control.db"))
	maps.DeleteFunc(all, func(name string, _ map[string]string) bool {
		table, _, _ := strings.Cut(name, " ")
		return slices.Contains(running, table)
	})
	return all
}

// privateParts are those in the warehouse, by event; of an event about a DSAR job or a payable, by that and
// the event.
func privateParts(t *testing.T, s *systemtest.Service) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, text := range systemtest.TextsIn(t, filepath.Join(s.Data, "warehouse.db")) {
		e := systemtest.Parse[struct {
			EventID, Type string
			Subject       struct{ ID string }
		}](t, text.Event)
		if e.Subject.ID != "" && (strings.HasPrefix(e.Type, "dsar.") || strings.HasPrefix(e.Type, "payable.")) {
			all[e.Subject.ID+" "+e.EventID] = text.Private
			continue
		}
		all[e.EventID] = text.Private
	}
	return all
}
