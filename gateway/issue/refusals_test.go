package issue

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/gate"
	"muniment.example/gateway/issue/issuetest"
	"muniment.example/sealer"
)

// unrecognised writes the counts, and returns those of names by what was sent and meant.
func (f *fixture) unrecognised() map[misspelt]int64 {
	f.t.Helper()
	before := len(f.log.All())
	f.writeRefusals(f.t.Context())
	all := map[misspelt]int64{}
	for _, r := range f.log.All()[before:] {
		var event struct {
			Data struct {
				Counts       []json.RawMessage
				Unrecognised []struct {
					Name, Meant string
					Count       int64
				}
			}
		}
		require.NoError(f.t, json.Unmarshal(r.Event, &event))
		require.NotNil(f.t, event.Data.Counts)
		for _, c := range event.Data.Unrecognised {
			all[misspelt{c.Name, c.Meant}] += c.Count
		}
	}
	return all
}

// TestMisspeltTelemetryIsCounted in deliveries and in rows, of every field; it is accepted.
func TestMisspeltTelemetryIsCounted(t *testing.T) {
	f := rowsFixture(t, nil)
	for n, field := range gate.NewCatalogue().Fields {
		snake := strings.ToUpper(field.Name[:1]) + "_" + field.Name[1:]
		lacking := field.Name[:2] + field.Name[3:]
		want := map[misspelt]int64{{snake, field.Name}: 1, {field.Name + "s", field.Name}: 2, {lacking, field.Name}: 1}
		telemetry := fmt.Sprintf(`{%q:{"a":[1]},%q:true}`, snake, field.Name+"s")
		_, _, err := f.issue(fmt.Appendf(nil, `{"rightId":%q,"telemetry":%s,"spatialAnchorId":"a","dwellMs":1}`, f.right, telemetry))
		require.NoError(t, err)
		row := f.mustRows(f.named(fmt.Sprint("row ", n), fmt.Sprintf(`,"telemetry": {"\u%04x%s":1,%q:null}`, lacking[0], lacking[1:], field.Name+"s")))[0]
		require.NoError(t, row.Err)
		require.Equal(t, want, f.unrecognised())
	}
	names := []string{"vendor", "speed", "", strings.Repeat("speedMph", 100)}
	for _, field := range gate.NewCatalogue().Fields {
		if field.Additional {
			names = append(names, field.Name)
		}
	}
	for _, name := range names {
		_, _, err := f.issue(fmt.Appendf(nil, `{"rightId":%q,"telemetry":{%q:false},"spatialAnchorId":"a","dwellMs":1}`, f.right, name))
		require.NoError(t, err)
	}
	before := len(f.log.All())
	require.Empty(t, f.unrecognised())
	require.Len(t, f.log.All(), before, "nothing new, no event")
}

// TestMisspeltTelemetryOfARefused delivery is counted too, by the side of the rule.
func TestMisspeltTelemetryOfARefused(t *testing.T) {
	f := newFixture(t, nil)
	_, _, err := f.issue(fmt.Appendf(nil, `{"rightId":%q,"spatialAnchorId":"a","dwellMs":1,"telemetry":{"speedMph":80,"Muted":true}}`, issuetest.RightID(3)))
	require.Equal(t, 412, status(err))
	f.writeRefusals(t.Context())
	require.Contains(t, string(f.log.All()[0].Event), `"unrecognised":[{"count":1,"meant":"muted","name":"Muted"}]`)
	require.Contains(t, string(f.log.All()[0].Event), `"rule":"automotive-speed"`)
}

// TestNamesAreBounded by tenant, also where they have to wait.
func TestNamesAreBounded(t *testing.T) {
	var r refusals
	for i := range 1000 {
		r.misspelt("tnt_a", fmt.Appendf(nil, "%dspeedMph", i), "speedMph")
	}
	r.misspelt("tnt_b", []byte("Muted"), "muted")
	taken := r.take(issuetest.Today)
	require.Len(t, taken.unrecognised["tnt_a"], maxUnrecognised+1)
	require.EqualValues(t, 1000-maxUnrecognised, *taken.unrecognised["tnt_a"][misspelt{"", "speedMph"}])
	r.misspelt("tnt_a", []byte("Muted"), "muted")
	for _, tenant := range []string{"tnt_a", "tnt_b"} {
		r.restore(tenant, taken)
	}
	all := int64(0)
	for _, n := range r.unrecognised["tnt_a"] {
		all += *n
	}
	require.EqualValues(t, 1001, all)
	require.LessOrEqual(t, len(r.unrecognised["tnt_a"]), maxUnrecognised+2)
	require.EqualValues(t, 1, *r.unrecognised["tnt_b"][misspelt{"Muted", "muted"}])
}

func TestRefusalsThatCantBeWrittenAreKept(t *testing.T) {
	f := newFixture(t, nil)
	for _, tenant := range []string{"tnt_a", "tnt_b"} {
		f.refusals.add(tenant, f.right, "x")
	}
	f.log.SetFail(errors.New("away"))
	f.writeRefusals(t.Context())
	f.refusals.add("tnt_a", f.right, "x")
	f.log.SetFail(nil)
	f.log.Refuse(func(r *sealer.Record) error {
		if r.TenantID == "tnt_b" {
			return errors.New("its partition is away")
		}
		return nil
	})
	f.writeRefusals(t.Context())
	require.Len(t, f.log.All(), 1)
	require.Contains(t, string(f.log.All()[0].Event), `"count":2`)
	f.log.Refuse(nil)
	f.writeRefusals(t.Context())
	require.Len(t, f.log.All(), 2)
	require.Equal(t, "tnt_b", f.log.All()[1].TenantID)
	require.Contains(t, string(f.log.All()[1].Event), `"count":1`)
	f.writeRefusals(t.Context())
	require.Len(t, f.log.All(), 2, "nothing new, no event")
}

func TestRefusalRowsAreBounded(t *testing.T) {
	var r refusals
	for i := range maxRefusalRows + 500 {
		r.add("tnt_a", issuetest.RightID(i), "x")
	}
	taken := r.take(issuetest.Today)
	require.Len(t, taken.counts, maxRefusalRows+1)
	require.Equal(t, int64(500), taken.counts[refusal{"tnt_a", "", "x"}])
}
