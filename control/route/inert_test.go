package route_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"muniment.example/control/rapidtest"
	"muniment.example/control/route"
)

// TestInert: there is no formula wherever a spreadsheet may begin a cell, and the text can be
// restored.
func TestInert(t *testing.T) {
	for given, want := range map[string]string{
		"": "", "a=b": "a=b", "=1": "'=1", "'a": "''a", "a;=HYPERLINK()": "a;'=HYPERLINK()", "a\t+1\n-1": "a\t'+1\n'-1", "＝1;＠x": "'＝1;'＠x", "\ta": "'\ta", "a;'b": "a;''b", "a; b": "a; b",
	} {
		require.Equal(t, want, route.Inert(given), "%q", given)
	}
	formula, added := regexp.MustCompile(`(^|[;\t\r\n])[=+\-@＝＋－＠]`), regexp.MustCompile(`(^|[;\t\r\n])'`)
	rapidtest.Check(t, 200, 10_000, func(t *rapid.T) {
		given := strings.Join(rapid.SliceOf(rapid.SampledFrom(strings.Split("=+-@＝＋－＠'; \t\r\naä", ""))).Draw(t, "text"), "")
		cell := route.Inert(given)
		require.False(t, formula.MatchString(cell), "%q", cell)
		require.Equal(t, given, added.ReplaceAllString(cell, "$1"), "%q", cell)
	})
}
