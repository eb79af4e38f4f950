package api_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/gateway/api"
	"muniment.example/gateway/issue/issuetest"
)

// bodies are the names of each body.
var bodies = map[string]*api.Names{"delivery": api.ObservationNames, "row": api.RowNames, "batch": api.IngestBatchNames}

// TestEveryMisspellingIsFound: a known name in any other case means that name, and so does each
// that is one edit away.
func TestEveryMisspellingIsFound(t *testing.T) {
	for body, names := range bodies {
		for _, known := range names.All() {
			for name := range issuetest.Cases(known) {
				if got := names.Meant([]byte(name)); got != known {
					t.Fatalf("%s: %q means %q, not %s", body, name, got, known)
				}
			}
			for name := range issuetest.Misspellings(known) {
				got := names.Meant([]byte(name))
				between := strings.HasPrefix(name, "vendor") && got == "vendor" || // vendord, for vendorId
					got != "" && strings.TrimSuffix(got, "s") == strings.TrimSuffix(known, "s") // dataSubjectIdx, for either
				if got != known && !between {
					t.Fatalf("%s: %q means %q, not %s", body, name, got, known)
				}
			}
		}
	}
}

// TestOtherNamesAreNoMisspellings: two edits are another name, as a synonym is, and a name that is
// longer than any known one is not compared.
func TestOtherNamesAreNoMisspellings(t *testing.T) {
	for _, name := range []string{
		"", "x", "_", "id", "right", "rightIdXy", "xrightIdx", "ghtId", "irhgtId", "rihtgId", "rightId\u00e9\u00e9", "duration", "durationMs", "placementId", "subject", "dwell", "playTime",
		strings.Repeat("_", 64) + "rightId", "rightId" + strings.Repeat("x", 1<<16),
	} {
		for body, names := range bodies {
			require.Empty(t, names.Meant([]byte(name)), "%s: %q", body, name)
		}
	}
	require.Equal(t, "rightId", api.RowNames.Meant([]byte(strings.Repeat("_", 64-len("rightId"))+"rightId")))
	require.Empty(t, api.ObservationNames.Meant([]byte("vendor_id")), "a delivery has no such name")
	require.Empty(t, api.IngestBatchNames.Meant([]byte("right_id")))
}

func TestComparingAllocatesNothing(t *testing.T) {
	for _, name := range []string{"impressions", "spatial_placement_ID", strings.Repeat("x", 1000)} {
		name := []byte(name)
		require.Zero(t, testing.AllocsPerRun(100, func() { api.RowNames.Meant(name) }), string(name))
	}
}

func BenchmarkMeant(b *testing.B) {
	for _, name := range []string{"a", "impressions", "spatialPlacementRef"} {
		b.Run(fmt.Sprint(len(name)), func(b *testing.B) {
			name := []byte(name)
			for b.Loop() {
				api.RowNames.Meant(name)
			}
		})
	}
}
