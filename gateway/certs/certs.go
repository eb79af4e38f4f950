// Package certs loads the credentials of a process's connections from files: certificates,
// keys, certificate authorities and passwords.
//
// It promises that a replaced file is used from the next connection on, without a restart.
// Each new connection costs a stat of the files; there is no goroutine. Open connections are
// not changed.
//
// New files that can't be used change nothing: the previous ones stay in use, one error is
// logged that names the file and what is wrong with it, and the gauge
// muniment_certificate_reload_failing is 1 until the files can be used. At the start there
// is nothing to fall back on, so the process does not start.
//
// Decisions:
//   - TLS 1.3 on every hop, for clients and servers: Kafka, ClickHouse and PostgreSQL all
//     support it. Callers without it need a proxy in front.
//   - Our listeners serve HTTP/1.1 only.
//   - A certificate that has expired, or is not valid yet, is an error at the start,
//     and does not replace a valid one, because no client could connect.
//   - Client certificates are verified on each connection: a listener that requires them
//     does not resume sessions.
//   - Passwords are read again for each connection as well, and never logged.
//
// Not here: revocation lists and OCSP (certificates are short-lived instead), ACME,
// and self-signed certificates made on the spot.
package certs

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Options are what every use of files has in common.
type Options struct {
	// Use names the listener or hop in the log and in metrics, such as "api" or
	// "kafka": one word of a closed list, each of them once in a process.
	Use string
	// Now; default time.Now.
	Now func() time.Time
	// Logger; nil discards.
	Logger *slog.Logger
	// Registerer takes the metrics for as long as the process lives; nil keeps them to
	// ourselves.
	Registerer prometheus.Registerer
}

func (o Options) complete() Options {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

// loadPair reads a certificate (chain) and its key, which must be in force.
func loadPair(certFile, keyFile string, now time.Time) (*tls.Certificate, error) {
	certText, err := os.ReadFile(certFile)
	if err != nil {
		return nil, fmt.Errorf("cannot read the certificate: %w", err)
	}
	keyText, err := os.ReadFile(keyFile)
	if err != nil {
		return nil, fmt.Errorf("cannot read the certificate's key: %w", err)
	}
	switch {
	case !holds(certText, "CERTIFICATE"):
		return nil, fmt.Errorf("%s holds no certificate in PEM", certFile)
	case holds(keyText, "ENCRYPTED PRIVATE KEY"):
		return nil, fmt.Errorf("the key in %s is encrypted", keyFile)
	case !holds(keyText, "PRIVATE KEY"):
		return nil, fmt.Errorf("%s holds no private key in PEM", keyFile)
	}
	pair, err := tls.X509KeyPair(certText, keyText)
	switch {
	case err != nil && strings.Contains(err.Error(), "does not match"): // crypto/tls has no value for it
		return nil, fmt.Errorf("the key in %s is not that of the certificate in %s", keyFile, certFile)
	case err != nil:
		return nil, fmt.Errorf("certificate %s with key %s can't be used: %w", certFile, keyFile, err)
	case now.After(pair.Leaf.NotAfter):
		return nil, fmt.Errorf("the certificate in %s expired at %s", certFile, pair.Leaf.NotAfter.Format(time.RFC3339))
	case now.Before(pair.Leaf.NotBefore):
		return nil, fmt.Errorf("the certificate in %s is not valid before %s", certFile, pair.Leaf.NotBefore.Format(time.RFC3339))
	}
	return &pair, nil
}

// holds says whether there is a PEM block whose type ends so.
func holds(text []byte, kind string) bool {
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if strings.HasSuffix(block.Type, kind) {
			return true
		}
	}
	return false
}

// loadCA reads certificate authorities.
func loadCA(file string) (*x509.CertPool, error) {
	all, err := loadAuthorities(file)
	return poolOf(all), err
}

func poolOf(all []*x509.Certificate) *x509.CertPool {
	pool := x509.NewCertPool()
	for _, c := range all {
		pool.AddCert(c)
	}
	return pool
}

func loadAuthorities(file string) (all []*x509.Certificate, err error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("cannot read the certificate authorities: %w", err)
	}
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			continue
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("a certificate authority in %s can't be read: %w", file, err)
		}
		all = append(all, c)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s holds no certificate in PEM", file)
	}
	return all, nil
}

// together refuses a certificate without a key and the other way round.
func together(cert, key string) error {
	switch {
	case cert != "" && key == "":
		return errors.New("a certificate needs its key")
	case cert == "" && key != "":
		return errors.New("a key needs its certificate")
	}
	return nil
}
