package gate

import (
	"fmt"
	"strconv"
)

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
	add(dwellZero, fieldCount, "dwellMs=0", "dwellMs is 0")
	add(dwellUnderAudible, fieldCount, fmt.Sprintf("dwellMs<%d", audibleBarMs), fmt.Sprintf("dwellMs is below %d", audibleBarMs))
	return of
}
