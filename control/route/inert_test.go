package route_test

import (
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"muniment.example/control/rapidtest"
	"muniment.example/control/route"
)

// TestInert: there is no formula wherever a spreadsheet may begin a cell, and nothing that a terminal obeys; and the
// text can be restored.
func TestInert(t *testing.T) {
	for given, want := range map[string]string{
		"": "", "a=b": "a=b", "=1": "'=1", "'a": "''a", "a;=HYPERLINK()": "a;'=HYPERLINK()", "a\t+1\n-1": "a\t'+1\n'-1", "＝1;＠x": "'＝1;'＠x", "\ta": "'\ta", "a;'b": "a;''b", "a; b": "a; b",
		"\x1b[2J\a\u009b\u202e\u2028\u2066": `\u001b[2J\u0007\u009b\u202e\u2028\u2066`, "a\u200d\u200eb": "a\u200d\u200eb", `\u001b`: `\u005cu001b`, `a\b`: `a\b`,
	} {
		require.Equal(t, want, route.Inert(given), "%q", given)
	}
	formula, added := regexp.MustCompile(`(^|[;\t\r\n])[=+\-@＝＋－＠]`), regexp.MustCompile(`(^|[;\t\r\n])'`)
	escape := regexp.MustCompile(`\\u[0-9a-f]{4}`)
	rapidtest.Check(t, 200, 10_000, func(t *rapid.T) {
		given := strings.Join(rapid.SliceOf(rapid.SampledFrom(strings.Split("=+-@＝＋－＠'; \t\r\naä\\u001b\x1b\u009b\u202e\u2028", ""))).Draw(t, "text"), "")
		cell := route.Inert(given)
		require.False(t, formula.MatchString(cell), "%q", cell)
		require.NotRegexp(t, "[\x1b\u009b\u202e\u2028]", cell)
		restored := escape.ReplaceAllStringFunc(added.ReplaceAllString(cell, "$1"), func(e string) string {
			c, err := strconv.ParseUint(e[2:], 16, 32)
			require.NoError(t, err)
			return string(rune(c))
		})
		require.Equal(t, given, restored, "%q", cell)
	})
}
