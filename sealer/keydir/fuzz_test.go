package keydir_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/sealer/keydir"
	"muniment.example/sealer/sealertest"
)

// FuzzVerify: only the directory that was signed verifies.
func FuzzVerify(f *testing.F) {
	w := sealertest.NewWorld(f)
	good := w.Directory()
	f.Add(good)
	f.Fuzz(func(t *testing.T, text []byte) {
		if _, err := keydir.Verify(text, w.VKey); err == nil {
			require.Equal(t, string(good), string(text))
		}
	})
}
