package verify

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestEveryKindHasAName: the report says what each file is.
func TestEveryKindHasAName(t *testing.T) {
	for _, k := range kinds {
		require.NotEmpty(t, (&FileReport{Kind: k.kind}).describe(), k.kind)
	}
	require.NotEmpty(t, (&FileReport{Kind: kindReceipt}).describe())
}
