package kafka

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"

	"muniment.example/bench/waittest"
	"muniment.example/gateway/certs"
	"muniment.example/gateway/certs/certstest"
)

// requireRefused waits until a log reports why it isn't ready.
func requireRefused(tb testing.TB, cfg Config, why string) {
	tb.Helper()
	cfg.ReadTimeout = 100 * time.Millisecond
	l := mustOpen(tb, cfg)
	waittest.Until(tb, func() bool {
		_, _, err := l.Bounds(tb.Context(), 0)
		require.Error(tb, err)
		require.Error(tb, l.Ready())
		return strings.Contains(err.Error(), why)
	})
}

func TestTLS(t *testing.T) {
	authority, other := certstest.New(t), certstest.New(t)
	pair := authority.Issue(t, certstest.Leaf{})
	server, err := certs.Server(certs.Options{Use: "broker"}, certs.ServerFlags{Cert: pair.Cert, Key: pair.Key})
	require.NoError(t, err)
	brokers := fakeBrokers(t, kfake.TLS(server))
	with := func(f certs.ClientFlags) Config {
		c, err := certs.NewClient(certs.Options{Use: "kafka"}, f)
		require.NoError(t, err)
		return Config{Brokers: brokers, TLS: c.TLS()}
	}
	good := with(certs.ClientFlags{CA: authority.File})
	_, err = Topic{Replication: 1}.Migrate(t.Context(), good, false)
	require.NoError(t, err)
	appends := func() {
		t.Helper()
		l := mustOpen(t, good)
		r := testRecord("tnt_a", 0)
		_, err = l.Append(t.Context(), &r)
		require.NoError(t, err)
		require.NoError(t, l.Ready())
	}
	appends()

	requireRefused(t, with(certs.ClientFlags{CA: other.File}), "certificate signed by unknown authority")
	requireRefused(t, with(certs.ClientFlags{TLS: true}), "certificate signed by unknown authority")
	requireRefused(t, with(certs.ClientFlags{CA: authority.File, ServerName: "kafka.example.com"}), "kafka.example.com")
	requireRefused(t, Config{Brokers: brokers}, "TLS, user or password")

	other.Replace(t, pair, certstest.Leaf{}) // other brokers have the address now
	requireRefused(t, good, "certificate signed by unknown authority")
	text, err := os.ReadFile(other.File)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(authority.File, text, 0o600))
	appends()
}

// TestPasswordIsReadAnew changes the password under an open log.
func TestPasswordIsReadAnew(t *testing.T) {
	brokers := fakeBrokers(t, kfake.EnableSASL(), kfake.Superuser("SCRAM-SHA-256", "node", "new"), kfake.Superuser("PLAIN", "node", "new"))
	file := filepath.Join(t.TempDir(), "password")
	cfg := Config{Brokers: brokers, SASL: SASL{Mechanism: "scram-sha-256", User: "node", PasswordNow: certs.PasswordFile(file).Password()}}
	_, err := Open(cfg)
	require.ErrorContains(t, err, file+": no such file")
	require.NoError(t, os.WriteFile(file, []byte("old\n"), 0o600))
	requireRefused(t, cfg, "TLS, user or password")

	l := mustOpen(t, cfg)
	require.NoError(t, os.WriteFile(file, []byte("new\n"), 0o600))
	_, err = Topic{Replication: 1}.Migrate(t.Context(), cfg, false)
	require.NoError(t, err)
	r := testRecord("tnt_a", 0)
	_, err = l.Append(t.Context(), &r)
	require.NoError(t, err, "a log that was open before")
	cfg.SASL.Mechanism = "plain"
	_, err = mustOpen(t, cfg).Append(t.Context(), &r)
	require.NoError(t, err)
}

// TestGroupOverTLS: members of a consumer group have connections of their own.
func TestGroupOverTLS(t *testing.T) {
	authority := certstest.New(t)
	pair := authority.Issue(t, certstest.Leaf{})
	server, err := certs.Server(certs.Options{Use: "broker"}, certs.ServerFlags{Cert: pair.Cert, Key: pair.Key})
	require.NoError(t, err)
	client, err := certs.NewClient(certs.Options{Use: "kafka"}, certs.ClientFlags{CA: authority.File})
	require.NoError(t, err)
	cfg := Config{
		Brokers: fakeBrokers(t, kfake.TLS(server), kfake.EnableSASL(), kfake.Superuser("SCRAM-SHA-512", "node", "secret")),
		TLS:     client.TLS(),
		SASL:    SASL{Mechanism: "scram-sha-512", User: "node", PasswordNow: func() (string, error) { return "secret", nil }},
	}
	_, err = Topic{Partitions: 3, Replication: 1}.Migrate(t.Context(), cfg, false)
	require.NoError(t, err)
	var r roll
	r.member(t, cfg, quick(t), "a")
	r.requireShares(t, map[string]int{"a": 3})
}

func TestSASL(t *testing.T) {
	brokers := fakeBrokers(t, kfake.EnableSASL(),
		kfake.Superuser("PLAIN", "node", "secret"),
		kfake.Superuser("SCRAM-SHA-256", "node-256", "secret, with = and ,"),
		kfake.Superuser("SCRAM-SHA-512", "node-512", "secret"))
	cfg := Config{Brokers: brokers, SASL: SASL{Mechanism: "plain", User: "node", Password: "secret"}}
	_, err := Topic{Replication: 1}.Migrate(t.Context(), cfg, false)
	require.NoError(t, err)
	for _, good := range []SASL{
		{Mechanism: "plain", User: "node", Password: "secret"},
		{Mechanism: "SCRAM-SHA-256", User: "node-256", Password: "secret, with = and ,"},
		{Mechanism: "scram-sha-512", User: "node-512", Password: "secret"},
	} {
		cfg.SASL = good
		r := testRecord("tnt_a", 0)
		_, err = mustOpen(t, cfg).Append(t.Context(), &r)
		require.NoError(t, err, good.Mechanism)
	}
	for _, bad := range []SASL{
		{Mechanism: "plain", User: "node", Password: "wrong"},
		{Mechanism: "scram-sha-256", User: "node-256", Password: "wrong"},
		{Mechanism: "scram-sha-512", User: "nobody", Password: "secret"},
	} {
		cfg.SASL = bad
		requireRefused(t, cfg, "TLS, user or password")
	}
	cfg.SASL = SASL{Mechanism: "kerberos", User: "node", Password: "secret"}
	_, err = Open(cfg)
	require.ErrorContains(t, err, `SASL mechanism "kerberos" is not one of`)
	cfg.SASL = SASL{Mechanism: "scram-sha-256", User: "node", Password: "\a"} // SASLprep (RFC 4013) has no place for it
	_, err = Open(cfg)
	require.Error(t, err)
}
