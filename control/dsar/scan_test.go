package dsar

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/pipeline"
	"muniment.example/sealer"
)

// late is a warehouse that loads a record every so often, up to a position.
type late struct {
	pipeline.Warehouse
	began time.Time
	every time.Duration
	upTo  int64
}

func (l *late) Resume(context.Context, int32) (sealer.Position, bool, error) {
	return sealer.Position{Offset: min(int64(time.Since(l.began)/l.every), l.upTo)}, true, nil
}

// TestLateWarehouse: an export waits for a warehouse that is hours behind, and fails if it makes no
// progress.
func TestLateWarehouse(t *testing.T) {
	for upTo, fails := range map[int64]bool{100: false, 50: true} {
		synctest.Test(t, func(t *testing.T) {
			r := &Service{cfg: Config{Warehouse: &late{began: time.Now(), every: 20 * time.Second, upTo: upTo}, WaitFor: 30 * time.Second}}
			began := time.Now()
			err := r.loaded(t.Context(), 0, sealer.Position{Offset: 100}, silent)
			if fails {
				require.ErrorContains(t, err, "makes no progress")
				require.Equal(t, 50*20*time.Second+30*time.Second, time.Since(began).Round(time.Second))
				return
			}
			require.NoError(t, err)
			require.Equal(t, 100*20*time.Second, time.Since(began).Round(time.Second))
		})
	}
}

// spools are the spools of nodes, poll by poll.
type spools struct {
	looks []map[string]int64
	dead  map[string]int64
}

func (s *spools) Spooled(context.Context) (live, silent map[string]int64, err error) {
	live = s.looks[0]
	if len(s.looks) > 1 {
		s.looks = s.looks[1:]
	}
	return live, s.dead, nil
}

// TestSpools: an export waits for the spools of live nodes for a bounded time, and counts what is
// left.
func TestSpools(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &Service{cfg: Config{WaitFor: 30 * time.Second}}
		for _, c := range []struct {
			nodes Nodes
			left  map[string]int64
			waits time.Duration
		}{
			{nil, map[string]int64{}, 0},
			{&spools{looks: []map[string]int64{{"nod_a": 2}, {"nod_a": 1}, {}}}, map[string]int64{}, 2 * spoolEvery},
			{&spools{looks: []map[string]int64{{}}, dead: map[string]int64{"nod_b": 7}}, map[string]int64{"nod_b": 7}, 0},
			{&spools{looks: []map[string]int64{{"nod_a": 2}}, dead: map[string]int64{"nod_b": 7}}, map[string]int64{"nod_a": 2, "nod_b": 7}, 30 * time.Second},
		} {
			r.cfg.Nodes = c.nodes
			began := time.Now()
			left, err := r.spools(t.Context(), silent)
			require.NoError(t, err)
			require.Equal(t, c.left, left)
			require.InDelta(t, c.waits, time.Since(began), float64(spoolEvery))
		}
	})
}
