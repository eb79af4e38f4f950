package gate

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestProjection(t *testing.T) {
	const (
		eyes   = `"gazeInView":true,"dwellInViewMs":900`
		mapped = `"spatialAnchorPersistent":true,"geoAnchored":false,"occlusionResolved":true`
		places = `"coverageCellId":"c","beamId":"b"`
	)
	for _, c := range []struct{ name, telemetry, want string }{
		{"nothing", `{}`, `{}`},
		{"eyes without consent", `{` + eyes + `}`, `{}`},
		{"eyes with consent refused", `{"eyeTrackingConsent":false,` + eyes + `}`, `{"eyeTrackingConsent":false}`},
		{"eyes with consent", `{"eyeTrackingConsent":true,` + eyes + `}`, `{"dwellInViewMs":900,"eyeTrackingConsent":true,"gazeInView":true}`},
		{"eyes of a minor", `{"minorMode":true,"eyeTrackingConsent":true,` + eyes + `}`, `{"eyeTrackingConsent":true}`},
		{"space without consent", `{` + mapped + `}`, `{}`},
		{"space with consent", `{"spatialMappingConsent":true,` + mapped + `}`, `{"geoAnchored":false,"occlusionResolved":true,"spatialAnchorPersistent":true,"spatialMappingConsent":true}`},
		{"space with a bystander", `{"bystanderCaptureRisk":"possible","spatialMappingConsent":true,` + mapped + `}`, `{"spatialMappingConsent":true}`},
		{"space of a minor", `{"minorMode":true,"spatialMappingConsent":true,` + mapped + `}`, `{"spatialMappingConsent":true}`},
		{"network places", `{` + places + `}`, `{"beamId":"b","coverageCellId":"c"}`},
		{"network places of a minor", `{"minorMode":true,` + places + `}`, `{}`},
		{"gate-only", `{"speedMph":3,"remoteIdActive":true,"bvlosWaiverId":"W","minorMode":false,"locomotionState":"seated"}`, `{}`},
		{"extensions", `{"optOut":false,"profiled":true,"substrate":"DOOH","vendor":{}}`, `{}`},
		{"canonical numbers", `{"weatherAttenuationDb":-0.0}`, `{"weatherAttenuationDb":0}`},
		{"canonical texts", `{"spectrumBand":"\u004b\u0061\u2028\u000a\/\u007f"}`, `{"spectrumBand":"Ka` + "\u2028" + `\n/` + "\u007f" + `"}`},
	} {
		require.Equal(t, c.want, string(mustDecode(t, c.telemetry).AppendProjection(nil)), c.name)
	}
	require.Equal(t, `x{}`, string(new(Telemetry).AppendProjection([]byte("x"))))
}

func TestProjectionProperties(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		tel := mustDecode(rt, drawTelemetry(rt))
		checkProjection(rt, tel, tel.AppendProjection(nil))
	})
}

// checkProjection checks what must hold of every projection.
func checkProjection(t require.TestingT, tel *Telemetry, projected []byte) {
	canonical := jsontext.Value(projected).Clone()
	require.NoError(t, canonical.Canonicalize())
	require.Equal(t, string(canonical), string(projected), "not canonical")

	var members map[string]any
	require.NoError(t, json.Unmarshal(projected, &members))
	isTrue := func(f field) bool { return tel.given.has(f) && tel.choice[f] == yes }
	minor := isTrue(minorMode)
	for name, value := range members {
		require.NotNil(t, value, name)
		f, known := fieldNamed[name]
		require.True(t, known, name)
		switch fields[f].class {
		case eye:
			require.True(t, isTrue(eyeTrackingConsent) && !minor, name)
		case space:
			require.True(t, isTrue(spatialMappingConsent) && !minor && !tel.stated.has(bystanderPossible), name)
		case networkPlace:
			require.False(t, minor, name)
		default:
			require.Equal(t, measurement, fields[f].class, name)
		}
	}
	for f := range fieldCount {
		if fields[f].class == measurement && tel.given.has(f) {
			require.Contains(t, members, fields[f].name)
		}
	}

	var twice Telemetry
	faults, err := twice.Decode(decoderOf(string(projected)), nil)
	require.NoError(t, err)
	require.Empty(t, faults)
	require.Equal(t, string(projected), string(twice.AppendProjection(nil)), "projecting twice is not projecting once")
}

// drawTelemetry draws any valid telemetry: each field absent, or with any value.
func drawTelemetry(rt *rapid.T) string {
	var members []string
	for f := range fieldCount {
		if rapid.Bool().Draw(rt, "absent") {
			continue
		}
		var value any
		switch s := &fields[f]; s.kind {
		case boolean:
			value = rapid.Bool().Draw(rt, s.name)
		case enum:
			value = s.values[rapid.IntRange(0, len(s.values)-1).Draw(rt, s.name)].text
		case number:
			value = rapid.Float64Range(s.min, maxNumber).Draw(rt, s.name)
		case text:
			value = rapid.StringN(0, -1, maxTextBytes).Draw(rt, s.name)
		}
		encoded, err := json.Marshal(value)
		if err != nil {
			rt.Fatal(err)
		}
		members = append(members, `"`+fields[f].name+`":`+string(encoded))
	}
	shuffled := rapid.Permutation(members).Draw(rt, "order")
	return "{" + strings.Join(shuffled, ",") + "}"
}
