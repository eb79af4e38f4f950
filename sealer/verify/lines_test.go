package verify

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"
)

// TestLineEnds are read the same wherever a read ends: lines are as long as what is read at once, and longer and shorter by one.
func TestLineEnds(t *testing.T) {
	const buffer = 1 << 16
	for _, ends := range []string{"", "\n", "\r\n", "\n\r\n\n", "\r", "\n\r", "\r\r\n"} {
		for length := buffer - 5; length <= buffer+3; length++ {
			text := "muniment/" + strings.Repeat("a", length-9) + "\ra\r\nb\n\n\r\n\rc" + ends
			want := strings.TrimRight(strings.ReplaceAll(text, "\r\n", "\n"), "\n") + "\n"
			for name, in := range map[string]io.Reader{"whole": strings.NewReader(text), "halves": iotest.HalfReader(strings.NewReader(text)), "with the end": iotest.DataErrReader(strings.NewReader(text))} {
				got, err := io.ReadAll(&lineEnds{in: in})
				require.NoError(t, err)
				require.True(t, want == string(got), "%s: %d bytes, and %q", name, length, ends)
			}
		}
	}
	for text, want := range map[string]string{
		"{\"ok\":true}\r\n\n": `{"ok":true}`, `{"checkpoint":"muniment/`: "{\"checkpoint\":\"muniment/\n", "{\"after\":[\r\n": "{\"after\":[\n", `{"adjustments":[],`: "{\"adjustments\":[],\n",
	} {
		got, err := io.ReadAll(iotest.OneByteReader(&lineEnds{in: iotest.OneByteReader(strings.NewReader(text))}))
		require.NoError(t, err)
		require.Equal(t, want, string(got))
	}
	_, err := io.ReadAll(&lineEnds{in: io.MultiReader(bytes.NewReader([]byte("muniment/")), iotest.ErrReader(io.ErrClosedPipe))})
	require.ErrorIs(t, err, io.ErrClosedPipe)
}
