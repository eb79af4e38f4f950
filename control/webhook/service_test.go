package webhook

import (
	"context"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/control/roomtest"
	"muniment.example/control/store"
	"muniment.example/gateway/api"
	"muniment.example/gateway/auth"
	"muniment.example/pipeline"
	"muniment.example/sealer"
)

const tenantID = "tnt_a"

var (
	noon  = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	byKey = auth.Principal{Key: &api.Key{ID: "key_a", TenantID: tenantID, Scopes: api.Scopes(api.Wildcard)}}
	keyA  = store.ByKey("key_a")
)

// newService is a service on the database of a folder. Made again on the same folder it is another
// process's.
func newService(t *testing.T, dir string, c *roomtest.Clock, change func(*Config)) *Service {
	t.Helper()
	egress, err := NewEgress(nil)
	require.NoError(t, err)
	cfg := Config{DB: roomtest.Open(t, dir, c.Now), Log: struct{ pipeline.Reader }{}, Warehouse: empty{}, Keys: oneKey{}, Kinds: kinds, Scopes: everyScope, Egress: egress}
	if change != nil {
		change(&cfg)
	}
	r, err := New(cfg)
	require.NoError(t, err)
	return r
}

// kinds are webhooks' own kinds of events, and some of those of others.
var kinds = append(store.KindsOf(Nouns),
	&store.Kind{Noun: &store.Noun{Name: "right", Scope: api.RightsRead}, Type: "right.issued"},
	&store.Kind{Noun: &store.Noun{Name: "right", Scope: api.RightsRead}, Type: "right.revoked"},
	&store.Kind{Noun: &store.Noun{Name: "offer", Scope: api.OffersRead}, Type: "offer.accepted"},
	&store.Kind{Noun: &store.Noun{Name: "delivery"}, Type: TypeDelivery},
	&store.Kind{Noun: &store.Noun{Name: "node", System: true}, Type: "node.joined"},
)

// everyScope are the scopes of keys that no test revokes.
func everyScope(context.Context, store.Querier, string, time.Time) (api.Scopes, error) {
	return api.EveryScope, nil
}

// webhookFor is a requested webhook for some types of events.
func webhookFor(events ...string) Webhook {
	return Webhook{TenantID: tenantID, URL: "https://receiver.example/in", Events: events}
}

func (s *Service) mustCreate(t require.TestingT, requested Webhook) Webhook {
	made, err := s.create(context.Background(), requested, byKey)
	require.NoError(t, err)
	return made
}

func (s *Service) mustFind(t require.TestingT, id string) Webhook {
	w, err := webhooks.Find(context.Background(), s.db.Read(), tenantID, id)
	require.NoError(t, err)
	return *w
}

// emitted are the types of the events that were emitted.
func (s *Service) emitted(t require.TestingT) (types []string) {
	for _, e := range roomtest.Events(t, s.db) {
		types = append(types, e.Type)
	}
	return types
}

func requireCode(t *testing.T, code api.Code, err error) {
	t.Helper()
	require.Error(t, err)
	require.Equal(t, code, api.From(err).Code, err)
}

func TestWebhook(t *testing.T) {
	c := roomtest.NewClock(noon)
	r := newService(t, t.TempDir(), c, nil)
	made := r.mustCreate(t, webhookFor("right.revoked", "right.*", "offer.accepted", "delivery.recorded", "delivery.*"))
	require.True(t, api.IsID(api.PrefixWebhook, made.ID))
	require.Equal(t, []string{"delivery.*", "delivery.recorded", "offer.accepted", "right.*"}, made.Events, "what another says as well is left out")
	require.Equal(t, Active, made.State)
	require.Equal(t, made, r.mustFind(t, made.ID))
	random, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(made.Secret, "whsec_"))
	require.NoError(t, err)
	require.Len(t, random, 32)

	c.Advance(time.Hour)
	next, err := r.change(t.Context(), tenantID, made.ID, byKey, func(next *Webhook) { next.State = Paused })
	require.NoError(t, err)
	require.Equal(t, Paused, next.State)
	require.Equal(t, c.Now(), next.UpdatedAt.Time)
	require.Equal(t, next, r.mustFind(t, made.ID))
	same, err := r.change(t.Context(), tenantID, made.ID, byKey, func(next *Webhook) { next.State = Paused })
	require.NoError(t, err)
	require.Equal(t, next, same, "what leaves it as it is is none")
	_, err = r.change(t.Context(), tenantID, made.ID, byKey, func(next *Webhook) { next.URL = "https://10.0.0.1/" })
	requireCode(t, api.ValidationFailed, err)
	_, err = r.change(t.Context(), "tnt_b", made.ID, byKey, func(next *Webhook) { next.State = Active })
	requireCode(t, api.ResourceNotFound, err)

	rotated, err := r.rotate(t.Context(), tenantID, made.ID, byKey)
	require.NoError(t, err)
	require.NotEqual(t, made.Secret, rotated.Secret)
	require.Equal(t, []string{rotated.Secret, made.Secret}, rotated.secrets(c.Now()))
	require.Equal(t, []string{rotated.Secret, made.Secret}, rotated.secrets(c.Now().Add(overlap-1)))
	require.Equal(t, []string{rotated.Secret}, rotated.secrets(c.Now().Add(overlap)), "a day later the one before signs no more")

	// A caller that didn't get the response rotates again: the receiver's secret still signs.
	signing := []string{rotated.Secret, made.Secret}
	for len(signing) <= maxReplaced {
		c.Advance(time.Hour)
		again, err := r.rotate(t.Context(), tenantID, made.ID, byKey)
		require.NoError(t, err)
		signing = slices.Insert(signing, 0, again.Secret)
		require.Equal(t, signing, again.secrets(c.Now()))
		require.Equal(t, again, r.mustFind(t, made.ID))
	}
	_, err = r.rotate(t.Context(), tenantID, made.ID, byKey)
	requireCode(t, api.StateConflict, err)

	_, err = r.remove(t.Context(), "tnt_b", made.ID, keyA)
	requireCode(t, api.ResourceNotFound, err)
	_, err = r.remove(t.Context(), tenantID, made.ID, keyA)
	require.NoError(t, err)
	_, err = webhooks.Find(t.Context(), r.db.Read(), tenantID, made.ID)
	requireCode(t, api.ResourceNotFound, err)

	require.Equal(t, slices.Concat([]string{eventCreated.Type, eventChanged.Type}, slices.Repeat([]string{eventRotated.Type}, maxReplaced), []string{eventDeleted.Type}), r.emitted(t))
	for _, e := range roomtest.Events(t, r.db) {
		require.Equal(t, sealer.Ref{Kind: "webhook", ID: made.ID}, e.Subject)
		require.NotContains(t, string(e.Data), "ecret")
		require.NotContains(t, string(e.Data), strings.TrimPrefix(made.Secret, secretPrefix))
		require.NotContains(t, string(e.Data), strings.TrimPrefix(rotated.Secret, secretPrefix))
	}
}

// TestWebhooksAreBounded, however many are made at once.
func TestWebhooksAreBounded(t *testing.T) {
	r := newService(t, t.TempDir(), roomtest.NewClock(noon), nil)
	for range maxWebhooks - 2 {
		r.mustCreate(t, webhookFor("right.*"))
	}
	refused := make(chan error)
	for range 8 {
		go func() {
			_, err := r.create(context.Background(), webhookFor("right.*"), byKey)
			refused <- err
		}()
	}
	n := 0
	for range 8 {
		if err := <-refused; err != nil {
			requireCode(t, api.StateConflict, err)
			n++
		}
	}
	require.Equal(t, 6, n)
	page, next, err := list(t.Context(), r.db.Read(), tenantID, store.Slice{Limit: 60})
	require.NoError(t, err)
	require.Len(t, page, 60)
	rest, end, err := list(t.Context(), r.db.Read(), tenantID, store.Slice{Limit: 60, Behind: next})
	require.NoError(t, err)
	require.Len(t, rest, 40)
	require.Empty(t, end)
}

func TestWants(t *testing.T) {
	for _, c := range []struct {
		events, kind string
		wants        bool
	}{
		{"right.revoked", "right.revoked", true},
		{"right.revoked", "right.resumed", false},
		{"right.*", "right.resumed", true},
		{"right.*", "rights.resumed", false},
		{"offer.* right.resumed", "right.resumed", true},
		{"delivery.*", "delivery.recorded", false}, // it has to be named
		{"delivery.recorded", "delivery.recorded", true},
		{"delivery.*", "delivery.refused", true},
	} {
		w := Webhook{Events: strings.Fields(c.events)}
		require.Equal(t, c.wants, w.Wants(c.kind), "%+v", c)
	}
}

// TestNamesOfKinds: a webhook names kinds that there are, nouns that have kinds, or all; anything else
// is refused with the nearest name, when it is created and when it is changed.
func TestNamesOfKinds(t *testing.T) {
	r := newService(t, t.TempDir(), roomtest.NewClock(noon), nil)
	made := r.mustCreate(t, webhookFor("*", "right.*", "right.revoked", "delivery.recorded", "webhook.tested"))
	require.Equal(t, []string{"*", "delivery.recorded"}, made.Events)
	require.True(t, made.Wants("right.revoked"))
	require.True(t, made.Wants("delivery.recorded"))
	made.Events = made.Events[:1]
	require.False(t, made.Wants("delivery.recorded"), "it has to be named")
	for name, nearest := range map[string]string{
		"right.revokd": "right.revoked", "Right.revoked": "right.revoked", "rights.*": "right.*", "right.**": "right.*", "right": "right.*", "offer.accepted ": "offer.accepted",
		"**": "*", "": "*", ".*": "*", "node.joined": "webhook.tested",
	} {
		want := api.ValidationError{Field: "events[1]", Message: "no kind of event has this name; the nearest is " + nearest}
		_, err := r.create(t.Context(), webhookFor("right.*", name), byKey)
		requireCode(t, api.ValidationFailed, err)
		if name != "node.joined" { // which is an event of the service
			require.Equal(t, []api.ValidationError{want}, api.From(err).ValidationErrors, name)
		}
		_, err = r.change(t.Context(), tenantID, made.ID, byKey, func(next *Webhook) { next.Events = []string{"right.*", name} })
		requireCode(t, api.ValidationFailed, err)
	}
}

// TestURLs: which URLs a webhook may have.
func TestURLs(t *testing.T) {
	const (
		local = "must not lead to a private or special address"
		name  = "must name a host of the public internet"
		form  = "must be a URL"
	)
	egress, err := NewEgress(nil)
	require.NoError(t, err)
	for url, why := range map[string]string{
		"https://receiver.example/in?a=b":       "",
		"https://receiver.example:8443":         "",
		"https://receiver.example:443/":         "",
		"https://8.8.8.8/":                      "",
		"https://[2606:4700:4700::1111]/":       "",
		"https://xn--bcher-kva.example/":        "",
		"HTTPS://receiver.example/":             "",
		"":                                      form,
		"receiver.example/in":                   form,
		"https:receiver.example":                form,
		"https://":                              form,
		"https://receiver.example:x/":           form,
		"https://exa mple.com/":                 form,
		"http://receiver.example/":              "must begin with https://",
		"ftp://receiver.example/":               "must begin with https://",
		"https://user@receiver.example/":        "must not hold a user",
		"https://user:word@receiver.example/":   "must not hold a user",
		"https://@receiver.example/":            "must not hold a user",
		"https://receiver.example/#part":        "must not have a fragment",
		"https://receiver.example/#":            "must not have a fragment",
		"https://receiver.example:22/":          "must have port 443 or 8443, unless the operator allows the host, as with --webhook-allow receiver.example",
		"http://127.0.0.1:9000/in":              "must begin with https://, unless the operator allows the host, as with --webhook-allow 127.0.0.1",
		"http://localhost:9000/in":              "as with --webhook-allow localhost",
		"http://[::1]:9000/in":                  "as with --webhook-allow ::1",
		"https://receiver.example:0443/":        "must have port 443 or 8443",
		"https://" + strings.Repeat("a.", 2048): "must be at most",
		"https://localhost/":                    name,
		"https://receiver/":                     name,
		"https://2130706433/":                   name,
		"https://0x7f000001/":                   name,
		"https://0x7f.1/":                       name,
		"https://127.1/":                        name,
		"https://0177.0.0.1/":                   name,
		"https://1.2.3.4.5/":                    name,
		"https://127.0.0.1./":                   name,
		"https://a_.exämple/":                   name,
		"https://127.0.0.1/":                    local,
		"https://10.1.2.3/":                     local,
		"https://169.254.169.254/latest":        local,
		"https://100.64.0.1/":                   local,
		"https://0.0.0.0/":                      local,
		"https://224.0.0.1/":                    local,
		"https://[::1]/":                        local,
		"https://[::]/":                         local,
		"https://[::ffff:127.0.0.1]/":           local,
		"https://[::ffff:7f00:1]/":              local,
		"https://[64:ff9b::7f00:1]/":            local,
		"https://[2002:7f00:1::]/":              local,
		"https://[fe80::1%25eth0]/":             local,
		"https://[fd00:ec2::254]/":              local,
	} {
		got := egress.refuses(url)
		if why == "" {
			require.Empty(t, got, url)
		} else {
			require.Contains(t, got, why, url)
		}
	}

	egress, err = NewEgress([]string{"127.0.0.0/8", "::1", "devbox", "Receiver.Internal"})
	require.NoError(t, err)
	for _, url := range []string{
		"https://127.0.0.1:9443/", "https://[::1]:1/", "https://[::ffff:127.0.0.1]/", "https://devbox/", "https://receiver.internal:8/",
		"http://127.0.0.1:9000/in", "http://127.9.9.9/", "http://[::1]:9000/", "HTTP://[::ffff:127.0.0.1]/",
	} {
		require.Empty(t, egress.refuses(url), url)
	}
	for url, why := range map[string]string{
		"https://10.0.0.1/": "--webhook-allow 10.0.0.1", "https://localhost/": "--webhook-allow localhost", "https://x.devbox:22/": "--webhook-allow x.devbox",
		"https://a@devbox/": "must not hold a user", "http://a@127.0.0.1/": "must not hold a user", "http://127.0.0.1/#part": "must not have a fragment",
		// Without TLS to no other machine, whatever is allowed, and to this one by no name that is not allowed.
		"http://devbox/": "must begin with https://", "http://10.0.0.1/": "must begin with https://", "http://localhost:9000/": "--webhook-allow localhost",
		"http://127.0.0.1.nip.example/": "must begin with https://", "http://2130706433/": "must begin with https://", "http://0.0.0.0/": "must begin with https://",
	} {
		require.Contains(t, egress.refuses(url), why, url)
	}
	egress, err = NewEgress([]string{"localhost", "10.0.0.0/8"})
	require.NoError(t, err)
	require.Empty(t, egress.refuses("http://LOCALHOST:9000/in"))
	for _, url := range []string{"http://127.0.0.1:9000/in", "http://[::1]:9000/in"} {
		require.Contains(t, egress.refuses(url), "--webhook-allow")
	}
	require.Contains(t, egress.refuses("http://10.0.0.1/"), "must begin with https://")
	for _, text := range []string{"", "10.0.0.0/33", "https://devbox", "de vbox", "127.1", "*"} {
		_, err := NewEgress([]string{text})
		require.ErrorContains(t, err, fmt.Sprintf("%q is neither", text))
	}
}
