// Package erasure erases persons: it deletes what names a data subject, and their private data,
// wherever the service keeps it, and leaves every proof, total and event unchanged.
//
// An erasure begins as a tombstone, in one change with its event: the keyed hash of the subject,
// and a time. It covers everything that is not younger. The same change replaces the name by the
// hash in control's tables, so later events don't contain the name; a free text that names the
// person is removed as a whole, and of a party whose name is the person's, all that is private of it
// (store.Personal.Parties). A job does the rest, and may be killed anywhere and repeated: it
// deletes private parts from the warehouse, which keeps the tombstone and consults it before it
// stores any private part, scrubs the database's files, deletes bundles, and signs a certificate.
// Which columns name a person, and what becomes of them, each service says of its own tables
// (store.Personal; control.Tables has them all). An export of the person shows the same, and the
// preview counts it. Which texts name a person, sealer.Person decides: whole references, and nobody
// who has a part of it.
//
// Events are permanent, and so are the texts in them that everybody may see: a dispute's reason, a
// label, a correlation id. So is telemetry, in the private part of a delivery that is not about the
// person, as long as that is not erased: the event's commitment covers it as a whole. Preview and
// certificate count those that will still name the person.
//
// The tombstone's time is api.ClockSlack after the request, by which the clock of a node may be
// ahead: so it covers everything that was answered before, and what the person is shown within the
// next minute; a row that is held until then is held without the name (Covers). Later data of the
// same person needs another erasure. A node whose clock is further
// ahead than that says so in its log and its metrics; what it has dated later than the tombstone
// stays until another erasure.
//
// The texts of a record may name a person whom the record is not about, as the notes of an export
// of the whole tenant. Its events have these texts as notes in their private parts. So the tombstone's event
// lists the kinds of such records (store.Personal.Noun), each with a tombstone of its own, and of all events
// about records of the kind up to then the notes are deleted that name the person. They are found by the
// hash. There may be any number: a contact of the tenant is in each of its payables.
//
// The hash is keyed (pipeline.SubjectKey), because events are permanent and a plain hash would
// let the holder of a pack guess names. The key is made with the database, is in its backups, and
// is sent to the warehouse together with all tombstones (Announce), periodically. Until it has them
// a warehouse loads nothing that names a person. So neither a replay, a new warehouse, nor an older
// copy of one brings a person back. A database that is older than the log learns the tombstones
// that it lacks from the log and the packs (Replay), and repeats their erasures: whatever names a person
// in it has a reference of that hash, which is looked for in its texts, too.
//
// Limits: the log and the nodes' copies are not rewritten. They lose whole segments as they age,
// and the certificate says by when, of what they hold by the tombstone's time: what waits in the
// spool of a node that can't reach Kafka, or in a log for a warehouse that is unavailable, is deleted
// that much later. Backups that are kept elsewhere are their owner's responsibility, and the certificate says
// so.
package erasure

import (
	"context"
	"errors"
	"slices"
	"time"

	"muniment.example/control/store"
	"muniment.example/gateway/api"
	"muniment.example/pipeline"
	"muniment.example/sealer"
)

const prefix api.Prefix = "era_"

// State is the state of an erasure.
type State string

// The states. There is no failed state: a job is retried until it succeeds.
const (
	Requested State = "REQUESTED"
	Completed State = "COMPLETED"
)

// Erasure is the record of an erasure. Nothing in it names the person.
type Erasure struct {
	ID           string        `json:"id" db:"erasure_id"`
	TenantID     string        `json:"tenantId" db:"tenant_id"`
	SubjectHash  string        `json:"subjectHash" db:"subject_hash" doc:"Represents the person in events and records: a keyed hash, the same one in every erasure of the person."`
	Until        store.Instant `json:"until" db:"until" doc:"Personal data in events up to this time is deleted, whenever the events arrive. It is a minute after the request, because clocks of nodes may be ahead by that."`
	EventID      string        `json:"eventId" db:"event_id" doc:"The event that is the tombstone: subject.erased."`
	Confirmation *string       `json:"-" db:"confirmation"` // the token, which confirms no other erasure
	RequestedBy  string        `json:"requestedBy" db:"requested_by" doc:"The API key that confirmed it."`
	State        State         `json:"state" db:"state,moves" enum:"REQUESTED,COMPLETED" doc:"COMPLETED once everything is deleted and the certificate is signed."`
	Counts       Counts        `json:"counts" db:"counts" doc:"What was found when the erasure was confirmed."`
	Certificate  *string       `json:"certificate" db:"certificate,moves" nullable:"true" doc:"A signed note for muniment verify, which names no person; null until it is COMPLETED."`
	CompletedAt  store.Instant `json:"completedAt" db:"completed_at,moves" nullable:"true" doc:"When it became COMPLETED; null until then."`
	CreatedAt    store.Instant `json:"createdAt" db:"created_at"`
	UpdatedAt    store.Instant `json:"updatedAt" db:"updated_at,moves"`
	Revision     int64         `json:"revision" db:"revision,moves"`
}

// Counts counts the data about a person, by where it is stored.
type Counts struct {
	PrivateParts int64            `json:"privateParts" doc:"Events in the warehouse with a private part that names the person."`
	SetAside     int64            `json:"setAside" doc:"Quarantined records that name the person."`
	Records      map[string]int64 `json:"records" doc:"Rows of the database that name the person, by kind, such as counterparty, developer, dsarJob, dsarNote, heldRow, rejectedPlay and webhookDelivery. An export of the person shows them."`
	Bundles      int64            `json:"bundles" doc:"Bundles of exports that may hold data of the person."`
	Statements   []string         `json:"statements" doc:"Issued statements that keep the public name of a counterparty which names the person: the newest 1,000. They are signed, so it stays there."`
	Permanent    map[string]int64 `json:"permanent" doc:"Events that will still name the person, by type, because events are permanent: by a text that everybody may see, such as a dispute's reason or a label; delivery.recorded by a correlation id, an anchor or a placement. telemetry counts the deliveries to others, or to nobody, whose telemetry names the person, and quarantined the records that could not be loaded and name the person otherwise than as a data subject; heldRow and rejectedPlay count rows whose vendor's id names the person, until they are gone."`
}

// Keys signs certificates.
type Keys interface {
	// Signer returns the current key of a keydir.PackPurpose.
	Signer(ctx context.Context, purpose string) (*sealer.Signer, error)
	// Vouches reports whether the transaction may still commit a signature by the key.
	Vouches(ctx context.Context, tx *store.Tx, keyID string) (bool, error)
}

// Bundles has files of exports that may hold data of persons. is reports whether bundles about a
// reference hold data of the person; records are the records whose texts named the person. All may be
// called again, also after references were replaced by hashes.
type Bundles interface {
	// Subjects lists the references to persons that bundles are about.
	Subjects(ctx context.Context, q store.Querier, tenantID string) ([]string, error)
	Count(ctx context.Context, q store.Querier, tenantID string, is func(dataSubjectID string) bool, records []string) (int64, error)
	// Close makes them void: they can't be downloaded any more.
	Close(ctx context.Context, tx *store.Tx, tenantID string, is func(dataSubjectID string) bool, records []string) error
	// Void closes and deletes them: when it returns nil, none of the tenant's bundles that were made so
	// far holds data of the person, or was closed.
	Void(ctx context.Context, tenantID string, is func(dataSubjectID string) bool, records []string) error
}

// Warehouse is what an erasure needs of the warehouse.
type Warehouse interface {
	pipeline.Eraser
	Events(ctx context.Context, q pipeline.EventQuery) ([]pipeline.Row, error)
}

// Config of the service. All but Bundles, Statements and Erased is required.
type Config struct {
	DB        *store.DB
	Warehouse Warehouse
	Keys      Keys
	// Purpose returns the keydir.PackPurpose of a tenant.
	Purpose func(ctx context.Context, q store.Querier, tenantID string) (string, error)
	// Tables are the tables of all services.
	Tables store.Tables
	// Bundles; nil: there are none.
	Bundles Bundles
	// Statements lists the issued statements that name the person, the newest 1,000; nil: there are none.
	Statements func(ctx context.Context, q store.Querier, tenantID string, person sealer.Person) ([]string, error)
	// Erased does what follows when the tables of a tenant have lost a person, in that change: rows counts the records
	// that named the person, by kind, and ids are those of Followed kinds. nil: nothing.
	Erased   func(ctx context.Context, tx *store.Tx, tenantID string, rows map[string]int64, ids []string) error
	Followed []string
	// LogKeep and CopiesKeep are how long the log and the nodes' copies keep a record. LogKeep fails
	// for a log that keeps records forever: then no certificate is signed.
	LogKeep    func(ctx context.Context) (time.Duration, error)
	CopiesKeep time.Duration
}

// Service is safe for concurrent use.
type Service struct {
	cfg Config
	db  *store.DB
	key pipeline.SubjectKey
	// drainFor is how long an attempt waits for the log.
	drainFor time.Duration
}

// New returns the service. It creates the key of hashes if the database has none.
func New(ctx context.Context, cfg Config) (*Service, error) {
	if cfg.DB == nil || cfg.Warehouse == nil || cfg.Keys == nil || cfg.Purpose == nil || cfg.Tables == nil || cfg.LogKeep == nil || cfg.CopiesKeep == 0 {
		return nil, errors.New("cannot open the erasures: DB, Warehouse, Keys, Purpose, Tables, LogKeep or CopiesKeep is missing")
	}
	if err := cfg.Tables.Unsample(ctx, cfg.DB); err != nil {
		return nil, err
	}
	r := &Service{cfg: cfg, db: cfg.DB, drainFor: 10 * time.Second}
	var err error
	r.key, err = openKey(ctx, cfg.DB)
	return r, err
}

// eraseIn erases a person from control's tables, and does what follows.
func (s *Service) eraseIn(ctx context.Context, tx *store.Tx, e *Erasure, person sealer.Person, ahead *store.Ahead, take func(store.Sight) error) (store.Found, error) {
	var ids []string
	found, err := s.cfg.Tables.Erase(ctx, tx, e.TenantID, person, e.SubjectHash, ahead, func(of store.Sight) error {
		if len(of.Mentions) > 0 && slices.Contains(s.cfg.Followed, of.Mentions[0].Kind) {
			ids = append(ids, of.Mentions[0].ID)
		}
		if take == nil {
			return nil
		}
		return take(of)
	})
	if err == nil && s.cfg.Erased != nil {
		err = s.cfg.Erased(ctx, tx, e.TenantID, found.Rows, ids)
	}
	return found, err
}

// lookAhead searches the large tables before the change that erases a person.
func (s *Service) lookAhead(ctx context.Context, tenantID string, person sealer.Person) (ahead *store.Ahead, err error) {
	err = s.db.Search(ctx, func(q store.Querier) (err error) {
		ahead, err = s.cfg.Tables.Ahead(ctx, q, tenantID, person)
		return err
	})
	return ahead, err
}

// Hash returns the hash that replaces the reference to an erased person of a tenant.
func (s *Service) Hash(tenantID, dataSubjectID string) string {
	return s.key.Hash(tenantID, dataSubjectID)
}

// Covers returns what tells the persons of a tenant who were erased up to now or a later time, by the hash
// that replaces their references; "" for others. It returns nil if there are none. A change that begins an
// erasure has written its tombstone before it searches what was written since lookAhead: who holds the lock that
// store.Personal.Before takes misses none.
func (s *Service) Covers(ctx context.Context, q store.Querier, tenantID string) (hashOf func(reference string) string, err error) {
	list, err := store.List(ctx, q, "the tombstones of persons", store.Text, `SELECT subject_hash FROM tombstones WHERE tenant_id = $1 AND until >= $2`, tenantID, store.Millis(s.db.Now()))
	if err != nil || len(list) == 0 {
		return nil, err
	}
	return func(reference string) string {
		if hash := s.Hash(tenantID, reference); slices.Contains(list, hash) {
			return hash
		}
		return ""
	}, nil
}

// Announce sends all tombstones to the warehouse. It is called before anything is loaded, and
// periodically, since the warehouse may be a new one.
func (s *Service) Announce(ctx context.Context) error {
	return announce(ctx, s.db, s.key, s.cfg.Warehouse)
}

// AnnounceRestored sends all tombstones to the warehouse of a restored database, before there is a
// service.
func AnnounceRestored(ctx context.Context, db *store.DB, warehouse pipeline.Eraser) error {
	key, err := openKey(ctx, db)
	if err != nil {
		return err
	}
	return announce(ctx, db, key, warehouse)
}

func announce(ctx context.Context, db *store.DB, key pipeline.SubjectKey, warehouse pipeline.Eraser) error {
	list, err := listTombstones(ctx, db.Read())
	if err != nil {
		return err
	}
	return warehouse.Erase(ctx, key, list)
}
