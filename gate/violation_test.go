package gate

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"
)

// The bodies as callers see them: every rule, and every way in which a rule explains
// its cause, field, limit or tightening.
func TestViolationBodies(t *testing.T) {
	var b strings.Builder
	for _, c := range []struct {
		on               Substrate
		scope, telemetry string
	}{
		{Satellite, `{"regions":["US"]}`, `{"footprintRegion":"M\u0022X","licensedRegionMatch":false}`},
		{CTV, ``, `{"licensedRegionMatch":false,"footprintRegion":"US"}`},
		{Mobile, ``, `{"substrate":"AUTOMOTIVE"}`},
		{Messaging, ``, `{"optOut":true}`},
		{Messaging, ``, `{"optOut":false,"optedOut":"since May"}`},
		{Messaging, ``, `{"minorMode":true}`},
		{Drone, ``, `{"bvlosWaiverId":null}`},
		{Drone, `{"bvlos":true}`, `{"remoteIdActive":false,"bvlosWaiverId":" "}`},
		{Automotive, ``, `{"speedMph":65}`},
		{Automotive, `{"maxSpeedMph":2.5}`, `{"speedMph":65}`},
		{Automotive, `{"maxSpeedMph":80}`, `{"speedMph":90}`},
		{Automotive, ``, `{"speedMph":0.25,"minorMode":true}`},
		{Any, ``, `{"speedMph":65,"minorMode":true}`},
		{HUD, ``, `{"speedMph":0.5,"comfortVectionRisk":"med","minorMode":true}`},
		{HUD, ``, `{"locomotionState":"in_vehicle","comfortVectionRisk":"high"}`},
		{Satellite, ``, `{"linkState":"lost"}`},
		{Robotics, ``, `{"voicePromptActive":true}`},
		{Aviation, ``, `{"voicePromptActive":true}`},
		{Glasses, ``, `{"immersionLevel":"full","locomotionState":"walking","boundaryProximity":"outside","roomScaleBounded":false}`},
		{Glasses, ``, `{"immersionLevel":"full","speedMph":30}`},
		{Glasses, ``, `{"minorMode":true,"boundaryProximity":"near_edge","immersionLevel":"progressive","passthroughActive":false}`},
		{CTV, ``, `{"minorMode":true,"gazeInView":true,"profiled":true}`},
		{CTV, ``, `{"minorMode":true,"dwellInViewMs":900}`},
		{Neural, ``, `{"minorMode":true,"neuralDataConsent":false}`},
		{Glasses, ``, `{"spatialMappingConsent":false,"spatialAnchorPersistent":true,"bystanderCaptureRisk":"possible"}`},
		{Glasses, ``, `{"spatialAnchorPersistent":true,"bystanderCaptureRisk":"possible","minorMode":true}`},
		{Wearables, ``, `{"bystanderCaptureRisk":"possible","minorMode":true}`},
		{Any, ``, `{"substrate":"DRONE"}`},
		{Any, ``, `{"remoteIdActive":false}`},
	} {
		right, tel := mustRight(t, c.on, c.scope), mustDecode(t, c.telemetry)
		v := Evaluate(right, tel, 4200)
		violations := v.Violations(right, tel)
		require.NotEmpty(t, violations, c.telemetry)
		b.WriteString("# " + c.on.String() + " " + c.scope + c.telemetry + "\n# " + ConstraintMessage(v.Substrate, len(violations)) + "\n")
		for i := range violations {
			body := jsontext.Value(violations[i].AppendJSON(nil))
			marshaled, err := json.Marshal(&violations[i])
			require.NoError(t, err)
			require.JSONEq(t, string(marshaled), string(body))
			b.Write(body)
			b.WriteByte('\n')
		}
	}
	for i := range rules {
		require.Contains(t, b.String(), rules[i].Code)
	}
	golden(t, "violations.ndjson", b.String())
}

func TestAcceptedHasNoViolations(t *testing.T) {
	right, tel := &Right{Substrate: DOOH}, new(Telemetry)
	v := Evaluate(right, tel, 4200)
	require.False(t, v.Refused())
	require.Nil(t, v.Violations(right, tel))
	require.Equal(t, "delivery refused by the ANY constraint gate: 0 violations", ConstraintMessage(Any, 0))
}

func TestSubstrateText(t *testing.T) {
	var s Substrate
	require.NoError(t, json.Unmarshal([]byte(`"AR_CONTACTS"`), &s))
	require.Equal(t, ARContacts, s)
	require.Error(t, json.Unmarshal([]byte(`"ar_contacts"`), &s))
	_, err := json.Marshal(Substrate(Substrates))
	require.Error(t, err)
}
