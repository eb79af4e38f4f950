// Package issuetest has what an issuer needs, for tests: rights and keys without control, and
// a log that checks every record as the loader does.
package issuetest

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/gate"
	"muniment.example/gateway/api"
	"muniment.example/gateway/auth"
)

// Today is the clock of tests.
var Today = time.Date(2026, 11, 21, 4, 0, 0, 123e6, time.UTC)

// Typical is a body as callers send it.
const Typical = `{"rightId":"rgh_01KAJ000000000000000000001","spatialAnchorId":"venue:2231/face:4","spatialPlacementId":"slot-7","correlationId":"7c0f9a52-6f0e-4a54-9d0c-3a3e5b0c9f11",` +
	`"dwellMs":8250.5,"dataSubjectId":"s\u00fcbject","telemetry":{"visibilityState":"visible","viewable":true,"fovPresence":true,"completionState":"complete","appState":"foreground",` +
	`"linkState":"acquired","footprintRegion":"US-CA","muted":false,"audible":true,"eyeTrackingConsent":true,"dwellInViewMs":5100,"vendor":{"a":[1,2,{"b":null}]}}}`

// Control is a source of rights and keys as control's feed is one: one counter,
// newest state for each id, an immediate answer if there is news.
type Control struct {
	mu        sync.Mutex
	revision  int64
	changes   map[string]api.Change
	histories map[string][]api.Suspension // by right
	news      chan struct{}
	away      error
	requests  int
	hold      chan struct{} // requests for snapshots wait until it is closed
	uses      api.KeyUses   // that the node has told
}

// NewControl makes one that knows nothing.
func NewControl() *Control {
	return &Control{revision: 1, changes: map[string]api.Change{}, news: make(chan struct{})}
}

// SetRight puts a right, and returns the revision of that.
func (c *Control) SetRight(r api.Right) int64 { return put(c, api.Rights, &r, &r.Revision) }

// SetKey puts an API key, likewise.
func (c *Control) SetKey(k api.Key) int64 { return put(c, api.Keys, &k, &k.Revision) }

// SetBeaconKey publishes a key that signs beacons.
func (c *Control) SetBeaconKey(k api.BeaconKey) int64 { return put(c, api.BeaconKeys, &k, &k.Revision) }

// SetMapping puts what a vendor's id stands for, likewise; its ID is set.
func (c *Control) SetMapping(m api.Mapping, vendor, idType, vendorID string) int64 {
	m.ID = api.VendorKey(m.TenantID, vendor, idType, vendorID)
	return put(c, api.Mappings, &m, &m.Revision)
}

func put[T any](c *Control, kind api.Kind[T], snapshot *T, revision *int64) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.revision++
	*revision = c.revision
	change, err := kind.Change(snapshot)
	if err != nil {
		panic(err)
	}
	c.changes[change.ID] = change
	close(c.news)
	c.news = make(chan struct{})
	return c.revision
}

// Fail has each question fail from now on; nil ends that.
func (c *Control) Fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.away = err
}

// Halt has questions for snapshots wait until release.
func (c *Control) Halt() (release func()) {
	hold := make(chan struct{})
	c.mu.Lock()
	c.hold = hold
	c.mu.Unlock()
	return sync.OnceFunc(func() {
		c.mu.Lock()
		c.hold = nil
		c.mu.Unlock()
		close(hold)
	})
}

// request counts a request for snapshots, and waits while those are held.
func (c *Control) request() {
	c.mu.Lock()
	c.requests++
	hold := c.hold
	c.mu.Unlock()
	if hold != nil {
		<-hold
	}
}

// Requests counts the requests for snapshots, of one record or several.
func (c *Control) Requests() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.requests
}

// KeyUses is all that the node has told of uses of keys.
func (c *Control) KeyUses() api.KeyUses {
	c.mu.Lock()
	defer c.mu.Unlock()
	return api.KeyUses{Used: slices.Clone(c.uses.Used), Refused: slices.Clone(c.uses.Refused)}
}

// Feed implements snapshot.Source.
func (c *Control) Feed(ctx context.Context, req api.FeedRequest) (api.Feed, error) {
	c.mu.Lock()
	if c.away == nil {
		c.uses.Used, c.uses.Refused = append(c.uses.Used, req.KeyUses.Used...), append(c.uses.Refused, req.KeyUses.Refused...)
	}
	c.mu.Unlock()
	wait, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
	defer cancel()
	for {
		c.mu.Lock()
		f, news, err := api.Feed{Incarnation: "one", Newest: c.revision, UpTo: c.revision}, c.news, c.away
		for _, change := range c.changes {
			if change.Revision > req.After {
				f.Changes = append(f.Changes, change)
			}
		}
		c.mu.Unlock()
		if err != nil || len(f.Changes) > 0 || req.After == 0 || wait.Err() != nil {
			return f, err
		}
		select {
		case <-news:
		case <-wait.Done():
		}
	}
}

// Snapshot implements snapshot.Source.
func (c *Control) Snapshot(_ context.Context, kind, id string) (api.Snapshot, error) {
	c.request()
	c.mu.Lock()
	defer c.mu.Unlock()
	found := api.Snapshot{AsOf: c.revision}
	if change, ok := c.changes[id]; ok && change.Kind == kind {
		found.Change = &change
	}
	return found, c.away
}

// Snapshots implements snapshot.Source.
func (c *Control) Snapshots(_ context.Context, kind string, ids []string) (api.Snapshots, error) {
	c.request()
	c.mu.Lock()
	defer c.mu.Unlock()
	found := api.Snapshots{AsOf: c.revision}
	for _, id := range ids {
		if change, ok := c.changes[id]; ok && change.Kind == kind {
			found.Changes = append(found.Changes, change)
		}
	}
	return found, c.away
}

// Suspended implements snapshot.Source, by the suspensions that SetHistory has put, or else by those
// in the right.
func (c *Control) Suspended(_ context.Context, moments []api.RightMoment) ([]bool, error) {
	c.request()
	c.mu.Lock()
	defer c.mu.Unlock()
	found := make([]bool, len(moments))
	for i, m := range moments {
		history, ok := c.histories[m.RightID]
		if change, known := c.changes[m.RightID]; !ok && known {
			r, err := api.Rights.Read(&change)
			if err != nil {
				return nil, err
			}
			history = r.Suspensions
		}
		found[i] = slices.ContainsFunc(history, func(s api.Suspension) bool { return s.Holds(m.At) })
	}
	return found, c.away
}

// SetHistory puts all suspensions of a right, for requests.
func (c *Control) SetHistory(rightID string, history []api.Suspension) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.histories == nil {
		c.histories = map[string][]api.Suspension{}
	}
	c.histories[rightID] = history
}

// PutRight puts the n-th right, in effect around Today.
func (c *Control) PutRight(n int, tenant string, s gate.Substrate, scope string, state api.RightState) (id string) {
	id = RightID(n)
	c.SetRight(api.Right{
		ID: id, TenantID: tenant, BasisID: "bas_1", Substrate: s.String(), State: state, Scope: []byte(scope),
		EffectiveFrom: Today.Add(-time.Hour), EffectiveUntil: Today.Add(time.Hour),
	})
	return id
}

// RightID is the id of the n-th right.
func RightID(n int) string { return fmt.Sprintf("rgh_01KAJ%021d", n) }

// KeyID is the id of the n-th API key.
func KeyID(n byte) string { return fmt.Sprintf("key_01KAJ%021d", n) }

// PutKey puts the n-th API key, which is the same in every run, and returns what its caller
// sends.
func (c *Control) PutKey(t testing.TB, n byte, tenant string, scopes api.Scopes, sandbox bool) (token string) {
	token, prefix, hash, err := auth.NewKey(bytes.NewReader(bytes.Repeat([]byte{n}, 32)), auth.EnvTest, KeyID(n))
	require.NoError(t, err)
	c.SetKey(api.Key{ID: KeyID(n), TenantID: tenant, Prefix: prefix, SecretHash: hash, Scopes: scopes, Sandbox: sandbox})
	return token
}

// EditKey changes the n-th API key.
func (c *Control) EditKey(t testing.TB, n byte, how func(*api.Key)) (revision int64) {
	c.mu.Lock()
	change := c.changes[KeyID(n)]
	c.mu.Unlock()
	k, err := api.Keys.Read(&change)
	require.NoError(t, err)
	how(k)
	return c.SetKey(*k)
}
