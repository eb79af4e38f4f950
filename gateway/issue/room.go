package issue

import (
	"context"
	"time"

	"muniment/gateway/api"
)

// room is what batches may take of the node, so that single deliveries always find some: half
// of what the log lets wait, and a turn on some of the processors. What does not fit waits, in
// the order in which it came.
type room struct {
	reserved chan struct{} // one for each piece that is signed or waits for the log
	signing  chan struct{} // one for each that is being signed
}

var errNoRoom = api.Unavailable(api.Overloaded, "this node has too many batches in hand; send the batch again", time.Second)

func newRoom(bytes, signing int) room {
	return room{make(chan struct{}, max(1, bytes/pieceBytes)), make(chan struct{}, signing)}
}

// reserve takes the bytes of a piece, until giveBack.
func (r *room) reserve(ctx context.Context) error { return take(ctx, r.reserved) }
func (r *room) giveBack()                         { <-r.reserved }

// begin takes a turn to sign, until finish.
func (r *room) begin(ctx context.Context) error { return take(ctx, r.signing) }
func (r *room) finish()                         { <-r.signing }

func take(ctx context.Context, of chan struct{}) error {
	select {
	case of <- struct{}{}:
		return nil
	case <-ctx.Done():
		return errNoRoom
	}
}
