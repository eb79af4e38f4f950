// Package signature checks many Ed25519 signatures (RFC 8032) of few keys. Its verdict is that of
// crypto/ed25519 for every input: S below the order of the group, R compared in the bytes that it was
// given in, and the key taken as it is, with a part of small order if it has one.
//
// The equation is the same, too: R must be S·B − k·A. What crypto/ed25519 computes with some 250
// doublings is here a sum of 64 points out of two tables, one of the multiples of the base point B, and
// one of each key A that returns; and the inversion that the encoding of a point needs is one for a
// whole group. Nothing is drawn at random, and each signature has a verdict of its own, so a wrong one
// costs no more than a right one.
package signature

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha512"
	"slices"
	"sync"

	"filippo.io/edwards25519"
	"filippo.io/edwards25519/field"
)

// Signed is a text with its signature, and a verdict.
type Signed struct {
	// Key of ed25519.PublicKeySize bytes, Text and Signature are given, and are not changed.
	Key, Text, Signature []byte
	// Sound is set by Check.
	Sound bool
}

// A table is worth its making once a key has signed some hundred texts: it costs as much as 30
// verifications by crypto/ed25519, and 640 KiB.
const (
	enough     = 500
	mostTables = 32
)

// Checker knows the keys of what it has checked. It is safe for concurrent use; the zero value is ready,
// and nil leaves each signature to crypto/ed25519. It holds at most 20 MiB of tables: when a further key
// needs one, it forgets all others, and counts anew.
type Checker struct {
	mu     sync.Mutex
	keys   map[[ed25519.PublicKeySize]byte]*key
	tables int
}

// key is one that was seen.
type key struct {
	seen  int
	table *table // of its negative multiples; nil: none
}

// Check judges each of a group.
func (c *Checker) Check(group []Signed) {
	var sums []sum
	for i := range group {
		s := &group[i]
		if t := c.tableOf(s.Key); t == nil {
			s.Sound = ed25519.Verify(s.Key, s.Text, s.Signature)
		} else if point := t.expected(s); point != nil {
			sums = append(sums, sum{s, point})
		}
	}
	compare(sums)
}

// tableOf counts a use of a key, and returns its table if it has one.
func (c *Checker) tableOf(pub []byte) *table {
	if c == nil || len(pub) != ed25519.PublicKeySize {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	id := [ed25519.PublicKeySize]byte(pub)
	k := c.keys[id]
	if k == nil {
		if c.keys == nil {
			c.keys = map[[ed25519.PublicKeySize]byte]*key{}
		}
		k = new(key)
		c.keys[id] = k
	}
	if k.seen++; k.seen == enough {
		a, err := new(edwards25519.Point).SetBytes(pub)
		if err != nil {
			return nil
		}
		if c.tables++; c.tables > mostTables {
			c.keys, c.tables = map[[ed25519.PublicKeySize]byte]*key{id: k}, 1
		}
		k.table = newTable(a.Negate(a))
	}
	return k.table
}

// A scalar below 2^253 is a sum of digits × 256^i, each of -128 to 127.
const (
	digits = 32
	most   = 128 // the largest of a digit, whatever its sign
)

// table has d × 256^i × P for each digit d from 1 on.
type table [digits][most]edwards25519.Point

func newTable(p *edwards25519.Point) *table {
	t := new(table)
	step := new(edwards25519.Point).Set(p)
	for i := range t {
		row := &t[i]
		row[0].Set(step)
		for d := 1; d < most; d++ {
			row[d].Add(&row[d-1], step)
		}
		step.Add(&row[most-1], &row[most-1])
	}
	return t
}

// base is the table of the base point.
var base = sync.OnceValue(func() *table { return newTable(edwards25519.NewGeneratorPoint()) })

// add adds scalar × P to sum; scalar is 32 bytes, little-endian, below 2^253.
func (t *table) add(sum *edwards25519.Point, scalar []byte) {
	carry := 0
	for i, b := range scalar {
		d := int(b) + carry
		if carry = 0; d >= most {
			d, carry = d-2*most, 1
		}
		switch {
		case d > 0:
			sum.Add(sum, &t[i][d-1])
		case d < 0:
			sum.Subtract(sum, &t[i][-d-1])
		}
	}
}

// expected is the point whose bytes the signature must begin with, S·B − k·A; nil if no such signature
// is sound.
func (t *table) expected(s *Signed) *edwards25519.Point {
	if len(s.Signature) != ed25519.SignatureSize {
		return nil
	}
	if _, err := edwards25519.NewScalar().SetCanonicalBytes(s.Signature[32:]); err != nil {
		return nil
	}
	h := sha512.New()
	h.Write(s.Signature[:32])
	h.Write(s.Key)
	h.Write(s.Text)
	k, err := edwards25519.NewScalar().SetUniformBytes(h.Sum(make([]byte, 0, sha512.Size)))
	if err != nil {
		return nil
	}
	point := edwards25519.NewIdentityPoint()
	base().add(point, s.Signature[32:])
	t.add(point, k.Bytes())
	return point
}

// sum is a signature with its expected point.
type sum struct {
	of    *Signed
	point *edwards25519.Point
}

// compare compares the points' encodings with what is given. The encoding has y, and the sign of x, each divided by Z: the
// product of all Z is inverted once, and then gives the inverse of each.
func compare(sums []sum) {
	if len(sums) == 0 {
		return
	}
	type coordinates struct{ x, y, z *field.Element }
	all, before := make([]coordinates, len(sums)), make([]field.Element, len(sums))
	product := new(field.Element).One()
	for i, s := range sums {
		x, y, z, _ := s.point.ExtendedCoordinates()
		all[i], before[i] = coordinates{x, y, z}, *product
		product.Multiply(product, z)
	}
	inverse := product.Invert(product)
	var own, x, y field.Element
	for i, s := range slices.Backward(sums) {
		own.Multiply(inverse, &before[i])
		inverse.Multiply(inverse, all[i].z)
		text := y.Multiply(all[i].y, &own).Bytes()
		text[31] |= byte(x.Multiply(all[i].x, &own).IsNegative() << 7)
		s.of.Sound = bytes.Equal(text, s.of.Signature[:32])
	}
}
