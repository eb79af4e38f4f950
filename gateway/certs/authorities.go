package certs

import (
	"bytes"
	"crypto/x509"
	"fmt"
	"time"
)

// Authorities are the certificate authorities in a file, read again when it changes. Safe for
// concurrent use.
type Authorities struct{ files *files[*x509.CertPool] }

// NewAuthorities reads the authorities in a file; nil if it is not named. None of them may
// be one of those in the file other, which may be empty, whose certificates mean something else. This
// is checked whenever one of the files changes.
func NewAuthorities(o Options, file, other string) (*Authorities, error) {
	if file == "" {
		return nil, nil
	}
	o = o.complete()
	read, err := open(o, named(file, other), func() (l loaded[*x509.CertPool], err error) {
		all, err := loadAuthorities(file)
		if err != nil {
			return l, err
		}
		var others []*x509.Certificate
		if other != "" {
			if others, err = loadAuthorities(other); err != nil {
				return l, err
			}
		}
		for _, a := range all {
			for _, b := range others {
				if bytes.Equal(a.RawSubjectPublicKeyInfo, b.RawSubjectPublicKeyInfo) {
					return l, fmt.Errorf("%s and %s hold the same authority, %q: each needs its own", file, other, a.Subject)
				}
			}
		}
		return loaded[*x509.CertPool]{value: poolOf(all)}, nil
	})
	if err != nil {
		return nil, fmt.Errorf("authorities for %s: %w", o.Use, err)
	}
	return &Authorities{read}, nil
}

// Source returns a function for the authorities as they are now; nil of a nil one.
func (a *Authorities) Source() func() *x509.CertPool {
	if a == nil {
		return nil
	}
	return a.files.get
}

// admit is an error unless a chain is that of a client of the pool, or of these authorities,
// whatever it is for.
func (a *Authorities) admit(pool *x509.CertPool, chain []*x509.Certificate, now time.Time) error {
	v := x509.VerifyOptions{Roots: pool, Intermediates: poolOf(chain[1:]), CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	_, err := chain[0].Verify(v)
	if err != nil {
		v.Roots, v.KeyUsages = a.files.get(), []x509.ExtKeyUsage{x509.ExtKeyUsageAny}
		if _, other := chain[0].Verify(v); other == nil {
			return nil
		}
	}
	return err
}
