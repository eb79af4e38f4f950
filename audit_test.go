package main

import (
	"encoding/json"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment/gateway/api"
)

// write is a call of an operation that writes, and the events that it leaves, in their
// order. What it makes is what later calls are about; its body is the document's example
// unless it has one of its own.
type write struct {
	operation string
	events    []string
	makes     string
	body      string
	again     int // the status of the same call once more, which leaves nothing; 0 doesn't ask
}

var writes = []write{
	{operation: "create-api-key", events: []string{"key.created"}, makes: "keyId"},
	{operation: "rotate-api-key", events: []string{"key.rotated"}, again: 409},
	{operation: "revoke-api-key", events: []string{"key.revoked"}, again: 200},

	{operation: "create-basis", events: []string{"basis.created"}, makes: "basisId"},
	{operation: "issue-right", events: []string{"right.issued"}, makes: "rightId", body: newRight},
	{operation: "suspend-right", events: []string{"right.suspended"}, again: 409},
	{operation: "resume-right", events: []string{"right.resumed"}, again: 409},

	{operation: "propose-offer", events: []string{"offer.proposed"}, makes: "offerId"},
	{operation: "counter-offer", events: []string{"offer.countered", "offer.proposed"}, again: 409},
	{operation: "propose-offer", events: []string{"offer.proposed"}, makes: "offerId"},
	{operation: "withdraw-offer", events: []string{"offer.withdrawn"}, again: 409},
	{operation: "propose-offer", events: []string{"offer.proposed"}, makes: "offerId"},
	{operation: "reject-offer", events: []string{"offer.rejected"}, again: 409},
	{operation: "propose-offer", events: []string{"offer.proposed"}, makes: "offerId"},
	{operation: "accept-offer", events: []string{"offer.accepted", "right.issued"}, again: 409},

	{operation: "observe-delivery", events: []string{"delivery.recorded"}},
	{operation: "seal-proof-packs", events: []string{"pack.sealed"}},

	{operation: "open-challenge", events: []string{"challenge.opened"}, makes: "challengeId"},
	{operation: "withdraw-challenge", events: []string{"challenge.withdrawn"}, again: 409},
	{operation: "open-challenge", events: []string{"challenge.opened"}, makes: "challengeId"},
	{operation: "resolve-challenge", events: []string{"challenge.overturned"}, again: 409},
	{operation: "open-challenge", events: []string{"challenge.opened"}, makes: "challengeId"},
	{operation: "resolve-challenge", events: []string{"challenge.upheld", "right.revoked"}, body: `{"upheld":true}`, again: 409},

	{operation: "issue-right", events: []string{"right.issued"}, makes: "rightId", body: newRight},
	{operation: "revoke-right", events: []string{"right.revoked"}, again: 200},
	// The last one shows that nothing comes behind those before it.
	{operation: "create-basis", events: []string{"basis.created"}},
}

const newRight = `{"basisId":"{basisId}","substrate":"CTV","scope":{},"effectiveFrom":"2026-01-01T00:00:00Z"}`

// TestEveryWriteLeavesItsEvents calls every operation of the document that writes: it
// leaves its events in the tenant's log, in order and once, and a refused call of it
// leaves none.
func TestEveryWriteLeavesItsEvents(t *testing.T) {
	exe, data := muniment(t), filepath.Join(t.TempDir(), "data")
	server := startServer(t, exe, data)
	tenant := createTenant(t, exe, data)
	known, untold := map[string]operation{}, map[string]bool{}
	for _, o := range operations(t, server) {
		known[o.id] = o
		if o.method != http.MethodGet {
			untold[o.id] = true
		}
	}
	log := auditLog{t: t, url: server.API, key: tenant.APIKey}
	log.expect("a new tenant", "tenant.created", "key.created")
	var narrow struct{ Data struct{ APIKey string } }
	made := call(t, server.API, tenant.APIKey, operation{method: "POST", path: "/v1/api-keys", body: `{"label":"x","scopes":["disputes:read"]}`})
	require.NoError(t, json.Unmarshal([]byte(made.body), &narrow))
	log.expect("its second key", "key.created")

	ids, refusals := map[string]string{}, 0
	for _, w := range writes {
		o, ok := known[w.operation]
		require.True(t, ok, "the document has no operation %s", w.operation)
		delete(untold, w.operation)
		if w.body != "" {
			o.body = w.body
		}
		require.NotContains(t, o.scope, "disputes:", o.id)
		call(t, server.API, "", o.with(ids)).refused(t, 401, api.AuthRequired, o.id)
		call(t, server.API, narrow.Data.APIKey, o.with(ids)).refused(t, 403, api.ScopeMissing, o.id)
		refusals += 2
		if o.body != "" {
			broken := o.with(ids)
			broken.body = strings.TrimSuffix(broken.body, "}")
			call(t, server.API, tenant.APIKey, broken).refused(t, 400, api.BadRequest, o.id)
			refusals++
		}
		for _, name := range o.names() {
			require.Contains(t, ids, name, o.id)
			none := o.with(map[string]string{name: unknown(ids[name])}).with(ids)
			call(t, server.API, tenant.APIKey, none).refused(t, 404, api.ResourceNotFound, o.id)
			refusals++
		}

		a := call(t, server.API, tenant.APIKey, o.with(ids))
		require.Equal(t, 200, a.status, "%s: %s", o.id, a.body)
		if w.again != 0 {
			again := call(t, server.API, tenant.APIKey, o.with(ids))
			require.Equal(t, w.again, again.status, "%s once more: %s", o.id, again.body)
			refusals++
		}
		if w.makes != "" {
			ids[w.makes] = ofOurs[w.makes].FindString(a.body)
		}
		log.expect(o.id, w.events...)
	}
	require.Empty(t, untold, "operations that write, and of which it is not said what they leave in the log")
	t.Logf("%d writes, %d calls that write nothing", len(writes), refusals)
}

// auditLog reads a tenant's log on from where it was.
type auditLog struct {
	t        *testing.T
	url, key string
	after    string
}

// expect waits for the next events, and asks that they are these and all that there are.
func (l *auditLog) expect(about string, types ...string) {
	l.t.Helper()
	var page struct {
		Data struct {
			Events []struct {
				Position string
				Event    struct{ Type string }
			}
		}
	}
	var got []string
	require.Eventually(l.t, func() bool {
		a := call(l.t, l.url, l.key, operation{method: "GET", path: "/v1/events?order=asc&limit=500&after=" + l.after})
		if a.status != 200 || json.Unmarshal([]byte(a.body), &page) != nil {
			return false
		}
		got = got[:0]
		for _, e := range page.Data.Events {
			got = append(got, e.Event.Type)
		}
		return len(got) >= len(types)
	}, 20*time.Second, 5*time.Millisecond, "%s left %v, and no %v", about, &got, types)
	require.Equal(l.t, types, got, about)
	l.after = page.Data.Events[len(got)-1].Position
}
