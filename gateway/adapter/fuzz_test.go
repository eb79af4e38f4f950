package adapter

import (
	"net/url"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"

	"muniment.example/gateway/api"
)

func FuzzBroadsign(f *testing.F)    { fuzz(f, broadsign) }
func FuzzVistar(f *testing.F)       { fuzz(f, vistar) }
func FuzzDisplayVideo(f *testing.F) { fuzz(f, dv360) }
func FuzzOpenRTB(f *testing.F)      { fuzz(f, openRTB) }
func FuzzVAST(f *testing.F)         { fuzz(f, vast) }
func FuzzOMSDK(f *testing.F)        { fuzz(f, omSDK) }
func FuzzCloudEvents(f *testing.F)  { fuzz(f, cloudEvents) }
func FuzzCSV(f *testing.F)          { fuzz(f, csvColumns) }
func FuzzXibo(f *testing.F)         { fuzz(f, xibo) }

// fuzz reads documents with parameters and header fields, these as lines "name: value". Each
// element is a whole row or says what is wrong; and a document is read the same way twice.
func fuzz(f *testing.F, format Format) {
	for _, x := range examples(f, format.Name) {
		fields := ""
		for _, name := range []string{"content-type", "ce-specversion", "ce-id", "ce-source", "ce-type", "ce-time"} {
			if value := x.header.Field(name); value != "" {
				fields += name + ": " + value + "\n"
			}
		}
		f.Add(x.document, x.header.Query.Encode(), fields)
	}
	f.Fuzz(func(t *testing.T, document []byte, parameters, fields string) {
		query, _ := url.ParseQuery(parameters)
		header := Header{Query: query, Now: time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC), Field: func(name string) string {
			for line := range strings.Lines(fields) {
				if value, ok := strings.CutPrefix(line, name+": "); ok {
					return strings.TrimSpace(value)
				}
			}
			return ""
		}}
		x := example{format: format, header: header, document: document}
		before := string(document)
		elements := 0
		for row, err := range format.Rows(header, document) {
			elements++
			switch err := err.(type) {
			case nil:
				checkRow(t, row)
			case *RowError:
				require.Nil(t, row)
				require.NotEmpty(t, err.Message)
				require.LessOrEqual(t, len(err.Error()), 1000)
			case *DocumentError:
				require.Nil(t, row)
				require.NotEmpty(t, err.Message)
				require.Equal(t, 1, elements, "a document that can't be read has no rows")
			default:
				t.Fatalf("%T: %s", err, err)
			}
			if elements > mostSessions {
				break
			}
		}
		require.Equal(t, before, string(document))
		require.Equal(t, render(x), render(x))
	})
}

var multiplier = regexp.MustCompile(`^[0-9]{1,5}(\.[0-9]{1,4})?$`)

// checkRow holds a row against what a batch takes.
func checkRow(t *testing.T, text []byte) {
	var row api.Row
	require.NoError(t, json.Unmarshal(text, &row, json.RejectUnknownMembers(true)), "%s", text)
	require.True(t, jsontext.Value(text).IsValid(), "%s", text)
	require.NotContains(t, string(text), "\n")
	at, err := time.Parse(time.RFC3339, row.PlayedAt)
	require.NoError(t, err)
	require.Equal(t, row.PlayedAt, stamp(at))
	require.GreaterOrEqual(t, row.DwellMs, 0.0)
	require.LessOrEqual(t, row.DwellMs, float64(maxDwellMs))
	for _, field := range reflect.ValueOf(row).Fields() {
		if field.Kind() == reflect.String {
			require.LessOrEqual(t, field.Len(), maxText)
		}
	}
	if row.Multiplier != "" {
		require.Regexp(t, multiplier, row.Multiplier.String())
		count, err := row.Multiplier.Float64()
		require.NoError(t, err)
		require.Greater(t, count, 0.0)
		require.LessOrEqual(t, count, float64(maxMultiplier))
	}
	if len(row.Telemetry) > 0 {
		require.Equal(t, jsontext.KindBeginObject, jsontext.Value(row.Telemetry).Kind())
	}
}
