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

// pool opens connections with the current certificates and password.
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

// renew sets the certificates and password, which may have changed since the last connection. It
// modifies nothing that is shared with other connections.
func (cfg *Config) renew(_ context.Context, config *pgx.ConnConfig) (err error) {
	if cfg.Password != nil {
		if config.Password, err = cfg.Password(); err != nil {
			return err
		}
	}
	if cfg.TLS == nil {
		return nil
	}
	// Depending on sslmode, the URL lists each server twice, with and without TLS.
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

// tlsFor returns nil for a Unix socket.
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
