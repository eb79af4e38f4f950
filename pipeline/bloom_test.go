package pipeline_test

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment/pipeline"
)

func TestBloom(t *testing.T) {
	for _, c := range []struct{ ofBlock, most int }{{16, 10}, {24, 100}} { // of a million
		random := rand.New(rand.NewPCG(1, 2))
		b := make(pipeline.Bloom, 1000)
		var added []uint64
		for range c.ofBlock * len(b) {
			added = append(added, random.Uint64())
			b.Add(added[len(added)-1])
		}
		for _, hash := range added {
			require.True(t, b.Maybe(hash))
		}
		wrong := 0
		for range 1_000_000 {
			if b.Maybe(random.Uint64()) {
				wrong++
			}
		}
		require.LessOrEqual(t, wrong, 2*c.most, "%d hashes a block", c.ofBlock)
	}
}
