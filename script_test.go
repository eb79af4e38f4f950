package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/cookiejar"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment/control/sandbox"
	"muniment/gateway/api"
)

// A script is a text of exchanges with blank lines between them:
//
//	# Lines of comment.
//	POST /v1/rights/{{rightId}}/suspend
//	Some-Header: value
//	{"reason": "complaint"}
//	< 200
//	Some-Header: value
//	{"data": {"right": {"state": "SUSPENDED", "revision": "{{revision}}"}}}
//
// Behind < is what the answer has at least: its status, headers, and members of its
// body; an array has to have all of its elements. "{{name}}" takes any value at first,
// and from then on stands for it, in requests as well. Without an Authorization header
// a request has the tenant's key; an empty one sends none. Cookies are kept.

// exchange is one request of a script, and what is expected of its answer.
type exchange struct {
	line           int
	method, target string
	header         http.Header
	body           string
	status         int
	wantHeader     http.Header
	want           string
}

// headerLine is Name: value. A line of JSON begins otherwise.
var headerLine = regexp.MustCompile(`^([A-Za-z][\w-]*):\s*(.*)$`)

// readScript reads the exchanges of a file.
func readScript(t *testing.T, file string) (script []exchange) {
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	var x *exchange // nil between two
	for i, line := range strings.Split(string(text), "\n") {
		at := fmt.Sprintf("%s:%d", file, i+1)
		parts := headerLine.FindStringSubmatch(line)
		switch {
		case strings.TrimSpace(line) == "":
			require.True(t, x == nil || x.status != 0, "%s: nothing is expected of the answer", at)
			x = nil
		case x == nil && strings.HasPrefix(line, "#"):
		case x == nil:
			script = append(script, exchange{line: i + 1, header: http.Header{}, wantHeader: http.Header{}})
			x = &script[len(script)-1]
			var ok bool
			x.method, x.target, ok = strings.Cut(line, " ")
			require.True(t, ok, "%s: no request line", at)
		case strings.HasPrefix(line, "< "):
			x.status, err = strconv.Atoi(line[2:])
			require.NoError(t, err, at)
		case x.status == 0 && x.body == "" && parts != nil:
			x.header.Set(parts[1], parts[2])
		case x.status == 0:
			x.body += line + "\n"
		case x.want == "" && parts != nil:
			x.wantHeader.Set(parts[1], parts[2])
		default:
			x.want += line + "\n"
		}
	}
	require.NotEmpty(t, script, file)
	return script
}

// player plays scripts against a service.
type player struct {
	url     string
	client  *http.Client
	names   map[string]any
	reached map[string]bool // the error codes, and the states of records as <noun>.<state>
}

func (p *player) play(t *testing.T, file string) {
	for _, x := range readScript(t, file) {
		at := fmt.Sprintf("%s:%d", file, x.line)
		req, err := http.NewRequestWithContext(t.Context(), x.method, p.url+p.fill(t, x.target, at), strings.NewReader(p.fill(t, x.body, at)))
		require.NoError(t, err, at)
		req.Header.Set("Authorization", "Bearer "+p.names["key"].(string))
		for name := range x.header {
			req.Header.Set(name, p.fill(t, x.header.Get(name), at))
		}
		resp, err := p.client.Do(req)
		require.NoError(t, err, at)
		text, err := io.ReadAll(resp.Body)
		require.NoError(t, err, at)
		require.NoError(t, resp.Body.Close(), at)
		require.Equal(t, x.status, resp.StatusCode, "%s: %s", at, text)
		for name := range x.wantHeader {
			require.Equal(t, p.fill(t, x.wantHeader.Get(name), at), resp.Header.Get(name), "%s: %s", at, name)
		}
		if x.want == "" {
			continue
		}
		var want, got any
		require.NoError(t, json.Unmarshal([]byte(x.want), &want), "%s: what is expected is no JSON", at)
		require.NoError(t, json.Unmarshal(text, &got), "%s: %s", at, text)
		p.match(t, want, got, at+": answer")
		p.note("", want)
	}
}

var inBraces = regexp.MustCompile(`\{\{(\w+)\}\}`)

// fill puts in what the names of a text stand for.
func (p *player) fill(t *testing.T, text, at string) string {
	return inBraces.ReplaceAllStringFunc(text, func(name string) string {
		value, known := p.names[strings.Trim(name, "{}")]
		require.True(t, known, "%s: %s stands for nothing yet", at, name)
		return fmt.Sprint(value)
	})
}

// match asks that got has all that want has.
func (p *player) match(t *testing.T, want, got any, at string) {
	switch want := want.(type) {
	case map[string]any:
		members, ok := got.(map[string]any)
		require.True(t, ok, "%s is %v", at, got)
		for _, name := range slices.Sorted(maps.Keys(want)) {
			require.Contains(t, members, name, at)
			p.match(t, want[name], members[name], at+"."+name)
		}
	case []any:
		elements, ok := got.([]any)
		require.True(t, ok && len(elements) == len(want), "%s is %v", at, got)
		for i := range want {
			p.match(t, want[i], elements[i], fmt.Sprintf("%s[%d]", at, i))
		}
	case string:
		if whole := inBraces.FindStringSubmatch(want); whole != nil && whole[0] == want {
			require.NotContains(t, []any{nil, ""}, got, at)
			if _, known := p.names[whole[1]]; !known {
				p.names[whole[1]] = got
			}
			require.Equal(t, p.names[whole[1]], got, at)
			return
		}
		require.Equal(t, p.fill(t, want, at), got, at)
	default:
		require.Equal(t, want, got, at)
	}
}

// note keeps which error codes and states were expected, and so reached.
func (p *player) note(of string, want any) {
	members, _ := want.(map[string]any)
	for name, value := range members {
		if text, ok := value.(string); ok && (name == "error" || name == "state") {
			p.reached[strings.TrimPrefix(of+"."+text, ".")] = true
		}
		p.note(name, value)
	}
}

// TestScripts plays the scripts, each as a tenant of its own.
func TestScripts(t *testing.T) {
	t.Setenv("MUNIMENT_SANDBOX_BURST", "1000")
	t.Setenv("MUNIMENT_SANDBOX_SUSTAINED", "1000")
	exe, data := muniment(t), filepath.Join(t.TempDir(), "data")
	server := startServer(t, exe, data)
	const folder = "testdata/scripts/"
	files, err := filepath.Glob(folder + "*.http")
	require.NoError(t, err)
	files = slices.DeleteFunc(files, func(file string) bool { return file == folder+"before.http" })
	reached, played := map[string]bool{}, 0
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".http"), func(t *testing.T) {
			jar, err := cookiejar.New(nil)
			require.NoError(t, err)
			tenant := createTenant(t, exe, data)
			p := player{server.API, &http.Client{Jar: jar}, map[string]any{"key": tenant.APIKey}, reached}
			p.play(t, folder+"before.http")
			p.play(t, file)
			played++
		})
	}
	if played < len(files) {
		return // -run has left some out, or they have failed
	}

	// Those two take a busy tenant, or a fault: the tests of what answers them have them.
	apart := []api.Code{api.RateLimited, api.InternalError}
	for _, code := range api.Codes() {
		require.Equal(t, !slices.Contains(apart, code), reached[string(code)], "is %s reached?", code)
	}
	for _, code := range []sandbox.Code{sandbox.NoTenant, sandbox.InvalidBody, sandbox.MissingFields, sandbox.HandlerError, sandbox.UnknownScenario} {
		require.True(t, reached[string(code)], "no script reaches the sandbox's %s", code)
	}
	for _, state := range []string{
		"right.ACTIVE", "right.SUSPENDED", "right.REVOKED",
		"offer.PROPOSED", "countered.COUNTERED", "offer.WITHDRAWN", "offer.REJECTED", "offer.ACCEPTED",
		"challenge.OPEN", "challenge.UPHELD", "challenge.OVERTURNED", "challenge.WITHDRAWN",
	} {
		require.True(t, reached[state], "no script reaches %s", state)
	}
}
