package stack

import (
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/bench/system/systemtest"
)

// TestTenantConsoleOnTheStack: a session that one control process has begun holds at the others, behind the gateways,
// and shows what the warehouse has loaded.
func TestTenantConsoleOnTheStack(t *testing.T) {
	t.Parallel()
	s, _ := scaledOut(t, publicURL)
	s.Tenant = systemtest.CreateTenant(t, s.Data)
	s.Client.Key = s.Tenant.APIKey
	s.Rights = systemtest.IssueRights(t, s.Client)
	receipts := s.Receipts(3)
	require.Equal(t, 3, s.Metered())
	browser := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	send := func(method, path, form string, cookie *http.Cookie) (*http.Response, string) {
		r, err := http.NewRequestWithContext(t.Context(), method, s.Client.API+path, strings.NewReader(form))
		require.NoError(t, err)
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Sec-Fetch-Site", "same-origin")
		if cookie != nil {
			r.AddCookie(cookie)
		}
		resp, err := browser.Do(r)
		require.NoError(t, err)
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		return resp, string(text)
	}
	begun, text := send("POST", "/console/sign-in", url.Values{"key": {s.Client.Key}}.Encode(), nil)
	require.Equal(t, 303, begun.StatusCode, text)
	at := slices.IndexFunc(begun.Cookies(), func(c *http.Cookie) bool { return c.Name == "__Host-muniment_session" })
	require.GreaterOrEqual(t, at, 0, "%v", begun.Cookies())
	session := begun.Cookies()[at]
	for range 6 { // by either process
		resp, text := send("GET", "/console", "", session)
		require.Equal(t, 200, resp.StatusCode, text)
		require.Contains(t, text, "<b>3</b> plays")
		resp, text = send("GET", "/console/plays", "", session)
		require.Equal(t, 200, resp.StatusCode, text)
		for _, id := range receipts {
			require.Contains(t, text, `href="/console/plays/`+id+`"`)
		}
	}
}
