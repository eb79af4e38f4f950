package adapter

import (
	"fmt"
	"math/rand/v2"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"

	"muniment.example/gateway/api"
)

// ping is an event as a player reports it.
type ping struct {
	name string // of vast
	at   time.Time
	head time.Duration
}

var omNames = map[string]string{"skip": "skipped", "mute": "volumeChange", "unmute": "volumeChange", "close": "sessionFinish"}

// playedThrough is a session of an ad as a sound player on a sound clock reports it, up to some progress.
func playedThrough(r *rand.Rand, length time.Duration, progress int) (pings []ping) {
	now, head := time.Date(2026, 10, 24, 18, 0, 0, 0, time.UTC), time.Duration(0)
	add := func(name string) { pings = append(pings, ping{name, now, head}) }
	pass := func(d time.Duration) { now, head = now.Add(d), head+d }
	add("impression")
	add("start")
	for _, name := range []string{"firstQuartile", "midpoint", "thirdQuartile", "complete"}[:progress] {
		part := length / 4
		if r.IntN(3) == 0 {
			pass(part / 2)
			part -= part / 2
			add("pause")
			now = now.Add(time.Duration(r.IntN(600)) * time.Second)
			add("resume")
		}
		if r.IntN(4) == 0 {
			add([]string{"mute", "unmute"}[r.IntN(2)])
		}
		pass(part)
		add(name)
	}
	if r.IntN(2) == 0 {
		now = now.Add(time.Duration(r.IntN(100)) * time.Second)
		add("close")
	}
	return pings
}

// disturbed are pings as they arrive: late, twice, not at all, by a clock that is set, in any order.
func disturbed(r *rand.Rand, pings []ping) []ping {
	var all []ping
	step := time.Duration(0)
	for _, p := range pings {
		if r.IntN(8) == 0 {
			step += time.Duration(r.IntN(2*48*3600)-48*3600) * time.Second
		}
		p.at = p.at.Add(step)
		if whole := p.name == "complete"; whole || r.IntN(6) > 0 {
			all = append(all, p)
		}
		for r.IntN(4) == 0 {
			retried := p
			if r.IntN(2) == 0 {
				retried.at = p.at.Add(time.Duration(r.IntN(90)) * time.Second)
			}
			all = append(all, retried)
		}
	}
	if r.IntN(2) == 0 { // a log of whole seconds
		for i := range all {
			all[i].at = all[i].at.Truncate(time.Second)
		}
	}
	r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all
}

// asVAST are tracking calls; heads says that they name the place in the ad.
func asVAST(pings []ping, heads bool) string {
	var b strings.Builder
	for _, p := range pings {
		fmt.Fprintf(&b, "https://t.example/v?event=%s&adservingid=s&universaladid=ad&timestamp=%s", p.name, p.at.Format("2006-01-02T15:04:05.000Z"))
		if heads || p.name == "complete" {
			fmt.Fprintf(&b, "&adplayhead=%s", time.Time{}.Add(p.head).Format("15:04:05.000"))
		}
		b.WriteString("&mediaplayhead=01:00:00.000\n")
	}
	return b.String()
}

// asOMSDK are the SDK's events; named says that they have the length.
func asOMSDK(pings []ping, length time.Duration, named bool) string {
	var all []string
	for _, p := range pings {
		name, data := p.name, ""
		if other, ok := omNames[name]; ok {
			name = other
		}
		if named {
			data = fmt.Sprintf(`,"duration":%v`, length.Seconds())
		}
		all = append(all, fmt.Sprintf(`{"adSessionId":"s","timestamp":%d,"type":%q,"data":{"verificationParameters":"ad","mediaType":"video"%s}}`, p.at.UnixMilli(), name, data))
	}
	return "[" + strings.Join(all, ",") + "]"
}

// TestNoSessionIsLongerThanItsAd: whatever becomes of the pings of a session whose length is known, it is
// billed for at most that; a whole one is billed for all of it, and is called complete, and no other is.
func TestNoSessionIsLongerThanItsAd(t *testing.T) {
	rounds := 500
	if os.Getenv("MUNIMENT_TEST_FULL") != "" {
		rounds *= 50
	}
	r := rand.New(rand.NewPCG(1, rand.Uint64()))
	unfinished, refused := 0, 0
	for range rounds {
		length := time.Duration(4+r.IntN(60)) * time.Second
		progress := r.IntN(5)
		sent := disturbed(r, playedThrough(r, length, progress))
		header := Header{Field: func(string) string { return "" }, Now: time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)}
		if len(sent) == 0 {
			continue
		}
		parameter := url.Values{"lengthMs": {fmt.Sprint(length.Milliseconds())}}
		for name, x := range map[string]struct {
			format   Format
			document string
			query    url.Values
		}{
			"heads":                    {vast, asVAST(sent, true), nil},
			"the head of complete":     {vast, asVAST(sent, false), nil},
			"the parameter":            {vast, asVAST(slices.DeleteFunc(slices.Clone(sent), func(p ping) bool { return p.name == "complete" }), false), parameter},
			"the SDK's duration":       {omSDK, asOMSDK(sent, length, true), nil},
			"the parameter of the SDK": {omSDK, asOMSDK(sent, length, false), parameter},
		} {
			whole := progress == 4 && name != "the parameter"
			if !whole && name == "the head of complete" {
				continue // its length is not known
			}
			header.Query = x.query
			for text, err := range x.format.Rows(header, []byte(x.document)) {
				fault, isRow := err.(*RowError)
				if !whole && isRow && (strings.Contains(fault.Message, errBackwards) || strings.Contains(fault.Message, errNotShown) || strings.Contains(fault.Field, "universaladid")) {
					refused++
					continue
				}
				require.NoError(t, err, "%s: a whole play is lost\n%s", name, x.document)
				var row api.Row
				require.NoError(t, json.Unmarshal(text, &row))
				dwell := time.Duration(row.DwellMs * float64(time.Millisecond))
				require.LessOrEqual(t, dwell, length, "%s\n%s", name, x.document)
				require.Equal(t, whole, strings.Contains(string(row.Telemetry), `"completionState":"complete"`), "%s\n%s", name, x.document)
				if whole {
					require.Equal(t, length, dwell, "%s\n%s", name, x.document)
				} else {
					unfinished++
				}
			}
		}
	}
	require.Greater(t, unfinished, rounds/4)
	require.Greater(t, refused, 0)
}
