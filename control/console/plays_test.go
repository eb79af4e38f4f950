package console

import (
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestAPlayByTheEndOfItsId: the last six characters of a receipt, as somebody reads them out, find it among the plays of seven days;
// less is refused with an example, and the whole id leads to its page.
func TestAPlayByTheEndOfItsId(t *testing.T) {
	show := func(query url.Values) (status int, text, page, asked string) {
		s, requests := recorded(t, map[string]string{"/v1/receipts": `{"receipts":[]}`})
		p, w := s.page(Path + "/plays?" + query.Encode())
		require.NoError(t, showPlays(p))
		for _, target := range *requests {
			if strings.HasPrefix(target, "/v1/receipts") {
				asked = target
			}
		}
		return w.Code, readable(w.Body.String()), w.Header().Get("Location") + w.Body.String(), asked
	}
	of := func(from, to string) string {
		return "/v1/receipts?" + url.Values{"from": {from}, "to": {to}, "receiptIdEnd": {"7Q21DK"}, "limit": {"50"}}.Encode()
	}
	for _, written := range []string{"7q21dk", " 7Q2LDK "} {
		status, text, page, asked := show(url.Values{"receiptId": {written}})
		require.Equal(t, 200, status)
		require.Equal(t, of("2026-10-26T08:01:00.000Z", "2026-11-02T08:01:00.000Z"), asked)
		require.Contains(t, text, "ask when it was played, and search from there")
		require.Contains(t, page, "curl &#39;https://muniment.example/v1/receipts?")
		require.Contains(t, page, `receiptId=`+url.QueryEscape(strings.TrimSpace(written))+`&amp;to=2026-10-26T08%3A01">Look through the 7 days before</a>`)
	}
	_, _, _, asked := show(url.Values{"receiptId": {"7Q21DK"}, "from": {"2026-10-01T12:00"}})
	require.Equal(t, of("2026-10-01T12:00:00.000Z", "2026-10-08T12:00:00.000Z"), asked)
	status, text, _, asked := show(url.Values{"receiptId": {"7Q21DK"}, "from": {"2026-10-01"}, "to": {"2026-11-01"}})
	require.Equal(t, 422, status)
	require.Contains(t, text, "must be at most 7 days after the beginning")
	require.Empty(t, asked)
	for _, written := range []string{"7Q2", "rcp_7Q2", "7Q2-DK", "7Q21DU"} {
		status, text, _, asked = show(url.Values{"receiptId": {written}})
		require.Equal(t, 422, status, written)
		require.Equal(t, 1, strings.Count(text, "such as 7Q2ZDK"), "it is said once")
		require.Empty(t, asked)
	}
	for _, written := range []string{"rcp_01JE3N9QKZ6V8T4XW2C57Q2ZDK", "01je3n9qkz6v8t4xw2c57q2zdk"} {
		status, _, page, _ := show(url.Values{"receiptId": {written}})
		require.Equal(t, 303, status)
		require.Equal(t, "/console/plays/rcp_01JE3N9QKZ6V8T4XW2C57Q2ZDK", page)
	}
}
