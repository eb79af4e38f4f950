package gate

import "slices"

// kept is the fields that may be kept: measurements always, network places
// unless of a minor, the rest by its own consent. A dropped field leaves no null:
// that would still tell that it was sent.
func (t *Telemetry) kept() fieldSet {
	keep := ofClass[measurement]
	if !t.stated.has(minorTrue) {
		keep |= ofClass[networkPlace]
		if t.isTrue(eyeTrackingConsent) {
			keep |= ofClass[eye]
		}
		if t.isTrue(spatialMappingConsent) && !t.stated.has(bystanderPossible) {
			keep |= ofClass[space]
		}
	}
	return keep & t.given
}

// AppendProjection appends what may be kept of the observation as an RFC 8785
// object: "{}" when that is nothing. Minor mode, gate-only and additional fields
// are never in it. It does not allocate when dst has room.
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
	slices.SortFunc(list, func(a, b field) int {
		if fields[a].name < fields[b].name {
			return -1
		}
		return 1
	})
	return list
}()
