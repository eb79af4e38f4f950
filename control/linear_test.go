package control_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/control/historytest"
	"muniment.example/control/node"
	"muniment.example/deploy/stack/stacktest"
	"muniment.example/gateway/api"
	"muniment.example/gateway/snapshot"
)

// What nodes decide while rights are suspended, resumed and revoked is held against the
// promise, as historytest decides: in a simulation, in which everything may go wrong.

const (
	linearBound = 10 * time.Second
	linearNodes = 4
)

func TestHistoryIsLinearizable(t *testing.T) {
	stacktest.Both(t)
	stacktest.WithoutPostgres(t) // the clock stands still only for what is in this process
	seeds, length := 2, 10*time.Minute
	if os.Getenv("MUNIMENT_TEST_FULL") != "" {
		seeds, length = 200, 30*time.Minute
	}
	var all tally
	for seed := range seeds {
		ok := t.Run(fmt.Sprint(seed), func(t *testing.T) {
			var s *stage
			synctest.Test(t, func(t *testing.T) {
				s = newStage(t, uint64(seed))
				s.play(length)
			})
			var err error
			_, s.tally.behind, err = s.history.Check(linearBound)
			require.NoError(t, err)
			all.add(s.tally)
		})
		if !ok {
			return
		}
	}
	t.Logf("%+v", all)
	for what, n := range map[string]int{
		"receipts": all.receipts, "refusals": all.refusals, "without a lease": all.stale, "behind a stop": all.behind, "applied": all.applied,
		"not applied": all.missed, "restarts": all.restarts, "pauses": all.pauses, "cuts": all.cuts,
	} {
		require.Positive(t, n, "there were none: %s", what)
	}
}

// tally is what happened.
type tally struct {
	receipts, refusals, stale int
	behind                    int // receipts behind an acknowledged stop, within the bound
	applied, missed           int // changes, by what was said of the nodes
	restarts, pauses, cuts    int
}

func (a *tally) add(b tally) {
	a.receipts += b.receipts
	a.refusals += b.refusals
	a.stale += b.stale
	a.behind += b.behind
	a.applied += b.applied
	a.missed += b.missed
	a.restarts += b.restarts
	a.pauses += b.pauses
	a.cuts += b.cuts
}

// stage is control, its nodes, and all that was seen of them.
type stage struct {
	t        *testing.T
	seed     uint64
	began    time.Time
	fixture  *fixture
	key      string
	tenantID string
	rights   []string
	haste    chan struct{} // has an operator act at once
	history  historytest.History

	mu    sync.Mutex
	tally tally
}

// newStage has six rights, of which two derive from the first.
func newStage(t *testing.T, seed uint64) *stage {
	s := &stage{t: t, seed: seed, began: time.Now(), haste: make(chan struct{})}
	s.fixture = newFixtureOn(t, t.TempDir(), node.Config{LeaseBound: linearBound})
	s.tenantID, s.key = s.fixture.tenant()
	basisID := s.fixture.basis(s.key)
	for range 4 {
		s.rights = append(s.rights, s.fixture.right(s.key, basisID))
	}
	for range 2 {
		made := s.fixture.call(s.key, "POST", "/v1/rights", fmt.Sprintf(
			`{"basisId":%q,"substrate":"CTV","scope":{"regions":["US"]},"effectiveFrom":"2026-01-01T00:00:00Z","parentRightId":%q}`, basisID, s.rights[0])).ok()
		s.rights = append(s.rights, get[string](t, made, "right", "id"))
	}
	return s
}

// random is a source of chance for one of the doers.
func (s *stage) random(doer int) *rand.Rand { return rand.New(rand.NewPCG(s.seed, uint64(doer))) }

// play lets all actors act for a time. After that there are no more faults, and all nodes apply every
// stop.
func (s *stage) play(length time.Duration) {
	var nodes, doers sync.WaitGroup
	life, end := context.WithCancel(s.t.Context())
	defer nodes.Wait()
	defer end()
	trouble, calm := context.WithTimeout(life, length)
	defer calm()
	var actors []*actor
	for i := range linearNodes {
		n := s.newActor(i)
		actors = append(actors, n)
		nodes.Go(func() { n.live(life) })
		doers.Go(func() { n.suffer(trouble, s.random(300+i)) })
	}
	states := make([]api.RightState, len(s.rights))
	for i, id := range s.rights {
		doers.Go(func() { states[i] = s.operate(trouble, s.random(100+i), id) })
	}
	doers.Wait()
	for _, n := range actors {
		n.wire.set(func() { n.wire.calm = true })
	}
	pause(life, 3*linearBound) // the last that was killed is back, and the last answer on its way is there
	for i, id := range s.rights {
		if states[i] == api.RightSuspended {
			s.change(id, "resume", api.RightActive)
		}
		if states[i] != api.RightRevoked {
			require.True(s.t, s.change(id, "suspend", api.RightSuspended), "a stop was not applied, and nothing was wrong")
		}
	}
	pause(life, linearBound)
}

// operate suspends and resumes a right, and may revoke it in the end.
func (s *stage) operate(ctx context.Context, r *rand.Rand, id string) (state api.RightState) {
	state = api.RightActive
	for state != api.RightRevoked && ctx.Err() == nil {
		select {
		case <-time.After(upTo(r, 12*linearBound)):
		case <-s.haste:
		case <-ctx.Done():
			return state
		}
		verb, to := "suspend", api.RightSuspended
		switch {
		case r.IntN(40) == 0:
			verb, to = "revoke", api.RightRevoked
		case state == api.RightSuspended:
			verb, to = "resume", api.RightActive
		}
		s.change(id, verb, to)
		state = to
	}
	return state
}

// change is true when it is a stop, and was applied by all nodes.
func (s *stage) change(id, verb string, to api.RightState) bool {
	called := time.Now()
	response := s.fixture.call(s.key, "POST", "/v1/rights/"+id+"/"+verb, "").ok()
	applied := to != api.RightActive && get[bool](s.t, response, "propagation", "applied")
	s.history.Changed(id, to, called, time.Now(), applied)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case applied:
		s.tally.applied++
	case to != api.RightActive:
		s.tally.missed++
	}
	return applied
}

// upTo is a time of up to most, and mostly much less.
func upTo(r *rand.Rand, most time.Duration) time.Duration {
	x := r.Float64()
	return time.Duration(x * x * float64(most))
}

// rest waits, and is false when ctx has ended first.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// actor is a node, through its starts.
type actor struct {
	s          *stage
	r          *rand.Rand // of who decides
	wire       *wire
	credential string
	skew       time.Duration // of its clock

	mu   sync.Mutex
	kill context.CancelFunc // ends this life
}

func (s *stage) newActor(i int) *actor {
	credential := s.fixture.admit(newNewcomer(s.t), s.fixture.invite())
	r := s.random(i)
	return &actor{
		s: s, r: r, credential: credential, skew: upTo(r, 1000*time.Hour),
		wire: &wire{to: s.fixture.control().Nodes(), r: s.random(200 + i), goes: closed(),
			slow: 6 * time.Second, // an answer is not waited for that long
		},
	}
}

func closed() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}

// live starts the node, and starts it again whenever it was killed.
func (n *actor) live(ctx context.Context) {
	for ctx.Err() == nil {
		life, kill := context.WithCancel(ctx)
		n.mu.Lock()
		n.kill = kill
		n.mu.Unlock()
		source, err := snapshot.NewRemote([]string{"https://control.internal"}, n.credential, &http.Client{Transport: n.wire})
		require.NoError(n.s.t, err)
		view, err := snapshot.New(snapshot.Config{
			Source: source, NodeID: "nod_x", LeaseBound: linearBound, Capacity: 2, // so that it has to request snapshots again and again
			Clock: func() time.Duration { return time.Since(n.s.began) + n.skew },
		})
		require.NoError(n.s.t, err)
		var work sync.WaitGroup
		work.Go(func() { _ = view.Run(life) })
		work.Go(func() {
			for pause(life, upTo(n.r, 300*time.Millisecond)) {
				n.decide(life, view, n.s.rights[n.r.IntN(len(n.s.rights))])
			}
		})
		work.Wait()
		view.Close()
		kill()
		pause(ctx, upTo(n.r, linearBound))
	}
}

// decide reads what a delivery reads, in its order: the time of issue, the lease, the right.
func (n *actor) decide(ctx context.Context, view *snapshot.View, id string) {
	s := n.s
	n.wire.stopped(ctx)
	issued := time.Now()
	if view.Fresh() != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.tally.stale++
		return
	}
	n.wire.stopped(ctx)
	right, err := view.Right(ctx, s.tenantID, id)
	n.wire.stopped(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	saw := func(id string, state api.RightState) {
		s.history.Decided(id, state, issued, time.Now())
	}
	if err == nil {
		s.tally.receipts++
		for _, id := range append([]string{id}, right.Ancestors...) {
			saw(id, api.RightActive)
		}
		return
	}
	refused := api.From(err)
	if refused.Reason == api.RightsStale { // it could not read the right from control
		return
	}
	require.Equal(s.t, api.StateConflict, refused.Code, err)
	s.tally.refusals++
	for _, state := range []api.RightState{api.RightSuspended, api.RightRevoked} {
		if strings.HasSuffix(refused.Message, string(state)) { // else it is an ancestor that is stopped
			saw(id, state)
		}
	}
}

// suffer cuts the node off, stops it, kills it.
func (n *actor) suffer(ctx context.Context, r *rand.Rand) {
	w := n.wire
	for pause(ctx, upTo(r, 12*linearBound)) {
		kind := r.IntN(3)
		n.s.mu.Lock()
		switch kind {
		case 0:
			n.s.tally.cuts++
		case 1:
			n.s.tally.pauses++
		case 2:
			n.s.tally.restarts++
		}
		n.s.mu.Unlock()
		switch kind {
		case 0:
			w.set(func() { w.cut = true })
			pause(ctx, upTo(r, time.Second))
			for range 3 { // now is when a lease counts
				select {
				case n.s.haste <- struct{}{}:
				default:
				}
			}
			pause(ctx, upTo(r, 3*linearBound))
			w.set(func() { w.cut = false })
		case 1:
			goes := make(chan struct{})
			w.set(func() { w.goes = goes })
			pause(ctx, upTo(r, 3*linearBound))
			close(goes)
		case 2:
			n.mu.Lock()
			n.kill()
			n.mu.Unlock()
		}
	}
}

// wire connects a node with control. It is slow, loses requests and responses, and can be cut; a
// response that is on its way may still arrive later. It can also stop the node, whose clock still
// runs: after that a timeout and a response that have both come meanwhile are in no order.
type wire struct {
	to http.Handler

	mu   sync.Mutex
	r    *rand.Rand
	slow time.Duration // the most that a way takes
	cut  bool
	calm bool          // nothing goes wrong
	goes chan struct{} // closed while the node is not stopped
}

var errWire = errors.New("the connection is lost")

func (w *wire) set(change func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change()
}

// stopped waits while the node is, until its life ends.
func (w *wire) stopped(ctx context.Context) {
	w.mu.Lock()
	goes := w.goes
	w.mu.Unlock()
	select {
	case <-goes:
	case <-ctx.Done():
	}
}

// pass is the way in one direction: how long it takes, and whether it leads anywhere.
func (w *wire) pass(mayArrive bool) (d time.Duration, lost bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	d, lost = upTo(w.r, w.slow/300), w.r.IntN(20) == 0
	if w.calm {
		return d, false
	}
	if w.cut || w.r.IntN(10) == 0 {
		d = upTo(w.r, w.slow)
	}
	return d, lost || w.cut && !mayArrive
}

// RoundTrip implements http.RoundTripper.
func (w *wire) RoundTrip(q *http.Request) (*http.Response, error) {
	ctx := q.Context()
	d, lost := w.pass(false)
	if !pause(ctx, d) || lost {
		return nil, cmp.Or(ctx.Err(), errWire)
	}
	var body []byte
	if q.Body != nil {
		body, _ = io.ReadAll(q.Body) // of a bytes.Reader
		q.Body.Close()
	}
	forwarded := q.Clone(ctx)
	forwarded.Body = io.NopCloser(bytes.NewReader(body))
	recorder := httptest.NewRecorder()
	w.to.ServeHTTP(recorder, forwarded)
	d, lost = w.pass(true)
	if !pause(ctx, d) || lost {
		return nil, cmp.Or(ctx.Err(), errWire)
	}
	w.mu.Lock()
	goes := w.goes
	w.mu.Unlock()
	<-goes
	return recorder.Result(), nil
}
