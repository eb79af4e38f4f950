package abuse

import (
	"context"
	"sync/atomic"
	"time"

	"muniment.example/bench/load"
)

// batches sends them until ctx is done, and returns when that has begun.
func (w *abusers) batches(ctx context.Context) error {
	begun, ended := make(chan struct{}), make(chan error, 1)
	p := &load.Pressure{
		Addr: w.Addr, Senders: []load.Sender{{Key: w.Key, Bodies: w.Requests}}, Connections: w.Connections, Rows: w.Rows, During: time.Hour,
		Begin: func() error { close(begun); return nil },
	}
	var callers atomic.Uint32
	callers.Store(w.From)
	w.clients.Go(func() {
		_, err := p.Run(ctx, &callers)
		if ctx.Err() != nil {
			err = nil
		}
		w.count(Counts{}, err)
		ended <- err
	})
	select {
	case <-begun:
		return nil
	case err := <-ended:
		return err
	}
}
