package gate

import "math/bits"

// fact is one yes-or-no reading that some row of a table asks for. A boolean
// field has a fact for true and one for false, so that neither means absent; an
// enumeration has one for each value a row names; a number has one for each
// threshold. What no row asks for has none.
type fact uint8

const (
	noFact fact = iota

	// What the delivery says, by field: field.go ties these to values.
	licensedRegionFalse
	remoteIDTrue
	remoteIDFalse
	waiverGiven // not blank
	voicePromptTrue
	headsetWornFalse
	immersionMixed
	immersionProgressive
	immersionFull
	passthroughTrue
	passthroughFalse
	roomBoundedFalse
	boundaryNearEdge
	boundaryOutside
	locomotionStationary
	locomotionSeated
	locomotionWalking
	locomotionInVehicle
	vectionMed
	vectionHigh
	lightingTooDark
	lightingTooBright
	visibilityBlurred
	visibilityHidden
	anchorPersistentTrue
	occlusionResolvedTrue
	fovPresenceFalse
	gazeGiven        // whatever it says
	dwellInViewGiven // whatever it says
	eyeConsentTrue
	mappingConsentTrue
	mappingConsentFalse
	minorTrue
	bystanderPossible
	linkAcquired
	linkLost
	dopplerLockedFalse
	deepFade // weatherAttenuationDb above deepFadeDb
	viewableFalse
	mutedTrue
	audibleFalse
	appBackground
	speedGiven
	speedAboveZero
	drivingSpeed // speedMph at or above drivingMph
	optOutTrue   // neither false nor null
	optedOutTrue // neither false nor null
	guardianConsentTrue
	profiledTrue
	bvlosDeclared // by the delivery or by the right
	neuralConsentTrue
	neuralConsentFalse

	// What the delivery means beside the right and the dwell: context in
	// evaluate.go ties these.
	regionUnlicensed  // footprintRegion is given and the right's regions lack it
	otherSubstrate    // the delivery names a concrete substrate, the right another
	speedOverCap      // above the right's own cap, which is below drivingMph
	dwellZero         // nothing was shown
	dwellUnderAudible // below audibleBarMs

	factCount
)

// factSet holds facts; the zero set states nothing. noFact takes a bit that no
// row asks for, which spares the decoder a branch.
type factSet uint64

func setOf(list []fact) factSet {
	var set factSet
	for _, f := range list {
		set |= 1 << f
	}
	return set
}

func (set factSet) has(f fact) bool { return set&(1<<f) != 0 }

// list is the facts of set in order.
func (set factSet) list() []fact {
	var facts []fact
	for ; set != 0; set &= set - 1 {
		facts = append(facts, fact(bits.TrailingZeros64(uint64(set))))
	}
	return facts
}
