package gate

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// outcomeCase is a case beside the published vectors. Refused and Suppressed list
// codes in order; a star marks one that only minor mode tightened.
type outcomeCase struct {
	On         Substrate
	Telemetry  string
	Refused    string
	Suppressed string
	Scope      string  // of the right
	DwellMs    float64 // 4200 if 0
}

var cases = []outcomeCase{
	// The right's limits tighten and never loosen.
	{On: Satellite, Scope: `{"regions":["US"]}`, Telemetry: `{"footprintRegion":"MX","licensedRegionMatch":true}`, Refused: "LICENSED_REGION_MISMATCH"},
	{On: Any, Scope: `{"regions":["US"]}`, Telemetry: `{"footprintRegion":"MX"}`, Refused: "LICENSED_REGION_MISMATCH"},
	{On: Satellite, Scope: `{"regions":["US"]}`, Telemetry: `{"footprintRegion":"US","licensedRegionMatch":false}`, Refused: "LICENSED_REGION_MISMATCH"},
	{On: Satellite, Scope: `{"regions":["US"]}`, Telemetry: `{"footprintRegion":"us"}`, Refused: "LICENSED_REGION_MISMATCH"},
	{On: Satellite, Scope: `{"regions":[]}`, Telemetry: `{"footprintRegion":"US"}`, Refused: "LICENSED_REGION_MISMATCH"},
	{On: Satellite, Scope: `{"regions":[]}`},
	{On: Satellite, Telemetry: `{"footprintRegion":"US"}`},
	{On: Automotive, Scope: `{"maxSpeedMph":3}`, Telemetry: `{"speedMph":3}`},
	{On: Automotive, Scope: `{"maxSpeedMph":3}`, Telemetry: `{"speedMph":3.5}`, Refused: "AUTOMOTIVE_SPEED_EXCEEDED"},
	{On: Automotive, Scope: `{"maxSpeedMph":80}`, Telemetry: `{"speedMph":4}`},
	{On: Automotive, Scope: `{"maxSpeedMph":0}`, Suppressed: "SPEED_UNKNOWN"},
	{On: Any, Scope: `{"maxSpeedMph":3}`, Telemetry: `{"speedMph":4}`, Refused: "AUTOMOTIVE_SPEED_EXCEEDED"},
	{On: Drone, Scope: `{"bvlos":true}`, Telemetry: `{"remoteIdActive":true,"bvlos":false}`, Refused: "DRONE_BVLOS_WAIVER_MISSING"},
	{On: Drone, Scope: `{"bvlos":false}`, Telemetry: `{"remoteIdActive":true,"bvlos":true}`, Refused: "DRONE_BVLOS_WAIVER_MISSING"},
	{On: Any, Scope: `"everything"`, Telemetry: `{}`},

	// Substrates: a right for ANY takes the delivery's own name for it, rules of absence included.
	{On: Any, Telemetry: `{"substrate":"DRONE"}`, Refused: "DRONE_REMOTE_ID_MISSING"},
	{On: Any, Telemetry: `{"substrate":"AUTOMOTIVE"}`, Suppressed: "SPEED_UNKNOWN"},
	{On: Any, Telemetry: `{"substrate":"ANY","speedMph":65}`, Refused: "AUTOMOTIVE_SPEED_EXCEEDED"},
	{On: Any, Telemetry: `{"substrate":"mobile","speedMph":65}`, Refused: "AUTOMOTIVE_SPEED_EXCEEDED"},
	{On: Mobile, Telemetry: `{"substrate":"MOBILE"}`},
	{On: Mobile, Telemetry: `{"substrate":"ANY"}`},
	{On: Mobile, Telemetry: `{"substrate":"automotive"}`},
	{On: Mobile, Telemetry: `{"substrate":7}`},
	{On: Drone, Telemetry: `{"substrate":"DOOH"}`, Refused: "SUBSTRATE_NOT_COVERED DRONE_REMOTE_ID_MISSING"},

	// Messaging: an opt-out is read fail-safe.
	{On: Messaging, Telemetry: `{"optedOut":true}`, Refused: "MESSAGING_OPTED_OUT"},
	{On: Messaging, Telemetry: `{"optOut":"no"}`, Refused: "MESSAGING_OPTED_OUT"},
	{On: Messaging, Telemetry: `{"optOut":0}`, Refused: "MESSAGING_OPTED_OUT"},
	{On: Messaging, Telemetry: `{"optOut":[]}`, Refused: "MESSAGING_OPTED_OUT"},
	{On: Messaging, Telemetry: `{"optOut":1e400}`, Refused: "MESSAGING_OPTED_OUT"},
	{On: Messaging, Telemetry: `{"optOut":false,"optedOut":{}}`, Refused: "MESSAGING_OPTED_OUT"},
	{On: Messaging, Telemetry: `{"OptOut":true}`},
	{On: Any, Telemetry: `{"optOut":true}`, Refused: "MESSAGING_OPTED_OUT"},
	{On: Any, Telemetry: `{"optedOut":true}`, Refused: "MESSAGING_OPTED_OUT"},
	{On: Messaging, Telemetry: `{"minorMode":true,"guardianConsent":"true"}`, Refused: "MINOR_MESSAGING_CONSENT_REQUIRED*"},
	{On: Messaging, Telemetry: `{"minorMode":true,"guardianConsent":false}`, Refused: "MINOR_MESSAGING_CONSENT_REQUIRED*"},

	// Drones.
	{On: Any, Telemetry: `{"remoteIdActive":false}`, Refused: "DRONE_REMOTE_ID_MISSING"},
	{On: Any, Telemetry: `{"remoteIdActive":true}`},
	{On: Drone, Telemetry: `{"remoteIdActive":true}`},
	{On: Drone, Telemetry: `{"remoteIdActive":true,"bvlos":true,"bvlosWaiverId":" \t\u00a0"}`, Refused: "DRONE_BVLOS_WAIVER_MISSING"},
	{On: Drone, Telemetry: `{"remoteIdActive":true,"bvlos":true,"bvlosWaiverId":null}`, Refused: "DRONE_BVLOS_WAIVER_MISSING"},
	{On: Drone, Telemetry: `{"remoteIdActive":true,"bvlos":"true"}`},
	{On: Drone, Telemetry: `{"bvlos":true}`, Refused: "DRONE_REMOTE_ID_MISSING DRONE_BVLOS_WAIVER_MISSING"},

	// Speed: a minor's car stands still.
	{On: Automotive, Telemetry: `{"minorMode":true,"speedMph":1}`, Refused: "AUTOMOTIVE_SPEED_EXCEEDED*"},
	{On: Automotive, Telemetry: `{"minorMode":true,"speedMph":65}`, Refused: "AUTOMOTIVE_SPEED_EXCEEDED"},
	{On: Automotive, Telemetry: `{"minorMode":false,"speedMph":1}`},
	{On: Automotive, Telemetry: `{"speedMph":-0}`},
	{On: Automotive, Telemetry: `{"speedMph":5}`, Refused: "AUTOMOTIVE_SPEED_EXCEEDED"},
	{On: Automotive, Telemetry: `{"speedMph":5e0}`, Refused: "AUTOMOTIVE_SPEED_EXCEEDED"},
	{On: Automotive, Telemetry: `{"\u0073peedMph":65}`, Refused: "AUTOMOTIVE_SPEED_EXCEEDED"},
	{On: HUD, Telemetry: `{"locomotionState":"in_vehicle"}`, Refused: "HUD_DRIVING_DISTRACTION"},
	{On: HUD, Telemetry: `{"locomotionState":"walking"}`},
	{On: HUD, Telemetry: `{}`},
	{On: HUD, Telemetry: `{"speedMph":0,"minorMode":true}`},
	{On: Any, Telemetry: `{"locomotionState":"in_vehicle","speedMph":4}`},

	// Voices.
	{On: Aviation, Telemetry: `{"voicePromptActive":false}`},
	{On: Any, Telemetry: `{"voicePromptActive":true}`, Refused: "VOICE_PROMPT_OVERLAP"},
	{On: Audio, Telemetry: `{"audible":false}`, Suppressed: "NOT_AUDIBLE"},
	{On: Audio, Telemetry: `{"muted":true,"audible":true}`, Suppressed: "NOT_AUDIBLE"},
	{On: Any, Telemetry: `{"audible":false}`},
	{On: Audio, DwellMs: 1999.999, Suppressed: "BELOW_AUDIBLE_BAR"},

	// Occluded view in motion.
	{On: Glasses, Telemetry: `{"locomotionState":"in_vehicle","immersionLevel":"full"}`, Refused: "XR_OCCLUDED_IN_MOTION"},
	{On: Glasses, Telemetry: `{"locomotionState":"in_vehicle","immersionLevel":"progressive","passthroughActive":true}`},
	{On: Glasses, Telemetry: `{"locomotionState":"walking","immersionLevel":"progressive"}`},
	{On: Glasses, Telemetry: `{"speedMph":5,"immersionLevel":"progressive"}`, Refused: "XR_OCCLUDED_IN_MOTION"},
	{On: Glasses, Telemetry: `{"speedMph":4.9,"immersionLevel":"full"}`},
	{On: Glasses, Telemetry: `{"speedMph":30,"immersionLevel":"progressive","passthroughActive":true}`},
	{On: Any, Telemetry: `{"locomotionState":"walking","immersionLevel":"full"}`, Refused: "XR_OCCLUDED_IN_MOTION"},
	{On: Any, Telemetry: `{"locomotionState":"walking","passthroughActive":false}`, Refused: "XR_OCCLUDED_IN_MOTION"},
	{On: Any, Telemetry: `{"locomotionState":"walking","immersionLevel":"progressive","passthroughActive":true,"minorMode":true}`, Refused: "XR_OCCLUDED_IN_MOTION*"},
	{On: Any, Telemetry: `{"locomotionState":"in_vehicle","immersionLevel":"full"}`, Refused: "XR_OCCLUDED_IN_MOTION"},
	{On: Any, Telemetry: `{"locomotionState":"in_vehicle","passthroughActive":false}`, Refused: "XR_OCCLUDED_IN_MOTION"},
	{On: Any, Telemetry: `{"locomotionState":"in_vehicle","immersionLevel":"progressive"}`, Refused: "XR_OCCLUDED_IN_MOTION"},
	{On: Any, Telemetry: `{"speedMph":9,"immersionLevel":"full"}`, Refused: "AUTOMOTIVE_SPEED_EXCEEDED XR_OCCLUDED_IN_MOTION"},
	{On: Any, Telemetry: `{"speedMph":9,"passthroughActive":false}`, Refused: "AUTOMOTIVE_SPEED_EXCEEDED XR_OCCLUDED_IN_MOTION"},
	{On: Any, Telemetry: `{"speedMph":9,"immersionLevel":"progressive"}`, Refused: "AUTOMOTIVE_SPEED_EXCEEDED XR_OCCLUDED_IN_MOTION"},

	// The boundary: passthrough or mixed sees through, passthrough off or full does not.
	{On: Glasses, Telemetry: `{"boundaryProximity":"outside","immersionLevel":"mixed"}`},
	{On: Glasses, Telemetry: `{"boundaryProximity":"outside","immersionLevel":"mixed","passthroughActive":false}`, Refused: "XR_OUTSIDE_BOUNDARY"},
	{On: Glasses, Telemetry: `{"boundaryProximity":"outside","immersionLevel":"progressive","passthroughActive":true}`},
	{On: Any, Telemetry: `{"boundaryProximity":"outside","immersionLevel":"mixed","passthroughActive":false}`, Refused: "XR_OUTSIDE_BOUNDARY"},
	{On: Any, Telemetry: `{"boundaryProximity":"outside","immersionLevel":"full","passthroughActive":true}`, Refused: "XR_OUTSIDE_BOUNDARY"},
	{On: Glasses, Telemetry: `{"minorMode":true,"boundaryProximity":"near_edge","immersionLevel":"mixed","passthroughActive":false}`, Refused: "XR_OUTSIDE_BOUNDARY*"},
	{On: Glasses, Telemetry: `{"minorMode":true,"boundaryProximity":"inside","immersionLevel":"mixed","passthroughActive":false}`},
	{On: Glasses, Telemetry: `{"minorMode":true,"boundaryProximity":"near_edge","immersionLevel":"full","passthroughActive":true}`, Refused: "XR_OUTSIDE_BOUNDARY* MINOR_IMMERSION_RESTRICTED*"},
	{On: Any, Telemetry: `{"minorMode":true,"boundaryProximity":"near_edge"}`, Refused: "XR_OUTSIDE_BOUNDARY*"},
	{On: Any, Telemetry: `{"minorMode":true,"boundaryProximity":"near_edge","immersionLevel":"mixed","passthroughActive":false}`, Refused: "XR_OUTSIDE_BOUNDARY*"},
	{On: Any, Telemetry: `{"minorMode":true,"boundaryProximity":"near_edge","immersionLevel":"full","passthroughActive":true}`, Refused: "XR_OUTSIDE_BOUNDARY* MINOR_IMMERSION_RESTRICTED*"},
	{On: Glasses, Telemetry: `{"boundaryProximity":"near_edge","immersionLevel":"mixed","passthroughActive":false}`, Suppressed: "BOUNDARY_WARNING"},
	{On: Glasses, Telemetry: `{"boundaryProximity":"near_edge","immersionLevel":"full","passthroughActive":true}`, Suppressed: "BOUNDARY_WARNING"},
	{On: Any, Telemetry: `{"boundaryProximity":"near_edge","immersionLevel":"mixed","passthroughActive":false}`, Suppressed: "BOUNDARY_WARNING"},
	{On: Any, Telemetry: `{"boundaryProximity":"near_edge","immersionLevel":"full","passthroughActive":true}`, Suppressed: "BOUNDARY_WARNING"},
	{On: Glasses, Telemetry: `{"immersionLevel":"full","roomScaleBounded":false,"locomotionState":"seated"}`},
	{On: Any, Telemetry: `{"immersionLevel":"full","roomScaleBounded":false}`, Refused: "XR_BOUNDARY_UNDEFINED"},

	// Comfort and immersion of minors.
	{On: HUD, Telemetry: `{"minorMode":true,"comfortVectionRisk":"med"}`, Refused: "XR_COMFORT_RISK*"},
	{On: Any, Telemetry: `{"minorMode":true,"comfortVectionRisk":"med"}`, Refused: "XR_COMFORT_RISK*"},
	{On: Glasses, Telemetry: `{"minorMode":true,"comfortVectionRisk":"low"}`},
	{On: Glasses, Telemetry: `{"minorMode":true,"immersionLevel":"progressive"}`, Refused: "MINOR_IMMERSION_RESTRICTED*"},
	{On: Any, Telemetry: `{"minorMode":true,"immersionLevel":"progressive"}`, Refused: "MINOR_IMMERSION_RESTRICTED*"},
	{On: Any, Telemetry: `{"minorMode":true,"immersionLevel":"full"}`, Refused: "MINOR_IMMERSION_RESTRICTED*"},

	// Eyes, profiles, nerves.
	{On: Any, Telemetry: `{"minorMode":true,"dwellInViewMs":0}`, Refused: "MINOR_EYE_TRACKING*"},
	{On: Any, Telemetry: `{"minorMode":true,"gazeInView":false}`, Refused: "MINOR_EYE_TRACKING*"},
	{On: Any, Telemetry: `{"minorMode":true,"profiled":true}`, Refused: "MINOR_PROFILED_DELIVERY*"},
	{On: DOOH, Telemetry: `{"minorMode":true,"profiled":1}`},
	{On: Neural, Telemetry: `{"neuralDataConsent":false}`, Refused: "NEURAL_CONSENT_WITHHELD"},
	{On: Neural, Telemetry: `{"neuralDataConsent":"yes"}`, Suppressed: "CONSENT_REQUIRED"},
	{On: Neural, Telemetry: `{"minorMode":true,"neuralDataConsent":false}`, Refused: "MINOR_NEURAL_DELIVERY* NEURAL_CONSENT_WITHHELD"},
	{On: Any, Telemetry: `{"neuralDataConsent":false}`, Refused: "NEURAL_CONSENT_WITHHELD"},

	// Mapped space and bystanders.
	{On: Glasses, Telemetry: `{"spatialMappingConsent":false}`},
	{On: Glasses, Telemetry: `{"occlusionResolved":true}`},
	{On: Glasses, Telemetry: `{"spatialAnchorPersistent":true}`},
	{On: Any, Telemetry: `{"spatialMappingConsent":false,"occlusionResolved":true}`, Refused: "SPATIAL_MAPPING_CONSENT_REQUIRED"},
	{On: Any, Telemetry: `{"spatialMappingConsent":false,"spatialAnchorPersistent":true}`, Refused: "SPATIAL_MAPPING_CONSENT_REQUIRED"},
	{On: Any, Telemetry: `{"minorMode":true,"spatialAnchorPersistent":true}`, Refused: "SPATIAL_MAPPING_CONSENT_REQUIRED*"},
	{On: Glasses, Telemetry: `{"bystanderCaptureRisk":"possible","spatialAnchorPersistent":true,"spatialMappingConsent":true}`},
	{On: Glasses, Telemetry: `{"bystanderCaptureRisk":"possible"}`},
	{On: Any, Telemetry: `{"minorMode":true,"bystanderCaptureRisk":"possible"}`, Refused: "BYSTANDER_CAPTURE_RISK*"},

	// What is not seen.
	{On: Any, Telemetry: `{"visibilityState":"blurred"}`, Suppressed: "NOT_VISIBLE"},
	{On: Gaming, Telemetry: `{"headsetWorn":false}`},
	{On: Any, Telemetry: `{"headsetWorn":false}`},
	{On: Gaming, Telemetry: `{"headsetWorn":false,"immersionLevel":"full"}`, Suppressed: "NOT_WORN"},
	{On: Any, Telemetry: `{"headsetWorn":false,"immersionLevel":"mixed"}`, Suppressed: "NOT_WORN"},
	{On: Any, Telemetry: `{"headsetWorn":false,"immersionLevel":"progressive"}`, Suppressed: "NOT_WORN"},
	{On: Any, Telemetry: `{"headsetWorn":false,"immersionLevel":"full"}`, Suppressed: "NOT_WORN"},
	{On: Any, Telemetry: `{"viewable":false}`, Suppressed: "NOT_VIEWABLE"},
	{On: Any, Telemetry: `{"lightingState":"too_dark"}`, Suppressed: "LIGHTING_UNUSABLE"},
	{On: Any, Telemetry: `{"lightingState":"too_bright"}`, Suppressed: "LIGHTING_UNUSABLE"},
	{On: Satellite, Telemetry: `{"linkState":"acquired","weatherAttenuationDb":30}`},
	{On: Satellite, Telemetry: `{"weatherAttenuationDb":30}`, Suppressed: "LINK_UNRELIABLE"},
	{On: Satellite, Telemetry: `{"weatherAttenuationDb":-30}`},
	{On: Any, Telemetry: `{"weatherAttenuationDb":30}`, Suppressed: "LINK_UNRELIABLE"},
	{On: Glasses, Telemetry: `{"visibilityState":"hidden","appState":"background","headsetWorn":false,"fovPresence":false,"viewable":false,"linkState":"lost","lightingState":"too_dark","boundaryProximity":"near_edge"}`,
		Suppressed: "NOT_VISIBLE APP_BACKGROUND NOT_WORN NOT_IN_FOV NOT_VIEWABLE LINK_LOST LIGHTING_UNUSABLE BOUNDARY_WARNING"},
}

// matrix completes the published one: a row for each code that is not in it, and
// for the terms that hold on a part of their row's substrates.
var matrix = []matrixRow{
	firesOn("SUBSTRATE_NOT_COVERED", `{"substrate":"DOOH"}`, concrete.except(DOOH)),
	firesOn("SUBSTRATE_NOT_COVERED", `{"substrate":"CTV"}`, concrete.except(CTV)),
	firesOn("MESSAGING_OPTED_OUT", `{"optOut":true}`, on(Messaging, Any)),
	firesOn("DRONE_REMOTE_ID_MISSING", `{"remoteIdActive":false}`, on(Drone, Any)),
	firesOn("HUD_DRIVING_DISTRACTION", `{"speedMph":1}`, on(HUD)),
	firesOn("HUD_DRIVING_DISTRACTION", `{"locomotionState":"in_vehicle"}`, on(HUD)),
	firesOn("PUBLIC_ADDRESS_ACTIVE", `{"voicePromptActive":true}`, on(Aviation, Maritime)),
	firesOn("XR_BOUNDARY_UNDEFINED", `{"immersionLevel":"full","roomScaleBounded":false}`, on(Glasses, ARContacts, Volumetric, Neural, Gaming, Any)),
	firesOn("MINOR_EYE_TRACKING", `{"minorMode":true,"gazeInView":false}`, everywhere),
	firesOn("MINOR_EYE_TRACKING", `{"minorMode":true,"dwellInViewMs":0}`, everywhere),
	firesOn("NEURAL_CONSENT_WITHHELD", `{"neuralDataConsent":false}`, on(Neural, Any)),
	firesOn("CONSENT_REQUIRED", `{}`, on(Neural)),
	firesOn("NOT_WORN", `{"headsetWorn":false}`, on(Glasses, ARContacts, Wearables, Neural)),
	firesOn("NOT_VIEWABLE", `{"viewable":false}`, everywhere.except(Audio, Messaging)),
	firesOn("BELOW_AUDIBLE_BAR", `{}`, on(Audio)),
	firesOn("LIGHTING_UNUSABLE", `{"lightingState":"too_dark"}`, on(Glasses, ARContacts, Volumetric, Hologram, Any)),
}

// firesOn is a row of the matrix with a dwell below the audible bar.
func firesOn(code, telemetry string, where surfaces) matrixRow {
	row := matrixRow{Code: code, Telemetry: json.RawMessage(telemetry), DwellMs: 1000}
	for s := range Substrate(Substrates) {
		if where.has(s) {
			row.FiresOn = append(row.FiresOn, s)
		}
	}
	return row
}

func TestCases(t *testing.T) {
	for i := range cases {
		v := cases[i].vector(i)
		right, tel := mustRight(t, v.Substrate, string(v.RightScope)), mustDecode(t, string(v.Telemetry))
		verdict := Evaluate(right, tel, v.DwellMs)
		m := verdict.Meter(tel, v.DwellMs)

		codes, tightened := codesOf(verdict.Violations(right, tel))
		for i, code := range codes {
			if slices.Contains(tightened, code) {
				codes[i] += "*"
			}
		}
		require.Equal(t, cases[i].Refused, strings.Join(codes, " "), v.Title)
		require.Equal(t, cases[i].Suppressed, strings.Join(m.Reasons.Strings(), " "), v.Title)
		require.Equal(t, cases[i].Refused == "" && cases[i].Suppressed == "", m.Metered, v.Title)
	}
}

// vector is the case in the form of the published ones.
func (c *outcomeCase) vector(i int) vector {
	v := vector{ID: fmt.Sprintf("case %d", i), Title: c.On.String() + " " + c.Scope + c.Telemetry, Substrate: c.On, DwellMs: c.DwellMs}
	v.Telemetry, v.RightScope = json.RawMessage(c.Telemetry), json.RawMessage(c.Scope)
	if c.DwellMs == 0 {
		v.DwellMs = 4200
	}
	v.Expect.Status = 200
	for _, code := range strings.Fields(c.Refused) {
		v.Expect.Status = 412
		code, tightened := strings.CutSuffix(code, "*")
		v.Expect.Violations = append(v.Expect.Violations, code)
		if tightened {
			v.Expect.TightenedByMinorMode = append(v.Expect.TightenedByMinorMode, code)
		}
	}
	v.Expect.SuppressReasons = strings.Fields(c.Suppressed)
	return v
}
