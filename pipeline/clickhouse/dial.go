package clickhouse

import (
	"context"
	"crypto/tls"
	"net"

	"github.com/ClickHouse/clickhouse-go/v2"
)

// dial opens a connection of the pool with the current certificates and password.
func (c Config) dial(ctx context.Context, id int, opt *clickhouse.Options, dial clickhouse.Dial) (clickhouse.DialResult, error) {
	return clickhouse.DefaultDialStrategy(ctx, id, opt, func(ctx context.Context, address string, opt *clickhouse.Options) (clickhouse.DialResult, error) {
		now := *opt
		if c.TLS != nil {
			host, _, err := net.SplitHostPort(address)
			if err != nil {
				return clickhouse.DialResult{}, err
			}
			now.TLS = c.TLS(host)
		}
		if c.Password != nil {
			var err error
			if now.Auth.Password, err = c.Password(); err != nil {
				return clickhouse.DialResult{}, err
			}
		}
		if opt.Protocol != clickhouse.Native {
			return dial(ctx, address, &now)
		}
		return greet(ctx, address, &now, dial)
	})
}

// greet opens a connection of the native protocol, and gives up when ctx is done. The driver
// itself waits for its whole DialTimeout for a server that hangs.
func greet(ctx context.Context, address string, opt *clickhouse.Options, dial clickhouse.Dial) (clickhouse.DialResult, error) {
	var conn net.Conn
	over := func() bool { return true }
	opt.DialContext = func(ctx context.Context, address string) (_ net.Conn, err error) {
		plain := &net.Dialer{Timeout: opt.DialTimeout}
		if opt.TLS == nil {
			conn, err = plain.DialContext(ctx, "tcp", address)
		} else {
			conn, err = (&tls.Dialer{NetDialer: plain, Config: opt.TLS}).DialContext(ctx, "tcp", address)
		}
		if err == nil {
			over = context.AfterFunc(ctx, func() { conn.Close() }) // this ends the driver's handshake
		}
		return conn, err
	}
	greeted, err := dial(ctx, address, opt)
	if !over() {
		err = context.Cause(ctx)
	}
	if err != nil && conn != nil {
		conn.Close() // the driver leaves it open
	}
	return greeted, err
}
