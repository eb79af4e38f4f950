package control_test

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/gateway/api"
	"muniment.example/sealer/keydir"
)

// enrol enrols a next key of the node, in force from a time on, for which the one
// that it joined with vouches.
func (n newcomer) enrol(h *fixture, credential string, key ed25519.PrivateKey, from time.Time) answer {
	h.t.Helper()
	return n.enrolVouched(h, credential, key, n.key, from)
}

// enrolVouched is enrol with the key that vouches, nil for none.
func (n newcomer) enrolVouched(h *fixture, credential string, key, voucher ed25519.PrivateKey, from time.Time) answer {
	h.t.Helper()
	pub := base64.RawURLEncoding.EncodeToString(key.Public().(ed25519.PublicKey))
	by := func(key ed25519.PrivateKey) string {
		return base64.RawURLEncoding.EncodeToString(ed25519.Sign(key, api.EnrolText(n.id, pub)))
	}
	q := api.EnrolRequest{PublicKey: pub, NotBefore: from, Signature: by(key)}
	if voucher != nil {
		q.Voucher = by(voucher)
	}
	body, err := json.Marshal(q)
	require.NoError(h.t, err)
	return send(h.t, h.control().Nodes(), credential, "POST", api.PathEnrol, string(body))
}

func (h *fixture) retire(credential, keyID string, at time.Time) answer {
	h.t.Helper()
	body, err := json.Marshal(api.RetireRequest{KeyID: keyID, NotAfter: at})
	require.NoError(h.t, err)
	return send(h.t, h.control().Nodes(), credential, "POST", api.PathRetire, string(body))
}

// TestNodeKeys enrols a node's next key and retires the old one, each twice, and
// refuses what would harm what was signed before.
func TestNodeKeys(t *testing.T) {
	h := newFixture(t)
	n, next := newNewcomer(t), newNewcomer(t).key
	credential := h.admit(n, h.invite())
	other := newNewcomer(t)
	foreign := h.admit(other, h.invite())
	id := func(key ed25519.PrivateKey) string { return keydir.KeyID(key.Public().(ed25519.PublicKey)) }
	keyOf := func(a answer) (k api.SigningKey) {
		text, err := json.Marshal(a.ok())
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(text, &k))
		return k
	}
	ending := func(credential string, keyIDs ...string) []any {
		body, err := json.Marshal(api.FeedRequest{SigningKeys: keyIDs})
		require.NoError(t, err)
		feed, _ := send(t, h.control().Nodes(), credential, "POST", api.PathFeed, string(body)).ok()["signingKeys"].([]any)
		return feed
	}

	h.retire(credential, id(n.key), time.Now()).refused(409, api.StateConflict) // it is the newest
	n.enrol(h, credential, next, time.Now().Add(time.Hour)).refused(409, api.StateConflict)
	n.enrol(h, credential, next, time.Now().Add(-time.Hour)).refused(409, api.StateConflict)
	n.enrol(h, credential, other.key, time.Now()).refused(409, api.StateConflict)
	other.enrol(h, credential, next, time.Now()).refused(422, api.ValidationFailed) // it names another node
	require.Empty(t, ending(credential, id(n.key)))

	from := time.Now().UTC().Truncate(time.Millisecond).Add(5 * time.Second)
	first := keyOf(n.enrol(h, credential, next, from))
	require.Equal(t, api.SigningKey{KeyID: id(next), NotBefore: from}, first)
	require.Equal(t, "key.rotated", h.newest(api.SystemTenant, 1)[0])
	require.Equal(t, first, keyOf(n.enrol(h, credential, next, from.Add(time.Second))), "the same key once more changes nothing")
	require.Len(t, ending(credential, id(n.key), id(next)), 1, "the feed says that the old one ends")
	require.Empty(t, ending(foreign, id(n.key)), "and to no other node")

	h.retire(foreign, id(n.key), from).refused(404, api.ResourceNotFound)
	// A node can't disown what it signed before the next key.
	old := keyOf(h.retire(credential, id(n.key), from.Add(-time.Hour)))
	require.Equal(t, from, old.NotAfter)
	require.Equal(t, "key.retired", h.newest(api.SystemTenant, 1)[0])
	require.Equal(t, old, keyOf(h.retire(credential, id(n.key), from.Add(time.Minute))), "a window only gets shorter")

	// A node that starts gets what the directory says of its keys.
	body, err := json.Marshal(api.StartRequest{SigningKeys: []string{id(n.key), id(next), id(other.key)}})
	require.NoError(t, err)
	started := send(t, h.control().Nodes(), credential, "POST", api.PathStart, string(body)).ok()
	require.Len(t, get[[]any](t, started, "signingKeys"), 2)
}

// TestStolenCredential enrols no key of the thief's: the node's newest key has to vouch
// for the next one, until it is revoked.
func TestStolenCredential(t *testing.T) {
	h := newFixture(t)
	n, second, third, thief := newNewcomer(t), newNewcomer(t).key, newNewcomer(t).key, newNewcomer(t).key
	credential := h.admit(n, h.invite())
	steal := func(vouchers ...ed25519.PrivateKey) {
		t.Helper()
		for _, voucher := range vouchers {
			message := n.enrolVouched(h, credential, thief, voucher, time.Now().Add(10*time.Second)).refused(409, api.StateConflict)
			require.Contains(t, message, "is not vouched for")
		}
	}
	steal(nil, thief)
	n.enrolVouched(h, credential, second, n.key, time.Now()).ok()
	steal(nil, thief, n.key)                                    // the old key vouches no more
	n.enrolVouched(h, credential, second, nil, time.Now()).ok() // the answer was lost: nothing is enrolled again
	id := keydir.KeyID(second.Public().(ed25519.PublicKey))
	h.admin("POST", "/admin/signing-keys/"+id+"/revoke", `{"force":true}`).ok()
	n.enrolVouched(h, credential, third, nil, time.Now().Add(time.Second)).ok()
	steal(nil, second)
}

// TestRevokeKeyOfANodeThatHasGone: what it signed may be in its spool alone, so only
// force, or the node itself, lets the key go.
func TestRevokeKeyOfANodeThatHasGone(t *testing.T) {
	h := newFixture(t)
	id := func(key ed25519.PrivateKey) string { return keydir.KeyID(key.Public().(ed25519.PublicKey)) }
	revoke := func(key ed25519.PrivateKey, body string) answer {
		return h.admin("POST", "/admin/signing-keys/"+id(key)+"/revoke", body)
	}
	gone, back := newNewcomer(t), newNewcomer(t)
	h.join(gone.request(h.invite())).ok()
	message := revoke(gone.key, "").refused(409, api.StateConflict)
	require.Contains(t, message, gone.id)
	require.Contains(t, message, "its spool may hold receipts")
	require.Equal(t, "REVOKED", get[string](t, revoke(gone.key, `{"force":true}`).ok(), "key", "state"))

	credential := h.admit(back, h.invite())
	revoke(back.key, "").refused(409, api.StateConflict)
	next := newNewcomer(t).key
	from, err := time.Parse(time.RFC3339Nano, get[string](t, back.enrol(h, credential, next, time.Now()).ok(), "notBefore"))
	require.NoError(t, err)
	revoke(back.key, "").refused(409, api.StateConflict) // it has not said that the old one is out of use
	h.retire(credential, id(back.key), from).ok()
	require.Equal(t, "REVOKED", get[string](t, revoke(back.key, "").ok(), "key", "state"))
}
