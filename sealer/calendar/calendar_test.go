package calendar

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func instant(t require.TestingT, text string) time.Time {
	at, err := time.Parse(time.RFC3339, text)
	require.NoError(t, err)
	return at
}

func named(unit, zone string) (Calendar, error) {
	at, err := Zone(zone)
	return Calendar{unit, at}, err
}

func TestBuckets(t *testing.T) {
	for _, c := range []struct {
		name, unit, zone, from, to string
		want                       []string
	}{
		{"days around the short one", Day, "Europe/Berlin", "2026-03-28T12:00:00Z", "2026-03-30T00:00:00Z",
			[]string{"2026-03-28T00:00:00+01:00", "2026-03-29T00:00:00+01:00", "2026-03-30T00:00:00+02:00"}},
		{"days around the long one", Day, "America/New_York", "2026-11-01T04:00:00Z", "2026-11-02T05:00:00Z",
			[]string{"2026-11-01T00:00:00-04:00"}},
		{"the hour that isn't there", Hour, "Europe/Berlin", "2026-03-29T00:30:00Z", "2026-03-29T01:30:00Z",
			[]string{"2026-03-29T01:00:00+01:00", "2026-03-29T03:00:00+02:00"}},
		{"the hour that comes twice", Hour, "Europe/Berlin", "2026-10-25T00:00:00Z", "2026-10-25T02:00:00Z",
			[]string{"2026-10-25T02:00:00+02:00", "2026-10-25T02:00:00+01:00"}},
		{"minutes across the change", Minute, "Europe/Berlin", "2026-10-25T00:59:00Z", "2026-10-25T01:01:00Z",
			[]string{"2026-10-25T02:59:00+02:00", "2026-10-25T02:00:00+01:00"}},
		{"hours of a half-hour zone", Hour, "Asia/Kolkata", "2026-11-21T04:29:59Z", "2026-11-21T05:30:00Z",
			[]string{"2026-11-21T09:00:00+05:30", "2026-11-21T10:00:00+05:30"}},
		{"days of a quarter-hour zone", Day, "Asia/Kathmandu", "2026-11-21T18:14:59Z", "2026-11-21T18:15:01Z",
			[]string{"2026-11-21T00:00:00+05:45", "2026-11-22T00:00:00+05:45"}},
		{"clocks set by half an hour, back", Hour, "Australia/Lord_Howe", "2026-04-04T14:30:00Z", "2026-04-04T16:00:00Z",
			[]string{"2026-04-05T01:00:00+11:00", "2026-04-05T01:30:00+10:30", "2026-04-05T02:00:00+10:30"}},
		{"clocks set by half an hour, forth", Hour, "Australia/Lord_Howe", "2026-10-03T15:00:00Z", "2026-10-03T16:30:00Z",
			[]string{"2026-10-04T01:00:00+10:30", "2026-10-04T02:30:00+11:00", "2026-10-04T03:00:00+11:00"}},
		{"a day without midnight", Day, "Africa/Cairo", "2026-04-23T21:00:00Z", "2026-04-24T21:00:00Z",
			[]string{"2026-04-23T00:00:00+02:00", "2026-04-24T01:00:00+03:00"}},
		{"a day with two midnights", Day, "America/Havana", "2026-11-01T03:59:00Z", "2026-11-01T05:30:00Z",
			[]string{"2026-10-31T00:00:00-04:00", "2026-11-01T00:00:00-04:00"}},
		{"clocks set back into the day before", Day, "America/St_Johns", "2010-11-07T02:00:00Z", "2010-11-08T03:30:00Z",
			[]string{"2010-11-06T00:00:00-02:30", "2010-11-07T00:00:00-02:30"}},
		{"a day that never was", Day, "Pacific/Apia", "2011-12-30T00:00:00Z", "2011-12-31T10:00:00Z",
			[]string{"2011-12-29T00:00:00-10:00", "2011-12-31T00:00:00+14:00"}},
		{"weeks begin on Monday", Week, "UTC", "2026-11-22T23:59:59Z", "2026-11-23T00:00:01Z",
			[]string{"2026-11-16T00:00:00Z", "2026-11-23T00:00:00Z"}},
		{"a week across the year", Week, "UTC", "2027-01-01T00:00:00Z", "2027-01-05T00:00:00Z",
			[]string{"2026-12-28T00:00:00Z", "2027-01-04T00:00:00Z"}},
		{"months", Month, "America/New_York", "2026-01-31T12:00:00Z", "2026-04-01T04:00:00Z",
			[]string{"2026-01-01T00:00:00-05:00", "2026-02-01T00:00:00-05:00", "2026-03-01T00:00:00-05:00"}},
		{"a leap February", Month, "UTC", "2028-02-29T12:00:00Z", "2028-03-01T00:00:01Z",
			[]string{"2028-02-01T00:00:00Z", "2028-03-01T00:00:00Z"}},
		{"the first bucket begins before the window", Hour, "UTC", "2026-11-21T04:59:59Z", "2026-11-21T05:00:00Z",
			[]string{"2026-11-21T04:00:00Z"}},
		{"an empty window", Hour, "UTC", "2026-11-21T04:00:00Z", "2026-11-21T04:00:00Z", nil},
		{"only the name of the zone changes", Hour, "America/Port_of_Spain", "2026-11-21T04:30:00Z", "2026-11-21T05:00:00Z",
			[]string{"2026-11-21T00:00:00-04:00"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			calendar, err := named(c.unit, c.zone)
			require.NoError(t, err)
			starts, ok := calendar.Starts(instant(t, c.from), instant(t, c.to), 10)
			require.True(t, ok)
			var got []string
			for _, s := range starts {
				got = append(got, s.Format(time.RFC3339))
			}
			require.Equal(t, c.want, got)
		})
	}
}

func TestBucketsAreBounded(t *testing.T) {
	c, err := named(Hour, "UTC")
	require.NoError(t, err)
	from := instant(t, "2026-11-21T00:00:00Z")
	starts, ok := c.Starts(from, from.Add(24*time.Hour), 24)
	require.True(t, ok)
	require.Len(t, starts, 24)
	_, ok = c.Starts(from, from.Add(24*time.Hour+1), 24)
	require.False(t, ok)
	_, ok = c.Starts(from, instant(t, "9999-12-31T23:59:59Z"), 24)
	require.False(t, ok, "and it doesn't count to the end to say so")
}

func TestZones(t *testing.T) {
	for _, name := range []string{"", "UTC", "Europe/Berlin", "Asia/Kolkata", "America/Argentina/Buenos_Aires", "Etc/GMT+5"} {
		_, err := named(Day, name)
		require.NoError(t, err, name)
	}
	for _, name := range []string{"Local", "localtime", "posixrules", "Berlin", "../etc/passwd", "/etc/localtime", "right/Europe/Berlin", "posix/UTC", "zone.tab", "Europe", "+01:00", "\x00"} {
		_, err := named(Day, name)
		require.ErrorContains(t, err, "IANA", name)
	}
}

// TestBucketsCoverTime checks random times in random zones: buckets are contiguous, each moment is in
// the bucket that starts last before it, and within one bucket clocks show one minute, hour, day, week
// or month.
func TestBucketsCoverTime(t *testing.T) {
	zones := []string{
		"UTC", "Europe/Berlin", "Europe/Dublin", "America/New_York", "America/St_Johns", "America/Havana", "America/Sao_Paulo",
		"Africa/Cairo", "Africa/Casablanca", "Asia/Kolkata", "Asia/Kathmandu", "Asia/Beirut", "Asia/Gaza", "Asia/Pyongyang",
		"Australia/Lord_Howe", "Pacific/Apia", "Pacific/Chatham", "Pacific/Kwajalein", "Antarctica/Troll", "Africa/Monrovia",
	}
	shown := map[string]string{Minute: "2006-01-02 15:04", Hour: "2006-01-02 15", Day: "2006-01-02", Month: "2006-01"}
	rapid.Check(t, func(t *rapid.T) {
		c, err := named(
			rapid.SampledFrom([]string{Minute, Hour, Day, Week, Month}).Draw(t, "unit"), rapid.SampledFrom(zones).Draw(t, "zone"))
		require.NoError(t, err)
		at := time.Unix(rapid.Int64Range(0, 2_000_000_000).Draw(t, "at"), 0).In(c.Zone)
		if rapid.Bool().Draw(t, "near a change of clocks") {
			if change := offsetEnds(at); !change.IsZero() {
				at = change.Add(time.Duration(rapid.Int64Range(-100_000, 100_000).Draw(t, "beside it")) * time.Second)
			}
		}
		start := c.start(at)
		next := c.Next(start)
		require.False(t, start.After(at), "it starts at or before its moments: %s", start)
		require.True(t, next.After(at), "the next one behind them: %s", next)
		require.Equal(t, start.Unix(), c.start(start).Unix(), "a start is its own start")
		require.Equal(t, next.Unix(), c.start(next).Unix(), "so is the next one")
		require.Equal(t, start.Unix(), c.start(next.Add(-time.Second)).Unix(), "and there is nothing between the two")

		if format := shown[c.Unit]; format != "" {
			// Clocks that were set back over midnight show the old day again, within the new one.
			if _, offset := start.Zone(); sameOffset(start, next.Add(-time.Second), offset) {
				require.Equal(t, start.Format(format), next.Add(-time.Second).In(c.Zone).Format(format))
				require.Equal(t, start.Format(format), at.In(c.Zone).Format(format))
			}
		} else if start.Equal(c.Midnight(start.Date())) {
			require.Equal(t, time.Monday, start.Weekday())
		}
	})
}

func sameOffset(a, b time.Time, offset int) bool {
	for _, t := range []time.Time{a, b} {
		if _, o := t.Zone(); o != offset {
			return false
		}
	}
	ends := offsetEnds(a)
	return ends.IsZero() || ends.After(b)
}

func TestPeriods(t *testing.T) {
	for _, c := range []struct{ zone, text, from, to string }{
		{"UTC", "2026-11", "2026-11-01T00:00:00Z", "2026-12-01T00:00:00Z"},
		{"Europe/Berlin", "2026-10", "2026-10-01T00:00:00+02:00", "2026-11-01T00:00:00+01:00"},
		{"America/New_York", "2026-11", "2026-11-01T00:00:00-04:00", "2026-12-01T00:00:00-05:00"},
		{"America/New_York", "2026-03-08", "2026-03-08T00:00:00-05:00", "2026-03-09T00:00:00-04:00"},
		{"UTC", "2026-W48", "2026-11-23T00:00:00Z", "2026-11-30T00:00:00Z"},
		{"Europe/Berlin", "2026-W53", "2026-12-28T00:00:00+01:00", "2027-01-04T00:00:00+01:00"},
		{"UTC", "2027-W01", "2027-01-04T00:00:00Z", "2027-01-11T00:00:00Z"},
		{"UTC", "2025-W01", "2024-12-30T00:00:00Z", "2025-01-06T00:00:00Z"},
		{"Africa/Cairo", "2026-04-24", "2026-04-24T01:00:00+03:00", "2026-04-25T00:00:00+03:00"},
	} {
		zone, err := Zone(c.zone)
		require.NoError(t, err)
		from, to, err := Period(c.text, zone)
		require.NoError(t, err, c.text)
		require.Equal(t, []string{c.from, c.to}, []string{from.Format(time.RFC3339), to.Format(time.RFC3339)})
		require.Equal(t, c.text, Name(from.UTC(), to.UTC(), zone))
		require.Empty(t, Name(from.Add(time.Millisecond), to, zone))
		require.Empty(t, Name(from, to.Add(time.Millisecond), zone))
	}
	for _, text := range []string{"", "2026", "2026-00", "2026-13", "2026-1", "2026-W00", "2026-W54", "2025-W53", "2026-W1", "2026-02-29", "2026-11-31", "1969-12", "9999-12", "2026-11-01T00:00:00Z", " 2026-11", "2026-11\n", "２０２６-11"} {
		_, _, err := Period(text, time.UTC)
		require.ErrorContains(t, err, "2026-W48", "%q", text)
	}
	samoa, err := Zone("Pacific/Apia")
	require.NoError(t, err)
	_, _, err = Period("2011-12-30", samoa)
	require.ErrorContains(t, err, "Pacific/Apia", "a day that never was")
}
