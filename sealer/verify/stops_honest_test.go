package verify

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/sealer"
	"muniment.example/sealer/pack"
	"muniment.example/sealer/sealertest"
)

// honest is a service that keeps its promises, however late everything in it is: control
// changes one thing at a time, events and deliveries come into the log later, a node decides
// by what it knew up to its lease before, or by a right that it has just read, and its clock
// is up to a minute ahead. Control seals once its own events are in the log.
type honest struct {
	*folder
	*rand.Rand
	revision int
	rights   []*honestRight
	keys     map[string]time.Time // when they were revoked
	known    time.Time            // what the node has applied
	outbox   [][]byte             // of control, in its order
	spool    [][]byte             // of the node
	log      [][]byte             // that is not sealed
	newest   time.Time            // in it
	packs    []string
}

// upTo is a random duration, and often the longest.
func (h *honest) upTo(longest time.Duration) time.Duration {
	if h.IntN(2) == 0 {
		return longest
	}
	return time.Duration(h.IntN(int(longest.Milliseconds()))) * time.Millisecond
}

type honestRight struct {
	id     string
	parent *honestRight
	moves  []honestMove
}

type honestMove struct {
	at       time.Time
	kind     string
	revision int
}

// as is the last move of the right up to a moment; nil before it was issued.
func (r *honestRight) as(of time.Time) (last *honestMove) {
	for i := range r.moves {
		if !r.moves[i].at.After(of) {
			last = &r.moves[i]
		}
	}
	return last
}

func active(m *honestMove) bool { return m.kind == "issued" || m.kind == "resumed" }

// stopped reports whether an ancestor is, as of a moment; an unknown one is not.
func (r *honestRight) stopped(of time.Time) bool {
	for p := r.parent; p != nil; p = p.parent {
		if m := p.as(of); m != nil && !active(m) {
			return true
		}
	}
	return false
}

// suspendedAt reports whether the right was suspended at a time, by its moves up to a moment.
func (r *honestRight) suspendedAt(at, of time.Time) (suspended bool) {
	for _, m := range r.moves {
		if !m.at.After(of) && !m.at.After(at) {
			suspended = m.kind == "suspended"
		}
	}
	return suspended
}

// aboveSuspendedAt is suspendedAt for the ancestors.
func (r *honestRight) aboveSuspendedAt(at, of time.Time) bool {
	for p := r.parent; p != nil; p = p.parent {
		if p.suspendedAt(at, of) {
			return true
		}
	}
	return false
}

func (h *honest) move(r *honestRight, kind string) {
	h.revision += 1 + h.IntN(3)
	var parent []string
	if r.parent != nil {
		parent = []string{r.parent.id}
	}
	h.outbox = append(h.outbox, h.w.moved(kind, r.id, h.revision, parent...))
	r.moves = append(r.moves, honestMove{h.w.Now, kind, h.revision})
}

// change is a change of control that its rules allow.
func (h *honest) change() {
	if len(h.rights) == 0 || h.IntN(4) == 0 {
		r := &honestRight{id: fmt.Sprintf("rgh_%d", len(h.rights))}
		if len(h.rights) > 0 && h.IntN(3) > 0 {
			p := h.rights[h.IntN(len(h.rights))]
			if !active(p.as(h.w.Now)) || p.stopped(h.w.Now) {
				return
			}
			r.parent = p
		}
		h.rights = append(h.rights, r)
		h.move(r, "issued")
		return
	}
	r := h.rights[h.IntN(len(h.rights))]
	switch m := r.as(h.w.Now); {
	case m.kind == "revoked":
	case h.IntN(8) == 0:
		h.move(r, "revoked")
	case active(m):
		h.move(r, "suspended")
	default:
		h.move(r, "resumed")
	}
}

// deliver sends a delivery to a node, which may refuse it.
func (h *honest) deliver() {
	if len(h.rights) == 0 {
		return
	}
	now := h.w.Now.Add(time.Second)
	if known := now.Add(-h.upTo(30 * time.Second)); known.After(h.known) {
		h.known = known
	}
	key := fmt.Sprintf("key_%d", h.IntN(9))
	if at, revoked := h.keys[key]; revoked && !at.After(h.known) {
		return
	}
	r := h.rights[h.IntN(len(h.rights))]
	m := r.as(h.known)
	if m == nil || active(m) && h.IntN(3) == 0 { // it is not cached
		m = r.as(now)
	}
	if m == nil || !active(m) || r.stopped(h.known) {
		return
	}
	own := h.known // how far the right itself is known
	if last := r.as(now); last == m {
		own = now
	}
	ahead := h.upTo(time.Minute)
	var ago time.Duration
	if h.IntN(2) == 0 { // a row of a batch
		ago = time.Duration(h.IntN(20*60)) * time.Second
		at := now.Add(ahead).Add(-ago)
		if r.suspendedAt(at, own) || r.aboveSuspendedAt(at, h.known) {
			return
		}
	}
	h.w.later(ahead)
	s, d, receipt := h.w.Draft(2)
	h.w.later(-ahead)
	if ago > 0 {
		receipt.RenderedAt = receipt.IssuedAt.Add(-ago)
	}
	d.RightID, d.RightRevision, d.Actor = r.id, int64(m.revision), sealer.Ref{Kind: "key", ID: key}
	event, err := s.SealDelivery(nil, d, receipt)
	require.NoError(h.t, err)
	h.spool = append(h.spool, event)
	if receipt.IssuedAt.After(h.newest) {
		h.newest = receipt.IssuedAt
	}
}

func (h *honest) seal() {
	h.log, h.outbox = append(h.log, h.outbox...), nil
	if len(h.log) == 0 {
		return
	}
	h.packs = append(h.packs, h.pack(fmt.Sprint(len(h.packs)), h.log, func(c *pack.Config) {
		if h.newest.After(c.SealedAt) {
			c.SealedAt = h.newest
		}
	}))
	h.log = nil
}

func (h *honest) step() {
	switch h.IntN(13) {
	case 0, 1, 2:
		h.change()
	case 3:
		h.w.later(time.Duration(h.IntN(40)) * time.Second)
		if h.IntN(20) == 0 {
			h.w.later(2 * sealDelay)
		}
	case 4, 5:
		n := h.IntN(len(h.outbox) + 1)
		h.log, h.outbox = append(h.log, h.outbox[:n]...), h.outbox[n:]
	case 6, 7:
		n := h.IntN(len(h.spool) + 1)
		h.log, h.spool = append(h.log, h.spool[:n]...), h.spool[n:]
	case 8:
		if key := fmt.Sprintf("key_%d", h.IntN(9)); h.IntN(4) == 0 && h.keys[key].IsZero() {
			h.outbox = append(h.outbox, h.w.eventOf("key.revoked", sealer.Ref{Kind: "key", ID: key}, `{"revision":1}`))
			h.keys[key] = h.w.Now
		}
	case 9:
		if h.IntN(2) == 0 {
			h.seal()
		}
	default:
		h.deliver()
	}
}

// TestHonestServiceIsSound: of a service that keeps its promises no pack fails, whichever are
// given; and of all of them together nothing is even remarked. With less of a bound than its
// leases and its clocks need, some would fail.
func TestHonestServiceIsSound(t *testing.T) {
	remarked, deliveries, strict := 0, 0, 0
	for seed := range uint64(sealertest.Rounds(40, 2_500)) {
		h := &honest{folder: newFolder(t), Rand: rand.New(rand.NewPCG(seed, 0)), keys: make(map[string]time.Time)}
		for range 200 {
			h.step()
		}
		h.log, h.spool = append(h.log, h.spool...), nil
		h.seal()
		given := slices.DeleteFunc(slices.Clone(h.packs), func(string) bool { return seed%2 == 0 && h.IntN(3) == 0 })
		if len(given) == 0 {
			continue
		}
		tr, err := readTrust(h.w.VKey, "")
		require.NoError(t, err)
		for _, f := range verifyFiles(t.Context(), tr, &Options{Files: given}).Files {
			require.Empty(t, failures(f.Verdicts), "seed %d: %+v", seed, f.Verdicts)
			deliveries += len(f.conduct.deliveries)
			for _, v := range f.Verdicts {
				if v.Code == RightLate || v.Code == RightUnproven {
					require.Less(t, len(given), len(h.packs), "seed %d: %+v", seed, v)
					remarked++
				}
			}
		}
		if !verifyFiles(t.Context(), tr, &Options{Files: given, Bound: DefaultBound - time.Minute}).OK {
			strict++
		}
	}
	t.Logf("%d deliveries, %d remarks; without the minute for clocks, %d would not be sound", deliveries, remarked, strict)
	require.Positive(t, deliveries)
	require.Positive(t, remarked)
	require.Positive(t, strict)
}
