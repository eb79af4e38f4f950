package sealer

import (
	"bytes"
	"crypto"
	"crypto/ed25519"
	"errors"
	"fmt"
	"strings"
	"time"

	"golang.org/x/mod/sumdb/note"
)

// erasureHeader is the first line of a certificate of erasure, by which it is no other note,
// and erasureName is whose signature it bears.
const (
	erasureHeader = "muniment/erasure.v1"
	erasureName   = "muniment/erasure"
)

// TypeErased is the type of the event that is the tombstone of a person.
const TypeErased = "subject.erased"

// ErasureCertificate says that a person was erased, without a name.
type ErasureCertificate struct {
	ErasureID string
	TenantID  string
	// SubjectHash stands for the person, as in the event of the tombstone, EventID.
	SubjectHash string
	EventID     string
	// Until is the time up to which events are covered.
	Until       time.Time
	CompletedAt time.Time
	// What was found and deleted: private parts, quarantined records, rows of the
	// database and bundles.
	PrivateParts, SetAside, Rows, Bundles int64
	// LogGoneBy and CopiesGoneBy are when the log, and the nodes' copies of it, have lost what
	// is covered, by their age.
	LogGoneBy, CopiesGoneBy time.Time
}

// backupsNote is what every certificate says of what it can't vouch for.
const backupsNote = "Backups that are kept elsewhere, and the write-ahead log of a database server, still hold what was erased: whoever keeps them has to delete them, or to restore them with the tombstones."

// append appends the canonical text.
func (c *ErasureCertificate) append(dst []byte) []byte {
	number := func(name string, n int64) {
		dst = append(append(dst, name...), fmt.Sprint(n)...)
	}
	text := func(name, s string) { dst = AppendString(append(dst, name...), s) }
	at := func(name string, t time.Time) { dst = appendQuotedTime(append(dst, name...), t) }
	at(`{"completedAt":`, c.CompletedAt)
	at(`,"copiesGoneBy":`, c.CopiesGoneBy)
	number(`,"counts":{"bundles":`, c.Bundles)
	number(`,"privateParts":`, c.PrivateParts)
	number(`,"rows":`, c.Rows)
	number(`,"setAside":`, c.SetAside)
	text(`},"erasureId":`, c.ErasureID)
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
	signer, err := newNoteSigner(erasureName, key)
	var text []byte
	if err == nil {
		text, err = note.Sign(&note.Note{Text: erasureHeader + "\n" + string(c.append(nil)) + "\n"}, signer)
	}
	if err == nil {
		_, err = ParseErasure(string(text)) // what can't be read must not be handed out
	}
	if err != nil {
		return "", fmt.Errorf("cannot sign the certificate of erasure %s: %w", c.ErasureID, err)
	}
	return string(text), nil
}

// OpenErasure verifies that pub signed a certificate that ParseErasure reads.
func OpenErasure(text string, pub ed25519.PublicKey) error {
	v, err := newNoteVerifier(erasureName, pub)
	if err == nil {
		_, err = openNote(text, v)
	}
	return err
}

// ParseErasure reads what a certificate says. It verifies nothing.
func ParseErasure(text string) (c ErasureCertificate, err error) {
	rest, ok := strings.CutPrefix(text, erasureHeader+"\n")
	body, signatures, ok2 := strings.Cut(rest, "\n\n")
	if !ok || !ok2 || signatures == "" {
		return c, errors.New("it is no certificate of erasure")
	}
	s := scanner{text: body}
	s.lit(`{"completedAt":`)
	c.CompletedAt = s.time()
	s.lit(`,"copiesGoneBy":`)
	c.CopiesGoneBy = s.time()
	s.lit(`,"counts":{"bundles":`)
	c.Bundles = s.integer()
	s.lit(`,"privateParts":`)
	c.PrivateParts = s.integer()
	s.lit(`,"rows":`)
	c.Rows = s.integer()
	s.lit(`,"setAside":`)
	c.SetAside = s.integer()
	s.lit(`},"erasureId":`)
	c.ErasureID = s.name()
	s.lit(`,"eventId":`)
	c.EventID = s.name()
	s.lit(`,"logGoneBy":`)
	c.LogGoneBy = s.time()
	s.lit(`,"note":`)
	noted := s.name()
	s.lit(`,"subjectHash":`)
	c.SubjectHash = s.name()
	s.lit(`,"tenantId":`)
	c.TenantID = s.name()
	s.lit(`,"until":`)
	c.Until = s.time()
	s.lit(`}`)
	if err = s.end(); err == nil && (noted != backupsNote || !bytes.Equal(c.append(nil), []byte(body))) {
		err = ErrNotCanonical
	}
	return c, err
}
