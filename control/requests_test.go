package control_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/bench/waittest"
	"muniment.example/control/node"
	counted "muniment.example/control/requests"
	"muniment.example/control/store"
	"muniment.example/control/store/storetest"
	"muniment.example/gateway/api"
	"muniment.example/gateway/keyuse"
)

// refusedList is what GET /v1/requests responds.
type refusedList struct {
	Requests []counted.Line
	Next     *string `json:"nextCursor"`
}

// refusedOf reads the refused requests of a key's tenant, once they are written.
func (h *fixture) refusedOf(key string, query url.Values) refusedList {
	h.t.Helper()
	require.NoError(h.t, h.requests.Write(h.t.Context()))
	var got struct{ Data refusedList }
	response := h.call(key, "GET", "/v1/requests?"+query.Encode(), "")
	response.ok()
	require.NoError(h.t, json.Unmarshal([]byte(response.text), &got))
	return got.Data
}

// lastUsed is when a key was last used, as its record says.
func (h *fixture) lastUsed(key, keyID string) any {
	h.t.Helper()
	require.NoError(h.t, h.requests.Write(h.t.Context()))
	read := h.call(key, "GET", "/v1/api-keys/"+keyID, "").ok()
	listed := get[[]any](h.t, h.call(key, "GET", "/v1/api-keys", "").ok(), "keys")
	for _, one := range listed {
		if one := one.(map[string]any); one["keyId"] == keyID {
			require.Equal(h.t, get[map[string]any](h.t, read, "key")["lastUsedAt"], one["lastUsedAt"])
		}
	}
	return get[map[string]any](h.t, read, "key")["lastUsedAt"]
}

// clockOf is a clock that a test advances.
type clockOf struct {
	mu sync.Mutex
	at time.Time
}

func (c *clockOf) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *clockOf) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

// TestRequestsOfADay: a tenant sees when each of its keys was used, and what was refused of its requests, by control and by
// nodes, for a day; another tenant sees nothing of it.
func TestRequestsOfADay(t *testing.T) {
	clock := &clockOf{at: time.Date(2026, 11, 21, 4, 0, 30, 0, time.UTC)}
	h := newFixtureOn(t, t.TempDir(), node.Config{}, clock.now)
	tenantID, root := h.tenant()
	strangerID, stranger := h.tenant()
	made := h.call(root, "POST", "/v1/api-keys", `{"label":"player in Berlin","scopes":["delivery:write"]}`).ok()
	player, playerID := get[string](t, made, "apiKey"), get[string](t, made, "key", "keyId")
	require.Contains(t, h.call(root, "GET", "/v1/api-keys/"+playerID, "").text, `"lastUsedAt":null`)
	require.Nil(t, h.lastUsed(root, playerID))

	// Control refuses one, and nodes tell of others, and of a use.
	h.call(player, "GET", "/v1/rights?limit=5", "", api.HeaderRequestID, "req-control").refused(403, api.ScopeMissing)
	h.call("", "GET", "/v1/rights", "").refused(401, api.AuthRequired)
	h.call(player, "GET", "/v1/rihgts", "", api.HeaderRequestID, "req-path").refused(404, api.ResourceNotFound)
	source, told := h.control().Source(), clock.now().Unix()/60
	_, err := source.Feed(t.Context(), api.FeedRequest{NodeID: "nod_a", KeyUses: api.KeyUses{
		Used: []api.KeyUse{{KeyID: playerID, TenantID: tenantID, Minute: told + 100}, {KeyID: "key_unknown", TenantID: tenantID, Minute: told}},
		Refused: []api.Refusals{
			{TenantID: tenantID, KeyID: playerID, Operation: api.OperationDelivery, Status: 412, Code: api.PreconditionFailed, Cause: "LICENSED_REGION_MISMATCH", Count: 3, First: told - 2, Last: told, RequestID: "req-node"},
			{TenantID: strangerID, KeyID: playerID, Operation: api.OperationDelivery, Status: 409, Code: api.StateConflict, Count: 9, First: told, Last: told, RequestID: "req-lie"},
		},
	}})
	require.NoError(t, err)
	require.Equal(t, "2026-11-21T04:00:00.000Z", h.lastUsed(root, playerID), "no later than control's clock")

	lines := h.refusedOf(root, nil).Requests
	require.Len(t, lines, 3)
	byCause := map[string]counted.Line{}
	for _, l := range lines {
		require.Equal(t, playerID, l.KeyID)
		require.Equal(t, "player in Berlin", l.KeyLabel)
		require.NotEmpty(t, l.Advice)
		byCause[l.Operation] = l
	}
	require.Equal(t, "rights:read", byCause["list-rights"].Cause)
	require.Equal(t, "use a key that has it", byCause["list-rights"].Advice)
	require.Equal(t, "req-control", byCause["list-rights"].RequestID)
	require.Equal(t, "req-path", byCause["unmatched"].RequestID)
	ofNode := byCause[api.OperationDelivery]
	require.EqualValues(t, 3, ofNode.Count)
	require.Equal(t, "2026-11-21T03:58:00.000Z", ofNode.FirstAt.String())
	require.Equal(t, "2026-11-21T04:00:00.000Z", ofNode.LastAt.String())

	// Filters, and pages.
	require.Len(t, h.refusedOf(root, url.Values{"code": {"SCOPE_MISSING"}}).Requests, 1)
	require.Empty(t, h.refusedOf(root, url.Values{"keyId": {"key_other"}}).Requests)
	first := h.refusedOf(root, url.Values{"limit": {"2"}})
	second := h.refusedOf(root, url.Values{"limit": {"2"}, "cursor": {*first.Next}})
	require.Len(t, append(first.Requests, second.Requests...), 3)
	require.Nil(t, second.Next)

	// Nothing of it is another tenant's.
	require.Empty(t, h.refusedOf(stranger, nil).Requests)
	require.Empty(t, h.refusedOf(stranger, url.Values{"keyId": {playerID}}).Requests)
	h.call(player, "GET", "/v1/requests", "").refused(403, api.ScopeMissing)

	// A key that is revoked is no longer used, but its owner sees that somebody tries.
	clock.advance(12 * time.Hour)
	h.call(root, "DELETE", "/v1/api-keys/"+playerID, "").ok()
	h.call(player, "GET", "/v1/rights", "", api.HeaderRequestID, "req-revoked").refused(401, api.AuthInvalid)
	h.call(player[:len(player)-1]+"x", "GET", "/v1/rights", "").refused(401, api.AuthInvalid)
	require.Equal(t, "2026-11-21T04:00:00.000Z", h.lastUsed(root, playerID))
	newest := h.refusedOf(root, nil).Requests[0]
	require.Equal(t, []any{api.AuthInvalid, "req-revoked", int64(1)}, []any{newest.Code, newest.RequestID, newest.Count})

	// A day later they are gone, one after the other.
	clock.advance(12*time.Hour + time.Minute)
	require.NoError(t, h.requests.Forget(t.Context()))
	left := h.refusedOf(root, url.Values{"keyId": {playerID}}).Requests
	require.Len(t, left, 1)
	require.Equal(t, "req-revoked", left[0].RequestID)
	clock.advance(12 * time.Hour)
	require.Empty(t, h.refusedOf(root, nil).Requests, "before it is deleted, too")
	require.NoError(t, h.requests.Forget(t.Context()))
	var rows int
	require.NoError(t, h.db.Read().QueryRowContext(t.Context(), `SELECT COUNT(*) FROM refused_requests`).Scan(&rows))
	require.Zero(t, rows)
}

// TestRefusedRequestsAreBounded in the database, whatever a tenant does, and all are counted.
func TestRefusedRequestsAreBounded(t *testing.T) {
	h := newFixture(t)
	tenantID, root := h.tenant()
	otherID, other := h.tenant()
	made := h.call(root, "POST", "/v1/api-keys", `{"label":"hostile"}`).ok()
	hostile := &api.Key{ID: get[string](t, made, "key", "keyId"), TenantID: tenantID}
	victim := &api.Key{ID: get[string](t, h.call(other, "POST", "/v1/api-keys", `{"label":"victim"}`).ok(), "key", "keyId"), TenantID: otherID}
	keys := []*api.Key{hostile}
	for n := range 4 {
		keys = append(keys, &api.Key{ID: get[string](t, h.call(root, "POST", "/v1/api-keys", fmt.Sprintf(`{"label":"key %d"}`, n)).ok(), "key", "keyId"), TenantID: tenantID})
	}
	lines := func() (of map[string]int, total int64) {
		of = map[string]int{}
		for _, l := range h.refusedOf(root, url.Values{"limit": {"500"}}).Requests {
			require.Equal(t, l.Operation == "", l.Code == "" && l.Status == 0)
			of[l.KeyID]++
			total += l.Count
		}
		return of, total
	}
	for k, key := range keys {
		for n := range 2000 {
			h.requests.Counter().Refused(key, fmt.Sprint("operation-", n), &api.Error{Code: api.Code(fmt.Sprint("CODE_", n)), HTTPStatus: 400}, "req", h.db.Now())
			if n%200 == 0 { // as it would be with time
				require.NoError(t, h.requests.Write(t.Context()))
			}
		}
		if k == 0 {
			of, total := lines()
			require.Equal(t, map[string]int{hostile.ID: keyuse.MostOfKey + 1}, of, "a key leaves room for others")
			require.EqualValues(t, 2000, total)
		}
	}
	h.requests.Counter().Refused(victim, "list-rights", api.NotFound("right"), "req-victim", h.db.Now())
	of, total := lines()
	require.Equal(t, 1, of[""])
	sum := 0
	for _, n := range of {
		sum += n
	}
	require.Equal(t, keyuse.MostOfTenant+1, sum)
	require.EqualValues(t, 10_000, total)
	require.Equal(t, "req-victim", h.refusedOf(other, nil).Requests[0].RequestID)
}

// TestCountOfALineBeginsAgain after a day, so that it is no sum of weeks.
func TestCountOfALineBeginsAgain(t *testing.T) {
	clock := &clockOf{at: time.Date(2026, 11, 21, 4, 0, 0, 0, time.UTC)}
	h := newFixtureOn(t, t.TempDir(), node.Config{}, clock.now)
	_, root := h.tenant()
	refuse := func() counted.Line {
		h.call(root, "GET", "/v1/rights/rgh_none", "").refused(404, api.ResourceNotFound)
		return h.refusedOf(root, nil).Requests[0]
	}
	require.EqualValues(t, 1, refuse().Count)
	clock.advance(23 * time.Hour)
	second := refuse()
	require.EqualValues(t, 2, second.Count)
	require.Equal(t, 23*time.Hour, second.LastAt.Sub(second.FirstAt.Time))
	clock.advance(2 * time.Hour)
	third := refuse()
	require.EqualValues(t, 1, third.Count)
	require.Equal(t, third.LastAt, third.FirstAt)
}

// TestRequestsThatCannotBeWritten, as while the database is away, are counted on.
func TestRequestsThatCannotBeWritten(t *testing.T) {
	h := newFixture(t)
	_, root := h.tenant()
	h.call(root, "GET", "/v1/rights/rgh_none", "").refused(404, api.ResourceNotFound)
	ended, end := context.WithCancel(t.Context())
	end()
	require.Error(t, h.requests.Write(ended))
	require.Error(t, h.requests.Write(ended))
	require.EqualValues(t, 1, h.refusedOf(root, nil).Requests[0].Count)
	require.NotNil(t, get[[]any](t, h.call(root, "GET", "/v1/api-keys", "").ok(), "keys")[0].(map[string]any)["lastUsedAt"])
}

// TestPollsDoNotWaitForCounts: while the counts can't be written, as behind a lock, nodes keep their leases, and nothing is
// lost.
func TestPollsDoNotWaitForCounts(t *testing.T) {
	dir := t.TempDir()
	h := newFixtureOn(t, dir, node.Config{})
	if !h.db.Shared() {
		t.Skip("one process has all nodes in memory")
	}
	path, url := storetest.Place(t, dir)
	other, err := store.Open(t.Context(), store.Config{Path: path, URL: url})
	require.NoError(t, err)
	defer other.Close()
	_, root := h.tenant()
	h.call(root, "GET", "/v1/rights/rgh_none", "").refused(404, api.ResourceNotFound)
	written := make(chan error, 1)
	require.NoError(t, other.Transact(t.Context(), func(tx *sql.Tx) error {
		_, err := tx.ExecContext(t.Context(), `LOCK TABLE key_uses IN SHARE MODE`)
		require.NoError(t, err)
		go func() { written <- h.requests.Write(context.WithoutCancel(t.Context())) }()
		waittest.Until(t, func() bool {
			var waits bool
			require.NoError(t, other.Read().QueryRowContext(t.Context(), `SELECT EXISTS (SELECT 1 FROM pg_locks WHERE NOT granted AND relation = 'key_uses'::regclass)`).Scan(&waits))
			return waits
		})
		soon, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.NoError(t, h.nodes.Polled(soon, api.FeedRequest{NodeID: "nod_a", Epoch: 1, After: 1}))
		require.Error(t, <-written, "it gives up")
		return nil
	}))
	require.EqualValues(t, 1, h.refusedOf(root, nil).Requests[0].Count)
	require.NotNil(t, get[[]any](t, h.call(root, "GET", "/v1/api-keys", "").ok(), "keys")[0].(map[string]any)["lastUsedAt"])
}

// TestUsesOfKeysThatAreGone are deleted, and no others.
func TestUsesOfKeysThatAreGone(t *testing.T) {
	h := newFixture(t)
	_, root := h.tenant()
	keyID := get[[]any](t, h.call(root, "GET", "/v1/api-keys", "").ok(), "keys")[0].(map[string]any)["keyId"].(string)
	require.NotNil(t, h.lastUsed(root, keyID))
	require.NoError(t, h.db.Transact(t.Context(), func(tx *sql.Tx) error {
		_, err := tx.ExecContext(t.Context(), `INSERT INTO key_uses (key_id, tenant_id, used_at) VALUES ('key_gone', 'tnt_gone', 1)`)
		return err
	}))
	require.NoError(t, h.requests.ForgetUses(t.Context()))
	left, err := store.List(t.Context(), h.db.Read(), "the uses of keys", store.Text, `SELECT key_id FROM key_uses`)
	require.NoError(t, err)
	require.Equal(t, []string{keyID}, left)
}
