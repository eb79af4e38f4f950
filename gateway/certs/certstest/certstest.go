// Package certstest makes certificates for tests.
package certstest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Authority signs certificates.
type Authority struct {
	// File holds its own certificate.
	File string

	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// Leaf says what a certificate is for. The zero value is good for 127.0.0.1 and
// localhost, as a server and as a client, for an hour.
type Leaf struct {
	Names       []string // DNS names and IP addresses
	URIs        []string
	ServerOnly  bool // not good for a client
	NoUsage     bool // says nothing about either
	From, Until time.Time
}

// Pair is a certificate and its key, in files.
type Pair struct{ Cert, Key string }

// New makes an authority whose file is gone after the test.
func New(tb testing.TB) *Authority {
	tb.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(tb, err)
	a := &Authority{File: filepath.Join(tb.TempDir(), "ca.crt"), key: key}
	a.cert = &x509.Certificate{
		Subject:  pkix.Name{CommonName: "test authority " + rand.Text()},
		NotAfter: time.Now().Add(24 * time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der := a.sign(tb, a.cert, key)
	a.cert, err = x509.ParseCertificate(der)
	require.NoError(tb, err)
	write(tb, a.File, "CERTIFICATE", der)
	return a
}

// Certificate is its own.
func (a *Authority) Certificate() *x509.Certificate { return a.cert }

func (a *Authority) sign(tb testing.TB, c *x509.Certificate, key *ecdsa.PrivateKey) []byte {
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	require.NoError(tb, err)
	c.SerialNumber = serial
	der, err := x509.CreateCertificate(rand.Reader, c, a.cert, key.Public(), a.key)
	require.NoError(tb, err)
	return der
}

// Issue makes a certificate, its files are gone after the test.
func (a *Authority) Issue(tb testing.TB, leaf Leaf) Pair {
	tb.Helper()
	dir := tb.TempDir()
	p := Pair{filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")}
	a.Replace(tb, p, leaf)
	return p
}

// Replace writes another certificate into the files of a pair, each of them at once.
func (a *Authority) Replace(tb testing.TB, p Pair, leaf Leaf) {
	tb.Helper()
	if leaf.Names == nil {
		leaf.Names = []string{"127.0.0.1", "localhost"}
	}
	if leaf.From.IsZero() {
		leaf.From = time.Now().Add(-time.Hour)
	}
	if leaf.Until.IsZero() {
		leaf.Until = time.Now().Add(time.Hour)
	}
	c := &x509.Certificate{
		Subject: pkix.Name{CommonName: "test"}, NotBefore: leaf.From, NotAfter: leaf.Until,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	if leaf.ServerOnly {
		c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	}
	if leaf.NoUsage {
		c.ExtKeyUsage = nil
	}
	for _, uri := range leaf.URIs {
		u, err := url.Parse(uri)
		require.NoError(tb, err)
		c.URIs = append(c.URIs, u)
	}
	for _, name := range leaf.Names {
		if ip := net.ParseIP(name); ip != nil {
			c.IPAddresses = append(c.IPAddresses, ip)
		} else {
			c.DNSNames = append(c.DNSNames, name)
		}
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(tb, err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(tb, err)
	write(tb, p.Key, "PRIVATE KEY", private)
	write(tb, p.Cert, "CERTIFICATE", a.sign(tb, c, key))
}

func write(tb testing.TB, path, kind string, der []byte) {
	require.NoError(tb, os.WriteFile(path+".new", pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
	require.NoError(tb, os.Rename(path+".new", path))
}
