package control_test

import (
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/control/node"
	"muniment.example/control/signing"
	"muniment.example/control/store"
	"muniment.example/gateway/api"
	"muniment.example/sealer"
	"muniment.example/sealer/canonical"
)

// TestBeacons: the content of a beacon, its signature, and what is refused.
func TestBeacons(t *testing.T) {
	began := time.Now()
	h := newFixtureOn(t, t.TempDir(), node.Config{}, func() time.Time { return began }) // a rotated key begins after now
	tenantID, key := h.tenant("delivery:write", "rights:write", "rights:read")
	_, stranger := h.tenant("delivery:write")
	rightID := h.right(key, h.basis(key))
	create := func(key, rightID, expires, most string) answer {
		return h.call(key, "POST", "/v1/delivery/beacons", fmt.Sprintf(`{"rightId":%q,"spatialAnchorId":"screen-\"7\"","expiresAt":%q,"maxReceiptsPerHour":%s}`, rightID, expires, most))
	}
	in := func(d time.Duration) string { return time.Now().Add(d).UTC().Format(time.RFC3339Nano) }
	made := create(key, rightID, in(90*24*time.Hour-time.Minute), "120").ok()
	address := get[string](t, made, "url")
	base, token, found := strings.Cut(address, api.PathBeacon)
	require.True(t, found)
	require.Equal(t, "http://example.com", base)
	b, err := api.ReadBeacon(token)
	require.NoError(t, err)
	require.Equal(t, []any{tenantID, rightID, `screen-"7"`, 120}, []any{b.TenantID, b.RightID, b.SpatialAnchorID, b.MaxReceiptsPerHour})
	require.Equal(t, get[string](t, made, "expiresAt"), canonical.FormatTime(b.ExpiresAt))
	current, err := store.Newest(t.Context(), h.db, api.BeaconKeys, b.SigningKeyID)
	require.NoError(t, err)
	require.True(t, b.SignedBy(current))

	events := h.events(tenantID)
	created := events[len(events)-1]
	require.Equal(t, []any{"beacon.created", sealer.Ref{Kind: "right", ID: rightID}, store.ByKey(b.KeyID)}, []any{created.Type, created.Subject, created.Actor})
	require.JSONEq(t, fmt.Sprintf(`{"rightId":%q,"spatialAnchorId":"screen-\"7\"","expiresAt":%q,"maxReceiptsPerHour":120,"keyId":%q}`, rightID, canonical.FormatTime(b.ExpiresAt), b.KeyID), string(created.Data))

	// The gateway says whether it was called over TLS.
	req := httptest.NewRequest("POST", "http://api.example/v1/delivery/beacons", strings.NewReader(fmt.Sprintf(`{"rightId":%q,"spatialAnchorId":"a","expiresAt":%q,"maxReceiptsPerHour":1}`, rightID, in(time.Hour))))
	req.Header.Set("Authorization", "Bearer "+key)
	req.Header.Set(api.HeaderForwardedProto, "https")
	rec := httptest.NewRecorder()
	h.control().Handler().ServeHTTP(rec, req)
	require.Contains(t, rec.Body.String(), `"url":"https://api.example/beacon/`)

	create(key, rightID, in(-time.Second), "1").refused(422, api.ValidationFailed)
	create(key, rightID, in(90*24*time.Hour+time.Minute), "1").refused(422, api.ValidationFailed)
	create(key, rightID, "soon", "1").refused(422, api.ValidationFailed)
	create(key, rightID, in(time.Hour), "0").refused(422, api.ValidationFailed)
	create(key, api.NewID(api.PrefixRight, time.Now()), in(time.Hour), "1").refused(404, api.ResourceNotFound)
	create(stranger, rightID, in(time.Hour), "1").refused(404, api.ResourceNotFound)
	h.call(key, "POST", "/v1/rights/"+rightID+"/suspend", `{"reason":"x"}`).ok()
	create(key, rightID, in(time.Hour), "1").refused(409, api.StateConflict)
	h.call(key, "POST", "/v1/rights/"+rightID+"/resume", "").ok()

	// A rotation leaves beacons as they are, and a revocation ends them: nodes learn both.
	by := sealer.Ref{Kind: "operator", ID: "admin"}
	rotated, err := h.nodes.Rotate(t.Context(), b.SigningKeyID, by)
	require.NoError(t, err)
	old, err := store.Newest(t.Context(), h.db, api.BeaconKeys, b.SigningKeyID)
	require.NoError(t, err)
	require.False(t, old.NotAfter.IsZero())
	require.True(t, b.SignedBy(old))
	later, err := api.ReadBeacon(strings.SplitN(get[string](t, create(key, rightID, in(time.Hour), "1").ok(), "url"), api.PathBeacon, 2)[1])
	require.NoError(t, err)
	require.Equal(t, rotated.Key.KeyID, later.SigningKeyID)
	_, err = h.nodes.Revoke(t.Context(), b.SigningKeyID, signing.Revocation{Reason: "stolen"}, by)
	require.NoError(t, err)
	feed, err := h.control().Source().Feed(t.Context(), api.FeedRequest{NodeID: "nod_a"})
	require.NoError(t, err)
	first := map[string]bool{} // copy of a node that knows nothing
	for i := range feed.Changes {
		if feed.Changes[i].Kind == api.BeaconKeys.Name {
			k, err := api.BeaconKeys.Read(&feed.Changes[i])
			require.NoError(t, err)
			first[k.ID] = k.RevokedAt.IsZero()
			require.Equal(t, k.ID == later.SigningKeyID, later.SignedBy(k))
			require.False(t, b.SignedBy(k), "it is revoked")
		}
	}
	require.Equal(t, map[string]bool{b.SigningKeyID: false, later.SigningKeyID: true}, first)
}
