//go:build !linux

package gateway

import (
	"context"
	"io"
	"net"
)

// Hold can only look here whether an address can be had, by listening on it for a moment.
func Hold(ctx context.Context, addr string) (at net.Addr, held io.Closer, err error) {
	ln, err := Listen(ctx, addr)
	if err != nil {
		return nil, nil, err
	}
	return ln.Addr(), io.NopCloser(nil), ln.Close()
}
