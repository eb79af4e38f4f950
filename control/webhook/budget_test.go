package webhook

import (
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"code.dny.dev/ssrf"
	"github.com/stretchr/testify/require"

	"muniment.example/control/roomtest"
	"muniment.example/control/store"
	"muniment.example/deploy/stack/stacktest"
	"muniment.example/gateway/api"
)

// strangersOnly is a service for which this machine is the public internet, and that allows nothing else.
func strangersOnly(t *testing.T, cfg *Config) {
	e, err := NewEgress(nil)
	require.NoError(t, err)
	e.guard = ssrf.New(ssrf.WithAnyPort(), ssrf.WithAllowedV4Prefixes(netip.MustParsePrefix("127.0.0.0/8")))
	e.resolver = resolver(func(string) []netip.Addr { return []netip.Addr{netip.MustParseAddr("127.0.0.1")} })
	cfg.Egress = e
}

// hookAt creates a tenant's webhook for the receiver, under a name of its host.
func (s *fixture) hookAt(r *receiver, host, tenant string, waiting int) Webhook {
	require.NoError(s.t, s.db.Change(s.t.Context(), func(tx *store.Tx) error {
		_, err := tx.ExecContext(s.t.Context(), `INSERT INTO tenants (tenant_id, org_id, created_at, updated_at, revision) VALUES ($1, $1, 0, 0, 0) ON CONFLICT DO NOTHING`, tenant)
		return err
	}))
	w := webhookFor("right.*")
	w.TenantID = tenant
	w = s.mustCreate(s.t, w)
	w.URL = strings.Replace(r.URL, "127.0.0.1", host, 1)
	require.NoError(s.t, s.db.Change(s.t.Context(), func(tx *store.Tx) error {
		if _, err := tx.ExecContext(s.t.Context(), `UPDATE webhooks SET url = $2 WHERE webhook_id = $1`, w.ID, w.URL); err != nil {
			return err
		}
		var all []Delivery
		for range waiting {
			d := newDelivery(&w, api.NewID(api.PrefixEvent, tx.Now()), "right.revoked", tx.Now(), tx.Now())
			d.logged, d.NextAttemptAt = true, store.At(tx.Now())
			all = append(all, d)
		}
		return insert(s.t.Context(), tx.Tx, all)
	}))
	return w
}

// flood makes all attempts that may begin now, each with a message of so many bytes.
func (s *fixture) flood(bytes int) (sent int) {
	for {
		var all []finishedAttempt
		require.NoError(s.t, s.begin(s.t.Context(), func(w *Webhook, _ api.Scopes, d Delivery) {
			held, err := s.holdFor(s.t.Context(), w, bytes)
			require.NoError(s.t, err)
			o := &outcome{held: held}
			if held == nil {
				sent++
				o = s.client.post(s.t.Context(), w.URL, d.ID, noon, []byte("{}"), "v1,x")
			}
			all = append(all, finishedAttempt{webhook: w, was: d, outcome: o})
		}))
		if len(all) == 0 {
			return sent
		}
		s.write(s.t.Context(), all)
		for i := range all {
			s.workers.end(&all[i])
		}
	}
}

// TestStrangersShareABudget: however many webhooks of however many tenants lead to the hosts of a domain that has not
// agreed, it gets so many messages an hour. The others wait, and say why.
func TestStrangersShareABudget(t *testing.T) {
	stacktest.Both(t)
	s := newFixture(t, roomtest.NewClock(noon), func(cfg *Config) { strangersOnly(t, cfg) })
	r := newReceiver(t)
	hooks := []Webhook{s.hookAt(r, "a.example.com", tenantID, 50), s.hookAt(r, "b.example.com", tenantID, 50), s.hookAt(r, "example.com", "tnt_b", 50)}
	other := s.hookAt(r, "127.0.0.1", tenantID, 1)
	require.Equal(t, strangerMessages+1, s.flood(100))
	require.Len(t, r.messages(), strangerMessages+1)
	held := 0
	for _, w := range hooks {
		now, err := webhooks.Find(t.Context(), s.db.Read(), w.TenantID, w.ID)
		require.NoError(t, err)
		require.Equal(t, Active, now.State)
		if !now.WaitsUntil.IsZero() {
			held++
			require.Equal(t, noon.Add(time.Minute), now.WaitsUntil.Time)
			require.Contains(t, *now.WaitReason, "60 messages and 1 MiB an hour")
			require.Contains(t, *now.WaitReason, challengeHeader)
		}
	}
	require.NotZero(t, held)
	require.Nil(t, s.mustFind(t, other.ID).WaitReason)

	s.clock.Advance(time.Minute - time.Millisecond)
	require.Zero(t, s.flood(100))
	s.clock.Advance(time.Millisecond)
	require.Equal(t, 1, s.flood(100), "the budget refills steadily")
	s.clock.Advance(10 * time.Minute)
	require.Equal(t, 10, s.flood(100))
}

// TestStrangersShareBytes, too: a large message uses up more.
func TestStrangersShareBytes(t *testing.T) {
	s := newFixture(t, roomtest.NewClock(noon), func(cfg *Config) { strangersOnly(t, cfg) })
	r := newReceiver(t)
	s.hookAt(r, "a.example.com", tenantID, 50)
	require.Equal(t, 4, s.flood(strangerBytes/4))
	s.clock.Advance(15 * time.Minute)
	require.Equal(t, 1, s.flood(strangerBytes/4))
	require.Zero(t, s.flood(2*strangerBytes))
	s.clock.Advance(time.Hour)
	require.Equal(t, 1, s.flood(2*strangerBytes), "one that is larger than the budget needs all of it")
	s.clock.Advance(2*time.Hour - time.Millisecond)
	require.Zero(t, s.flood(2*strangerBytes), "and is paid off")
	s.clock.Advance(time.Millisecond)
	require.Equal(t, 1, s.flood(2*strangerBytes))
}

// TestAnEchoLiftsTheLimit of the host that it comes from, for a month.
func TestAnEchoLiftsTheLimit(t *testing.T) {
	stacktest.Both(t)
	s := newFixture(t, roomtest.NewClock(noon), func(cfg *Config) { strangersOnly(t, cfg) })
	r := newReceiver(t)
	w := s.hookAt(r, "a.example.com", tenantID, 200)
	var challenges []string
	answer := func(echo func(string) string) {
		r.answers(func(w http.ResponseWriter, req *http.Request) {
			challenge := req.Header.Get(challengeHeader)
			challenges = append(challenges, challenge)
			w.Header().Set(challengeHeader, echo(challenge))
		})
	}
	answer(func(string) string { return challenges[0] + "x" })
	require.Equal(t, strangerMessages, s.flood(100))
	require.Len(t, map[string]bool{challenges[0]: true, challenges[1]: true}, 2)
	require.NotEmpty(t, challenges[0])
	require.NotNil(t, s.mustFind(t, w.ID).WaitReason)
	answer(func(challenge string) string { return challenge })
	s.clock.Advance(time.Minute)
	require.Equal(t, 200-strangerMessages, s.flood(100))
	require.Nil(t, s.mustFind(t, w.ID).WaitReason)
	require.True(t, s.mustFind(t, w.ID).WaitsUntil.IsZero())

	r.answers(nil)
	s.hookAt(r, "a.example.com", "tnt_b", 100)
	require.Equal(t, 100, s.flood(100), "it holds for all tenants")
	s.hookAt(r, "b.example.com", tenantID, 100)
	require.Less(t, s.flood(100), 100, "but for no other host")
	s.clock.Advance(agreedFor)
	require.NoError(t, s.Sweep(t.Context()))
	for _, table := range []string{"webhook_hosts", "webhook_budgets"} {
		var left int
		require.NoError(t, s.db.Read().QueryRowContext(t.Context(), `SELECT COUNT(*) FROM `+table).Scan(&left))
		require.Zero(t, left, table)
	}
	s.hookAt(r, "a.example.com", "tnt_c", 100)
	require.LessOrEqual(t, s.flood(100), strangerMessages)
}

// TestAHostHasABudget of bytes of each tenant, also if it has agreed, over all webhooks and processes.
func TestAHostHasABudget(t *testing.T) {
	stacktest.Both(t)
	s := newFixture(t, roomtest.NewClock(noon), nil)
	other := s.another(nil)
	r := newReceiver(t)
	const each = hostBytes / 16
	var hooks []Webhook
	for range 4 {
		hooks = append(hooks, s.hookAt(r, "127.0.0.1", tenantID, 10))
	}
	for range 8 {
		held, err := other.holdFor(t.Context(), &hooks[0], each)
		require.NoError(t, err)
		require.Nil(t, held)
	}
	require.Equal(t, 8, s.flood(each))
	w := s.mustFind(t, hooks[0].ID)
	require.Equal(t, noon.Add(time.Hour/16), w.WaitsUntil.Time)
	require.Contains(t, *w.WaitReason, "1 GiB")
	s.hookAt(r, "127.0.0.1", "tnt_b", 1)
	require.Equal(t, 1, s.flood(each), "another tenant has its own")
	s.clock.Advance(time.Hour / 16)
	require.Equal(t, 1, s.flood(each))
}

// TestPiecesAreSpent before the next is taken, and last an hour.
func TestPiecesAreSpent(t *testing.T) {
	s := newFixture(t, roomtest.NewClock(noon), nil)
	w := s.hookAt(newReceiver(t), "127.0.0.1", tenantID, 0)
	used := func() (at int64) {
		require.NoError(t, s.db.Read().QueryRowContext(t.Context(), `SELECT bytes_at FROM webhook_budgets WHERE tenant_id = $1`, tenantID).Scan(&at))
		return (at - s.clock.Now().Add(-time.Hour).UnixMilli()) * hostBytes / time.Hour.Milliseconds()
	}
	send := func(bytes, used0 int64) {
		held, err := s.holdFor(t.Context(), &w, int(bytes))
		require.NoError(t, err)
		require.Nil(t, held)
		require.InDelta(t, used0, used(), 1000)
	}
	send(1, pieceBytes)
	send(pieceBytes-2, pieceBytes)
	send(1, pieceBytes)
	send(1, 2*pieceBytes)
	s.clock.Advance(time.Hour)
	send(1, pieceBytes)
}

// TestNobodyWaitsForEver: what has waited as long as attempts last is FAILED, and can be recovered.
func TestNobodyWaitsForEver(t *testing.T) {
	s := newFixture(t, roomtest.NewClock(noon), func(cfg *Config) { strangersOnly(t, cfg) })
	r := newReceiver(t)
	w := s.hookAt(r, "a.example.com", tenantID, 1)
	others := func() { // what others send in each hour leaves nothing
		_, err := s.spend(t.Context(), strangersOf("example.com"), strangers, strangerBytes)
		require.NoError(t, err)
	}
	for range longestWait / time.Hour {
		others()
		require.Zero(t, s.flood(100))
		require.Equal(t, Pending, s.delivery(w).State)
		s.clock.Advance(time.Hour)
	}
	others()
	require.Zero(t, s.flood(100))
	page, _, err := listDeliveries(t.Context(), s.db.Read(), w.ID, "FAILED", store.Slice{Limit: 50})
	require.NoError(t, err)
	require.Len(t, page, 1)
	require.Contains(t, *page[0].Attempts[0].Error, "has not echoed a challenge")
	require.True(t, s.mustFind(t, w.ID).FailingSince.IsZero())
	_, err = s.resend(t.Context(), tenantID, w.ID, page[0].ID, byKey)
	require.NoError(t, err)
	require.Zero(t, s.flood(100))
	d, err := findDelivery(t.Context(), s.db.Read(), w.ID, page[0].ID)
	require.NoError(t, err)
	require.Equal(t, Pending, d.State, "it waits anew")
}

// TestSites: hosts of one registered domain have one budget, and those of a domain under which anyone registers one each.
func TestSites(t *testing.T) {
	for host, want := range map[string]string{
		"a.b.example.com": "example.com", "example.com": "example.com", "x.co.uk": "x.co.uk", "a.x.co.uk": "x.co.uk", "x.github.io": "x.github.io", "a.x.github.io": "x.github.io",
		"127.0.0.1": "127.0.0.1", "2001:db8::1": "2001:db8::1", "com": "com", "": "",
	} {
		require.Equal(t, want, siteOf(host), host)
	}
	for url, want := range map[string]string{"https://A.Example.com.:8443/x": "a.example.com", "https://[2001:db8::1]/": "2001:db8::1", "%": ""} {
		require.Equal(t, want, hostOf(url), fmt.Sprint(url))
	}
}

// TestOperatorsAgree for the hosts that they allow, by name, by address, or by the range in which a name resolves.
func TestOperatorsAgree(t *testing.T) {
	for _, allow := range []string{"a.example.com", "127.0.0.0/8"} {
		s := newFixture(t, roomtest.NewClock(noon), func(cfg *Config) {
			strangersOnly(t, cfg)
			e, err := NewEgress([]string{allow})
			require.NoError(t, err)
			e.guard, e.resolver = cfg.Egress.guard, cfg.Egress.resolver
			cfg.Egress = e
		})
		s.hookAt(newReceiver(t), "a.example.com", tenantID, 100)
		require.Equal(t, 100, s.flood(100), allow)
	}
}
