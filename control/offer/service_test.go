package offer

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/gowebpki/jcs"
	"github.com/stretchr/testify/require"

	"muniment.example/control/right"
	"muniment.example/control/roomtest"
	"muniment.example/control/store"
	"muniment.example/deploy/stack/stacktest"
	"muniment.example/gateway/api"
)

const (
	tenantID = "tnt_a"
	rightID  = "rgh_root"
	holder   = "org_a"
)

// clock stands still until it is moved. It is safe for concurrent use.
type clock struct {
	mu    sync.Mutex
	at    time.Time
	reads int              // how often it was read
	ends  map[int][]func() // of lives, by the reading that they end with
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reads++
	for _, end := range c.ends[c.reads] {
		end()
	}
	return c.at
}

// life ends when the clock was read so many times more.
func (c *clock) life(ctx context.Context, reads int) (life context.Context, end context.CancelFunc) {
	life, end = context.WithCancel(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ends == nil {
		c.ends = map[int][]func(){}
	}
	c.ends[c.reads+reads] = append(c.ends[c.reads+reads], end)
	return life, end
}

func (c *clock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

// newService is a service on the database of a folder, with one tenant and one right. Made
// again on the same folder it is another process's.
func newService(t *testing.T, dir string, c *clock) *Service {
	t.Helper()
	db := roomtest.Open(t, dir, c.Now)
	roomtest.Right(t, db, rightID, `{"regions":["US","CA"]}`)
	r, err := New(Config{DB: db})
	require.NoError(t, err)
	return r
}

var (
	byKey    = store.ByKey("key_a")
	byTenant = asserter{new(holder), byKey}
)

// mustPropose is an offer of a part of the right to org_b.
func (s *Service) mustPropose(t require.TestingT) Offer {
	o, err := s.propose(context.Background(), Offer{TenantID: tenantID, RightID: rightID, ToOrgID: "org_b", Scope: json.RawMessage(`{"regions":["US"]}`)}, byTenant)
	require.NoError(t, err)
	return o
}

// move applies an action to a right.
func (s *Service) moveRight(t require.TestingT, id string, a right.Action) error {
	return s.db.Change(context.Background(), func(tx *store.Tx) error {
		_, err := right.Move(context.Background(), tx, tenantID, id, a, nil, byKey)
		return err
	})
}

// logged lists the events that are not relayed yet, as "type subject".
func logged(t require.TestingT, db *store.DB) (list []string) {
	for _, e := range roomtest.Events(t, db) {
		list = append(list, e.Type+" "+e.Subject.ID)
	}
	return list
}

func conflict(t require.TestingT, err error) {
	require.Equal(t, api.StateConflict, api.From(err).Code, "%v", err)
}

func TestAcceptIsOneChange(t *testing.T) {
	r := newService(t, t.TempDir(), &clock{at: now.Time})
	o := r.mustPropose(t)
	require.NoError(t, r.moveRight(t, rightID, right.Suspend))
	_, _, err := r.accept(t.Context(), tenantID, o.ID, byTenant)
	conflict(t, err)
	same, err := offers.Find(t.Context(), r.db.Read(), tenantID, o.ID)
	require.NoError(t, err)
	require.Equal(t, &o, same, "nothing is left of what failed")
	require.NoError(t, r.moveRight(t, rightID, right.Resume))

	accepted, issued, err := r.accept(t.Context(), tenantID, o.ID, byTenant)
	require.NoError(t, err)
	require.Equal(t, Accepted, accepted.State)
	require.Equal(t, issued.ID, *accepted.DerivedRightID)
	require.Equal(t, rightID, *issued.ParentRightID)
	require.Equal(t, "org_b", issued.HolderOrgID)
	require.JSONEq(t, `{"regions":["US"]}`, string(issued.Scope))
	require.Equal(t, api.RightActive, issued.EffectiveState)
	read, err := right.FindView(t.Context(), r.db.Read(), tenantID, issued.ID, r.db.Now())
	require.NoError(t, err)
	require.Equal(t, issued, read)
	require.Equal(t, []string{
		"offer.proposed " + o.ID, "right.suspended " + rightID, "right.resumed " + rightID, "offer.accepted " + o.ID, "right.issued " + issued.ID,
	}, logged(t, r.db))

	// The right's contentHash can be computed from the event.
	var data map[string]any
	e := roomtest.Events(t, r.db)[3]
	require.NoError(t, json.Unmarshal(e.Data, &data))
	require.Equal(t, "org_b", data["actingOrgId"])
	require.Equal(t, holder, data["assertedBy"], "the tenant itself says that org_b accepts")
	delete(data, "actingOrgId")
	delete(data, "assertedBy")
	text, err := json.Marshal(data)
	require.NoError(t, err)
	text, err = jcs.Transform(text)
	require.NoError(t, err)
	require.Equal(t, hashOf(text), *issued.ContentHash)
}

// TestScopeIsSettledWhenProposed: an offer inherits limits when it is proposed, and its contentHash
// covers them. Accepting grants exactly these, or is refused if the right's scope were changed.
func TestScopeIsSettledWhenProposed(t *testing.T) {
	r := newService(t, t.TempDir(), &clock{at: now.Time})
	sublet := Offer{TenantID: tenantID, RightID: rightID, ToOrgID: "org_b", Scope: json.RawMessage(`"sublet"`)}
	o, err := r.propose(t.Context(), sublet, byTenant)
	require.NoError(t, err)
	require.Equal(t, `{"description":"sublet","regions":["US","CA"]}`, string(o.Scope))
	counter := func(id string) Offer {
		_, made, err := r.counter(t.Context(), tenantID, id, Offer{}, byTenant)
		require.NoError(t, err)
		require.Equal(t, `{"regions":["US","CA"]}`, string(made.Scope), "the right's, not the first offer's")
		return made
	}
	made := counter(o.ID)
	accepted, issued, err := r.accept(t.Context(), tenantID, made.ID, byTenant)
	require.NoError(t, err)
	require.Equal(t, made.Scope, accepted.Scope)
	require.Equal(t, accepted.Scope, issued.Scope)
	hash, err := accepted.contentHash()
	require.NoError(t, err)
	require.Equal(t, hash, *issued.ContentHash)

	// Nothing in the service does this.
	rescope := func(scope string) {
		require.NoError(t, r.db.Change(t.Context(), func(tx *store.Tx) error {
			_, err := tx.ExecContext(t.Context(), `UPDATE rights SET scope = $1 WHERE right_id = $2`, scope, rightID)
			return err
		}))
	}
	narrowed, err := r.propose(t.Context(), sublet, byTenant)
	require.NoError(t, err)
	rescope(`{"regions":["US"]}`)
	_, _, err = r.accept(t.Context(), tenantID, narrowed.ID, byTenant)
	require.Equal(t, "scope.regions", api.From(err).Field)
	rescope(`{"regions":["US","CA","MX"]}`)
	_, issued, err = r.accept(t.Context(), tenantID, narrowed.ID, byTenant)
	require.NoError(t, err)
	require.Equal(t, narrowed.Scope, issued.Scope)
}

// TestWindowOfTheDerivedRight: an offer has the window of the right that accepting it issues, within
// the window of its own right, and in the future or the past; the contentHash covers it.
func TestWindowOfTheDerivedRight(t *testing.T) {
	const hour = time.Hour
	const none = time.Duration(-1 << 62)
	at := func(d time.Duration) store.Instant {
		if d == none {
			return store.Instant{}
		}
		return later(d)
	}
	const from, until = -20 * hour, 20 * hour // of the offer's right
	for _, c := range []struct {
		name                string
		from, until         time.Duration // of the request
		proposed, accepted  time.Duration // effectiveFrom of the offer, then
		ends                time.Duration // effectiveUntil of both
		state               api.RightState
		fieldAtProposal     string
		conflictAtAccepting bool
	}{
		{name: "no window", from: none, until: none, proposed: none, accepted: hour, ends: until, state: api.RightActive},
		{name: "it begins later", from: 5 * hour, until: 9 * hour, proposed: 5 * hour, accepted: 5 * hour, ends: 9 * hour, state: right.NotBegun},
		{name: "it has begun", from: -5 * hour, until: none, proposed: -5 * hour, accepted: -5 * hour, ends: until, state: api.RightActive},
		{name: "it is over", from: -5 * hour, until: -4 * hour, proposed: -5 * hour, accepted: -5 * hour, ends: -4 * hour, state: right.Expired},
		{name: "an end alone", from: none, until: 9 * hour, proposed: none, accepted: hour, ends: 9 * hour, state: api.RightActive},
		{name: "an end that has passed when it is accepted", from: none, until: hour, proposed: none, ends: hour, conflictAtAccepting: true},
		{name: "an end alone that has passed", from: none, until: 0, fieldAtProposal: "effectiveUntil"},
		{name: "the right's window", from: from, until: until, proposed: from, accepted: from, ends: until, state: api.RightActive},
		{name: "before the right's", from: from - time.Millisecond, until: until, fieldAtProposal: "effectiveFrom"},
		{name: "beyond the right's", from: from, until: until + time.Millisecond, fieldAtProposal: "effectiveUntil"},
		{name: "empty", from: hour, until: hour, fieldAtProposal: "effectiveUntil"},
	} {
		t.Run(c.name, func(t *testing.T) {
			clock := &clock{at: now.Time}
			r := newService(t, t.TempDir(), clock)
			require.NoError(t, r.db.Change(t.Context(), func(tx *store.Tx) error {
				_, err := right.Derive(t.Context(), tx, right.Derivation{ID: "rgh_b", TenantID: tenantID, ParentID: rightID, HolderOrgID: holder, EffectiveFrom: at(from), EffectiveUntil: at(until)}, byKey)
				return err
			}))
			requested := Offer{TenantID: tenantID, RightID: "rgh_b", ToOrgID: "org_b", EffectiveFrom: at(c.from), EffectiveUntil: at(c.until)}
			o, err := r.propose(t.Context(), requested, byTenant)
			if c.fieldAtProposal != "" {
				require.Equal(t, c.fieldAtProposal, api.From(err).Field, "%v", err)
				plain, err := r.propose(t.Context(), Offer{TenantID: tenantID, RightID: "rgh_b", ToOrgID: "org_b"}, byTenant)
				require.NoError(t, err)
				_, _, err = r.counter(t.Context(), tenantID, plain.ID, requested, byTenant)
				require.Equal(t, c.fieldAtProposal, api.From(err).Field, "a counter-offer is held to the same")
				return
			}
			require.NoError(t, err)
			narrow, err := r.propose(t.Context(), Offer{TenantID: tenantID, RightID: "rgh_b", ToOrgID: "org_b", EffectiveFrom: at(hour), EffectiveUntil: at(2 * hour)}, byTenant)
			require.NoError(t, err)
			_, counter, err := r.counter(t.Context(), tenantID, narrow.ID, requested, byTenant)
			require.NoError(t, err, "its window is the request's, not that of the offer that it answers")
			clock.pass(hour)
			for _, o := range []Offer{o, counter} {
				require.Equal(t, []store.Instant{at(c.proposed), at(c.ends)}, []store.Instant{o.EffectiveFrom, o.EffectiveUntil})
				accepted, issued, err := r.accept(t.Context(), tenantID, o.ID, byTenant)
				if c.conflictAtAccepting {
					conflict(t, err)
					continue
				}
				require.NoError(t, err)
				require.Equal(t, []store.Instant{at(c.accepted), at(c.ends)}, []store.Instant{accepted.EffectiveFrom, accepted.EffectiveUntil})
				require.Equal(t, []store.Instant{at(c.accepted), at(c.ends)}, []store.Instant{issued.EffectiveFrom, issued.EffectiveUntil})
				require.Equal(t, c.state, issued.EffectiveState)
				read, err := offers.Find(t.Context(), r.db.Read(), tenantID, o.ID)
				require.NoError(t, err)
				require.Equal(t, accepted, *read)
				hash, err := accepted.contentHash()
				require.NoError(t, err)
				require.Equal(t, hash, *issued.ContentHash)
				for _, other := range []func(*Offer){
					func(o *Offer) { o.EffectiveFrom = later(3 * hour) },
					func(o *Offer) { o.EffectiveUntil = later(3 * hour) },
				} {
					changed := accepted
					other(&changed)
					hash, err := changed.contentHash()
					require.NoError(t, err)
					require.NotEqual(t, hash, *issued.ContentHash)
				}
			}
		})
	}
}

func TestCounterIsOneChange(t *testing.T) {
	r := newService(t, t.TempDir(), &clock{at: now.Time})
	o := r.mustPropose(t)
	_, _, err := r.counter(t.Context(), tenantID, o.ID, Offer{Scope: json.RawMessage(`{"regions":["MX"]}`)}, byTenant)
	require.Equal(t, "scope.regions", api.From(err).Field)
	countered, made, err := r.counter(t.Context(), tenantID, o.ID, Offer{Scope: json.RawMessage(`{"regions":["CA"]}`), TermsRef: new("contract 8")}, byTenant)
	require.NoError(t, err)
	require.Equal(t, Countered, countered.State)
	require.Equal(t, made.ID, *countered.CounteredBy)
	require.Equal(t, "counter_of:"+o.ID, *made.TermsRef)
	for _, id := range []string{o.ID, made.ID} { // as they were answered
		read, err := offers.Find(t.Context(), r.db.Read(), tenantID, id)
		require.NoError(t, err)
		require.Equal(t, map[string]Offer{o.ID: countered, made.ID: made}[id], *read)
	}
	require.Equal(t, []string{"offer.proposed " + o.ID, "offer.countered " + o.ID, "offer.proposed " + made.ID}, logged(t, r.db))
	var acted []string
	for _, e := range roomtest.Events(t, r.db) {
		var data struct{ ActingOrgID string }
		require.NoError(t, json.Unmarshal(e.Data, &data))
		acted = append(acted, data.ActingOrgID)
	}
	require.Equal(t, []string{holder, "org_b", "org_b"}, acted)

	_, issued, err := r.accept(t.Context(), tenantID, made.ID, byTenant)
	require.NoError(t, err)
	require.Equal(t, "org_b", issued.HolderOrgID, "the side without the right gets it, whichever side proposed")
}

// TestOneOfManyAcceptsWins: 64 callers accept one offer, through two processes if the database allows
// several.
func TestOneOfManyAcceptsWins(t *testing.T) {
	stacktest.Both(t)
	dir, c := t.TempDir(), &clock{at: now.Time}
	services := []*Service{newService(t, dir, c)}
	if services[0].db.Shared() {
		services = append(services, newService(t, dir, c))
	}
	o := services[0].mustPropose(t)
	errs := make([]error, 64)
	var callers sync.WaitGroup
	for i := range errs {
		callers.Go(func() { _, _, errs[i] = services[i%len(services)].accept(t.Context(), tenantID, o.ID, byTenant) })
	}
	callers.Wait()
	won := slices.DeleteFunc(slices.Clone(errs), func(err error) bool { return err != nil })
	require.Len(t, won, 1)
	for _, err := range errs {
		if err != nil {
			conflict(t, err)
		}
	}
	var derived int
	require.NoError(t, services[0].db.Read().QueryRow(`SELECT COUNT(*) FROM rights WHERE parent_right_id = $1`, rightID).Scan(&derived))
	require.Equal(t, 1, derived)
	require.Len(t, logged(t, services[0].db), 3, "offer.proposed, offer.accepted, right.issued")
}

// TestAcceptAgainstRevoke lets an acceptance race a revocation of the offer's right:
// either it loses, or what it derived is stopped.
func TestAcceptAgainstRevoke(t *testing.T) {
	stacktest.Both(t)
	dir, c := t.TempDir(), &clock{at: now.Time}
	r := newService(t, dir, c)
	other := r
	if r.db.Shared() {
		other = newService(t, dir, c)
	}
	for i := range 20 {
		parent := fmt.Sprintf("rgh_%d", i)
		require.NoError(t, r.db.Change(t.Context(), func(tx *store.Tx) error {
			_, err := right.Derive(t.Context(), tx, right.Derivation{ID: parent, TenantID: tenantID, ParentID: rightID, HolderOrgID: holder, Scope: json.RawMessage(`{"regions":["US"]}`)}, byKey)
			return err
		}))
		o, err := r.propose(t.Context(), Offer{TenantID: tenantID, RightID: parent, ToOrgID: "org_b", Scope: json.RawMessage(`{"regions":["US"]}`)}, byTenant)
		require.NoError(t, err)
		var acceptErr, revokeErr error
		var issued right.View
		accept := func() { _, issued, acceptErr = r.accept(t.Context(), tenantID, o.ID, byTenant) }
		revoke := func() { revokeErr = other.moveRight(t, parent, right.Revoke) }
		switch i {
		case 0:
			accept()
			revoke()
			require.NoError(t, acceptErr)
		case 1:
			revoke()
			accept()
			require.Error(t, acceptErr)
		default:
			var race sync.WaitGroup
			start := make(chan struct{})
			race.Go(func() { <-start; accept() })
			race.Go(func() { <-start; revoke() })
			close(start)
			race.Wait()
		}
		require.NoError(t, revokeErr)
		if acceptErr != nil {
			conflict(t, acceptErr)
			continue
		}
		v, err := right.FindView(t.Context(), r.db.Read(), tenantID, issued.ID, r.db.Now())
		require.NoError(t, err)
		require.Equal(t, api.RightRevoked, v.EffectiveState)
		require.Equal(t, parent, *v.BlockedBy)
	}
}

// TestStaleRecordLoses is the race that changes which run one at a time hide.
func TestStaleRecordLoses(t *testing.T) {
	r := newService(t, t.TempDir(), &clock{at: now.Time})
	o := r.mustPropose(t)
	older := o
	older.Revision--
	conflict(t, r.db.Change(t.Context(), func(tx *store.Tx) error { return offers.Update(t.Context(), tx, &older, &o) }))
}

func TestLists(t *testing.T) {
	c := &clock{at: now.Time}
	r := newService(t, t.TempDir(), c)
	var made []string
	for range 5 {
		made = append(made, r.mustPropose(t).ID)
		c.pass(time.Millisecond)
	}
	slices.Reverse(made) // newest first
	_, err := r.close(t.Context(), tenantID, made[0], Reject, nil, byTenant)
	require.NoError(t, err)
	ids := func(f filter, behind string, limit int) (ids []string) {
		offers, next, err := list(t.Context(), r.db.Read(), tenantID, f, store.At(c.Now()), store.Slice{Behind: behind, Limit: limit})
		require.NoError(t, err)
		for _, o := range offers {
			ids = append(ids, o.ID)
		}
		if next != "" {
			ids = append(ids, "and more")
		}
		return ids
	}
	require.Equal(t, []string{made[0], made[1], "and more"}, ids(filter{}, "", 2))
	require.Equal(t, made[3:], ids(filter{}, made[2], 2))
	require.Equal(t, made, ids(filter{rightID: rightID}, "", 10))
	require.Empty(t, ids(filter{rightID: "rgh_other"}, "", 10))
	require.Equal(t, made[:1], ids(filter{state: "REJECTED"}, "", 10))
	require.Equal(t, made[1:], ids(filter{state: "PROPOSED"}, "", 10))
	require.Empty(t, ids(filter{state: "EXPIRED"}, "", 10))
	n, err := r.Count(t.Context(), tenantID)
	require.NoError(t, err)
	require.EqualValues(t, 5, n)

	c.pass(lifetime - 4*time.Millisecond) // the first two are due, but not stored as EXPIRED
	require.Equal(t, made[3:], ids(filter{state: "EXPIRED"}, "", 10))
	require.Equal(t, made[1:3], ids(filter{state: "PROPOSED"}, "", 10))
	require.Equal(t, made[:1], ids(filter{state: "REJECTED"}, "", 10))
}
