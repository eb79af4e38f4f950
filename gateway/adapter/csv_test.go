package adapter

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestTimeFormats: each form that the parameter names reads a time as it is written, and nothing else.
func TestTimeFormats(t *testing.T) {
	at := time.Date(2026, 10, 24, 18, 5, 9, 0, time.UTC)
	for format, layout := range map[string]string{
		"DD/MM/YYYY HH:mm:ss": "02/01/2006 15:04:05", "YYYY-MM-DD HH:mm:ss": "2006-01-02 15:04:05", "MM-DD-YYYY hh:mm:ss A": "01-02-2006 03:04:05 PM",
		"d.M.yyyy HH:mm:ss": "2.1.2006 15:04:05", "yyyy/MM/dd'T'": "", "DD MMM YYYY, HH:mm:ss": "02 Jan 2006, 15:04:05", "YYYYMMDD HHmmss": "20060102 150405",
		"%d/%m/%Y %H:%M:%S": "02/01/2006 15:04:05", "%Y-%m-%dT%H:%M:%S%z": "2006-01-02T15:04:05Z0700", "%B %d %Y %I:%M:%S %p": "January 02 2006 03:04:05 PM",
		"us": "1/2/2006 15:04:05", "european": "2.1.2006 15:04:05", "MM/DD": "", "HH:mm": "", "tomorrow": "", "%Q": "",
	} {
		query := url.Values{"timeFormat": {format}, "tz": {"UTC"}}
		document := "rightId,spatialAnchorId,playedAt,dwellMs\nr,a,\"" + at.Format(layout) + "\",1\nr,a,yesterday,1\n"
		got := render(example{format: csvColumns, header: Header{Query: query, Now: at}, document: []byte(document)})
		if layout == "" {
			require.Contains(t, got, "-- timeFormat: must be", format)
			continue
		}
		require.Equal(t, 2, strings.Count(got, "\n"), format)
		require.Contains(t, got, `{"playedAt":"2026-10-24T18:05:09Z","dwellMs":1,`, "%s: %s", format, document)
		require.Contains(t, got, "- line 3, playedAt: must be a time", format)
	}
}

// TestDatesOfBothOrders: where the file has both, a date that can be read in two ways is refused, wherever
// the file is cut.
func TestDatesOfBothOrders(t *testing.T) {
	header := Header{Query: url.Values{"tz": {"UTC"}}, Now: time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC), Field: func(string) string { return "" }}
	lines := []string{"rightId,spatialAnchorId,playedAt,dwellMs\n", "r,a,13/10/2026 10:00,1\n", "r,a,11/10/2026 10:00,1\n", "r,a,10/13/2026 10:00,1\n"}
	table, err := ReadTable(header, []byte(lines[0]))
	require.NoError(t, err)
	for _, line := range lines[1:] {
		require.NoError(t, table.Learn([]byte(line)))
	}
	for _, options := range []url.Values{header.Query, table.Options()} {
		h := header
		h.Query = options
		got := render(example{format: csvColumns, header: h, document: []byte(strings.Join(lines, ""))})
		require.Equal(t, 2, strings.Count(got, `"playedAt":"2026-10-13T10:00:00Z"`), got)
		require.Contains(t, got, "- line 3, playedAt: is ambiguous")
	}
	h := header
	h.Query = table.Options()
	require.Contains(t, render(example{format: csvColumns, header: h, document: []byte(strings.Join(lines[:3], ""))}), "- line 3, playedAt: is ambiguous")
}

// TestNumbersThatMayBeThousands: 8.200 milliseconds are refused, and so are 1,500 seconds between commas.
func TestNumbersThatMayBeThousands(t *testing.T) {
	for text, want := range map[string]string{
		"dwellMs;8.200": "is ambiguous", "dwellMs;8,200": "is ambiguous", "dwellMs;8200.125": "8200.125", "dwellMs;8,2": "8.2", "dwellMs;0.125": "0.125", "dwellMs;8200": "8200",
		"dwellSeconds;8.200": "8200", "dwellSeconds;8,200": "8200", "dwellSeconds,8.200": "8200", "dwellSeconds,\"8,200\"": "is ambiguous", "dwellSeconds,\"8,2\"": "8200", "dwellSeconds\t1,500": "is ambiguous",
	} {
		at := strings.IndexAny(text, ",;\t")
		separator := text[at : at+1]
		document := strings.ReplaceAll("rightId,spatialAnchorId,playedAt,", ",", separator) + text[:at] + "\n" + strings.ReplaceAll("r,a,2026-10-24T18:00:00Z,", ",", separator) + text[at+1:] + "\n"
		got := render(example{format: csvColumns, header: Header{Now: time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)}, document: []byte(document)})
		if strings.HasPrefix(want, "is") {
			require.Contains(t, got, want, document)
		} else {
			require.Contains(t, got, `"dwellMs":`+want+`,`, document)
		}
	}
}

// TestMacros: what a player did not replace is known by its form, and ids are not taken for it.
func TestMacros(t *testing.T) {
	for _, macro := range []string{"[X]", "[cachebusting]", "[ADSERVINGID]", "%%CACHEBUSTER%%", "%%cb%%", "${X}", "${AUCTION_PRICE:B64}", "{X}", "{{x}}", "{cb}", "-1", "-2", "a-[TIMESTAMP]", "x${CB}y"} {
		require.True(t, Unreplaced(macro), macro)
	}
	for _, value := range []string{"", "-3", "1", "{3F2504E0-4F89-11D3-9A0C-0305E82C3301}", "{AF2504E0-4F89-11D3-9A0C-0305E82C3301}", "[17]", "a[b]", "100%", "%%", "{}", "$x", "play-1"} {
		require.False(t, Unreplaced(value), value)
	}
}

// TestXiboIsReadForItsStatsAlone: nothing else of the XML matters, and no tag costs more than its text.
func TestXiboIsReadForItsStatsAlone(t *testing.T) {
	x := example{format: xibo, header: Header{Query: url.Values{"display": {"d"}}, Now: time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)}}
	const stat = `type="media" fromdt="2026-10-24T18:00:00Z" todt="2026-10-24T18:00:08Z" layoutid="1&amp;2" mediaid='3"4'`
	x.document = []byte("<stats><stat " + stat + "/></stats>")
	want := render(x)
	require.Contains(t, want, `"spatialPlacementId":"1&2","correlationId":"3\"4"`)
	for _, document := range []string{
		"<?xml version='1.0' encoding='ISO-8859-1'?><stats><stat tag=\"caf\xe9 \x01 > &nope; <\" " + stat + "></stat></stats>",
		"<!-- <stat type='media'/> --><a><![CDATA[<stat type='media'/>]]><statistics/><stat\n" + stat + " x y=1 z>text</stat>",
		"\xef\xbb\xbf<stat " + stat + ">", "<stats><stat " + stat + "/><stat type='event'/>",
	} {
		x.document = []byte(document)
		require.Equal(t, want, render(x), "%q", document)
	}
	x.document = []byte("<stat " + strings.Replace(stat, `mediaid='3"4'`, "mediaid='\xff'", 1) + "/>")
	require.Equal(t, "- stat[0].mediaid: must be text in UTF-8\n", render(x))
	x.document = []byte("<stat " + stat + " duration='8000'/>")
	require.Equal(t, "- stat[0].duration: is longer than from fromdt to todt\n", render(x))
}
