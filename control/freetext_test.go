package control_test

import (
	"encoding/json"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/control/sandbox"
	"muniment.example/gateway/api"
)

// hostile are characters that would do something on a screen, in a log or in a mail: of the control characters the first and
// last of each range, those between which tabs and line breaks are, and the usual ones; ends of lines that few expect; and those that turn the direction of writing around.
const hostile = "\x00\x01\a\b\v\f\x0e\x1b\x1f\x7f\u0080\u0085\u009b\u009f\u2028\u2029\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"

// asDelivered are names of persons and vendors' things, which are as deliveries have them: without U+0000.
var asDelivered = []string{"dataSubjectId", "scope.dataSubjectId", "vendorId"}

// TestFreeTextRefusesControlCharacters: no operation of the document takes a text, in any member of its body at any depth or in a
// new one, with a character that would do something where the text is shown; the fault names member and character.
// What a parameter of a path or a query has of them is not shown again.
func TestFreeTextRefusesControlCharacters(t *testing.T) {
	h, _, document := openService(t)
	_, key := h.tenant("*")
	cookie, _, _ := strings.Cut(h.call("", "POST", sandbox.Base+"/tenant", "").header.Get("Set-Cookie"), ";")
	schemas := get[map[string]any](t, document, "components", "schemas")
	members, parameters := 0, 0
	for _, o := range operations(t, document) {
		if slices.Contains(edge, o.method+" "+o.path) {
			continue // what nodes take is as vendors send it; commands, files and pages show it inert
		}
		path := regexp.MustCompile(`\{\w+\}`).ReplaceAllString(o.path, "x")
		for _, m := range textsOf(t, schemas, o) {
			place := m.path + m.name
			members++
			for _, c := range hostile {
				if slices.Contains(asDelivered, place) && c != 0 {
					continue
				}
				body, err := json.Marshal(m.body(m.name, "some "+string(c)+"text"))
				require.NoError(t, err)
				a := h.call(key, o.method, path, string(body), "Cookie", cookie)
				where := fmt.Sprintf("%s %s %s: %s", o.method, path, body, a.text)
				require.Equal(t, 422, a.status, where)
				require.Contains(t, a.text, fmt.Sprintf("%s: must not contain control characters, except tabs and line breaks: it contains %U", place, c), where)
			}
		}
		for _, p := range optional(o.text["parameters"]) {
			p, in := p.(map[string]any), ""
			switch p["in"] {
			case "query":
				in = path + "?" + url.Values{p["name"].(string): {"some " + hostile[1:]}}.Encode()
			case "path":
				in = strings.ReplaceAll(o.path, "{"+p["name"].(string)+"}", url.PathEscape("some "+hostile[1:]))
				in = regexp.MustCompile(`\{\w+\}`).ReplaceAllString(in, "x")
			default:
				continue
			}
			parameters++
			a := h.call(key, o.method, in, "", "Cookie", cookie)
			where := fmt.Sprintf("%s %s: %d %q", o.method, in, a.status, a.text)
			for _, c := range a.text {
				require.NotContains(t, hostile, string(c), where)
			}
		}
	}
	require.Greater(t, members, 150)
	require.Greater(t, parameters, 100)
	t.Log(members, "members,", parameters, "parameters")

	for _, fine := range []string{"a\tb\r\nc", "\u200e\u200f\u200c\u200d", "é🙂"} { // marks and joiners are parts of names
		h.call(key, "POST", "/v1/bases", fmt.Sprintf(`{"kind":"LICENSE","title":%s}`, must(json.Marshal(fine)))).ok()
	}
	h.call(key, "POST", "/v1/rights", `{"scope":{"labels":{"\u202e":1}}}`).refused(422, api.ValidationFailed)
}

// textsOf lists the members of an operation's body that may be a text, and one that it has not.
func textsOf(t *testing.T, schemas map[string]any, o op) (found []member) {
	body, _ := o.text["requestBody"].(map[string]any)
	if body == nil {
		return nil
	}
	media, isJSON := get[map[string]any](t, body, "content")["application/json"].(map[string]any)
	if !isJSON {
		return nil // CSV and JSON lines: control/ingest
	}
	found = membersOf(t, schemas, media["schema"].(map[string]any), "", func(v any) any { return v })
	return append(found, member{name: "unknown", root: true, body: func(name string, value any) any { return map[string]any{name: value} }})
}

func must(text []byte, err error) []byte {
	if err != nil {
		panic(err)
	}
	return text
}
