package erasure

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"muniment.example/control/store"
	"muniment.example/pipeline"
	"muniment.example/sealer"
)

// EraseJob is the kind of the jobs that Erase runs. EraseAttempts is so large that an erasure is
// never given up.
const (
	EraseJob      = "erase"
	EraseAttempts = 1 << 20
)

type payload struct {
	ErasureID string `json:"erasureId"`
	// Restored means that the database is an older copy, which may still name the person.
	Restored bool `json:"restored"`
}

// enqueue queues the job of an erasure.
func enqueue(ctx context.Context, tx *store.Tx, e *Erasure, p payload) error {
	p.ErasureID = e.ID
	_, err := tx.Enqueue(ctx, store.NewJob{Kind: EraseJob, TenantID: e.TenantID, Key: e.ID, Payload: p})
	return err
}

func (e *Erasure) tombstone() pipeline.Tombstone {
	return pipeline.Tombstone{TenantID: e.TenantID, SubjectHash: e.SubjectHash, Until: e.Until.Time}
}

// tombstones are the person's, and those of the notes about kinds of records that named the person.
func (e *Erasure) tombstones(kinds []string) []pipeline.Tombstone {
	list := []pipeline.Tombstone{e.tombstone()}
	for _, kind := range kinds {
		list = append(list, pipeline.Tombstone{TenantID: e.TenantID, SubjectHash: pipeline.NotesHash(kind, e.SubjectHash), Until: e.Until.Time})
	}
	return list
}

// event is the data of the event that is the tombstone.
type event struct {
	*Erasure
	notes
}

// notes is what subject.erased has besides the erasure.
type notes struct {
	Kinds []string `json:"kinds" doc:"The kinds of records whose events lose the notes that name the person."`
}

// SchemaName returns the schema name in the OpenAPI document.
func (notes) SchemaName() string { return "ErasedNotes" }

// is returns a function that reports whether a reference is the erased person's, by name or already
// by hash.
func (s *Service) is(e *Erasure) func(dataSubjectID string) bool {
	return func(dataSubjectID string) bool {
		return dataSubjectID == e.SubjectHash || s.key.Hash(e.TenantID, dataSubjectID) == e.SubjectHash
	}
}

// Erase runs a job of the kind EraseJob. Every step may be repeated; the certificate comes last. The
// references in control's tables are replaced before the job begins, so later bundles and events
// don't get the name from there.
func (s *Service) Erase(ctx context.Context, job *store.Job) error {
	var p payload
	if err := job.Read(&p); err != nil {
		return err
	}
	e, err := erasures.Find(ctx, s.db.Read(), job.TenantID, p.ErasureID)
	if store.IsNone(err) {
		return nil // the tenant was deleted with all its data
	}
	if err != nil || e.State == Completed {
		return err
	}
	purpose, err := s.cfg.Purpose(ctx, s.db.Read(), e.TenantID)
	if err != nil {
		return err
	}
	signer, err := s.cfg.Keys.Signer(ctx, purpose)
	if err != nil {
		return err
	}
	logKeep, err := s.cfg.LogKeep(ctx)
	if err != nil {
		return fmt.Errorf("cannot certify when the log will have deleted an erased person's data: %w", err)
	}
	kinds, err := buriedKinds(ctx, s.db.Read(), e)
	if err != nil {
		return err
	}
	if p.Restored {
		if err := s.eraseNames(ctx, job, e); err != nil {
			return err
		}
	}
	drained, err := s.drain(ctx, e.TenantID)
	if err != nil {
		return err
	}
	if err := s.cfg.Warehouse.Erase(ctx, s.key, e.tombstones(kinds)); err != nil {
		return err
	}
	erased := slices.Collect(maps.Keys(e.Counts.Records))
	if p.Restored {
		erased = s.cfg.Tables.Kinds()
	}
	if err := s.db.Scrub(ctx, s.cfg.Tables, erased); err != nil {
		return err
	}
	if s.cfg.Bundles != nil { // last, because each attempt deletes all bundles that were begun before it
		var named store.Found
		err := s.db.Search(ctx, func(q store.Querier) (err error) {
			named, err = s.cfg.Tables.Find(ctx, q, e.TenantID, sealer.NewPerson(e.SubjectHash), nil) // by now the hash stands there
			return err
		})
		if err != nil {
			return err
		}
		if err := s.cfg.Bundles.Void(ctx, e.TenantID, s.is(e), named.Records); err != nil {
			return fmt.Errorf("cannot delete the bundles of an erased person: %w", err)
		}
	}
	return s.complete(ctx, job, e, signer, later(e.Until.Time, drained).Add(logKeep))
}

// drain waits until no event in the outbox, which names the person in its private part if it is older
// than the erasure, is still on its way to the log. It returns the time by which the log had them.
func (s *Service) drain(ctx context.Context, tenantID string) (by time.Time, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, s.drainFor, errors.New("the log has not accepted the tenant's events"))
	defer cancel()
	if err := s.db.Outbox.Drain(ctx, tenantID); err != nil {
		return by, errors.Join(err, context.Cause(ctx))
	}
	return s.db.Now(), nil
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// eraseNames erases a person from a restored database as the erasure did from the one that was lost: it
// finds the name by its hash.
func (s *Service) eraseNames(ctx context.Context, job *store.Job, e *Erasure) error {
	var person sealer.Person
	err := s.db.Search(ctx, func(q store.Querier) (err error) {
		person, err = s.cfg.Tables.Person(ctx, q, e.TenantID, func(reference string) bool { return s.Hash(e.TenantID, reference) == e.SubjectHash })
		return err
	})
	if err != nil {
		return err
	}
	ahead, err := s.lookAhead(ctx, e.TenantID, person)
	if err != nil {
		return err
	}
	return s.db.LongChange(ctx, func(tx *store.Tx) error {
		if err := job.Hold(ctx, tx); err != nil {
			return err
		}
		beside, err := s.bundlesBeside(ctx, tx, e)
		if err != nil {
			return err
		}
		found, err := s.eraseIn(ctx, tx, e, person, ahead, beside.taker())
		if err != nil {
			return err
		}
		return beside.close(ctx, tx, found.Records)
	})
}

// complete signs the certificate, and ends the erasure.
func (s *Service) complete(ctx context.Context, job *store.Job, e *Erasure, signer *sealer.Signer, logGoneBy time.Time) error {
	return s.db.Change(ctx, func(tx *store.Tx) error {
		if err := job.Hold(ctx, tx); err != nil {
			return err
		}
		if err := tx.ForgetAnswers(ctx, e.TenantID); err != nil { // of requests that were running
			return err
		}
		if vouches, err := s.cfg.Keys.Vouches(ctx, tx, signer.KeyID); err != nil || !vouches {
			return fmt.Errorf("cannot sign a certificate with the key %s, which is being revoked: %w", signer.KeyID, err)
		}
		next, now := *e, store.At(tx.Now())
		next.State, next.CompletedAt, next.UpdatedAt = Completed, now, now
		text, err := sealer.SignErasure(&sealer.ErasureCertificate{
			ErasureID: e.ID, TenantID: e.TenantID, SubjectHash: e.SubjectHash, EventID: e.EventID, Until: e.Until.Time, CompletedAt: now.Time,
			PrivateParts: e.Counts.PrivateParts, SetAside: e.Counts.SetAside, Records: e.Counts.Records, Bundles: e.Counts.Bundles, Permanent: e.Counts.Permanent, Statements: e.Counts.Statements,
			LogGoneBy: logGoneBy, CopiesGoneBy: e.Until.Add(s.cfg.CopiesKeep),
		}, signer.Key)
		if err != nil {
			return err
		}
		next.Certificate = &text
		if err := erasures.Update(ctx, tx, e, &next); err != nil {
			return err
		}
		return erasures.Emit(ctx, tx, eventCompleted, &next, store.BySystem(), nil)
	})
}
