package issue

import (
	"context"
	"runtime"
	"time"

	"muniment.example/gateway/api"
)

// batchLimits limit what batches take of the node, so that single deliveries are always served:
// half of what may wait for the log, and some threads of the lowest priority, which sign. What
// exceeds them waits, in the order of arrival.
type batchLimits struct {
	reserved chan struct{} // one for each piece that is signed or waits for the log
	signers  chan struct{} // one for each thread
	signings chan func()   // what waits for one of them
}

var errManyBatches = api.Unavailable(api.Overloaded, "this node has too many batches in hand; send the batch again", time.Second)

func newBatchLimits(bytes, signers int) batchLimits {
	return batchLimits{make(chan struct{}, max(1, bytes/pieceBytes)), make(chan struct{}, signers), make(chan func())}
}

// reserve takes the bytes of a piece, until release.
func (r *batchLimits) reserve(ctx context.Context) error {
	select {
	case r.reserved <- struct{}{}:
		return nil
	case <-ctx.Done():
		return errManyBatches
	}
}

func (r *batchLimits) release() { <-r.reserved }

// sign runs do on a thread of the lowest priority, which gets the processors when nothing else
// needs them, and waits for its end. do must not hold what others wait for, and must not use the
// log. A panic of do is raised here.
func (r *batchLimits) sign(ctx context.Context, do func() error) (err error) {
	var fault any
	done := make(chan struct{})
	signing := func() {
		defer close(done)
		defer func() { fault = recover() }()
		err = do()
	}
	select {
	case r.signings <- signing:
	case r.signers <- struct{}{}:
		go r.signer(signing)
	case <-ctx.Done():
		return errManyBatches
	}
	if <-done; fault != nil {
		panic(fault)
	}
	return err
}

// signer runs what waits until nothing does. Its thread ends with it, as an unprivileged process
// can't raise the priority of a thread again.
func (r *batchLimits) signer(first func()) {
	defer func() { <-r.signers }()
	runtime.LockOSThread()
	yieldProcessor()
	for next := first; ; {
		next()
		select {
		case next = <-r.signings:
		default:
			return
		}
	}
}
