package route_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/control/route"
	"muniment.example/gateway/api"
)

// TestParseTime is the table of spellings.
func TestParseTime(t *testing.T) {
	const (
		noTime = "must be a date, such as 2026-11-01, or a time, such as 2026-11-01T12:00:00Z or 20261101T120000Z"
		noZone = "has no time zone: end it with Z, or with an offset such as +01:00"
	)
	for _, c := range []struct{ text, want string }{ // in UTC, or the fault
		{"2026-11-01T12:34:56Z", "2026-11-01T12:34:56Z"},
		{"2026-11-01T12:34:56+01:00", "2026-11-01T11:34:56Z"},
		{"2026-11-01T12:34:56-0130", "2026-11-01T14:04:56Z"},
		{"2026-11-01T12:34:56+01", "2026-11-01T11:34:56Z"},
		{"2026-11-01T00:30:00+14:00", "2026-10-31T10:30:00Z"},
		{"2026-11-01T12:34:56-00:00", "2026-11-01T12:34:56Z"},
		{"2026-11-01T12:34Z", "2026-11-01T12:34:00Z"},
		{"2026-11-01T12:34+0100", "2026-11-01T11:34:00Z"},
		{"2026-11-01T12:34:56.7Z", "2026-11-01T12:34:56.7Z"},
		{"2026-11-01T12:34:56,789+01:00", "2026-11-01T11:34:56.789Z"},
		{"2026-11-01T12:34:56.123456789Z", "2026-11-01T12:34:56.123456789Z"},
		{"2026-11-01T12:34:56.12345678999Z", "2026-11-01T12:34:56.123456789Z"},
		{"20261101T123456Z", "2026-11-01T12:34:56Z"},
		{"20261101T1234Z", "2026-11-01T12:34:00Z"},
		{"20261101T123456,5+0100", "2026-11-01T11:34:56.5Z"},
		{"20261101T123456.5+01:00", "2026-11-01T11:34:56.5Z"},
		{"2026-11-01", "2026-11-01T00:00:00Z"},
		{"20261101", "2026-11-01T00:00:00Z"},
		{"2028-02-29", "2028-02-29T00:00:00Z"},
		{"0000-01-01T00:00:00Z", "0000-01-01T00:00:00Z"},
		{"9999-12-31T23:59:59.999Z", "9999-12-31T23:59:59.999Z"},

		{"2026-11-01T12:34:56", noZone},
		{"2026-11-01T12:34", noZone},
		{"20261101T123456,5", noZone},
		{"2026-11-01T24:00:00Z", "hour 24 is out of range: the last is 23"},
		{"2026-11-01T24:00:00", "hour 24 is out of range: the last is 23"},
		{"2026-11-01T12:60Z", "minute 60 is out of range: the last is 59"},
		{"2016-12-31T23:59:60Z", "second 60 is out of range: the last is 59"},
		{"2026-13-01", "month 13 is out of range: the last is 12"},
		{"2026-00-01", "month 0 is out of range: the first is 1"},
		{"2026-11-00", "day 0 is out of range: the first is 1"},
		{"2026-11-31", "day 31 is out of range: the last is 30"},
		{"2026-02-29T12:00:00Z", "day 29 is out of range: the last is 28"},
		{"2026-11-01T12:00:00+24:00", "offset hour 24 is out of range: the last is 23"},
		{"2026-11-01T12:00:00+0160", "offset minute 60 is out of range: the last is 59"},
		{"", noTime},
		{"yesterday", noTime},
		{"1793534400", noTime},
		{"2026", noTime},
		{"2026-11", noTime},
		{"202611", noTime},
		{"2026-W44-7", noTime},
		{"2026W447", noTime},
		{"2026-305", noTime},
		{"2026305", noTime},
		{"2026-11-01T12", noTime},
		{"2026-11-01T12Z", noTime},
		{"2026-11-01T", noTime},
		{"2026-11-01Z", noTime},
		{"2026-11-01+01:00", noTime},
		{"-0044-03-15", noTime},
		{"+12026-11-01T12:00:00Z", noTime},
		{"12026-11-01T12:00:00Z", noTime},
		{"26-11-01", noTime},
		{"2026-1-1", noTime},
		{"2026-11-01T1:00:00Z", noTime},
		{"2026-11-01 12:00:00Z", noTime},
		{"2026-11-01t12:00:00z", "2026-11-01T12:00:00Z"},
		{" 2026-11-01", noTime},
		{"2026-11-01\n", noTime},
		{"20261101T12:34:56Z", noTime},
		{"2026-11-01T123456Z", noTime},
		{"2026-1101", noTime},
		{"2026-11-01T12:34.5Z", noTime},
		{"2026-11-01T12:34:56.Z", noTime},
		{"2026-11-01T12:34:56+1:00", noTime},
		{"2026-11-01T12:34:56 01:00", noTime},
		{"2026-11-01T12:34:56+01:00Z", noTime},
		{"２０２６-11-01", noTime},
	} {
		at, err := route.ParseTime(c.text, time.UTC)
		if err != nil {
			require.Equal(t, c.want, err.Error(), c.text)
			continue
		}
		require.Equal(t, c.want, at.Format(time.RFC3339Nano), c.text)
		require.Equal(t, time.UTC, at.Location(), c.text)
	}
}

// TestGivenTimes: times outside the years that records can store are refused.
func TestGivenTimes(t *testing.T) {
	fault := func(text string) string {
		_, err := route.Given("at", &text)
		require.Error(t, err, text)
		return err.Error()
	}
	none, err := route.Given[string]("at", nil)
	require.NoError(t, err)
	require.True(t, none.IsZero())
	for _, bad := range []string{"1969-12-31T23:59:59.999Z", "0001-01-01", "9999-12-31T23:59:59-01:00"} {
		require.Equal(t, string(api.ValidationFailed)+": at: must be within the years 1970 to 9999", fault(bad), bad)
	}
	require.Contains(t, fault("2026-11-01T12:00"), "at: has no time zone")
	first := "1970-01-01"
	at, err := route.Given("at", &first)
	require.NoError(t, err)
	require.Equal(t, "1970-01-01T00:00:00.000Z", at.String())
}

// TestWindows: a bound of less than a millisecond is rounded up.
func TestWindows(t *testing.T) {
	from, to, err := route.Window{From: "20261101", To: "2026-11-01T12:00:00,0001Z"}.Bounds()
	require.NoError(t, err)
	require.Equal(t, "2026-11-01T00:00:00.000Z", from.String())
	require.Equal(t, "2026-11-01T12:00:00.001Z", to.String())
	_, _, err = route.Window{From: "2026-11-01T12:00:00"}.Bounds()
	require.ErrorContains(t, err, "from: has no time zone")
	_, _, err = route.Window{To: "2026-11-01T12:00:00 01:00"}.Bounds()
	require.ErrorContains(t, err, "to: has a space: in a query, + is written as %2B")
}

// TestEnds: what is finer than the milliseconds of records selects the same, and nothing ends between two moments in the wrong order.
func TestEnds(t *testing.T) {
	after, by, err := route.Ends{EndsAfter: "20261101", EndsBy: "2026-11-01T12:00:00,0009Z"}.Bounds()
	require.NoError(t, err)
	require.Equal(t, "2026-11-01T00:00:00.000Z", after.String())
	require.Equal(t, "2026-11-01T12:00:00.000Z", by.String())
	after, by, err = route.Ends{EndsBy: "2026-11-01"}.Bounds()
	require.NoError(t, err)
	require.True(t, after.IsZero())
	require.False(t, by.IsZero())
	for field, e := range map[string]route.Ends{"endsAfter: has no time zone": {EndsAfter: "2026-11-01T12:00:00"}, "endsBy: has a space": {EndsBy: "2026-11-01T12:00:00 01:00"}, "endsBy: must be later than endsAfter": {EndsAfter: "2026-11-01", EndsBy: "2026-11-01"}, "endsBy: must be within the years": {EndsBy: "1969-01-01"}} {
		_, _, err := e.Bounds()
		require.ErrorContains(t, err, field)
	}
}

// FuzzParseTime: times in RFC 3339 are read as Go reads them, and all spellings of a time are the
// same time.
func FuzzParseTime(f *testing.F) {
	f.Add("2026-11-01T12:34:56.789+01:00", int64(1793536496), int32(789_000_000), 60)
	f.Add("20261101T1234Z", int64(0), int32(0), -1439)
	f.Add("2026-11-01", int64(253402300799), int32(999_999_999), 0)
	f.Fuzz(func(t *testing.T, text string, seconds int64, nanos int32, offset int) {
		at, err := route.ParseTime(text, time.UTC)
		if err == nil {
			require.Equal(t, time.UTC, at.Location())
			again, err := route.ParseTime(at.Format(time.RFC3339Nano), time.UTC)
			require.True(t, err != nil && (at.Year() < 0 || at.Year() > 9999) || err == nil && again.Equal(at), "%q is %s, then %s", text, at, again)
		}
		if go3339, goErr := time.Parse(time.RFC3339Nano, text); goErr == nil && err == nil {
			require.True(t, go3339.Equal(at), "%q is %s, not %s", text, go3339, at)
		}

		offset %= 24 * 60
		want := time.Unix(((seconds%253402300800)+253402300800)%253402300800, int64(nanos)&0x1fffffff).In(time.FixedZone("", offset*60))
		if y := want.Year(); y < 0 || y > 9999 {
			return
		}
		for _, date := range []string{"2006-01-02T15:04:05", "20060102T150405"} {
			for _, fraction := range []string{".000000000", ",000000000"} {
				for _, zone := range []string{"Z07:00", "Z0700", "-07:00", "-0700"} {
					text := want.Format(date + fraction + zone)
					at, err := route.ParseTime(text, time.UTC)
					require.NoError(t, err, text)
					require.True(t, want.Equal(at), "%q is %s, not %s", text, want, at)
				}
			}
		}
		whole := fmt.Sprintf("%04d-%02d-%02d", want.Year(), want.Month(), want.Day())
		at, err = route.ParseTime(whole, time.UTC)
		require.NoError(t, err, whole)
		require.Equal(t, whole+"T00:00:00Z", at.Format(time.RFC3339))
	})
}
