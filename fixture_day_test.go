package main

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment/bench/system"
)

// day goes through the operations of a document.
type day struct {
	t       *testing.T
	server  *system.Server
	key     string
	known   map[string]documented
	ids     map[string]string
	visited map[string]example
	cookie  string // of the sandbox
}

// do calls an operation. Ids come from the answers so far.
func (d *day) do(id, query, body string) response {
	d.t.Helper()
	o, ok := d.known[id]
	require.True(d.t, ok, "the document has no operation %s", id)
	key := d.key
	if o.scope == "" {
		key = ""
	}
	o.path, o.body = o.path+query, body
	a := call(d.t, d.server.API, key, o.with(d.ids), "Cookie", d.cookie)
	d.cookie = a.cookie(d.cookie)
	return a
}

// ofOurs are ids by the names that paths have for them.
var ofOurs = map[string]*regexp.Regexp{
	"keyId": regexp.MustCompile(`key_\w{26}`), "basisId": regexp.MustCompile(`bas_\w{26}`), "rightId": regexp.MustCompile(`rgh_\w{26}`),
	"challengeId": regexp.MustCompile(`chg_\w{26}`), "disputeId": regexp.MustCompile(`dsp_\w{26}`), "offerId": regexp.MustCompile(`ofr_\w{26}`), "packId": regexp.MustCompile(`ppk_\w{26}`), "mappingId": regexp.MustCompile(`map_\w{26}`), "receiptId": regexp.MustCompile(`rcp_\w{26}`),
	"jobId": regexp.MustCompile(`dsar:\w{26}`), "webhookId": regexp.MustCompile(`whk_\w{26}`), "counterpartyId": regexp.MustCompile(`\bcp_\w{26}`), "statementId": regexp.MustCompile(`stm_\w{26}`), "ruleId": regexp.MustCompile(`rule_\w{26}`), "erasureId": regexp.MustCompile(`era_\w{26}`), "deliveryId": regexp.MustCompile(`dlv_\w{26}`),
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
	require.Equal(d.t, 200, a.status, "%s: %s", id, a.body)
	var e example
	if strings.HasPrefix(body, "{") {
		e.Request = json.RawMessage(confirmation.ReplaceAllString(operation{body: body}.with(d.ids).body, "${1}AAABmqr"))
		e.Request = activation.ReplaceAll(e.Request, []byte("${1}"+strings.Repeat("A", 43)))
	}
	if a.header.Get("Content-Type") == "application/json" && !strings.HasPrefix(id, "get-openapi") && id != "get-gate" { // documents
		e.Answer = json.RawMessage(secret.ReplaceAllString(strings.TrimSpace(a.body), "${1}"+strings.Repeat("0", 43)+"_000000"))
		e.Answer = webhookSecret.ReplaceAll(e.Answer, []byte("whsec_"+strings.Repeat("A", 43)+"="))
		e.Answer = beaconToken.ReplaceAll(e.Answer, []byte("https://muniment.example/beacon/eyJ0ZW5hbnRJZCI6InRudF8wMU04.c2lnbmF0dXJl"))
		e.Answer = downloadLink.ReplaceAll(e.Answer, []byte("https://muniment.example/downloads/01M83J2Z7Q.01M82R9TZ2.mib4k2io.c2lnbmF0dXJl"))
	}
	for name, form := range ofOurs {
		if found := form.FindString(string(e.Answer)); found != "" && d.ids[name] == "" {
			d.ids[name] = found
		}
	}
	d.visited[id] = e
	return a.body
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
	d.ids[name] = ofOurs[name].FindString(string(d.visited[id].Answer))
}

// end requires that nothing was left out, and that the examples are of this service.
func (d *day) end() {
	for id := range d.known {
		require.Contains(d.t, d.visited, id, "an operation was not called")
	}
	if os.Getenv("MUNIMENT_UPDATE") != "" {
		text, err := json.MarshalIndent(d.visited, "", " ")
		require.NoError(d.t, err)
		require.NoError(d.t, os.WriteFile("control/page/examples.json", append(text, '\n'), 0o644))
		return
	}
	for id, now := range d.visited {
		const about = "%s: the example is of another service; MUNIMENT_UPDATE=1 makes it anew"
		require.Equal(d.t, shape(d.t, now.Request), shape(d.t, d.known[id].shown.Request), about, id)
		require.Equal(d.t, shape(d.t, now.Answer), shape(d.t, d.known[id].shown.Answer), about, id)
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
