package verify

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// What a file says can't become a line, or hide one, on the auditor's screen.
func TestShownIsOneVisibleLine(t *testing.T) {
	for text, want := range map[string]string{
		"ppk_01 – grün":                       "ppk_01 – grün",
		"x\n  ok    signature.ok\nSound.":     `x\n  ok    signature.ok\nSound.`,
		"\x1b[8mhidden\r\t\u0085\u2028\u202e": `\x1b[8mhidden\r\t\u0085\u2028\u202e`,
	} {
		require.Equal(t, want, shown(text))
	}
}

// TestEveryKindHasAName: the report says what each file is.
func TestEveryKindHasAName(t *testing.T) {
	for _, k := range kinds {
		require.NotEmpty(t, (&FileReport{Kind: k.kind}).describe(), k.kind)
	}
	require.NotEmpty(t, (&FileReport{Kind: kindReceipt}).describe())
}
