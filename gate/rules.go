package gate

// rules is the table of refusals. Its order is the order in which violations are
// reported. All facts of a term must hold and none of its None; a rule fires
// when one of its terms does. A term with minorTrue is a stricter rule for
// minors.
var rules = []rule{{
	Code: "LICENSED_REGION_MISMATCH", ID: "licensed-region-mismatch", On: everywhere,
	Terms: []term{
		{All: facts{regionUnlicensed}, Detail: &detail{Field: footprintRegion, Required: "a region of the right", Message: "serving cell is outside the right's licensed footprint ({observed})"}},
		{All: facts{licensedRegionFalse}},
	},
	Fields:    []field{licensedRegionMatch, footprintRegion},
	Required:  "true",
	Message:   "serving cell is outside the right's licensed footprint",
	Reference: "ITU RR 18.1, 47 CFR 25.102",
	Example:   `{"licensedRegionMatch":false}`,
}, {
	Code: "SUBSTRATE_NOT_COVERED", ID: "substrate-not-covered", On: concrete,
	Terms:     []term{{All: facts{otherSubstrate}, NotAny: true}},
	Fields:    []field{deliveredSubstrate},
	Required:  "{right}",
	Message:   "right covers {right}, delivery was on {observed}",
	Reference: "a right carries one substrate",
	Example:   `{"substrate":"{other}"}`,
}, {
	Code: "MESSAGING_OPTED_OUT", ID: "messaging-optout", On: on(Messaging, Any),
	Terms: []term{
		{All: facts{optOutTrue}},
		{All: facts{optedOutTrue}, Detail: &detail{Field: optedOut}},
	},
	Fields:    []field{optOut, optedOut},
	Required:  "false",
	Message:   "recipient has opted out of messages under this right",
	Reference: "47 CFR 64.1200(a)(10)-(12), CTIA, CAN-SPAM",
	Example:   `{"optOut":true}`,
}, {
	Code: "MINOR_MESSAGING_CONSENT_REQUIRED", ID: "minor-messaging-consent", On: on(Messaging),
	Terms:     []term{{All: facts{minorTrue}, None: facts{guardianConsentTrue}, NotAny: true}},
	Fields:    []field{guardianConsent, minorMode},
	Required:  "true",
	Message:   "messages to a minor need guardian consent",
	Reference: "COPPA, carrier age gates",
	Example:   `{"minorMode":true}`,
}, {
	Code: "DRONE_REMOTE_ID_MISSING", ID: "drone-remote-id-missing", On: on(Drone, Any),
	Terms: []term{
		{None: facts{remoteIDTrue}},
		{All: facts{remoteIDFalse}},
	},
	Fields:    []field{remoteIDActive},
	Required:  "true",
	Message:   "remote identification is not confirmed active (observed: {observed})",
	Reference: "14 CFR 89.105, 89.110(a)",
	Example:   `{"remoteIdActive":false}`,
}, {
	Code: "DRONE_BVLOS_WAIVER_MISSING", ID: "drone-bvlos-waiver-missing", On: on(Drone, Any),
	Terms:     []term{{All: facts{bvlosDeclared}, None: facts{waiverGiven}}},
	Fields:    []field{bvlosWaiverID, bvlos},
	Required:  "a waiver id",
	Message:   "BVLOS operation without a waiver id",
	Reference: "14 CFR 107.31, 107.200, 107.205(c)",
	Example:   `{"bvlos":true,"bvlosWaiverId":null}`,
}, {
	// The 5 mph rule. The strictest line comes first, as the first term that
	// holds gives the limit.
	Code: "AUTOMOTIVE_SPEED_EXCEEDED", ID: "automotive-speed", On: on(Automotive, Any),
	Terms: []term{
		{All: facts{minorTrue, speedAboveZero}, NotAny: true, Detail: &detail{speedMph, "{limit}", "vehicle speed {observed} mph; visual renders for a minor need {limit} mph", &limit{Mph: 0}}},
		{All: facts{speedOverCap}, Detail: &detail{speedMph, "<= {limit}", "vehicle speed {observed} mph; visual renders under this right need <= {limit} mph", &limit{OfRight: true}}},
		{All: facts{drivingSpeed}, Detail: &detail{speedMph, "< {limit}", "vehicle speed {observed} mph; visual renders need < {limit} mph", &limit{Mph: drivingMph}}},
	},
	Fields:    []field{speedMph},
	Reference: "NHTSA 78 FR 24817, AAOS UX restrictions, ESoP",
	Example:   `{"speedMph":65}`,
}, {
	Code: "HUD_DRIVING_DISTRACTION", ID: "hud-driving-distraction", On: on(HUD),
	Terms: []term{
		{All: facts{speedAboveZero}, NotAny: true, Detail: &detail{speedMph, "{limit}", "non-driving content on a head-up display in a moving vehicle", &limit{Mph: 0}}},
		{All: facts{locomotionInVehicle}, None: facts{speedGiven}, NotAny: true},
	},
	Fields:    []field{speedMph, locomotionState},
	Required:  "0",
	Message:   "non-driving content on a head-up display in a vehicle of unknown speed",
	Reference: "UN R125.02",
	Example:   `{"speedMph":12}`,
}, {
	Code: "SATELLITE_LINK_LOST", ID: "satellite-link-lost", On: on(Satellite, Any),
	Terms:     []term{{All: facts{linkLost}}},
	Fields:    []field{linkState},
	Required:  "acquired or degraded",
	Message:   "downlink lost; the render cannot be witnessed",
	Reference: "integrity of the witness",
	Example:   `{"linkState":"lost"}`,
}, {
	Code: "VOICE_PROMPT_OVERLAP", ID: "voice-prompt-overlap", On: on(Audio, Ambient, SmartHome, Robotics, Any),
	Terms:     []term{{All: facts{voicePromptTrue}, None: facts{mutedTrue}}},
	Fields:    []field{voicePromptActive, muted},
	Required:  "false",
	Message:   "a voice prompt is active; content must not talk over it",
	Reference: "audio focus and ducking practice",
	Example:   `{"voicePromptActive":true}`,
}, {
	// Muted does not help: an announcement pre-empts screens too.
	Code: "PUBLIC_ADDRESS_ACTIVE", ID: "public-address-active", On: on(Aviation, Maritime),
	Terms:     []term{{All: facts{voicePromptTrue}, NotAny: true}},
	Fields:    []field{voicePromptActive},
	Required:  "false",
	Message:   "public-address announcement in progress",
	Reference: "public-address override of entertainment, SOLAS V/15",
	Example:   `{"voicePromptActive":true}`,
}, {
	Code: "XR_OCCLUDED_IN_MOTION", ID: "xr-occluded-in-motion", On: immersive.and(Any),
	Terms: []term{
		{All: facts{locomotionWalking, immersionFull}},
		{All: facts{locomotionWalking, passthroughFalse}},
		{All: facts{locomotionWalking, immersionProgressive, minorTrue}},
		{All: facts{locomotionInVehicle, immersionFull}},
		{All: facts{locomotionInVehicle, passthroughFalse}},
		{All: facts{locomotionInVehicle, immersionProgressive}, None: facts{passthroughTrue}},
		{All: facts{drivingSpeed, immersionFull}, Detail: occludedAtSpeed},
		{All: facts{drivingSpeed, passthroughFalse}, Detail: occludedAtSpeed},
		{All: facts{drivingSpeed, immersionProgressive}, None: facts{passthroughTrue}, Detail: occludedAtSpeed},
	},
	Fields:    []field{locomotionState, speedMph, immersionLevel, passthroughActive},
	Required:  "stationary or seated, or a see-through view",
	Message:   "occluded view while {observed}",
	Reference: "visionOS and Meta health and safety, NHTSA phase 2",
	Example:   `{"locomotionState":"walking","immersionLevel":"full"}`,
}, {
	Code: "XR_OUTSIDE_BOUNDARY", ID: "xr-outside-boundary", On: immersive.and(Any),
	Terms: []term{
		{All: facts{boundaryOutside}, None: facts{passthroughTrue, immersionMixed}},
		{All: facts{boundaryOutside, passthroughFalse}},
		{All: facts{boundaryOutside, immersionFull}},
		{All: facts{minorTrue, boundaryNearEdge}, None: facts{passthroughTrue, immersionMixed}, Detail: minorNearEdge},
		{All: facts{minorTrue, boundaryNearEdge, passthroughFalse}, Detail: minorNearEdge},
		{All: facts{minorTrue, boundaryNearEdge, immersionFull}, Detail: minorNearEdge},
	},
	Fields:    []field{boundaryProximity, passthroughActive, immersionLevel},
	Required:  "inside or near_edge, or a see-through view",
	Message:   "viewer outside the safe boundary without see-through",
	Reference: "Meta boundary",
	Example:   `{"locomotionState":"stationary","boundaryProximity":"outside","passthroughActive":false}`,
}, {
	Code: "XR_BOUNDARY_UNDEFINED", ID: "xr-boundary-undefined", On: immersive.and(Any),
	Terms:     []term{{All: facts{immersionFull, roomBoundedFalse}, None: facts{locomotionSeated, locomotionStationary}}},
	Fields:    []field{roomScaleBounded, immersionLevel, locomotionState},
	Required:  "true",
	Message:   "full immersion without a defined play area",
	Reference: "Meta health and safety",
	Example:   `{"locomotionState":null,"immersionLevel":"full","roomScaleBounded":false}`,
}, {
	Code: "XR_COMFORT_RISK", ID: "xr-comfort-risk", On: immersive.and(HUD, Any),
	Terms: []term{
		{All: facts{vectionHigh}},
		{All: facts{vectionMed, minorTrue}, Detail: &detail{Field: comfortVectionRisk, Required: "low"}},
	},
	Fields:    []field{comfortVectionRisk},
	Required:  "low or med",
	Message:   "motion-sickness risk {observed}",
	Reference: "comfort guidance",
	Example:   `{"comfortVectionRisk":"high"}`,
}, {
	Code: "MINOR_IMMERSION_RESTRICTED", ID: "minor-immersion", On: immersive.and(Any),
	Terms: []term{
		{All: facts{minorTrue, immersionFull}},
		{All: facts{minorTrue, immersionProgressive}, None: facts{passthroughTrue}},
	},
	Fields:    []field{immersionLevel, passthroughActive, minorMode},
	Required:  "mixed, or progressive with passthrough",
	Message:   "immersion {observed} is not allowed for a minor",
	Reference: "platform age rules",
	Example:   `{"minorMode":true,"gazeInView":null,"dwellInViewMs":null,"locomotionState":"seated","immersionLevel":"full"}`,
}, {
	// Any value counts, false and 0 too, and no consent flag helps.
	Code: "MINOR_EYE_TRACKING", ID: "minor-eye-tracking", On: everywhere,
	Terms: []term{
		{All: facts{minorTrue, gazeGiven}},
		{All: facts{minorTrue, dwellInViewGiven}, Detail: &detail{Field: dwellInViewMs}},
	},
	Fields:    []field{gazeInView, dwellInViewMs, minorMode},
	Required:  "absent",
	Message:   "eye-derived fields must not be sent for a minor",
	Reference: "COPPA 2025 biometrics, BIPA",
	Example:   `{"minorMode":true,"gazeInView":true}`,
}, {
	Code: "MINOR_PROFILED_DELIVERY", ID: "minor-profiled-delivery", On: everywhere,
	Terms:     []term{{All: facts{minorTrue, profiledTrue}}},
	Fields:    []field{profiled, minorMode},
	Required:  "false",
	Message:   "profiled delivery to a minor",
	Reference: "DSA 28(2), ICO code 12",
	Example:   `{"minorMode":true,"gazeInView":null,"dwellInViewMs":null,"profiled":true}`,
}, {
	Code: "MINOR_NEURAL_DELIVERY", ID: "minor-neural-delivery", On: on(Neural),
	Terms:     []term{{All: facts{minorTrue}, NotAny: true}},
	Fields:    []field{minorMode},
	Required:  "false",
	Message:   "neural delivery to a minor",
	Reference: "UNESCO 2025",
	Example:   `{"minorMode":true,"gazeInView":null,"dwellInViewMs":null}`,
}, {
	Code: "NEURAL_CONSENT_WITHHELD", ID: "neural-consent-withheld", On: on(Neural, Any),
	Terms:     []term{{All: facts{neuralConsentFalse}}},
	Fields:    []field{neuralDataConsent},
	Required:  "true",
	Message:   "neural-data consent withheld",
	Reference: "Colorado HB24-1058, California SB 1223",
	Example:   `{"neuralDataConsent":false}`,
}, {
	Code: "SPATIAL_MAPPING_CONSENT_REQUIRED", ID: "spatial-mapping-consent", On: spatial.and(Any),
	Terms: []term{
		{All: facts{mappingConsentFalse, anchorPersistentTrue}},
		{All: facts{mappingConsentFalse, occlusionResolvedTrue}},
		{All: facts{minorTrue, anchorPersistentTrue}, None: facts{mappingConsentTrue}},
	},
	Fields:    []field{spatialMappingConsent, spatialAnchorPersistent, occlusionResolved},
	Required:  "true",
	Message:   "mapped space used without consent",
	Reference: "GDPR 6 and 7, platform permission models",
	Example:   `{"spatialAnchorPersistent":true,"spatialMappingConsent":false}`,
}, {
	Code: "BYSTANDER_CAPTURE_RISK", ID: "bystander-capture-risk", On: camera.and(Any),
	Terms: []term{
		{All: facts{bystanderPossible, anchorPersistentTrue}, None: facts{mappingConsentTrue}},
		{All: facts{bystanderPossible, minorTrue}, Detail: &detail{Field: bystanderCaptureRisk, Required: "none", Message: "bystanders may be captured beside a minor"}},
	},
	Fields:    []field{bystanderCaptureRisk, spatialAnchorPersistent, spatialMappingConsent},
	Required:  "none, or spatialMappingConsent true",
	Message:   "bystanders may be captured into a persistent map",
	Reference: "Irish DPC and Garante on smart glasses",
	Example:   `{"bystanderCaptureRisk":"possible","spatialAnchorPersistent":true,"spatialMappingConsent":null}`,
}}

var (
	occludedAtSpeed = &detail{speedMph, "< {limit}, or a see-through view", "occluded view at {observed} mph", &limit{Mph: drivingMph}}
	minorNearEdge   = &detail{Field: boundaryProximity, Required: "inside, or a see-through view", Message: "a minor at the edge of the safe boundary without see-through"}
)
