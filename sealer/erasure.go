package sealer

import (
	"bytes"
	"crypto"
	"crypto/ed25519"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"golang.org/x/mod/sumdb/note"

	"muniment.example/sealer/canonical"
)

// erasureHeader is the first line of a certificate of erasure, so that no other note can be
// taken for one. erasureName is the name of its signature.
const (
	erasureHeader = "muniment/erasure.v1"
	erasureName   = "muniment/erasure"
)

// TypeErased is the type of the event that records an erasure: the tombstone of a person.
const TypeErased = "subject.erased"

// ErasureCertificate states that a person was erased, without naming the person.
type ErasureCertificate struct {
	ErasureID string
	TenantID  string
	// SubjectHash stands for the person, as in the event of the tombstone, EventID.
	SubjectHash string
	EventID     string
	// Until is the time up to which events are covered.
	Until       time.Time
	CompletedAt time.Time
	// How many were found and deleted: private parts, quarantined records, and bundles; and rows of
	// the database, by kind.
	PrivateParts, SetAside, Bundles int64
	Records                         map[string]int64
	// Permanent counts the events that still name the person, by type: events are permanent.
	Permanent map[string]int64
	// Statements are issued statements that keep a counterparty's public name with the person in it.
	Statements []string
	// LogGoneBy and CopiesGoneBy are when the covered events will have aged out of the log and of
	// the nodes' copies.
	LogGoneBy, CopiesGoneBy time.Time
}

// backupsNote is in every certificate. It is signed text: do not edit it.
const backupsNote = "Backups that are kept elsewhere, and the write-ahead log of a database server, still hold what was erased: whoever keeps them has to delete them, or to restore them with the tombstones."

// append appends the canonical text.
func (c *ErasureCertificate) append(dst []byte) []byte {
	number := func(name string, n int64) {
		dst = append(append(dst, name...), fmt.Sprint(n)...)
	}
	numbers := func(name string, counts map[string]int64) {
		dst = append(dst, name...)
		for i, of := range slices.Sorted(maps.Keys(counts)) {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = canonical.AppendString(dst, of)
			number(":", counts[of])
		}
		dst = append(dst, '}')
	}
	text := func(name, s string) { dst = canonical.AppendString(append(dst, name...), s) }
	at := func(name string, t time.Time) { dst = canonical.AppendQuotedTime(append(dst, name...), t) }
	at(`{"completedAt":`, c.CompletedAt)
	at(`,"copiesGoneBy":`, c.CopiesGoneBy)
	number(`,"counts":{"bundles":`, c.Bundles)
	numbers(`,"permanent":{`, c.Permanent)
	number(`,"privateParts":`, c.PrivateParts)
	numbers(`,"records":{`, c.Records)
	number(`,"setAside":`, c.SetAside)
	dst = append(dst, `,"statements":[`...)
	for i, id := range c.Statements {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = canonical.AppendString(dst, id)
	}
	text(`]},"erasureId":`, c.ErasureID)
	text(`,"eventId":`, c.EventID)
	at(`,"logGoneBy":`, c.LogGoneBy)
	text(`,"note":`, backupsNote)
	text(`,"subjectHash":`, c.SubjectHash)
	text(`,"tenantId":`, c.TenantID)
	at(`,"until":`, c.Until)
	return append(dst, '}')
}

// SignErasure returns c as a C2SP signed note of two lines: "muniment/erasure.v1", and the RFC
// 8785 text. The key is one for packs.
func SignErasure(c *ErasureCertificate, key crypto.Signer) (string, error) {
	signer, err := NewNoteSigner(erasureName, key)
	var text []byte
	if err == nil {
		text, err = note.Sign(&note.Note{Text: erasureHeader + "\n" + string(c.append(nil)) + "\n"}, signer)
	}
	if err == nil {
		_, err = ParseErasure(string(text)) // no certificate is issued that readers refuse
	}
	if err != nil {
		return "", fmt.Errorf("cannot sign the certificate of erasure %s: %w", c.ErasureID, err)
	}
	return string(text), nil
}

// OpenErasure verifies that pub signed a certificate that ParseErasure accepts.
func OpenErasure(text string, pub ed25519.PublicKey) error {
	v, err := NewNoteVerifier(erasureName, pub)
	if err == nil {
		_, err = OpenNote(text, v)
	}
	return err
}

// counts reads an object of numbers.
func (s *Scanner) counts() map[string]int64 {
	counts := map[string]int64{}
	s.Lit(`{`)
	for s.Fault == nil && !s.Has(`}`) {
		if len(counts) > 0 {
			s.Lit(`,`)
		}
		of := s.Name()
		s.Lit(`:`)
		counts[of] = s.Integer()
	}
	return counts
}

// ParseErasure reads a certificate. It verifies nothing.
func ParseErasure(text string) (c ErasureCertificate, err error) {
	rest, ok := strings.CutPrefix(text, erasureHeader+"\n")
	body, signatures, ok2 := strings.Cut(rest, "\n\n")
	if !ok || !ok2 || signatures == "" {
		return c, errors.New("not a certificate of erasure")
	}
	s := NewScanner(body)
	s.Lit(`{"completedAt":`)
	c.CompletedAt = s.Time()
	s.Lit(`,"copiesGoneBy":`)
	c.CopiesGoneBy = s.Time()
	s.Lit(`,"counts":{"bundles":`)
	c.Bundles = s.Integer()
	s.Lit(`,"permanent":`)
	c.Permanent = s.counts()
	s.Lit(`,"privateParts":`)
	c.PrivateParts = s.Integer()
	s.Lit(`,"records":`)
	c.Records = s.counts()
	s.Lit(`,"setAside":`)
	c.SetAside = s.Integer()
	s.Lit(`,"statements":[`)
	for s.Fault == nil && !s.Has(`]`) {
		if len(c.Statements) > 0 {
			s.Lit(`,`)
		}
		c.Statements = append(c.Statements, s.Name())
	}
	s.Lit(`},"erasureId":`)
	c.ErasureID = s.Name()
	s.Lit(`,"eventId":`)
	c.EventID = s.Name()
	s.Lit(`,"logGoneBy":`)
	c.LogGoneBy = s.Time()
	s.Lit(`,"note":`)
	noted := s.Name()
	s.Lit(`,"subjectHash":`)
	c.SubjectHash = s.Name()
	s.Lit(`,"tenantId":`)
	c.TenantID = s.Name()
	s.Lit(`,"until":`)
	c.Until = s.Time()
	s.Lit(`}`)
	if err = s.End(); err == nil && (noted != backupsNote || !bytes.Equal(c.append(nil), []byte(body))) {
		err = canonical.ErrNotCanonical
	}
	return c, err
}
