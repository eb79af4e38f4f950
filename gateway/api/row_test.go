package api

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRowIsAppended(t *testing.T) {
	whole := Row{
		RowID: "r\"1", PlayedAt: "2026-10-24T18:00:00+02:00", DwellMs: 8200.5,
		Vendor: "broadsign", IDType: "display_unit_id", VendorID: "20077",
		RightID: "rgh_1", SpatialAnchorID: "anchor", SpatialPlacementID: "slot\n3", CorrelationID: "c", DataSubjectID: "d", DataSubjectIDs: []string{"e", "f\n"},
		Telemetry: json.RawMessage(`{"viewable":true}`), Multiplier: "2.5",
	}
	text := whole.AppendJSON([]byte("before"))
	require.Equal(t, `before{"rowId":"r\"1","playedAt":"2026-10-24T18:00:00+02:00","dwellMs":8200.5,"vendor":"broadsign","idType":"display_unit_id","vendorId":"20077",`+
		`"rightId":"rgh_1","spatialAnchorId":"anchor","spatialPlacementId":"slot\n3","correlationId":"c","dataSubjectId":"d","dataSubjectIds":["e","f\n"],"telemetry":{"viewable":true},"multiplier":"2.5"}`, string(text))
	for field := range reflect.TypeFor[Row]().NumField() {
		require.False(t, reflect.ValueOf(whole).Field(field).IsZero(), "the test must fill in every field")
	}
	var again Row
	require.NoError(t, json.Unmarshal(text[len("before"):], &again))
	require.Equal(t, whole, again)

	require.Equal(t, `{"playedAt":"","dwellMs":0}`, string(new(Row).AppendJSON(nil)), "what is absent stays so")
	require.Equal(t, "{\"rowId\":\"\uFFFD\",\"playedAt\":\"\uFFFD\",\"dwellMs\":0}", string((&Row{RowID: "\xff", PlayedAt: "\xff"}).AppendJSON(nil)))
}
