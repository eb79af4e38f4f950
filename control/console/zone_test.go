package console

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/gateway/client"
)

func at(t *testing.T, text string) time.Time {
	t.Helper()
	moment, err := time.Parse(time.RFC3339Nano, text)
	require.NoError(t, err)
	return moment
}

func berlin(t *testing.T) *time.Location {
	t.Helper()
	zone, err := time.LoadLocation("Europe/Berlin")
	require.NoError(t, err)
	return zone
}

// TestTimesAreOfTheTenantsZone: a moment is shown and taken by the clocks of the tenant, on days on which they change, too;
// a period is named by its first and last day.
func TestTimesAreOfTheTenantsZone(t *testing.T) {
	z := zone{berlin(t)}
	from, to := at(t, "2026-09-30T22:00:00Z"), at(t, "2026-10-31T23:00:00Z")
	require.Equal(t, "1 Oct 2026 to 31 Oct 2026", z.span(from, to))
	require.Equal(t, "1 Oct 2026", z.span(from, from.Add(24*time.Hour)))
	require.Equal(t, "30 Sep 2026, 22:00:00 to 31 Oct 2026, 23:00:00", zone{time.UTC}.span(from, to))
	require.Equal(t, "1 Oct 2026", z.begin(from))
	require.Equal(t, "1 Oct 2026, 00:00:01", z.begin(from.Add(time.Second)))
	require.Equal(t, "the end of 31 Oct 2026", z.end(to))
	require.Equal(t, "1 Nov 2026, 08:00:00", z.end(at(t, "2026-11-01T07:00:00Z")))
	require.Equal(t, "2026-10", z.lastMonth(at(t, "2026-10-31T23:00:00Z")), "it is November there")
	for text, want := range map[string]string{
		"2026-12-01": "2026-11-30T23:00:00Z", "2026-12-01T08:30": "2026-12-01T07:30:00Z", "2026-12-01 08:30": "2026-12-01T07:30:00Z", "2026-10-25": "2026-10-24T22:00:00Z", "2026-10-26": "2026-10-25T23:00:00Z",
		"2026-12-01T08:30:15.25": "2026-12-01T07:30:15.25Z", "2026-12-01T00:00:00Z": "2026-12-01T00:00:00Z",
	} {
		got, why := z.read(text)
		require.Empty(t, why, text)
		require.True(t, got.Equal(at(t, want)), "%s is %s", text, got)
		again, why := z.read(z.field(got))
		require.Empty(t, why, text)
		require.True(t, got.Equal(again), "a field keeps %s", text)
	}
	for _, text := range []string{"", "November 2026", "2026-11", "2026-W48", "2026-13-01", "2026-02-30"} {
		_, why := z.read(text)
		require.Contains(t, why, "is no time", text)
	}
	s := client.Statement{From: from, To: to, Period: "2026-10", TimeZone: "Europe/Berlin"}
	require.Equal(t, "Statement October 2026", z.titled(s))
	s.Period = ""
	require.Equal(t, "1 Oct 2026 to 31 Oct 2026", z.period(s))
	require.Equal(t, "1 Oct 2026 to 31 Oct 2026 (Europe/Berlin)", zone{time.UTC}.period(s), "of another zone than the page's")
	require.Equal(t, "October 2026 (Europe/Berlin)", zone{time.UTC}.period(client.Statement{Period: "2026-10", TimeZone: "Europe/Berlin"}))
	s.Corrects, s.Correction, s.Period = "stm_1", 2, "2026-10"
	require.Equal(t, "Correction 2 of October 2026", z.titled(s))
}

// TestTimesThatTheClocksSkipOrRepeat: a field takes none that is not one moment, and keeps each moment that it shows.
func TestTimesThatTheClocksSkipOrRepeat(t *testing.T) {
	zones := map[string]zone{}
	for _, name := range []string{"Europe/Berlin", "America/Santiago", "Australia/Lord_Howe"} {
		location, err := time.LoadLocation(name)
		require.NoError(t, err)
		zones[name] = zone{location}
	}
	for _, c := range []struct{ zone, text, why string }{
		{"Europe/Berlin", "2026-03-29T02:30", "is skipped"},
		{"Europe/Berlin", "2026-10-25 02:30", "write 2026-10-25T02:30:00+02:00 or 2026-10-25T02:30:00+01:00"},
		{"America/Santiago", "2026-09-06T00:00", "is skipped"}, // midnight
		{"America/Santiago", "2026-04-04T23:30:15.5", "write 2026-04-04T23:30:15.5-03:00 or 2026-04-04T23:30:15.5-04:00"},
		{"Australia/Lord_Howe", "2026-04-05T01:45", "is there twice"}, // half an hour
	} {
		z := zones[c.zone]
		_, why := z.read(c.text)
		require.Contains(t, why, c.why, c.text)
		require.False(t, z.local(c.text), "it can be written otherwise")
	}
	for name, z := range zones {
		require.True(t, z.local("2026-12-31T08:00"))
		require.True(t, z.local(""))
		for day := at(t, "2026-01-01T00:15:00Z"); day.Year() < 2027; day = day.Add(30 * time.Minute) {
			got, why := z.read(z.field(day))
			require.Empty(t, why, day)
			require.True(t, got.Equal(day), "%s: %s is %s", name, day, got)
		}
	}
	first, why := zones["America/Santiago"].read("2026-09-06")
	require.Empty(t, why, "a day begins with its first moment")
	require.True(t, first.Equal(at(t, "2026-09-06T04:00:00Z")))

	p, w := served(t, nil).page(Path)
	p.Session.Zone = zones["Europe/Berlin"].Location
	p.render("form", form{Fields: []field{{Name: "from", Kind: "time", Value: p.zone().field(at(t, "2026-10-25T00:30:00Z"))}, {Name: "to", Kind: "time", Value: "2026-12-31T08:00"}}})
	require.Contains(t, w.Body.String(), `name="from" value="2026-10-25T02:30:00&#43;02:00" autocomplete`)
	require.Contains(t, w.Body.String(), `name="to" value="2026-12-31T08:00" type="datetime-local"`)
}

// TestNothingElseWritesTimes: no page goes past the zone. What does has a time that is in it already, or none of a zone.
func TestNothingElseWritesTimes(t *testing.T) {
	past := regexp.MustCompile(`\.(UTC|Local|In|AppendFormat|Weekday)\(|\.Format[( ]"|time\.(UTC|Local|RFC\w+|ParseInLocation|Date)\b`)
	found := map[string]int{}
	for _, pattern := range []string{"*.go", "view/*.html"} {
		names, err := filepath.Glob(pattern)
		require.NoError(t, err)
		for _, name := range names {
			if name == "zone.go" || strings.HasSuffix(name, "_test.go") {
				continue
			}
			text, err := os.ReadFile(name)
			require.NoError(t, err)
			if n := len(past.FindAll(text, -1)); n > 0 {
				found[name] = n
			}
		}
	}
	require.Equal(t, map[string]int{
		"overview.go": 1, "chart.go": 2, "view/overview.html": 1, // of the overview, whose hours and month are in the zone from there on
		"format.go": 1, "statements.go": 1, // of a day and a month, which have none
	}, found)
}
