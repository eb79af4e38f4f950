package gate

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMeter(t *testing.T) {
	const consented = `"eyeTrackingConsent":true,`
	for _, c := range []struct {
		name      string
		on        Substrate
		telemetry string
		dwellMs   float64
		want      Metering
	}{
		{"gross", DOOH, `{}`, 4200.9, Metering{true, ReasonMetered, 0, BasisGross, CompletionNone, 4200, -1}},
		{"display at its bar", DOOH, `{"viewable":true}`, 1000, Metering{true, ReasonMetered, 0, BasisViewable, CompletionNone, 1000, -1}},
		{"display below its bar", DOOH, `{"viewable":true}`, 999.9, Metering{true, ReasonMetered, 0, BasisGross, CompletionNone, 999, -1}},
		{"video at its bar", CTV, `{"viewable":true,"completionState":"started"}`, 2000, Metering{true, ReasonMetered, 0, BasisViewable, CompletionStarted, 2000, -1}},
		{"video below its bar", CTV, `{"viewable":true,"completionState":"started"}`, 1999.9, Metering{true, ReasonMetered, 0, BasisGross, CompletionStarted, 1999, -1}},
		{"audible", Audio, `{"viewable":true}`, 2000, Metering{true, ReasonMetered, 0, BasisAudible, CompletionNone, 2000, -1}},
		{"message", Messaging, `{"viewable":true}`, 0, Metering{true, ReasonMetered, 0, BasisDelivered, CompletionNone, 0, -1}},
		{"satellite", Satellite, `{"viewable":true}`, 7000, Metering{true, ReasonMetered, 0, BasisDelivered, CompletionNone, 7000, -1}},
		{"huge dwell", DOOH, `{}`, math.MaxFloat64, Metering{true, ReasonMetered, 0, BasisGross, CompletionNone, 1 << 53, -1}},
		{"suppressed for two reasons", DOOH, `{"visibilityState":"hidden","viewable":false}`, 4200,
			Metering{false, ReasonNotVisible, 1<<(ReasonNotVisible-firstSuppression) | 1<<(ReasonNotViewable-firstSuppression), BasisNone, CompletionNone, 0, -1}},
		{"refused has no other reason", DOOH, `{"licensedRegionMatch":false,"viewable":false}`, 4200, Metering{false, ReasonGateRefused, 0, BasisNone, CompletionNone, 0, -1}},
		{"completion of what is not billed", CTV, `{"completionState":"midpoint","viewable":false}`, 4200,
			Metering{false, ReasonNotViewable, 1 << (ReasonNotViewable - firstSuppression), BasisNone, CompletionMidpoint, 0, -1}},
		{"completion of the refused", CTV, `{"completionState":"complete","licensedRegionMatch":false}`, 4200, Metering{false, ReasonGateRefused, 0, BasisNone, CompletionNone, 0, -1}},
		{"attention", Glasses, `{` + consented + `"dwellInViewMs":900.9}`, 4200, Metering{true, ReasonMetered, 0, BasisGross, CompletionNone, 4200, 900}},
		{"attention of none", Glasses, `{` + consented + `"dwellInViewMs":0}`, 4200, Metering{true, ReasonMetered, 0, BasisGross, CompletionNone, 4200, 0}},
		{"attention is at most the dwell", Glasses, `{` + consented + `"dwellInViewMs":9000}`, 4200.5, Metering{true, ReasonMetered, 0, BasisGross, CompletionNone, 4200, 4200}},
		{"attention without consent", Glasses, `{"dwellInViewMs":900}`, 4200, Metering{true, ReasonMetered, 0, BasisGross, CompletionNone, 4200, -1}},
		{"attention not reported", Glasses, `{` + consented + `"gazeInView":true}`, 4200, Metering{true, ReasonMetered, 0, BasisGross, CompletionNone, 4200, -1}},
		{"attention is measured where nothing is billed", Glasses, `{` + consented + `"dwellInViewMs":900,"viewable":false}`, 4200,
			Metering{false, ReasonNotViewable, 1 << (ReasonNotViewable - firstSuppression), BasisNone, CompletionNone, 0, 900}},
		{"attention of the refused", Glasses, `{` + consented + `"dwellInViewMs":900,"licensedRegionMatch":false}`, 4200, Metering{false, ReasonGateRefused, 0, BasisNone, CompletionNone, 0, -1}},
	} {
		tel := mustDecode(t, c.telemetry)
		require.Equal(t, c.want, Evaluate(&Right{Substrate: c.on}, tel, c.dwellMs).Meter(tel, c.dwellMs), c.name)
	}
}

// TestCompletions: each value of completionState is the completion of that name.
func TestCompletions(t *testing.T) {
	values := fields[completionState].values
	require.Len(t, values, int(completionCount)-1)
	for _, v := range values {
		tel := mustDecode(t, `{"completionState":"`+v.text+`"}`)
		c := Evaluate(&Right{Substrate: CTV}, tel, 1).Meter(tel, 1).Completion
		require.Equal(t, v.text, c.String())
		parsed, ok := ParseCompletion(v.text)
		require.Equal(t, []any{c, true}, []any{parsed, ok})
	}
	_, ok := ParseCompletion("")
	require.False(t, ok)
	c, ok := ParseCompletion("none")
	require.Equal(t, []any{CompletionNone, true}, []any{c, ok})
}

func TestReasons(t *testing.T) {
	require.Equal(t, `[]`, string(Reasons(0).AppendJSON(nil)))
	require.Equal(t, []string{}, Reasons(0).Strings())

	tel := mustDecode(t, `{"visibilityState":"hidden","viewable":false,"linkState":"lost"}`)
	reasons := Evaluate(&Right{Substrate: CTV}, tel, 0).Meter(tel, 0).Reasons
	require.Equal(t, `["NOT_VISIBLE","NOT_VIEWABLE","ZERO_DWELL","LINK_LOST"]`, string(reasons.AppendJSON(nil)))
	require.Equal(t, []string{"NOT_VISIBLE", "NOT_VIEWABLE", "ZERO_DWELL", "LINK_LOST"}, reasons.Strings())
}

func TestUnknownNamesAreShown(t *testing.T) {
	require.Equal(t, "Reason(16)", reasonCount.String())
	require.Equal(t, "Basis(5)", basisCount.String())
	require.Equal(t, "Completion(6)", completionCount.String())
	require.Equal(t, Metering{Reason: ReasonGateRefused, Basis: BasisNone}, Metering{}, "the zero metering bills nothing")
}
