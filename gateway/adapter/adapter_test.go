package adapter

import (
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"

	"muniment.example/gateway/api"
)

func TestLookup(t *testing.T) {
	require.True(t, slices.IsSorted(Names()))
	for _, name := range Names() {
		f, ok := Lookup(name, "application/json")
		require.True(t, ok)
		require.Equal(t, name, f.Name)
	}
	for mediaType, name := range map[string]string{
		"text/csv; charset=utf-8": "csv", "TEXT/CSV": "csv", "text/uri-list": "vast",
		"application/cloudevents+json": "cloudevents", "application/cloudevents-batch+json; charset=utf-8": "cloudevents",
	} {
		f, ok := Lookup("", mediaType)
		require.True(t, ok, mediaType)
		require.Equal(t, name, f.Name)
	}
	f, ok := Lookup("broadsign", "text/csv")
	require.True(t, ok)
	require.Equal(t, "broadsign", f.Name, "what the caller says comes first")
	for _, other := range [][2]string{{"", ""}, {"", "application/json"}, {"", "application/x-ndjson"}, {"", "text/csv/x;"}, {"Broadsign", ""}, {"text/csv", ""}, {"nonsense", "text/csv"}} {
		_, ok := Lookup(other[0], other[1])
		require.False(t, ok, other)
	}
}

// TestOptions: a parameter that is misspelt, out of place or out of bounds is not passed over.
func TestOptions(t *testing.T) {
	for _, bad := range []struct{ format, query, message string }{
		{"broadsign", "idtype=frame_id", `unknown parameter "idtype": the format broadsign takes format, idType, multiplier, tz, vendor`},
		{"broadsign", "column.playedAt=x", `unknown parameter "column.playedAt"`},
		{"csv", "multiplier=none", `the format csv takes format, column.<field>, idType, separator, timeFormat, tz, vendor`},
		{"cloudevents", "vendor=x", `unknown parameter "vendor": the format cloudevents takes format`},
		{"dv360", "tz=UTC", `unknown parameter`},
		{"broadsign", "vendor=a&vendor=b", `must be given once`},
		{"broadsign", "vendor=", `must be given once, with 1 to 512 bytes`},
		{"broadsign", "vendor=" + strings.Repeat("v", 513), `must be given once, with 1 to 512 bytes`},
		{"broadsign", "idType=screen", `idType: unknown id "screen": the format broadsign has display_unit_id, frame_id`},
		{"broadsign", "idType=frame_id,", `idType: unknown id ""`},
		{"broadsign", "idType=frame_id,frame_id", `idType: frame_id is given twice`},
		{"broadsign", "multiplier=2", `multiplier: must be none`},
		{"broadsign", "tz=Local", `tz: unknown zone "Local"`},
		{"broadsign", "tz=Europe", `tz: unknown zone "Europe"`},
		{"broadsign", "tz=../../etc/passwd", `unknown zone`},
		{"broadsign", "tz=%2B2", `unknown zone`},
		{"openrtb", "dwellMs=long", `dwellMs: must be a number`},
		{"openrtb", "dwellMs=-1", `dwellMs: must be from 0`},
	} {
		f, ok := Lookup(bad.format, "")
		require.True(t, ok)
		query, err := url.ParseQuery(bad.query)
		require.NoError(t, err)
		n := 0
		for row, err := range f.Rows(Header{Query: query}, examples(t, bad.format)[0].document) {
			n++
			require.Nil(t, row)
			require.IsType(t, new(DocumentError), err)
			require.ErrorContains(t, err, bad.message, bad.query)
		}
		require.Equal(t, 1, n, bad.query)
	}
}

// TestRowsStopWithTheCaller: no row is made that the caller does not take, and none is handed out after the
// caller has enough.
func TestRowsStopWithTheCaller(t *testing.T) {
	for _, x := range examples(t, "*") {
		for most := range 3 {
			n := 0
			for range x.format.Rows(x.header, x.document) {
				if n++; n > most {
					break
				}
			}
			require.LessOrEqual(t, n, most+1, x.name)
		}
	}
}

// TestRowsAreTheCallers: a row stays what it was while the next ones are read.
func TestRowsAreTheCallers(t *testing.T) {
	for _, x := range examples(t, "*") {
		var kept [][]byte
		var copies []string
		for row := range x.format.Rows(x.header, x.document) {
			kept, copies = append(kept, row), append(copies, string(row))
		}
		for i := range kept {
			require.Equal(t, copies[i], string(kept[i]), x.name)
		}
	}
}

// TestPlaysThatEndAhead: in every format a play that begins, or ends, too far ahead is refused by the
// field that says so, and one that ends just in time is not.
func TestPlaysThatEndAhead(t *testing.T) {
	begins := map[string]string{"broadsign": "end_time", "cloudevents": "time|playedAt", "xibo": "fromdt|FromDT", "csv": "playedAt|When|at|Start|start", "dv360": "startTime", "omsdk": "timestamp",
		"openrtb": "AUCTION_IMP_TS", "vast": "timestamp", "vistar": "display_time"}
	ends := map[string]string{"xibo": "todt|ToDT|uration", "broadsign": "end_time", "cloudevents": "dwellMs", "csv": "dwellMs|dwellSeconds|Seconds|Length|dwell|Duration|End", "dv360": "endTime", "omsdk": "timestamp",
		"openrtb": "bid.dur", "vast": "timestamp", "vistar": "length_in_"}
	for _, x := range examples(t, "*") {
		n := 0
		for text, err := range x.format.Rows(x.header, x.document) {
			n++
			if err != nil {
				continue
			}
			var row api.Row
			require.NoError(t, json.Unmarshal(text, &row))
			from, err := time.Parse(time.RFC3339, row.PlayedAt)
			require.NoError(t, err)
			end := from.Add(time.Duration(row.DwellMs * float64(time.Millisecond)))
			at := func(now time.Time) (fault error) {
				h, i := x.header, 0
				h.Now = now
				for _, err := range x.format.Rows(h, x.document) {
					if i++; i == n {
						return err
					}
				}
				t.Fatal(x.name)
				return nil
			}
			require.NoError(t, at(end.Add(-5*time.Minute)), x.name)
			early := at(from.Add(-5*time.Minute - time.Second))
			require.ErrorContains(t, early, "more than 5 minutes ahead", x.name)
			require.Regexp(t, begins[x.format.Name], early.(*RowError).Field, x.name)
			if row.DwellMs > 1 {
				early = at(end.Add(-5*time.Minute - time.Millisecond))
				require.ErrorContains(t, early, "more than 5 minutes ahead", x.name)
				require.Regexp(t, ends[x.format.Name], early.(*RowError).Field, x.name)
			}
		}
	}
}
