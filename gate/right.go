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
		return Right{}, fmt.Errorf("%v is no substrate", s)
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
		if r.Regions, err = parseRegions(raw); err != nil {
			return errors.New("scope.regions must be an array of strings")
		}
	case "maxSpeedMph":
		x, err := strconv.ParseFloat(string(raw), 64)
		if raw.Kind() != jsontext.KindNumber || err != nil || x < 0 {
			return errors.New("scope.maxSpeedMph must be a number, 0 or more")
		}
		r.MaxSpeedMph, r.HasMaxSpeed = x, true
	case "bvlos":
		if raw.Kind() != jsontext.KindTrue && raw.Kind() != jsontext.KindFalse {
			return errors.New("scope.bvlos must be a boolean")
		}
		r.BVLOS = raw.Kind() == jsontext.KindTrue
	}
	return nil
}

var errNotRegions = errors.New("not an array of strings")

func parseRegions(raw jsontext.Value) ([]string, error) {
	if raw.Kind() != jsontext.KindBeginArray {
		return nil, errNotRegions
	}
	d := jsontext.NewDecoder(bytes.NewReader(raw))
	if _, err := d.ReadToken(); err != nil {
		return nil, err
	}
	regions := []string{}
	for d.PeekKind() != jsontext.KindEndArray {
		if d.PeekKind() != jsontext.KindString {
			return nil, errNotRegions
		}
		t, err := d.ReadToken()
		if err != nil {
			return nil, err
		}
		regions = append(regions, t.String())
	}
	return regions, nil
}
