package rate

import (
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"
)

// FuzzParseRule: what is accepted is canonical, and can be rated by.
func FuzzParseRule(f *testing.F) {
	f.Add([]byte(text))
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := ParseRule(text)
		if err != nil {
			return
		}
		v := jsontext.Value(append([]byte(nil), text...))
		require.NoError(t, v.Canonicalize())
		require.Equal(t, string(text), string(v))
		require.NoError(t, r.Check())
		_, err = Rate([]Rule{r}, func(yield func(Metered) bool) {
			m := r.Match
			yield(Metered{m.RightID, m.BasisID, m.Substrate, m.MeteringBasis, m.Completion, []string{m.Campaign}, map[string]string{m.Label.Name: m.Label.Value}, r.EffectiveFrom, 1, 1 << 36, 1 << 36})
		})
		require.NoError(t, err)
	})
}
