package terminal

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestText(t *testing.T) {
	for text, want := range map[string]string{
		"ppk_01 – grün 日本語 🙂":                   "ppk_01 – grün 日本語 🙂",
		"x\n  ok    signature.ok\nSound.":       `x\u000a  ok    signature.ok\u000aSound.`,
		"\x1b[8mhidden\r\t\u0085\u2028\u202e":   `\u001b[8mhidden\u000d\u0009\u0085\u2028\u202e`,
		"\U000e0001 \xff\u009b2J \ufffd \u0080": `\udb40\udc01 \ufffd\u009b2J � \u0080`,
	} {
		require.Equal(t, want, Text(text))
	}
}

// Arguments are escaped as they are printed, whatever they are; the format is not.
func TestSprintf(t *testing.T) {
	require.Equal(t, "a\\u000ab  7| x\\u001b|\n", Sprintf("%s %2d|%3s|\n", errors.New("a\nb"), 7, "x\x1b"))
	require.Equal(t, `"a\nb"`, Sprintf("%q", "a\nb"))
}

// JSON says the same behind a Writer.
func TestWriter(t *testing.T) {
	text := "a\nb\x1b\u009b\u202e\U000e0001\x7f 🙂"
	written, err := json.Marshal(map[string]string{text: text})
	require.NoError(t, err)
	var out strings.Builder
	n, err := Writer(&out).Write(append(written, '\n'))
	require.NoError(t, err)
	require.Equal(t, len(written)+1, n)
	require.Equal(t, Text(strings.TrimSuffix(out.String(), "\n"))+"\n", out.String(), "nothing is left that a screen obeys")
	var read map[string]string
	require.NoError(t, json.Unmarshal([]byte(out.String()), &read))
	require.Equal(t, map[string]string{text: text}, read)
}
