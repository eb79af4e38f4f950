package gate

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// Right is what a decision needs to know of a right. It is not changed once
// made, and so may be shared.
type Right struct {
	Substrate Substrate
	// Regions are the licensed footprint regions, compared exactly. Nil is no
	// limit; an empty list licenses none.
	Regions []string
	// MaxSpeedMph is the right's own speed cap, in force when HasMaxSpeed. A cap
	// that is laxer than the gate's own line has no effect.
	MaxSpeedMph float64
	HasMaxSpeed bool
	// BVLOS says that flights under the right go beyond the visual line of sight.
	BVLOS bool
}

// ParseRight reads the limits out of a right's scope: a JSON object of which
// regions (strings), maxSpeedMph (a number from 0) and bvlos (a boolean) are
// understood and all else is ignored. A scope that is a string, null or empty
// sets no limit. A limit of the wrong type is an error that names the key: a
// limit that can't be read must not pass for none.
func ParseRight(s Substrate, scope []byte) (Right, error) {
	r := Right{Substrate: s}
	if s >= Substrates {
		return Right{}, fmt.Errorf("%v is not a substrate", s)
	}
	if len(bytes.TrimSpace(scope)) == 0 {
		return r, nil
	}
	d := jsontext.NewDecoder(bytes.NewReader(scope))
	if err := r.readScope(d); err != nil {
		return Right{}, fmt.Errorf("cannot read scope: %w", err)
	}
	if _, err := d.ReadToken(); err != io.EOF {
		return Right{}, errors.New("cannot read scope: more than one JSON value")
	}
	return r, nil
}

func (r *Right) readScope(d *jsontext.Decoder) error {
	switch d.PeekKind() {
	case jsontext.KindString, jsontext.KindNull:
		return d.SkipValue()
	case jsontext.KindBeginObject:
	default:
		if err := d.SkipValue(); err != nil {
			return err
		}
		return errors.New("scope must be an object or a string")
	}
	if _, err := d.ReadToken(); err != nil {
		return err
	}
	for d.PeekKind() != jsontext.KindEndObject {
		key, err := d.ReadToken()
		if err != nil {
			return err
		}
		if err := r.readLimit(key.String(), d); err != nil {
			return err
		}
	}
	_, err := d.ReadToken()
	return err
}

func (r *Right) readLimit(key string, d *jsontext.Decoder) error {
	raw, err := d.ReadValue()
	if err != nil {
		return err
	}
	switch key {
	case "regions":
		var ok bool
		if r.Regions, ok = parseRegions(raw); !ok {
			return errors.New("regions must be an array of strings")
		}
	case "maxSpeedMph":
		x, err := strconv.ParseFloat(string(raw), 64)
		if raw.Kind() != jsontext.KindNumber || err != nil || x < 0 {
			return errors.New("maxSpeedMph must be a number, 0 or more")
		}
		r.MaxSpeedMph, r.HasMaxSpeed = x, true
	case "bvlos":
		if raw.Kind() != jsontext.KindTrue && raw.Kind() != jsontext.KindFalse {
			return errors.New("bvlos must be a boolean")
		}
		r.BVLOS = raw.Kind() == jsontext.KindTrue
	}
	return nil
}

// parseRegions reads an array of strings, and no other JSON value.
func parseRegions(raw jsontext.Value) (regions []string, ok bool) {
	if raw.Kind() != jsontext.KindBeginArray {
		return nil, false
	}
	d := jsontext.NewDecoder(bytes.NewReader(raw))
	if _, err := d.ReadToken(); err != nil {
		return nil, false
	}
	regions = []string{}
	for d.PeekKind() == jsontext.KindString {
		region, err := d.ReadToken()
		if err != nil {
			return nil, false
		}
		regions = append(regions, region.String())
	}
	return regions, d.PeekKind() == jsontext.KindEndArray
}
