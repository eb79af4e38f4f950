package right

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"muniment.example/control/store"
	"muniment.example/gate"
	"muniment.example/gateway/api"
	"muniment.example/sealer/canonical"
)

// The rule for derived rights. A derived right inherits the limits that its scope does not name. A
// limit that is wider than the parent's is refused, never reduced silently, so that the holder
// knows what they hold:
//
//	basis          the parent's
//	parent         ACTIVE, and so are its ancestors
//	substrate      the parent's; under ANY, each
//	window         within the parent's
//	regions        a subset of the parent's list, if that has one
//	channels       likewise
//	campaigns      likewise
//	maxSpeedMph    not above the parent's, if that has one
//	bvlos          true where the parent's is: it is the duty to hold a waiver
//	description    free: it limits nothing
//	labels         each of the parent's, with its value; more of them may be added
//	x-…            as the parent has it, since a limit that can't be read can't be
//	               compared; more of them may be added, since each can only limit
//
// Labels limit nothing, but settlement rules may match them: whoever could change one could have others paid.
//
// A right's scope never changes once it is issued, so what was inherited stays true.
//
// A chain of derivations has at most maxDepth ancestors.
const maxDepth = 32

// inherit adds the parent's limits, and each of its labels, that the scope child does not name.
func inherit(child, parent map[string]json.RawMessage) {
	for key, limit := range parent {
		mine, named := child[key]
		switch {
		case !named:
			child[key] = limit
		case key == "labels":
			all := labelsOf(limit)
			maps.Copy(all, labelsOf(mine))
			child[key], _ = json.Marshal(all) // strings alone
		}
	}
}

// narrower lists what makes the scope child, after inherit, wider than the scope parent.
func narrower(child, parent map[string]json.RawMessage) (faults []api.ValidationError) {
	refuse := func(key, format string, args ...any) {
		faults = append(faults, api.ValidationError{Field: "scope." + clip(key), Message: fmt.Sprintf(format, args...)})
	}
	for _, key := range slices.Sorted(maps.Keys(parent)) {
		limit, mine := parent[key], child[key]
		switch {
		case slices.Contains(free, key):
		case key == "labels":
			is := labelsOf(mine)
			all := labelsOf(limit)
			for _, name := range slices.Sorted(maps.Keys(all)) {
				if value, has := is[name]; !has || value != all[name] {
					refuse(key, "must have the parent right's %s, which is %q: labels may be added, but not changed", clip(name), clip(all[name]))
					break
				}
			}
			if message := refuseLabels(mine); message != "" {
				refuse(key, "%s, with those of the parent right", message)
			}
		case key == "bvlos" && string(limit) == "false":
		case slices.Contains(lists, key):
			if extra, found := beyond(mine, limit); found {
				refuse(key, "%q is not in the parent right's", extra)
			}
		case key == "maxSpeedMph":
			if number(mine) > number(limit) {
				refuse(key, "is above the parent right's %s", limit)
			}
		case string(mine) != string(limit):
			refuse(key, "must be as in the parent right: %s", limit)
		}
	}
	return faults
}

// labelsOf reads what is known to be an object of strings.
func labelsOf(text json.RawMessage) map[string]string {
	labels := map[string]string{}
	_ = json.Unmarshal(text, &labels)
	return labels
}

// beyond finds a string of one list that another lacks. Both are known to be lists of
// strings.
func beyond(list, limit json.RawMessage) (extra string, found bool) {
	var some, all []string
	_, _ = json.Unmarshal(list, &some), json.Unmarshal(limit, &all)
	has := make(map[string]bool, len(all))
	for _, s := range all {
		has[s] = true
	}
	for _, s := range some {
		if !has[s] {
			return s, true
		}
	}
	return "", false
}

// number reads what is known to be a number.
func number(text json.RawMessage) (f float64) {
	_ = json.Unmarshal(text, &f)
	return f
}

// within lists the ends of the right's window that are outside of [from, until); a zero end is
// open.
func (r *Right) within(whose string, from, until store.Instant) (faults []api.ValidationError) {
	if !from.IsZero() && r.EffectiveFrom.Before(from.Time) {
		faults = append(faults, api.ValidationError{Field: "effectiveFrom", Message: fmt.Sprintf("is before the beginning of the %s (%s)", whose, canonical.FormatTime(from.Time))})
	}
	if !until.IsZero() && (r.EffectiveUntil.IsZero() || r.EffectiveUntil.After(until.Time)) {
		faults = append(faults, api.ValidationError{Field: "effectiveUntil", Message: fmt.Sprintf("is after the end of the %s (%s)", whose, canonical.FormatTime(until.Time))})
	}
	return faults
}

// covers reports whether a right on the child's substrate may be derived from one on the parent's.
func covers(parent, child string) bool {
	return parent == child || parent == gate.Any.String()
}
