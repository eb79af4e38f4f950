package console

import (
	"os"
	"path/filepath"
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

// TestTimesAreOfTheTenantsZone: a moment is shown and taken by the clocks of the tenant, on days on which they change, too;
// a period is named by its first and last day.
func TestTimesAreOfTheTenantsZone(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	require.NoError(t, err)
	z := zone{berlin}
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
		got, ok := z.read(text)
		require.True(t, ok, text)
		require.True(t, got.Equal(at(t, want)), "%s is %s", text, got)
		again, ok := z.read(z.field(got))
		require.True(t, ok, text)
		require.True(t, got.Equal(again), "a field keeps %s", text)
	}
	for _, text := range []string{"", "November 2026", "2026-11", "2026-W48", "2026-13-01", "2026-02-30"} {
		_, ok := z.read(text)
		require.False(t, ok, text)
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

// TestNothingElseWritesTimes: no page goes past the zone.
func TestNothingElseWritesTimes(t *testing.T) {
	names, err := filepath.Glob("*.go")
	require.NoError(t, err)
	for _, name := range names {
		if name == "zone.go" || strings.HasSuffix(name, "_test.go") {
			continue
		}
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		for _, past := range []string{".UTC()", "time.UTC)", "time.Parse(time.RFC3339"} {
			require.NotContains(t, string(text), past, name)
		}
	}
}
