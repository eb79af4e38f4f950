package gate

import "slices"

// Verdict is the gate's answer to one delivery: which rules refuse it, which of
// them only because of minor mode, and what keeps it from being billed.
type Verdict struct {
	// Substrate is the effective one: the right's, or for a right for ANY the
	// concrete one that the delivery names.
	Substrate Substrate

	stated    factSet
	all       outcome
	minorOnly outcome
}

// Refused says that the delivery gets no receipt.
func (v Verdict) Refused() bool { return v.all.refusals() != 0 }

// Evaluate puts one delivery of dwellMs milliseconds under the rules. It is the
// whole decision: the same input has the same answer, always.
func Evaluate(r *Right, t *Telemetry, dwellMs float64) Verdict {
	v := Verdict{Substrate: r.Substrate, stated: t.stated}
	if s, named := t.delivered(); named && s != r.Substrate {
		if r.Substrate == Any {
			v.Substrate = s
		} else {
			v.stated |= 1 << otherSubstrate
		}
	}
	v.stated |= context(r, t, dwellMs)
	v.all, v.minorOnly = compiled.run(v.Substrate, v.stated)
	return v
}

// context is the facts that the delivery has only beside its right and its dwell.
func context(r *Right, t *Telemetry, dwellMs float64) (stated factSet) {
	if r.Regions != nil && t.given.has(footprintRegion) && !r.licenses(t.textOf(footprintRegion)) {
		stated |= 1 << regionUnlicensed
	}
	// A cap at or above drivingMph has nothing to add to the gate's own line.
	if r.HasMaxSpeed && r.MaxSpeedMph < drivingMph && t.given.has(speedMph) && t.number[speedMph] > r.MaxSpeedMph {
		stated |= 1 << speedOverCap
	}
	if r.BVLOS {
		stated |= 1 << bvlosDeclared
	}
	if !(dwellMs >= shownMs) {
		stated |= 1 << dwellZero
	}
	if dwellMs < audibleBarMs {
		stated |= 1 << dwellUnderAudible
	}
	return stated
}

func (r *Right) licenses(region []byte) bool {
	return slices.ContainsFunc(r.Regions, func(licensed string) bool { return licensed == string(region) })
}
