package right

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"muniment.example/control/route"
	"muniment.example/gate"
	"muniment.example/gateway/api"
	"muniment.example/sealer/canonical"
)

// The bounds of a scope: bytes of its canonical form, and of its labels. maxCampaign is characters, as many as a
// settlement rule may match.
const (
	maxScope      = 16 << 10
	maxCampaign   = 256
	maxLabels     = 32
	maxLabelName  = 64
	maxLabelValue = 256
)

var (
	// lists are the keys of a scope that hold lists of strings.
	lists = []string{"regions", "channels", "campaigns"}
	// free are the keys that limit nothing.
	free = []string{"description"}
	// known are all keys but the callers' own, which begin with ownPrefix.
	known = slices.Concat(lists, []string{"maxSpeedMph", "bvlos", "labels"}, free)
)

const ownPrefix = "x-"

// readScope reads a scope in any form that is accepted: an object, a string, which is kept as its
// description, or null or nothing, which name no limit. Known keys must have their type; the
// caller's own may hold anything. Any other key is refused, and the error names the nearest known
// key, so that a misspelt limit is not ignored. Regions are kept in capitals.
func readScope(substrate string, text json.RawMessage) (scope map[string]json.RawMessage, faults []api.ValidationError) {
	var whole any
	if len(text) > 0 && json.Unmarshal(text, &whole) != nil {
		return nil, []api.ValidationError{{Field: "scope", Message: "is not valid JSON"}}
	}
	scope = map[string]json.RawMessage{}
	switch whole.(type) {
	case nil:
		return scope, nil
	case string:
		scope["description"] = text
		return scope, nil
	case map[string]any:
		_ = json.Unmarshal(text, &scope) // it is an object
	default:
		return nil, errNoScope.ValidationErrors
	}
	for _, key := range slices.Sorted(maps.Keys(scope)) {
		if message := refuseKey(key, scope[key]); message != "" {
			faults = append(faults, api.ValidationError{Field: "scope." + clip(key), Message: message})
		}
	}
	if len(faults) > 0 {
		return nil, faults
	}
	s, _ := gate.ParseSubstrate(substrate)
	if _, err := gate.ParseRight(s, text); err != nil { // the gate decides what it accepts
		return nil, []api.ValidationError{{Field: "scope", Message: err.Error()}}
	}
	if list := scope["regions"]; list != nil {
		scope["regions"] = regions(list)
	}
	for key, value := range scope {
		// Values are compared by their canonical bytes.
		if scope[key], faults = canonicalText(value); len(faults) > 0 {
			return nil, faults
		}
	}
	return scope, nil
}

var errNoScope = api.InvalidField("scope", "must be an object or a string")

// refuseKey returns what is wrong with one member of a scope, or an empty text.
func refuseKey(key string, value json.RawMessage) (message string) {
	switch {
	case slices.Contains(lists, key):
		if !isStrings(value) {
			return "must be an array of strings"
		}
		if key == "regions" && slices.Contains(stringsOf(regions(value)), "") {
			return "must be an array of regions, none of them empty"
		}
		if key == "campaigns" && slices.ContainsFunc(stringsOf(value), func(c string) bool { return utf8.RuneCountInString(c) > maxCampaign }) {
			return fmt.Sprintf("must be an array of campaigns of at most %d characters", maxCampaign)
		}
	case key == "maxSpeedMph":
		var f *float64
		if json.Unmarshal(value, &f) != nil || f == nil || *f < 0 {
			return fmt.Sprintf("must be a number, 0 or more, and not %.40s", value)
		}
	case key == "bvlos":
		if string(value) != "true" && string(value) != "false" {
			return "must be a boolean"
		}
	case key == "description":
		if value[0] != '"' {
			return "must be a string"
		}
	case key == "labels":
		return refuseLabels(value)
	case !strings.HasPrefix(key, ownPrefix) || key == ownPrefix:
		return fmt.Sprintf("is not a key of a scope, the nearest is %q; keys of your own begin with %q", route.Nearest(clip(key), known...), ownPrefix)
	}
	return ""
}

// regions writes a list of regions as they are compared: in capitals, without space around them, each
// once.
func regions(list json.RawMessage) json.RawMessage {
	var as []string
	for _, region := range stringsOf(list) {
		if region = strings.ToUpper(strings.TrimSpace(region)); !slices.Contains(as, region) {
			as = append(as, region)
		}
	}
	if as == nil {
		as = []string{}
	}
	text, _ := json.Marshal(as) // never fails
	return text
}

func refuseLabels(value json.RawMessage) (message string) {
	var labels map[string]*string
	if value[0] != '{' || json.Unmarshal(value, &labels) != nil {
		return "must be an object of strings"
	}
	if len(labels) > maxLabels {
		return fmt.Sprintf("has more than %d labels", maxLabels)
	}
	for name, value := range labels {
		switch {
		case value == nil:
			return "must be an object of strings"
		case name == "" || len(name) > maxLabelName || len(*value) > maxLabelValue:
			return fmt.Sprintf("must have names of 1 to %d bytes and values of at most %d", maxLabelName, maxLabelValue)
		}
	}
	return ""
}

// stringsOf reads what is known to be a list of strings.
func stringsOf(list json.RawMessage) (read []string) {
	_ = json.Unmarshal(list, &read)
	return read
}

func isStrings(text json.RawMessage) bool {
	var list []*string
	if text[0] != '[' || json.Unmarshal(text, &list) != nil {
		return false
	}
	return !slices.Contains(list, nil)
}

// maxClip is the most bytes of a caller's key that a response repeats.
const maxClip = 64

func clip(key string) string {
	if len(key) > maxClip {
		return strings.ToValidUTF8(key[:maxClip], "") + "…"
	}
	return key
}

// canonicalText is the RFC 8785 text of (a part of) a scope.
func canonicalText(v any) (json.RawMessage, []api.ValidationError) {
	if text, ok := v.(json.RawMessage); ok {
		v = []byte(text)
	}
	text, err := canonical.JSON(v)
	if err != nil {
		return nil, []api.ValidationError{{Field: "scope", Message: err.Error()}}
	}
	if len(text) > maxScope {
		return nil, []api.ValidationError{{Field: "scope", Message: fmt.Sprintf("is longer than %d bytes, inherited limits included", maxScope)}}
	}
	return text, nil
}

// RequestedScope returns the RFC 8785 text of a scope in a request; VALIDATION_FAILED if it is neither
// an object, a string nor null, or too long. Call it before a change begins: a body may be much longer
// than a scope, and reading it within the change delays all other changes.
func RequestedScope(text json.RawMessage) (json.RawMessage, error) {
	if len(text) == 0 {
		return nil, nil
	}
	requested, faults := canonicalText(text)
	if len(faults) > 0 {
		return nil, api.Invalid(faults...)
	}
	if !bytes.ContainsAny(requested[:1], `{"n`) {
		return nil, errNoScope
	}
	return requested, nil
}
