package certs

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"
)

// ClientFlags are the files of one hop, as flags: embed them with a prefix, such as
// "kafka-" for --kafka-tls, --kafka-ca and so on. Any of them enables TLS.
type ClientFlags struct {
	TLS        bool   `help:"Speak TLS, and trust the certificate authorities of the system."`
	CA         string `help:"Speak TLS, and trust these certificate authorities alone (PEM). Read again when it changes, like all such files." placeholder:"FILE" type:"path" file:"PEM"`
	Cert       string `needs:"cert=key" help:"Certificate chain to show (PEM)." placeholder:"FILE" type:"path" file:"PEM"`
	Key        string `needs:"key=cert" help:"Key of that certificate (PEM)." placeholder:"FILE" type:"path" file:"PEM"`
	ServerName string `help:"Name that the certificate of the other side must hold; default: the host that is dialled." placeholder:"HOST"`
}

// On says whether the hop speaks TLS.
func (f ClientFlags) On() bool { return f != ClientFlags{} }

// Client is one hop's TLS: the authorities it trusts and the certificate it presents. A nil Client is a hop
// without TLS. Safe for concurrent use.
type Client struct {
	serverName string
	files      *files[identity]
	pin        []byte // the one certificate that is trusted; nil: any of the authorities for the name
}

// NewClient reads the files of a hop; it is nil if no flag was given.
func NewClient(o Options, f ClientFlags) (*Client, error) {
	if !f.On() {
		return nil, nil
	}
	o = o.complete()
	c := &Client{serverName: f.ServerName}
	err := together(f.Cert, f.Key)
	if err == nil {
		c.files, err = open(o, named(f.CA, f.Cert, f.Key), func() (loaded[identity], error) { return loadIdentity(o, f.Cert, f.Key, f.CA) })
	}
	if err != nil {
		return nil, fmt.Errorf("TLS for %s: %w", o.Use, err)
	}
	return c, nil
}

// NewPinned makes a client that trusts the certificate in one file, as it is now,
// whatever its names and authorities: for a server on this machine. Of f only the
// certificate to show counts.
func NewPinned(o Options, f ClientFlags, certificate string) (*Client, error) {
	f = ClientFlags{TLS: true, Cert: f.Cert, Key: f.Key}
	c, err := NewClient(o, f)
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(certificate)
	if err != nil {
		return nil, fmt.Errorf("cannot read the server's certificate: %w", err)
	}
	block, _ := pem.Decode(text)
	if block == nil || block.Type != "CERTIFICATE" {
		return nil, fmt.Errorf("%s does not begin with a certificate in PEM", certificate)
	}
	c.pin = block.Bytes
	return c, nil
}

// NewFixed makes a client of the files as they are now, whatever becomes of them, and returns the
// certificate that it shows, which must be given.
func NewFixed(o Options, f ClientFlags) (*Client, *x509.Certificate, error) {
	c, err := NewClient(o, f)
	if err != nil {
		return nil, nil, err
	}
	c.files.paths, c.files.seen = nil, nil
	return c, c.files.get().pair.Leaf, nil
}

// Config is for one connection to a host (a name or an address, without a port) that
// begins now. The caller owns it.
func (c *Client) Config(host string) *tls.Config {
	if c == nil {
		return nil
	}
	now := c.files.get()
	if c.serverName != "" {
		host = c.serverName
	}
	cfg := &tls.Config{MinVersion: tls.VersionTLS13, ServerName: host, RootCAs: now.ca}
	if now.pair != nil {
		// Whatever authorities the server names: without a certificate its error would say less.
		cfg.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return now.pair, nil }
	}
	if c.pin != nil {
		cfg.InsecureSkipVerify = true // neither name nor authority: the certificate itself
		cfg.VerifyConnection = c.isPinned
	}
	return cfg
}

func (c *Client) isPinned(s tls.ConnectionState) error {
	if len(s.PeerCertificates) == 0 || !bytes.Equal(s.PeerCertificates[0].Raw, c.pin) {
		return errors.New("the server shows another certificate than the one that it was given")
	}
	return nil
}

// TLS is what the adapters of engines take: a function that they call for each
// connection; nil if the hop has no TLS.
func (c *Client) TLS() func(host string) *tls.Config {
	if c == nil {
		return nil
	}
	return c.Config
}

// handshakeTime bounds TCP and TLS handshakes together.
const handshakeTime = 10 * time.Second

// Dial connects to host:port, and has verified who is there when it returns.
func (c *Client) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, handshakeTime)
	defer cancel()
	raw, err := new(net.Dialer).DialContext(ctx, network, address)
	if err != nil || c == nil {
		return raw, err
	}
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, errors.Join(err, raw.Close())
	}
	conn := tls.Client(raw, c.Config(host))
	if err := conn.HandshakeContext(ctx); err != nil {
		raw.Close()
		return nil, fmt.Errorf("no TLS with %s: %w", address, err)
	}
	return conn, nil
}

// HTTP is a client for this hop alone: no proxy, HTTP/1.1.
func (c *Client) HTTP() *http.Client {
	t := &http.Transport{
		DialContext:         (*Client)(nil).Dial,
		TLSClientConfig:     &tls.Config{MinVersion: tls.VersionTLS13}, // for https without flags
		TLSHandshakeTimeout: handshakeTime,
		MaxIdleConnsPerHost: 16,
		IdleConnTimeout:     time.Minute,
	}
	if c != nil {
		t.DialTLSContext = c.Dial
	}
	return &http.Client{Transport: t}
}
