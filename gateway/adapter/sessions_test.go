package adapter

import (
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// happenings are what the scripts of this test say: in and out of view, sound on and off.
var happenings = map[string]moment{
	"shown": {kind: shown}, "start": {kind: started}, "first": {kind: quarter}, "mid": {kind: half}, "third": {kind: threeQuarters}, "complete": {kind: completed},
	"pause": {kind: paused}, "resume": {kind: resumed}, "skip": {kind: skipped}, "end": {kind: ended}, "note": {},
	"in": {kind: inView, on: true}, "out": {kind: inView}, "loud": {kind: audible, on: true}, "mute": {kind: audible},
}

// TestSessions: what the events of a play add up to, whatever the order that they came in. A
// script has seconds and what happens then.
func TestSessions(t *testing.T) {
	for _, c := range []struct{ kind, script, want string }{
		{"image", "0 shown 0.1 in 1.1 out 2 end", `0 2000 {"viewable":true}`},
		{"image", "0 shown 0.1 in 1.099 out 2 end", `0 2000 {"viewable":false}`},
		{"image", "0 shown 0.1 in 1 out 1.1 in 2 end", `0 2000 {"viewable":false}`},
		{"image", "0 shown 1 end", `0 1000`},
		{"image", "0 shown 1 end 9 note", `0 1000`},
		{"image", "0 note 3 shown 4 note", `3 1000`},
		{"video", "0 shown 0.1 in 0.2 start 2.2 complete", `0 2000 {"viewable":true,"completionState":"complete"}`},
		{"video", "0 shown 0.1 in 0.2 start 2.199 first", `0 1999 {"viewable":false,"completionState":"first_quartile"}`},
		{"video", "0 shown 0.1 in 0.2 start 1.8 pause 9 resume 10.6 complete", `0 3200 {"viewable":false,"completionState":"complete"}`},
		{"video", "0 shown 0.1 loud 0.2 start 2.2 first", `0 2000 {"completionState":"first_quartile","audible":true}`},
		{"video", "0 shown 0.1 loud 0.2 start 1.8 pause 9 resume 10.6 complete", `0 3200 {"completionState":"complete","audible":false}`},
		{"video", "0 shown 0.1 loud 0.2 start 1.2 mute 1.4 loud 3 mid", `0 2800 {"completionState":"midpoint","audible":false}`},
		{"video", "0 shown 5 pause 6 resume 7 first 9 third", `0 2000 {"completionState":"third_quartile"}`},
		{"video", "0 start 4 complete 5 first", `0 4000 {"completionState":"complete"}`},
		// What is known of its length decides, and not the clock.
		{"video", "0 start 3.75@3.7 first 15.2@15 complete", `0 15000 {"completionState":"complete"}`},
		{"video", "0@0 start 3.75@3.7 first 15.2 complete", `0 15200 {"completionState":"complete"}`},
		{"video", "0 start 172800@15 complete", `0 15000 {"completionState":"complete"}`},
		{"video", "172800 start 4@15 complete", `172800 15000 {"completionState":"complete"}`},
		{"video", "0 start 9@0 complete", `0 9000 {"completionState":"complete"}`}, // it is none
		// Unfinished, it ends with the last new progress: by the player's word, or by the clock.
		{"video", "0@0 start 9@9 mid 10@2 note 12@4 end", `0 9000 {"completionState":"midpoint"}`}, // it was wound back
		{"video", "0@0 start 9@4 note 10@4 note", `0 4000 {"completionState":"started"}`},
		{"video", "0 start 4 first 90 end", `0 4000 {"completionState":"first_quartile"}`},
		{"video", "0 start 4 first 5 pause 9 mid 95 end", `0 5000 {"completionState":"midpoint"}`}, // nobody said that it went on
		{"video", "0 start 4 first 4.5 start 5 first 90 start", `0 4000 {"completionState":"first_quartile"}`},
		{"video", "0 start 3 skip", `0 0 {"completionState":"started"}`}, // how long it can have been is not known
		{"video", "0@2700 start 4@2704 first", `0 4000 {"completionState":"first_quartile"}`},
		{"video", "0 start 4@36000 note 15@15 complete", `0 15000 {"completionState":"complete"}`},
		{"image", "0 shown 4 first 15 complete", `0 11000 {"completionState":"complete"}`}, // whose start was lost
		{"video", "0 start 4 first 7 skip", `0 7000 {"completionState":"first_quartile"}`},
		{"video", "0 start 4 first 90 skip", `0 8000 {"completionState":"first_quartile"}`}, // the midpoint was due
		{"video", "0 start 4 first 5 pause 90 skip", `0 4000 {"completionState":"first_quartile"}`},
		// Whole, nothing behind it counts.
		{"video", "0 shown 0 start 16 complete 16 third 96 end", `0 16000 {"completionState":"complete"}`},
		{"video", "0 start 16 complete 17 third 18 first 19 start 20 complete 30 resume 40 mid", `0 16000 {"completionState":"complete"}`},
		{"video", "0 start 5 pause 5 pause 9 pause 10 resume 10 resume 21 complete", `0 16000 {"completionState":"complete"}`},
		// Clocks that are needed, and go back.
		{"video", "9 start 4 complete", errBackwards},
		{"video", "9 start 10 first 4 mid", errBackwards},
		{"video", "0 pause 1 resume 2 in", errNotShown},
		{"video", "", errNotShown},
	} {
		s := session{video: c.kind == "video", moments: script(t, c.script)}
		for range 20 {
			m, got := s.add()
			if got == "" {
				got = strings.TrimSpace(strconv.FormatInt(m.from.Unix(), 10) + " " + strconv.FormatInt(m.dwell.Milliseconds(), 10) + " " + string(m.telemetry()))
			}
			require.Equal(t, c.want, got, c.script)
			rand.Shuffle(len(s.moments), func(i, j int) { s.moments[i], s.moments[j] = s.moments[j], s.moments[i] })
		}
	}
}

// script reads pairs of a second, with the place in the ad behind an @, and what happens.
func script(t *testing.T, text string) (all []moment) {
	words := strings.Fields(text)
	for i := 0; i < len(words); i += 2 {
		m, ok := happenings[words[i+1]]
		require.True(t, ok, words[i+1])
		at, head, ok := strings.Cut(words[i], "@")
		m.at = time.Unix(0, 0).Add(seconds(t, at))
		if ok {
			place := seconds(t, head)
			m.head = &place
		}
		all = append(all, m)
	}
	return all
}

func seconds(t *testing.T, text string) time.Duration {
	d, err := time.ParseDuration(text + "s")
	require.NoError(t, err)
	return d
}
