package verify

import (
	"bytes"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"

	"muniment.example/sealer/pack"
	"muniment.example/sealer/sealertest"
)

func pressed(t *testing.T, text []byte, opts ...zstd.EOption) []byte {
	t.Helper()
	w, err := zstd.NewWriter(nil, opts...)
	require.NoError(t, err)
	return w.EncodeAll(text, nil)
}

// TestCompressedPacks are verified as the packs that they are.
func TestCompressedPacks(t *testing.T) {
	w := newWorld(t)
	events := w.Run(20)
	bundle := sealertest.Bundle(t, w.Seal(events), events)
	packed := pressed(t, bundle)
	require.Equal(t, w.verdicts(bundle), w.verdicts(packed))
	for _, at := range []int{5, len(packed) / 2, len(packed) - 1} {
		flipped := bytes.Clone(packed)
		flipped[at] ^= 1
		require.NotEqual(t, w.verdicts(bundle), w.verdicts(flipped), "flipped at %d", at)
	}
	require.NotEqual(t, w.verdicts(bundle), w.verdicts(packed[:len(packed)-1]), "cut")
	// A small file that would be a long line.
	begins := append([]byte(`{"checkpoint":`), make([]byte, 80<<20+1)...)
	_, err := pack.Read(bytes.NewReader(pressed(t, begins)))
	require.ErrorContains(t, err, "a line of more than")
}
