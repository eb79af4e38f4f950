package control_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"muniment.example/control"
	"muniment.example/control/access"
	"muniment.example/control/operator"
	"muniment.example/control/proof"
	"muniment.example/control/settle"
	"muniment.example/control/store"
	"muniment.example/gateway/api"
	"muniment.example/pipeline"
	"muniment.example/pipeline/conform"
	"muniment.example/pipeline/drift"
	"muniment.example/pipeline/sqlite"
	"muniment.example/sealer"
)

// operators is a service with the operators' page, over a real warehouse.
type operators struct {
	*applied
	warehouse *awayWarehouse
	events    *renewedLog
	checker   *drift.Checker
	checking  bool
	note      func(context.Context) error
}

// awayWarehouse is a warehouse that can be away.
type awayWarehouse struct {
	*sqlite.Warehouse
	away error
}

func (w *awayWarehouse) Resume(ctx context.Context, partition int32) (sealer.Position, bool, error) {
	if w.away != nil {
		return sealer.Position{}, false, w.away
	}
	return w.Warehouse.Resume(ctx, partition)
}

// renewedLog is a log that can be made anew: then it begins again, in another generation.
type renewedLog struct {
	conform.MemoryLog
	generation uint32
}

func (l *renewedLog) Bounds(ctx context.Context, partition int32) (first, end sealer.Position, err error) {
	first, end, err = l.MemoryLog.Bounds(ctx, partition)
	first.Generation += l.generation
	end.Generation += l.generation
	return first, end, err
}

func openConsole(t *testing.T, secure bool) *operators {
	t.Helper()
	o := &operators{applied: openAccess(t, unlimited), events: new(renewedLog)}
	warehouse, err := sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(t.TempDir(), "warehouse.db")})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, warehouse.Close()) })
	o.warehouse = &awayWarehouse{Warehouse: warehouse}
	packs, err := proof.New(t.Context(), proof.Config{DB: o.db, Warehouse: o.warehouse, Log: o.events, Keys: o.keys, Rate: settle.Rating.Rate, Dir: filepath.Join(t.TempDir(), "packs")})
	require.NoError(t, err)
	registry := prometheus.NewRegistry()
	o.checker, err = drift.New(drift.Config{Log: o.events, Loaded: o.warehouse.Resume, Auditor: o.warehouse, Registerer: registry})
	require.NoError(t, err)
	page, err := operator.New(operator.Config{
		Nodes: o.nodes, Packs: packs, Access: o.access, Log: o.events, Warehouse: o.warehouse, Drift: registry,
		Checking: func() bool { return o.checking }, Secure: secure, Now: o.clock.Now,
	})
	require.NoError(t, err)
	cfg := o.config()
	cfg.Operators, cfg.Packs, o.note = page, packs, page.Note
	o.made, err = control.New(cfg)
	require.NoError(t, err)
	return o
}

// link is the token of a new link.
func (o *operators) link() string {
	o.t.Helper()
	made := send(o.t, o.control().Admin(), adminToken, "POST", "/admin/console/links", "").ok()
	path, token, _ := strings.Cut(made["path"].(string), "#")
	require.Equal(o.t, "/console", path)
	require.Len(o.t, token, 43)
	return token
}

func (o *operators) begin(token string, headers ...string) answer {
	o.t.Helper()
	return send(o.t, o.control().Admin(), "", "POST", "/console/api/session", `{"token":"`+token+`"}`, headers...)
}

// enter begins a session, and returns its cookie.
func (o *operators) enter() *http.Cookie {
	o.t.Helper()
	a := o.begin(o.link())
	a.ok()
	cookies := (&http.Response{Header: a.header}).Cookies()
	require.Len(o.t, cookies, 1)
	return cookies[0]
}

// by sends a request with a session.
func (o *operators) by(session *http.Cookie, method, path, body string, headers ...string) answer {
	o.t.Helper()
	return send(o.t, o.control().Admin(), "", method, "/console/api"+path, body, append(headers, "Cookie", session.Name+"="+session.Value)...)
}

func TestConsoleLink(t *testing.T) {
	o := openConsole(t, false)
	send(t, o.control().Admin(), "", "POST", "/admin/console/links", "").refused(401, api.AuthRequired)
	send(t, o.control().Admin(), "wrong", "POST", "/admin/console/links", "").refused(401, api.AuthInvalid)

	token := o.link()
	session := o.begin(token)
	require.Equal(t, "2026-11-01T13:00:00.000Z", session.ok()["expiresAt"])
	require.Contains(t, o.begin(token).refused(401, api.AuthInvalid), "was used, has expired, or is not one of this process")
	o.begin("x").refused(401, api.AuthInvalid)
	o.begin("").refused(422, api.ValidationFailed)

	late := o.link()
	o.clock.Advance(5*time.Minute - time.Millisecond)
	o.begin(late).ok()
	late = o.link()
	o.clock.Advance(5 * time.Minute)
	o.begin(late).refused(401, api.AuthInvalid)
	require.NotContains(t, o.logged.String(), token)
}

// TestConsoleLinkWorksOnce, however many use it at once.
func TestConsoleLinkWorksOnce(t *testing.T) {
	o := openConsole(t, false)
	token := o.link()
	var statuses [20]int
	var all sync.WaitGroup
	for i := range statuses {
		all.Go(func() { statuses[i] = o.begin(token).status })
	}
	all.Wait()
	begun := 0
	for _, status := range statuses {
		if status == 200 {
			begun++
			continue
		}
		require.Equal(t, 401, status)
	}
	require.Equal(t, 1, begun)
}

func TestConsoleCookie(t *testing.T) {
	for _, secure := range []bool{false, true} {
		o := openConsole(t, secure)
		c := o.enter()
		require.True(t, c.HttpOnly)
		require.Equal(t, http.SameSiteStrictMode, c.SameSite)
		require.Equal(t, secure, c.Secure)
		require.Equal(t, "/console", c.Path)
		require.Equal(t, 3600, c.MaxAge)
		require.Empty(t, c.Domain)

		require.Equal(t, "2026-11-01T13:00:00.000Z", o.by(c, "GET", "/session", "").ok()["expiresAt"])
		other := o.enter()
		require.NotEqual(t, c.Value, other.Value)
		ended := o.by(other, "DELETE", "/session", "")
		ended.ok()
		require.Contains(t, ended.header.Get("Set-Cookie"), "Max-Age=0")
		o.by(other, "GET", "/session", "").refused(401, api.AuthInvalid)

		o.clock.Advance(time.Hour - time.Millisecond)
		o.by(c, "GET", "/nodes", "").ok()
		o.clock.Advance(time.Millisecond)
		require.Contains(t, o.by(c, "GET", "/nodes", "").refused(401, api.AuthInvalid), "the session has ended")
	}
	// Of another process it opens nothing.
	one, other := openConsole(t, false), openConsole(t, false)
	other.by(one.enter(), "GET", "/nodes", "").refused(401, api.AuthRequired)
}

// TestConsoleSessionOpensNothingElse: neither a session nor the admin token does what the other is for.
func TestConsoleSessionOpensNothingElse(t *testing.T) {
	o := openConsole(t, false)
	c := o.enter()
	for _, path := range []string{"/admin/tenants", "/admin/quarantine", "/admin/access/applications"} {
		send(t, o.control().Admin(), "", "GET", path, "", "Cookie", c.Name+"="+c.Value).refused(401, api.AuthRequired)
	}
	send(t, o.control().Admin(), "", "POST", "/admin/console/links", "", "Cookie", c.Name+"="+c.Value).refused(401, api.AuthRequired)
	for _, path := range []string{"/session", "/nodes", "/lag", "/history", "/drift", "/refusals", "/quarantine", "/applications"} {
		send(t, o.control().Admin(), adminToken, "GET", "/console/api"+path, "").refused(401, api.AuthRequired)
	}
	for _, path := range []string{"/quarantine/release", "/applications/app_1/approve", "/applications/app_1/refuse", "/applications/refuse"} {
		send(t, o.control().Admin(), "", "POST", "/console/api"+path, `{"positions":["1.0.0"],"reason":"x"}`).refused(401, api.AuthRequired)
	}
	require.Equal(t, 404, o.call("", "GET", "/console", "").status, "it is not on the API's listener")
}

// TestConsoleRefusesOtherOrigins for whatever changes something, before the session counts.
func TestConsoleRefusesOtherOrigins(t *testing.T) {
	o := openConsole(t, false)
	c, token := o.enter(), o.link()
	for _, headers := range [][]string{
		{"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Site", "same-site"}, {"Origin", "https://evil.example"}, {"Origin", "http://example.com:8080"}, {"Origin", "null"},
	} {
		const said = "a page of another origin may not send this"
		require.Contains(t, o.begin(token, headers...).refused(403, api.BadRequest), said)
		require.Contains(t, o.by(c, "DELETE", "/session", "", headers...).refused(403, api.BadRequest), said)
		require.Contains(t, o.by(c, "POST", "/applications/app_1/approve", "", headers...).refused(403, api.BadRequest), said)
		require.Contains(t, o.by(c, "POST", "/quarantine/release", `{"positions":["1.0.0"],"reason":"x"}`, headers...).refused(403, api.BadRequest), said)
	}
	o.by(c, "GET", "/session", "").ok()
	o.begin(token, "Sec-Fetch-Site", "same-origin", "Origin", "http://example.com").ok()
}

func TestConsolePage(t *testing.T) {
	o := openConsole(t, false)
	for name, kind := range map[string]string{"": "text/html; charset=utf-8", "/app.js": "text/javascript; charset=utf-8", "/base.css": "text/css; charset=utf-8"} {
		a := send(t, o.control().Admin(), "", "GET", "/console"+name, "")
		require.Equal(t, 200, a.status, name)
		require.Equal(t, kind, a.header.Get("Content-Type"))
		require.Contains(t, a.header.Get("Content-Security-Policy"), "script-src 'self'")
		require.NotContains(t, a.header.Get("Content-Security-Policy"), "unsafe")
		require.Equal(t, 304, send(t, o.control().Admin(), "", "GET", "/console"+name, "", "If-None-Match", a.header.Get("ETag")).status)
	}
	send(t, o.control().Admin(), "", "GET", "/console/none.js", "").refused(404, api.ResourceNotFound)
}

func TestConsoleNodes(t *testing.T) {
	o := openConsole(t, false)
	c := o.enter()
	require.Empty(t, list(t, o.by(c, "GET", "/nodes", "").ok(), "nodes"))
	require.NoError(t, o.nodes.Polled(t.Context(), api.FeedRequest{NodeID: "nod_idle", After: 7}))
	require.NoError(t, o.nodes.Polled(t.Context(), api.FeedRequest{NodeID: "nod_full", Epoch: 2, After: 6, Spooled: 12}))
	data := o.by(c, "GET", "/nodes", "").ok()
	require.GreaterOrEqual(t, data["leaseMs"], 30_000.0)
	nodes := list(t, data, "nodes")
	require.Len(t, nodes, 2)
	require.Equal(t, "nod_full", nodes[0]["nodeId"])
	require.Equal(t, 12.0, nodes[0]["spooled"])
	require.Equal(t, 2.0, nodes[0]["epoch"])
	require.Equal(t, true, nodes[0]["live"])
	require.Equal(t, 6.0, nodes[0]["appliedRevision"])
	require.Equal(t, "nod_idle", nodes[1]["nodeId"])
	require.Less(t, nodes[1]["ageMs"], 30_000.0)
}

// TestConsoleLag: what is loaded is behind the log, a warehouse that is away is named, and the other
// panels go on.
func TestConsoleLag(t *testing.T) {
	o := openConsole(t, false)
	c := o.enter()
	for i := range 3 {
		_, err := o.events.Append(t.Context(), &sealer.Record{TenantID: "tnt_a", EventID: api.NewID(api.PrefixEvent, o.clock.Now()), Node: "nod_a", Epoch: 1, Seq: uint64(i + 1), Event: []byte(`{}`)})
		require.NoError(t, err)
	}
	require.Equal(t, 3.0, o.by(c, "GET", "/lag", "").ok()["behind"])
	first, end, err := o.events.Bounds(t.Context(), 0)
	require.NoError(t, err)
	loaded := first
	loaded.Offset++
	require.NoError(t, o.warehouse.Load(t.Context(), pipeline.Batch{From: first, Next: loaded}))
	data := o.by(c, "GET", "/lag", "").ok()
	require.Equal(t, 2.0, data["behind"])
	partitions := list(t, data, "partitions")
	require.Equal(t, loaded.String(), partitions[0]["loaded"])
	require.Equal(t, end.String(), partitions[0]["end"])

	// Of a log that was made anew nothing is loaded, however far the warehouse was with the one before.
	require.NoError(t, o.warehouse.Load(t.Context(), pipeline.Batch{From: loaded, Next: end}))
	require.Equal(t, 0.0, o.by(c, "GET", "/lag", "").ok()["behind"])
	o.events.generation++
	data = o.by(c, "GET", "/lag", "").ok()
	require.Equal(t, 3.0, data["behind"])
	require.Equal(t, end.String(), list(t, data, "partitions")[0]["loaded"])

	o.warehouse.away = errors.New("connection refused by the engine at 10.0.0.7")
	require.Contains(t, o.by(c, "GET", "/lag", "").refused(503, api.InternalError), "control can't reach the warehouse: connection refused by the engine")
	o.by(c, "GET", "/nodes", "").ok()
	o.by(c, "GET", "/drift", "").ok()
}

// TestConsoleHistory: what was noted stays for a day, and what could not be read is no zero.
func TestConsoleHistory(t *testing.T) {
	o := openConsole(t, false)
	c := o.enter()
	_, err := o.events.Append(t.Context(), &sealer.Record{TenantID: "tnt_a", EventID: api.NewID(api.PrefixEvent, o.clock.Now()), Node: "nod_a", Epoch: 1, Seq: 1, Event: []byte(`{}`)})
	require.NoError(t, err)
	noted := func() (behind []any) {
		for _, p := range list(t, o.by(c, "GET", "/history", "").ok(), "points") {
			behind = append(behind, p["behind"])
		}
		return behind
	}
	require.Empty(t, noted())
	require.NoError(t, o.note(t.Context()))
	o.clock.Advance(time.Minute)
	o.warehouse.away = errors.New("away")
	require.NoError(t, o.note(t.Context()))
	require.Equal(t, []any{1.0, -1.0}, noted())
	o.clock.Advance(24*time.Hour - 30*time.Second)
	o.warehouse.away = nil
	require.NoError(t, o.note(t.Context()))
	c = o.enter()
	require.Equal(t, []any{-1.0, 1.0}, noted(), "what is older than a day is forgotten")
}

func TestConsoleDrift(t *testing.T) {
	o := openConsole(t, false)
	c := o.enter()
	require.Equal(t, false, o.by(c, "GET", "/drift", "").ok()["checking"])
	o.checking = true
	// An event of the log that the warehouse has skipped.
	first, _, err := o.events.Bounds(t.Context(), 0)
	require.NoError(t, err)
	row := refusalsRow(t, "tnt_a", first, o.clock.Now(), `{"count":1,"rule":"speed"}`)
	_, err = o.events.Append(t.Context(), &row.Record)
	require.NoError(t, err)
	require.NoError(t, o.warehouse.Load(t.Context(), pipeline.Batch{From: first, Next: first.Next()}))
	require.NoError(t, o.checker.Whole(t.Context()))
	data := o.by(c, "GET", "/drift", "").ok()
	require.Equal(t, true, data["checking"])
	require.Equal(t, map[string]any{"missing": 1.0, "invented": 0.0, "duplicates": 0.0, "pack": 0.0, "statement": 0.0}, data["drift"])
	require.Positive(t, data["checked"].(map[string]any)["rows"])
	require.Equal(t, 0.0, data["failures"])
}

// refusalsRow is the row of an event with refusals by rule.
func refusalsRow(t *testing.T, tenantID string, p sealer.Position, when time.Time, counts string) pipeline.Row {
	t.Helper()
	e := sealer.Event{
		TenantID: tenantID, EventID: api.NewID(api.PrefixEvent, when), Type: pipeline.TypeRefusals, At: when,
		Actor: sealer.Ref{Kind: "node", ID: "nod_a"}, Subject: sealer.Ref{Kind: "tenant", ID: tenantID}, Data: []byte(`{"counts":[` + counts + `],"from":"","to":""}`),
	}
	text, err := sealer.AppendEvent(nil, &e)
	require.NoError(t, err)
	row, err := pipeline.NewRow(sealer.Entry{Position: p, Record: sealer.Record{TenantID: tenantID, EventID: e.EventID, Node: "nod_a", Epoch: 1, Seq: uint64(p.Offset + 1), Event: text}})
	require.NoError(t, err)
	return row
}

// TestConsoleRefusals are those of all tenants within the hours.
func TestConsoleRefusals(t *testing.T) {
	o := openConsole(t, false)
	c := o.enter()
	require.Empty(t, list(t, o.by(c, "GET", "/refusals", "").ok(), "rules"))
	first, _, err := o.events.Bounds(t.Context(), 0)
	require.NoError(t, err)
	second, third := first.Next(), first.Next().Next()
	now := o.clock.Now()
	require.NoError(t, o.warehouse.Load(t.Context(), pipeline.Batch{From: first, Next: third.Next(), Rows: []pipeline.Row{
		refusalsRow(t, "tnt_a", first, now.Add(-5*time.Hour), `{"count":9,"rule":"consent"}`),
		refusalsRow(t, "tnt_a", second, now.Add(-10*time.Minute), `{"count":2,"rightId":"rgh_1","rule":"speed"}`),
		refusalsRow(t, "tnt_b", third, now.Add(-5*time.Minute), `{"count":1,"rule":"consent"},{"count":3,"rule":"speed"}`),
	}}))
	require.Equal(t, []map[string]any{{"rule": "consent", "refusals": 10.0}, {"rule": "speed", "refusals": 5.0}}, list(t, o.by(c, "GET", "/refusals", "").ok(), "rules"))
	require.Equal(t, []map[string]any{{"rule": "speed", "refusals": 5.0}, {"rule": "consent", "refusals": 1.0}}, list(t, o.by(c, "GET", "/refusals?hours=1", "").ok(), "rules"))
	o.by(c, "GET", "/refusals?hours=25", "").refused(422, api.ValidationFailed)
}

func TestConsoleQuarantine(t *testing.T) {
	o := openConsole(t, false)
	c := o.enter()
	require.Equal(t, 0.0, o.by(c, "GET", "/quarantine", "").ok()["total"])
	first, _, err := o.events.Bounds(t.Context(), 0)
	require.NoError(t, err)
	require.NoError(t, o.warehouse.Load(t.Context(), pipeline.Batch{From: first, Next: first.Next(), Quarantined: []pipeline.Quarantined{
		{Position: first, TenantID: "tnt_a", EventID: "evt_1", Reason: "the witness is not the event's", Record: []byte("x")},
	}}))
	data := o.by(c, "GET", "/quarantine", "").ok()
	require.Equal(t, 1.0, data["total"])
	one := list(t, data, "records")[0]
	require.Equal(t, first.String(), one["position"])
	require.Equal(t, "tnt_a", one["tenantId"])
	require.Equal(t, "the witness is not the event's", one["reason"])
	o.by(c, "POST", "/quarantine/release", `{"positions":["`+first.String()+`"],"reason":""}`).refused(422, api.ValidationFailed)
	require.Contains(t, o.by(c, "POST", "/quarantine/release", `{"positions":["`+first.Next().String()+`"],"reason":"drill"}`).refused(404, api.ResourceNotFound), "no quarantined record")
}

// TestConsoleCountsApplications: what needs an operator is counted, whatever is listed.
func TestConsoleCountsApplications(t *testing.T) {
	o := openConsole(t, false)
	c := o.enter()
	counts := func(waiting, failed float64) {
		t.Helper()
		for _, filter := range []string{"", "?state=RECEIVED", "?state=REFUSED"} {
			data := o.by(c, "GET", "/applications"+filter, "").ok()
			require.Equal(t, []any{waiting, failed}, []any{data["waiting"], data["failedMails"]}, filter)
		}
	}
	counts(0, 0)
	ids := map[string]string{}
	for _, email := range []string{"ada@example.org", "grace@example.org"} {
		require.Equal(t, 200, o.post("/apply", formOf(email)).status)
		o.work()
		ids[email] = o.idOf(email)
	}
	counts(2, 0)
	o.operator("POST", "/"+ids["ada@example.org"]+"/approve").ok()
	counts(1, 0)
	job, err := o.db.Jobs.Claim(t.Context(), access.MailJob, time.Minute)
	require.NoError(t, err)
	require.NoError(t, o.db.Change(t.Context(), func(tx *store.Tx) error { return o.access.GiveUpMail(t.Context(), tx, job, "MAIL_REFUSED") }))
	counts(1, 1)
	o.operator("POST", "/"+ids["ada@example.org"]+"/refuse").ok()
	counts(1, 0)
	o.clock.Advance(30 * 24 * time.Hour)
	c = o.enter()
	counts(0, 0) // those that are over, erased or not
}

// received is a decision on an application that was seen waiting.
const received = `{"state":"RECEIVED"}`

// TestConsoleDecidesOnce: of two operators who see an application waiting one decides. The other's
// click neither sends another mail, which would end the links of the first, nor takes the decision back.
func TestConsoleDecidesOnce(t *testing.T) {
	o := openConsole(t, false)
	one, other := o.enter(), o.enter()
	require.Equal(t, 200, o.post("/apply", formOf("ada@example.org")).status)
	o.work()
	path := "/applications/" + o.idOf("ada@example.org")
	o.by(one, "POST", path+"/approve", received).ok()
	o.work()
	first := o.token("ada@example.org")
	for _, decision := range []string{"/approve", "/refuse"} {
		require.Contains(t, o.by(other, "POST", path+decision, received).refused(409, api.StateConflict), "application is already APPROVED")
	}
	o.work()
	require.Equal(t, first, o.token("ada@example.org"))
	o.by(other, "POST", path+"/approve", `{"state":"APPROVED"}`).ok() // who sees that sends another one
	o.work()
	require.NotEqual(t, first, o.token("ada@example.org"))
	o.operator("POST", strings.TrimPrefix(path, "/applications")+"/approve").ok() // the command does so, too
	o.by(other, "POST", path+"/refuse", `{"state":"APPROVED"}`).ok()
}

// TestConsoleApplications: an operator sees what the applicant wrote, and decides.
func TestConsoleApplications(t *testing.T) {
	o := openConsole(t, false)
	c := o.enter()
	require.Empty(t, list(t, o.by(c, "GET", "/applications", "").ok(), "applications"))
	for _, email := range []string{"ada@example.org", "grace@example.org"} {
		require.Equal(t, 200, o.post("/apply", formOf(email)).status)
		o.work()
		o.clock.Advance(time.Second)
	}
	waiting := list(t, o.by(c, "GET", "/applications?state=RECEIVED", "").ok(), "applications")
	require.Len(t, waiting, 2)
	require.Equal(t, "grace@example.org", waiting[0]["email"])
	require.Equal(t, "Example Ltd", waiting[0]["organisation"])
	require.Equal(t, "Trying it out", waiting[0]["use"])

	grace, ada := waiting[0]["id"].(string), waiting[1]["id"].(string)
	one := o.by(c, "POST", "/applications/"+ada+"/approve", received).ok()["application"].(map[string]any)
	require.Equal(t, string(access.Approved), one["state"])
	require.Equal(t, "QUEUED", one["mail"].(map[string]any)["state"])
	require.Equal(t, string(access.Refused), o.by(c, "POST", "/applications/"+grace+"/refuse", received).ok()["application"].(map[string]any)["state"])
	o.by(c, "POST", "/applications/"+grace+"/approve", received).refused(409, api.StateConflict)
	o.by(c, "POST", "/applications/app_none/refuse", received).refused(404, api.ResourceNotFound)
	o.by(c, "POST", "/applications/"+ada+"/approve", `{}`).refused(422, api.ValidationFailed)
	require.Empty(t, list(t, o.by(c, "GET", "/applications?state=RECEIVED", "").ok(), "applications"))
	o.work()
	data := o.by(c, "GET", "/applications?state=RECEIVED", "").ok()
	require.Equal(t, []any{0.0, 0.0}, []any{data["waiting"], data["failedMails"]})
	require.Equal(t, "WRITTEN", list(t, o.by(c, "GET", "/applications?state=APPROVED", "").ok(), "applications")[0]["mail"].(map[string]any)["state"])
}

// TestConsoleRefusesMany: of a flood an operator sees what is unconfirmed, and refuses one of it, or all that
// an address, a host or an age selects; what is approved stays.
func TestConsoleRefusesMany(t *testing.T) {
	o := openConsole(t, false)
	c := o.enter()
	apply := func(emails ...string) {
		for _, email := range emails {
			require.Equal(t, 200, o.post("/apply", formOf(email)).status)
		}
	}
	apply("ada@example.org")
	o.work()
	o.by(c, "POST", "/applications/"+o.idOf("ada@example.org")+"/approve", received).ok()
	apply("one@flood.example", "two@flood.example", "grace@example.org")
	o.work()
	require.NoError(t, o.db.Change(t.Context(), func(tx *store.Tx) error { // as they are where a mail server takes mails
		_, err := tx.ExecContext(t.Context(), `UPDATE access_applications SET state = 'UNCONFIRMED' WHERE state = 'RECEIVED'`)
		return err
	}))
	unconfirmed := func() []map[string]any {
		return list(t, o.by(c, "GET", "/applications?state=UNCONFIRMED", "").ok(), "applications")
	}
	require.Len(t, unconfirmed(), 3)
	o.by(c, "POST", "/applications/"+o.idOf("one@flood.example")+"/approve", `{"state":"UNCONFIRMED"}`).refused(409, api.StateConflict)
	o.by(c, "POST", "/applications/"+o.idOf("one@flood.example")+"/refuse", `{"state":"UNCONFIRMED"}`).ok()
	require.Equal(t, 1.0, o.by(c, "POST", "/applications/refuse", `{"allFrom":"flood.example"}`).ok()["refused"])
	require.Len(t, unconfirmed(), 1)
	o.by(c, "POST", "/applications/refuse", `{}`).refused(422, api.ValidationFailed)
	o.clock.Advance(time.Hour)
	c = o.enter()
	before := o.clock.Now().Add(-time.Minute).Format(time.RFC3339)
	require.Equal(t, 1.0, o.by(c, "POST", "/applications/refuse", fmt.Sprintf(`{"olderThan":%q}`, before)).ok()["refused"])
	require.Len(t, list(t, o.by(c, "GET", "/applications?state=APPROVED", "").ok(), "applications"), 1)
}
