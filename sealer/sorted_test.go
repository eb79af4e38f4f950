package sealer

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestSorted holds insertion, search and merging against a sorted slice, over many blocks:
// of records that rise, as ids do, and of any.
func TestSorted(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for name, draw := range map[string]func(n int) int{
		"rising": func(n int) int { return n },
		"any":    func(int) int { return r.IntN(50_000) },
		"few":    func(int) int { return r.IntN(900) },
	} {
		t.Run(name, func(t *testing.T) {
			all, want, n := newInts(), []int(nil), 0
			for _, size := range []int{3, 1700, 1, 0, 5000, 40, 1, 512, 513} {
				with, held := newInts(), map[int]bool{}
				for range size {
					v := draw(n)
					p, there := with.find(&v)
					require.Equal(t, held[v], there)
					if !there {
						with.insert(p, v)
						held[v] = true
						want = append(want, v)
					}
					n++
				}
				requireSorted(t, with)
				all.merge(with, func(before, v *int) bool { return *before != *v })
				slices.Sort(want)
				want = slices.Compact(want)
				requireSorted(t, all)
				require.Equal(t, want, all.list())
			}
			for range 100 {
				v := r.IntN(60_000)
				i, there := slices.BinarySearch(want, v)
				p, found := all.find(&v)
				require.Equal(t, there, found)
				if i > 0 {
					require.Equal(t, want[i-1], *all.before(p))
				} else {
					require.Nil(t, all.before(p))
				}
				if i < len(want) {
					require.Equal(t, want[i], *all.at(p))
				} else {
					require.Nil(t, all.at(p))
				}
			}
		})
	}
}

func newInts() *sorted[int] {
	return &sorted[int]{compare: func(a, b *int) int { return cmp.Compare(*a, *b) }}
}

func (s *sorted[T]) list() (all []T) {
	s.each(func(v *T) { all = append(all, *v) })
	return all
}

// requireSorted checks that blocks are neither empty nor too long, and that records rise.
func requireSorted(t *testing.T, s *sorted[int]) {
	t.Helper()
	count := 0
	for _, b := range s.blocks {
		require.NotEmpty(t, b)
		require.LessOrEqual(t, len(b), blockRecords)
		count += len(b)
	}
	require.Equal(t, count, s.count)
	require.True(t, slices.IsSorted(s.list()))
}
