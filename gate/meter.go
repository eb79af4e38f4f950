package gate

import (
	"fmt"
	"math/bits"
	"slices"
)

// Reason says why a delivery is billed or not. The zero Reason bills nothing.
type Reason uint8

// The reasons. Those of suppression stand in the order of their table.
const (
	ReasonGateRefused Reason = iota
	ReasonMetered

	ReasonConsentRequired
	ReasonNotVisible
	ReasonAppBackground
	ReasonNotWorn
	ReasonNotInFOV
	ReasonNotViewable
	ReasonNotAudible
	ReasonZeroDwell
	ReasonBelowAudibleBar
	ReasonLinkLost
	ReasonLinkUnreliable
	ReasonLightingUnusable
	ReasonBoundaryWarning
	ReasonSpeedUnknown

	reasonCount
	firstSuppression = ReasonConsentRequired
)

var reasonNames = [reasonCount]string{
	"GATE_REFUSED", "METERED",
	"CONSENT_REQUIRED", "NOT_VISIBLE", "APP_BACKGROUND", "NOT_WORN", "NOT_IN_FOV", "NOT_VIEWABLE", "NOT_AUDIBLE",
	"ZERO_DWELL", "BELOW_AUDIBLE_BAR", "LINK_LOST", "LINK_UNRELIABLE", "LIGHTING_UNUSABLE", "BOUNDARY_WARNING", "SPEED_UNKNOWN",
}

// String is the name on the wire, such as NOT_VISIBLE.
func (r Reason) String() string {
	if r < reasonCount {
		return reasonNames[r]
	}
	return fmt.Sprintf("Reason(%d)", uint8(r))
}

// Reasons is the set of all reasons for which a delivery is suppressed.
type Reasons uint16

// Strings lists the names of the set in the order of the table. It is never nil.
func (r Reasons) Strings() []string {
	names := make([]string, 0, bits.OnesCount16(uint16(r)))
	for ; r != 0; r &= r - 1 {
		names = append(names, r.first().String())
	}
	return names
}

// AppendJSON appends the names as a JSON array, without allocating.
func (r Reasons) AppendJSON(dst []byte) []byte {
	dst = append(dst, '[')
	for sep := ""; r != 0; r &= r - 1 {
		dst = append(dst, sep...)
		dst = append(dst, '"')
		dst = append(dst, r.first().String()...)
		dst = append(dst, '"')
		sep = ","
	}
	return append(dst, ']')
}

func (r Reasons) first() Reason {
	return firstSuppression + Reason(bits.TrailingZeros16(uint16(r)))
}

// Basis is the tier on which a delivery is billed; settlement prices tiers.
type Basis uint8

// The bases.
const (
	BasisNone      Basis = iota // not billed
	BasisGross                  // shown, with no claim that reached the bar of viewability
	BasisViewable               // viewable for long enough
	BasisAudible                // audible for long enough
	BasisDelivered              // delivered: there is no dwell to measure

	basisCount
)

var basisNames = [basisCount]string{"none", "gross", "viewable", "audible", "delivered"}

// String is the name on the wire.
func (b Basis) String() string {
	if b < basisCount {
		return basisNames[b]
	}
	return fmt.Sprintf("Basis(%d)", uint8(b))
}

// Completion is how far a video was played, as telemetry's completionState says.
type Completion uint8

// The completions.
const (
	CompletionNone Completion = iota // not stated
	CompletionStarted
	CompletionFirstQuartile
	CompletionMidpoint
	CompletionThirdQuartile
	CompletionComplete

	completionCount
)

var completionNames = [completionCount]string{"none", "started", "first_quartile", "midpoint", "third_quartile", "complete"}

// String is the name on the wire.
func (c Completion) String() string {
	if c < completionCount {
		return completionNames[c]
	}
	return fmt.Sprintf("Completion(%d)", uint8(c))
}

// ParseCompletion is the completion of a name.
func ParseCompletion(name string) (c Completion, ok bool) {
	i := slices.Index(completionNames[:], name)
	return Completion(max(i, 0)), i >= 0
}

// Metering is what a delivery counts for.
type Metering struct {
	Metered bool
	Reason  Reason  // METERED, GATE_REFUSED, or the first of Reasons
	Reasons Reasons // every suppression; empty when metered, and when refused
	Basis   Basis
	// Completion is what was observed, billed or not; CompletionNone when refused.
	Completion Completion
	// QuantityMs is what is billed: the whole milliseconds of dwell when metered,
	// else 0.
	QuantityMs int64
	// AttentionMs is the whole milliseconds that the content was looked at, at most
	// the dwell; −1 unless the viewer consented to eye tracking and it was reported.
	// It is personal data: it may stand in the private part of a record only.
	AttentionMs int64
}

// Meter says what a delivery counts for. t and dwellMs are those that were
// evaluated. A claim of viewability below the bar of dwell is billed as gross, not
// refused: a player may measure the creative where this is one observation.
func (v Verdict) Meter(t *Telemetry, dwellMs float64) Metering {
	if v.Refused() {
		return Metering{Reason: ReasonGateRefused, AttentionMs: -1}
	}
	m := Metering{Reasons: v.all.suppressed(), Completion: t.completion(), AttentionMs: t.attention(dwellMs)}
	if m.Reasons != 0 {
		m.Reason = m.Reasons.first()
		return m
	}
	m.Metered, m.Reason, m.Basis, m.QuantityMs = true, ReasonMetered, v.basis(t, dwellMs), wholeMs(dwellMs)
	return m
}

func (v Verdict) basis(t *Telemetry, dwellMs float64) Basis {
	switch v.Substrate {
	case Audio:
		return BasisAudible
	case Messaging, Satellite:
		return BasisDelivered
	}
	bar := float64(displayBarMs)
	if t.given.has(completionState) {
		bar = videoBarMs
	}
	if t.isTrue(viewable) && dwellMs >= bar {
		return BasisViewable
	}
	return BasisGross
}

// completion is that of the table's values, which stand in its order behind CompletionNone.
func (t *Telemetry) completion() Completion {
	if !t.kept().has(completionState) {
		return CompletionNone
	}
	return CompletionStarted + Completion(t.choice[completionState])
}

func (t *Telemetry) attention(dwellMs float64) int64 {
	if !t.kept().has(dwellInViewMs) {
		return -1
	}
	return wholeMs(min(t.number[dwellInViewMs], dwellMs))
}

func wholeMs(ms float64) int64 {
	if !(ms > 0) {
		return 0
	}
	return int64(min(ms, maxNumber))
}
