package console

import (
	"encoding/json"
	"strings"
)

// scopeFields are the limits of a scope as a form. What else a scope may have is in the last one, as JSON.
func scopeFields() []field {
	const several = " With commas between them."
	return []field{
		{Name: "scope.regions", Label: "Only in the regions", Example: "DE, US-NY", Hint: "None: everywhere." + several},
		{Name: "scope.campaigns", Label: "Only for the campaigns", Example: "spring", Hint: "None: all." + several},
		{Name: "scope.channels", Label: "Only on the channels", Example: "dooh", Hint: "None: all." + several},
		{Name: "scope.maxSpeedMph", Label: "Only up to the speed, in mph", Example: "5", Hint: "None: what the gate's rules allow."},
		{Name: "scope.bvlos", Label: "A drone beyond the line of sight", Kind: "select", Options: []string{"allowed", "not allowed"}},
		{Name: "scope.labels", Label: "Labels", Kind: "area", Example: "venue = central-station", Hint: "One a line, with the name before the sign. Rules of settlement can match them."},
		{Name: "scope.description", Label: "In words", Hint: "It limits nothing."},
		{Name: "scope", Label: "More of the scope, as JSON", Kind: "json", Hint: "Members of your own, which begin with x-. What a derived right does not name it inherits."},
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
		value = list
	case "maxSpeedMph":
		if !json.Valid([]byte(text)) {
			return nil, invalid("scope."+key, "must be a number, such as 5 or 7.5")
		}
		return json.RawMessage(text), nil
	case "bvlos":
		value = text == "allowed"
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
