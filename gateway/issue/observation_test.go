package issue

import (
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"

	"muniment.example/gateway/api"
	"muniment.example/gateway/issue/issuetest"
	"muniment.example/sealer"
)

const good = `"rightId":"rgh_1","spatialAnchorId":"a","dwellMs":1`

func TestBodies(t *testing.T) {
	deep := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	var o Observation
	for _, c := range []struct {
		name, body string
		status     int
		field      string
	}{
		{"good", `{` + good + `}`, 0, ""},
		{"white space around", " \r\n{" + good + "}\t\n", 0, ""},
		{"empty", ``, 400, ""},
		{"trailing bytes", `{` + good + `}x`, 400, ""},
		{"two values", `{` + good + `}{}`, 400, ""},
		{"invalid UTF-8", "{" + good + ",\"x\":\"\xff\"}", 400, ""},
		{"lone surrogate", `{` + good + `,"x":"\ud800"}`, 400, ""},
		{"raw control character", "{" + good + ",\"x\":\"\n\"}", 400, ""},
		{"NaN", `{"dwellMs":NaN}`, 400, ""},
		{"leading zero", `{"dwellMs":01}`, 400, ""},
		{"comma at the end", `{` + good + `,}`, 400, ""},
		{"depth 32", `{` + good + `,"x":` + deep(31) + `}`, 0, ""},
		{"depth 33", `{` + good + `,"x":` + deep(32) + `}`, 400, ""},
		{"depth 33 in telemetry", `{` + good + `,"telemetry":{"x":` + deep(31) + `}}`, 400, ""},
		{"depth 10,000", `{` + good + `,"x":` + deep(10_000) + `}`, 400, ""},
		{"wide, not deep", `{` + good + `,"x":[` + strings.Repeat(`{},`, 100) + `1]}`, 0, ""},
		{"brackets in a string", `{` + good + `,"x":"\"` + strings.Repeat("[", 100) + `"}`, 0, ""},

		{"array", `[1]`, 422, "body"},
		{"string", `"x"`, 422, "body"},
		{"null", `null`, 422, "body"},
		{"array that is no JSON", `[1`, 400, ""},
		{"array with trailing bytes", `[1]]`, 400, ""},
		{"name twice", `{` + good + `,"dwellMs":2}`, 422, "dwellMs"},
		{"name twice, spelt differently", `{` + good + `,"\u0064wellMs":2}`, 422, "dwellMs"},
		{"unknown name twice", `{` + good + `,"x":1,"x":2}`, 422, "x"},
		{"name twice inside telemetry", `{` + good + `,"telemetry":{"muted":true,"muted":false}}`, 422, "telemetry.muted"},
		{"name twice far inside", `{"x":[0,{"a.b":{"y":1,"y":2}}],` + good + `}`, 422, "x.1.a.b.y"},
		{"name twice in an array body", `[{"y":1,"y":2}]`, 422, "0.y"},
		{"name twice, but no JSON", `{` + good + `,"dwellMs":2`, 400, ""},
		{"name twice, then trailing bytes", `{` + good + `,"dwellMs":2}x`, 400, ""},
		{"rightId missing", `{"spatialAnchorId":"a","dwellMs":1}`, 422, "rightId"},
		{"anchor missing", `{"rightId":"r","dwellMs":1}`, 422, "spatialAnchorId"},
		{"dwell missing", `{"rightId":"r","spatialAnchorId":"a"}`, 422, "dwellMs"},
		{"wrong case", `{"RIGHTID":"r","spatialAnchorId":"a","dwellMs":1}`, 422, "RIGHTID"},
		{"another one's case", `{` + good + `,"Telemetry":{"speedMph":90}}`, 422, "Telemetry"},
		{"a name twice, once misspelt", `{` + good + `,"right_id":"rgh_2"}`, 422, "right_id"},
		{"a misspelt name, escaped", `{` + good + `,"\u0052ight-Id":"rgh_2"}`, 422, "Right-Id"},
		{"a misspelt name of what is refused", `{` + good + `,"played_at":1}`, 422, "played_at"},
		{"a synonym", `{` + good + `,"duration":1,"placementId":"p","multiplier":2}`, 0, ""},
		{"a misspelt name further down", `{` + good + `,"x":{"right_id":1},"telemetry":{"Telemetry":1}}`, 0, ""},
		{"rightId null", `{"rightId":null,"spatialAnchorId":"a","dwellMs":1}`, 422, "rightId"},
		{"rightId empty", `{"rightId":"","spatialAnchorId":"a","dwellMs":1}`, 422, "rightId"},
		{"anchor empty", `{"rightId":"r","spatialAnchorId":"","dwellMs":1}`, 422, "spatialAnchorId"},
		{"anchor a number", `{"rightId":"r","spatialAnchorId":1,"dwellMs":1}`, 422, "spatialAnchorId"},
		{"anchor of 512 bytes", `{"rightId":"r","spatialAnchorId":"` + strings.Repeat("é", 256) + `","dwellMs":1}`, 0, ""},
		{"anchor of 513 bytes", `{"rightId":"r","spatialAnchorId":"` + strings.Repeat("é", 256) + `x","dwellMs":1}`, 422, "spatialAnchorId"},
		{"dwell negative", `{"rightId":"r","spatialAnchorId":"a","dwellMs":-0.001}`, 422, "dwellMs"},
		{"dwell minus zero", `{"rightId":"r","spatialAnchorId":"a","dwellMs":-0}`, 0, ""},
		{"dwell too large for a float", `{"rightId":"r","spatialAnchorId":"a","dwellMs":1e400}`, 422, "dwellMs"},
		{"dwell at its bound", `{"rightId":"r","spatialAnchorId":"a","dwellMs":68719476736}`, 0, ""},
		{"dwell above its bound", `{"rightId":"r","spatialAnchorId":"a","dwellMs":68719476737}`, 422, "dwellMs"},
		{"dwell a string", `{"rightId":"r","spatialAnchorId":"a","dwellMs":"1"}`, 422, "dwellMs"},
		{"placement null", `{` + good + `,"spatialPlacementId":null}`, 0, ""},
		{"placement empty", `{` + good + `,"spatialPlacementId":""}`, 0, ""},
		{"placement an object", `{` + good + `,"spatialPlacementId":{}}`, 422, "spatialPlacementId"},
		{"correlation a boolean", `{` + good + `,"correlationId":true}`, 422, "correlationId"},
		{"subject of 256 bytes", `{` + good + `,"dataSubjectId":"` + strings.Repeat("x", 256) + `"}`, 0, ""},
		{"subject of 257 bytes", `{` + good + `,"dataSubjectId":"` + strings.Repeat("x", 257) + `"}`, 422, "dataSubjectId"},
		{"subject empty", `{` + good + `,"dataSubjectId":""}`, 422, "dataSubjectId"},
		{"eight persons beside one", `{` + good + `,"dataSubjectId":"x","dataSubjectIds":["1","2","3","4","5","6","7","8"]}`, 0, ""},
		{"nine persons", `{` + good + `,"dataSubjectIds":["1","2","3","4","5","6","7","8","1"]}`, 422, "dataSubjectIds"},
		{"a person of 257 bytes", `{` + good + `,"dataSubjectIds":["1","` + strings.Repeat("x", 257) + `"]}`, 422, "dataSubjectIds[1]"},
		{"a person empty", `{` + good + `,"dataSubjectIds":[""]}`, 422, "dataSubjectIds[0]"},
		{"a person null", `{` + good + `,"dataSubjectIds":["1",null]}`, 422, "dataSubjectIds[1]"},
		{"persons null", `{` + good + `,"dataSubjectIds":null}`, 0, ""},
		{"no persons", `{` + good + `,"dataSubjectIds":[]}`, 0, ""},
		{"persons a text", `{` + good + `,"dataSubjectIds":"x"}`, 422, "dataSubjectIds"},
		{"persons cut off", `{` + good + `,"dataSubjectIds":["x"`, 400, ""},
		{"a name twice behind eight persons", `{` + good + `,"dataSubjectIds":["1","2","3","4","5","6","7","8",{"y":1,"y":2}]}`, 422, "dataSubjectIds.8.y"},
		{"a time of its own", `{"renderedAt":"2026-01-01T00:00:00Z",` + good + `}`, 422, "renderedAt"},
		{"a time of issue", `{` + good + `,"issuedAt":1}`, 422, "issuedAt"},
		{"a time of play", `{` + good + `,"playedAt":{"a":[1]}}`, 422, "playedAt"},
		{"a time, escaped", `{` + good + `,"played\u0041t":"2026-01-01"}`, 422, "playedAt"},
		{"a time that is null", `{` + good + `,"playedAt":null}`, 422, "playedAt"},
		{"a time further down", `{` + good + `,"x":{"playedAt":1},"telemetry":{"playedAt":1,"renderedAt":"x"}}`, 0, ""},
		{"telemetry null", `{` + good + `,"telemetry":null}`, 422, "telemetry"},
		{"telemetry a list", `{` + good + `,"telemetry":[]}`, 422, "telemetry"},
		{"telemetry wrong", `{` + good + `,"telemetry":{"linkState":"LOST"}}`, 422, "telemetry.linkState"},
	} {
		t.Run(c.name, func(t *testing.T) {
			body := []byte(c.body)
			err := o.Decode(body) // one observation for all: nothing of a body may stay
			require.Equal(t, c.body, string(body), "the body must not be written to")
			if c.status == 0 {
				require.NoError(t, err)
				return
			}
			require.Error(t, err)
			e := api.From(err)
			require.Equal(t, c.status, e.GetStatus(), e.Message)
			require.Equal(t, c.field, e.Field)
		})
	}
}

func TestDecodedValues(t *testing.T) {
	var o Observation
	require.NoError(t, o.Decode([]byte(`{"correlationId":"c\n1","spatialPlacementId":"p\u00e9","dataSubjectIds":["t\u00e9","s","u","t\u00e9"],"dataSubjectId":"s",`+good+`,"telemetry":{"muted":true}}`)))
	require.Equal(t, []any{"rgh_1", "a", "c\n1", "pé", []string{"té", "s", "u"}, 1.0},
		[]any{o.RightID, o.SpatialAnchorID, *o.CorrelationID, *o.SpatialPlacementID, o.DataSubjectIDs, o.DwellMs})
	require.NoError(t, o.Decode([]byte(`{`+good+`}`)))
	require.Nil(t, o.CorrelationID)
	require.Nil(t, o.SpatialPlacementID)
	require.Equal(t, []any{0, "{}"}, []any{len(o.DataSubjectIDs), string(o.Telemetry.AppendProjection(nil))})
}

// TestATimeNamesTheBatchRoute: a play of the past would be signed as one of now, so its
// time is refused, with where it belongs.
func TestATimeNamesTheBatchRoute(t *testing.T) {
	var o Observation
	e := api.From(o.Decode([]byte(`{` + good + `,"playedAt":"2026-01-01T00:00:00Z","renderedAt":"2026-01-01T00:00:00Z"}`)))
	require.Equal(t, 422, e.GetStatus())
	require.Len(t, e.ValidationErrors, 2)
	for _, fault := range e.ValidationErrors {
		require.Contains(t, fault.Message, "POST /v1/delivery/ingest-batch")
	}
}

// FuzzBody: what is accepted is one strict JSON object, and was read as any strict
// decoder reads it; what is refused is 400 if it is no JSON and 422 if it is.
func FuzzBody(f *testing.F) {
	for _, text := range []string{
		`{` + good + `,"telemetry":{"speedMph":3}}`, `{"x":1,"x":2}`, `[[[[`, issuetest.Typical,
		`{"\u0072ightId":"\ud83d\ude00","spatialAnchorId":"\n","dwellMs":4.2e3,"spatialPlacementId":null,"correlationId":"c"}`,
		`{` + good + `,"dataSubjectId":"s","x":{"a":[1,{"a":{}}]}}`, `{"rightId":1}`, `{` + good + `,"dwellMs":1e400}`,
	} {
		f.Add([]byte(text))
	}
	var o Observation // one for all: nothing of a body may stay
	f.Fuzz(func(t *testing.T, body []byte) {
		before := string(body)
		err := o.Decode(body)
		require.Equal(t, before, string(body), "the body must not be written to")
		strict := jsontext.Value(body).IsValid()
		if err != nil {
			e := api.From(err)
			if e.GetStatus() == 422 {
				require.True(t, jsontext.Value(body).IsValid(jsontext.AllowDuplicateNames(true)))
				require.NotEmpty(t, e.Message)
				return
			}
			require.Equal(t, 400, e.GetStatus())
			require.True(t, !strict || TooDeep(body))
			return
		}
		require.True(t, strict)
		var plain struct {
			RightID            string   `json:"rightId"`
			RenderedAt         *any     `json:"renderedAt"`
			IssuedAt           *any     `json:"issuedAt"`
			PlayedAt           *any     `json:"playedAt"`
			SpatialAnchorID    string   `json:"spatialAnchorId"`
			SpatialPlacementID *string  `json:"spatialPlacementId"`
			CorrelationID      *string  `json:"correlationId"`
			DataSubjectID      string   `json:"dataSubjectId"`
			DataSubjectIDs     []string `json:"dataSubjectIds"`
			DwellMs            *float64 `json:"dwellMs"`
		}
		require.NoError(t, json.Unmarshal(body, &plain))
		require.Equal(t, []*any{nil, nil, nil}, []*any{plain.RenderedAt, plain.IssuedAt, plain.PlayedAt})
		var r sealer.Receipt
		o.Describe(&r)
		require.Equal(t, []any{plain.RightID, plain.SpatialAnchorID, *plain.DwellMs}, []any{o.RightID, r.SpatialAnchorID, r.DwellMs})
		persons := plain.DataSubjectIDs
		if plain.DataSubjectID != "" {
			persons = append(persons, plain.DataSubjectID)
		}
		slices.Sort(persons)
		require.Equal(t, slices.Compact(persons), slices.Sorted(slices.Values(o.DataSubjectIDs)))
		require.Equal(t, plain.SpatialPlacementID, r.SpatialPlacementID)
		require.Equal(t, plain.CorrelationID, r.CorrelationID)
		require.True(t, r.DwellMs >= 0 && r.DwellMs <= sealer.MaxDwellMs && len(o.RightID) <= maxText && len(o.DataSubjectIDs) <= 9)
		for _, person := range o.DataSubjectIDs {
			require.True(t, person != "" && len(person) <= maxSubject)
		}
	})
}
