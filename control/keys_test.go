package control_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/bench/waittest"
	"muniment.example/control/rollback"
	"muniment.example/control/store"
	"muniment.example/control/tenant"
	"muniment.example/deploy/stack/stacktest"
	"muniment.example/gateway/api"
	"muniment.example/gateway/auth"
	"muniment.example/pipeline/segment"
	"muniment.example/sealer"
	"muniment.example/sealer/canonical"
	"muniment.example/sealer/keydir"
)

// admin sends a request of the operator's.
func (h *fixture) admin(method, path, body string) answer {
	h.t.Helper()
	return send(h.t, h.control().Admin(), adminToken, method, path, body)
}

// eventsOf lists the newest types of a tenant's events, n of them.
func (h *fixture) newest(tenantID string, n int) (types []string) {
	h.t.Helper()
	events := h.events(tenantID)
	require.GreaterOrEqual(h.t, len(events), n)
	for _, e := range events[len(events)-n:] {
		types = append(types, e.Type)
	}
	return types
}

func TestRotateAPIKey(t *testing.T) {
	h := newFixture(t)
	tenantID, key := h.tenant("keys:write", "rights:read")
	oldID := get[string](t, h.call(key, "GET", "/v1/tenant", "").ok(), "key", "keyId")
	before := time.Now()
	made := h.call(key, "POST", "/v1/api-keys/"+oldID+"/rotate", `{"overlapSeconds":60}`).ok()
	next, nextID := get[string](t, made, "apiKey"), get[string](t, made, "key", "keyId")
	require.Equal(t, "first key", get[string](t, made, "key", "label"))
	require.Equal(t, []any{"rights:read", "keys:write"}, get[[]any](t, made, "key", "scopes"))
	require.Nil(t, get[map[string]any](t, made, "key")["expiresAt"])
	require.Equal(t, nextID, get[string](t, made, "replaced", "successorKeyId"))
	require.Equal(t, true, get[bool](t, made, "propagation", "applied"))
	end, err := canonical.ParseTime(get[string](t, made, "replaced", "expiresAt"))
	require.NoError(t, err)
	require.WithinRange(t, end, before.Add(time.Minute).Truncate(time.Millisecond), time.Now().Add(time.Minute))

	// Both work, the old one until its end: the same record decides here and at the edge.
	h.call(key, "GET", "/v1/tenant", "").ok()
	h.call(next, "GET", "/v1/tenant", "").ok()
	snapshot, err := store.Newest(t.Context(), h.db, api.Keys, oldID)
	require.NoError(t, err)
	require.True(t, snapshot.ExpiresAt.Equal(end))
	require.Contains(t, h.call(key, "POST", "/v1/api-keys/"+oldID+"/rotate", "").refused(409, api.StateConflict), "its successor is "+nextID)

	// Without an overlap the old one ends at once.
	third := h.call(next, "POST", "/v1/api-keys/"+nextID+"/rotate", `{"overlapSeconds":0}`).ok()
	h.call(next, "GET", "/v1/tenant", "").refused(401, api.AuthInvalid)
	h.call(get[string](t, third, "apiKey"), "GET", "/v1/tenant", "").ok()

	require.Equal(t, []string{"tenant.created", "key.created", "key.rotated", "key.rotated"}, h.newest(tenantID, 4))
	rotated := h.events(tenantID)[2]
	require.Equal(t, sealer.Ref{Kind: "key", ID: oldID}, rotated.Subject)
	require.Contains(t, string(rotated.Data), `"successor":{"createdAt"`)
	require.NotContains(t, string(rotated.Data), next[len(next)-52:len(next)-9], "no secret in an event")
	require.NotContains(t, string(rotated.Data), "ecretHash")
}

// TestEndOfAKeyIsInTheLog: a key that is to end at once ends only where the log has it, as a revocation.
func TestEndOfAKeyIsInTheLog(t *testing.T) {
	stacktest.Postgres(t)
	h := newFixture(t)
	_, key := h.tenant("keys:write", "rights:read")
	id := get[string](t, h.call(key, "GET", "/v1/tenant", "").ok(), "key", "keyId")
	log, err := segment.Open(segment.Config{Dir: t.TempDir(), SegmentBytes: 64 << 10})
	require.NoError(t, err)
	defer log.Close()
	_, err = rollback.History{Log: log}.Reconcile(t.Context(), h.db)
	require.NoError(t, err)
	end := func() answer { return h.call(key, "POST", "/v1/api-keys/"+id+"/rotate", `{"overlapSeconds":0}`) }
	require.Contains(t, end().refused(503, api.InternalError), "nothing was changed")
	h.call(key, "GET", "/v1/tenant", "").ok()

	relaying, stop := context.WithCancel(t.Context())
	relayed := make(chan error, 1)
	go func() { relayed <- h.db.Outbox.Relay(relaying, log) }()
	end().ok()
	_, last, err := log.Bounds(t.Context(), segment.Partition)
	require.NoError(t, err)
	var types []string
	require.NoError(t, log.Scan(t.Context(), sealer.Position{Generation: last.Generation}, last, func(e sealer.Entry) error {
		event, err := sealer.ParseEvent(e.Event)
		types = append(types, event.Type)
		return err
	}))
	require.Contains(t, types, "key.rotated")
	stop()
	require.NoError(t, <-relayed)
}

// TestKeyInForce: the work of a key continues under its successor, and not if it was revoked or has
// expired without one.
func TestKeyInForce(t *testing.T) {
	h := newFixture(t)
	_, first := h.tenant("keys:write", "rights:read")
	firstID := get[string](t, h.call(first, "GET", "/v1/tenant", "").ok(), "key", "keyId")
	now := time.Now()
	require.Equal(t, firstID, h.inForce(firstID, now))
	rotate := func(key, id, overlap string) (next, nextID string) {
		made := h.call(key, "POST", "/v1/api-keys/"+id+"/rotate", `{"overlapSeconds":`+overlap+`}`).ok()
		return get[string](t, made, "apiKey"), get[string](t, made, "key", "keyId")
	}
	second, secondID := rotate(first, firstID, "3600")
	require.Equal(t, firstID, h.inForce(firstID, now), "it still works")
	require.Equal(t, secondID, h.inForce(firstID, now.Add(2*time.Hour)))
	third, thirdID := rotate(second, secondID, "0")
	require.Equal(t, thirdID, h.inForce(firstID, now.Add(2*time.Hour)))

	h.call(third, "DELETE", "/v1/api-keys/"+thirdID, "").ok()
	require.Equal(t, firstID, h.inForce(firstID, now.Add(2*time.Hour)), "the last successor is revoked")
	require.Equal(t, secondID, h.inForce(secondID, now.Add(2*time.Hour)))

	_, key := h.tenant("keys:write", "rights:read")
	ended := get[string](t, h.call(key, "POST", "/v1/api-keys", `{"label":"x","expiresAt":"2999-01-01T00:00:00Z"}`).ok(), "key", "keyId")
	require.Equal(t, ended, h.inForce(ended, time.Date(3000, 1, 1, 0, 0, 0, 0, time.UTC)))
	_, heirID := rotate(key, ended, "3600")
	h.call(key, "DELETE", "/v1/api-keys/"+ended, "").ok()
	require.Equal(t, ended, h.inForce(ended, now), "it was revoked, though "+heirID+" took over")
	require.Equal(t, "key_none", h.inForce("key_none", now))
}

func (h *fixture) inForce(keyID string, at time.Time) string {
	h.t.Helper()
	found, err := tenant.KeyInForce(h.t.Context(), h.db.Read(), keyID, at)
	require.NoError(h.t, err)
	return found
}

func TestRotateAPIKeyRefuses(t *testing.T) {
	h := newFixture(t)
	_, key := h.tenant("keys:write", "rights:read")
	mine := get[string](t, h.call(key, "GET", "/v1/tenant", "").ok(), "key", "keyId")
	rotate := func(key, id, body string) answer { return h.call(key, "POST", "/v1/api-keys/"+id+"/rotate", body) }
	for body, field := range map[string]string{
		`{"overlapSeconds":-1}`: "overlapSeconds", `{"overlapSeconds":2592001}`: "overlapSeconds", `{"overlapSeconds":1.5}`: "overlapSeconds",
		`{"expiresAt":"2020-01-01T00:00:00Z"}`: "expiresAt", `{"expiresAt":"soon"}`: "expiresAt",
	} {
		require.Contains(t, rotate(key, mine, body).refused(422, api.ValidationFailed), `"field":"`+field+`"`, body)
	}

	// No key rotates into scopes that it lacks, or without keys:write.
	reader := h.call(key, "POST", "/v1/api-keys", `{"label":"reader","scopes":["rights:read"]}`).ok()
	rotate(get[string](t, reader, "apiKey"), mine, "").refused(403, api.ScopeMissing)
	narrow := h.call(key, "POST", "/v1/api-keys", `{"label":"narrow","scopes":["keys:write"]}`).ok()
	require.Contains(t, rotate(get[string](t, narrow, "apiKey"), mine, "").refused(403, api.ScopeMissing), `"requiredScopes":["rights:read"]`)

	readerID := get[string](t, reader, "key", "keyId")
	h.call(key, "DELETE", "/v1/api-keys/"+readerID, "").ok()
	require.Contains(t, rotate(key, readerID, "").refused(409, api.StateConflict), "is revoked")
	rotate(key, "key_00000000000000000000000000", "").refused(404, api.ResourceNotFound)
}

// TestSuccessorLivesAsLong: a rotation does not change a key with an end into one
// without, nor does an overlap lengthen a life.
func TestSuccessorLivesAsLong(t *testing.T) {
	h := newFixture(t)
	_, key := h.tenant()
	ends := time.Now().Add(time.Hour).UTC().Truncate(time.Millisecond)
	made := h.call(key, "POST", "/v1/api-keys", fmt.Sprintf(`{"label":"hourly","expiresAt":%q}`, canonical.FormatTime(ends))).ok()
	rotated := h.call(key, "POST", "/v1/api-keys/"+get[string](t, made, "key", "keyId")+"/rotate", "").ok()
	require.Equal(t, canonical.FormatTime(ends), get[string](t, rotated, "replaced", "expiresAt"), "a day is more than it had")
	born, err := canonical.ParseTime(get[string](t, rotated, "key", "createdAt"))
	require.NoError(t, err)
	madeAt, err := canonical.ParseTime(get[string](t, made, "key", "createdAt"))
	require.NoError(t, err)
	require.Equal(t, canonical.FormatTime(born.Add(ends.Sub(madeAt))), get[string](t, rotated, "key", "expiresAt"))

	other := h.call(key, "POST", "/v1/api-keys/"+get[string](t, rotated, "key", "keyId")+"/rotate", `{"expiresAt":"2099-01-01T00:00:00Z"}`).ok()
	require.Equal(t, "2099-01-01T00:00:00.000Z", get[string](t, other, "key", "expiresAt"))
}

// TestOneOfManyRotationsWins calls at once: one key takes over, with one event.
func TestOneOfManyRotationsWins(t *testing.T) {
	stacktest.Both(t)
	h := newFixture(t)
	tenantID, key := h.tenant()
	id := get[string](t, h.call(key, "GET", "/v1/tenant", "").ok(), "key", "keyId")
	var answers [8]answer
	var callers sync.WaitGroup
	for i := range answers {
		callers.Go(func() { answers[i] = h.call(key, "POST", "/v1/api-keys/"+id+"/rotate", "") })
	}
	callers.Wait()
	won := 0
	for _, a := range answers {
		if a.status == 200 {
			won++
			continue
		}
		a.refused(409, api.StateConflict)
	}
	require.Equal(t, 1, won)
	require.Len(t, get[[]any](t, h.call(key, "GET", "/v1/api-keys", "").ok(), "keys"), 2)
	require.Equal(t, []string{"tenant.created", "key.created", "key.rotated"}, h.newest(tenantID, 3))
}

// TestOperatorChangesKeys of any tenant, with any scope, and the events say who did.
func TestOperatorChangesKeys(t *testing.T) {
	h := newFixture(t)
	tenantID, key := h.tenant("rights:read")
	id := get[string](t, h.call(key, "GET", "/v1/tenant", "").ok(), "key", "keyId")
	made := h.admin("POST", "/admin/api-keys", fmt.Sprintf(`{"tenantId":%q,"label":"all of it","scopes":["*"],"env":"live"}`, tenantID)).ok()
	all := get[string](t, made, "apiKey")
	require.Equal(t, tenantID, get[string](t, h.call(all, "GET", "/v1/tenant", "").ok(), "tenant", "tenantId"))
	rotated := h.admin("POST", "/admin/api-keys/"+id+"/rotate", `{"overlapSeconds":0}`).ok()
	h.call(key, "GET", "/v1/tenant", "").refused(401, api.AuthInvalid)
	next := get[string](t, rotated, "apiKey")
	h.call(next, "GET", "/v1/tenant", "").ok()
	nextID := get[string](t, rotated, "key", "keyId")
	revoked := h.admin("POST", "/admin/api-keys/"+nextID+"/revoke", "").ok()
	require.Equal(t, revoked, h.admin("POST", "/admin/api-keys/"+nextID+"/revoke", "").ok(), "twice changes nothing")
	h.call(next, "GET", "/v1/tenant", "").refused(401, api.AuthInvalid)
	require.Len(t, get[[]any](t, h.admin("GET", "/admin/api-keys?tenantId="+tenantID, "").ok(), "keys"), 3)

	for _, path := range []string{"/admin/api-keys/key_0/rotate", "/admin/api-keys/key_0/revoke"} {
		h.admin("POST", path, "").refused(404, api.ResourceNotFound)
	}
	h.admin("POST", "/admin/api-keys", `{"tenantId":"tnt_0","label":"x"}`).refused(404, api.ResourceNotFound)
	h.admin("GET", "/admin/api-keys?tenantId=tnt_0", "").refused(404, api.ResourceNotFound)
	h.admin("POST", "/admin/api-keys", fmt.Sprintf(`{"tenantId":%q,"label":"x","scopes":["no"]}`, tenantID)).refused(422, api.ValidationFailed)

	events := h.events(tenantID)
	require.Equal(t, []string{"tenant.created", "key.created", "key.created", "key.rotated", "key.revoked"}, h.newest(tenantID, 5))
	for _, e := range events {
		require.Equal(t, sealer.Ref{Kind: "operator", ID: "admin"}, e.Actor)
	}
}

// TestRevokeNamesSuccessors: a thief may have rotated the key, twice.
func TestRevokeNamesSuccessors(t *testing.T) {
	h := newFixture(t)
	_, key := h.tenant()
	id := func(answer map[string]any, path ...string) string { return get[string](t, answer, path...) }
	stolen := id(h.call(key, "GET", "/v1/tenant", "").ok(), "key", "keyId")
	second := h.call(key, "POST", "/v1/api-keys/"+stolen+"/rotate", `{"overlapSeconds":60}`).ok()
	next := id(second, "apiKey")
	third := h.call(next, "POST", "/v1/api-keys/"+id(second, "key", "keyId")+"/rotate", `{"overlapSeconds":60}`).ok()
	revoke := func(keyID string) map[string]any { return h.admin("POST", "/admin/api-keys/"+keyID+"/revoke", "").ok() }
	require.Equal(t, []any{id(second, "key", "keyId"), id(third, "key", "keyId")}, get[[]any](t, revoke(stolen), "successors"))
	require.Equal(t, []any{id(third, "key", "keyId")}, get[[]any](t, revoke(id(second, "key", "keyId")), "successors"))
	require.NotContains(t, revoke(id(third, "key", "keyId")), "successors")
	require.NotContains(t, revoke(stolen), "successors")
}

// TestKeyMakesNoneThatOutlivesIt: a key with an end gives none that lasts longer, to a key
// that it makes or to the successor of another one.
func TestKeyMakesNoneThatOutlivesIt(t *testing.T) {
	h := newFixture(t)
	tenantID, lasting := h.tenant()
	ends := time.Now().Add(time.Hour).UTC().Truncate(time.Millisecond)
	create := func(by, label, expires string) answer {
		if expires != "" {
			expires = fmt.Sprintf(`,"expiresAt":%q`, expires)
		}
		return h.call(by, "POST", "/v1/api-keys", fmt.Sprintf(`{"label":%q%s}`, label, expires))
	}
	rotate := func(by, keyID, body string) answer { return h.call(by, "POST", "/v1/api-keys/"+keyID+"/rotate", body) }
	end := func(a answer) string { return get[string](t, a.ok(), "key", "expiresAt") }
	id := func(a answer) string { return get[string](t, a.ok(), "key", "keyId") }
	refused := func(a answer, latest string) {
		t.Helper()
		body := a.refused(422, api.ValidationFailed)
		require.Contains(t, body, `"field":"expiresAt"`)
		require.Contains(t, body, "must not be later than "+latest)
	}
	const never = `{"expiresAt":"2099-01-01T00:00:00Z"}`
	at, sooner, later := canonical.FormatTime(ends), canonical.FormatTime(ends.Add(-time.Minute)), canonical.FormatTime(ends.Add(time.Millisecond))
	hourly := create(lasting, "hourly", at)
	brief := get[string](t, hourly.ok(), "apiKey")

	require.Equal(t, at, end(create(brief, "as long", "")))
	require.Equal(t, at, end(create(brief, "as long", at)))
	require.Equal(t, sooner, end(create(brief, "shorter", sooner)))
	refused(create(brief, "longer", later), at)
	refused(create(brief, "longer", "2099-01-01T00:00:00Z"), at)

	// Of another key that lasts longer it makes no successor that does.
	other := func() string { return id(create(lasting, "other", "")) }
	require.Equal(t, at, end(rotate(brief, other(), "")))
	require.Equal(t, sooner, end(rotate(brief, other(), fmt.Sprintf(`{"expiresAt":%q}`, sooner))))
	refused(rotate(brief, other(), never), at)
	require.Equal(t, at, end(rotate(brief, id(create(lasting, "monthly", canonical.FormatTime(ends.Add(720*time.Hour)))), "")))

	// Nor does it prolong its own life, nor that of its successor, if that was lost.
	refused(rotate(brief, id(hourly), never), at)
	successor := rotate(brief, id(hourly), "")
	require.Equal(t, at, end(successor))
	refused(rotate(brief, id(successor), fmt.Sprintf(`{"expiresAt":%q}`, later)), at)
	next := rotate(brief, id(successor), "")
	require.Equal(t, at, end(next))

	// A key without an end may give any, and so may an operator.
	require.Equal(t, "2099-01-01T00:00:00.000Z", end(create(lasting, "lasting", "2099-01-01T00:00:00Z")))
	require.Equal(t, "2099-01-01T00:00:00.000Z", end(h.admin("POST", "/admin/api-keys/"+id(next)+"/rotate", never)))
	made := h.admin("POST", "/admin/api-keys", fmt.Sprintf(`{"tenantId":%q,"label":"x"}`, tenantID))
	require.Nil(t, get[map[string]any](t, made.ok(), "key")["expiresAt"])
}

// TestKeyMakesNoneOnceItHasEnded: not by a request either that was let in before.
func TestKeyMakesNoneOnceItHasEnded(t *testing.T) {
	h := newFixture(t)
	_, key := h.tenant()
	me := get[string](t, h.call(key, "GET", "/v1/tenant", "").ok(), "key", "keyId")
	other := get[string](t, h.call(key, "POST", "/v1/api-keys", `{"label":"other"}`).ok(), "key", "keyId")
	letIn, err := store.Newest(t.Context(), h.db, api.Keys, me)
	require.NoError(t, err)
	h.admin("POST", "/admin/api-keys/"+me+"/revoke", "").ok()
	for path, body := range map[string]string{"/v1/api-keys": `{"label":"late"}`, "/v1/api-keys/" + other + "/rotate": ""} {
		status, text, err := h.control().Call(t.Context(), auth.Principal{Key: letIn}, "POST", path, []byte(body))
		require.NoError(t, err)
		require.Equal(t, 401, status, string(text))
	}
}

// TestRevokeNamesMadeKeys: a thief may have made other keys, and those others more.
func TestRevokeNamesMadeKeys(t *testing.T) {
	h := newFixture(t)
	tenantID, key := h.tenant()
	create := func(by, label string) (keyID, token string) {
		made := h.call(by, "POST", "/v1/api-keys", fmt.Sprintf(`{"label":%q}`, label)).ok()
		return get[string](t, made, "key", "keyId"), get[string](t, made, "apiKey")
	}
	revoke := func(keyID string) map[string]any { return h.call(key, "DELETE", "/v1/api-keys/"+keyID, "").ok() }
	labels := func(revoked map[string]any) (labels []string) {
		for _, k := range list(t, revoked, "madeKeys") {
			require.NotEmpty(t, k["keyId"])
			labels = append(labels, k["label"].(string))
		}
		return labels
	}
	stolenID, stolen := create(key, "stolen")
	first, token := create(stolen, "first")
	create(token, "of the first")
	gone, ended := create(stolen, "gone")
	create(ended, "of the gone")
	revoke(gone)
	create(key, "not by the thief")
	bystander, _ := create(key, "rotated by the thief")
	successor := h.call(stolen, "POST", "/v1/api-keys/"+bystander+"/rotate", `{"overlapSeconds":60}`).ok()
	require.Equal(t, stolenID, get[string](t, successor, "key", "createdBy"))

	revoked := revoke(stolenID)
	require.ElementsMatch(t, []string{"rotated by the thief", "of the gone", "of the first", "first"}, labels(revoked))
	require.NotContains(t, revoked, "moreMadeKeys")
	for _, made := range list(t, revoked, "madeKeys") {
		require.Equal(t, map[string]string{
			"first": stolenID, "of the first": first, "of the gone": gone, "rotated by the thief": stolenID,
		}[made["label"].(string)], made["createdBy"])
	}
	require.Equal(t, revoked, revoke(stolenID), "a second revocation names them again")
	require.Equal(t, []string{"of the first"}, labels(revoke(first)))
	require.ElementsMatch(t, []string{"rotated by the thief", "of the gone", "of the first"}, labels(h.admin("POST", "/admin/api-keys/"+stolenID+"/revoke", "").ok()))

	// Each record, and its event, has the creator.
	me := get[map[string]any](t, h.call(key, "GET", "/v1/tenant", "").ok(), "key")["keyId"]
	require.Equal(t, me, get[string](t, h.call(key, "GET", "/v1/api-keys/"+stolenID, "").ok(), "key", "createdBy"))
	require.Equal(t, "operator", get[string](t, h.call(key, "GET", "/v1/api-keys/"+me.(string), "").ok(), "key", "createdBy"))
	require.Contains(t, string(h.events(tenantID)[2].Data), fmt.Sprintf(`"createdBy":%q`, me))
}

// TestRevokeNamesMembersAndLinks: a thief may have invited persons, who made more, and have made links of payees. All that work
// on are named, also before the revocation, and persons who have not signed in are removed with the key that invited them.
func TestRevokeNamesMembersAndLinks(t *testing.T) {
	h := newFixture(t)
	tenantID, _ := h.tenant()
	all := h.admin("POST", "/admin/api-keys", fmt.Sprintf(`{"tenantId":%q,"label":"all","scopes":["*"]}`, tenantID)).ok()
	key := get[string](t, all, "apiKey")
	made := h.call(key, "POST", "/v1/api-keys", `{"label":"stolen","scopes":["*"]}`).ok()
	stolenID, stolen := get[string](t, made, "key", "keyId"), get[string](t, made, "apiKey")
	invite := func(by, email string) string {
		return get[string](t, h.call(by, "POST", "/v1/members", fmt.Sprintf(`{"email":%q,"role":"owner"}`, email)).ok(), "member", "id")
	}
	invite(key, "ours@example.org")
	h.signedIn("ours@example.org")
	joined, waiting := invite(stolen, "joined@example.org"), invite(stolen, "waiting@example.org")
	session := h.session(h.signedIn("joined@example.org"))
	friend := get[string](t, h.as(session, "POST", "/v1/members", `{"email":"friend@example.org","role":"viewer"}`).ok(), "member", "id")
	h.as(session, "POST", "/v1/api-keys", `{"label":"of the member"}`).ok()
	for id, by := range map[string]string{"pln_a": stolenID, "pln_b": joined, "pln_c": "key_other"} {
		h.sql(`INSERT INTO payee_links (link_id, tenant_id, statement_id, counterparty_id, token_hash, state, expires_at, created_by, created_at, updated_at, revision) VALUES ($1, $2, 'stm_a', 'cpt_a', $1, 'ACTIVE', 4102444800000, $3, 0, 0, 0)`, id, tenantID, by)
	}
	named := func(from map[string]any, what, member string) (all []string) {
		for _, one := range list(t, from, what) {
			all = append(all, one[member].(string))
		}
		return all
	}
	before := h.call(key, "GET", "/v1/api-keys/"+stolenID, "").ok()
	require.ElementsMatch(t, []string{joined, waiting, friend}, named(before, "madeMembers", "memberId"))
	revoked := h.call(key, "DELETE", "/v1/api-keys/"+stolenID, "").ok()
	for _, from := range []map[string]any{before, revoked} {
		require.Equal(t, []string{"of the member"}, named(from, "madeKeys", "label"))
		require.Equal(t, []string{"pln_b", "pln_a"}, named(from, "madePayeeLinks", "payeeLinkId"))
	}
	require.Equal(t, []any{waiting}, get[[]any](t, revoked, "withdrawnInvitations"))
	require.ElementsMatch(t, []string{joined, friend}, named(revoked, "madeMembers", "memberId"))
	require.Equal(t, "REMOVED", get[string](t, h.call(key, "GET", "/v1/members/"+waiting, "").ok(), "member", "state"))
	h.call(key, "DELETE", "/v1/members/"+joined, "").ok()
	require.Equal(t, []string{friend}, named(h.call(key, "DELETE", "/v1/api-keys/"+stolenID, "").ok(), "madeMembers", "memberId"), "what a removed member made is named")
}

// TestRevokeNamesAHundredMadeKeys, and says that there are more.
func TestRevokeNamesAHundredMadeKeys(t *testing.T) {
	h := newFixture(t)
	_, key := h.tenant()
	id := get[string](t, h.call(key, "GET", "/v1/tenant", "").ok(), "key", "keyId")
	for range 101 {
		h.call(key, "POST", "/v1/api-keys", `{"label":"one of many","scopes":["rights:read"]}`).ok()
	}
	revoked := h.admin("POST", "/admin/api-keys/"+id+"/revoke", "").ok()
	require.Len(t, list(t, revoked, "madeKeys"), 100)
	require.Equal(t, true, revoked["moreMadeKeys"])
}

// TestRollbackForgetsNoEnd replays a rotation and a revocation on a database that
// was copied before them.
func TestRollbackForgetsNoEnd(t *testing.T) {
	h := newFixture(t)
	tenantID, key := h.tenant()
	me := get[string](t, h.call(key, "GET", "/v1/tenant", "").ok(), "key", "keyId")
	other := get[string](t, h.call(key, "POST", "/v1/api-keys", `{"label":"other"}`).ok(), "key", "keyId")
	h.call(key, "POST", "/v1/api-keys/"+me+"/rotate", `{"overlapSeconds":60}`).ok()
	h.call(key, "DELETE", "/v1/api-keys/"+other, "").ok()
	events := h.events(tenantID)
	want := h.call(key, "GET", "/v1/api-keys/"+me, "").ok()
	require.NoError(t, h.db.Change(t.Context(), func(tx *store.Tx) error {
		_, err := tx.ExecContext(t.Context(), `UPDATE api_keys SET expires_at = NULL, revoked_at = NULL, successor_key_id = NULL`)
		return err
	}))
	replay := func() (changed int) {
		require.NoError(t, h.db.Change(t.Context(), func(tx *store.Tx) error {
			for i := range events {
				c, err := tenant.Replay(t.Context(), tx, &events[i])
				if err != nil {
					return err
				}
				if c {
					changed++
				}
			}
			return nil
		}))
		return changed
	}
	require.Equal(t, 2, replay())
	require.Equal(t, 0, replay(), "once is enough")
	got := h.call(key, "GET", "/v1/api-keys/"+me, "").ok()
	require.Equal(t, get[string](t, want, "key", "expiresAt"), get[string](t, got, "key", "expiresAt"))
	require.Equal(t, get[string](t, want, "key", "successorKeyId"), get[string](t, got, "key", "successorKeyId"))
	snapshot, err := store.Newest(t.Context(), h.db, api.Keys, other)
	require.NoError(t, err)
	require.False(t, snapshot.RevokedAt.IsZero())
}

// TestEditedKeyEnds makes keys active again in the database, in each place.
func TestEditedKeyEnds(t *testing.T) {
	h := newFixture(t)
	for name, edits := range map[string][]string{
		"nothing":          nil,
		"the record":       {`UPDATE api_keys SET expires_at = NULL, revoked_at = NULL, revision = revision + 100 WHERE key_id = $1`},
		"a later end":      {`UPDATE api_keys SET expires_at = 99999999999999, revoked_at = 99999999999999 WHERE key_id = $1`},
		"the feed":         {`UPDATE feed SET snapshot = REPLACE(REPLACE(snapshot, 'expiresAt', 'was'), 'revokedAt', 'was') WHERE id = $1`},
		"both":             {`UPDATE api_keys SET expires_at = NULL, revoked_at = NULL WHERE key_id = $1`, `UPDATE feed SET snapshot = REPLACE(REPLACE(snapshot, 'expiresAt', 'was'), 'revokedAt', 'was') WHERE id = $1`},
		"without a record": {`DELETE FROM api_keys WHERE key_id = $1`, `UPDATE feed SET snapshot = REPLACE(REPLACE(snapshot, 'expiresAt', 'was'), 'revokedAt', 'was') WHERE id = $1`},
	} {
		t.Run(name, func(t *testing.T) {
			tenantID, key := h.tenant()
			made := func() string {
				return get[string](t, h.call(key, "POST", "/v1/api-keys", `{"label":"other"}`).ok(), "key", "keyId")
			}
			rotated, revoked := made(), made()
			h.call(key, "POST", "/v1/api-keys/"+rotated+"/rotate", `{"overlapSeconds":60}`).ok()
			h.call(key, "DELETE", "/v1/api-keys/"+revoked, "").ok()
			want, err := store.Newest(t.Context(), h.db, api.Keys, rotated)
			require.NoError(t, err)
			events := h.events(tenantID)
			for _, id := range []string{rotated, revoked} {
				newest := events[len(events)-2]
				if id == revoked {
					newest = events[len(events)-1]
				}
				require.Equal(t, id, newest.Subject.ID)
				require.NoError(t, h.db.Change(t.Context(), func(tx *store.Tx) error {
					for _, edit := range edits {
						_, err := tx.ExecContext(t.Context(), edit, id)
						require.NoError(t, err, edit)
					}
					return nil
				}))
				for _, changed := range []bool{len(edits) > 0, false} {
					require.NoError(t, h.db.Change(t.Context(), func(tx *store.Tx) error {
						got, err := tenant.Replay(t.Context(), tx, &newest)
						require.Equal(t, changed, got)
						return err
					}))
				}
			}
			ended, err := store.Newest(t.Context(), h.db, api.Keys, rotated)
			require.NoError(t, err)
			require.Equal(t, want.ExpiresAt, ended.ExpiresAt)
			ended, err = store.Newest(t.Context(), h.db, api.Keys, revoked)
			require.NoError(t, err)
			require.False(t, ended.RevokedAt.IsZero())
			require.True(t, ended.RevokedAt.Before(want.ExpiresAt))
		})
	}
}

func TestOperatorChangesSigningKeys(t *testing.T) {
	h := newFixture(t)
	current := func(purpose string) string {
		for _, k := range get[[]any](t, h.admin("GET", "/admin/signing-keys", "").ok(), "keys") {
			k := k.(map[string]any)
			// Only a directory key has an end from the beginning on.
			if k["purpose"] == purpose && k["state"] == "ACTIVE" && (k["notAfter"] == nil || purpose == keydir.PurposeDirectory) {
				return get[string](t, k, "keyId")
			}
		}
		return "none"
	}
	list := h.admin("GET", "/admin/signing-keys", "")
	require.Equal(t, h.keys.RootVkey(), get[string](t, list.ok(), "root"))
	require.NotContains(t, list.text, "PRIVATE")

	for _, purpose := range []string{keydir.PurposeWebhook, keydir.PurposePack, keydir.PurposeDirectory} {
		old := current(purpose)
		rotated := h.admin("POST", "/admin/signing-keys/"+old+"/rotate", "").ok()
		next := get[string](t, rotated, "key", "keyId")
		waittest.Until(t, func() bool { return current(purpose) == next }, "from the next millisecond on")
		require.Equal(t, old, get[string](t, rotated, "replaced", "keyId"))
		h.admin("POST", "/admin/signing-keys/"+old+"/rotate", "").refused(409, api.StateConflict)
		revoked := h.admin("POST", "/admin/signing-keys/"+old+"/revoke", `{"reason":"drill"}`).ok()
		require.Equal(t, "REVOKED", get[string](t, revoked, "key", "state"))
		require.Nil(t, revoked["successor"])
	}
	h.admin("POST", "/admin/signing-keys/0123/revoke", "").refused(404, api.ResourceNotFound)
	h.admin("POST", "/admin/signing-keys/delegations", `{"delegation":"x"}`).refused(409, api.StateConflict)
	h.admin("POST", "/admin/signing-keys/delegations", `{}`).refused(422, api.ValidationFailed)

	require.Equal(t, []string{"key.rotated", "key.revoked", "key.rotated", "key.revoked", "key.rotated", "key.revoked"}, h.newest("tnt_system", 6))
	for _, e := range h.events("tnt_system") {
		if e.Type == "key.revoked" {
			require.Equal(t, store.ByOperator(), e.Actor)
			require.Contains(t, string(e.Data), `"reason":"drill"`)
		}
	}
	d, err := h.keys.Directory(context.Background())
	require.NoError(t, err)
	_, err = keydir.Verify(d, h.keys.RootVkey())
	require.NoError(t, err)
}
