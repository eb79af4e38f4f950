package checkpoint

import (
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/sealer/merkle"
)

// FuzzOpen: only the note that was signed opens.
func FuzzOpen(f *testing.F) {
	key := testKey("pack")
	c := Checkpoint{oneLog, 7, merkle.LeafHash(nil), epoch}
	good, err := Sign(c, key)
	require.NoError(f, err)
	f.Add(good)
	f.Fuzz(func(t *testing.T, text string) {
		got, err := Open(text, c.Origin, pub(key))
		if err == nil {
			require.Equal(t, c, got, "nothing else was ever signed")
		}
	})
}
