package gate

// field is a telemetry field that the gate knows: the contract's 38, and seven
// that it recognises among the additional ones.
type field uint8

const (
	speedMph field = iota
	remoteIDActive
	bvlosWaiverID
	voicePromptActive
	headsetWorn
	immersionLevel
	passthroughActive
	roomScaleBounded
	boundaryProximity
	locomotionState
	comfortVectionRisk
	lightingState
	visibilityState
	spatialAnchorPersistent
	geoAnchored
	occlusionResolved
	fovPresence
	gazeInView
	dwellInViewMs
	eyeTrackingConsent
	spatialMappingConsent
	minorMode
	bystanderCaptureRisk
	linkState
	beamID
	coverageCellID
	groundStationID
	footprintRegion
	spectrumBand
	dopplerLocked
	weatherAttenuationDb
	licensedRegionMatch
	onboardProcessed
	viewable
	completionState
	muted
	audible
	appState

	optOut
	optedOut
	guardianConsent
	profiled
	bvlos
	neuralDataConsent
	deliveredSubstrate

	fieldCount
)

// class says what becomes of a field after the gate has read it; the table of
// project.go says when a class is kept.
type class uint8

const (
	measurement  class = iota // M: what was rendered, and the consents themselves
	eye                       // E: derived from eyes
	space                     // S: derived from the mapped space around the viewer
	networkPlace              // N: where in the network, and so roughly where at all
	gateOnly                  // G: for the rules only; never leaves the gate
	extension                 // X: not in the contract; never leaves the gate, only counted

	classCount
)

type kind uint8

const (
	boolean kind = iota
	enum
	number
	text
)

// spec is a row of the table of fields.
type spec struct {
	name  string
	class class
	kind  kind

	values []value // boolean and enum: what is allowed, and the fact each states
	min    float64 // number: the least that is allowed
	over   []threshold
	given  fact // stated by any value; by a text only when it is not blank

	nullable bool // null is allowed and means absent
	failSafe bool // an extension of which anything but false and null means true
}

type value struct {
	text string
	fact fact
}

// threshold states a fact of a number: at or above a limit, or only above it.
type threshold struct {
	fact  fact
	limit float64
	above bool
}

func (t threshold) met(x float64) bool { return x > t.limit || x == t.limit && !t.above }

// trueFalse is the values of a boolean, with the facts that true and false state.
func trueFalse(whenTrue, whenFalse fact) []value {
	return []value{no: {"false", whenFalse}, yes: {"true", whenTrue}}
}

// The places of false and true in a boolean's values.
const no, yes = 0, 1

// fields is the table. The order is the contract's.
var fields = [fieldCount]spec{
	speedMph: {name: "speedMph", class: gateOnly, kind: number, given: speedGiven, over: []threshold{
		{fact: speedAboveZero, limit: 0, above: true},
		{fact: drivingSpeed, limit: drivingMph}}},
	remoteIDActive:     {name: "remoteIdActive", class: gateOnly, kind: boolean, values: trueFalse(remoteIDTrue, remoteIDFalse)},
	bvlosWaiverID:      {name: "bvlosWaiverId", class: gateOnly, kind: text, given: waiverGiven, nullable: true},
	voicePromptActive:  {name: "voicePromptActive", class: gateOnly, kind: boolean, values: trueFalse(voicePromptTrue, noFact)},
	headsetWorn:        {name: "headsetWorn", class: measurement, kind: boolean, values: trueFalse(noFact, headsetWornFalse)},
	immersionLevel:     {name: "immersionLevel", class: gateOnly, kind: enum, values: []value{{"mixed", immersionMixed}, {"progressive", immersionProgressive}, {"full", immersionFull}}},
	passthroughActive:  {name: "passthroughActive", class: gateOnly, kind: boolean, values: trueFalse(passthroughTrue, passthroughFalse)},
	roomScaleBounded:   {name: "roomScaleBounded", class: gateOnly, kind: boolean, values: trueFalse(noFact, roomBoundedFalse)},
	boundaryProximity:  {name: "boundaryProximity", class: gateOnly, kind: enum, values: []value{{"inside", noFact}, {"near_edge", boundaryNearEdge}, {"outside", boundaryOutside}}},
	locomotionState:    {name: "locomotionState", class: gateOnly, kind: enum, values: []value{{"stationary", locomotionStationary}, {"seated", locomotionSeated}, {"walking", locomotionWalking}, {"in_vehicle", locomotionInVehicle}}},
	comfortVectionRisk: {name: "comfortVectionRisk", class: gateOnly, kind: enum, values: []value{{"low", noFact}, {"med", vectionMed}, {"high", vectionHigh}}},
	lightingState:      {name: "lightingState", class: measurement, kind: enum, values: []value{{"ok", noFact}, {"too_dark", lightingTooDark}, {"too_bright", lightingTooBright}}},
	visibilityState:    {name: "visibilityState", class: measurement, kind: enum, values: []value{{"visible", noFact}, {"blurred", visibilityBlurred}, {"hidden", visibilityHidden}}},

	spatialAnchorPersistent: {name: "spatialAnchorPersistent", class: space, kind: boolean, values: trueFalse(anchorPersistentTrue, noFact)},
	geoAnchored:             {name: "geoAnchored", class: space, kind: boolean, values: trueFalse(noFact, noFact)},
	occlusionResolved:       {name: "occlusionResolved", class: space, kind: boolean, values: trueFalse(occlusionResolvedTrue, noFact)},
	fovPresence:             {name: "fovPresence", class: measurement, kind: boolean, values: trueFalse(noFact, fovPresenceFalse)},
	gazeInView:              {name: "gazeInView", class: eye, kind: boolean, values: trueFalse(noFact, noFact), given: gazeGiven},
	dwellInViewMs:           {name: "dwellInViewMs", class: eye, kind: number, given: dwellInViewGiven},
	eyeTrackingConsent:      {name: "eyeTrackingConsent", class: measurement, kind: boolean, values: trueFalse(eyeConsentTrue, noFact)},
	spatialMappingConsent:   {name: "spatialMappingConsent", class: measurement, kind: boolean, values: trueFalse(mappingConsentTrue, mappingConsentFalse)},
	minorMode:               {name: "minorMode", class: gateOnly, kind: boolean, values: trueFalse(minorTrue, noFact)},
	bystanderCaptureRisk:    {name: "bystanderCaptureRisk", class: gateOnly, kind: enum, values: []value{{"none", noFact}, {"possible", bystanderPossible}}},

	linkState:            {name: "linkState", class: measurement, kind: enum, values: []value{{"acquired", linkAcquired}, {"degraded", noFact}, {"lost", linkLost}}},
	beamID:               {name: "beamId", class: networkPlace, kind: text},
	coverageCellID:       {name: "coverageCellId", class: networkPlace, kind: text},
	groundStationID:      {name: "groundStationId", class: measurement, kind: text},
	footprintRegion:      {name: "footprintRegion", class: measurement, kind: text},
	spectrumBand:         {name: "spectrumBand", class: measurement, kind: text},
	dopplerLocked:        {name: "dopplerLocked", class: measurement, kind: boolean, values: trueFalse(noFact, dopplerLockedFalse)},
	weatherAttenuationDb: {name: "weatherAttenuationDb", class: measurement, kind: number, min: -maxNumber, over: []threshold{{fact: deepFade, limit: deepFadeDb, above: true}}},
	licensedRegionMatch:  {name: "licensedRegionMatch", class: measurement, kind: boolean, values: trueFalse(noFact, licensedRegionFalse)},
	onboardProcessed:     {name: "onboardProcessed", class: measurement, kind: boolean, values: trueFalse(noFact, noFact)},

	viewable:        {name: "viewable", class: measurement, kind: boolean, values: trueFalse(noFact, viewableFalse)},
	completionState: {name: "completionState", class: measurement, kind: enum, values: []value{{"started", noFact}, {"first_quartile", noFact}, {"midpoint", noFact}, {"third_quartile", noFact}, {"complete", noFact}}},
	muted:           {name: "muted", class: measurement, kind: boolean, values: trueFalse(mutedTrue, noFact)},
	audible:         {name: "audible", class: measurement, kind: boolean, values: trueFalse(noFact, audibleFalse)},
	appState:        {name: "appState", class: measurement, kind: enum, values: []value{{"foreground", noFact}, {"background", appBackground}}},

	optOut:             {name: "optOut", class: extension, kind: boolean, values: trueFalse(optOutTrue, noFact), failSafe: true},
	optedOut:           {name: "optedOut", class: extension, kind: boolean, values: trueFalse(optedOutTrue, noFact), failSafe: true},
	guardianConsent:    {name: "guardianConsent", class: extension, kind: boolean, values: trueFalse(guardianConsentTrue, noFact)},
	profiled:           {name: "profiled", class: extension, kind: boolean, values: trueFalse(profiledTrue, noFact)},
	bvlos:              {name: "bvlos", class: extension, kind: boolean, values: trueFalse(bvlosDeclared, noFact)},
	neuralDataConsent:  {name: "neuralDataConsent", class: extension, kind: boolean, values: trueFalse(neuralConsentTrue, neuralConsentFalse)},
	deliveredSubstrate: {name: "substrate", class: extension, kind: enum, values: concreteSubstrates()},
}

// concreteSubstrates is every substrate but Any, in order, so that the place of
// a value is the Substrate itself.
func concreteSubstrates() []value {
	var values []value
	for _, name := range substrateNames[:Any] {
		values = append(values, value{name, noFact})
	}
	return values
}

// fieldNamed finds a field by its name in exact case.
var fieldNamed = func() map[string]field {
	m := make(map[string]field, fieldCount)
	for f := range fieldCount {
		m[fields[f].name] = f
	}
	return m
}()

// path is how violations and faults name a field.
func (f field) path() string { return "telemetry." + fields[f].name }

// fieldSet is a set of fields.
type fieldSet uint64

func (set fieldSet) has(f field) bool { return set&(1<<f) != 0 }

// ofClass is the fields of each class.
var ofClass = func() (sets [classCount]fieldSet) {
	for f := range fieldCount {
		sets[fields[f].class] |= 1 << f
	}
	return sets
}()

// meanings say what each field means.
var meanings = [fieldCount]string{
	speedMph:                "Speed of the vehicle, in miles per hour.",
	remoteIDActive:          "A drone's remote identification is on.",
	bvlosWaiverID:           "A drone's waiver for flight beyond visual line of sight.",
	voicePromptActive:       "A voice prompt or announcement is being played.",
	headsetWorn:             "Headset or glasses are actually worn.",
	immersionLevel:          "How much of the view is rendered.",
	passthroughActive:       "The viewer sees through to the room.",
	roomScaleBounded:        "The boundary of the play area is defined.",
	boundaryProximity:       "Where the viewer is, seen from the boundary.",
	locomotionState:         "Derived state of motion.",
	comfortVectionRisk:      "Derived risk of motion sickness.",
	lightingState:           "Estimate of the ambient light.",
	visibilityState:         "Visibility of the session; what is not visible is not billed.",
	spatialAnchorPersistent: "The anchor stays from session to session.",
	geoAnchored:             "The anchor is georeferenced.",
	occlusionResolved:       "Real things hide rendered ones behind them.",
	fovPresence:             "The content is inside the field of view.",
	gazeInView:              "Derived: it was looked at. Never raw gaze.",
	dwellInViewMs:           "Derived dwell of the eyes, in milliseconds.",
	eyeTrackingConsent:      "Explicit, revocable consent to eye tracking.",
	spatialMappingConsent:   "Explicit consent for the mapped space.",
	minorMode:               "The viewer is or may be a minor; rules are stricter.",
	bystanderCaptureRisk:    "Bystanders may be captured.",
	linkState:               "State of the downlink.",
	beamID:                  "The spot beam that serves.",
	coverageCellID:          "The coverage cell.",
	groundStationID:         "The gateway on the ground that serves.",
	footprintRegion:         "Code of the licensed footprint's region.",
	spectrumBand:            "The spectrum band.",
	dopplerLocked:           "Tracking lock is established.",
	weatherAttenuationDb:    "Attenuation by weather, in dB.",
	licensedRegionMatch:     "The serving cell is inside the right's licensed footprint; false refuses.",
	onboardProcessed:        "Processed in orbit.",
	viewable:                "Met the viewability bar: half of the pixels for 2 s of video or 1 s of display.",
	completionState:         "Progress of a video.",
	muted:                   "The player is muted.",
	audible:                 "Sound is actually audible.",
	appState:                "State of the host application.",

	optOut:             "The recipient has opted out of messages.",
	optedOut:           "The same as optOut.",
	guardianConsent:    "A minor's guardian has consented.",
	profiled:           "The delivery was chosen by a profile of the viewer.",
	bvlos:              "The drone flies beyond the visual line of sight.",
	neuralDataConsent:  "Explicit consent to the use of neural data.",
	deliveredSubstrate: "The substrate that it was delivered on. Under a right for ANY the rules of that substrate apply; any other right refuses another one.",
}
