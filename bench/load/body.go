package load

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"muniment.example/gate"
)

// bodySize is that of a typical delivery: identifiers, a dozen telemetry fields
// and what a player's software adds of its own.
const bodySize = 630

// Bodies draws n bodies of bodySize bytes that the gate lets pass, by the
// profiles' weights, on the given rights (by substrate). The same seed gives the
// same bodies.
func Bodies(n int, seed uint64, rights map[string]string) ([][]byte, error) {
	profiles := Profiles()
	gates := map[string]gate.Right{}
	for _, p := range profiles {
		substrate, ok := gate.ParseSubstrate(p.Substrate)
		if !ok {
			return nil, fmt.Errorf("%q is not a substrate", p.Substrate)
		}
		scope, err := json.Marshal(p.Scope)
		if err != nil {
			return nil, err
		}
		if gates[p.Substrate], err = gate.ParseRight(substrate, scope); err != nil {
			return nil, err
		}
	}
	// The gate refuses about one in ten.
	deliveries, err := Deliveries(2*n, seed, profiles, rights)
	if err != nil {
		return nil, err
	}
	bodies := make([][]byte, 0, n)
	for _, d := range deliveries {
		right := gates[d.Substrate]
		passes, err := passes(&right, d.Body)
		if err != nil {
			return nil, err
		}
		if !passes {
			continue
		}
		body, err := fill(d.Body)
		if err != nil {
			return nil, err
		}
		if bodies = append(bodies, body); len(bodies) == n {
			return bodies, nil
		}
	}
	return nil, errors.New("too few deliveries pass the gate")
}

// passes says whether the gate lets a body pass.
func passes(right *gate.Right, body []byte) (bool, error) {
	var d struct {
		DwellMs   float64
		Telemetry json.RawMessage
	}
	if err := json.Unmarshal(body, &d); err != nil {
		return false, err
	}
	var t gate.Telemetry
	faults, err := t.Decode(jsontext.NewDecoder(bytes.NewReader(d.Telemetry)), nil)
	if err != nil || len(faults) > 0 {
		return false, fmt.Errorf("cannot read telemetry %s: %v %w", d.Telemetry, faults, err)
	}
	return !gate.Evaluate(right, &t, d.DwellMs).Refused(), nil
}

// fill brings a body to bodySize with fields that the contract doesn't name, as
// players send them.
func fill(body []byte) ([]byte, error) {
	const player = `,"player":{"os":"linux-6.1","uptimeS":86231,"temperatureC":41.5,"storageFree":0.62,"playlist":["spring-a","spring-b","filler"],"trace":"`
	const end = `"}}`
	left := bodySize - (len(body) - 1) - len(player) - len(end)
	if left < 0 {
		return nil, fmt.Errorf("a body of %d bytes is too long", len(body))
	}
	trace := strings.Repeat("7c0f9a526f0e4a549d0c3a3e5b0c9f11", left/32+1)[:left]
	return append(append(append(body[:len(body)-1:len(body)-1], player...), trace...), end...), nil
}

// DistinctBodies is how many different deliveries are sent, again and again.
const DistinctBodies = 2000

// BodySeed makes every run send the same.
const BodySeed = 1

// AnyRights names rights for servers that don't look at them.
func AnyRights() map[string]string {
	rights := map[string]string{}
	for _, p := range Profiles() {
		rights[p.Substrate] = "rgh_01KAJ000000000000000000001"
	}
	return rights
}
