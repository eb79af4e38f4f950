package gate

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// randomFacts draws fact sets of every density, contradictions included.
func randomFacts(visit func(stated factSet)) {
	const draws = 60_000
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range draws {
		stated := factSet(rng.Uint64())
		for range i % 4 {
			stated &= factSet(rng.Uint64())
		}
		visit(stated & (1<<factCount - 1))
	}
}

// Minor mode only adds: what refuses or suppresses an adult's delivery does so
// for a minor, and each addition is marked as such.
func TestMinorModeOnlyAdds(t *testing.T) {
	randomFacts(func(stated factSet) {
		adult := stated &^ (1 << minorTrue)
		for s := range Substrate(Substrates) {
			without, minorOnly := compiled.run(s, adult)
			if minorOnly != 0 {
				t.Fatalf("%s %x: tightened without minor mode", s, adult)
			}
			with, tightened := compiled.run(s, adult|1<<minorTrue)
			if with&^without != tightened || without&^with != 0 {
				t.Fatalf("%s %x: %x of an adult, %x of a minor, of it tightened %x", s, adult, without, with, tightened)
			}
		}
	})
}

// The licence rule has no way round it.
func TestUnlicensedIsRefusedEverywhere(t *testing.T) {
	licence := rowNamed(t, "LICENSED_REGION_MISMATCH")
	randomFacts(func(stated factSet) {
		for s := range Substrate(Substrates) {
			for _, f := range []fact{licensedRegionFalse, regionUnlicensed} {
				if all, _ := compiled.run(s, stated|1<<f); all&licence == 0 {
					t.Fatalf("%s %x is not refused", s, stated)
				}
			}
		}
	})
}

// A right for ANY is no way round a rule: whatever a concrete substrate holds
// against a delivery on explicit evidence, ANY does too.
func TestAnyIsAsStrictAsEverySubstrate(t *testing.T) {
	explicit := compile(explicitTerms())
	randomFacts(func(stated factSet) {
		any, _ := compiled.run(Any, stated)
		for s := range Any {
			if one, _ := explicit.run(s, stated); one&^any != 0 {
				t.Fatalf("%x: %s holds %x against it, ANY %x", stated, s, one, any)
			}
		}
	})
}

// explicitTerms is the tables with the terms of explicit evidence only, which for
// a concrete substrate of a row with Only are those that hold on ANY too.
func explicitTerms() ([]rule, []suppression) {
	var refusing []rule
	for _, r := range rules {
		r.Terms = explicitOf(r.Terms)
		refusing = append(refusing, r)
	}
	var suppressing []suppression
	for _, s := range suppressions {
		s.Terms = explicitOf(s.Terms)
		suppressing = append(suppressing, s)
	}
	return refusing, suppressing
}

func explicitOf(terms []term) (explicit []term) {
	for _, t := range terms {
		if len(t.All) > 0 && !t.NotAny && t.Only == 0 {
			explicit = append(explicit, t)
		}
	}
	return explicit
}

// The compiled program says what the tables say when they are read one by one.
func TestCompiledAgreesWithTheTables(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for range 20_000 {
		stated := factSet(rng.Uint64()&rng.Uint64()) & (1<<factCount - 1)
		s := Substrate(rng.IntN(Substrates))
		all, _ := compiled.run(s, stated)
		for i := range rules {
			require.Equal(t, anyHolds(rules[i].On, rules[i].Terms, s, stated), all&(1<<i) != 0)
		}
		for i := range suppressions {
			require.Equal(t, anyHolds(suppressions[i].On, suppressions[i].Terms, s, stated), all&(1<<(suppressShift+i)) != 0)
		}
	}
}

func anyHolds(set surfaces, terms []term, s Substrate, stated factSet) bool {
	for i := range terms {
		if terms[i].visible(set, s) && terms[i].holds(stated) {
			return true
		}
	}
	return false
}

func TestThresholdsAreExact(t *testing.T) {
	for _, c := range []struct {
		on      Substrate
		field   string
		x       float64
		refused bool
		reason  Reason
	}{
		{Automotive, "speedMph", math.Nextafter(5, 0), false, ReasonMetered},
		{Automotive, "speedMph", 5, true, ReasonGateRefused},
		{HUD, "speedMph", 0, false, ReasonMetered},
		{HUD, "speedMph", math.SmallestNonzeroFloat64, true, ReasonGateRefused},
		{Satellite, "weatherAttenuationDb", 20, false, ReasonMetered},
		{Satellite, "weatherAttenuationDb", math.Nextafter(20, 21), false, ReasonLinkUnreliable},
	} {
		tel := mustDecode(t, fmt.Sprintf(`{%q:%v}`, c.field, c.x))
		v := Evaluate(&Right{Substrate: c.on}, tel, 4200)
		require.Equal(t, c.refused, v.Refused(), "%s %s %v", c.on, c.field, c.x)
		require.Equal(t, c.reason, v.Meter(tel, 4200).Reason, "%s %s %v", c.on, c.field, c.x)
	}
	for _, c := range []struct {
		on      Substrate
		dwellMs float64
		reason  Reason
	}{
		{Audio, 2000, ReasonMetered},
		{Audio, math.Nextafter(2000, 0), ReasonBelowAudibleBar},
		{Audio, 0.5, ReasonBelowAudibleBar},
		{Audio, math.Nextafter(0.5, 0), ReasonZeroDwell},
		{Audio, 0, ReasonZeroDwell},
		{DOOH, 0.5, ReasonMetered},
		{DOOH, math.Nextafter(0.5, 0), ReasonZeroDwell},
		{DOOH, 0, ReasonZeroDwell},
		{DOOH, math.NaN(), ReasonZeroDwell},
		{Messaging, 0, ReasonMetered},
	} {
		tel := new(Telemetry)
		v := Evaluate(&Right{Substrate: c.on}, tel, c.dwellMs)
		require.Equal(t, c.reason, v.Meter(tel, c.dwellMs).Reason, "%s %v", c.on, c.dwellMs)
	}
}
