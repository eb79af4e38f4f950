package idempotency

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/gateway/api"
	"muniment.example/gateway/issue/issuetest"
	"muniment.example/sealer"
)

func TestClaimsKeepTheNewestOfADay(t *testing.T) {
	cs := New(Config{Limit: claimShards * 4})
	s := &cs.shards[0]
	key := func(i int) *claimKey { return &claimKey{0, byte(i), byte(i >> 8)} }
	for i := range 10 {
		s.put(key(i), Place{offset: int64(i), second: uint32(1000 + i)})
	}
	require.Equal(t, 4, s.kept.n)
	for i := range 10 {
		at, found := s.kept.get(key(i))
		require.Equal(t, i >= 6, found, i)
		require.True(t, !found || at.offset == int64(i), i)
	}
	s.put(key(10), Place{second: 1008 + 24*3600})
	require.Equal(t, 3, s.kept.n, "those of more than a day before are gone")

	// An entry that nothing pushed out is too old all the same.
	h := Hash{0, 10}
	var c Claim
	_, known, _ := cs.Find(&h, time.Unix(1008+24*3600, 0).Add(keepKeys), &c)
	require.True(t, known)
	_, known, running := cs.Find(&h, time.Unix(1009+24*3600, 0).Add(keepKeys), &c)
	require.False(t, known)
	require.Nil(t, running)
	require.True(t, c.Held())
}

func TestOneOwnerOfAClaim(t *testing.T) {
	cs := New(Config{Limit: 1000})
	h := Hash{1}
	var owners, replays int
	var mu sync.Mutex
	var all sync.WaitGroup
	for range 64 {
		all.Go(func() {
			var c Claim
			for {
				p, known, running := cs.Find(&h, issuetest.Today, &c)
				if running != nil {
					<-running
					continue
				}
				mu.Lock()
				defer mu.Unlock()
				if known {
					replays++
					require.Equal(t, int64(5), p.offset)
					return
				}
				owners++
				if owners < 3 { // the first two fail
					c.Free()
					return
				}
				c.Keep(sealer.Position{Offset: 5}, issuetest.Today)
				c.Free()
				return
			}
		})
	}
	all.Wait()
	require.Equal(t, 3, owners)
	require.Equal(t, 61, replays)
}

func TestFirstSinceFindsTheMoment(t *testing.T) {
	l := &issuetest.Log{T: t}
	start := issuetest.Today.Add(-time.Hour)
	l.Edit(func(all []sealer.Entry) []sealer.Entry {
		for i := range 60 {
			all = append(all, sealer.Entry{Position: sealer.Position{Generation: 1, Offset: int64(i)},
				Record: sealer.Record{EventID: api.NewID(api.PrefixEvent, start.Add(time.Duration(i)*time.Minute))}})
		}
		return all
	})
	first, end, err := l.Bounds(t.Context(), 0)
	require.NoError(t, err)
	for _, i := range []int{0, 1, 17, 59, 60} {
		at, err := firstSince(t.Context(), l, first, end, start.Add(time.Duration(i)*time.Minute))
		require.NoError(t, err)
		require.Equal(t, int64(i), at.Offset)
	}

	// What can't be read says nothing of when it is from: nothing behind the moment is left
	// out for it.
	for bad := range int64(60) {
		for n := int64(1); n <= 60; n *= 3 {
			var stretch []int64
			for i := range n {
				stretch = append(stretch, bad+i)
			}
			l.Spoil(stretch...)
			for _, i := range []int64{0, 1, 17, 59, 60} {
				at, err := firstSince(t.Context(), l, first, end, start.Add(time.Duration(i)*time.Minute))
				require.NoError(t, err)
				require.LessOrEqual(t, at.Offset, i, "%d unreadable from %d on", n, bad)
			}
		}
	}

	// The oldest go meanwhile.
	l.Spoil()
	l.Lose(40, false)
	for moment, found := range map[int]int64{5: 40, 40: 40, 41: 41} {
		at, err := firstSince(t.Context(), l, first, end, start.Add(time.Duration(moment)*time.Minute))
		require.NoError(t, err)
		require.Equal(t, found, at.Offset)
	}
	away := errors.New("away")
	l.SetFail(away)
	_, err = firstSince(t.Context(), l, first, end, start)
	require.ErrorIs(t, err, away)

	at, ok := eventTime(l.All()[17].EventID)
	require.True(t, ok)
	require.Equal(t, start.Add(17*time.Minute).UnixMilli(), at.UnixMilli())
}
