package ingest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/control/roomtest"
	"muniment.example/control/store"
	"muniment.example/deploy/stack/stacktest"
	"muniment.example/gateway/api"
)

// deliverer is the nodes that deliver held rows, of any number of processes.
type deliverer struct {
	mu         sync.Mutex
	delivered  map[string]int // receipts by the row's text
	keys       map[string]string
	identities map[string]api.RowIdentity
	refuse     map[string]*api.Error // by vendor id
	blind      int                   // for so many calls it knows no mapping
	unknown    string                // the vendor id whose mapping it does not know
	suspended  map[string]string     // rights that it says are suspended, by right or vendor id of the row
	lags       int                   // for so many rows
	crash      int                   // the next so many calls deliver, and then fail
}

func newDeliverer() *deliverer {
	return &deliverer{delivered: map[string]int{}, keys: map[string]string{}, refuse: map[string]*api.Error{}, suspended: map[string]string{}}
}

func (n *deliverer) deliver(ctx context.Context, tenant, keyID string, rows []Delivery) (all []Delivered, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if end, ok := ctx.Deadline(); !ok || time.Until(end) >= api.ClockSlack {
		return nil, errors.New("an erasure may have begun long ago")
	}
	if tenant != tenantID {
		return nil, errors.New("another tenant")
	}
	if n.blind > 0 {
		n.blind--
		return slices.Repeat([]Delivered{{Unmapped: true}}, len(rows)), nil
	}
	for _, d := range rows {
		text := d.Row
		if n.identities == nil {
			n.identities = map[string]api.RowIdentity{}
		}
		n.identities[string(text)] = d.Identity
		var row api.Row
		if err := json.Unmarshal(text, &row); err != nil {
			return nil, err
		}
		if key := row.RightID + row.VendorID; n.suspended[key] != "" {
			all = append(all, Delivered{SuspendedRightID: n.suspended[key]})
			if n.lags--; n.lags == 0 {
				delete(n.suspended, key)
			}
			continue
		}
		if n.unknown != "" && n.unknown == row.VendorID {
			all = append(all, Delivered{Unmapped: true})
			continue
		}
		if e := n.refuse[row.VendorID]; e != nil {
			all = append(all, Delivered{Err: e})
			continue
		}
		n.delivered[string(text)]++
		n.keys[string(text)] = keyID
		all = append(all, Delivered{ReceiptID: "rcp_" + row.VendorID})
	}
	if n.crash > 0 {
		n.crash--
		return nil, errors.New("killed")
	}
	return all, nil
}

// work does the jobs that are there, as a process of control does, and returns the last error.
func (s *Service) work(t *testing.T) (last error) {
	t.Helper()
	for range 100 {
		job, err := s.db.Jobs.Claim(t.Context(), ReplayJob, time.Minute)
		require.NoError(t, err)
		if job == nil {
			return last
		}
		if last = s.Replay(t.Context(), job); last != nil {
			require.NoError(t, job.Retry(t.Context(), "FAILED", 0))
			continue
		}
		require.NoError(t, job.Done(t.Context()))
	}
	require.Fail(t, "the jobs don't end", "%v", last)
	return last
}

// TestReplay: creating a mapping delivers the rows that it covers, and nothing else.
func TestReplay(t *testing.T) {
	n := newDeliverer()
	r := newService(t, t.TempDir(), roomtest.NewClock(noon.Add(time.Hour)), func(c *Config) { c.Deliver = n.deliver })
	n.refuse["4"] = api.Conflict("the right is not ACTIVE: it is REVOKED")
	ids := r.mustHold(t, held("1"), held("2"), held("3"), held("4"))
	require.NoError(t, r.work(t))
	require.Empty(t, n.delivered)

	r.mustCreate(t, mappingFor("2", rightA, 1, 2)) // after its play
	require.NoError(t, r.work(t))
	require.Empty(t, n.delivered)

	n.blind = 2
	for _, player := range []string{"1", "3", "4"} {
		r.mustCreate(t, mappingFor(player, rightA, -1, 1))
	}
	require.NoError(t, r.work(t))
	require.Equal(t, map[string]int{held("1").Row: 1, held("3").Row: 1}, n.delivered, "complete, with personal data")
	require.Equal(t, map[string]string{held("1").Row: "key_a", held("3").Row: "key_a"}, n.keys)
	all := r.rows(t)
	for i, want := range []struct {
		state    HeldState
		receipt  string
		refusal  *api.RowError
		answered bool
	}{
		{Replayed, "rcp_1", nil, false},
		{Held, "", nil, true},
		{Replayed, "rcp_3", nil, false},
		{Replayed, "", &api.RowError{Code: api.StateConflict, Message: "the right is not ACTIVE: it is REVOKED"}, false},
	} {
		h := all[ids[i]]
		require.Equal(t, want.state, h.State, i)
		require.Equal(t, want.receipt, text(h.ReceiptID), i)
		require.Equal(t, want.refusal, h.Error, i)
		require.Equal(t, want.answered, h.Row != nil, i)
		if want.state == Replayed {
			require.Equal(t, personal{}, h.personal, "no personal data is left")
			require.Empty(t, h.writtenRow)
		}
	}
	require.Equal(t, int64(1), r.requireUsage(t).rows)
}

// TestHoldAgain: a delivered row stays delivered, and a refused one is HELD again under its id.
func TestHoldAgain(t *testing.T) {
	n := newDeliverer()
	r := newService(t, t.TempDir(), roomtest.NewClock(noon.Add(time.Hour)), func(c *Config) { c.Deliver, c.MaxHeldRows = n.deliver, 2 })
	n.refuse["2"] = api.Conflict("the right is not ACTIVE: it is REVOKED")
	ids := r.mustHold(t, held("1"), held("2"))
	r.mustCreate(t, mappingFor("1", rightA, -1, 1))
	made := r.mustCreate(t, mappingFor("2", rightA, -1, 1))
	require.NoError(t, r.work(t))
	_, _, err := r.retire(t.Context(), tenantID, made.ID, byKey)
	require.NoError(t, err)
	hold := func() []api.HeldResult {
		results, err := r.Hold(t.Context(), api.HoldRequest{TenantID: tenantID, KeyID: "key_b", Rows: []api.HeldRow{held("1"), held("2")}})
		require.NoError(t, err)
		return results
	}
	delete(n.refuse, "2")
	for range 2 {
		require.Equal(t, []api.HeldResult{{HeldID: ids[0], Delivered: true}, {HeldID: ids[1]}}, hold())
	}
	require.Equal(t, int64(1), r.requireUsage(t).rows)
	again := r.rows(t)[ids[1]]
	require.Equal(t, []any{Held, "key_b", (*api.RowError)(nil), held("2").Row}, []any{again.State, again.keyID, again.Error, string(again.whole())})
	require.NoError(t, r.work(t))
	require.Equal(t, map[string]int{held("1").Row: 1, held("2").Row: 1}, n.delivered)
	require.Equal(t, []api.HeldResult{{HeldID: ids[0], Delivered: true}, {HeldID: ids[1], Delivered: true}}, hold())

	r.mustHold(t, held("3"), held("4"))
	n.refuse["3"] = api.Conflict("no")
	r.mustCreate(t, mappingFor("3", rightA, -1, 1))
	require.NoError(t, r.work(t))
	r.mustHold(t, held("5"))
	results, err := r.Hold(t.Context(), api.HoldRequest{TenantID: tenantID, KeyID: "key_a", Rows: []api.HeldRow{held("3")}})
	require.NoError(t, err)
	require.Equal(t, api.RateLimited, results[0].Err().Code, "it needs its space like any other")
}

// TestRowsOfAKeyThatIsNotValid stay HELD until they expire, with their event, whatever they waited for;
// those of other keys are delivered.
func TestRowsOfAKeyThatIsNotValid(t *testing.T) {
	n, clock := newDeliverer(), roomtest.NewClock(noon.Add(time.Hour))
	r := newService(t, t.TempDir(), clock, func(c *Config) {
		c.Deliver = func(ctx context.Context, tenant, keyID string, rows []Delivery) ([]Delivered, error) {
			if keyID == "key_a" {
				return nil, &api.Error{Code: api.AuthInvalid, Message: "the API key is not valid"}
			}
			return n.deliver(ctx, tenant, keyID, rows)
		}
	})
	rows := []api.HeldRow{held("1"), heldOn(rightA, 2)}
	for i := range replayAtOnce { // earlier than the other key's, of the same vendor's id
		h := held("3")
		h.Identity.Hash, h.Row, h.PlayedAt = fmt.Sprint(i), strings.Replace(h.Row, "play-", fmt.Sprint(i), 1), noon.Add(-time.Second)
		rows = append(rows, h)
	}
	ids := r.mustHold(t, rows...)
	_, err := r.Hold(t.Context(), api.HoldRequest{TenantID: tenantID, KeyID: "key_b", Rows: []api.HeldRow{held("3"), heldOn(rightA, 4)}})
	require.NoError(t, err)
	r.mustCreate(t, mappingFor("1", rightA, -1, 1))
	r.mustCreate(t, mappingFor("3", rightA, -1, 1))
	require.NoError(t, r.wake(t))
	require.Equal(t, map[string]int{held("3").Row: 1, heldOn(rightA, 4).Row: 1}, n.delivered)
	for _, id := range ids {
		require.Equal(t, []any{Held, (*api.RowError)(nil)}, []any{r.rows(t)[id].State, r.rows(t)[id].Error})
	}
	clock.Set(noon.Add(api.MaxRowAge + replayMargin))
	require.NoError(t, r.Expire(t.Context()))
	expired := 0
	for _, e := range roomtest.Events(t, r.db) {
		if e.Type == "held_row.expired" {
			expired++
		}
	}
	require.Equal(t, len(ids), expired)
}

// TestOneFailingRightDelaysNoOther: whatever the order of the rights' ids.
func TestOneFailingRightDelaysNoOther(t *testing.T) {
	for _, failing := range []string{rightA, rightB} {
		n := newDeliverer()
		r := newService(t, t.TempDir(), roomtest.NewClock(noon.Add(time.Hour)), func(c *Config) {
			c.Deliver = func(ctx context.Context, tenant, keyID string, rows []Delivery) ([]Delivered, error) {
				if strings.Contains(string(rows[0].Row), failing) {
					return nil, errors.New("the node fails")
				}
				return n.deliver(ctx, tenant, keyID, rows)
			}
		})
		r.mustHold(t, held("1"), heldOn(rightA, 2), heldOn(rightB, 3))
		require.NoError(t, r.Wake(t.Context()))
		job, err := r.db.Jobs.Claim(t.Context(), ReplayJob, time.Minute)
		require.NoError(t, err)
		require.ErrorContains(t, r.Replay(t.Context(), job), "the node fails")
		require.Len(t, n.delivered, 1, failing)
	}
}

// TestReplayOfAnImport delivers what waited for any of its lines, more than a node takes at
// once, of several keys.
func TestReplayOfAnImport(t *testing.T) {
	n := newDeliverer()
	r := newService(t, t.TempDir(), roomtest.NewClock(noon.Add(time.Hour)), func(c *Config) { c.Deliver = n.deliver })
	r.relay(t)
	const rows = 2*replayAtOnce + 50
	csv := "vendor,idType,vendorId,rightId,spatialAnchorId,effectiveFrom\n"
	for i := range rows {
		player := fmt.Sprint(i)
		_, err := r.Hold(t.Context(), api.HoldRequest{TenantID: tenantID, KeyID: fmt.Sprint("key_", i%3), Rows: []api.HeldRow{held(player)}})
		require.NoError(t, err)
		csv += "acme,player," + player + ",rgh_a,wall,2026-11-01\n"
	}
	_, err := r.importAll(t.Context(), tenantID, []byte(csv), byKey)
	require.NoError(t, err)
	require.NoError(t, r.work(t))
	require.Len(t, n.delivered, rows)
	for i := range rows {
		require.Equal(t, 1, n.delivered[held(fmt.Sprint(i)).Row])
		require.Equal(t, fmt.Sprint("key_", i%3), n.keys[held(fmt.Sprint(i)).Row])
	}
	require.Zero(t, r.requireUsage(t).rows)
}

// TestReplayGoesPastWhatWaits: many rows of an id that the node does not know yet delay no others.
func TestReplayGoesPastWhatWaits(t *testing.T) {
	n := newDeliverer()
	r := newService(t, t.TempDir(), roomtest.NewClock(noon.Add(time.Hour)), func(c *Config) { c.Deliver = n.deliver })
	players := []string{"1", "2", "3"}
	slices.SortFunc(players, func(a, b string) int {
		return strings.Compare(api.VendorKey(tenantID, "acme", "player", a), api.VendorKey(tenantID, "acme", "player", b))
	})
	n.unknown = players[1]
	const each = replayAtOnce + 50
	var all []api.HeldRow
	for i := range len(players) * each {
		h := held(players[i%len(players)])
		h.Identity.Hash = fmt.Sprint(i)
		h.Row = strings.Replace(h.Row, "play-", fmt.Sprint(i), 1)
		all = append(all, h)
	}
	r.mustHold(t, all...)
	for _, p := range players {
		r.mustCreate(t, mappingFor(p, rightA, -1, 1))
	}
	job, err := r.db.Jobs.Claim(t.Context(), ReplayJob, time.Minute)
	require.NoError(t, err)
	left, err := r.replay(t.Context(), job)
	require.NoError(t, err)
	require.True(t, left)
	require.Len(t, n.delivered, 2*each)
	n.unknown = ""
	left, err = r.replay(t.Context(), job)
	require.NoError(t, err)
	require.False(t, left)
	require.Len(t, n.delivered, 3*each)
	require.Zero(t, r.requireUsage(t).rows)
}

// TestReplayIsBegunAgain: the next process delivers what a killed one left, also if it was killed
// between a delivery and recording it; likewise after a node could not deliver.
func TestReplayIsBegunAgain(t *testing.T) {
	stacktest.Both(t)
	n := newDeliverer()
	dir, clock := t.TempDir(), roomtest.NewClock(noon.Add(time.Hour))
	with := func(c *Config) { c.Deliver = n.deliver }
	a, b := newService(t, dir, clock, with), newService(t, dir, clock, with)
	ids := a.mustHold(t, held("1"), held("2"))
	b.mustCreate(t, mappingFor("1", rightA, -1, 0))
	b.mustCreate(t, mappingFor("2", rightA, -1, 1))
	b.mustCreate(t, mappingFor("1", rightA, 0, 1))
	n.crash = 1
	job, err := a.db.Jobs.Claim(t.Context(), ReplayJob, time.Minute)
	require.NoError(t, err)
	require.ErrorContains(t, a.Replay(t.Context(), job), "killed")
	clock.Set(clock.Now().Add(2 * time.Minute)) // and its lease is over
	n.refuse["2"] = api.Unavailable(api.LogUnavailable, "the log is away", time.Second)
	job2, err := b.db.Jobs.Claim(t.Context(), ReplayJob, time.Minute)
	require.NoError(t, err)
	require.Equal(t, job.ID, job2.ID)
	require.ErrorContains(t, b.Replay(t.Context(), job2), "the log is away")
	require.Equal(t, Replayed, a.rows(t)[ids[0]].State)
	require.Equal(t, Held, a.rows(t)[ids[1]].State, "it is for another attempt")
	delete(n.refuse, "2")
	require.ErrorIs(t, a.Replay(t.Context(), job), store.ErrStale, "who lost the lease writes nothing")
	require.Equal(t, Held, a.rows(t)[ids[1]].State)
	require.NoError(t, job2.Retry(t.Context(), "FAILED", 0))
	require.NoError(t, a.work(t))
	require.Equal(t, Replayed, a.rows(t)[ids[1]].State)
	require.Equal(t, "rcp_2", *a.rows(t)[ids[1]].ReceiptID)
	require.Zero(t, a.requireUsage(t).rows)
}
