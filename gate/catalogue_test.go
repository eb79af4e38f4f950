package gate

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The document that callers read: a change of the tables shows here in their words.
func TestCatalogue(t *testing.T) {
	var text strings.Builder
	to := json.NewEncoder(&text)
	to.SetEscapeHTML(false)
	to.SetIndent("", " ")
	require.NoError(t, to.Encode(NewCatalogue()))
	golden(t, "catalogue.json", text.String())
}

// TestCatalogueIsWhole: no row, fact or field without a word.
func TestCatalogueIsWhole(t *testing.T) {
	c := NewCatalogue()
	require.Len(t, c.Substrates, Substrates)
	require.Len(t, c.Refusals, len(rules))
	require.Len(t, c.Suppressions, len(suppressions))
	require.Len(t, c.Fields, int(fieldCount))
	rows := map[string][]Substrate{}
	for i, r := range c.Refusals {
		rows[r.Code] = r.Substrates
		require.NotEmpty(t, r.Reference, r.Code)
		require.Len(t, r.Conditions, len(rules[i].Terms), r.Code)
		for _, one := range r.Conditions {
			require.NotEmpty(t, one.Required, r.Code)
			require.NotEmpty(t, one.Message, r.Code)
			require.Contains(t, r.Fields, one.Field, r.Code)
			require.Equal(t, one.Limit == nil && one.Unit != "", strings.Contains(one.Message, "{limit}"), r.Code)
		}
	}
	for _, s := range c.Suppressions {
		rows[s.Reason] = s.Substrates
		require.NotEmpty(t, s.Reference, s.Reason)
	}
	for _, s := range c.Substrates {
		for row, where := range rows {
			require.Equal(t, slices.Contains(where, s.Substrate), slices.Contains(slices.Concat(s.Refusals, s.Suppressions), row), "%s on %s", row, s.Substrate)
		}
	}
	for _, f := range c.Fields {
		require.NotEmpty(t, f.Meaning, f.Name)
		for _, row := range f.ReadBy {
			require.Contains(t, rows, row, f.Name)
		}
	}
	for f, ways := range readings() {
		require.Equal(t, fact(f) == noFact, len(ways) == 0, "fact %d", f)
	}
}

// TestExamples puts every example under the gate. That of a rule is refused by it, and by no
// other where the substrate takes minors.
func TestExamples(t *testing.T) {
	list := Examples()
	require.Len(t, list, Substrates)
	alone := map[string]bool{}
	for i, e := range list {
		require.Equal(t, Substrate(i), e.Substrate)
		right := mustRight(t, e.Substrate, e.Scope)
		evaluate := func(telemetry json.RawMessage) (Verdict, *Telemetry) {
			observed := mustDecode(t, string(telemetry))
			additional := 0
			for _, f := range allFields() {
				if f.Additional && strings.Contains(string(telemetry), `"`+f.Name+`":`) {
					additional++
				}
			}
			require.Equal(t, additional, observed.Extra(), "%s has a field that the gate does not know", telemetry)
			return Evaluate(right, observed, e.DwellMs), observed
		}
		require.NotEmpty(t, e.Anchor, e.Substrate)
		require.NotEmpty(t, e.Placement, e.Substrate)
		require.JSONEq(t, string(e.Telemetry), string(merged(e.Telemetry, `{}`)), "%s: a name of no field", e.Substrate)
		passing, observed := evaluate(e.Telemetry)
		require.Empty(t, passing.Violations(right, observed), e.Substrate)
		require.True(t, passing.Meter(observed, e.DwellMs).Metered, "%s: %v", e.Substrate, passing.Meter(observed, e.DwellMs).Reasons.Strings())

		var codes []string
		for _, r := range e.Refused {
			codes = append(codes, r.Code)
			refused, observed := evaluate(r.Telemetry)
			got, _ := codesOf(refused.Violations(right, observed))
			require.Contains(t, got, r.Code, "%s: %s", e.Substrate, r.Telemetry)
			alone[r.Code] = alone[r.Code] || len(got) == 1
			if e.Substrate != Neural && e.Substrate != Messaging {
				require.Len(t, got, 1, "%s %s: %v", e.Substrate, r.Code, got)
			}
		}
		require.Equal(t, NewCatalogue().Substrates[i].Refusals, codes, e.Substrate)
	}
	for i := range rules {
		require.True(t, alone[rules[i].Code], "%s refuses nothing alone", rules[i].Code)
	}
}
