package gate

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"
)

// accepts says whether the decoder finds no fault with one field of this value.
func accepts(t *testing.T, name, value string) bool {
	var observed Telemetry
	faults, err := observed.Decode(jsontext.NewDecoder(bytes.NewBufferString(fmt.Sprintf(`{%q:%s}`, name, value))), nil)
	require.NoError(t, err)
	require.Zero(t, observed.Extra(), "%s is no field", name)
	return len(faults) == 0
}

// TestFieldsAreWhatIsDecoded holds each description against the decoder.
func TestFieldsAreWhatIsDecoded(t *testing.T) {
	require.Len(t, Fields(), 38, "the contract's table")
	for _, f := range Fields() {
		right := map[string]bool{"true": f.Type == "boolean", "0": f.Type == "number", `"x"`: f.Type == "string" && f.Values == nil, "null": f.Nullable, "[]": false}
		for value, want := range right {
			require.Equal(t, want, accepts(t, f.Name, value), "%s: %s", f.Name, value)
		}
		for _, v := range f.Values {
			require.True(t, accepts(t, f.Name, fmt.Sprintf("%q", v)), "%s: %s", f.Name, v)
		}
		if f.Type == "number" {
			require.Equal(t, f.Min == nil, accepts(t, f.Name, "-0.5"), f.Name)
		}
		if f.MaxBytes > 0 {
			require.True(t, accepts(t, f.Name, `"`+strings.Repeat("x", f.MaxBytes)+`"`), f.Name)
			require.False(t, accepts(t, f.Name, `"`+strings.Repeat("x", f.MaxBytes+1)+`"`), f.Name)
		}
	}
}

// TestKeptIsWhatIsProjected observes every field at once, under each of the
// consents, and looks at what is left.
func TestKeptIsWhatIsProjected(t *testing.T) {
	for _, c := range []struct {
		name, also string
		kept       []Kept
	}{
		{"no consent", `"eyeTrackingConsent":false,"spatialMappingConsent":false`, []Kept{KeptAlways, KeptNotOfMinors}},
		{"eyes", `"eyeTrackingConsent":true,"spatialMappingConsent":false`, []Kept{KeptAlways, KeptNotOfMinors, KeptByEyeConsent}},
		{"space", `"eyeTrackingConsent":false,"spatialMappingConsent":true`, []Kept{KeptAlways, KeptNotOfMinors, KeptBySpaceConsent}},
		{"bystanders", `"eyeTrackingConsent":false,"spatialMappingConsent":true,"bystanderCaptureRisk":"possible"`, []Kept{KeptAlways, KeptNotOfMinors}},
		{"a minor", `"eyeTrackingConsent":true,"spatialMappingConsent":true,"minorMode":true`, []Kept{KeptAlways}},
	} {
		text := c.also
		for _, f := range Fields() {
			if strings.Contains(c.also, f.Name) {
				continue
			}
			value := map[string]string{"boolean": "false", "number": "1", "string": `"x"`}[f.Type]
			if f.Values != nil {
				value = fmt.Sprintf("%q", f.Values[0])
			}
			text += fmt.Sprintf(",%q:%s", f.Name, value)
		}
		var observed Telemetry
		faults, err := observed.Decode(jsontext.NewDecoder(bytes.NewBufferString("{"+text+"}")), nil)
		require.NoError(t, err)
		require.Empty(t, faults)
		projection := string(observed.AppendProjection(nil))
		for _, f := range Fields() {
			want := false
			for _, kept := range c.kept {
				want = want || f.Kept == kept
			}
			require.Equal(t, want, strings.Contains(projection, `"`+f.Name+`":`), "%s: %s", c.name, f.Name)
		}
	}
}
