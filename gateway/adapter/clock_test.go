package adapter

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestWallClocks holds every quarter of an hour around changes of clocks against a search of
// all moments that show it.
func TestWallClocks(t *testing.T) {
	for _, change := range []struct{ zone, day string }{
		{"Europe/Berlin", "2026-10-25"}, {"Europe/Berlin", "2026-03-29"}, {"America/New_York", "2026-11-01"},
		{"Australia/Lord_Howe", "2026-04-05"}, {"Australia/Lord_Howe", "2026-10-04"}, // by half an hour
		{"Pacific/Apia", "2011-12-30"}, // a day that never was
		{"Africa/Casablanca", "2026-02-15"}, {"America/St_Johns", "2026-11-01"}, {"Asia/Kolkata", "2026-01-01"}, {"UTC", "2026-01-01"},
	} {
		zone, err := readZone(change.zone)
		require.NoError(t, err)
		day, err := time.Parse(time.DateOnly, change.day)
		require.NoError(t, err)
		const layout = "2006-01-02T15:04:05"
		showing := map[string][]time.Time{}
		for at := day.Add(-72 * time.Hour); at.Before(day.Add(72 * time.Hour)); at = at.Add(15 * time.Minute) {
			wall := at.In(zone).Format(layout)
			showing[wall] = append(showing[wall], at)
		}
		for wall := day.Add(-24 * time.Hour); wall.Before(day.Add(48 * time.Hour)); wall = wall.Add(15 * time.Minute) {
			text := wall.Format(layout)
			got, message := readTime(text, zone)
			switch moments := showing[text]; len(moments) {
			case 0:
				require.Contains(t, message, "skip", "%s %s", text, zone)
			case 1:
				require.Empty(t, message, "%s %s", text, zone)
				require.True(t, got.Equal(moments[0]), "%s %s is %s", text, zone, got)
			default:
				require.Contains(t, message, "twice", "%s %s", text, zone)
			}
		}
	}
}

func TestTimes(t *testing.T) {
	ahead, err := readZone(" 05:30") // a plus that was not escaped
	require.NoError(t, err)
	for text, want := range map[string]string{
		"2026-10-24T18:00:00Z":              "2026-10-24T18:00:00Z",
		"2026-10-24T18:00:00.123456789Z":    "2026-10-24T18:00:00.123456789Z",
		"2026-10-24T20:00:00+02:00":         "2026-10-24T18:00:00Z",
		"2026-10-24T8:15:07.127-05":         "2026-10-24T13:15:07.127Z",
		"2026-10-24 20:00:00+02:00":         "2026-10-24T18:00:00Z",
		"2026-10-24T18:00:00":               "2026-10-24T12:30:00Z",
		"2026-10-24 18:00:00.5":             "2026-10-24T12:30:00.5Z",
		"2026-10-24":                        "",
		"24.10.2026 18:00":                  "",
		"2026-02-30T00:00:00Z":              "",
		"2026-10-24T24:00:00Z":              "",
		"2026-10-24T18:00:00 Europe/Berlin": "",
		"":                                  "",
	} {
		got, message := readTime(text, ahead)
		if want == "" {
			require.Equal(t, msgNoTime, message, text)
			continue
		}
		require.Empty(t, message, text)
		require.Equal(t, want, stamp(got), text)
	}
	_, message := readTime("2026-10-24T18:00:00", nil)
	require.Equal(t, msgNoZone, message)
	require.Empty(t, stamp(time.Date(0, 12, 31, 0, 0, 0, 0, time.UTC)))
	require.Empty(t, stamp(time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)))
}

func TestEpochs(t *testing.T) {
	for count, want := range map[float64]string{1792864800.1255: "2026-10-24T18:00:00.126Z", 0: "1970-01-01T00:00:00Z", 253402300799: "9999-12-31T23:59:59Z"} {
		at, ok := ofEpoch(count, time.Second)
		require.True(t, ok)
		require.Equal(t, want, stamp(at))
	}
	for _, count := range []float64{-1, 253402300800, math.Inf(1), math.NaN(), math.MaxFloat64} {
		_, ok := ofEpoch(count, time.Second)
		require.False(t, ok, count)
	}
	at, ok := ofEpoch(1792864800125, time.Millisecond)
	require.True(t, ok)
	require.Equal(t, "2026-10-24T18:00:00.125Z", stamp(at))
}
