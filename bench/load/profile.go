package load

import (
	"encoding/json"
	"math/rand/v2"
)

// A Profile describes the traffic of one substrate: what a fleet of it really
// sends, with the faults, missing consents and suppressions that occur in it.
type Profile struct {
	Substrate string
	// Weight is the part of the traffic, relative to the other profiles.
	Weight int
	// Scope is the scope of the right that its deliveries run on; nil for none.
	Scope map[string]any
	// Observe makes one delivery: the dwell time in milliseconds and the telemetry.
	Observe func(r *rand.Rand) (dwellMs float64, telemetry map[string]any)
}

// Profiles are ten substrates whose traffic, taken together, is refused by the
// gate about once in ten times.
func Profiles() []Profile {
	return []Profile{
		{Substrate: "DOOH", Weight: 22, Observe: billboard},
		{Substrate: "CTV", Weight: 18, Observe: television},
		{Substrate: "MOBILE", Weight: 14, Observe: phone},
		{Substrate: "SOCIAL_FEED", Weight: 8, Observe: feed},
		{Substrate: "AUDIO", Weight: 9, Observe: audio},
		{Substrate: "MESSAGING", Weight: 7, Observe: message},
		{Substrate: "GLASSES", Weight: 7, Observe: glasses},
		{Substrate: "AUTOMOTIVE", Weight: 6, Scope: map[string]any{"maxSpeedMph": 3}, Observe: car},
		{Substrate: "DRONE", Weight: 4, Observe: drone},
		{Substrate: "SATELLITE", Weight: 5, Scope: map[string]any{"regions": []string{"US", "CA", "MX"}}, Observe: satellite},
	}
}

func billboard(r *rand.Rand) (float64, map[string]any) {
	t := map[string]any{"viewable": !chance(r, 4), "visibilityState": "visible", "lightingState": pick(r, "ok", "ok", "ok", "too_bright")}
	if chance(r, 2) {
		t["visibilityState"] = "hidden"
	}
	return dwell(r, 4000, 15000), t
}

func television(r *rand.Rand) (float64, map[string]any) {
	t := map[string]any{
		"viewable": true, "muted": chance(r, 8), "appState": "foreground",
		"completionState": pick(r, "started", "first_quartile", "midpoint", "third_quartile", "complete", "complete"),
	}
	if chance(r, 3) {
		t["appState"] = "background"
	}
	if chance(r, 4) {
		t["licensedRegionMatch"] = false
	}
	return dwell(r, 900, 30000), t
}

func phone(r *rand.Rand) (float64, map[string]any) {
	t := map[string]any{"viewable": !chance(r, 6), "appState": "foreground", "coverageCellId": pick(r, "310-410-7712", "310-260-0190", "302-720-4481")}
	if chance(r, 30) { // an AR placement on a phone
		t["spatialAnchorPersistent"] = true
		t["geoAnchored"] = true
		t["spatialMappingConsent"] = !chance(r, 25)
	}
	if chance(r, 5) {
		t["minorMode"] = true
		t["profiled"] = chance(r, 50)
	}
	return dwell(r, 0, 9000), t
}

func feed(r *rand.Rand) (float64, map[string]any) {
	t := map[string]any{"viewable": !chance(r, 12), "fovPresence": true, "muted": chance(r, 60)}
	if chance(r, 8) {
		t["minorMode"] = true
		t["profiled"] = chance(r, 60)
	}
	return dwell(r, 200, 7000), t
}

func audio(r *rand.Rand) (float64, map[string]any) {
	t := map[string]any{"audible": true, "appState": pick(r, "foreground", "background")}
	if chance(r, 5) {
		t["audible"], t["muted"] = false, true
	}
	if chance(r, 14) {
		t["voicePromptActive"] = true
	}
	return dwell(r, 800, 30000), t
}

func message(r *rand.Rand) (float64, map[string]any) {
	t := map[string]any{"optOut": chance(r, 14)}
	if chance(r, 6) {
		t["minorMode"] = true
		t["guardianConsent"] = chance(r, 50)
	}
	return 0, t
}

func glasses(r *rand.Rand) (float64, map[string]any) {
	t := map[string]any{
		"headsetWorn": !chance(r, 4), "immersionLevel": pick(r, "mixed", "mixed", "mixed", "progressive"),
		"passthroughActive": true, "locomotionState": pick(r, "stationary", "seated", "walking"),
		"boundaryProximity": pick(r, "inside", "inside", "inside", "near_edge"), "comfortVectionRisk": pick(r, "low", "low", "med"),
	}
	if chance(r, 8) {
		t["immersionLevel"], t["locomotionState"] = "full", "walking"
	}
	if chance(r, 50) { // eye tracking, with and without the viewer's consent
		t["gazeInView"] = chance(r, 80)
		t["dwellInViewMs"] = dwell(r, 100, 3000)
		t["eyeTrackingConsent"] = chance(r, 70)
	}
	if chance(r, 6) {
		t["bystanderCaptureRisk"], t["spatialAnchorPersistent"] = "possible", true
	}
	return dwell(r, 1000, 12000), t
}

func car(r *rand.Rand) (float64, map[string]any) {
	t := map[string]any{"viewable": true}
	switch {
	case chance(r, 20):
		t["speedMph"] = dwell(r, 5, 70)
	case chance(r, 10): // the head unit didn't report its speed
	default:
		t["speedMph"] = 0
	}
	return dwell(r, 1500, 20000), t
}

func drone(r *rand.Rand) (float64, map[string]any) {
	t := map[string]any{"remoteIdActive": true, "geoAnchored": true}
	if chance(r, 15) {
		delete(t, "remoteIdActive")
	}
	if chance(r, 20) {
		t["bvlos"] = true
		t["bvlosWaiverId"] = pick(r, "107W-2025-01234", "107W-2026-00871", "")
	}
	return dwell(r, 3000, 20000), t
}

func satellite(r *rand.Rand) (float64, map[string]any) {
	t := map[string]any{
		"linkState": pick(r, "acquired", "acquired", "acquired", "degraded"), "beamId": pick(r, "KA-14", "KA-15", "KU-03"),
		"footprintRegion": pick(r, "US", "US", "CA", "MX"), "dopplerLocked": !chance(r, 3), "weatherAttenuationDb": dwell(r, 0, 26),
	}
	if chance(r, 7) {
		t["linkState"] = "lost"
	}
	if chance(r, 4) {
		t["footprintRegion"] = "BR"
	}
	return dwell(r, 0, 10000), t
}

// chance is true in percent of 100 cases.
func chance(r *rand.Rand, percent int) bool { return r.IntN(100) < percent }

func pick(r *rand.Rand, values ...string) string { return values[r.IntN(len(values))] }

// dwell draws between low and high, with one decimal.
func dwell(r *rand.Rand, low, high float64) float64 {
	return float64(int((low+r.Float64()*(high-low))*10)) / 10
}

// A Delivery is one request body of a profile, ready to be posted.
type Delivery struct {
	Substrate string
	Body      []byte
}

// Deliveries draws n deliveries by the profiles' weights, on the given rights
// (by substrate). The same seed gives the same deliveries.
func Deliveries(n int, seed uint64, profiles []Profile, rights map[string]string) ([]Delivery, error) {
	r := rand.New(rand.NewPCG(seed, 0))
	total := 0
	for _, p := range profiles {
		total += p.Weight
	}
	all := make([]Delivery, n)
	for i := range all {
		p := draw(r, profiles, total)
		dwellMs, telemetry := p.Observe(r)
		body, err := json.Marshal(map[string]any{
			"rightId":            rights[p.Substrate],
			"spatialAnchorId":    "anchor-" + pick(r, "plaza", "platform-4", "concourse", "lobby", "aisle-7"),
			"dwellMs":            dwellMs,
			"correlationId":      pick(r, "campaign-spring", "campaign-launch"),
			"telemetry":          telemetry,
			"playerSoftware":     "player/4.2", // callers may send fields that the contract doesn't name
			"spatialPlacementId": nil,
		})
		if err != nil {
			return nil, err
		}
		all[i] = Delivery{Substrate: p.Substrate, Body: body}
	}
	return all, nil
}

func draw(r *rand.Rand, profiles []Profile, total int) Profile {
	at := r.IntN(total)
	for _, p := range profiles {
		if at -= p.Weight; at < 0 {
			return p
		}
	}
	return profiles[len(profiles)-1]
}
