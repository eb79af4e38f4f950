package control_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/bench/waittest"
	"muniment.example/control"
	"muniment.example/control/node"
	"muniment.example/control/store"
	"muniment.example/deploy/stack/stacktest"
	"muniment.example/gateway/api"
	"muniment.example/gateway/snapshot"
	"muniment.example/pipeline/conform"
	"muniment.example/sealer"
)

// stallingLog stands still now and then, and the relay that writes it.
type stallingLog struct{ memoryLog }

func (l *stallingLog) Append(ctx context.Context, r *sealer.Record) (sealer.Position, error) {
	if rand.IntN(20) == 0 && !pause(ctx, upTo(rand.New(rand.NewPCG(rand.Uint64(), 0)), 300*time.Millisecond)) {
		return sealer.Position{}, ctx.Err()
	}
	return l.memoryLog.Append(ctx, r)
}

func (l *stallingLog) AppendInOrder(ctx context.Context, rs []*sealer.Record) (int, error) {
	return conform.InOrder(ctx, rs, l.Append)
}

// either takes each question of a node to one of the control processes, over a wire.
type either struct {
	wires []*wire
}

func (e either) RoundTrip(q *http.Request) (*http.Response, error) {
	return e.wires[rand.IntN(len(e.wires))].RoundTrip(q)
}

// nodeAnswer is what a node said of a right once it had applied a revision.
type nodeAnswer struct {
	applied, revision int64 // revision 0: the refusal of a stopped right does not have it
	state             api.RightState
}

// TestTwoProcessesCommit changes rights at two control processes at once, while three
// nodes poll either of them and the relay pauses at random: no node goes back to an older revision,
// nor decides by an older one than it applied, and all end at the database's state.
// MUNIMENT_TEST_FULL makes it a minute.
func TestTwoProcessesCommit(t *testing.T) {
	stacktest.Both(t)
	stacktest.Postgres(t)
	length := 2 * time.Second
	if os.Getenv("MUNIMENT_TEST_FULL") != "" {
		length = time.Minute
	}
	dir := t.TempDir()
	fast := node.Config{WaitFor: time.Millisecond}
	first, second := newFixtureOn(t, dir, fast), newFixtureOn(t, dir, fast)
	log := &stallingLog{}
	cfg := first.config()
	cfg.Log = log
	first.made = mustControl(t, cfg)
	cfg = second.config()
	cfg.Log = log
	second.made = mustControl(t, cfg)
	tenantID, key := first.tenant()
	basisID := first.basis(key)
	var rights []string
	truth := map[string]map[int64]api.RightState{} // of each right, by revision
	for range 20 {
		id := first.right(key, basisID)
		rights, truth[id] = append(rights, id), map[int64]api.RightState{}
		r, err := store.Newest(t.Context(), first.db, api.Rights, id)
		require.NoError(t, err)
		truth[id][r.Revision] = r.State
	}

	// Who serves, until the end of the test.
	serving, stop := context.WithCancel(t.Context())
	var servers sync.WaitGroup
	var views []*snapshot.View
	defer func() {
		stop()
		servers.Wait()
		for _, v := range views {
			v.Close()
		}
	}()
	controls := []*control.Control{first.control(), second.control()}
	for _, c := range controls {
		servers.Go(func() { _ = c.Run(serving) })
	}
	var mu sync.Mutex // guards truth, seen, looks and commits
	seen := make([]map[string][]nodeAnswer, 3)
	for i := range seen {
		seen[i] = map[string][]nodeAnswer{}
		var both either
		for k, c := range controls {
			both.wires = append(both.wires, &wire{to: c.Nodes(), r: rand.New(rand.NewPCG(uint64(i), uint64(k))), slow: 300 * time.Millisecond, goes: closed()})
		}
		credential := first.admit(newNewcomer(t), first.invite())
		source, err := snapshot.NewRemote([]string{"https://control.internal"}, credential, &http.Client{Transport: both})
		require.NoError(t, err)
		v, err := snapshot.New(snapshot.Config{Source: source, NodeID: "nod_x", Capacity: 5})
		require.NoError(t, err)
		views = append(views, v)
		servers.Go(func() { _ = v.Run(serving) })
	}
	look := func(i int, id string) (s nodeAnswer, ok bool) {
		s = nodeAnswer{applied: views[i].Applied(), state: api.RightActive}
		right, err := views[i].Right(serving, tenantID, id)
		switch {
		case err == nil:
			s.revision = right.Revision
		case api.From(err).Code == api.StateConflict:
			s.state = api.RightState(err.Error()[strings.LastIndexByte(err.Error(), ' ')+1:])
		default:
			return s, false // control could not be reached
		}
		return s, s.applied > 0
	}

	ctx, end := context.WithCancel(serving)
	var doers sync.WaitGroup
	defer doers.Wait()
	defer end()
	looks := 0
	for i := range views {
		doers.Go(func() {
			for pause(ctx, time.Millisecond) {
				id := rights[rand.IntN(len(rights))]
				if s, ok := look(i, id); ok {
					mu.Lock()
					seen[i][id] = append(seen[i][id], s)
					looks++
					mu.Unlock()
				}
			}
		})
	}
	commits := [2]int{}
	for k, h := range []*fixture{first, second} {
		for range 2 {
			doers.Go(func() {
				for ctx.Err() == nil {
					id, verb := rights[rand.IntN(len(rights))], []string{"suspend", "resume"}[rand.IntN(2)]
					a := h.call(key, "POST", "/v1/rights/"+id+"/"+verb, "")
					if a.status == http.StatusConflict { // it is so already
						continue
					}
					right := get[map[string]any](t, a.ok(), "right")
					mu.Lock()
					truth[id][int64(get[float64](t, right, "revision"))] = api.RightState(get[string](t, right, "state"))
					commits[k]++
					mu.Unlock()
				}
			})
		}
	}
	began := time.Now()
	waittest.Until(t, func() bool {
		mu.Lock()
		defer mu.Unlock()
		return time.Since(began) > length && commits[0] > 0 && commits[1] > 0 && looks > 100
	})
	end()
	doers.Wait()

	newest, err := controls[0].Source().Feed(t.Context(), api.FeedRequest{NodeID: "nod_asks"})
	require.NoError(t, err)
	for i, v := range views {
		waittest.Until(t, func() bool { return v.Applied() == newest.Newest })
		for _, id := range rights {
			r, err := store.Newest(t.Context(), first.db, api.Rights, id)
			require.NoError(t, err)
			waittest.Until(t, func() bool {
				s, ok := look(i, id)
				return ok && s.state == r.State && (s.revision == 0 || s.revision == r.Revision)
			})
			requireForward(t, truth[id], seen[i][id], fmt.Sprintf("node %d, right %s", i, id))
		}
	}
	require.NoError(t, first.db.Outbox.Drain(t.Context(), tenantID))
	t.Logf("%v commits at the two processes, %d looks", commits, looks)
}

// requireForward has a node apply more and more, and what it said of a right be never
// older than what it had applied. It may be newer, read from control, and so be followed
// by an older state that the feed corrects later: the lease bounds how old that is.
func requireForward(t *testing.T, truth map[int64]api.RightState, seen []nodeAnswer, of string) {
	t.Helper()
	revisions := slices.Sorted(maps.Keys(truth))
	applied := int64(0)
	for n, s := range seen {
		require.GreaterOrEqual(t, s.applied, applied, "%s: look %d, %+v", of, n, s)
		applied = s.applied
		at := 0
		for at+1 < len(revisions) && revisions[at+1] <= applied {
			at++
		}
		require.True(t, slices.ContainsFunc(revisions[at:], func(r int64) bool {
			return truth[r] == s.state && (s.revision == 0 || s.revision == r)
		}), "%s: look %d, %+v, is older than what was applied: %v", of, n, s, truth)
	}
}
