package control_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/gateway/api"
	"muniment.example/pipeline"
)

// receipts is a warehouse of deliveries: the tenants by the ids of their receipts.
type receipts map[string]string

// Event implements dispute.Warehouse.
func (r *receipts) Event(ctx context.Context, tenantID, eventID string) (pipeline.Row, error) {
	id := "rcp_" + strings.TrimPrefix(eventID, "evt_")
	if (*r)[id] != tenantID {
		return pipeline.Row{}, pipeline.ErrNoEvent
	}
	return pipeline.Row{Delivery: &pipeline.Delivery{ReceiptID: id, RenderedAt: time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)}}, ctx.Err()
}

// TestDisputes is what may become of a dispute over HTTP. Its whole table is a script of the
// root's.
func TestDisputes(t *testing.T) {
	h := newFixture(t)
	tenantID, key := h.tenant()
	strangerID, stranger := h.tenant()
	rightID := h.right(key, h.basis(key))
	const mine, foreign = "rcp_01M80000000000000000000001", "rcp_01M80000000000000000000002"
	h.receipts = receipts{foreign: strangerID}
	h.arrive = func() error { h.receipts[mine] = tenantID; return nil } // only those who wait find it
	open := func(body string, a ...any) answer {
		return h.call(key, "POST", "/v1/disputes", fmt.Sprintf(body, a...))
	}
	for body, field := range map[string]string{
		`{"receiptIds":["rcp_x"]}`:                                                                                          "reason",
		`{"receiptIds":["rcp_x"],"reason":""}`:                                                                              "reason",
		`{"receiptIds":[],"reason":"x"}`:                                                                                    "receiptIds",
		`{"receiptIds":null,"reason":"x"}`:                                                                                  "receiptIds",
		`{"receiptIds":["a","a"],"reason":"x"}`:                                                                             "receiptIds[1]",
		`{"receiptIds":[7],"reason":"x"}`:                                                                                   "receiptIds[0]",
		`{"rightId":"rgh_x","reason":"x"}`:                                                                                  "window",
		`{"rightId":"rgh_x","window":null,"reason":"x"}`:                                                                    "window",
		`{"window":{"from":"2026-11-01","to":"2026-11-02"},"reason":"x"}`:                                                   "rightId",
		`{"rightId":"rgh_x","window":{"from":"2026-11-01"},"reason":"x"}`:                                                   "window.to",
		`{"rightId":"rgh_x","window":{"from":"yesterday","to":"2026-11-02"},"reason":"x"}`:                                  "window.from",
		`{"rightId":"rgh_x","window":{"from":"2026-11-02","to":"2026-11-02"},"reason":"x"}`:                                 "window.to",
		`{"receiptIds":["a"],"raisedByOrgId":"me","reason":"x"}`:                                                            "raisedByOrgId",
		`{"receiptIds":["` + mine + `"],"reason":"x","evidence":[{"text":""}]}`:                                             "evidence[0].text",
		`{"receiptIds":["` + mine + `"],"reason":"x","evidence":[{"text":"` + strings.Repeat("é", 2049) + `"}]}`:            "evidence[0].text",
		`{"receiptIds":["` + mine + `"],"reason":"x","evidence":[{"text":"x","references":["\u0007"]}]}`:                    "evidence[0].references[0]",
		`{"receiptIds":["` + mine + `"],"reason":"x","evidence":[` + strings.Repeat(`{"text":"x"},`, 20) + `{"text":"x"}]}`: "evidence",
	} {
		require.Contains(t, h.call(key, "POST", "/v1/disputes", body).refused(422, api.ValidationFailed), fmt.Sprintf(`"field":%q`, field), body)
	}
	require.Contains(t, open(`{"receiptIds":[%q,%q],"reason":"x"}`, mine, foreign).refused(404, api.ResourceNotFound), foreign)
	open(`{"rightId":"rgh_00000000000000000000000000","window":{"from":"2026-11-01","to":"2026-11-02"},"reason":"x"}`).refused(404, api.ResourceNotFound)
	h.call(stranger, "POST", "/v1/disputes", fmt.Sprintf(`{"rightId":%q,"window":{"from":"2026-11-01","to":"2026-11-02"},"reason":"x"}`, rightID)).refused(404, api.ResourceNotFound)

	delete(h.receipts, mine)
	made := get[map[string]any](t, open(`{"receiptIds":[%q],"reason":"never shown","raisedByOrgId":null,"evidence":null}`, mine).ok(), "dispute")
	h.arrive = func() error { return api.Unavailable(api.WarehouseBehind, "it is behind", 0) }
	open(`{"receiptIds":["rcp_01M80000000000000000000003"],"reason":"x"}`).refused(503, api.InternalError)
	members := []string{"createdAt", "evidence", "id", "outcome", "raisedByOrgId", "reason", "receiptIds", "resolution", "revision", "rightId", "state", "updatedAt", "window"}
	require.Equal(t, members, slices.Sorted(maps.Keys(made)))
	require.True(t, api.IsID("dsp_", made["id"].(string)))
	require.Equal(t, "org_acme", made["raisedByOrgId"], "the tenant's own")
	require.Equal(t, []any{"OPEN", nil, nil, nil, []any{}}, []any{made["state"], made["rightId"], made["window"], made["outcome"], made["evidence"]})
	path := "/v1/disputes/" + made["id"].(string)
	found := get[map[string]any](t, h.call(key, "GET", path, "").ok(), "dispute")
	require.Equal(t, []any{}, found["heldAmount"], "no rule rates it")
	delete(found, "heldAmount")
	require.Equal(t, made, found)

	windowed := get[map[string]any](t, open(`{"receiptIds":null,"rightId":%q,"window":{"from":"2026-11-01","to":"2026-11-02T00:00:00.5009Z"},"reason":"invalid traffic","raisedByOrgId":"org_c"}`, rightID).ok(), "dispute")
	require.Equal(t, map[string]any{"from": "2026-11-01T00:00:00.000Z", "to": "2026-11-02T00:00:00.500Z"}, windowed["window"])

	for verb, body := range map[string]string{"investigate": "", "respond": `{"evidence":[{"text":"x"}]}`, "resolve": `{"outcome":"UPHELD"}`} {
		h.call(stranger, "POST", path+"/"+verb, body).refused(404, api.ResourceNotFound)
	}
	for body, field := range map[string]string{`{}`: "outcome", `{"outcome":"OPEN"}`: "outcome", `{"outcome":null}`: "outcome"} {
		require.Contains(t, h.call(key, "POST", path+"/resolve", body).refused(422, api.ValidationFailed), fmt.Sprintf(`"field":%q`, field), body)
	}
	h.call(key, "POST", path+"/investigate", "").ok()
	responded := get[map[string]any](t, h.call(key, "POST", path+"/respond", `{"byOrgId":"org_d","evidence":[{"text":"it was","references":["https://example.com"]},{"text":"twice"}]}`).ok(), "dispute")
	require.Len(t, responded["evidence"], 2)
	require.Equal(t, "org_d", responded["evidence"].([]any)[1].(map[string]any)["byOrgId"])
	resolved := get[map[string]any](t, h.call(key, "POST", path+"/resolve", `{"outcome":"REJECTED","resolution":"it was"}`).ok(), "dispute")
	require.Equal(t, []any{"RESOLVED", "REJECTED", "it was"}, []any{resolved["state"], resolved["outcome"], resolved["resolution"]})

	listed := func(query string) (ids []any) {
		for _, d := range get[[]any](t, h.call(key, "GET", "/v1/disputes?"+query, "").ok(), "disputes") {
			require.NotContains(t, d, "evidence")
			require.Len(t, d, len(members)-1)
			ids = append(ids, d.(map[string]any)["id"])
		}
		return ids
	}
	require.Equal(t, []any{made["id"]}, listed("receiptId="+mine))
	require.Equal(t, []any{windowed["id"]}, listed("rightId="+rightID+"&state=OPEN"))
	require.Equal(t, []any{made["id"]}, listed("state=RESOLVED"))
	require.Len(t, listed(""), 2)
	require.Len(t, listed("limit=1"), 1)
	require.Empty(t, get[[]any](t, h.call(stranger, "GET", "/v1/disputes?receiptId="+mine, "").ok(), "disputes"))

	var seen []string
	for _, e := range h.events(tenantID) {
		if e.Subject.Kind == "dispute" {
			var data struct{ ActingOrgID, AssertedBy string }
			require.NoError(t, json.Unmarshal(e.Data, &data))
			require.Equal(t, "org_acme", data.AssertedBy, e.Type)
			seen = append(seen, e.Type+" "+data.ActingOrgID)
		}
	}
	require.Equal(t, []string{
		"dispute.opened org_acme", "dispute.opened org_c", "dispute.investigation_started org_acme", "dispute.responded org_d", "dispute.resolved org_acme",
	}, seen)
}
