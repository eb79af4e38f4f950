package service

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/bench/system"
	"muniment.example/bench/system/systemtest"
)

// day goes through the operations of a document.
type day struct {
	t       *testing.T
	server  *system.Server
	key     string
	known   map[string]systemtest.Documented
	ids     map[string]string
	visited map[string]systemtest.Example
	cookie  string // of the sandbox
}

// do calls an operation. Ids come from the answers so far.
func (d *day) do(id, query, body string) systemtest.Response {
	d.t.Helper()
	o, ok := d.known[id]
	require.True(d.t, ok, "the document has no operation %s", id)
	key := d.key
	if o.Scope == "" {
		key = ""
	}
	o.Path, o.Body = o.Path+query, body
	a := systemtest.Call(d.t, d.server.API, key, o.With(d.ids), "Cookie", d.cookie)
	d.cookie = a.Cookie(d.cookie)
	return a
}

// secret is the part of an API key that an example must not show.
var secret = regexp.MustCompile(`(mun_test_\w{26}_)[0-9A-Za-z]+_[0-9A-Za-z]+`)

// beaconToken is what of a beacon's URL an example must not show; it is long, too.
var beaconToken = regexp.MustCompile(`http[^"]*/beacon/[\w.-]+`)

// webhookSecret is that of a webhook.
var webhookSecret = regexp.MustCompile(`whsec_[0-9A-Za-z+/=]+`)

// confirmation is what of a confirmed erasure an example must not show.
var confirmation = regexp.MustCompile(`("confirmationToken":")[\w-]+`)

// activation is what of a request for an activated key an example must not show.
var activation = regexp.MustCompile(`("token": ?")[\w-]{43}`)

// downloadLink is what of a link to a bundle an example must not show.
var downloadLink = regexp.MustCompile(`http[^"]*/downloads/[\w.-]+`)

// visit requires a response of 200, and keeps it as an example.
func (d *day) visit(id, query, body string) string {
	d.t.Helper()
	a := d.do(id, query, body)
	require.Equal(d.t, 200, a.Status, "%s: %s", id, a.Body)
	var e systemtest.Example
	if strings.HasPrefix(body, "{") {
		e.Request = json.RawMessage(confirmation.ReplaceAllString(systemtest.Operation{Body: body}.With(d.ids).Body, "${1}AAABmqr"))
		e.Request = activation.ReplaceAll(e.Request, []byte("${1}"+strings.Repeat("A", 43)))
	}
	if a.Header.Get("Content-Type") == "application/json" && !strings.HasPrefix(id, "get-openapi") && id != "get-gate" { // documents
		e.Answer = json.RawMessage(secret.ReplaceAllString(strings.TrimSpace(a.Body), "${1}"+strings.Repeat("0", 43)+"_000000"))
		e.Answer = webhookSecret.ReplaceAll(e.Answer, []byte("whsec_"+strings.Repeat("A", 43)+"="))
		e.Answer = beaconToken.ReplaceAll(e.Answer, []byte("https://muniment.example/beacon/eyJ0ZW5hbnRJZCI6InRudF8wMU04.c2lnbmF0dXJl"))
		e.Answer = downloadLink.ReplaceAll(e.Answer, []byte("https://muniment.example/downloads/01M83J2Z7Q.01M82R9TZ2.mib4k2io.c2lnbmF0dXJl"))
	}
	for name, form := range systemtest.OfOurs {
		if found := form.FindString(string(e.Answer)); found != "" && d.ids[name] == "" {
			d.ids[name] = found
		}
	}
	d.visited[id] = e
	return a.Body
}

// sealAll seals until there is no more, and once again.
func (d *day) sealAll() {
	d.t.Helper()
	body := ""
	for more := true; more; {
		var answer struct {
			Data struct {
				UpTo string
				More bool
			}
		}
		require.NoError(d.t, json.Unmarshal([]byte(d.visit("seal-proof-packs", "", body)), &answer))
		more = answer.Data.More || body == ""
		body = fmt.Sprintf(`{"upTo": %q}`, answer.Data.UpTo)
	}
}

// anew is visit, which makes another record of a name; what follows is about that.
func (d *day) anew(name, id, body string) {
	d.t.Helper()
	d.visit(id, "", body)
	d.ids[name] = systemtest.OfOurs[name].FindString(string(d.visited[id].Answer))
}

// end requires that nothing was left out, and that the examples are of this service.
func (d *day) end() {
	for id := range d.known {
		_, visited := d.visited[id]
		require.True(d.t, visited, "%s was not called", id)
	}
	if os.Getenv("MUNIMENT_UPDATE") != "" {
		text, err := json.MarshalIndent(d.visited, "", " ")
		require.NoError(d.t, err)
		require.NoError(d.t, os.WriteFile("control/page/examples.json", append(text, '\n'), 0o644))
		return
	}
	for id, now := range d.visited {
		const about = "%s: the example is of another service; MUNIMENT_UPDATE=1 makes it anew"
		require.Equal(d.t, shape(d.t, now.Request), shape(d.t, d.known[id].Shown.Request), about, id)
		require.Equal(d.t, shape(d.t, now.Answer), shape(d.t, d.known[id].Shown.Answer), about, id)
	}
}

// shape lists the members of a JSON text with the kinds of their values.
func shape(t *testing.T, text json.RawMessage) (lines []string) {
	if len(text) == 0 {
		return nil
	}
	var value any
	require.NoError(t, json.Unmarshal(text, &value))
	var walk func(at string, v any)
	walk = func(at string, v any) {
		if strings.HasSuffix(at, ".failingSince") {
			v = "or null: attempts go on meanwhile"
		}
		if strings.HasSuffix(at, ".lastUsedAt") {
			v = "or null: nodes tell uses when they poll"
		}
		lines = append(lines, fmt.Sprintf("%s %T", at, v))
		switch v := v.(type) {
		case map[string]any:
			for name, inner := range v {
				walk(at+"."+name, inner)
			}
		case []any:
			for _, inner := range v {
				walk(at+"[]", inner)
			}
		}
	}
	walk("", value)
	slices.Sort(lines)
	return slices.Compact(lines)
}
