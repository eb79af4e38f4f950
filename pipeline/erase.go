package pipeline

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"muniment.example/sealer"
)

// SubjectKey is the secret key of the hashes of references to persons. A plain hash of an
// e-mail address could be found by hashing guesses, and the hash of an erased person stands
// in events that are kept for ever.
type SubjectKey [32]byte

// Hash names an erased person of a tenant: base64url HMAC-SHA256(key, tenantID ‖ 0 ‖
// subject), the subject in its normal form (sealer.Person). The hash of the empty subject is empty.
func (k SubjectKey) Hash(tenantID, subject string) string {
	if subject == "" {
		return ""
	}
	mac := hmac.New(sha256.New, k[:])
	mac.Write([]byte(tenantID))
	mac.Write([]byte{0})
	mac.Write([]byte(sealer.NewPerson(subject).String()))
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// Tombstone says that a person was erased: the private parts of the tenant's events that name
// the person and are not younger than Until are permanently deleted. One that names others too loses
// the person alone, unless a text in it names the person, too (sealer.Forget).
type Tombstone struct {
	TenantID string
	// SubjectHash is the person, as SubjectKey.Hash has it; or, as NotesHash has it, a kind of subject of
	// events whose notes name the person: then of all events about such subjects the notes are deleted that
	// name the person, whomever the events are about.
	SubjectHash string
	// Until is compared with the events' own times, in whole milliseconds.
	Until time.Time
}

// notesPrefix begins no hash of a person: it has another letter than base64url.
const notesPrefix = "notes:"

// NotesHash is what a Tombstone of the notes about a person has in place of the person's hash: kind is that
// of the events' subjects.
func NotesHash(kind, subjectHash string) string { return notesPrefix + kind + "/" + subjectHash }

// Notes returns the kind of the events' subjects whose notes a Tombstone is of, and the hash of the person;
// ok is false for a person's.
func (t Tombstone) Notes() (kind, subjectHash string, ok bool) {
	kind, ok = strings.CutPrefix(t.SubjectHash, notesPrefix)
	if ok {
		kind, subjectHash, ok = strings.Cut(kind, "/")
	}
	return kind, subjectHash, ok
}

// Eraser is the half of a Warehouse that erasure needs.
type Eraser interface {
	// Erase stores tombstones for ever, and deletes the private parts that they cover, with
	// their salts: when it returns nil, no byte of these is in the warehouse's files, and
	// none comes back, whatever is loaded before, meanwhile and later, again and in any
	// order. Of a quarantined record, whose time can't be trusted, all that names the person
	// is deleted. After an error any of it may be done; the call is repeated until it
	// succeeds. The events, and all that is computed from them, stay.
	//
	// key is the key of the hashes, the same in every call; with another one the call fails
	// with ErrOtherKey. Rows that name persons can be loaded after the first call, which may
	// have no tombstones (see ErrErasedUnknown).
	Erase(ctx context.Context, key SubjectKey, list []Tombstone) error
	// CountSubject counts what Erase would delete of a person, of all times.
	CountSubject(ctx context.Context, tenantID, subjectHash string) (SubjectCount, error)
	// CountLabelled counts the tenant's deliveries with a correlation id, an anchor or a placement that
	// names the person (sealer.Person.In). It reads these of all its deliveries. Receipts are
	// permanent: Erase doesn't change them.
	CountLabelled(ctx context.Context, tenantID string, person sealer.Person) (int64, error)
	// CountTelemetry counts the tenant's deliveries with telemetry that names the person, in a private
	// part that is not about the person (sealer.NamedInTelemetry). Erase doesn't change them: the
	// commitment in the event covers telemetry as a whole.
	CountTelemetry(ctx context.Context, tenantID string, person sealer.Person) (int64, error)
	// QuarantinedOf lists the quarantined records of a tenant from which Erase would delete a person; for
	// nobody, all of the tenant's. Records that name no readable tenant may be of any tenant, and are not
	// listed.
	QuarantinedOf(ctx context.Context, tenantID string, person sealer.Person) ([]Quarantined, error)
}

// SubjectCount is how much a warehouse holds of a person: events with a private part that
// names the person, and quarantined records.
type SubjectCount struct{ PrivateParts, Quarantined int64 }

var (
	// ErrErasedUnknown refuses a batch with a row that names a person before the first
	// Erase: the warehouse may be a new one, which is filled from the log. The loader tries
	// again.
	ErrErasedUnknown = errors.New("warehouse doesn't know yet which persons were erased")
	// ErrOtherKey: the hashes of a warehouse are of another key. The warehouse belongs to
	// another service, or the key was lost.
	ErrOtherKey = errors.New("warehouse knows erased persons by another key")
)

// DataSubjects are the persons that the row's private part names.
func (r *Row) DataSubjects() []string { return sealer.DataSubjects(r.Private) }

// IsAbout reports whether the row's private part names a person.
func (r *Row) IsAbout(person sealer.Person) bool {
	return slices.ContainsFunc(r.DataSubjects(), person.Is)
}

// Erased is the set of erased persons, as an engine keeps it in memory. Safe for concurrent use.
type Erased struct {
	Key SubjectKey
	// until is the youngest tombstone of each person, and of the notes about each, by tenant and hash, in
	// milliseconds.
	until map[[2]string]int64
	// notes is the youngest tombstone of any notes, by tenant and kind.
	notes map[[2]string]int64

	mu sync.Mutex
	// texts is until when texts of notes are erased, by tenant, kind and text: many events have the same,
	// and to find all references in a page of text takes tens of milliseconds.
	texts map[[3]string]int64
}

const (
	// never is before the time of every event.
	never = math.MinInt64
	// maxTexts bounds Erased.texts.
	maxTexts = 10_000
)

// NewErased gathers tombstones.
func NewErased(key SubjectKey, list []Tombstone) *Erased {
	e := &Erased{Key: key, until: make(map[[2]string]int64, len(list)), notes: map[[2]string]int64{}, texts: map[[3]string]int64{}}
	raise := func(all map[[2]string]int64, tenantID, of string, until int64) {
		at := [2]string{tenantID, of}
		if have, ok := all[at]; !ok || have < until {
			all[at] = until
		}
	}
	for _, t := range list {
		raise(e.until, t.TenantID, t.SubjectHash, t.Until.UnixMilli())
		if kind, _, ok := t.Notes(); ok {
			raise(e.notes, t.TenantID, kind, t.Until.UnixMilli())
		}
	}
	return e
}

// Len is how many persons were erased.
func (e *Erased) Len() int { return len(e.until) }

// Covers reports whether a tombstone would change nothing.
func (e *Erased) Covers(t Tombstone) bool {
	until, ok := e.until[[2]string{t.TenantID, t.SubjectHash}]
	return ok && until >= t.Until.UnixMilli()
}

// Private returns what is to be kept of a row's private part, nothing if all persons and notes in it are
// erased, and the hashes of the persons that it names then. With a nil Erased a row that names a person is
// ErrErasedUnknown.
func (e *Erased) Private(r *Row) (private []byte, subjectHashes []string, err error) {
	subjects := r.DataSubjects()
	switch {
	case e == nil && len(subjects) > 0:
		return nil, nil, ErrErasedUnknown
	case e == nil || len(r.Private) == 0: // the first Erase deletes what it covers
		return r.Private, nil, nil
	}
	covered := func(hash string) bool {
		until, ok := e.until[[2]string{r.TenantID, hash}]
		return ok && r.At.UnixMilli() <= until
	}
	private, err = sealer.Forget(r.Private, func(subject string) bool { return covered(e.Key.Hash(r.TenantID, subject)) })
	if err == nil {
		private, err = e.forgetNotes(private, r.TenantID, r.SubjectKind, r.At.UnixMilli())
	}
	for _, subject := range subjects {
		hash := e.Key.Hash(r.TenantID, subject)
		if !covered(hash) && !slices.Contains(subjectHashes, hash) {
			subjectHashes = append(subjectHashes, hash)
		}
	}
	return private, subjectHashes, err
}

// forgetNotes returns what is to be kept of the private part of an event about a subject of a kind.
func (e *Erased) forgetNotes(private []byte, tenantID, kind string, at int64) ([]byte, error) {
	if until, ok := e.notes[[2]string{tenantID, kind}]; !ok || at > until {
		return private, nil
	}
	return sealer.ForgetNotes(private, func(text string) bool { return at <= e.textUntil(tenantID, kind, text) })
}

// textUntil is until when a text in the notes of events about subjects of a kind is erased.
func (e *Erased) textUntil(tenantID, kind, text string) int64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	of := [3]string{tenantID, kind, text}
	if until, ok := e.texts[of]; ok {
		return until
	}
	until := int64(never)
	all := sealer.References(text, func(reference string) bool {
		if of, ok := e.until[[2]string{tenantID, NotesHash(kind, e.Key.Hash(tenantID, reference))}]; ok {
			until = max(until, of)
		}
		return true
	})
	if !all { // it may name anybody
		until = e.notes[[2]string{tenantID, kind}]
	}
	if len(e.texts) >= maxTexts {
		clear(e.texts)
	}
	e.texts[of] = until
	return until
}

// Record returns what is to be kept of a quarantined record: all of it, or all but the
// erased persons, a private part that names no others or can't be read, and an event that names one. Such a record need not be sound, so
// every text at the place of a reference counts as one.
func (e *Erased) Record(s Quarantined) (record []byte, err error) {
	subjects := DataSubjectsIn(s.Record)
	if len(subjects) == 0 {
		return e.annotated(s), nil
	}
	if e == nil {
		return nil, ErrErasedUnknown
	}
	if !e.any(s.TenantID, subjects) {
		return e.annotated(s), nil
	}
	r, err := sealer.ParseRecord(s.Record)
	if err != nil {
		return nil, nil // where in it the person is named is unknown
	}
	if _, err := sealer.ParsePrivate(r.Private); err != nil {
		r.Private = nil
	}
	r.Private, err = sealer.Forget(r.Private, func(subject string) bool { return e.any(s.TenantID, []string{subject}) })
	if err != nil {
		return nil, err
	}
	if e.any(s.TenantID, DataSubjectsIn(r.Event)) {
		r.Event = nil
	}
	s.Record = sealer.AppendRecord(nil, &r)
	return e.annotated(s), nil
}

// annotated returns a quarantined record without the notes that name an erased person. Its time can't be trusted, so it is as old as it need be.
func (e *Erased) annotated(s Quarantined) []byte {
	r, err := sealer.ParseRecord(s.Record)
	if e == nil || err != nil || len(r.Private) == 0 {
		return s.Record
	}
	about, err := sealer.ParseEvent(r.Event)
	if err != nil {
		return s.Record
	}
	left, err := e.forgetNotes(r.Private, about.TenantID, about.Subject.Kind, never+1)
	if err != nil || bytes.Equal(left, r.Private) {
		return s.Record
	}
	r.Private = left
	return sealer.AppendRecord(nil, &r)
}

// Names reports whether a quarantined record names a person of a tenant. A record without a
// readable tenant may be of any tenant.
func (k SubjectKey) Names(s Quarantined, tenantID, subjectHash string) bool {
	return (s.TenantID == tenantID || s.TenantID == "") && k.names(DataSubjectsIn(s.Record), tenantID, subjectHash)
}

// IsAbout reports whether a quarantined record names a person.
func (s Quarantined) IsAbout(person sealer.Person) bool {
	return slices.ContainsFunc(DataSubjectsIn(s.Record), person.Is)
}

func (k SubjectKey) names(subjects []string, tenantID, subjectHash string) bool {
	return slices.ContainsFunc(subjects, func(subject string) bool { return k.Hash(tenantID, subject) == subjectHash })
}

func (e *Erased) any(tenantID string, subjects []string) bool {
	for _, subject := range subjects {
		if _, ok := e.until[[2]string{tenantID, e.Key.Hash(tenantID, subject)}]; ok {
			return true
		}
	}
	if tenantID != "" {
		return false
	}
	for person := range e.until {
		if e.Key.names(subjects, person[0], person[1]) {
			return true
		}
	}
	return false
}

// DataSubjectsIn lists the references to persons in bytes of any kind, as a quarantined record has: the
// texts behind each name of the field.
func DataSubjectsIn(b []byte) (subjects []string) {
	for {
		_, behind, found := bytes.Cut(b, []byte(`"dataSubject":`))
		if !found {
			return subjects
		}
		b = behind
		var subject string
		if json.NewDecoder(bytes.NewReader(b)).Decode(&subject) == nil && subject != "" {
			subjects = append(subjects, subject)
		}
	}
}
