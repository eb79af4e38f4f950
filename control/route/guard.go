package route

import (
	"context"
	"io"
	"net/http"
	"time"
)

// lookAgain is how often the caller of a response is looked at while it is written.
const lookAgain = 3 * time.Second

// guardPiece is how many bytes are written between two looks at the clock.
const guardPiece = 64 << 10

type guardKey struct{}

// Guarded returns the context of a request whose caller may lose the right to its response while that is written: still returns
// an error once the caller has, or if that is not known. It is called every few seconds by the clock now.
func Guarded(ctx context.Context, now func() time.Time, still func(context.Context) error) context.Context {
	return context.WithValue(ctx, guardKey{}, &guard{ctx: ctx, now: now, still: still, looked: now()})
}

// guard aborts a response once its caller may not have it. It belongs to one request.
type guard struct {
	http.ResponseWriter
	ctx    context.Context
	now    func() time.Time
	still  func(context.Context) error
	looked time.Time
}

// guarded returns what a response is written to: it panics with http.ErrAbortHandler, which ends the connection, once the caller
// may not have it any more. So a slow reader's download does not outlive the revocation of its key.
func guarded(ctx context.Context, to io.Writer) io.Writer {
	w, isResponse := to.(http.ResponseWriter)
	g, _ := ctx.Value(guardKey{}).(*guard)
	if g == nil || !isResponse {
		return to
	}
	g.ResponseWriter = w
	return g
}

func (g *guard) Write(b []byte) (n int, err error) {
	for first := true; first || len(b) > 0 && err == nil; first = false {
		if now := g.now(); now.Sub(g.looked) >= lookAgain {
			if g.looked = now; g.still(g.ctx) != nil {
				panic(http.ErrAbortHandler)
			}
		}
		piece := b[:min(len(b), guardPiece)]
		var wrote int
		wrote, err = g.ResponseWriter.Write(piece)
		n, b = n+wrote, b[len(piece):]
	}
	return n, err
}

// Unwrap is for http.ResponseController.
func (g *guard) Unwrap() http.ResponseWriter { return g.ResponseWriter }
