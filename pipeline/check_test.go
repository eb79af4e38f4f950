package pipeline_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/pipeline"
	"muniment.example/sealer"
)

func TestCheckRefusesWhatRunWould(t *testing.T) {
	check := func(spoil func(m *memory)) error {
		m := newMemory()
		m.fill(t, 0, 20)
		spoil(m)
		l, err := pipeline.NewLoader(m.cfg)
		require.NoError(t, err)
		return l.Check(t.Context())
	}
	loaded := func(generation uint32, offset int64) func(m *memory) {
		return func(m *memory) {
			next := sealer.Position{Generation: generation, Offset: offset}
			require.NoError(t, m.warehouse.Load(t.Context(), pipeline.Batch{Next: next}))
		}
	}
	require.NoError(t, check(func(*memory) {}), "nothing is loaded yet")
	require.NoError(t, check(loaded(1, 7)), "the warehouse is behind")
	require.NoError(t, check(loaded(0, 7)), "the log is in a new generation")

	err := check(loaded(1, 21))
	require.ErrorIs(t, err, pipeline.ErrLogBehind)
	require.ErrorContains(t, err, "loaded up to 1.0.21, the log ends at 1.0.20")
	err = check(func(m *memory) { loaded(1, 4)(m); m.log.Retire(7) })
	require.ErrorIs(t, err, pipeline.ErrGap)
	require.ErrorContains(t, err, "nothing from 1.0.4 up to 1.0.7")
}
