package main

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

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
// and from then on stands for it, in requests as well. "< 200 x 3" sends the request
// three times. Without an Authorization header a request has the tenant's key; an empty
// one sends none. Cookies are kept. Each request comes from an address of its own,
// unless it says by X-Forwarded-For from which. A POST under /v1 that succeeds is sent
// again with its Idempotency-Key, which is a new one unless the script has one.

// exchange is one request of a script, and what is expected of its answer.
type exchange struct {
	line           int
	method, target string
	header         http.Header
	body           string
	status, times  int
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
			status, times, repeated := strings.Cut(line[2:], " x ")
			x.status, err = strconv.Atoi(status)
			require.NoError(t, err, at)
			if x.times = 1; repeated {
				x.times, err = strconv.Atoi(times)
				require.NoError(t, err, at)
			}
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
	url    string
	client *http.Client
	names  map[string]any
	reached
}

// reached is what scripts were answered, and expected.
type reached struct {
	operations map[string]bool // <method> <path> of successes
	replayed   map[string]bool // of them, those that were sent again: see replays
	codes      map[string]bool // error codes: those of the sandbox behind "sandbox "
	states     map[string]bool // of records, as <noun>.<state>
}

// clearJar keeps Secure cookies for a service in clear: its scripts come from everywhere.
type clearJar struct{ *cookiejar.Jar }

func newJar(t *testing.T) http.CookieJar {
	jar, err := cookiejar.New(nil)
	require.NoError(t, err)
	return clearJar{jar}
}

func (j clearJar) SetCookies(u *url.URL, cookies []*http.Cookie) {
	for _, c := range cookies {
		c.Secure = false
	}
	j.Jar.SetCookies(u, cookies)
}

func (p *player) play(t *testing.T, file string) {
	for _, x := range readScript(t, file) {
		for range x.times {
			p.send(t, x, fmt.Sprintf("%s:%d", file, x.line))
		}
	}
}

// do sends a request of a script and reads the response.
func (p *player) do(t *testing.T, x exchange, at string) (*http.Response, []byte) {
	req, err := http.NewRequestWithContext(t.Context(), x.method, p.url+p.fill(t, x.target, at), strings.NewReader(p.fill(t, x.body, at)))
	require.NoError(t, err, at)
	if x.replays() {
		req.Header.Set(api.HeaderIdempotencyKey, rand.Text())
	}
	req.Header.Set("Authorization", "Bearer "+p.names["key"].(string))
	req.Header.Set("X-Forwarded-For", anyAddress())
	for name := range x.header {
		req.Header.Set(name, p.fill(t, x.header.Get(name), at))
	}
	resp, err := p.client.Do(req)
	require.NoError(t, err, at)
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err, at)
	require.NoError(t, resp.Body.Close(), at)
	checkStatus(t, p.url, x.method, req.URL.EscapedPath(), resp.StatusCode)
	return resp, text
}

func (p *player) send(t *testing.T, x exchange, at string) {
	resp, text := p.do(t, x, at)
	for i := 0; i < loadTries && x.status == http.StatusOK && notLoaded(response{resp.StatusCode, resp.Header, string(text)}); i++ {
		resp, text = p.do(t, x, at)
	}
	require.Equal(t, x.status, resp.StatusCode, "%s: %s", at, text)
	for name := range x.wantHeader {
		p.matchText(t, x.wantHeader.Get(name), resp.Header.Get(name), at+": "+name)
	}
	path, _, _ := strings.Cut(x.target, "?")
	if x.status == http.StatusOK {
		p.operations[x.method+" "+strings.NewReplacer("{{", "{", "}}", "}").Replace(path)] = true
		p.again(t, x, resp, string(text), at)
	}
	if x.want == "" {
		return
	}
	var want, got any
	require.NoError(t, json.Unmarshal([]byte(x.want), &want), "%s: what is expected is no JSON", at)
	require.NoError(t, json.Unmarshal(text, &got), "%s: %s", at, text)
	p.match(t, want, got, at+": answer")
	of := ""
	if sandbox.Enveloped(path) {
		of = "sandbox "
	}
	p.note(of, "", want)
}

// replays says whether the request gets the same bytes again when it is sent again: every
// POST under /v1 that control answers. Another gateway would answer a delivery by itself, and an
// erasure that is done has forgotten all answers.
func (x exchange) replays() bool {
	return x.method == http.MethodPost && strings.HasPrefix(x.target, "/v1/") && !slices.Contains([]string{"/v1/delivery", "/v1/delivery/ingest-batch", "/v1/compliance/erase"}, x.target)
}

// again sends a request that was answered once more.
func (p *player) again(t *testing.T, x exchange, resp *http.Response, text, at string) {
	if !x.replays() {
		return
	}
	same := x
	same.header = maps.Clone(x.header)
	same.header.Set(api.HeaderIdempotencyKey, resp.Request.Header.Get(api.HeaderIdempotencyKey))
	again, replayedBody := p.do(t, same, at)
	require.Equal(t, text, string(replayedBody), "%s: sent again", at)
	require.Equal(t, http.StatusOK, again.StatusCode, at)
	require.Equal(t, "true", again.Header.Get(api.HeaderReplayed), at)
	require.Equal(t, resp.Header.Get("Content-Type"), again.Header.Get("Content-Type"), at)
	p.replayed[x.method+" "+inBraces.ReplaceAllString(x.target, "{}")] = true
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

// match requires that got has all that want has.
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
		text, ok := got.(string)
		require.True(t, ok, "%s is %v", at, got)
		p.matchText(t, want, text, at)
	default:
		require.Equal(t, want, got, at)
	}
}

// matchText requires a text with names in it.
func (p *player) matchText(t *testing.T, want, got, at string) {
	pattern, end, taken := "^", 0, []string{}
	for _, in := range inBraces.FindAllStringSubmatchIndex(want, -1) {
		pattern += regexp.QuoteMeta(want[end:in[0]])
		name := want[in[2]:in[3]]
		if value, known := p.names[name]; known {
			pattern += regexp.QuoteMeta(fmt.Sprint(value))
		} else {
			pattern += "(.+?)"
			taken = append(taken, name)
		}
		end = in[1]
	}
	found := regexp.MustCompile(pattern + regexp.QuoteMeta(want[end:]) + "$").FindStringSubmatch(got)
	require.True(t, found != nil, "%s: %q is not %q", at, got, want)
	for i, name := range taken {
		p.names[name] = found[i+1]
	}
}

// note keeps which error codes and states were expected, and so reached.
func (r reached) note(whose, of string, want any) {
	members, _ := want.(map[string]any)
	for name, value := range members {
		text, ok := value.(string)
		switch {
		case ok && of == "" && name == "error":
			r.codes[whose+text] = true
		case ok && name == "state":
			r.states[of+"."+text] = true
		}
		r.note(whose, name, value)
	}
}

// inPath is a parameter of an operation's path.
var inPath = regexp.MustCompile(`\{\w+\}`)

const scripts = "testdata/scripts/"

// transitions are the rows of the contract's table of states, by the scripts that play
// them: those of an export's job are still to come, with its routes.
var transitions = []string{
	"right-suspend", "right-resume", "right-revoke", "challenge-upheld", "challenge-overturned",
	"offer-counter", "offer-withdraw", "offer-reject", "offer-accept", "challenge-withdraw",
	"delivery-of-an-active-right",
}

// beyondScripts are the tests of codes that take a busy tenant, or a fault inside.
var beyondScripts = map[string]struct{ file, test, constant string }{
	"RATE_LIMITED":   {"control/limit_test.go", "TestTenantLimit", "api.RateLimited"},
	"INTERNAL_ERROR": {"control/handler_test.go", "TestRefusals", "api.InternalError"},
}

// TestScripts plays the scripts, each as a tenant of its own. Every operation of the
// sandbox has one of its name, and so have the contract's transitions; every error code
// and every state is reached.
func TestScripts(t *testing.T) {
	t.Parallel()
	playScripts(t, shared(t))
}

func playScripts(t *testing.T, s *service) {
	files, err := filepath.Glob(scripts + "*.http")
	require.NoError(t, err)
	r, played := reached{replayed: map[string]bool{}, codes: map[string]bool{}, states: map[string]bool{}}, map[string]map[string]bool{} // operations by script
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".http")
		if name == "before" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			key := createTenant(t, s.data).APIKey
			p := player{s.server.API, &http.Client{Jar: newJar(t)}, map[string]any{"key": key, "wildcard": createTenant(t, s.data, "--scope", "*").APIKey, "tomorrow": time.Now().Add(24 * time.Hour).UTC().Format(time.RFC3339)}, reached{map[string]bool{}, r.replayed, r.codes, r.states}}
			p.play(t, scripts+"before.http")
			p.play(t, file)
			played[name] = p.operations
		})
	}
	if len(played) < len(files)-1 {
		return // -run has left some out, or they have failed
	}

	for _, row := range transitions {
		require.NotEmpty(t, played[row], "no script %s%s.http", scripts, row)
	}
	for _, o := range operationsOf(t, s.server, true) {
		if o.id == "playground-events" { // has no end: control/TestPlaygroundEvents
			continue
		}
		path, _, _ := strings.Cut(o.path, "?")
		require.True(t, played[o.id][o.method+" "+path], "no script %s%s.http, in which it succeeds", scripts, o.id)
	}
	for _, o := range operationsOf(t, s.server, false) {
		if x := (exchange{method: o.method, target: o.path}); x.replays() {
			require.True(t, r.replayed[o.method+" "+inPath.ReplaceAllString(o.path, "{}")], "no script in which %s %s succeeds", o.method, o.path)
		}
	}
	var listed []string
	for _, code := range api.Codes() {
		listed = append(listed, string(code))
	}
	for _, code := range sandbox.Codes() {
		listed = append(listed, "sandbox "+string(code))
	}
	for code, by := range beyondScripts {
		require.False(t, r.codes[code], "a script reaches %s", code)
		_, rest, _ := strings.Cut(string(read(t, by.file)), "\nfunc "+by.test+"(t *testing.T) {\n")
		body, _, _ := strings.Cut(rest, "\n}\n")
		require.Contains(t, body, by.constant, "%s of %s reaches no %s", by.test, by.file, code)
		r.codes[code] = true
	}
	require.ElementsMatch(t, listed, slices.Collect(maps.Keys(r.codes)), "the error codes, and those that are reached")
	for _, state := range []string{
		"right.ACTIVE", "right.SUSPENDED", "right.REVOKED",
		"offer.PROPOSED", "countered.COUNTERED", "offer.WITHDRAWN", "offer.REJECTED", "offer.ACCEPTED",
		"dispute.OPEN", "dispute.INVESTIGATING", "dispute.RESPONDED", "dispute.RESOLVED",
		"statement.DRAFT", "statement.ISSUED", "statement.SETTLED",
		"challenge.OPEN", "challenge.UPHELD", "challenge.OVERTURNED", "challenge.WITHDRAWN",
	} {
		require.True(t, r.states[state], "no script reaches %s", state)
	}
}
