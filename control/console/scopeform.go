package console

import (
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// scopeFields are the limits of a scope as a form. What else a scope may have is in the last one, as JSON.
func scopeFields() []field {
	const several = " With commas between them."
	return []field{
		{Name: "scope.regions", Label: "Only in the regions", Example: "DE, US-NY", Hint: "None: everywhere. Codes of ISO 3166: DE for a country, US-NY for a part of one, such as DE-BE for Berlin; codes of your own go into the last field." + several},
		{Name: "scope.campaigns", Label: "Only for the campaigns", Example: "spring", Hint: "None: all." + several},
		{Name: "scope.channels", Label: "Only on the channels", Example: "dooh", Hint: "None: all." + several},
		{Name: "scope.maxSpeedMph", Label: "Only up to the speed, in mph", Example: "5", Hint: "None: what the gate's rules allow."},
		{Name: "scope.bvlos", Label: "Drones fly beyond the line of sight", Kind: "select", Options: []string{"yes", "no"}, Names: map[string]string{"yes": "yes: each play has to name its waiver", "no": "no: a play that says so itself has to name its waiver"}},
		{Name: "scope.labels", Label: "Labels", Kind: "area", Example: "venue = central-station", Hint: "One a line, with the name before the sign. Rules of settlement can match them."},
		{Name: "scope.description", Label: "In words", Hint: "What the right is called in lists. It limits nothing."},
		{Name: "scope", Label: "More of the scope, as JSON", Kind: "json", Hint: "Members of your own, which begin with x-, and what the fields above don't take. What a derived right does not name it inherits."},
	}
}

// withScope makes the member scope of what scopeFields say.
func withScope(_ *page, members map[string]any) (any, error) {
	scope := map[string]json.RawMessage{}
	if more, given := members["scope"].(json.RawMessage); given {
		if err := json.Unmarshal(more, &scope); err != nil || scope == nil {
			return nil, invalid("scope", "must be a JSON object, such as {\"x-contract\":\"7\"}")
		}
	}
	for name, value := range members {
		key, of := strings.CutPrefix(name, "scope.")
		if !of {
			continue
		}
		delete(members, name)
		if _, twice := scope[key]; twice {
			return nil, invalid(name, "is in the last field, too: write all of it in one of them")
		}
		made, err := limit(key, value.(string))
		if err != nil {
			return nil, err
		}
		scope[key] = made
	}
	members["scope"] = scope
	return members, nil
}

// limit is a member of a scope, as the API takes it.
func limit(key, text string) (json.RawMessage, error) {
	var value any = text
	switch key {
	case "regions", "campaigns", "channels":
		list := []string{}
		for part := range strings.SplitSeq(text, ",") {
			if part = strings.TrimSpace(part); part != "" {
				list = append(list, part)
			}
		}
		if key == "regions" {
			for _, region := range list {
				if !isRegion(region) {
					return nil, invalid("scope."+key, "has “"+region+"”, which is no code of ISO 3166: write DE for a country, or US-NY for a part of one. Codes of your own go into the last field: {\"regions\":[\"US-CONUS\"]}")
				}
			}
		}
		value = list
	case "maxSpeedMph":
		if !json.Valid([]byte(text)) {
			return nil, invalid("scope."+key, "must be a number, such as 5 or 7.5")
		}
		return json.RawMessage(text), nil
	case "bvlos":
		value = text == "yes"
	case "labels":
		labels := map[string]string{}
		for line := range strings.Lines(text) {
			name, of, found := strings.Cut(line, "=")
			if name = strings.TrimSpace(name); name == "" && !found {
				continue
			}
			if !found || name == "" {
				return nil, invalid("scope."+key, "each line must be a name and a value, such as venue = central-station")
			}
			labels[name] = strings.TrimSpace(of)
		}
		value = labels
	}
	return json.Marshal(value)
}

// countries are the codes of ISO 3166-1.
const countries = "AD AE AF AG AI AL AM AO AQ AR AS AT AU AW AX AZ BA BB BD BE BF BG BH BI BJ BL BM BN BO BQ BR BS BT BV BW BY BZ CA CC CD CF CG CH CI CK CL CM CN CO CR " +
	"CU CV CW CX CY CZ DE DJ DK DM DO DZ EC EE EG EH ER ES ET FI FJ FK FM FO FR GA GB GD GE GF GG GH GI GL GM GN GP GQ GR GS GT GU GW GY HK HM HN HR HT HU " +
	"ID IE IL IM IN IO IQ IR IS IT JE JM JO JP KE KG KH KI KM KN KP KR KW KY KZ LA LB LC LI LK LR LS LT LU LV LY MA MC MD ME MF MG MH MK ML MM MN MO MP MQ " +
	"MR MS MT MU MV MW MX MY MZ NA NC NE NF NG NI NL NO NP NR NU NZ OM PA PE PF PG PH PK PL PM PN PR PS PT PW PY QA RE RO RS RU RW SA SB SC SD SE SG SH SI " +
	"SJ SK SL SM SN SO SR SS ST SV SX SY SZ TC TD TF TG TH TJ TK TL TM TN TO TR TT TV TW TZ UA UG UM US UY UZ VA VC VE VG VI VN VU WF WS YE YT ZA ZM ZW"

var region = regexp.MustCompile(`^[A-Z]{2}(-[A-Z0-9]{1,3})?$`)

// isRegion reports whether a text is a code of ISO 3166: of a country, or, by its form, of a part of one. A right keeps what
// it is given for good, and matches no play by a misspelt region.
func isRegion(text string) bool {
	text = strings.ToUpper(text)
	return region.MatchString(text) && slices.Contains(strings.Fields(countries), text[:2])
}

// inLine reports whether a field of one line keeps a text as it is.
func inLine(text string) bool {
	return strings.TrimSpace(text) == text && !strings.ContainsAny(text, "\n\r")
}

// filledScope are the fields of a scope as the form has them: withScope makes the same scope of them.
func filledScope(fields []field, scope json.RawMessage) []field {
	var members map[string]json.RawMessage
	if json.Unmarshal(scope, &members) != nil {
		return fields
	}
	values := map[string]string{}
	for key, text := range members {
		switch key {
		case "regions", "campaigns", "channels":
			var list []string
			plain := json.Unmarshal(text, &list) == nil && !slices.ContainsFunc(list, func(one string) bool {
				return strings.Contains(one, ",") || !inLine(one) || one == "" || key == "regions" && !isRegion(one)
			})
			if !plain || len(list) == 0 {
				continue // as JSON, which keeps all
			}
			values["scope."+key] = strings.Join(list, ", ")
		case "maxSpeedMph":
			values["scope."+key] = string(text)
		case "bvlos":
			values["scope."+key] = map[string]string{"true": "yes", "false": "no"}[string(text)]
		case "labels":
			var labels map[string]string
			if json.Unmarshal(text, &labels) != nil || slices.ContainsFunc(slices.Collect(maps.Keys(labels)), func(name string) bool {
				return name == "" || strings.Contains(name, "=") || !inLine(name) || !inLine(labels[name])
			}) {
				continue
			}
			var lines []string
			for _, name := range slices.Sorted(maps.Keys(labels)) {
				lines = append(lines, name+" = "+labels[name])
			}
			values["scope."+key] = strings.Join(lines, "\n")
		case "description":
			var said string
			if json.Unmarshal(text, &said) == nil && inLine(said) {
				values["scope."+key] = said
			}
		}
		if values["scope."+key] != "" {
			delete(members, key)
		}
	}
	if len(members) > 0 {
		rest, _ := json.Marshal(members) // they were read from JSON
		values["scope"] = string(rest)
	}
	for i := range fields {
		if value := values[fields[i].Name]; value != "" {
			fields[i].Value = value
		}
	}
	return fields
}
