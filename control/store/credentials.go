package store

import (
	"context"
	"crypto/tls"
	"database/sql"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
)

// pool opens connections with the certificates and the password of now.
func (cfg *Config) pool(config *pgx.ConnConfig) *sql.DB {
	reads := config.RuntimeParams["default_transaction_read_only"] == "on"
	return sql.OpenDB(connector{stdlib.GetConnector(*config, stdlib.OptionBeforeConnect(cfg.renew)), reads})
}

// connect opens one connection of that kind.
func (cfg *Config) connect(ctx context.Context, config *pgx.ConnConfig) (*pgx.Conn, error) {
	own := config.Copy()
	if err := cfg.renew(ctx, own); err != nil {
		return nil, err
	}
	return pgx.ConnectConfig(ctx, own)
}

// renew sets what may have changed since the last connection. What it replaces may be
// shared with other connections, and is left as it is.
func (cfg *Config) renew(_ context.Context, config *pgx.ConnConfig) (err error) {
	if cfg.Password != nil {
		if config.Password, err = cfg.Password(); err != nil {
			return err
		}
	}
	if cfg.TLS == nil {
		return nil
	}
	// By its sslmode the URL may list each server twice, with and without TLS.
	var others []*pgconn.FallbackConfig
	known := map[pgconn.FallbackConfig]bool{{Host: config.Host, Port: config.Port}: true}
	for _, f := range config.Fallbacks {
		server := pgconn.FallbackConfig{Host: f.Host, Port: f.Port}
		if known[server] {
			continue
		}
		known[server] = true
		server.TLSConfig = cfg.tlsFor(f.Host, config.SSLNegotiation)
		others = append(others, &server)
	}
	config.TLSConfig, config.Fallbacks = cfg.tlsFor(config.Host, config.SSLNegotiation), others
	return nil
}

// tlsFor is nil for a socket of this machine.
func (cfg *Config) tlsFor(host, negotiation string) *tls.Config {
	if strings.HasPrefix(host, "/") {
		return nil
	}
	c := cfg.TLS(host)
	if negotiation == "direct" {
		c.NextProtos = []string{"postgresql"}
	}
	return c
}
