package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment/bench/system"
	"muniment/control/access"
	"muniment/control/sandbox"
	"muniment/gateway/api"
)

// operation is a route of the contract: the scope it needs, if any, and a body that
// it takes. {names} in path and body stand for ids of resources.
type operation struct {
	id, method, path, scope, body string
	bodiless                      bool     // the body may be left out, and so may all of its members
	filters                       []string // parameters that narrow a list to what belongs to one resource
}

// operations are those of the service's OpenAPI document that take a key, or none, in
// the order of their ids.
// What is new in the contract is attacked as well: a parameter, or an id in a body, of
// which it is not known here what it names, fails the test.
func operations(t *testing.T, server *system.Server) []operation {
	return operationsOf(t, server, false)
}

// operationsOf are the sandbox's operations, which take a cookie, or those besides.
func operationsOf(t *testing.T, server *system.Server, visitors bool) (all []operation) {
	known := document(t, server)
	for _, id := range slices.Sorted(maps.Keys(known)) {
		o := known[id].operation
		if sandbox.Owns(o.path) != visitors || id == "download-bundle" || strings.HasPrefix(o.path, access.Base+"/") { // whose token opens it: TestBundleOfAService, control's TestAccessRefusals
			continue
		}
		for _, p := range known[id].parameters {
			switch {
			case p.In == "path":
				require.Contains(t, resources, p.Name, "%s: parameter of unknown meaning", id)
			case p.Required:
				require.Contains(t, resources, p.Name, "%s: parameter of unknown meaning", id)
				o.path += "?" + p.Name + "={" + p.Name + "}" // of those that are here, none has two
			case slices.Contains(plain, p.Name):
			default:
				require.Contains(t, resources, p.Name, "%s: parameter of unknown meaning", id)
				o.filters = append(o.filters, p.Name)
			}
		}
		var body bytes.Buffer
		if example := known[id].shown.Request; example != nil {
			require.NoError(t, json.Compact(&body, example))
		}
		o.body = body.String()
		for name, form := range ofOurs {
			o.body = form.ReplaceAllString(o.body, "{"+name+"}")
		}
		if id == "create-api-key" {
			o.body = `{"label":"x","scopes":[]}` // a key can give no scopes that it lacks
		}
		if id == "create-beacon" { // that of the document has ended some time
			o.body = fmt.Sprintf(`{"rightId":"{rightId}","spatialAnchorId":"a","expiresAt":%q,"maxReceiptsPerHour":1}`, time.Now().Add(time.Hour).Format(time.RFC3339))
		}
		if id == "create-dsar-job" {
			o.body = newExport
		}
		if id == "open-dispute" { // which names receipts or a right: control's TestDisputes requests foreign receipts
			o.body = newDispute
		}
		if id == "ingest-batch" { // that of the document is of a day that is too long ago some time
			o.body = fmt.Sprintf(`{"rows":[{"rowId":"1","rightId":"{rightId}","spatialAnchorId":"a","playedAt":%q,"dwellMs":1500}]}`, time.Now().Add(-time.Hour).Format(time.RFC3339))
		}
		if id == "draft-statement" { // with the row of that batch
			o.body = fmt.Sprintf(`{"from":%q,"to":%q,"currency":"EUR","counterpartyId":"{counterpartyId}"}`, time.Now().Add(-24*time.Hour).Format(time.RFC3339), time.Now().Format(time.RFC3339))
		}
		for _, name := range known[id].bodyIDs {
			if free.MatchString(name) {
				continue
			}
			require.Contains(t, resources, name, "%s: member of unknown meaning", id)
			if !strings.Contains(o.body, `"`+name+`":`) {
				o.body = strings.TrimSuffix(o.body, "}") + `,"` + name + `":"{` + name + `}"}`
			}
		}
		all = append(all, o)
	}
	require.NotEmpty(t, all)
	return all
}

// resources are the ids that parameters and members take, and of which resources.
var resources = map[string][]string{
	"basisId": {"basisId"}, "rightId": {"rightId"}, "parentRightId": {"rightId"}, "offerId": {"offerId"}, "challengeId": {"challengeId"}, "disputeId": {"disputeId"},
	"keyId": {"keyId"}, "packId": {"packId"}, "from": {"packId"}, "receiptId": {"receiptId"}, "actorId": {"keyId"}, "mappingId": {"mappingId"}, "webhookId": {"webhookId"}, "counterpartyId": {"counterpartyId"}, "statementId": {"statementId"}, "corrects": {"statementId"}, "ruleId": {"ruleId"}, "erasureId": {"erasureId"}, "jobId": {"jobId"}, "deliveryId": {"deliveryId"},
	"subjectId": {"basisId", "rightId", "offerId", "challengeId", "disputeId", "keyId", "packId", "receiptId"},
}

// plain are optional parameters that name no resource.
var plain = []string{"meteringBasis",
	"Accept-Encoding", "actorKind", "after", "asOf", "before", "bucket", "by", "checkpoint", "cursor", "format", "from", "Idempotency-Key", "limit", "order", "rule",
	"correlationId", "currency", "idType", "spatialAnchorId", "state", "vendor", "vendorId", "subjectKind", "substrate", "timeZone", "to", "type", "upTo",
	"bases", "challenges", "events", "offers", "packs", "rights", // cursors of the sandbox's inspection
}

// free are the members that hold ids of the caller's own making: of organisations, and
// of what was observed. receiptIds of a dispute exclude its rightId.
var free = regexp.MustCompile(`OrgId$|^(beam|bvlosWaiver|correlation|coverageCell|dataSubject|groundStation|org|row|tax|spatialAnchor|spatialPlacement|vendor)Id$|^(campaign|receipt)Ids$`)

// open are the routes that require no key.
var open = []string{"/.well-known/muniment/keys.json", "/docs", "/docs/gate", "/gate.json", "/openapi.json", "/openapi-3.0.json", "/playground", "/v1", "/v1/healthz"}

// resource finds the names in paths and bodies.
var resource = regexp.MustCompile(`{(\w+)}`)

// with puts ids in for the names.
func (o operation) with(ids map[string]string) operation {
	fill := func(text string) string {
		return resource.ReplaceAllStringFunc(text, func(name string) string {
			if id, ok := ids[strings.Trim(name, "{}")]; ok {
				return id
			}
			return name
		})
	}
	o.path, o.body = fill(o.path), fill(o.body)
	return o
}

// amongFaults says that an id which the tenant doesn't have is one of the faults of the
// operation's body, and no resource that is missing.
func (o operation) amongFaults(name string) bool {
	return (strings.HasSuffix(o.id, "-settlement-rule") || o.id == "draft-statement") && !strings.Contains(o.path, "{"+name+"}")
}

// names are the resources that the operation refers to.
func (o operation) names() (names []string) {
	for _, m := range resource.FindAllStringSubmatch(o.path+o.body, -1) {
		names = append(names, m[1])
	}
	return names
}

// unknown is an id that was never given out.
func unknown(id string) string {
	return id[:strings.IndexAny(id, "_:")+1] + "00000000000000000000000000"
}

// refusal is the contract's error envelope.
type refusal struct {
	OK                       *bool
	Error                    api.Code
	Message, ContractVersion string
	RequestID                string
	RequiredScopes           []string
	KeyScopes                []string
}

// refused requires the envelope of an error.
func (a response) refused(t *testing.T, status int, code api.Code, about string) refusal {
	t.Helper()
	require.Equal(t, status, a.status, "%s: %s", about, a.body)
	var r refusal
	require.NoError(t, json.Unmarshal([]byte(a.body), &r), about)
	require.NotNil(t, r.OK, about)
	require.False(t, *r.OK, about)
	require.Equal(t, code, r.Error, about)
	require.Equal(t, api.ContractVersion, r.ContractVersion, about)
	require.Equal(t, "same", r.RequestID, about)
	require.NotEmpty(t, r.Message, about)
	return r
}

// TestHostileBodies sends bodies that careless decoders take to every operation
// that takes one.
func TestHostileBodies(t *testing.T) {
	t.Parallel()
	server := shared(t).server
	tenant := settleIn(t, server)
	for _, o := range operations(t, server) {
		if o.body == "" {
			continue
		}
		o = o.with(tenant.ids)
		whole, wrong := strings.TrimSuffix(o.body, "}"), `[[]]`
		if o.id == "ingest-batch" {
			wrong = `{}` // of a list, each row is judged by itself
		}
		name, rest, _ := strings.Cut(strings.TrimPrefix(o.body, `{"`), `"`)
		for _, c := range []struct {
			body   string
			status int
			code   api.Code
		}{
			{whole + `,"x":` + strings.Repeat("[", 10_000) + strings.Repeat("]", 10_000) + `}`, 400, api.BadRequest},
			{whole + `,"x":` + strings.Repeat(`{"a":`, 10_000), 400, api.BadRequest},
			{whole + ",\"x\":\"\xff\"}", 400, api.BadRequest},
			{whole + `,"x":"\ud800"}`, 400, api.BadRequest},
			{whole + `,"x":NaN}`, 400, api.BadRequest},
			{whole + `,"x":-Infinity}`, 400, api.BadRequest},
			{whole + `,"x":01}`, 400, api.BadRequest},
			{whole + `,}`, 400, api.BadRequest},
			{o.body + "{}", 400, api.BadRequest},
			{o.body + "\x00", 400, api.BadRequest},
			{"\ufeff" + o.body, 400, api.BadRequest},
			{whole, 400, api.BadRequest},
			{whole + `,"x":1,"x":2}`, 422, api.ValidationFailed},
			{whole + `,"` + name + `":1}`, 422, api.ValidationFailed},
			{`{"` + name + `":` + wrong + `}`, 422, api.ValidationFailed},
			{`[` + o.body + `]`, 422, api.ValidationFailed},
			{`"` + name + `"`, 422, api.ValidationFailed},
		} {
			hostile := o
			hostile.body = c.body
			call(t, server.API, tenant.client.Key, hostile).refused(t, c.status, c.code, fmt.Sprintf("%s %s %.80q", o.method, o.path, c.body))
		}
		if !slices.Contains([]string{"observe-delivery", "ingest-batch"}, o.id) { // of which nothing is kept in control's database
			hostile := o
			hostile.body = whole + `,"x":["\u0000"]}`
			call(t, server.API, tenant.client.Key, hostile).refused(t, 422, api.ValidationFailed, fmt.Sprintf("%s %s %.80q", o.method, o.path, hostile.body))
		}
		hostile := o
		hostile.body = `{"` + strings.ToUpper(name) + `"` + rest
		call(t, server.API, tenant.client.Key, hostile).refused(t, 422, api.ValidationFailed, "upper case: "+hostile.body)
	}
	big := operation{method: "POST", path: "/v1/rights", body: `{"basisId":"{basisId}","substrate":"AUTOMOTIVE","scope":{"maxSpeedMph":1e400},"effectiveFrom":"2026-01-01T00:00:00Z"}`}
	call(t, server.API, tenant.client.Key, big.with(tenant.ids)).refused(t, 422, api.ValidationFailed, big.body)
	var list struct{ Rights []struct{ State string } }
	require.NoError(t, tenant.client.Do(t.Context(), "GET", "/v1/rights", nil, &list))
	require.Equal(t, []struct{ State string }{{"ACTIVE"}}, list.Rights)
}

// TestHostileReferences names resources by what is no text to every operation that takes
// an id or a filter.
func TestHostileReferences(t *testing.T) {
	t.Parallel()
	server := shared(t).server
	tenant := settleIn(t, server)
	requests := 0
	for _, o := range operations(t, server) {
		route, query, _ := strings.Cut(o.path, "?")
		for _, bad := range []string{"%00", "x%00", "%ff", "%c0%80", "%ed%a0%80"} {
			for _, m := range resource.FindAllStringSubmatch(route, -1) {
				hostile := o.with(map[string]string{m[1]: bad}).with(tenant.ids)
				call(t, server.API, tenant.client.Key, hostile).refused(t, 404, api.ResourceNotFound, o.method+" "+hostile.path)
				requests++
			}
			names := append(slices.Clone(o.filters), "cursor")
			for _, m := range resource.FindAllStringSubmatch(query, -1) {
				names = append(names, m[1])
			}
			for _, name := range names {
				hostile := o
				if name != "cursor" || strings.Contains(o.id, "list-") {
					hostile.path = route + "?" + name + "=" + bad
					call(t, server.API, tenant.client.Key, hostile.with(tenant.ids)).refused(t, 422, api.ValidationFailed, o.method+" "+hostile.path)
					requests++
				}
			}
		}
	}
	require.NotZero(t, requests)
}

// crowd is how many callers attack at once.
const crowd = 1000

// attacker is one connection.
type attacker struct {
	conn net.Conn
	in   *bufio.Reader
}

// attack opens connections, sends each the text, and returns them open. Who is slow to
// send may be cut off before all of it is sent: readStatus finds that.
func attack(t *testing.T, server *system.Server, n int, text string) []attacker {
	t.Helper()
	var all []attacker
	for range n {
		c, err := net.Dial("tcp", hostPort(server.API))
		require.NoError(t, err)
		t.Cleanup(func() { c.Close() })
		require.NoError(t, c.SetDeadline(time.Now().Add(5*time.Minute)))
		all = append(all, attacker{c, bufio.NewReader(c)})
		if _, err = io.WriteString(c, text); !errors.Is(err, syscall.EPIPE) && !errors.Is(err, syscall.ECONNRESET) {
			require.NoError(t, err)
		}
	}
	return all
}

// readStatus reads the status of a response; the connection must be closed after it.
func (a attacker) readStatus(t *testing.T) int {
	t.Helper()
	resp, err := http.ReadResponse(a.in, nil)
	require.NoError(t, err)
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Contains(t, string(text), `"ok":false`)
	require.True(t, resp.Close)
	return resp.StatusCode
}

// TestRefusedUnread sends messages that are refused for their framing or size, and
// never what they announce. The answer doesn't wait for it, and a thousand of them
// at once cost no memory to speak of. Neither do bodies that are allowed and trickle.
func TestRefusedUnread(t *testing.T) {
	server := newService(t).server
	key := settleIn(t, server).client.Key
	head := func(path string, headers ...string) string {
		return "POST " + path + " HTTP/1.1\r\nHost: m\r\nAuthorization: Bearer " + key + "\r\n" + strings.Join(headers, "\r\n") + "\r\n\r\n"
	}
	for _, c := range []struct {
		name, text string
		status     int // 0: none yet
	}{
		{"64 KiB and one", head("/v1/delivery", "Content-Length: 65537"), 413},
		{"10 GB", head("/v1/delivery", "Content-Length: 10737418240"), 413},
		{"10 GB, elsewhere", head("/v1/rights", "Content-Length: 10737418240"), 413},
		{"10 GB, waiting for 100", head("/v1/delivery", "Content-Length: 10737418240", "Expect: 100-continue"), 413},
		{"chunked", head("/v1/delivery", "Transfer-Encoding: chunked"), 400},
		{"chunked, waiting for 100", head("/v1/rights", "Transfer-Encoding: chunked", "Expect: 100-continue"), 400},
		{"length and coding", head("/v1/delivery", "Content-Length: 5", "Transfer-Encoding: chunked"), 400},
		{"two lengths", head("/v1/delivery", "Content-Length: 5", "Content-Length: 6"), 400},
		{"the longest body, one byte sent", head("/v1/rights", "Content-Length: 1048576") + "{", 0},
		{"the longest delivery, one byte sent", head("/v1/delivery", "Content-Length: 65536") + "{", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.status != 0 {
				// What waits for something waits each time: the fastest of a hundred counts,
				// whatever else this machine does.
				fastest := time.Minute
				for round := 0; round < 10 || round < 100 && fastest > 50*time.Millisecond; round++ {
					began := time.Now()
					require.Equal(t, c.status, attack(t, server, 1, c.text)[0].readStatus(t))
					fastest = min(fastest, time.Since(began))
				}
				require.LessOrEqual(t, fastest, 50*time.Millisecond)
			}
			before := resident(t, server)
			all := attack(t, server, crowd, c.text)
			most := resident(t, server)
			for _, a := range all {
				if c.status != 0 {
					require.Equal(t, c.status, a.readStatus(t))
				}
				most = max(most, resident(t, server))
			}
			for _, a := range all {
				require.NoError(t, a.conn.Close())
			}
			require.LessOrEqual(t, most-before, 50<<20, "resident bytes")
			t.Logf("%d connections: %.1f MB", crowd, float64(most-before)/1e6)
		})
	}
}

// resident is the server's resident memory in bytes.
func resident(t *testing.T, server *system.Server) int {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", server.PID()))
	require.NoError(t, err)
	pages, err := strconv.Atoi(strings.Fields(string(text))[1])
	require.NoError(t, err)
	return pages * syscall.Getpagesize()
}

// TestHeaderBombs sends many each of headers too large and too many. When
// they are gone, so is everything that they took.
func TestHeaderBombs(t *testing.T) {
	server := newService(t).server
	goroutines, heap := live(t, server)
	var many []string
	for i := range 1000 {
		many = append(many, string(rune('a'+i%26))+":")
	}
	for text, status := range map[string]int{
		"GET /v1 HTTP/1.1\r\nHost: m\r\nX: " + strings.Repeat("x", 16<<10) + "\r\n\r\n":         431,
		"GET /v1 HTTP/1.1\r\nHost: m\r\nCookie: " + strings.Repeat("x", 1<<20):                  431,
		"GET /v1 HTTP/1.1\r\nHost: m\r\n" + strings.Join(many, "\r\n") + "\r\n\r\n":             400,
		"GET /" + strings.Repeat("x", 16<<10) + " HTTP/1.1\r\nHost: m\r\n\r\n":                  431,
		"GET /v1 HTTP/1.1\r\nHost: m\r\n" + strings.Repeat(" ", 7000) + "x: y\r\n" + "\r\n\r\n": 400,
	} {
		for range times(2, crowd/100) {
			all := attack(t, server, 100, text)
			for _, a := range all {
				require.Equal(t, status, a.readStatus(t), "%.60q", text)
				require.NoError(t, a.conn.Close())
			}
		}
	}
	var g, h int
	until(t, func() bool {
		g, h = live(t, server)
		return g <= goroutines+5 && h <= heap+5<<20
	})
	t.Logf("goroutines %d → %d, heap %.1f → %.1f MB", goroutines, g, float64(heap)/1e6, float64(h)/1e6)
}

var liveMetrics = regexp.MustCompile(`(?m)^(go_goroutines|go_memstats_heap_alloc_bytes) (\S+)$`)

// live is the server's goroutines and bytes on the heap after a collection.
func live(t *testing.T, server *system.Server) (goroutines, heap int) {
	t.Helper()
	token, err := server.AdminToken()
	require.NoError(t, err)
	get := func(path string) string {
		a := call(t, server.Admin, token, operation{method: "GET", path: path})
		require.Equal(t, 200, a.status)
		return a.body
	}
	for range 2 { // what a pool has lost in the first collection is freed by the second
		get("/debug/pprof/heap?gc=1")
	}
	var n []int
	for _, m := range liveMetrics.FindAllStringSubmatch(get("/metrics"), -1) {
		v, err := strconv.ParseFloat(m[2], 64)
		require.NoError(t, err)
		n = append(n, int(v))
	}
	require.Len(t, n, 2)
	return n[0], n[1]
}
