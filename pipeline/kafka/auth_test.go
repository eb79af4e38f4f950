package kafka

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"
)

// certificate signs itself for 127.0.0.1.
func certificate(tb testing.TB) (tls.Certificate, *x509.CertPool) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(tb, err)
	template := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		Subject:               pkix.Name{CommonName: "broker"},
		NotAfter:              time.Now().Add(time.Hour),
		IPAddresses:           []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(tb, err)
	parsed, err := x509.ParseCertificate(der)
	require.NoError(tb, err)
	pool := x509.NewCertPool()
	pool.AddCert(parsed)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pool
}

// refusal is why a log doesn't get ready.
func refusal(tb testing.TB, cfg Config) string {
	cfg.ReadPatience = 300 * time.Millisecond
	l := mustOpen(tb, cfg)
	ctx, cancel := context.WithTimeout(tb.Context(), 10*time.Second)
	defer cancel()
	_, _, err := l.Bounds(ctx, 0)
	require.Error(tb, err)
	require.Error(tb, l.Ready())
	return err.Error()
}

func TestTLS(t *testing.T) {
	own, pool := certificate(t)
	_, others := certificate(t)
	brokers := fakeBrokers(t, kfake.TLS(&tls.Config{Certificates: []tls.Certificate{own}}))
	cfg := Config{Brokers: brokers, TLS: &tls.Config{RootCAs: pool}}
	_, err := Topic{Replication: 1}.Migrate(t.Context(), cfg, false)
	require.NoError(t, err)
	l := mustOpen(t, cfg)
	r := testRecord("tnt_a", 0)
	_, err = l.Append(t.Context(), &r)
	require.NoError(t, err)
	require.NoError(t, l.Ready())

	cfg.TLS = &tls.Config{RootCAs: others}
	require.Contains(t, refusal(t, cfg), "certificate signed by unknown authority")
	cfg.TLS = &tls.Config{RootCAs: pool, ServerName: "kafka.example.com"}
	require.Contains(t, refusal(t, cfg), "kafka.example.com")
	cfg.TLS = nil
	require.Contains(t, refusal(t, cfg), "TLS, user or password")
}

func TestSASL(t *testing.T) {
	brokers := fakeBrokers(t, kfake.EnableSASL(),
		kfake.Superuser("PLAIN", "node", "secret"),
		kfake.Superuser("SCRAM-SHA-256", "node-256", "secret, with = and ,"),
		kfake.Superuser("SCRAM-SHA-512", "node-512", "secret"))
	cfg := Config{Brokers: brokers, SASL: SASL{"plain", "node", "secret"}}
	_, err := Topic{Replication: 1}.Migrate(t.Context(), cfg, false)
	require.NoError(t, err)
	for _, good := range []SASL{
		{"plain", "node", "secret"},
		{"SCRAM-SHA-256", "node-256", "secret, with = and ,"},
		{"scram-sha-512", "node-512", "secret"},
	} {
		cfg.SASL = good
		r := testRecord("tnt_a", 0)
		_, err = mustOpen(t, cfg).Append(t.Context(), &r)
		require.NoError(t, err, good.Mechanism)
	}
	for _, bad := range []SASL{
		{"plain", "node", "wrong"},
		{"scram-sha-256", "node-256", "wrong"},
		{"scram-sha-512", "nobody", "secret"},
	} {
		cfg.SASL = bad
		require.Contains(t, refusal(t, cfg), "TLS, user or password", bad.Mechanism)
	}
	cfg.SASL = SASL{"kerberos", "node", "secret"}
	_, err = Open(cfg)
	require.ErrorContains(t, err, `SASL mechanism "kerberos" is none of`)
	cfg.SASL = SASL{"scram-sha-256", "node", "\a"} // SASLprep (RFC 4013) has no place for it
	_, err = Open(cfg)
	require.Error(t, err)
}
