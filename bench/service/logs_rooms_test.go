package service

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/bench/system"
	"muniment.example/bench/system/systemtest"
	"muniment.example/bench/waittest"
)

// inBulk plants secrets in batches, in mappings and rows that wait for them, and in beacons.
func (w *teller) inBulk() {
	played := time.Now().UTC().Add(-time.Hour).Format(time.RFC3339)
	row := func(what string) string {
		return fmt.Sprintf(`{"rowId":%q,"correlationId":%q,"dataSubjectId":%q,"playedAt":%q,"dwellMs":8000,"telemetry":%s,%s}`,
			w.plant("row id"), w.plant("correlation of a row"), w.plant("person of a row"), played, w.telemetry(""), what)
	}
	dooh, vendor, player := fmt.Sprintf(`"rightId":%q,"spatialAnchorId":%q`, w.rights["DOOH"], w.plant("anchor of a row")), w.plant("vendor"), w.plant("vendor's id")
	unmapped := fmt.Sprintf(`"idType":"player","vendorId":%q`, player)
	batch := func(rows ...string) string {
		return fmt.Sprintf(`{"vendor":%q,"rows":[%s]}`, vendor, strings.Join(rows, ","))
	}
	const ingest, mappings = "/v1/delivery/ingest-batch", "/v1/delivery/mappings"
	rows := []string{row(dooh), row(unmapped), row(fmt.Sprintf(`"rightId":%q`, w.plant("right of a row"))), row(dooh + `,"dwell":"` + w.plant("unknown member") + `"`), `{"rowId":"` + w.plant("broken row") + `"`}
	answer := w.send("POST", ingest, w.bearer, batch(rows[:4]...), "Idempotency-Key", w.plant("key of a batch"))
	for _, status := range []string{"accepted", "unmapped", "rejected"} {
		require.Contains(w.t, answer, `"status":"`+status+`"`)
	}
	w.send("POST", ingest, w.bearer, batch(rows[:4]...))
	w.send("POST", ingest, w.bearer, batch(rows...))
	w.send("POST", ingest, w.bearer, strings.Repeat(batch(rows[0])+"\n", 2))
	w.send("POST", ingest+"?format="+w.plant("format"), w.bearer, batch(rows[0]))
	w.send("POST", ingest+"?format=csv&tz=UTC&vendor=x&idType=y&column.playedAt=Start&column.dwellMs=Length&column.vendorId=Screen", w.bearer,
		"Start,Length,Screen,"+w.plant("column")+"\n"+played+",8000,"+w.plant("screen")+",x\n"+w.plant("no time")+",8000,1,x\n")

	mapping := func(id, more string) string {
		return fmt.Sprintf(`{"vendor":%q,"idType":"player","vendorId":%q,"effectiveFrom":"2026-01-01","target":{%s}%s}`, vendor, id, dooh, more)
	}
	require.Contains(w.t, w.send("POST", mappings, w.bearer, mapping(player, "")), `"mapping"`)
	require.Contains(w.t, w.send("POST", mappings, w.bearer, mapping(player, "")), "STATE_CONFLICT")
	w.send("POST", mappings, w.bearer, mapping(w.plant("another id"), `,"`+w.plant("member of a mapping")+`":1`))
	w.send("POST", mappings+"/import", w.bearer, "vendor,idType,vendorId,rightId,spatialAnchorId,effectiveFrom\n"+
		w.plant("vendor in CSV")+",player,"+w.plant("id in CSV")+","+w.rights["DOOH"]+","+w.plant("anchor in CSV")+",2026-01-01\n"+
		"x,y,z,"+w.plant("right in CSV")+",a,"+w.plant("time in CSV")+"\n", "Content-Type", "text/csv")
	w.send("GET", mappings+"?vendorId="+player, w.bearer, "")
	waittest.Until(w.t, func() bool {
		return strings.Contains(w.send("GET", "/v1/delivery/held?vendorId="+player, w.bearer, ""), "REPLAYED")
	}, "what waited is delivered")

	var beacon struct{ URL string }
	require.NoError(w.t, w.client.Do(w.t.Context(), "POST", "/v1/delivery/beacons", map[string]any{
		"rightId": w.rights["DOOH"], "spatialAnchorId": w.plant("anchor of a beacon"), "expiresAt": time.Now().Add(time.Hour), "maxReceiptsPerHour": 100,
	}, &beacon))
	at := strings.LastIndex(beacon.URL, "/") + 1
	w.hidden["beacon"+w.round] = beacon.URL[at:]
	path := strings.TrimPrefix(beacon.URL, w.client.API)
	w.send("GET", path+"?dwellMs=8000&eid="+w.plant("eid"), "", "")
	w.send("GET", path+"x?dwellMs=8000&eid="+w.plant("eid of no beacon"), "", "")
	w.send("GET", path[:len(path)-len(beacon.URL[at:])]+w.plant("beacon's token")+"?eid=1&dwellMs=1", "", "")
}

// ofWebhooks plants secrets in webhooks and in what their receivers answer.
func (w *teller) ofWebhooks() {
	r := systemtest.NewHookReceiver(w.t)
	redirect, said := w.plant("redirect"), w.plant("answer of a receiver")
	r.Answers(func(a http.ResponseWriter, _ *http.Request) {
		a.Header().Set("Location", "https://receiver.example/"+redirect)
		a.WriteHeader(http.StatusTemporaryRedirect)
		_, _ = a.Write([]byte(said))
	})
	secret := func(what, answer string) {
		w.hidden[what+w.round] = strings.TrimPrefix(systemtest.TextAt(w.t, answer, "data.secret"), "whsec_")
	}
	url := func(host string) string {
		return host + "/" + w.plant("path of a receiver") + "?token=" + w.plant("token of a receiver")
	}
	const hooks = "/v1/webhooks"
	body := func(url string) string {
		return fmt.Sprintf(`{"url":%q,"events":["right.suspended","right.resumed"],"description":%q}`, url, w.plant("description"))
	}
	made := w.send("POST", hooks, w.bearer, body(url(r.URL)))
	secret("secret of a webhook", made)
	for _, host := range []string{"https://127.0.0.1:1", "https://" + w.plant("name of a receiver") + ".invalid"} {
		secret("secret of a webhook to "+host, w.send("POST", hooks, w.bearer, body(url(host))))
	}
	for _, host := range []string{"http://receiver.example", "https://10.0.0.1", "https://user:" + w.plant("password") + "@receiver.example", "https://" + w.plant("host")} {
		require.Contains(w.t, w.send("POST", hooks, w.bearer, body(url(host))), "VALIDATION_FAILED")
	}
	w.send("POST", hooks, w.bearer, `{"url":"https://receiver.example","events":["`+w.plant("type of event")+`"]}`)
	id := systemtest.Parse[struct {
		Data struct{ Webhook struct{ ID string } }
	}](w.t, made).Data.Webhook.ID
	hook := hooks + "/" + id
	secret("rotated secret", w.send("POST", hook+"/rotate-secret", w.bearer, ""))
	w.send("POST", "/v1/rights/"+w.rights["CTV"]+"/suspend", w.bearer, "{}")
	w.send("POST", "/v1/rights/"+w.rights["CTV"]+"/resume", w.bearer, "{}")
	waittest.Until(w.t, func() bool { return len(r.Messages()) >= 2 }, "both are tried")
	r.Answers(nil)
	w.send("PATCH", hook, w.bearer, fmt.Sprintf(`{"url":%q}`, url(r.URL)))
	w.send("POST", hook+"/test", w.bearer, "")
	deliveries := w.send("GET", hook+"/deliveries", w.bearer, "")
	require.Contains(w.t, deliveries, "bodyExcerpt")
	for _, d := range systemtest.Parse[struct {
		Data struct{ Deliveries []struct{ ID string } }
	}](w.t, deliveries).Data.Deliveries {
		w.send("POST", hook+"/deliveries/"+d.ID+"/resend", w.bearer, "")
	}
	w.send("POST", hook+"/recover", w.bearer, `{"since":"2026-01-01"}`)
	waittest.Until(w.t, func() bool { return !strings.Contains(w.send("GET", hook+"/deliveries", w.bearer, ""), "PENDING") }, "all is sent")
	for _, m := range r.Messages() {
		for _, signature := range strings.Fields(m.Signature) {
			w.hidden["signature "+signature] = signature[strings.Index(signature, ",")+1:]
		}
	}
}

// ofCounterparties plants where they are paid, and their tax ids.
func (w *teller) ofCounterparties() {
	const path = "/v1/settlement/counterparties"
	body := func(currency string) string {
		return fmt.Sprintf(`{"name":"x","kind":"OTHER","currency":%q,"payoutRef":%q,"taxId":%q}`, currency, w.plant("payoutRef"), w.plant("taxId"))
	}
	made := w.send("POST", path, w.bearer, body("EUR"))
	one := path + "/" + systemtest.TextAt(w.t, made, "data.counterparty.id")
	w.send("PUT", one, w.bearer, body("USD"))
	require.Contains(w.t, w.send("GET", one, w.bearer, ""), "payoutRef")
	for _, at := range []string{path, path + "/x"} {
		require.Contains(w.t, w.send("POST", at, w.bearer, body("euro")), `"ok":false`)
	}
	require.Contains(w.t, w.send("PUT", one, w.bearer, body("euro")), "VALIDATION_FAILED")
	w.send("DELETE", one, w.bearer, "")
}

// ofApplicants plants who applies for a key of the sandbox, and what for.
func (w *teller) ofApplicants(data string) {
	const apply, activate = "/api/access/apply", "/api/access/activate"
	form := func(email string) string {
		return fmt.Sprintf(`{"email":%q,"organisation":%q,"use":%q}`, email, w.plant("organisation"), w.plant("use"))
	}
	email := strings.ToLower(w.plant("applicant")) + "@example.org"
	for _, body := range []string{form(email), form(w.plant("no address")), form(email + "\r\nBcc: x"), form(email)[1:], `{"` + w.plant("member of a form") + `":1}`} {
		w.send("POST", apply, "", body)
	}
	a := systemtest.Applicant{T: w.t, URL: w.client.API, Data: data}
	id := a.Approved(strings.ToLower(w.plant("another applicant")) + "@example.org")
	token := a.Written(id)
	w.hidden["activation token"+w.round] = token
	w.send("POST", activate, "", fmt.Sprintf(`{"token":%q}`, w.plant("unknown token")))
	made := w.send("POST", activate, "", fmt.Sprintf(`{"token":%q}`, token))
	w.hidden.Token("activated key"+w.round, systemtest.TextAt(w.t, made, "data.apiKey"))
	w.send("POST", activate, "", fmt.Sprintf(`{"token":%q}`, token))
}

// ofPersons plants secrets in exports and in erasures.
func (w *teller) ofPersons() {
	person := w.plant("person")
	w.send("POST", "/v1/delivery", w.bearer, fmt.Sprintf(`{"rightId":%q,"spatialAnchorId":"a","dwellMs":8000,"dataSubjectId":%q,"telemetry":%s}`, w.rights["DOOH"], person, w.telemetry("")))
	const exports, erase = "/v1/compliance/dsar", "/v1/compliance/erase"
	do := func(scope string) string {
		answer := w.send("POST", exports, w.bearer, fmt.Sprintf(`{"scope":%s,"requestedBy":%q,"requestNotes":%q,"format":%q}`, scope, w.plant("who asks"), w.plant("notes"), w.plant("format of an export")))
		return systemtest.Parse[struct {
			Data struct{ Job systemtest.Exported }
		}](w.t, answer).Data.Job.ID
	}
	scope := fmt.Sprintf(`{"kind":"DATA_SUBJECT","dataSubjectId":%q}`, person)
	cancelled, id := do(scope), do(scope)
	require.Empty(w.t, do(`{"kind":"`+w.plant("kind of export")+`"}`))
	w.send("POST", exports+"/"+cancelled+"/cancel", w.bearer, fmt.Sprintf(`{"reason":%q}`, w.plant("reason")))
	w.send("POST", exports+"/"+cancelled+"/cancel", w.bearer, fmt.Sprintf(`{"reason":%q}`, w.plant("reason of a conflict")))
	w.send("GET", exports+"/dsar%3A"+w.plant("job"), w.bearer, "")
	w.send("POST", exports+"/"+id+"/run", w.bearer, "")
	waittest.Until(w.t, func() bool { return strings.Contains(w.send("GET", exports+"/"+id, w.bearer, ""), "READY") }, "the export is ready")
	link := systemtest.TextAt(w.t, w.send("GET", exports+"/"+id+"/bundle", w.bearer, ""), "data.bundleUrl")
	path := strings.TrimPrefix(link, w.client.API)
	w.hidden["download"+w.round] = strings.TrimPrefix(path, "/downloads/")
	for _, path := range []string{"/downloads/" + w.plant("token of no download"), path + "x", path, path} {
		w.send("GET", path, "", "")
	}

	w.send("POST", erase, w.bearer, fmt.Sprintf(`{"dataSubjectId":%q,"confirmationToken":%q}`, person, w.plant("token of no erasure")))
	confirmation := systemtest.Confirmed(w.t, w.client.API, w.client.Key, person)
	w.hidden["confirmation"+w.round] = systemtest.Parse[struct{ ConfirmationToken string }](w.t, confirmation).ConfirmationToken
	w.send("POST", erase, w.bearer, strings.Replace(confirmation, person, w.plant("another person"), 1))
	systemtest.Erased(w.t, &system.Server{API: w.client.API}, w.client.Key, person)
}
