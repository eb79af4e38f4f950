package pipeline_test

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/pipeline"
)

func TestBloom(t *testing.T) {
	for _, c := range []struct{ ofBlock, most, narrow int }{{16, 10, 0}, {24, 100, 0}, {16, 10, 16}, {24, 100, 16}} { // of a million
		random := rand.New(rand.NewPCG(1, 2))
		next := func() uint64 { return random.Uint64() >> c.narrow }
		b := make(pipeline.Bloom, 1000)
		var added []uint64
		for range c.ofBlock * len(b) {
			added = append(added, next())
			b.Add(added[len(added)-1])
		}
		for _, hash := range added {
			require.True(t, b.Maybe(hash))
		}
		wrong := 0
		for range 1_000_000 {
			if b.Maybe(next()) {
				wrong++
			}
		}
		require.LessOrEqual(t, wrong, 2*c.most, "%d hashes a block, %d bits less", c.ofBlock, c.narrow)
	}
}
