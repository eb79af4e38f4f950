package route

import (
	"slices"
	"strings"
)

// Nearest returns the known name with the least edit distance to name, in lower case. The time
// grows with the product of the names' lengths.
func Nearest(name string, known ...string) string {
	return slices.MinFunc(known, func(a, b string) int { return Edits(name, a) - Edits(name, b) })
}

// Edits is the Levenshtein distance of two names in lower case, in bytes.
func Edits(a, b string) int {
	a, b = strings.ToLower(a), strings.ToLower(b)
	row := make([]int, len(b)+1) // of the distances from a's beginning to b's
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replaced := diagonal
			if a[i] != b[j] {
				replaced++
			}
			diagonal = row[j+1]
			row[j+1] = min(replaced, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

// maxCompared is the longest name that Instead compares: no known one is longer.
const maxCompared = 64

// Instead ends the message about a name that is unknown: by the known name that was meant, as far as
// that can be said, or by all of them.
func Instead(name string, known []string) string {
	if len(known) == 0 {
		return ": there is none here"
	}
	if len(name) <= maxCompared {
		if near := Nearest(name, known...); Edits(name, near) <= max(1, len(near)/3) {
			return ": did you mean " + near + "?"
		}
	}
	return ": known are " + strings.Join(known, ", ")
}
