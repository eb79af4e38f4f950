package gate

import (
	"fmt"
	"math/bits"
	"strconv"
)

// fact is one yes-or-no reading that some row of a table uses. A boolean field
// has a fact for true and one for false, so that neither means absent; an
// enumeration has one for each value that a row names; a number has one for each
// threshold. What no row uses has none.
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
// row uses, which spares the decoder a branch.
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

// reading is one way in which a fact is read off.
type reading struct {
	field field  // fieldCount where it is of no field: of the dwell, or of the right alone
	name  string // in the ruleset's text: "linkState=lost"
	words string // for people: "linkState is lost"
}

// readings are the ways of each fact, in the order of the fields.
func readings() (of [factCount][]reading) {
	add := func(f fact, from field, name, words string) {
		if f != noFact {
			of[f] = append(of[f], reading{from, name, words})
		}
	}
	for f := range fieldCount {
		s := &fields[f]
		add(s.given, f, s.name, s.name+" is given"+map[bool]string{true: " and not blank"}[s.kind == text])
		for i, v := range s.values {
			words := s.name + " is " + v.text
			if s.failSafe && i == yes {
				words = s.name + " is given, and neither false nor null"
			}
			add(v.fact, f, s.name+"="+v.text, words)
		}
		for _, o := range s.over {
			limit := strconv.FormatFloat(o.limit, 'f', -1, 64)
			if o.above {
				add(o.fact, f, s.name+">"+limit, s.name+" is above "+limit)
			} else {
				add(o.fact, f, s.name+">="+limit, s.name+" is "+limit+" or more")
			}
		}
	}
	add(bvlosDeclared, fieldCount, "right.bvlos", "the right's scope.bvlos is true")
	add(regionUnlicensed, footprintRegion, "footprintRegion-not-in-right.regions", "footprintRegion is none of the right's scope.regions")
	add(otherSubstrate, deliveredSubstrate, "substrate-not-of-right", "substrate is another than the right's")
	add(speedOverCap, speedMph, fmt.Sprintf("speedMph>right.maxSpeedMph<%d", drivingMph), fmt.Sprintf("speedMph is above the right's scope.maxSpeedMph, which is below %d", drivingMph))
	add(dwellZero, fieldCount, fmt.Sprintf("dwellMs<%g", shownMs), fmt.Sprintf("dwellMs is below %g", shownMs))
	add(dwellUnderAudible, fieldCount, fmt.Sprintf("dwellMs<%d", audibleBarMs), fmt.Sprintf("dwellMs is below %d", audibleBarMs))
	return of
}
