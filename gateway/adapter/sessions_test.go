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
	"pause": {kind: paused}, "resume": {kind: resumed}, "end": {kind: ended}, "note": {},
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
		{"video", "0 shown 0.1 in 0.2 start 2.2 end", `0 2000 {"viewable":true,"completionState":"started"}`},
		{"video", "0 shown 0.1 in 0.2 start 2.199 end", `0 1999 {"viewable":false,"completionState":"started"}`},
		{"video", "0 shown 0.1 in 0.2 start 1.8 pause 9 resume 10.6 end", `0 3200 {"viewable":false,"completionState":"started"}`},
		{"video", "0 shown 0.1 loud 0.2 start 2.2 first", `0 2000 {"completionState":"first_quartile","audible":true}`},
		{"video", "0 shown 0.1 loud 0.2 start 1.8 pause 9 resume 10.6 complete", `0 3200 {"completionState":"complete","audible":false}`},
		{"video", "0 shown 0.1 loud 0.2 start 1.2 mute 1.4 loud 3 mid", `0 2800 {"completionState":"midpoint","audible":false}`},
		{"video", "0 shown 5 pause 6 resume 7 first 9 third", `0 3000 {"completionState":"third_quartile"}`},
		{"video", "1 first 2 end", `1 1000 {"completionState":"first_quartile"}`},
		{"video", "0 resume 1 start 2 complete 3 note", `1 1000 {"completionState":"complete"}`},
		{"video", "0 start 4 complete 5 first", `0 4000 {"completionState":"complete"}`},
		{"video", "0 start 3.75@3.7 first 15.2@15 complete", `0 15000 {"completionState":"complete"}`},
		{"video", "0@0 start 3.75@3.7 first 15.2 complete", `0 15200 {"completionState":"complete"}`},
		{"video", "0@0 start 9@9 mid 10@2 note 12@4 end", `0 9000 {"completionState":"midpoint"}`}, // it was wound back
		{"video", "0 pause 1 resume 2 in", ``},
		{"video", "", ``},
	} {
		s := session{video: c.kind == "video", moments: script(t, c.script)}
		for range 20 {
			m, ok := s.add()
			got := ""
			if ok {
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
