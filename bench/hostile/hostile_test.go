// Package hostile sends what no honest caller sends, and restores backups that somebody has changed.
package hostile

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/bench/system"
	"muniment.example/bench/system/systemtest"
	"muniment.example/bench/waittest"
	"muniment.example/gateway/api"
)

func TestMain(m *testing.M) { systemtest.Main(m) }

// TestHostileBodies sends bodies that careless decoders take to every operation
// that takes one.
func TestHostileBodies(t *testing.T) {
	t.Parallel()
	server := systemtest.Shared(t).Server
	tenant := systemtest.SettleIn(t, server)
	for _, o := range systemtest.Operations(t, server) {
		if o.Body == "" {
			continue
		}
		o = o.With(tenant.IDs)
		whole, wrong := strings.TrimSuffix(o.Body, "}"), `[[]]`
		if o.Id == "ingest-batch" {
			wrong = `{}` // of a list, each row is judged by itself
		}
		name, rest, _ := strings.Cut(strings.TrimPrefix(o.Body, `{"`), `"`)
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
			{o.Body + "{}", 400, api.BadRequest},
			{o.Body + "\x00", 400, api.BadRequest},
			{whole, 400, api.BadRequest},
			{whole + `,"x":1,"x":2}`, 422, api.ValidationFailed},
			{whole + `,"` + name + `":1}`, 422, api.ValidationFailed},
			{`{"` + name + `":` + wrong + `}`, 422, api.ValidationFailed},
			{`[` + o.Body + `]`, 422, api.ValidationFailed},
			{`"` + name + `"`, 422, api.ValidationFailed},
		} {
			hostile := o
			hostile.Body = c.body
			systemtest.Call(t, server.API, tenant.Client.Key, hostile).Refused(t, c.status, c.code, fmt.Sprintf("%s %s %.80q", o.Method, o.Path, c.body))
		}
		if o.Id != "ingest-batch" { // which takes files as systems write them
			hostile := o
			hostile.Body = "\ufeff" + o.Body
			systemtest.Call(t, server.API, tenant.Client.Key, hostile).Refused(t, 400, api.BadRequest, o.Path)
		}
		if !slices.Contains([]string{"observe-delivery", "ingest-batch"}, o.Id) { // of which nothing is kept in control's database
			hostile := o
			hostile.Body = whole + `,"x":["\u0000"]}`
			systemtest.Call(t, server.API, tenant.Client.Key, hostile).Refused(t, 422, api.ValidationFailed, fmt.Sprintf("%s %s %.80q", o.Method, o.Path, hostile.Body))
		}
		hostile := o
		hostile.Body = `{"` + strings.ToUpper(name) + `"` + rest
		systemtest.Call(t, server.API, tenant.Client.Key, hostile).Refused(t, 422, api.ValidationFailed, "upper case: "+hostile.Body)
	}
	big := systemtest.Operation{Method: "POST", Path: "/v1/rights", Body: `{"basisId":"{basisId}","substrate":"AUTOMOTIVE","scope":{"maxSpeedMph":1e400},"effectiveFrom":"2026-01-01T00:00:00Z"}`}
	systemtest.Call(t, server.API, tenant.Client.Key, big.With(tenant.IDs)).Refused(t, 422, api.ValidationFailed, big.Body)
	var list struct{ Rights []struct{ State string } }
	require.NoError(t, tenant.Client.Do(t.Context(), "GET", "/v1/rights", nil, &list))
	require.Equal(t, []struct{ State string }{{"ACTIVE"}}, list.Rights)
}

// TestHostileReferences names resources by what is no text to every operation that takes
// an id or a filter.
func TestHostileReferences(t *testing.T) {
	t.Parallel()
	server := systemtest.Shared(t).Server
	tenant := systemtest.SettleIn(t, server)
	requests := 0
	for _, o := range systemtest.Operations(t, server) {
		route, query, _ := strings.Cut(o.Path, "?")
		for _, bad := range []string{"%00", "x%00", "%ff", "%c0%80", "%ed%a0%80"} {
			for _, m := range systemtest.Resource.FindAllStringSubmatch(route, -1) {
				hostile := o.With(map[string]string{m[1]: bad}).With(tenant.IDs)
				systemtest.Call(t, server.API, tenant.Client.Key, hostile).Refused(t, 404, api.ResourceNotFound, o.Method+" "+hostile.Path)
				requests++
			}
			names := append(slices.Clone(o.Filters), "cursor")
			for _, m := range systemtest.Resource.FindAllStringSubmatch(query, -1) {
				names = append(names, m[1])
			}
			for _, name := range names {
				hostile := o
				if name != "cursor" || strings.Contains(o.Id, "list-") {
					hostile.Path = route + "?" + name + "=" + bad
					systemtest.Call(t, server.API, tenant.Client.Key, hostile.With(tenant.IDs)).Refused(t, 422, api.ValidationFailed, o.Method+" "+hostile.Path)
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
		c, err := net.Dial("tcp", systemtest.HostPort(server.API))
		require.NoError(t, err)
		t.Cleanup(func() { c.Close() })
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
// never what they announce. The answer does not wait for that, and a thousand of them
// at once cost no memory to speak of. Neither do bodies that are allowed and trickle.
func TestRefusedUnread(t *testing.T) {
	server := systemtest.NewService(t).Server
	key := systemtest.SettleIn(t, server).Client.Key
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
		{"chunked, nothing sent", head("/v1/delivery", "Transfer-Encoding: chunked"), 0},
		{"chunked, 64 KiB and one", head("/v1/delivery", "Transfer-Encoding: chunked") + "10001\r\n", 413},
		{"chunked, 1 MiB and one, elsewhere", head("/v1/rights", "Transfer-Encoding: chunked") + "100001\r\n", 413},
		{"chunked, no size", head("/v1/delivery", "Transfer-Encoding: chunked") + "0x1\r\n", 400},
		{"chunked, waiting for 100", head("/v1/rights", "Transfer-Encoding: chunked", "Expect: 100-continue"), 0},
		{"length and coding", head("/v1/delivery", "Content-Length: 5", "Transfer-Encoding: chunked"), 400},
		{"two lengths", head("/v1/delivery", "Content-Length: 5", "Content-Length: 6"), 400},
		{"the longest body, one byte sent", head("/v1/rights", "Content-Length: 1048576") + "{", 0},
		{"the longest delivery, one byte sent", head("/v1/delivery", "Content-Length: 65536") + "{", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.status != 0 {
				require.Equal(t, c.status, attack(t, server, 1, c.text)[0].readStatus(t))
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
	server := systemtest.NewService(t).Server
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
		for range systemtest.Times(2, crowd/100) {
			all := attack(t, server, 100, text)
			for _, a := range all {
				require.Equal(t, status, a.readStatus(t), "%.60q", text)
				require.NoError(t, a.conn.Close())
			}
		}
	}
	var g, h int
	waittest.Until(t, func() bool {
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
		a := systemtest.Call(t, server.Admin, token, systemtest.Operation{Method: "GET", Path: path})
		require.Equal(t, 200, a.Status)
		return a.Body
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
