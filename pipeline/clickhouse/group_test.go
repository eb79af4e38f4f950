package clickhouse

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/bench/waittest"
	"muniment.example/deploy/stack/stacktest"
	"muniment.example/pipeline"
)

// held lets a test see each group, and hold it until the test releases it.
type heldGroups struct {
	*groups
	begun   chan []*pipeline.Batch
	release chan struct{}
}

func hold(g *groups) heldGroups {
	h := heldGroups{g, make(chan []*pipeline.Batch), make(chan struct{})}
	load := g.load
	g.load = func(ctx context.Context, batches []*pipeline.Batch) error {
		h.begun <- batches
		select {
		case <-h.release:
			return load(ctx, batches)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return h
}

// awaitWaiting returns when so many calls wait for groups that are not begun.
func (h heldGroups) awaitWaiting(t *testing.T, calls int) {
	t.Helper()
	waittest.Until(t, func() bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		n := 0
		for _, g := range h.waiting {
			n += g.waiters
		}
		return n == calls
	})
}

// batchOf is a batch of one delivery of a tenant that the partition has to itself.
func batchOf(partition int32) pipeline.Batch {
	r := delivery("tnt_"+string('a'+rune(partition)), 100+int64(partition), midnight, "")
	r.Partition = partition
	return pipeline.Batch{Partition: partition, From: r.Position, Rows: []pipeline.Row{r}, Next: r.Next()}
}

// later calls f, and sends what it returns.
func later(f func() error) <-chan error {
	err := make(chan error, 1)
	go func() { err <- f() }()
	return err
}

// What one batch holds fails that batch alone.
func TestOneOfThreeBatchesIsPoisoned(t *testing.T) {
	w := mustOpen(t, fresh(t, stacktest.ClickHouse(t)))
	require.NoError(t, w.conn.Exec(t.Context(), `ALTER TABLE events ADD CONSTRAINT poison CHECK tenant_id != 'tnt_b'`))
	h := hold(w.groups)
	load := func(partition int32) <-chan error {
		return later(func() error { return w.Load(t.Context(), batchOf(partition)) })
	}
	before := load(3)
	<-h.begun
	loads := []<-chan error{load(0), load(1), load(2)}
	h.awaitWaiting(t, 3)
	h.release <- struct{}{}
	require.NoError(t, <-before)
	require.Len(t, <-h.begun, 3, "those that came meanwhile go together")
	h.release <- struct{}{}
	for range loads {
		require.Len(t, <-h.begun, 1, "and then alone")
	}
	close(h.release)
	require.NoError(t, <-loads[0])
	err := <-loads[1]
	require.ErrorContains(t, err, "poison")
	require.ErrorContains(t, err, batchOf(1).Next.String())
	require.NoError(t, <-loads[2])

	for partition := range int32(4) {
		next, ok, err := w.Resume(t.Context(), partition)
		require.NoError(t, err)
		require.Equal(t, partition != 1, ok, "partition %d", partition)
		if ok {
			require.Equal(t, batchOf(partition).Next, next)
		}
	}
	requireSums(t, w, 3, 3, 3*1000+100+102+103)
}

// A call that gives up takes its batch along, unless that is being loaded: then it goes
// on as long as any call waits for it, and no other call sees the difference.
func TestACallOfAGroupGivesUp(t *testing.T) {
	w := mustOpen(t, fresh(t, stacktest.ClickHouse(t)))
	h := hold(w.groups)
	contexts, cancels, loads := make([]context.Context, 5), make([]context.CancelFunc, 5), make([]<-chan error, 5)
	load := func(i int) {
		contexts[i], cancels[i] = context.WithCancel(t.Context())
		loads[i] = later(func() error { return w.Load(contexts[i], batchOf(int32(i))) })
	}
	load(4)
	<-h.begun
	for i := range 4 {
		load(i)
		h.awaitWaiting(t, i+1)
	}
	cancels[2]()
	require.ErrorIs(t, <-loads[2], context.Canceled)
	cancels[4]() // no other call waits for that one
	require.ErrorIs(t, <-loads[4], context.Canceled)
	begun := <-h.begun
	require.Len(t, begun, 3, "one has given up before")
	cancels[0]()
	require.ErrorIs(t, <-loads[0], context.Canceled)
	h.release <- struct{}{}
	require.NoError(t, <-loads[1])
	require.NoError(t, <-loads[3])
	requireSums(t, w, 3, 3, 3*1000+100+101+103)
	for _, cancel := range cancels {
		cancel()
	}
}

func TestGroupsAreBounded(t *testing.T) {
	g := newGroups(func(context.Context, []*pipeline.Batch) error { return nil })
	h := hold(g)
	var all sync.WaitGroup
	var failed atomic.Int32
	add := func(rows ...pipeline.Row) {
		all.Go(func() {
			if h.add(t.Context(), pipeline.Batch{Rows: rows}) != nil {
				failed.Add(1)
			}
		})
	}
	add(pipeline.Row{})
	<-h.begun
	for i, rows := range []int{maxGroupRows - 1, 1, 1, 2 * maxGroupRows, 1} {
		add(make([]pipeline.Row, rows)...)
		h.awaitWaiting(t, i+1)
	}
	var large pipeline.Row
	large.Event, large.Private = make([]byte, maxGroupBytes/2), make([]byte, maxGroupBytes/2+1)
	add(large)
	h.awaitWaiting(t, 6)
	for _, batches := range []int{2, 1, 1, 1, 1} {
		h.release <- struct{}{}
		require.Len(t, <-h.begun, batches)
	}
	h.release <- struct{}{}
	all.Wait()
	require.Zero(t, failed.Load())
}

// Close waits for nothing but the end of what it has ended.
func TestCloseEndsAGroup(t *testing.T) {
	w, err := Open(t.Context(), fresh(t, stacktest.ClickHouse(t)))
	require.NoError(t, err)
	h := hold(w.groups)
	load := later(func() error { return w.Load(t.Context(), batchOf(1)) })
	<-h.begun
	require.NoError(t, w.Close())
	require.ErrorIs(t, <-load, context.Canceled)
	require.ErrorIs(t, w.Load(t.Context(), batchOf(1)), errClosed)
}

// The server is killed in the middle of groups of several partitions, each of which
// goes on where the warehouse says.
func TestServerKilledInAGroup(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	cfg := Config{URL: inDatabase(t, s.url(), "muniment"), Timeout: 20 * time.Second}
	_, err := Migrate(t.Context(), cfg, false)
	require.NoError(t, err)
	w := mustOpen(t, cfg)

	const partitions, size = 4, 250
	kills := 2
	if full {
		kills = 4
	}
	rows := make([][]pipeline.Row, partitions)
	var all, metered, quantity int64
	for half := range 2 {
		some, m, q := spread(int64(half)*100_000, 6000)
		all, metered, quantity = all+int64(len(some)), metered+m, quantity+q
		for _, r := range some { // a tenant is in one partition
			r.Partition = int32(2 * half)
			if r.TenantID == "tnt_b" {
				r.Partition++
			}
			r.TenantID = "tnt_" + string('a'+rune(r.Partition))
			rows[r.Partition] = append(rows[r.Partition], r)
		}
	}
	var failed, loaded atomic.Int64 // groups of more than one batch
	begun := make(chan struct{}, 1)
	down := make(chan struct{}) // closed when the server was killed for the first time
	var first sync.Once
	load := w.groups.load
	w.groups.load = func(ctx context.Context, batches []*pipeline.Batch) error {
		if len(batches) == 1 {
			return load(ctx, batches)
		}
		select {
		case begun <- struct{}{}:
		default:
		}
		first.Do(func() { <-down }) // one group, at least, is hit
		err := load(ctx, batches)
		if err == nil {
			loaded.Add(1)
		} else {
			failed.Add(1)
		}
		return err
	}
	over := make(chan struct{})
	go func() { // kills at a moment of a group that is later each time
		defer close(over)
		for i := range kills {
			if i > 0 {
				select {
				case <-begun: // of before
				default:
				}
			}
			<-begun
			<-time.After(time.Duration(i) * 23 * time.Millisecond)
			s.kill()
			if i == 0 {
				close(down)
				waittest.Until(t, func() bool { return failed.Load() > 0 })
			}
			s.run("up")
		}
	}()
	var loaders sync.WaitGroup
	for p := range int32(partitions) {
		loaders.Go(func() {
			for next := 0; next < len(rows[p]); {
				b := pipeline.Batch{Partition: p, From: rows[p][max(next, 1)-1].Next(), Rows: rows[p][next:min(next+size, len(rows[p]))]}
				b.Next = b.Rows[len(b.Rows)-1].Next()
				if w.Load(t.Context(), b) != nil {
					waittest.Until(t, func() bool { return w.Ping(t.Context()) == nil })
				}
				resume, ok, err := w.Resume(t.Context(), p)
				if err != nil || !ok {
					continue
				}
				for next = 0; next < len(rows[p]) && rows[p][next].Offset < resume.Offset; next++ {
				}
				select {
				case <-over:
				default:
					if next == len(rows[p]) {
						next = 0 // again, while kills are to come
					}
				}
			}
		})
	}
	loaders.Wait()
	<-over
	t.Logf("%d kills, %d groups failed and %d loaded", kills, failed.Load(), loaded.Load())
	require.Positive(t, failed.Load(), "no kill has hit a group")
	requireSums(t, w, all, metered, quantity)
}
