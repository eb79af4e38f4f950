package gate

// suppressions is the table of what is recorded but not billed. Its order is the
// order of the reasons.
var suppressions = []suppression{
	{ReasonConsentRequired, on(Neural), []term{
		{None: facts{neuralConsentTrue}}}},
	{ReasonNotVisible, everywhere, []term{
		{All: facts{visibilityBlurred}},
		{All: facts{visibilityHidden}}}},
	{ReasonAppBackground, inApp, []term{
		{All: facts{appBackground}}}},
	// A worn display that is off the head shows nothing; one that is worn only for
	// immersion is looked at from outside until it reports an immersion level.
	{ReasonNotWorn, on(Glasses, ARContacts, Wearables, Neural, Gaming, Volumetric, HUD, Hologram, Any), []term{
		{All: facts{headsetWornFalse}, Only: on(Glasses, ARContacts, Wearables, Neural)},
		{All: facts{headsetWornFalse, immersionMixed}},
		{All: facts{headsetWornFalse, immersionProgressive}},
		{All: facts{headsetWornFalse, immersionFull}}}},
	{ReasonNotInFOV, visual, []term{
		{All: facts{fovPresenceFalse}}}},
	{ReasonNotViewable, visual, []term{
		{All: facts{viewableFalse}}}},
	{ReasonNotAudible, on(Audio), []term{
		{All: facts{mutedTrue}, NotAny: true},
		{All: facts{audibleFalse}, NotAny: true}}},
	{ReasonZeroDwell, everywhere.except(Messaging, Satellite), []term{
		{All: facts{dwellZero}}}},
	{ReasonBelowAudibleBar, on(Audio), []term{
		{All: facts{dwellUnderAudible}, None: facts{dwellZero}, NotAny: true}}},
	{ReasonLinkLost, everywhere.except(Satellite), []term{
		{All: facts{linkLost}}}},
	{ReasonLinkUnreliable, on(Satellite, Any), []term{
		{All: facts{dopplerLockedFalse}},
		{All: facts{deepFade}, None: facts{linkAcquired}}}},
	{ReasonLightingUnusable, on(Glasses, ARContacts, Volumetric, Hologram, Any), []term{
		{All: facts{lightingTooDark}},
		{All: facts{lightingTooBright}}}},
	// At the edge of the play area the system's own overlay lies on top.
	{ReasonBoundaryWarning, immersive.and(Any), []term{
		{All: facts{boundaryNearEdge}, None: facts{passthroughTrue, immersionMixed}},
		{All: facts{boundaryNearEdge, passthroughFalse}},
		{All: facts{boundaryNearEdge, immersionFull}}}},
	{ReasonSpeedUnknown, on(Automotive), []term{
		{None: facts{speedGiven}}}},
}
