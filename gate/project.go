package gate

import (
	"slices"
	"strings"
)

// keeping is the table of the consent projection: when the fields of a class may
// be kept. A class without a row is never kept.
var keeping = []struct {
	class class
	when  term
}{
	{measurement, term{}},
	{networkPlace, term{None: facts{minorTrue}}},
	{eye, term{All: facts{eyeConsentTrue}, None: facts{minorTrue}}},
	{space, term{All: facts{mappingConsentTrue}, None: facts{minorTrue, bystanderPossible}}},
}

// kept is the given fields that may be kept.
func (t *Telemetry) kept() (keep fieldSet) {
	for i := range keeping {
		if k := &keeping[i]; k.when.holds(t.stated) {
			keep |= ofClass[k.class]
		}
	}
	return keep & t.given
}

// AppendProjection appends what may be kept of the observation as an RFC 8785
// object: "{}" when that is nothing. Minor mode, gate-only and additional fields
// are never in it. A dropped field leaves no null, which would still show that it
// was sent. It does not allocate when dst has the capacity.
func (t *Telemetry) AppendProjection(dst []byte) []byte {
	keep := t.kept()
	dst = append(dst, '{')
	sep := ""
	for _, f := range byName {
		if keep.has(f) {
			dst = append(dst, sep...)
			dst = append(dst, '"')
			dst = append(dst, fields[f].name...)
			dst = append(dst, `":`...)
			dst = t.appendValue(dst, f)
			sep = ","
		}
	}
	return append(dst, '}')
}

// byName is the fields that can be kept, in RFC 8785 order: names are ASCII, so
// the order of bytes is that of UTF-16 units.
var byName = func() []field {
	var list []field
	for f := range fieldCount {
		if c := fields[f].class; c != gateOnly && c != extension {
			list = append(list, f)
		}
	}
	slices.SortFunc(list, func(a, b field) int { return strings.Compare(fields[a].name, fields[b].name) })
	return list
}()
