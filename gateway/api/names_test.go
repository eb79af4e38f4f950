package api

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// bodies are the names of each body.
var bodies = map[string]*Names{"delivery": ObservationNames, "row": RowNames, "batch": IngestBatchNames}

// TestEveryMisspellingIsFound: all ways to write a known name in other case, and all that are one
// edit away from it, over a small alphabet, mean that name.
func TestEveryMisspellingIsFound(t *testing.T) {
	const alphabet = "aIz_-0 .\"\u00e9\u0406\U0001F600"
	for body, names := range bodies {
		for _, known := range names.All() {
			meant := func(name string) {
				got := names.Meant([]byte(name))
				if between := strings.HasPrefix(name, "vendor") && got == "vendor"; got != known && !between { // vendord, for vendorId
					t.Fatalf("%s: %q means %q, not %s", body, name, got, known)
				}
			}
			for cases := range 1 << len(known) {
				name := []byte(strings.ToLower(known))
				for i := range name {
					if cases>>i&1 == 1 {
						name[i] -= 'a' - 'A'
					}
				}
				meant(string(name))
			}
			for i := range len(known) + 1 {
				for _, c := range alphabet {
					meant(known[:i] + string(c) + known[i:])
				}
				if i == len(known) {
					break
				}
				meant(known[:i] + known[i+1:])
				for _, c := range alphabet {
					meant(known[:i] + string(c) + known[i+1:])
				}
				if i+1 < len(known) {
					meant(known[:i] + known[i+1:i+2] + known[i:i+1] + known[i+2:])
				}
			}
			for _, separator := range []string{"_", "-", "__"} {
				snake := ""
				for _, c := range known {
					if c >= 'A' && c <= 'Z' {
						snake += separator
					}
					snake += strings.ToLower(string(c))
				}
				meant(snake)
				meant(strings.ToUpper(snake))
				meant(snake + separator)
			}
		}
	}
}

// TestOtherNamesAreNoMisspellings: two edits are another name, as a synonym is, and a name that is
// longer than any known one is not compared.
func TestOtherNamesAreNoMisspellings(t *testing.T) {
	for _, name := range []string{
		"", "x", "_", "id", "right", "rightIdXy", "xrightIdx", "ghtId", "irhgtId", "rihtgId", "rightId\u00e9\u00e9", "duration", "durationMs", "placementId", "subject", "dwell", "playTime",
		strings.Repeat("_", maxCompared) + "rightId", "rightId" + strings.Repeat("x", 1<<16),
	} {
		for body, names := range bodies {
			require.Empty(t, names.Meant([]byte(name)), "%s: %q", body, name)
		}
	}
	require.Equal(t, "rightId", RowNames.Meant([]byte(strings.Repeat("_", maxCompared-len("rightId"))+"rightId")))
	require.Empty(t, ObservationNames.Meant([]byte("vendor_id")), "a delivery has no such name")
	require.Empty(t, IngestBatchNames.Meant([]byte("right_id")))
}

func TestComparingAllocatesNothing(t *testing.T) {
	for _, name := range []string{"impressions", "spatial_placement_ID", strings.Repeat("x", 1000)} {
		name := []byte(name)
		require.Zero(t, testing.AllocsPerRun(100, func() { RowNames.Meant(name) }), string(name))
	}
}

func BenchmarkMeant(b *testing.B) {
	for _, name := range []string{"a", "impressions", "spatialPlacementRef"} {
		b.Run(fmt.Sprint(len(name)), func(b *testing.B) {
			name := []byte(name)
			for b.Loop() {
				RowNames.Meant(name)
			}
		})
	}
}
