//go:build browser

package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestConsoleInABrowser has Chromium visit the operators' page of a running service, as many times as
// there are links: control/playground/browser/console.js is what it does there.
func TestConsoleInABrowser(t *testing.T) {
	const visits = 4
	s := newService(t, "--sandbox-burst", "100000", "--sandbox-sustained", "100000")
	a := applicant{t, s.client.API, s.data}
	for _, name := range []string{"ada", "grace", "edsger", "barbara", "donald", "tony", "alan", "niklaus"} {
		require.Contains(t, a.post("/apply", fmt.Sprintf(`{"email":%q,"organisation":"Example Ltd","use":"Trying it out"}`, name+"@example.org")), "RECEIVED")
	}
	until(t, func() bool { return len(a.list()) == 2*visits }, "the applications are there")
	for substrate, telemetry := range map[string]string{"DRONE": `{}`, "AUTOMOTIVE": `{"speedMph":65}`, "MESSAGING": `{"optOut":true}`} {
		for range 1 + len(substrate) {
			refused := call(t, s.client.API, s.client.Key, operation{method: "POST", path: "/v1/delivery", body: strings.TrimSuffix(delivery(s.rights[substrate]), "}") + `,"telemetry":` + telemetry + `}`})
			require.Equal(t, 412, refused.status, refused.body)
		}
	}
	s.receipts(20)
	s.stop() // which makes events of the refusals
	for range visits {
		misplace(t, s.data, s.tenant.TenantID)
	}
	s.startAgain()
	until(t, func() bool {
		list := parse[struct{ Total int }](t, muniment(t, "quarantine", "list", "--data", s.data, "--json"))
		return list.Total == visits
	}, "the records are quarantined")

	var links []string
	for range visits {
		link, rest, _ := strings.Cut(muniment(t, "console", "--data", s.data), "\n")
		require.Contains(t, rest, "Open this link in a browser until ")
		require.True(t, strings.HasPrefix(link, s.server.Admin+"/console#"), link)
		links = append(links, link)
	}
	inBrowser(t, "console.js", "URL="+s.server.Admin, "LINKS="+strings.Join(links, " "))
	log := s.log()
	for _, link := range links {
		_, token, _ := strings.Cut(link, "#")
		require.NotContains(t, log, token)
	}
}
