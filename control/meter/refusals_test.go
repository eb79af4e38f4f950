package meter

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/pipeline"
)

// refused adds the event of a node that counted refusals to the end of the log. A
// copy of it has the same id.
func (b *bench) refused(t *testing.T, tenantID, eventID string, at time.Time, counts, names string) {
	row := pipeline.Row{Type: pipeline.TypeRefusals, At: at, ActorKind: "node", ActorID: "nod_a", SubjectKind: "tenant", SubjectID: tenantID}
	row.Position = b.end(tenantID)
	row.TenantID, row.EventID = tenantID, eventID
	row.Event = []byte(`{"data":{"counts":[` + counts + `],"from":"","to":"","unrecognised":[` + names + `]}}`)
	b.loaded[row.Partition]++
	require.NoError(t, b.warehouse.Load(context.Background(), pipeline.Batch{Partition: row.Partition, From: row.Position, Rows: []pipeline.Row{row}, Next: row.Next()}))
}

func getRefusals(b *bench, tenantID, query string) *httptest.ResponseRecorder {
	return getAt(b.server, tenantID, "/v1/metering/refusals"+query)
}

func TestRefusalsOverHTTP(t *testing.T) {
	b := open(t)
	answer := func(from, asOf, bucket, zone string, sum int, next string, rows ...string) string {
		return fmt.Sprintf(`{"ok":true,"data":{"from":%s,"to":null,"asOf":%s,"bucket":"%s","timeZone":"%s","rows":[%s],"totals":{"refusals":%d},
			"unrecognised":[],"nextCursor":%s},"contractVersion":"v1.0"}`, from, asOf, bucket, zone, strings.Join(rows, ","), sum, next)
	}
	row := func(bucket, right, rule string, n int) string {
		return fmt.Sprintf(`{"bucket":"%s","rightId":%s,"rule":"%s","refusals":%d}`, bucket, right, rule, n)
	}
	require.JSONEq(t, answer("null", "null", "hour", "UTC", 0, "null"), getRefusals(b, tenant, "").Body.String(), "nothing is loaded")
	b.load(t, tenant, metered("rgh_a", noon, 1))
	require.JSONEq(t, answer("null", `"1.0.1"`, "hour", "UTC", 0, "null"), getRefusals(b, tenant, "").Body.String(), "nothing was refused")

	speed := `{"count":3,"rightId":"rgh_a","rule":"automotive-speed"},{"count":1,"rightId":"rgh_b","rule":"automotive-speed"}`
	b.refused(t, tenant, "evt_1", noon.Add(59*time.Minute+59*time.Second), speed, "")
	b.refused(t, tenant, "evt_1", noon.Add(59*time.Minute+59*time.Second), speed, "") // appended twice
	b.refused(t, tenant, "evt_2", noon.Add(time.Hour), `{"count":5,"rightId":"rgh_a","rule":"automotive-speed"},{"count":7,"rule":"minor-immersion"}`, "")
	b.refused(t, stranger, "evt_3", noon, speed, "")

	const twelve, one = "2026-11-21T12:00:00Z", "2026-11-21T13:00:00Z"
	rows := []string{
		row(twelve, `"rgh_a"`, "automotive-speed", 3), row(twelve, `"rgh_b"`, "automotive-speed", 1),
		row(one, "null", "minor-immersion", 7), row(one, `"rgh_a"`, "automotive-speed", 5),
	}
	for query, want := range map[string]string{
		"":         answer("null", `"1.0.5"`, "hour", "UTC", 16, "null", rows...),
		"?limit=3": answer("null", `"1.0.5"`, "hour", "UTC", 16, `"L3YxL21ldGVyaW5nL3JlZnVzYWxzOjEuMC41LzM"`, rows[:3]...),
		"?limit=3&cursor=L3YxL21ldGVyaW5nL3JlZnVzYWxzOjEuMC41LzM": answer("null", `"1.0.5"`, "hour", "UTC", 16, "null", rows[3]),
		"?rightId=rgh_b":        answer("null", `"1.0.5"`, "hour", "UTC", 1, "null", rows[1]),
		"?rule=minor-immersion": answer("null", `"1.0.5"`, "hour", "UTC", 7, "null", rows[2]),
		"?asOf=1.0.2":           answer("null", `"1.0.2"`, "hour", "UTC", 4, "null", rows[:2]...),
		"?from=" + one:          answer(`"2026-11-21T13:00:00.000Z"`, `"1.0.5"`, "hour", "UTC", 12, "null", rows[2:]...),
		"?bucket=day&timeZone=Asia/Tokyo": answer("null", `"1.0.5"`, "day", "Asia/Tokyo", 16, "null",
			row("2026-11-21T00:00:00+09:00", "null", "minor-immersion", 7), row("2026-11-21T00:00:00+09:00", `"rgh_a"`, "automotive-speed", 8),
			row("2026-11-21T00:00:00+09:00", `"rgh_b"`, "automotive-speed", 1)),
	} {
		got := getRefusals(b, tenant, query)
		require.Equal(t, 200, got.Code, "%s: %s", query, got.Body)
		require.JSONEq(t, want, got.Body.String(), query)
	}
	got := getRefusals(b, tenant, "?from=2020-01-01T00:00:00Z")
	require.Equal(t, 422, got.Code)
	require.Contains(t, got.Body.String(), "more than 12000 buckets of one hour")
}

// TestUnrecognisedNames are of the tenant, by bucket, on the first page.
func TestUnrecognisedNames(t *testing.T) {
	b := open(t)
	b.load(t, tenant, metered("rgh_a", noon, 1))
	refused := `{"count":3,"rightId":"rgh_a","rule":"a"},{"count":3,"rightId":"rgh_b","rule":"a"}`
	b.refused(t, tenant, "evt_1", noon.Add(-time.Hour), "", `{"count":2,"meant":"speedMph","name":"speed_mph"}`)
	b.refused(t, tenant, "evt_2", noon, refused, `{"count":5,"meant":"speedMph","name":"speed_mph"},{"count":1,"meant":"muted","name":""}`)
	b.refused(t, stranger, "evt_3", noon, "", `{"count":9,"meant":"muted","name":"Muted"}`)
	names := func(query string) (unrecognised, cursor string) {
		got := getRefusals(b, tenant, query)
		require.Equal(t, 200, got.Code, got.Body)
		var body struct {
			Data struct {
				Unrecognised json.RawMessage
				NextCursor   string
			}
		}
		require.NoError(t, json.Unmarshal(got.Body.Bytes(), &body))
		return string(body.Data.Unrecognised), body.Data.NextCursor
	}
	const eleven, twelve = `{"bucket":"2026-11-21T11:00:00Z","name":"speed_mph","meant":"speedMph","deliveries":2}`,
		`{"bucket":"2026-11-21T12:00:00Z","name":null,"meant":"muted","deliveries":1},{"bucket":"2026-11-21T12:00:00Z","name":"speed_mph","meant":"speedMph","deliveries":5}`
	for query, want := range map[string]string{
		"": twelve + "," + eleven, "?from=2026-11-21T12:00:00Z": twelve, "?to=2026-11-21T12:00:00Z": eleven, "?rightId=rgh_a": "", "?rule=a": "",
	} {
		got, _ := names(query)
		require.JSONEq(t, "["+want+"]", got, query)
	}
	first, cursor := names("?limit=1")
	require.JSONEq(t, "["+twelve+","+eleven+"]", first)
	second, _ := names("?limit=1&cursor=" + cursor)
	require.Equal(t, "[]", second)
}
