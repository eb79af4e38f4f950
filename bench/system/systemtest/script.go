package systemtest

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
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/control/sandbox"
	"muniment.example/gateway/api"
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

// Exchange is one request of a script, and what is expected of its answer.
type Exchange struct {
	line           int
	Method, Target string
	header         http.Header
	body           string
	status, times  int
	wantHeader     http.Header
	want           string
}

// headerLine is Name: value. A line of JSON begins otherwise.
var headerLine = regexp.MustCompile(`^([A-Za-z][\w-]*):\s*(.*)$`)

// readScript reads the exchanges of a file.
func readScript(t *testing.T, file string) (script []Exchange) {
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	var x *Exchange // nil between two
	for i, line := range strings.Split(string(text), "\n") {
		at := fmt.Sprintf("%s:%d", file, i+1)
		parts := headerLine.FindStringSubmatch(line)
		switch {
		case strings.TrimSpace(line) == "":
			require.True(t, x == nil || x.status != 0, "%s: nothing is expected of the answer", at)
			x = nil
		case x == nil && strings.HasPrefix(line, "#"):
		case x == nil:
			script = append(script, Exchange{line: i + 1, header: http.Header{}, wantHeader: http.Header{}})
			x = &script[len(script)-1]
			var ok bool
			x.Method, x.Target, ok = strings.Cut(line, " ")
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

// Player plays scripts against a service.
type Player struct {
	URL    string
	Client *http.Client
	Names  map[string]any // what {{name}} in a script stands for
	Reached
}

// Reached is what scripts were answered, and expected.
type Reached struct {
	Operations map[string]bool // <method> <path> of successes
	Replayed   map[string]bool // of them, those that were sent again: see replays
	Codes      map[string]bool // error codes: those of the sandbox behind "sandbox "
	States     map[string]bool // of records, as <noun>.<state>
}

// clearJar keeps Secure cookies for a service in clear: its scripts come from everywhere.
type clearJar struct{ *cookiejar.Jar }

func NewJar(t *testing.T) http.CookieJar {
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

func (p *Player) Play(t *testing.T, file string) {
	for _, x := range readScript(t, file) {
		for range x.times {
			p.send(t, x, fmt.Sprintf("%s:%d", file, x.line))
		}
	}
}

// do sends a request of a script and reads the response.
func (p *Player) do(t *testing.T, x Exchange, at string) (*http.Response, []byte) {
	req, err := http.NewRequestWithContext(t.Context(), x.Method, p.URL+p.fill(t, x.Target, at), strings.NewReader(p.fill(t, x.body, at)))
	require.NoError(t, err, at)
	if x.Replays() {
		req.Header.Set(api.HeaderIdempotencyKey, rand.Text())
	}
	req.Header.Set("Authorization", "Bearer "+p.Names["key"].(string))
	req.Header.Set("X-Forwarded-For", AnyAddress())
	for name := range x.header {
		req.Header.Set(name, p.fill(t, x.header.Get(name), at))
	}
	resp, err := p.Client.Do(req)
	require.NoError(t, err, at)
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err, at)
	require.NoError(t, resp.Body.Close(), at)
	checkStatus(t, p.URL, x.Method, req.URL.EscapedPath(), resp.StatusCode)
	return resp, text
}

func (p *Player) send(t *testing.T, x Exchange, at string) {
	resp, text := p.do(t, x, at)
	for i := 0; i < LoadTries && x.status == http.StatusOK && NotLoaded(Response{resp.StatusCode, resp.Header, string(text)}); i++ {
		resp, text = p.do(t, x, at)
	}
	require.Equal(t, x.status, resp.StatusCode, "%s: %s", at, text)
	for name := range x.wantHeader {
		p.matchText(t, x.wantHeader.Get(name), resp.Header.Get(name), at+": "+name)
	}
	path, _, _ := strings.Cut(x.Target, "?")
	if x.status == http.StatusOK {
		p.Operations[x.Method+" "+strings.NewReplacer("{{", "{", "}}", "}").Replace(path)] = true
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

// Replays says whether the request gets the same bytes again when it is sent again: every
// POST under /v1 that control answers. Another gateway would answer a delivery by itself, and an
// erasure that is done has forgotten all answers.
func (x Exchange) Replays() bool {
	return x.Method == http.MethodPost && strings.HasPrefix(x.Target, "/v1/") && !slices.Contains([]string{"/v1/delivery", "/v1/delivery/ingest-batch", "/v1/compliance/erase"}, x.Target)
}

// again sends a request that was answered once more.
func (p *Player) again(t *testing.T, x Exchange, resp *http.Response, text, at string) {
	if !x.Replays() {
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
	p.Replayed[x.Method+" "+inBraces.ReplaceAllString(x.Target, "{}")] = true
}

var inBraces = regexp.MustCompile(`\{\{(\w+)\}\}`)

// fill puts in what the names of a text stand for.
func (p *Player) fill(t *testing.T, text, at string) string {
	return inBraces.ReplaceAllStringFunc(text, func(name string) string {
		value, known := p.Names[strings.Trim(name, "{}")]
		require.True(t, known, "%s: %s stands for nothing yet", at, name)
		return fmt.Sprint(value)
	})
}

// match requires that got has all that want has.
func (p *Player) match(t *testing.T, want, got any, at string) {
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
			if _, known := p.Names[whole[1]]; !known {
				p.Names[whole[1]] = got
			}
			require.Equal(t, p.Names[whole[1]], got, at)
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
func (p *Player) matchText(t *testing.T, want, got, at string) {
	pattern, end, taken := "^", 0, []string{}
	for _, in := range inBraces.FindAllStringSubmatchIndex(want, -1) {
		pattern += regexp.QuoteMeta(want[end:in[0]])
		name := want[in[2]:in[3]]
		if value, known := p.Names[name]; known {
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
		p.Names[name] = found[i+1]
	}
}

// note keeps which error codes and states were expected, and so reached.
func (r Reached) note(whose, of string, want any) {
	members, _ := want.(map[string]any)
	for name, value := range members {
		text, ok := value.(string)
		switch {
		case ok && of == "" && name == "error":
			r.Codes[whose+text] = true
		case ok && name == "state":
			r.States[of+"."+text] = true
		}
		r.note(whose, name, value)
	}
}

const Scripts = "bench/system/storytest/testdata/scripts/"
