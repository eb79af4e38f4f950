// Package storytest has what a service must do in one process and on many machines alike: each story
// is a function that a test of bench/service runs on muniment up, and one of bench/stack on the
// engines.
package storytest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/bench/system"
	"muniment.example/bench/system/systemtest"
	"muniment.example/bench/waittest"
	"muniment.example/control/access"
	"muniment.example/gateway/api"
)

func Access(t *testing.T, a systemtest.Applicant, box *systemtest.Mailbox) (client system.Client, rights map[string]string) {
	a.Box = box
	id := a.Approved("ada@example.org")
	token := box.Token(t, "ada@example.org", "https://muniment.example", "activate")
	waittest.Until(t, func() bool { return a.List()[0].Mail.State == access.MailSent }, "it is noted that it was sent")
	made := systemtest.Parse[struct{ Data access.Key }](t, a.Post("/activate", fmt.Sprintf(`{"token":%q}`, token))).Data
	require.True(t, strings.HasPrefix(made.APIKey, "mun_test_"))
	require.Contains(t, a.Post("/activate", fmt.Sprintf(`{"token":%q}`, token)), "RESOURCE_NOT_FOUND: the token is not known")
	one := a.List()[0]
	require.Equal(t, id, one.ID)
	require.Equal(t, access.Activated, one.State)
	require.Equal(t, made.TenantID, *one.ActivatedTenantID)

	client = system.Client{API: a.URL, Key: made.APIKey}
	rights = systemtest.IssueRights(t, client)
	receipt := systemtest.Call(t, a.URL, made.APIKey, systemtest.Operation{Method: "POST", Path: "/v1/delivery", Body: systemtest.Delivery(rights["DOOH"])})
	require.Equal(t, 200, receipt.Status, receipt.Body)
	signed := systemtest.Parse[struct {
		Data struct{ Signature struct{ KeyID string } }
	}](t, receipt.Body).Data.Signature.KeyID
	requireSandboxed(t, a.URL, signed)
	require.Contains(t, systemtest.Command(t, "tenant", "list", "--data", a.Data), made.TenantID)
	return client, rights
}

// Batches has the holder of a key of the sandbox send rows, some of which wait for a mapping. Of
// several control processes each knows the deliveries of its own node: what comes again may be
// accepted again, and counts once.
func Batches(t *testing.T, client system.Client, right string, oneNode bool) {
	played := time.Now().Add(-time.Second).UTC().Format(time.RFC3339Nano)
	rows := []map[string]any{
		{"rowId": "1", "playedAt": played, "dwellMs": 8000, "rightId": right, "spatialAnchorId": "screen-1"},
		{"rowId": "1", "playedAt": played, "dwellMs": 8000, "rightId": right, "spatialAnchorId": "screen-1"},
		{"rowId": "2", "playedAt": played, "dwellMs": -1, "rightId": right, "spatialAnchorId": "screen-1"},
		{"rowId": "3", "playedAt": played, "dwellMs": 8000, "idType": "player", "vendorId": "9"},
		{"rowId": "3", "playedAt": played, "dwellMs": 8000, "idType": "player", "vendorId": "9"},
	}
	send := func() (statuses []string, all api.Ingested) {
		require.NoError(t, client.Do(t.Context(), "POST", "/v1/delivery/ingest-batch", map[string]any{"vendor": "acme", "rows": rows}, &all))
		for _, r := range all.Results {
			statuses = append(statuses, r.Status)
		}
		return statuses, all
	}
	got, all := send()
	require.Equal(t, []string{"accepted", "duplicate", "rejected", "unmapped", "duplicate"}, got)
	requireSandboxed(t, client.API, all.Results[0].Signature.KeyID)
	require.Equal(t, all.Results[0].Receipt, all.Results[1].Receipt)
	require.Equal(t, "dwellMs", all.Results[2].Error.Field)
	require.Equal(t, all.Results[3].HeldID, all.Results[4].HeldID)
	beacon := systemtest.Call(t, client.API, client.Key, systemtest.Operation{Method: "POST", Path: "/v1/delivery/beacons", Body: fmt.Sprintf(`{"rightId":%q,"spatialAnchorId":"a","expiresAt":%q,"maxReceiptsPerHour":9}`,
		right, time.Now().Add(time.Hour).Format(time.RFC3339))})
	require.Equal(t, 409, beacon.Status, beacon.Body)
	got, again := send()
	if !oneNode && got[0] == "accepted" {
		got[0] = "duplicate"
	}
	require.Equal(t, []string{"duplicate", "duplicate", "rejected", "unmapped", "duplicate"}, got)
	require.Equal(t, all.Results[3].HeldID, again.Results[3].HeldID)

	require.NoError(t, client.Do(t.Context(), "POST", "/v1/delivery/mappings", map[string]any{
		"vendor": "acme", "idType": "player", "vendorId": "9", "effectiveFrom": "2026-01-01T00:00:00Z",
		"target": map[string]any{"rightId": right, "spatialAnchorId": "screen-9"},
	}, nil))
	var list struct {
		Held []struct{ State, ReceiptID string }
	}
	waittest.Until(t, func() bool {
		require.NoError(t, client.Do(t.Context(), "GET", "/v1/delivery/held", nil, &list))
		return list.Held[0].State == "REPLAYED"
	}, "the row that was held is delivered")
	got, again = send()
	if !oneNode {
		require.Contains(t, []string{"accepted", "duplicate"}, got[3])
		return
	}
	require.Equal(t, "duplicate", got[3])
	require.Equal(t, list.Held[0].ReceiptID, again.Results[3].Receipt.ReceiptID)
}

// requireSandboxed requires that a key is of the sandbox.
func requireSandboxed(t *testing.T, url, keyID string) {
	t.Helper()
	keys := systemtest.Call(t, url, "", systemtest.Operation{Method: "GET", Path: "/api/sandbox/runtime-keys"}, "X-Forwarded-For", systemtest.AnyAddress())
	require.Contains(t, keys.Body, keyID, "a key of the sandbox has signed")
}
