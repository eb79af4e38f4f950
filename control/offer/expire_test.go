package offer

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"muniment.example/control/roomtest"
	"muniment.example/control/store"
	"muniment.example/deploy/stack/stacktest"
	"muniment.example/gateway/api"
	"muniment.example/sealer"
	"muniment.example/sealer/canonical"
)

// proposeMany writes offers that expire together, without an event each.
func (s *Service) proposeMany(t *testing.T, n int) {
	t.Helper()
	require.NoError(t, s.db.Change(t.Context(), func(tx *store.Tx) error {
		for range n {
			made, _ := propose(Offer{TenantID: tenantID, RightID: rightID, ToOrgID: "org_b", Scope: json.RawMessage(`{}`)}, holder, store.At(tx.Now()))
			made.ID = api.NewID(prefix, tx.Now())
			if err := offers.Insert(t.Context(), tx, &made); err != nil {
				return err
			}
		}
		return nil
	}))
}

// requireEachLoggedOnce requires one offer.expired for each of n offers, by the system, with the
// stored record.
func (s *Service) requireEachLoggedOnce(t *testing.T, n int) {
	t.Helper()
	seen := map[string]bool{}
	for _, e := range roomtest.Events(t, s.db) {
		require.Equal(t, "offer.expired", e.Type)
		require.Equal(t, store.BySystem(), e.Actor)
		require.False(t, seen[e.Subject.ID], "%s has two events", e.Subject.ID)
		seen[e.Subject.ID] = true
		o, err := offers.Find(t.Context(), s.db.Read(), tenantID, e.Subject.ID)
		require.NoError(t, err)
		require.Equal(t, Expired, o.State)
		kept, err := canonical.JSON(struct {
			*Offer
			ActingOrgID *string `json:"actingOrgId"`
			AssertedBy  *string `json:"assertedBy"`
		}{o, nil, nil})
		require.NoError(t, err)
		require.Equal(t, string(kept), string(e.Data))
	}
	require.Len(t, seen, n)
}

func (s *Service) due(t require.TestingT) int {
	due, err := listDue(context.Background(), s.db.Read(), store.At(s.db.Now()), 10_000)
	require.NoError(t, err)
	return len(due)
}

func TestExpireInBatches(t *testing.T) {
	c := &clock{at: now.Time}
	r := newService(t, t.TempDir(), c)
	r.proposeMany(t, 25)
	c.pass(lifetime - time.Millisecond)
	require.NoError(t, r.Expire(t.Context()))
	require.Empty(t, roomtest.Events(t, r.db), "nothing is due yet")
	c.pass(time.Millisecond)
	for _, left := range []int{15, 5, 0} {
		n, err := r.expire(t.Context(), 10)
		require.NoError(t, err)
		require.Equal(t, min(10, n), n)
		require.Equal(t, left, r.due(t))
		r.requireEachLoggedOnce(t, 25-left)
	}
	n, err := r.expire(t.Context(), 10)
	require.NoError(t, err)
	require.Zero(t, n)
	r.requireEachLoggedOnce(t, 25)
}

// TestExpiryAge: the gauge rises until a pass has come to its end.
func TestExpiryAge(t *testing.T) {
	c := &clock{at: now.Time}
	r := newService(t, t.TempDir(), c)
	registry := prometheus.NewPedanticRegistry()
	require.NoError(t, r.register(registry))
	is := func(seconds int) {
		t.Helper()
		require.NoError(t, testutil.GatherAndCompare(registry, strings.NewReader(fmt.Sprintf(
			"# HELP muniment_offer_expiry_age_seconds Time since every expired offer was last seen stored by this process.\n"+
				"# TYPE muniment_offer_expiry_age_seconds gauge\nmuniment_offer_expiry_age_seconds %d\n", seconds))))
	}
	is(0)
	r.proposeMany(t, 2*batch)
	c.pass(lifetime)
	is(7 * 24 * 3600)
	_, err := r.expire(t.Context(), batch)
	require.NoError(t, err)
	is(7 * 24 * 3600) // half of them
	ended, end := context.WithCancel(t.Context())
	end()
	require.Error(t, r.Expire(ended))
	is(7 * 24 * 3600)
	require.NoError(t, r.Expire(t.Context()))
	is(0)
	c.pass(5 * time.Second)
	is(5)
	require.NoError(t, r.Expire(t.Context()))
	is(0)
}

// TestTwoProcessesExpire runs two jobs at once, each killed and restarted at random, in the middle of
// a batch or between two: every offer gets exactly one event.
func TestTwoProcessesExpire(t *testing.T) {
	stacktest.Both(t)
	const many = 4 * batch
	dir, c := t.TempDir(), &clock{at: now.Time}
	services := []*Service{newService(t, dir, c)}
	second := services[0]
	if services[0].db.Shared() {
		second = newService(t, dir, c)
	}
	services = append(services, second)
	services[0].proposeMany(t, many)
	c.pass(lifetime)

	lives := make([]int, len(services))
	var processes sync.WaitGroup
	for i, r := range services {
		processes.Go(func() {
			chance := rand.New(rand.NewPCG(1, uint64(i)))
			for ; r.due(t) > 0; lives[i]++ {
				// Longer and longer lives: in the end one is long enough for a batch, of whose
				// offers each has the clock read.
				life, kill := c.life(t.Context(), 1<<lives[i]+chance.IntN(20))
				err := r.Expire(life)
				require.True(t, err == nil || life.Err() != nil, "%v", err)
				kill()
			}
		})
	}
	processes.Wait()
	services[0].requireEachLoggedOnce(t, many)
	t.Logf("lives: %v", lives)
	require.Greater(t, lives[0]+lives[1], 2, "no process was killed in the middle of a batch")
}

// TestReplay brings the offers of an older database to the log's state.
func TestReplay(t *testing.T) {
	c := &clock{at: now.Time}
	r := newService(t, t.TempDir(), c)
	replay := func(e sealer.Event) (changed bool) {
		require.NoError(t, r.db.Change(t.Context(), func(tx *store.Tx) (err error) {
			changed, err = Replay(t.Context(), tx, &e)
			return err
		}))
		return changed
	}
	of := map[string]Offer{}
	for _, a := range []Action{Accept, Reject, Withdraw, Counter} {
		o := r.mustPropose(t)
		var err error
		switch a {
		case Accept:
			_, _, err = r.accept(t.Context(), tenantID, o.ID, byTenant)
		case Counter:
			_, _, err = r.counter(t.Context(), tenantID, o.ID, Offer{Scope: json.RawMessage(`{"regions":["US"]}`)}, byTenant)
		default:
			_, err = r.close(t.Context(), tenantID, o.ID, a, new("why"), byTenant)
		}
		require.NoError(t, err)
		closed, err := offers.Find(t.Context(), r.db.Read(), tenantID, o.ID)
		require.NoError(t, err)
		of[o.ID] = *closed
		// The copy is from before.
		require.NoError(t, r.db.Change(t.Context(), func(tx *store.Tx) error { return offers.Update(t.Context(), tx, closed, &o) }))
	}
	stranger := r.mustPropose(t)
	replayed := 0
	for _, e := range roomtest.Events(t, r.db) {
		if replay(e) {
			replayed++
			require.False(t, replay(e), "nothing new")
		}
	}
	require.Equal(t, len(of), replayed)
	for id, closed := range of {
		now, err := offers.Find(t.Context(), r.db.Read(), tenantID, id)
		require.NoError(t, err)
		require.Equal(t, closed, *now, "the record of the event, so its hash is unchanged")
		_, _, err = r.accept(t.Context(), tenantID, id, byTenant)
		conflict(t, err)
	}
	still, err := offers.Find(t.Context(), r.db.Read(), tenantID, stranger.ID)
	require.NoError(t, err)
	require.Equal(t, stranger, *still)

	require.False(t, replay(sealer.Event{TenantID: tenantID, Type: "offer.accepted", Subject: sealer.Ref{Kind: "offer", ID: "ofr_unknown"}, Data: []byte(`{}`)}))
	require.False(t, replay(sealer.Event{TenantID: "tnt_other", Type: "offer.rejected", Subject: sealer.Ref{Kind: "offer", ID: stranger.ID}, Data: []byte(`{"state":"REJECTED"}`)}))
	require.False(t, replay(sealer.Event{TenantID: tenantID, Type: "right.revoked", Subject: sealer.Ref{Kind: "right", ID: stranger.ID}, Data: []byte(`{"state":"REVOKED"}`)}))
}
