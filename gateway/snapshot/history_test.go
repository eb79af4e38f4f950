package snapshot

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/gateway/api"
)

// hours are suspensions from an hour of the day until another; 0 is none.
func hours(pairs ...[2]int) (all []api.Suspension) {
	at := func(hour int) (t time.Time) {
		if hour > 0 {
			t = noon.Truncate(24 * time.Hour).Add(time.Duration(hour) * time.Hour)
		}
		return t
	}
	for _, p := range pairs {
		all = append(all, api.Suspension{From: at(p[0]), Until: at(p[1])})
	}
	return all
}

// TestAncestorsHistoryOfANewNode: a node that starts knows when the ancestors of a right were
// suspended, though they are in force again; and it asks control for what they leave out.
func TestAncestorsHistoryOfANewNode(t *testing.T) {
	s := newSource()
	parent, child := rightOf(1), rightOf(2)
	s.put(api.Right{ID: parent, State: api.RightSuspended, Suspensions: hours([2]int{2, 4}, [2]int{6, 0})})
	s.put(api.Right{ID: parent, State: api.RightActive, Suspensions: hours([2]int{6, 8}), SuspensionsSince: hours([2]int{4, 0})[0].From})
	s.put(api.Right{ID: child, State: api.RightActive, Ancestors: []string{parent}})
	v := newView(t, s, nil)
	_, err := v.poll(t.Context(), 0)
	require.NoError(t, err)
	permits := func(hour int, read Moments) (bool, []api.RightMoment, error) {
		rights := RightsRead{}
		v.ReadRights(t.Context(), []string{child}, rights)
		r, known, err := v.KnownRight("tnt_a", child, rights)
		require.NoError(t, err)
		require.True(t, known)
		return v.Permits(r, hours([2]int{hour, 0})[0].From, read)
	}
	for hour, refused := range map[int]bool{5: false, 6: true, 7: true, 8: false, 9: false} {
		suspended, unknown, err := permits(hour, nil)
		require.False(t, suspended)
		require.Empty(t, unknown)
		require.Equal(t, refused, err != nil, hour)
	}
	_, unknown, err := permits(3, Moments{})
	require.NoError(t, err)
	require.Equal(t, []api.RightMoment{{RightID: parent, At: hours([2]int{3, 0})[0].From}}, unknown)
	read := Moments{}
	s.set(func() { s.away = errAway })
	v.ReadMoments(t.Context(), unknown, read)
	_, unknown, err = permits(3, read)
	require.Empty(t, unknown)
	require.Equal(t, api.RightsStale, api.From(err).Reason, "what control doesn't say is not guessed")
}

// TestPlayInASuspensionThatLasts: a node that is behind does not know yet that a suspension, of the
// right or of an ancestor, has ended. So it refuses no play in it before control has said so.
func TestPlayInASuspensionThatLasts(t *testing.T) {
	played := hours([2]int{9, 0})[0].From
	for _, stopped := range []string{rightOf(1), rightOf(2)} {
		s := newSource()
		s.put(api.Right{ID: rightOf(1), State: api.RightActive})
		s.put(api.Right{ID: rightOf(2), State: api.RightActive, Ancestors: []string{rightOf(1)}})
		lasting := api.Right{ID: stopped, State: api.RightSuspended, Suspensions: hours([2]int{6, 0})}
		if stopped == rightOf(2) {
			lasting.Ancestors = []string{rightOf(1)}
		}
		s.put(lasting)
		v := newView(t, s, nil) // which learns no more
		_, err := v.poll(t.Context(), 0)
		require.NoError(t, err)
		rights := RightsRead{}
		v.ReadRights(t.Context(), []string{rightOf(2)}, rights)
		r, known, err := v.KnownRight("tnt_a", rightOf(2), rights)
		require.NoError(t, err)
		require.True(t, known)

		_, unknown, err := v.Permits(r, played, Moments{})
		require.NoError(t, err)
		require.Equal(t, []api.RightMoment{{RightID: stopped, At: played}}, unknown)
		suspended, unknown, err := v.Permits(r, played, Moments{momentOf(&unknown[0]): {suspended: false}})
		require.NoError(t, err)
		require.Empty(t, unknown)
		require.True(t, suspended, "it waits until this node knows")
		asked := momentOf(&api.RightMoment{RightID: stopped, At: played})
		_, _, err = v.Permits(r, played, Moments{asked: {suspended: true}})
		require.Equal(t, api.RightNotInForce, api.From(err).Reason)
		_, _, err = v.Permits(r, played, Moments{asked: {err: errAway}})
		require.Equal(t, 503, api.From(err).GetStatus())
	}
}

// TestNotBefore: a clock that shows a time in a suspension that is over is behind.
func TestNotBefore(t *testing.T) {
	s := newSource()
	v := newView(t, s, nil)
	parent := rightOf(1)
	s.put(api.Right{ID: parent, State: api.RightSuspended})
	s.put(api.Right{ID: parent, State: api.RightActive, Suspensions: hours([2]int{8, 10})})
	_, err := v.poll(t.Context(), 0)
	require.NoError(t, err)
	r := &Right{Right: api.Right{ID: rightOf(2), State: api.RightActive, Ancestors: []string{parent}, Suspensions: hours([2]int{5, 7}, [2]int{10, 11}), SuspensionsSince: hours([2]int{3, 0})[0].From}}
	for at, want := range map[int]int{1: 3, 4: 4, 5: 7, 6: 7, 7: 7, 8: 11, 9: 11, 10: 11, 11: 11, 12: 12} {
		end := hours([2]int{want, 0})[0].From
		for _, behind := range []time.Duration{0, api.ClockSlack} {
			if want == 4 || want == 12 { // in no suspension
				behind = 0
			}
			got, err := v.NotBefore(r, end.Add(-behind))
			require.NoError(t, err)
			require.Equal(t, end, got, "%s behind %d", behind, want)
		}
		if want > at {
			_, err := v.NotBefore(r, hours([2]int{at, 0})[0].From)
			require.Equal(t, api.RightsStale, api.From(err).Reason, "at %d", at)
		}
	}
}
