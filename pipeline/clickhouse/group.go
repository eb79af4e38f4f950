package clickhouse

import (
	"context"
	"errors"
	"slices"
	"sync"

	"muniment.example/pipeline"
)

// maxGroupRows and maxGroupBytes bound a group: its rows are one block in the memory of the
// server and of this process, which loads one group at a time; only the batches of a failed
// group are loaded in parallel. A larger batch is a group of its own.
const (
	maxGroupRows  = 20_000
	maxGroupBytes = 32 << 20
)

// errClosed: the warehouse was closed before the Load.
var errClosed = errors.New("warehouse is closed")

// groups load the batches of several partitions together. Each statement costs the server
// tens of milliseconds, however few rows it has, so the batches that arrive while others are
// being loaded are the next group, in the order in which they arrived.
type groups struct {
	load func(context.Context, []*pipeline.Batch) error

	mu      sync.Mutex
	waiting []*group // guarded by mu
	busy    bool     // a goroutine is loading one; guarded by mu

	loading sync.WaitGroup
	ctx     context.Context // done when the warehouse is closed
	end     context.CancelFunc
}

// group is what one set of statements loads.
type group struct {
	ctx    context.Context // done when no call waits for it any more
	cancel context.CancelFunc

	batches []*pipeline.Batch // in the order in which they arrived; guarded by groups.mu until begun
	rows    int               // guarded by groups.mu
	bytes   int               // guarded by groups.mu
	waiters int               // guarded by groups.mu
	begun   bool              // guarded by groups.mu

	err  error         // set before done is closed
	done chan struct{} // closed when it is loaded or has failed
}

func newGroups(load func(context.Context, []*pipeline.Batch) error) *groups {
	g := &groups{load: load}
	g.ctx, g.end = context.WithCancel(context.Background())
	return g
}

// close ends what is being loaded, and waits for it.
func (g *groups) close() {
	g.mu.Lock()
	g.end()
	g.mu.Unlock()
	g.loading.Wait()
}

// add loads b with others, and returns when it is loaded or has failed, or when ctx is done:
// then b is not loaded unless its group has begun, and the others go on.
func (g *groups) add(ctx context.Context, b pipeline.Batch) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	in, err := g.join(&b)
	if err != nil {
		return err
	}
	select {
	case <-in.done:
	case <-ctx.Done():
		g.leave(in, &b)
		return ctx.Err()
	}
	if in.err == nil || len(in.batches) == 1 {
		return in.err
	}
	return g.load(ctx, []*pipeline.Batch{&b}) // another batch may be why the group failed
}

// join puts b into the last group that waits, or a new one.
func (g *groups) join(b *pipeline.Batch) (*group, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.ctx.Err() != nil {
		return nil, errClosed
	}
	var in *group
	if n := len(g.waiting); n > 0 {
		in = g.waiting[n-1]
	}
	bytes := bytesOf(b)
	if in == nil || in.rows+len(b.Rows) > maxGroupRows || in.bytes+bytes > maxGroupBytes {
		in = &group{done: make(chan struct{})}
		in.ctx, in.cancel = context.WithCancel(g.ctx)
		g.waiting = append(g.waiting, in)
	}
	in.batches = append(in.batches, b)
	in.rows += len(b.Rows)
	in.bytes += bytes
	in.waiters++
	if !g.busy {
		g.busy = true
		g.loading.Go(g.run)
	}
	return in, nil
}

// bytesOf is the size of the fields whose length varies.
func bytesOf(b *pipeline.Batch) (n int) {
	for i := range b.Rows {
		n += len(b.Rows[i].Event) + len(b.Rows[i].Private)
	}
	return n
}

// leave removes b from a group: its call doesn't wait any more.
func (g *groups) leave(in *group, b *pipeline.Batch) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if in.waiters--; in.waiters == 0 {
		in.cancel()
	}
	if in.begun {
		return
	}
	in.rows -= len(b.Rows)
	in.bytes -= bytesOf(b)
	in.batches = slices.DeleteFunc(in.batches, func(other *pipeline.Batch) bool { return other == b })
	if in.waiters == 0 {
		g.waiting = slices.DeleteFunc(g.waiting, func(other *group) bool { return other == in })
	}
}

// run loads groups as long as any wait.
func (g *groups) run() {
	for {
		g.mu.Lock()
		if len(g.waiting) == 0 {
			g.busy = false
			g.mu.Unlock()
			return
		}
		next := g.waiting[0]
		g.waiting = slices.Delete(g.waiting, 0, 1)
		next.begun = true
		g.mu.Unlock()
		next.err = g.load(next.ctx, next.batches)
		next.cancel()
		close(next.done)
	}
}
