//go:build browser

package browser

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/bench/system/systemtest"
	"muniment.example/bench/waittest"
)

// TestConsoleInABrowser has Chromium visit the operators' page of a running service, as many times as
// there are links: control/playground/browser/console.js is what it does there.
func TestConsoleInABrowser(t *testing.T) {
	const visits = 4
	s := systemtest.NewService(t, "--sandbox-burst", "100000", "--sandbox-sustained", "100000")
	a := systemtest.Applicant{T: t, URL: s.Client.API, Data: s.Data}
	for _, name := range []string{"ada", "grace", "edsger", "barbara", "donald", "tony", "alan", "niklaus"} {
		require.Contains(t, a.Post("/apply", fmt.Sprintf(`{"email":%q,"organisation":"Example Ltd","use":"Trying it out"}`, name+"@example.org")), "RECEIVED")
	}
	waittest.Until(t, func() bool { return len(a.List()) == 2*visits }, "the applications are there")
	for substrate, telemetry := range map[string]string{"DRONE": `{}`, "AUTOMOTIVE": `{"speedMph":65}`, "MESSAGING": `{"optOut":true}`} {
		for range 1 + len(substrate) {
			refused := systemtest.Call(t, s.Client.API, s.Client.Key, systemtest.Operation{Method: "POST", Path: "/v1/delivery", Body: strings.TrimSuffix(systemtest.Delivery(s.Rights[substrate]), "}") + `,"telemetry":` + telemetry + `}`})
			require.Equal(t, 412, refused.Status, refused.Body)
		}
	}
	s.Receipts(20)
	s.Stop() // which makes events of the refusals
	for range visits {
		systemtest.Misplace(t, s.Data, s.Tenant.TenantID)
	}
	s.StartAgain()
	waittest.Until(t, func() bool {
		list := systemtest.Parse[struct{ Total int }](t, systemtest.Command(t, "quarantine", "list", "--data", s.Data, "--json"))
		return list.Total == visits
	}, "the records are quarantined")

	var links []string
	for range visits {
		link, rest, _ := strings.Cut(systemtest.Command(t, "console", "--data", s.Data), "\n")
		require.Contains(t, rest, "Open this link in a browser until ")
		require.True(t, strings.HasPrefix(link, s.Server.Admin+"/console#"), link)
		links = append(links, link)
	}
	inBrowser(t, "console.js", "URL="+s.Server.Admin, "LINKS="+strings.Join(links, " "))
	log := s.Log()
	for _, link := range links {
		_, token, _ := strings.Cut(link, "#")
		require.NotContains(t, log, token)
	}
}
