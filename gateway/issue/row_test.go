package issue

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"muniment.example/gateway/api"
	"muniment.example/gateway/issue/idempotency"
)

const (
	played  = `"playedAt":"2026-10-24T18:00:00Z","dwellMs":1`
	byRight = played + `,"rightId":"rgh_1","spatialAnchorId":"a"`
	byID    = played + `,"vendor":"acme","idType":"screen","vendorId":"7"`
)

func TestRowBodies(t *testing.T) {
	var r row
	for _, c := range []struct {
		name, row string
		status    int
		field     string
	}{
		{"of a right", `{` + byRight + `}`, 0, ""},
		{"of a vendor's id", `{` + byID + `}`, 0, ""},
		{"all that others may say", `{` + byRight + `,"rowId":"r","vendor":"v","spatialPlacementId":"p","correlationId":"c","dataSubjectId":"s","telemetry":{"muted":true},"multiplier":2.5}`, 0, ""},
		{"what is null is not given", `{` + byID + `,"rightId":null,"spatialAnchorId":null,"rowId":null,"multiplier":null,"spatialPlacementId":null}`, 0, ""},
		{"unknown fields", `{` + byRight + `,"x":[{"y":1}]}`, 0, ""},
		{"a synonym", `{` + byRight + `,"impressions":2}`, 0, ""},
		{"a misspelt name", `{` + byRight + `,"multipler":2}`, 422, "multipler"},
		{"a misspelt name of a delivery's", `{` + byRight + `,"dataSubjectID":"s"}`, 422, "dataSubjectID"},
		{"a misspelt name of what is required", `{` + played + `,"right_id":"rgh_1","spatialAnchorId":"a"}`, 422, "right_id"},
		{"no JSON", `{`, 400, ""},
		{"two values", `{` + byRight + `}{}`, 400, ""},
		{"depth 33", `{` + byRight + `,"x":` + strings.Repeat("[", 32) + strings.Repeat("]", 32) + `}`, 400, ""},
		{"longer than 64 KiB", `{` + byRight + `,"x":"` + strings.Repeat("x", 64<<10) + `"}`, 413, ""},
		{"list", `[]`, 422, "body"},
		{"null", `null`, 422, "body"},
		{"name twice", `{` + byRight + `,"dwellMs":1}`, 422, "dwellMs"},
		{"nothing", `{}`, 422, "playedAt"},
		{"no time", `{"dwellMs":1,"rightId":"rgh_1","spatialAnchorId":"a"}`, 422, "playedAt"},
		{"no dwell", `{"playedAt":"2026-10-24T18:00:00Z","rightId":"rgh_1","spatialAnchorId":"a"}`, 422, "dwellMs"},
		{"names nothing", `{` + played + `}`, 422, "rightId"},
		{"a right without an anchor", `{` + played + `,"rightId":"rgh_1"}`, 422, "spatialAnchorId"},
		{"an anchor without a right", `{` + played + `,"spatialAnchorId":"a"}`, 422, "rightId"},
		{"a right beside a vendor's id", `{` + byID + `,"rightId":"rgh_1"}`, 422, "rightId"},
		{"an anchor beside a vendor's id", `{` + byID + `,"spatialAnchorId":"a"}`, 422, "spatialAnchorId"},
		{"a vendor's id without a vendor", `{` + played + `,"idType":"screen","vendorId":"7"}`, 422, "vendor"},
		{"a vendor's id without a type", `{` + played + `,"vendor":"acme","vendorId":"7"}`, 422, "idType"},
		{"an empty vendor's id", `{` + played + `,"vendor":"acme","idType":"screen","vendorId":""}`, 422, "vendorId"},
		{"an empty row id", `{` + byRight + `,"rowId":""}`, 422, "rowId"},
		{"a row id that is a number", `{` + byRight + `,"rowId":7}`, 422, "rowId"},
		{"a row id of 512 bytes", `{` + byRight + `,"rowId":"` + strings.Repeat("x", 512) + `"}`, 0, ""},
		{"a row id of 513 bytes", `{` + byRight + `,"rowId":"` + strings.Repeat("x", 513) + `"}`, 422, "rowId"},
		{"a time of issue", `{` + byRight + `,"issuedAt":"2026-10-24T18:00:00Z"}`, 422, "issuedAt"},
		{"a time of rendering", `{` + byRight + `,"renderedAt":"2026-10-24T18:00:00Z"}`, 422, "renderedAt"},
		{"telemetry wrong", `{` + byRight + `,"telemetry":{"linkState":"LOST"}}`, 422, "telemetry.linkState"},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := r.decode([]byte(c.row), "") // one for all: nothing of a row may stay
			if c.status == 0 {
				require.NoError(t, err)
				return
			}
			require.Error(t, err)
			e := api.From(err)
			require.Equal(t, []any{c.status, c.field}, []any{e.GetStatus(), e.Field}, e.Message)
		})
	}
	for _, time := range []string{`"2026-10-24"`, `"2026-10-24T18:00:00"`, `"2026-10-24 18:00:00Z"`, `"2026-10-24T18:00:60Z"`, `"2026-02-30T18:00:00Z"`,
		`"2026-10-24T18:00:00+25:00"`, `""`, `1792864800`, `null`, `"` + strings.Repeat("2", 65) + `"`} {
		err := r.decode(fmt.Appendf(nil, `{"playedAt":%s,"dwellMs":1,"rightId":"r","spatialAnchorId":"a"}`, time), "")
		require.Error(t, err, time)
		require.Equal(t, fieldPlayed, api.From(err).Field, time)
	}
}

func TestRowValues(t *testing.T) {
	var r row
	require.NoError(t, r.decode([]byte(`{"rowId":"r\n1","vendor":"v","playedAt":"2026-10-24T20:00:00.5+02:00","multiplier":"2.50",`+good+`,"telemetry" : {"muted":true}}`), "acme"))
	require.Equal(t, []any{"r\n1", "v", "2026-10-24T20:00:00.5+02:00", int64(25000), `{"muted":true}`},
		[]any{r.rowID, r.vendor, r.playedAt, r.multiplier, string(r.telemetry)})
	require.Equal(t, "2026-10-24T18:00:00.5Z", r.played.UTC().Format("2006-01-02T15:04:05.9Z07:00"))
	require.NoError(t, r.decode([]byte(`{`+byRight+`}`), "acme"))
	require.Equal(t, []any{"", "acme", int64(0), ""}, []any{r.rowID, r.vendor, r.multiplier, string(r.telemetry)})
}

func TestMultipliers(t *testing.T) {
	for text, want := range map[string]int64{
		`1`: 10_000, `"1"`: 10_000, `0.0001`: 1, `"0.0001"`: 1, `10000`: 100_000_000, `"10000.0000"`: 100_000_000, `2.50000`: 25_000, `12.3456`: 123_456, `007.5`: -1, `"007.5"`: 75_000,
		`0`: 0, `0.0`: 0, `-1`: 0, `"-1"`: 0, `10000.0001`: 0, `1e3`: 0, `"1e3"`: 0, `1.00001`: 0, `""`: 0, `"."`: 0, `"1."`: 0, `".5"`: 0, `" 1"`: 0, `"+1"`: 0, `true`: 0, `{}`: 0,
		`99999999999999999999`: 0, `"NaN"`: 0, `"\u0031"`: 10_000,
	} {
		var r row
		err := r.decode([]byte(`{`+byRight+`,"multiplier":`+text+`}`), "")
		switch {
		case want > 0:
			require.NoError(t, err, text)
			require.Equal(t, want, r.multiplier, text)
		case want == 0:
			require.Error(t, err, text)
			require.Equal(t, fieldMultiplier, api.From(err).Field, text)
		default:
			require.Equal(t, 400, status(err), text)
		}
	}
}

// TestRowIdentities fixes the identity of each kind of row, which is kept with the events: a
// row that is sent again in a year must have it still.
func TestRowIdentities(t *testing.T) {
	for text, want := range map[string][2]string{
		`{"rowId":"r1","vendor":"acme",` + byRight + `}`:                       {"DLSN0mlts2WwSF05H18qAjErll2Bf1a1ECo41sp4Asw", ""},
		`{` + byID + `,"spatialPlacementId":"p"}`:                              {"eWSA3zvGaSAaatxwmMu5Ivo6cuGTjYudXD0ioe2qygU", "2026-10-24"},
		`{"vendor":"acme",` + byRight + `}`:                                    {"q6oTDQFjYfov_Doc4DdUm8yIOsUCiyYpfShU8MFFGFE", "2026-10-24"},
		`{` + strings.Replace(byRight, "18:00:00Z", "20:00:00-07:00", 1) + `}`: {"oupMLtbaJBzwsCRKpdD7XeLqaMc-o-OYVBuC4CGZV6k", "2026-10-25"},
	} {
		var r row
		require.NoError(t, r.decode([]byte(text), ""), text)
		h, _ := r.identity(nil, "tnt_a")
		require.Equal(t, want, [2]string{base64.RawURLEncoding.EncodeToString(h[:]), string(r.appendDay(nil))}, text)
	}
}

// TestIdentityIsOfWhatNamesTheRow draws rows whose texts are easily taken for one another's: two
// have one identity if what names them is the same, and one content if all that they say is.
func TestIdentityIsOfWhatNamesTheRow(t *testing.T) {
	identities, contents := map[string]idempotency.Hash{}, map[string]string{}
	names, says := map[idempotency.Hash]string{}, map[string]string{}
	text := rapid.SampledFrom([]string{"", "a", "aa", "\x01a", "vendorId"})
	maybe := func(t *rapid.T, field string) *string {
		if s := text.Draw(t, field); s != "aa" {
			return &s
		}
		return nil
	}
	rapid.Check(t, func(t *rapid.T) {
		said := struct {
			RowID              string  `json:"rowId,omitempty"`
			Vendor             string  `json:"vendor,omitempty"`
			IDType             string  `json:"idType,omitempty"`
			VendorID           string  `json:"vendorId,omitempty"`
			RightID            string  `json:"rightId,omitempty"`
			SpatialAnchorID    string  `json:"spatialAnchorId,omitempty"`
			SpatialPlacementID *string `json:"spatialPlacementId,omitempty"`
			CorrelationID      *string `json:"correlationId,omitempty"`
			PlayedAt           string  `json:"playedAt"`
			DwellMs            int     `json:"dwellMs"`
			Multiplier         int     `json:"multiplier,omitempty"`
		}{
			RowID: text.Draw(t, "rowId"), Vendor: text.Draw(t, "vendor"),
			SpatialPlacementID: maybe(t, "placement"), CorrelationID: maybe(t, "correlation"),
			PlayedAt: rapid.SampledFrom([]string{"2026-10-24T18:00:00Z", "2026-10-24T18:00:00.0Z"}).Draw(t, "playedAt"),
			DwellMs:  rapid.IntRange(0, 1).Draw(t, "dwell"), Multiplier: rapid.IntRange(0, 1).Draw(t, "multiplier"),
		}
		placement := ""
		if said.SpatialPlacementID != nil {
			placement = *said.SpatialPlacementID
		}
		var name string
		if said.VendorID = text.Draw(t, "vendorId"); said.VendorID != "" {
			said.Vendor, said.IDType = cmp.Or(said.Vendor, "a"), cmp.Or(text.Draw(t, "idType"), "a")
			name = fmt.Sprintf("id %q", []string{said.Vendor, said.IDType, said.VendorID, said.PlayedAt, placement})
		} else {
			said.RightID, said.SpatialAnchorID = cmp.Or(text.Draw(t, "right"), "a"), cmp.Or(text.Draw(t, "anchor"), "a")
			name = fmt.Sprintf("right %q", []string{said.Vendor, said.RightID, said.SpatialAnchorID, said.PlayedAt, placement})
		}
		if said.RowID != "" {
			name = fmt.Sprintf("row %q", []string{said.Vendor, said.RowID})
		}
		var r row
		whole, err := json.Marshal(said)
		require.NoError(t, err)
		require.NoError(t, r.decode(whole, ""))
		hash, _ := r.identity(nil, "tnt_a")
		other, _ := r.identity(nil, "tnt_b")
		require.NotEqual(t, hash, other, "of another tenant")
		content := string(r.appendContent(nil))
		if known, ok := identities[name]; ok {
			require.Equal(t, known, hash)
		}
		if known, ok := names[hash]; ok {
			require.Equal(t, known, name)
		}
		if known, ok := contents[string(whole)]; ok {
			require.Equal(t, known, content)
		}
		if known, ok := says[content]; ok {
			require.Equal(t, known, string(whole))
		}
		identities[name], names[hash], contents[string(whole)], says[content] = hash, name, content, string(whole)
	})
}
