package api

import (
	"reflect"
	"strings"
	"unicode/utf8"
)

// Names are the known names of a body's members. On the hot path a member of another name is
// accepted and dropped, so a value whose name is misspelt would be lost without a word: Meant
// finds such a name.
type Names struct{ names, folded []string }

// The names of each body. A new member of a type is in them by itself.
var (
	// ObservationNames include those that a delivery is refused for.
	ObservationNames = namesOf[Observation]("playedAt", "renderedAt", "issuedAt")
	// RowNames include those that a row is refused for.
	RowNames         = namesOf[Row]("renderedAt", "issuedAt")
	IngestBatchNames = namesOf[IngestBatch]()
)

// maxCompared is the length of the longest name that is compared, in bytes: several times that of
// the longest known one.
const maxCompared = 64

// namesOf returns the names in the JSON of T, and more.
func namesOf[T any](more ...string) *Names {
	var names []string
	for i := range reflect.TypeFor[T]().NumField() {
		name, _, _ := strings.Cut(reflect.TypeFor[T]().Field(i).Tag.Get("json"), ",")
		names = append(names, name)
	}
	return NewNames(append(names, more...)...)
}

// NewNames returns a set of known names, in ASCII.
func NewNames(names ...string) *Names {
	n := &Names{names: names}
	for _, name := range names {
		n.folded = append(n.folded, string(fold(nil, []byte(name))))
	}
	return n
}

// All returns the names.
func (n *Names) All() []string { return n.names }

// Meant returns the known name that an unknown one stands for: they are the same without regard
// to case, "_" and "-", but for one character that was inserted, left out or replaced, or two
// neighbours that were swapped. It returns "" if there is none. It allocates nothing.
func (n *Names) Meant(unknown []byte) string {
	if len(unknown) > maxCompared {
		return ""
	}
	var space [maxCompared]byte
	folded := fold(space[:0], unknown)
	for i, known := range n.folded {
		if string(folded) == known {
			return n.names[i]
		}
	}
	for i, known := range n.folded {
		if oneEdit(folded, known) {
			return n.names[i]
		}
	}
	return ""
}

// Misspelt is the message of a fault whose field stands for a known name.
func Misspelt(meant string) string { return "is unknown: did you mean " + meant + "?" }

// fold appends a name in lower case, without "_" and "-".
func fold(dst, name []byte) []byte {
	for _, c := range name {
		switch {
		case c == '_' || c == '-':
		case c >= 'A' && c <= 'Z':
			dst = append(dst, c+'a'-'A')
		default:
			dst = append(dst, c)
		}
	}
	return dst
}

// oneEdit reports whether a name is a known one, which is ASCII, or one edit away from it.
func oneEdit(name []byte, known string) bool {
	if len(name) < len(known)-1 || len(name) > len(known)+utf8.UTFMax {
		return false
	}
	for len(name) > 0 && known != "" && name[0] == known[0] {
		name, known = name[1:], known[1:]
	}
	for len(name) > 0 && known != "" && name[len(name)-1] == known[len(known)-1] {
		name, known = name[:len(name)-1], known[:len(known)-1]
	}
	switch len(known) {
	case 0, 1: // inserted, left out, replaced
		return utf8.RuneCount(name) <= 1
	case 2:
		return len(name) == 2 && name[0] == known[1] && name[1] == known[0]
	}
	return false
}
