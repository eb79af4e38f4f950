package certs

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
)

// ServerFlags are the files of one listener, as flags: embed them with a prefix, such
// as "tls-" for --tls-cert, --tls-key and --tls-client-ca.
type ServerFlags struct {
	Cert     string `needs:"cert=key" help:"Serve TLS with this certificate chain (PEM). Read again when it changes, like its key." placeholder:"FILE" type:"path" file:"PEM"`
	Key      string `needs:"key=cert" help:"Key of that certificate (PEM)." placeholder:"FILE" type:"path" file:"PEM"`
	ClientCA string `needs:"client-ca=cert" help:"Require callers to present a certificate of one of these authorities (PEM)." placeholder:"FILE" type:"path" file:"PEM"`

	// HandlerCA are authorities whose certificates the listener requests as well; nil: none. It does
	// not verify them: the handler does, and can say what is wrong.
	HandlerCA *Authorities `kong:"-"`
}

// On says whether the listener speaks TLS.
func (f ServerFlags) On() bool { return f != ServerFlags{} }

// identity is the certificate that a listener presents and the authorities that it trusts.
type identity struct {
	pair *tls.Certificate
	ca   *x509.CertPool // nil where nothing is to be verified, or the system's count
}

// loadIdentity reads whichever of the files are named.
func loadIdentity(o Options, cert, key, ca string) (l loaded[identity], err error) {
	if cert != "" {
		if l.value.pair, err = loadPair(cert, key, o.Now()); err != nil {
			return l, err
		}
		l.expires = l.value.pair.Leaf.NotAfter
	}
	if ca != "" {
		l.value.ca, err = loadCA(ca)
	}
	return l, err
}

func named(paths ...string) (all []string) {
	for _, p := range paths {
		if p != "" {
			all = append(all, p)
		}
	}
	return all
}

// Server returns what a listener needs for TLS, with the files as they are at each
// handshake; nil if no flag was given: the listener is plain.
func Server(o Options, f ServerFlags) (*tls.Config, error) {
	if !f.On() {
		return nil, nil
	}
	o = o.complete()
	err := together(f.Cert, f.Key)
	if err == nil && f.Cert == "" {
		err = errors.New("to require client certificates, the listener needs a certificate of its own")
	}
	if err != nil {
		return nil, fmt.Errorf("TLS for %s: %w", o.Use, err)
	}
	current, err := open(o, named(f.Cert, f.Key, f.ClientCA), func() (l loaded[*tls.Config], err error) {
		id, err := loadIdentity(o, f.Cert, f.Key, f.ClientCA)
		if err != nil {
			return l, err
		}
		c := serverConfig()
		c.Certificates = []tls.Certificate{*id.value.pair}
		c.SessionTicketsDisabled = id.value.ca != nil || f.HandlerCA != nil
		switch {
		case id.value.ca != nil && f.HandlerCA != nil:
			c.ClientAuth = tls.RequireAnyClientCert
			c.VerifyConnection = func(s tls.ConnectionState) error { return f.HandlerCA.admit(id.value.ca, s.PeerCertificates, o.Now()) }
		case id.value.ca != nil:
			c.ClientAuth, c.ClientCAs = tls.RequireAndVerifyClientCert, id.value.ca
		case f.HandlerCA != nil:
			c.ClientAuth = tls.RequestClientCert
		}
		return loaded[*tls.Config]{c, id.expires}, nil
	})
	if err != nil {
		return nil, fmt.Errorf("TLS for %s: %w", o.Use, err)
	}
	// The outer configuration is never replaced, because it keeps the keys of session tickets.
	c := serverConfig()
	c.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) { return current.get(), nil }
	return c, nil
}

func serverConfig() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS13, NextProtos: []string{"http/1.1"}}
}
