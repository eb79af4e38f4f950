package deploy

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/control/member"
	"muniment.example/control/payeelink"
	"muniment.example/gateway/api"
)

// TestProxyLogsNothingThatOpens: with the map of the page on operating, nginx logs no token and no code of an address, and
// addresses of the API as they are.
func TestProxyLogsNothingThatOpens(t *testing.T) {
	page, err := os.ReadFile("operating.md")
	require.NoError(t, err)
	block := regexp.MustCompile("(?s)```nginx\nmap \\$request_uri \\$logged_uri {\n(.*?)\n}\n.*?```").FindSubmatch(page)
	require.NotNil(t, block)
	require.NotRegexp(t, `\$(request|request_uri|args|query_string|uri|http_referer)\b`, regexp.MustCompile(`(?m)^log_format .*$`).FindString(string(block[0])))
	logged := func(address string) string {
		for line := range strings.Lines(string(block[1])) {
			pattern, value, found := strings.Cut(strings.TrimSuffix(strings.TrimSpace(line), ";"), " ")
			require.True(t, found, line)
			value = strings.TrimSpace(value)
			expression, found := strings.CutPrefix(pattern, "~")
			if !found {
				require.Equal(t, []string{"default", "$request_uri"}, []string{pattern, value})
				return address
			}
			re := regexp.MustCompile(expression)
			if at := re.FindStringSubmatchIndex(address); at != nil {
				return string(re.ExpandString(nil, regexp.MustCompile(`\$(\w+)`).ReplaceAllString(value, "$${$1}"), address, at))
			}
		}
		return address
	}
	for address, want := range map[string]string{
		payeelink.Path + "/SECRET":                        "/payee/-",
		payeelink.Path + "/SECRET/pdf?x=SECRET":           "/payee/-",
		api.PathDownloads + "SECRET":                      "/downloads/-",
		member.SignInPath + "?token=SECRET":               "/console/sign-in?-",
		member.CallbackPath + "?code=SECRET&state=SECRET": "/console/sign-in/callback?-",
		"/v1/settlement/payee-links/pln_1":                "/v1/settlement/payee-links/pln_1",
	} {
		require.Equal(t, want, logged(address))
	}
	for _, address := range []string{payeelink.Path + "/…", api.PathDownloads + "…", member.SignInPath + "?token=…", member.CallbackPath + "?code=…&state=…"} {
		require.Contains(t, string(page), "| `"+address+"` |")
	}
}
