package gate

// suppressions is the table of what is recorded but not billed. Its order is the
// order of the reasons.
var suppressions = []suppression{
	{ReasonConsentRequired, on(Neural), []term{
		{None: facts{neuralConsentTrue}}}, "Colorado HB24-1058, California SB 1223"},
	{ReasonNotVisible, everywhere, []term{
		{All: facts{visibilityBlurred}},
		{All: facts{visibilityHidden}}}, "WebXR visibilityState, screens that are off"},
	{ReasonAppBackground, inApp, []term{
		{All: facts{appBackground}}}, "OM SDK, state backgrounded"},
	// A worn display that is off the head shows nothing; one that is worn only for
	// immersion is looked at from outside until it reports an immersion level.
	{ReasonNotWorn, on(Glasses, ARContacts, Wearables, Neural, Gaming, Volumetric, HUD, Hologram, Any), []term{
		{All: facts{headsetWornFalse}, Only: on(Glasses, ARContacts, Wearables, Neural)},
		{All: facts{headsetWornFalse, immersionMixed}},
		{All: facts{headsetWornFalse, immersionProgressive}},
		{All: facts{headsetWornFalse, immersionFull}}}, "no opportunity to see"},
	{ReasonNotInFOV, visual, []term{
		{All: facts{fovPresenceFalse}}}, "MRC, share of pixels in view"},
	{ReasonNotViewable, visual, []term{
		{All: facts{viewableFalse}}}, "MRC, IAB in-game measurement, OOH likelihood to see"},
	{ReasonNotAudible, on(Audio), []term{
		{All: facts{mutedTrue}, NotAny: true},
		{All: facts{audibleFalse}, NotAny: true}}, "MRC Digital Audio v1.0"},
	{ReasonZeroDwell, everywhere.except(Messaging, Satellite), []term{
		{All: facts{dwellZero}}}, "nothing was shown"},
	{ReasonBelowAudibleBar, on(Audio), []term{
		{All: facts{dwellUnderAudible}, None: facts{dwellZero}, NotAny: true}}, "MRC audible ad impression: 2 continuous seconds"},
	{ReasonLinkLost, everywhere.except(Satellite), []term{
		{All: facts{linkLost}}}, "what was cached may have been played unobserved"},
	{ReasonLinkUnreliable, on(Satellite, Any), []term{
		{All: facts{dopplerLockedFalse}},
		{All: facts{deepFade}, None: facts{linkAcquired}}}, "ITU-R P.618: 20 dB is a deep fade in the Ku and Ka bands"},
	{ReasonLightingUnusable, on(Glasses, ARContacts, Volumetric, Hologram, Any), []term{
		{All: facts{lightingTooDark}},
		{All: facts{lightingTooBright}}}, "ARCore, INSUFFICIENT_LIGHT"},
	// At the edge of the play area the system's own overlay lies on top.
	{ReasonBoundaryWarning, immersive.and(Any), []term{
		{All: facts{boundaryNearEdge}, None: facts{passthroughTrue, immersionMixed}},
		{All: facts{boundaryNearEdge, passthroughFalse}},
		{All: facts{boundaryNearEdge, immersionFull}}}, "Meta boundary: the system's overlay lies on top"},
	{ReasonSpeedUnknown, on(Automotive), []term{
		{None: facts{speedGiven}}}, "evidence of safety is missing; see AUTOMOTIVE_SPEED_EXCEEDED"},
}
