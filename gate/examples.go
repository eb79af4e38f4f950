package gate

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
)

// Example is one complete delivery on a substrate that passes its gate and is billed.
type Example struct {
	Substrate Substrate
	// Scope of the right that it rests on: a JSON object, or empty.
	Scope     string
	Anchor    string
	Placement string
	DwellMs   float64
	Telemetry json.RawMessage
	// Refused has one for each rule of the substrate, in the order of the table.
	Refused []Refused
}

// Refused is the same delivery with other telemetry, which the rule with this code refuses.
// Where the substrate does not take minors at all, a rule for minors is not the only one.
type Refused struct {
	Code      string
	Telemetry json.RawMessage
}

// Examples are those of all substrates, in order.
func Examples() []Example {
	list := make([]Example, Substrates)
	for s := range Substrate(Substrates) {
		e := examples[s]
		e.Substrate = s
		for i := range rules {
			if r := &rules[i]; r.On.has(s) {
				change := strings.ReplaceAll(r.Example, "{other}", another(s).String())
				e.Refused = append(e.Refused, Refused{r.Code, merged(e.Telemetry, change)})
			}
		}
		list[s] = e
	}
	return list
}

// another is a concrete substrate that is not s.
func another(s Substrate) Substrate {
	if s == DOOH {
		return CTV
	}
	return DOOH
}

// merged is a telemetry object changed by an RFC 7396 patch of the tables, its fields in the
// order of their table.
func merged(telemetry json.RawMessage, patch string) json.RawMessage {
	values := membersOf(string(telemetry))
	maps.Copy(values, membersOf(patch))
	text := []byte{'{'}
	for f := range fieldCount {
		if v := values[fields[f].name]; v != nil && string(v) != "null" {
			if len(text) > 1 {
				text = append(text, ',')
			}
			text = fmt.Appendf(text, "%q:%s", fields[f].name, v)
		}
	}
	return append(text, '}')
}

func membersOf(object string) (members map[string]json.RawMessage) {
	if err := json.Unmarshal([]byte(object), &members); err != nil {
		panic(fmt.Sprintf("an example of the tables is not a JSON object: %s: %v", object, err))
	}
	return members
}

// examples is the table: one complete delivery on each substrate, as a fleet would send it.
// What makes a rule refuse it stands with the rule.
var examples = [Substrates]Example{
	DOOH: {Anchor: "screen-0042", Placement: "slot-3", DwellMs: 10000, Telemetry: []byte(
		`{"visibilityState":"visible","viewable":true,"audible":false}`)},
	CTV: {Anchor: "living-room-tv-7f3a", Placement: "pod-2-slot-1", DwellMs: 30000, Telemetry: []byte(
		`{"visibilityState":"visible","viewable":true,"completionState":"complete","muted":false,"audible":true,"appState":"foreground"}`)},
	Mobile: {Anchor: "phone-91c2", Placement: "feed-top", DwellMs: 6400, Telemetry: []byte(
		`{"visibilityState":"visible","spatialAnchorPersistent":true,"spatialMappingConsent":true,"bystanderCaptureRisk":"none","viewable":true,"appState":"foreground"}`)},
	Streaming: {Anchor: "player-5518", Placement: "mid-roll-1", DwellMs: 15000, Telemetry: []byte(
		`{"visibilityState":"visible","viewable":true,"completionState":"third_quartile","muted":false,"audible":true,"appState":"foreground"}`)},
	Audio: {Anchor: "smart-speaker-0b1e", Placement: "pre-roll", DwellMs: 20000, Telemetry: []byte(
		`{"voicePromptActive":false,"muted":false,"audible":true}`)},
	Messaging: {Anchor: "sender-2140", Placement: "order-update", DwellMs: 0, Telemetry: []byte(
		`{"linkState":"acquired","optOut":false}`)},
	Gaming: {Anchor: "arena-12", Placement: "billboard-north", DwellMs: 7300, Telemetry: []byte(
		`{"headsetWorn":true,"immersionLevel":"mixed","passthroughActive":true,"roomScaleBounded":true,"boundaryProximity":"inside","locomotionState":"stationary","comfortVectionRisk":"low","visibilityState":"visible","fovPresence":true,"viewable":true,"appState":"foreground"}`)},
	Glasses: {Anchor: "storefront-88", Placement: "window-left", DwellMs: 5200, Telemetry: []byte(
		`{"headsetWorn":true,"immersionLevel":"mixed","passthroughActive":true,"boundaryProximity":"inside","locomotionState":"walking","comfortVectionRisk":"low","lightingState":"ok","visibilityState":"visible","spatialAnchorPersistent":true,"geoAnchored":true,"occlusionResolved":true,"fovPresence":true,"gazeInView":true,"dwellInViewMs":2400,"eyeTrackingConsent":true,"spatialMappingConsent":true,"bystanderCaptureRisk":"none","viewable":true}`)},
	ARContacts: {Anchor: "museum-hall-3", Placement: "caption-17", DwellMs: 4100, Telemetry: []byte(
		`{"headsetWorn":true,"immersionLevel":"mixed","passthroughActive":true,"boundaryProximity":"inside","locomotionState":"stationary","comfortVectionRisk":"low","lightingState":"ok","visibilityState":"visible","fovPresence":true,"gazeInView":true,"dwellInViewMs":1900,"eyeTrackingConsent":true,"viewable":true}`)},
	HUD: {Anchor: "windshield-4d", Placement: "lower-left", DwellMs: 3000, Telemetry: []byte(
		`{"speedMph":0,"locomotionState":"stationary","comfortVectionRisk":"low","visibilityState":"visible","fovPresence":true,"viewable":true}`)},
	Volumetric: {Anchor: "stage-2", Placement: "centre", DwellMs: 12000, Telemetry: []byte(
		`{"headsetWorn":true,"immersionLevel":"progressive","passthroughActive":true,"roomScaleBounded":true,"boundaryProximity":"inside","locomotionState":"seated","comfortVectionRisk":"low","lightingState":"ok","visibilityState":"visible","fovPresence":true,"viewable":true}`)},
	Hologram: {Anchor: "atrium-pillar-1", Placement: "face-south", DwellMs: 8000, Telemetry: []byte(
		`{"lightingState":"ok","visibilityState":"visible","spatialAnchorPersistent":true,"geoAnchored":true,"fovPresence":true,"spatialMappingConsent":true,"viewable":true}`)},
	Wearables: {Anchor: "watch-c7", Placement: "glance", DwellMs: 1800, Telemetry: []byte(
		`{"headsetWorn":true,"visibilityState":"visible","bystanderCaptureRisk":"none","viewable":true,"appState":"foreground"}`)},
	Ambient: {Anchor: "lobby-wall", Placement: "strip-2", DwellMs: 9000, Telemetry: []byte(
		`{"voicePromptActive":false,"visibilityState":"visible","bystanderCaptureRisk":"none","viewable":true}`)},
	Neural: {Anchor: "bci-headset-21", Placement: "session-cue", DwellMs: 2500, Telemetry: []byte(
		`{"headsetWorn":true,"immersionLevel":"mixed","passthroughActive":true,"boundaryProximity":"inside","locomotionState":"seated","comfortVectionRisk":"low","visibilityState":"visible","viewable":true,"neuralDataConsent":true}`)},
	Automotive: {Anchor: "dash-1", Placement: "center-display", DwellMs: 8200, Telemetry: []byte(
		`{"speedMph":0,"visibilityState":"visible","viewable":true,"appState":"foreground"}`)},
	SmartHome: {Anchor: "kitchen-display-9", Placement: "idle-card", DwellMs: 14000, Telemetry: []byte(
		`{"voicePromptActive":false,"visibilityState":"visible","bystanderCaptureRisk":"none","viewable":true}`)},
	Robotics: {Anchor: "courier-bot-306", Placement: "rear-panel", DwellMs: 11000, Telemetry: []byte(
		`{"voicePromptActive":false,"visibilityState":"visible","bystanderCaptureRisk":"none","viewable":true}`)},
	Drone: {Anchor: "light-show-drone-55", Placement: "formation-a", DwellMs: 20000, Telemetry: []byte(
		`{"remoteIdActive":true,"bvlosWaiverId":"107W-2026-01234","visibilityState":"visible","bystanderCaptureRisk":"none","viewable":true,"bvlos":true}`)},
	Satellite: {Scope: `{"regions":["US-CONUS"]}`, Anchor: "terminal-ka-771", Placement: "multicast-4", DwellMs: 60000, Telemetry: []byte(
		`{"linkState":"acquired","beamId":"ka-spot-12","coverageCellId":"cell-0931","groundStationId":"gs-west","footprintRegion":"US-CONUS","spectrumBand":"Ka","dopplerLocked":true,"weatherAttenuationDb":2.5,"licensedRegionMatch":true,"onboardProcessed":false}`)},
	Aviation: {Anchor: "seat-back-14c", Placement: "pre-feature", DwellMs: 30000, Telemetry: []byte(
		`{"voicePromptActive":false,"visibilityState":"visible","viewable":true,"completionState":"complete","appState":"foreground"}`)},
	Maritime: {Anchor: "cabin-screen-802", Placement: "welcome-loop", DwellMs: 25000, Telemetry: []byte(
		`{"voicePromptActive":false,"visibilityState":"visible","viewable":true,"appState":"foreground"}`)},
	SocialFeed: {Anchor: "feed-session-e4", Placement: "position-3", DwellMs: 2600, Telemetry: []byte(
		`{"visibilityState":"visible","viewable":true,"muted":true,"appState":"foreground"}`)},
	Any: {Anchor: "fleet-device-17", Placement: "default", DwellMs: 5000, Telemetry: []byte(
		`{"visibilityState":"visible","viewable":true,"appState":"foreground"}`)},
}
