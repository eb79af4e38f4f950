package webhook

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/control/roomtest"
	"muniment.example/control/store"
	"muniment.example/gateway/api"
	"muniment.example/gateway/auth"
)

// keyring are the scopes of keys, in place of those in the database.
type keyring struct {
	mu   sync.Mutex
	held map[string]api.Scopes
}

func (k *keyring) set(keyID string, held api.Scopes) auth.Principal {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.held[keyID] = held
	return auth.Principal{Key: &api.Key{ID: keyID, TenantID: tenantID, Scopes: held}}
}

func (k *keyring) scopes(_ context.Context, _ store.Querier, keyID string, _ time.Time) (api.Scopes, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.held[keyID], nil
}

func ringed(k *keyring) func(*Config) { return func(cfg *Config) { cfg.Scopes = k.scopes } }

// TestEntitled: who may subscribe to what.
func TestEntitled(t *testing.T) {
	r := newService(t, t.TempDir(), roomtest.NewClock(noon), nil)
	for _, c := range []struct {
		filter string
		held   api.Scope
		needs  string
	}{
		{"right.revoked", api.RightsRead, ""},
		{"right.revoked", api.AuditRead, ""},
		{"right.revoked", api.Wildcard, ""},
		{"right.revoked", api.RightsWrite, "rights:read"},
		{"right.*", api.RightsRead, ""},
		{"right.*", api.OffersRead, "rights:read"},
		{"offer.accepted", api.OffersRead, ""},
		{"delivery.recorded", api.AuditRead, ""},
		{"delivery.recorded", api.DeliveryWrite, "audit:read"},
		{"delivery.*", api.DeliveryWrite, "audit:read"},
		{"webhook.tested", api.WebhooksRead, ""},
		{"*", api.AuditRead, ""},
		{"*", api.Wildcard, ""},
	} {
		err := r.entitled(api.Scopes(c.held|api.WebhooksWrite), []string{c.filter})
		if c.needs == "" {
			require.NoError(t, err, "%+v", c)
			continue
		}
		requireCode(t, api.ScopeMissing, err)
		require.Equal(t, []string{c.needs}, api.From(err).RequiredScopes, "%+v", c)
	}
	requireCode(t, api.ScopeMissing, r.entitled(api.EveryScope&^api.Scopes(api.AuditRead), []string{"*"}))
}

// TestChangesNeedScopes: to point a webhook elsewhere, to name other kinds, to resume it, to recover
// and to send again needs the scopes of its kinds; to pause, describe or delete it needs none.
func TestChangesNeedScopes(t *testing.T) {
	k := &keyring{held: map[string]api.Scopes{}}
	r := newService(t, t.TempDir(), roomtest.NewClock(noon), ringed(k))
	reader, stranger := k.set("key_reader", api.Scopes(api.RightsRead)), k.set("key_stranger", api.Scopes(api.OffersRead))
	w, err := r.create(t.Context(), webhookFor("right.*"), reader)
	require.NoError(t, err)
	require.Equal(t, "key_reader", w.KeyID)
	_, err = r.create(t.Context(), webhookFor("right.*"), stranger)
	requireCode(t, api.ScopeMissing, err)

	change := func(by auth.Principal, edit func(*Webhook)) error {
		var err error
		w, err = r.change(t.Context(), tenantID, w.ID, by, edit)
		w = r.mustFind(t, w.ID)
		return err
	}
	id := w.ID
	for _, refused := range []func(*Webhook){
		func(w *Webhook) { w.URL = "https://elsewhere.example/" },
		func(w *Webhook) { w.Events = []string{"right.revoked"} },
		func(w *Webhook) { w.Events = []string{"offer.accepted", "delivery.recorded"} },
	} {
		w.ID = id
		_, err := r.change(t.Context(), tenantID, id, stranger, refused)
		requireCode(t, api.ScopeMissing, err)
	}
	_, err = r.change(t.Context(), tenantID, "whk_none", stranger, func(w *Webhook) { w.Events = []string{"right.revokd"} })
	requireCode(t, api.ValidationFailed, err)
	_, err = r.change(t.Context(), tenantID, "whk_none", stranger, func(w *Webhook) { w.Events = []string{"right.revoked"} })
	requireCode(t, api.ScopeMissing, err)
	_, err = r.recover(t.Context(), tenantID, recoveryPeriod{WebhookID: id, Since: store.At(noon)}, true, stranger)
	requireCode(t, api.ScopeMissing, err)
	d := newDelivery(&w, "evt_a", "right.revoked", noon, noon)
	require.NoError(t, r.db.Change(t.Context(), func(tx *store.Tx) error { return insert(t.Context(), tx.Tx, []Delivery{d}) }))
	_, err = r.resend(t.Context(), tenantID, id, d.ID, stranger)
	requireCode(t, api.ScopeMissing, err)
	_, err = r.resend(t.Context(), tenantID, id, d.ID, reader)
	require.NoError(t, err)

	require.NoError(t, change(stranger, func(w *Webhook) { w.Description = "the planner"; w.State = Paused }))
	require.Equal(t, "key_reader", w.KeyID)
	requireCode(t, api.ScopeMissing, change(stranger, func(w *Webhook) { w.State = Active }))
	require.Equal(t, Paused, w.State)
	auditor := k.set("key_auditor", api.Scopes(api.AuditRead))
	require.NoError(t, change(auditor, func(w *Webhook) { w.State = Active }))
	require.Equal(t, "key_reader", w.KeyID, "which is in force and has set URL and kinds")
	require.NoError(t, change(auditor, func(w *Webhook) { w.URL = "https://elsewhere.example/" }))
	require.Equal(t, "key_auditor", w.KeyID)
}

// TestNothingIsSentUnderAnEndedKey: the webhook is paused before the next attempt, its events wait,
// and are sent once a key with the scopes has resumed it, under that key.
func TestNothingIsSentUnderAnEndedKey(t *testing.T) {
	k := &keyring{held: map[string]api.Scopes{}}
	s := newFixture(t, roomtest.NewClock(noon), ringed(k))
	r := newReceiver(t)
	s.queueing()
	requested := webhookFor("right.*")
	requested.URL = r.URL
	w, err := s.create(t.Context(), requested, k.set("key_reader", api.Scopes(api.RightsRead)))
	require.NoError(t, err)
	k.set("key_reader", 0)
	s.emit("right.revoked", map[string]string{"id": "rgh_a"})
	s.awaitDelivery(w, func(*Delivery) bool { return true })
	require.Zero(t, s.due())
	w = s.mustFind(t, w.ID)
	require.Equal(t, []any{Paused, reasonKeyRevoked}, []any{w.State, *w.StateReason})
	require.Equal(t, Pending, s.delivery(w).State)
	require.Empty(t, r.messages())

	_, err = s.change(t.Context(), tenantID, w.ID, k.set("key_stranger", api.Scopes(api.WebhooksWrite)), func(w *Webhook) { w.State = Active })
	requireCode(t, api.ScopeMissing, err)
	w, err = s.change(t.Context(), tenantID, w.ID, k.set("key_next", api.Scopes(api.RightsRead)), func(w *Webhook) { w.State = Active })
	require.NoError(t, err)
	require.Equal(t, "key_next", w.KeyID)
	require.Nil(t, w.StateReason)
	require.Equal(t, 1, s.due())
	require.Len(t, r.messages(), 1)
}

// TestKeyEnded: the end of a key pauses the ACTIVE webhooks that send under it, with an event each, and
// no others.
func TestKeyEnded(t *testing.T) {
	k := &keyring{held: map[string]api.Scopes{}}
	r := newService(t, t.TempDir(), roomtest.NewClock(noon), ringed(k))
	made := func(keyID string) Webhook {
		w, err := r.create(t.Context(), webhookFor("right.*"), k.set(keyID, api.EveryScope))
		require.NoError(t, err)
		return w
	}
	ended, paused, other := made("key_a"), made("key_a"), made("key_b")
	_, err := r.change(t.Context(), tenantID, paused.ID, k.set("key_a", api.EveryScope), func(w *Webhook) { w.State = Paused })
	require.NoError(t, err)
	k.set("key_a", 0)
	before := len(r.emitted(t))
	end := func() {
		require.NoError(t, r.db.Stop(t.Context(), func(tx *store.Tx) error { return r.KeyEnded(t.Context(), tx, tenantID) }))
	}
	end()
	end()
	require.Equal(t, []string{eventPaused.Type}, r.emitted(t)[before:])
	require.Equal(t, reasonKeyRevoked, *r.mustFind(t, ended.ID).StateReason)
	require.Nil(t, r.mustFind(t, paused.ID).StateReason)
	require.Equal(t, Active, r.mustFind(t, other.ID).State)
}

// TestWhatWaitsFromBeforeIsNotSent: a delivery that was queued while another key had named more kinds
// doesn't go to the URL of one that may not get it.
func TestWhatWaitsFromBeforeIsNotSent(t *testing.T) {
	k := &keyring{held: map[string]api.Scopes{}}
	s := newFixture(t, roomtest.NewClock(noon), ringed(k))
	r := newReceiver(t)
	s.queueing()
	requested := webhookFor("right.*", "offer.accepted")
	requested.URL = r.URL
	w, err := s.create(t.Context(), requested, k.set("key_auditor", api.Scopes(api.AuditRead)))
	require.NoError(t, err)
	s.emit("offer.accepted", map[string]string{"id": "ofr_a"})
	s.awaitDelivery(w, func(*Delivery) bool { return true })
	w, err = s.change(t.Context(), tenantID, w.ID, k.set("key_reader", api.Scopes(api.RightsRead)), func(w *Webhook) { w.Events = []string{"right.*"} })
	require.NoError(t, err)
	s.due()
	d := s.delivery(w)
	require.Equal(t, Failed, d.State)
	require.Equal(t, "the webhook's key key_reader lacks a scope for offer.accepted", *d.Attempts[0].Error)
	require.Empty(t, r.messages())
	require.Equal(t, Active, s.mustFind(t, w.ID).State)
}
