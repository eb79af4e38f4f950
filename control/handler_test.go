package control_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/control"
	"muniment.example/control/route"
	"muniment.example/gateway/api"
)

// trouble is a service whose operations go wrong.
type trouble struct{}

func (trouble) Routes(a route.API) {
	register := func(path string, handle func(context.Context, *struct{}) (*struct{}, error)) {
		route.AddRaw(a, route.Operation{ID: "trouble" + strings.ReplaceAll(path, "/", "-"), Method: http.MethodGet, Path: path, Access: route.Public{}}, handle)
	}
	register("/trouble/fails", func(context.Context, *struct{}) (*struct{}, error) {
		return nil, errors.New("disk of host db7 is full")
	})
	register("/trouble/unreachable", func(context.Context, *struct{}) (*struct{}, error) {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	})
	register("/trouble/panics", func(context.Context, *struct{}) (*struct{}, error) { panic("index out of range") })
	register("/trouble/away", func(context.Context, *struct{}) (*struct{}, error) {
		return nil, api.Unavailable(api.WarehouseBehind, "the warehouse is behind", 1500e6)
	})
	route.AddRaw(a, route.Operation{ID: "trouble-shares", Method: http.MethodPost, Path: "/trouble/shares", Access: route.Public{}},
		func(context.Context, *sharesInput) (*struct{}, error) { return nil, nil })
}

// sharesInput has objects within its body, whose required members are not in the order of
// their names.
type sharesInput struct {
	Body struct {
		Unit   string  `json:"unit"`
		Price  string  `json:"price"`
		Shares []share `json:"shares"`
		Match  *share  `json:"match,omitempty"`
	}
}

type share struct {
	To  string `json:"to"`
	Bps int64  `json:"bps"`
}

// requireRetryAfter requires a Retry-After of that many seconds and what keeps callers out of step.
func requireRetryAfter(t testing.TB, least int, header string) {
	t.Helper()
	after, err := strconv.Atoi(header)
	require.NoError(t, err)
	require.GreaterOrEqual(t, after, least)
	require.LessOrEqual(t, after, least+min(max(1, least/10), 60))
}

// TestRefusals are requests that never reach a service's handler, or come back from
// it as an error, with the whole envelope.
func TestRefusals(t *testing.T) {
	oneFault := regexp.MustCompile(`^"field":"(.+?)","message":"\S+: (.+)","ok"`)
	h := newFixture(t)
	_, key := h.tenant()
	_, reader := h.tenant("rights:read")
	deep := strings.Repeat("[", 32) + strings.Repeat("]", 32) // 33 levels with the body's own
	for _, c := range []struct {
		name, key, method, path, body string
		status                        int
		code                          api.Code
		envelope                      string // the rest of it
	}{
		{"no key", "", "GET", "/v1/tenant", "", 401, api.AuthRequired, `"message":"the header Authorization: Bearer <API_KEY> is missing or malformed"`},
		{"no known key", "mun_test_x", "GET", "/v1/tenant", "", 401, api.AuthInvalid, `"message":"the API key is not valid"`},
		{"a key without the scope", reader, "POST", "/v1/bases", "not even JSON", 403, api.ScopeMissing,
			`"keyScopes":["rights:read"],"message":"the key lacks the scope rights:write","requiredScopes":["rights:write"]`},
		{"an id of another kind", key, "GET", "/v1/rights/ofr_01ARZ3NDEKTSV4RRFFQ69G5FAV", "", 404, api.ResourceNotFound,
			`"field":"rightId","message":"no such right in this tenant: the id is that of another kind, offer"`},
		{"an id of another kind in a body", key, "POST", "/v1/rights", `{"basisId":"rgh_1","substrate":"CTV","scope":{},"effectiveFrom":"2026-01-01T00:00:00Z"}`, 404, api.ResourceNotFound,
			`"field":"basisId","message":"no such basis in this tenant: the id is that of another kind, right"`},
		{"unknown path", key, "GET", "/v1/nothing", "", 404, api.ResourceNotFound, `"message":"there is nothing under this path"`},
		{"unclean path", key, "GET", "/v1//tenant", "", 404, api.ResourceNotFound, `"message":"there is nothing under this path"`},
		{"trailing slash", key, "GET", "/v1/tenant/", "", 404, api.ResourceNotFound, `"message":"there is nothing under this path"`},
		{"wrong method", key, "DELETE", "/v1/tenant", "", 405, api.BadRequest, `"message":"the path does not have this method"`},
		{"no body", key, "POST", "/v1/bases", "", 400, api.BadRequest, `"message":"request body is required"`},
		{"no JSON", key, "POST", "/v1/bases", "{\n\"kind\":", 400, api.BadRequest, `"message":"the body is not valid JSON: line 2, byte 8"`},
		{"invalid UTF-8", key, "POST", "/v1/bases", "{\"title\":\"\xff\"}", 400, api.BadRequest, `"message":"the body is not valid JSON: line 1, byte 11"`},
		{"lone surrogate", key, "POST", "/v1/bases", `{"title":"\ud800"}`, 400, api.BadRequest, `"message":"the body is not valid JSON: line 1, byte 11"`},
		{"U+0000", key, "POST", "/v1/bases", `{"kind":"LICENSE","title":"a\u0000b"}`, 422, api.ValidationFailed,
			`"field":"title","message":"title: must not contain control characters, except tabs and line breaks: it contains U+0000"`},
		{"a control character of eight bits in a name", key, "POST", "/v1/rights", `{"scope":{"labels":{"\u009b":1}}}`, 422, api.ValidationFailed,
			"\"field\":\"scope.labels.\u009b\",\"message\":\"scope.labels.\u009b: must not contain control characters, except tabs and line breaks: it contains U+009B\""},
		{"U+0000 deep inside", key, "POST", "/v1/rights", `{"scope":{"x":[1,"\u0000"]}}`, 422, api.ValidationFailed,
			`"field":"scope.x[1]","message":"scope.x[1]: must not contain control characters, except tabs and line breaks: it contains U+0000"`},
		{"U+0000 in a name", key, "POST", "/v1/rights", `{"scope":{"\u0000":1}}`, 422, api.ValidationFailed,
			`"field":"scope.\u0000","message":"scope.\u0000: must not contain control characters, except tabs and line breaks: it contains U+0000"`},
		{"U+0000 in a path", key, "GET", "/v1/rights/%00", "", 404, api.ResourceNotFound, `"message":"there is nothing under this path"`},
		{"invalid UTF-8 in a path", key, "GET", "/v1/offers/%ff", "", 404, api.ResourceNotFound, `"message":"there is nothing under this path"`},
		{"U+0000 in a query", key, "GET", "/v1/offers?rightId=x&rightId=%00", "", 422, api.ValidationFailed,
			`"field":"rightId","message":"rightId: must be UTF-8 without U+0000"`},
		{"invalid UTF-8 in a query", key, "GET", "/v1/rights?basisId=%ff", "", 422, api.ValidationFailed,
			`"field":"basisId","message":"basisId: must be UTF-8 without U+0000"`},
		{"U+0000 in a cursor", key, "GET", "/v1/offers?cursor=L3YxL29mZmVyczoA", "", 422, api.ValidationFailed, `"field":"cursor","message":"cursor: is no cursor of this list"`},
		{"two values", key, "POST", "/v1/bases", `{} {}`, 400, api.BadRequest, `"message":"the body has data after its JSON value"`},
		{"junk behind", key, "POST", "/v1/bases", `{}x`, 400, api.BadRequest, `"message":"the body has data after its JSON value"`},
		{"too deep", key, "POST", "/v1/rights", `{"scope":` + deep + `}`, 400, api.BadRequest, `"message":"the body nests deeper than 32 levels"`},
		{"a name twice", key, "POST", "/v1/rights", `{"scope":{"regions":[],"regions":[]}}`, 422, api.ValidationFailed,
			`"field":"scope.regions","message":"scope.regions: is given twice"`},
		{"a number out of range", key, "POST", "/v1/rights", `{"scope":{"maxSpeedMph":1e400}}`, 422, api.ValidationFailed,
			`"field":"scope.maxSpeedMph","message":"scope.maxSpeedMph: must be a number that a double holds"`},
		{"no object", key, "POST", "/v1/bases", `[]`, 422, api.ValidationFailed, `"field":"body","message":"body: expected object"`},
		{"a field missing", key, "POST", "/v1/bases", `{"kind":"LICENSE"}`, 422, api.ValidationFailed, `"field":"title","message":"title: is missing"`},
		{"case is exact", key, "POST", "/v1/bases", `{"kind":"LICENSE","TITLE":"x"}`, 422, api.ValidationFailed, `"field":"TITLE","message":"TITLE: is unknown: did you mean title?"`},
		{"two faults", key, "POST", "/v1/bases", `{"kind":3}`, 422, api.ValidationFailed,
			`"field":"kind","message":"several fields are not valid","validationErrors":[{"field":"kind","message":"expected string"},{"field":"title","message":"is missing"}]`},
		{"fields missing around another fault", "", "POST", "/trouble/shares", `{"shares":3}`, 422, api.ValidationFailed,
			`"field":"price","message":"several fields are not valid","validationErrors":[{"field":"price","message":"is missing"},{"field":"shares","message":"expected array"},{"field":"unit","message":"is missing"}]`},
		{"fields missing of objects within", "", "POST", "/trouble/shares", `{"unit":"","price":"","match":{},"shares":[{"to":"x","bps":{}},{"bps":1}]}`, 422, api.ValidationFailed,
			`"field":"match.bps","message":"several fields are not valid","validationErrors":[{"field":"match.bps","message":"is missing"},{"field":"match.to","message":"is missing"},` +
				`{"field":"shares[0].bps","message":"expected integer"},{"field":"shares[1].to","message":"is missing"}]`},
		{"no such kind", key, "POST", "/v1/bases", `{"kind":"GIFT","title":"x"}`, 422, api.ValidationFailed,
			`"field":"kind","message":"kind: expected value to be one of \"LICENSE, CONSENT, CONTRACT, STATUTE, LEGITIMATE_INTEREST\""`},
		{"no date", key, "POST", "/v1/bases", `{"kind":"LICENSE","title":"x","effectiveFrom":"yesterday"}`, 422, api.ValidationFailed,
			`"field":"effectiveFrom","message":"effectiveFrom: must be a date, such as 2026-11-01, or a time, such as 2026-11-01T12:00:00Z or 20261101T120000Z"`},
		{"a date before all", key, "POST", "/v1/bases", `{"kind":"LICENSE","title":"x","effectiveUntil":"0001-01-01T00:00:00Z"}`, 422, api.ValidationFailed,
			`"field":"effectiveUntil","message":"effectiveUntil: must be within the years 1970 to 9999"`},
		{"a date after all", key, "POST", "/v1/rights", `{"basisId":"x","substrate":"CTV","scope":{},"effectiveFrom":"9999-12-31T23:59:59-01:00"}`, 422, api.ValidationFailed,
			`"field":"effectiveFrom","message":"effectiveFrom: must be within the years 1970 to 9999"`},
		{"no substrate", key, "POST", "/v1/rights", `{"basisId":"x","substrate":"ctv","scope":{},"effectiveFrom":"2026-01-01T00:00:00Z"}`, 422, api.ValidationFailed,
			`"field":"substrate","message":"substrate: is not a substrate"`},
		{"no scope", key, "POST", "/v1/rights", `{"basisId":"x","substrate":"CTV","effectiveFrom":"2026-01-01T00:00:00Z"}`, 422, api.ValidationFailed,
			`"field":"scope","message":"scope: is missing"`},
		{"no hash", key, "POST", "/v1/bases", `{"kind":"LICENSE","title":"x","contentHash":"47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFV"}`, 422, api.ValidationFailed,
			`"field":"contentHash","message":"contentHash: must be a SHA-256 in base64url, without padding"`},
		{"limit too high", key, "GET", "/v1/bases?limit=501", "", 422, api.ValidationFailed, `"field":"limit","message":"limit: expected number <= 500"`},
		{"limit no number", key, "GET", "/v1/bases?limit=x", "", 422, api.ValidationFailed, `"field":"limit","message":"limit: invalid integer"`},
		{"limit without a value", key, "GET", "/v1/bases?limit=", "", 422, api.ValidationFailed, `"field":"limit","message":"limit: must not be empty"`},
		{"state without a value", key, "GET", "/v1/rights?cursor=&state=", "", 422, api.ValidationFailed, `"field":"state","message":"state: must not be empty"`},
		{"a fraction of a second", key, "POST", "/v1/api-keys/x/rotate", `{"overlapSeconds":1.5}`, 422, api.ValidationFailed,
			`"field":"overlapSeconds","message":"overlapSeconds: expected integer"`},
		{"a cursor of our own making", key, "GET", "/v1/bases?cursor=abc", "", 422, api.ValidationFailed, `"field":"cursor","message":"cursor: is no cursor of this list"`},
		{"too long", key, "POST", "/v1/bases", strings.Repeat(" ", 1<<20+1), 413, api.BadRequest, `"message":"the body is longer than 1048576 bytes"`},
		{"a failure inside", "", "GET", "/trouble/fails", "", 500, api.InternalError, `"message":"internal error"`},
		{"a panic", "", "GET", "/trouble/panics", "", 500, api.InternalError, `"message":"internal error"`},
		{"not now", "", "GET", "/trouble/away", "", 503, api.InternalError, `"message":"the warehouse is behind","ok":false,"reason":"WAREHOUSE_BEHIND"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := h.call(c.key, c.method, c.path, c.body)
			a.t = t
			rest := c.envelope
			if !strings.Contains(rest, `"ok"`) {
				rest = strings.Replace(rest, `"requiredScopes"`, `"ok":false,"requiredScopes"`, 1)
				rest = strings.Replace(rest, `"validationErrors"`, `"ok":false,"validationErrors"`, 1)
			}
			if !strings.Contains(rest, `"ok"`) {
				rest += `,"ok":false`
				if one := oneFault.FindStringSubmatch(rest); one != nil {
					rest += fmt.Sprintf(`,"validationErrors":[{"field":"%s","message":"%s"}]`, one[1], one[2])
				}
			}
			require.Equal(t, `{"contractVersion":"v1.0","error":"`+string(c.code)+`",`+rest+`}`, a.refused(c.status, c.code))
		})
	}
	require.Contains(t, h.logged.String(), "disk of host db7 is full", "the log knows what the caller does not")
	require.Contains(t, h.logged.String(), "index out of range")
	require.NotContains(t, h.logged.String(), key)
	requireRetryAfter(t, 2, h.call("", "GET", "/trouble/away", "").header.Get("Retry-After"))
	require.Equal(t, "GET, HEAD", h.call(key, "DELETE", "/v1/tenant", "").header.Get("Allow"))
}

func TestBodyOfExactlyTheLimit(t *testing.T) {
	h := newFixture(t)
	_, key := h.tenant()
	body := `{"kind":"LICENSE","title":"x"}`
	h.call(key, "POST", "/v1/bases", body+strings.Repeat(" ", 1<<20-len(body)), "Content-Type", "text/plain").ok()
}

func TestBodyOfExactlyTheDepth(t *testing.T) {
	h := newFixture(t)
	_, key := h.tenant()
	h.call(key, "POST", "/v1/rights", fmt.Sprintf(`{"basisId":%q,"substrate":"CTV","effectiveFrom":"2026-01-01T00:00:00Z","scope":{"x-more":%s%s}}`,
		h.basis(key), strings.Repeat("[", 30), strings.Repeat("]", 30))).ok()
}

// TestIntegersInAllSpellings: JSON Schema makes no difference between 60, 60.0 and 6e1.
func TestIntegersInAllSpellings(t *testing.T) {
	h := newFixture(t)
	_, key := h.tenant()
	for _, minute := range []string{"60", "60.0", "6e1"} {
		made := h.call(key, "POST", "/v1/api-keys", `{"label":"x"}`).ok()
		rotated := h.call(key, "POST", "/v1/api-keys/"+get[string](t, made, "key", "keyId")+"/rotate", `{"overlapSeconds":`+minute+`}`).ok()
		at := func(names ...string) time.Time {
			when, err := time.Parse(time.RFC3339, get[string](t, rotated, names...))
			require.NoError(t, err)
			return when
		}
		require.Equal(t, at("key", "createdAt").Add(time.Minute), at("replaced", "expiresAt"), minute)
	}
}

func TestRequestID(t *testing.T) {
	h := newFixture(t)
	require.Equal(t, "mine-1", h.call("", "GET", "/v1/tenant", "", "X-Request-Id", "mine-1").header.Get("X-Request-Id"))
	for _, bad := range []string{"", "has space", strings.Repeat("x", 65)} {
		made := h.call("", "GET", "/v1/tenant", "", "X-Request-Id", bad).header.Get("X-Request-Id")
		require.True(t, strings.HasPrefix(made, "req_"), made)
	}
}

// silent has an operation that declares an access.
type silent struct{ access route.Access }

func (s silent) Routes(a route.API) {
	route.AddRaw(a, route.Operation{ID: "silent", Method: http.MethodGet, Path: "/silent", Access: s.access},
		func(context.Context, *struct{}) (*struct{}, error) { return nil, nil })
}

// TestOperationWithoutAccessKeepsControlFromStarting: nor does one that lets in whom its
// listener doesn't know.
func TestOperationWithoutAccessKeepsControlFromStarting(t *testing.T) {
	h := newFixture(t)
	for _, access := range []route.Access{nil, route.Operator{}, route.Node{}, route.Own{}} {
		cfg := h.config()
		cfg.Services = append(cfg.Services, silent{access})
		_, err := control.New(cfg)
		require.ErrorContains(t, err, `operation "silent" declares no access that this listener grants`, "%T", access)
	}
}

// TestAnswersWithoutReading the body leave the connection to the next request: a gateway has sent the
// body whole, and must not take the end of the connection for an outage.
func TestAnswersWithoutReading(t *testing.T) {
	h := newFixture(t)
	server := httptest.NewServer(h.control().Handler())
	defer server.Close()
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	require.NoError(t, err)
	defer conn.Close()
	in := bufio.NewReader(conn)
	for range 3 {
		for path, want := range map[string]int{"POST /v1/rights": 401, "PUT /v1/rights": 405, "POST /v1/nothing": 404} {
			for _, length := range []int{270_000, 1 << 20} {
				_, err := fmt.Fprintf(conn, "%s HTTP/1.1\r\nHost: m\r\nContent-Length: %d\r\n\r\n%s", path, length, strings.Repeat("x", length))
				require.NoError(t, err)
				resp, err := http.ReadResponse(in, nil)
				require.NoError(t, err)
				_, err = io.Copy(io.Discard, resp.Body)
				require.NoError(t, err)
				require.Equal(t, want, resp.StatusCode)
				require.False(t, resp.Close, "%s, %d bytes", path, length)
			}
		}
	}
}

// TestTwoKeys are none, for each kind of caller.
func TestTwoKeys(t *testing.T) {
	h := newFixture(t)
	_, key := h.tenant()
	for path, to := range map[string]http.Handler{
		"/v1/tenant": h.control().Handler(), "/admin/signing-keys": h.control().Admin(), api.PathSnapshots + "/right/rgh_1": h.control().Nodes(),
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
		r.Header["Authorization"] = []string{"Bearer " + key, "Bearer " + key}
		w := httptest.NewRecorder()
		to.ServeHTTP(w, r)
		require.Equal(t, 401, w.Code, path)
		require.Contains(t, w.Body.String(), api.AuthRequired)
	}
}
