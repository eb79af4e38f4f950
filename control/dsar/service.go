package dsar

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"muniment.example/control/objects"
	"muniment.example/control/store"
	"muniment.example/gateway/api"
	"muniment.example/pipeline"
	"muniment.example/sealer"
)

// Keys has the signing keys and the key directory.
type Keys interface {
	// Signer returns control's current key of a purpose.
	Signer(ctx context.Context, purpose string) (*sealer.Signer, error)
	// Directory returns the signed key directory, canonical JSON.
	Directory(ctx context.Context) ([]byte, error)
}

// Nodes counts the records in the spools of nodes. control/node implements it.
type Nodes interface {
	// Spooled counts, by node, the acknowledged records that were only in the node's spool at its
	// last poll: for nodes that are live, and for nodes that are silent.
	Spooled(ctx context.Context) (live, silent map[string]int64, err error)
}

// Scopes returns the scopes of a member, or of a key or its successor in rotations, at a time; 0 if none is in force.
type Scopes func(ctx context.Context, q store.Querier, actorID string, at time.Time) (api.Scopes, error)

// Config of the service. DB, Warehouse, Log, Keys, Tables, Bundles, Scopes and Failed are required.
type Config struct {
	DB        *store.DB
	Warehouse pipeline.Warehouse
	// Log is read only for a tenant's partition, and for that partition's end.
	Log  pipeline.Reader
	Keys Keys
	// Tables are the tables of all services, where an export of a person looks for texts that name
	// the person.
	Tables store.Tables
	// Scopes are those of the maker of a link.
	Scopes Scopes
	// Nodes counts the records that are not in the log yet; nil: no node has a spool.
	Nodes Nodes
	// Bundles keeps the bundles. All processes share it.
	Bundles objects.Place
	// Failed wraps an error with the code that the job fails with if it is not retried.
	Failed func(code string, err error) error
	// Keep is how long a bundle is kept. Default 7 days.
	Keep time.Duration
	// MaxBytes is the most disk space for the bundles of one tenant. Default 64 GiB.
	MaxBytes int64
	// MinFree is the least free space, in bytes, on the disk of a folder of bundles: while there is less, no export is requested or
	// written. Default 1 GiB.
	MinFree int64
	// WaitFor is how long a worker waits for spools, for the outbox, and for a warehouse that makes
	// no progress. Default 30 s.
	WaitFor time.Duration
	// Logger; nil is slog.Default.
	Logger *slog.Logger
}

// Service is safe for concurrent use.
type Service struct {
	cfg      Config
	db       *store.DB
	workerID string
	// reserved returns an error while the free disk space is for stops alone, or less than MinFree.
	reserved func() error
}

// New returns the service. It starts nothing.
func New(cfg Config) (*Service, error) {
	switch {
	case cfg.DB == nil || cfg.Warehouse == nil || cfg.Log == nil || cfg.Keys == nil || cfg.Tables == nil || cfg.Bundles == nil || cfg.Scopes == nil || cfg.Failed == nil:
		return nil, errors.New("cannot open the DSAR jobs: DB, Warehouse, Log, Keys, Tables, Bundles, Scopes or Failed is missing")
	case cfg.Keep < 0 || cfg.WaitFor < 0 || cfg.MaxBytes < 0 || cfg.MinFree < 0:
		return nil, errors.New("cannot open the DSAR jobs: Keep, WaitFor, MaxBytes and MinFree must not be negative")
	}
	if cfg.MaxBytes == 0 {
		cfg.MaxBytes = 64 << 30
	}
	if cfg.MinFree == 0 {
		cfg.MinFree = 1 << 30
	}
	cfg.Keep, cfg.WaitFor = cmp.Or(cfg.Keep, 7*24*time.Hour), cmp.Or(cfg.WaitFor, 30*time.Second)
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	return &Service{cfg: cfg, db: cfg.DB, workerID: api.NewID(prefixWorker, time.Now()), reserved: func() error { return cmp.Or(cfg.DB.Reserved(), leaves(cfg.Bundles, cfg.MinFree)) }}, nil
}

// leaves returns a 503 while the disk of bundles has less free space than a number of bytes.
func leaves(bundles objects.Place, least int64) error {
	free, err := bundles.Free()
	if err == nil && free < least {
		err = api.Unavailable(api.StorageFull, fmt.Sprintf("the disk of the bundles has %d bytes free, and exports leave at least %d", free, least), time.Minute)
	}
	return err
}

// ActiveLimit bounds the active jobs of a tenant.
const ActiveLimit = 5

var errActive = &api.Error{Code: api.RateLimited, Message: "this tenant has the maximum of active DSAR jobs: wait for one to end, or cancel one", RetryAfter: time.Minute}

// errKept refuses a job for the bundles that the tenant has.
func (s *Service) errKept(kept int64) *api.Error {
	return &api.Error{Code: api.RateLimited, Message: fmt.Sprintf("the bundles of this tenant have %d bytes, and may have %d: wait until one has expired", kept, s.cfg.MaxBytes), RetryAfter: time.Hour}
}

// create writes a new job, with the requested fields filled in.
func (s *Service) create(ctx context.Context, requested Job, by sealer.Ref) (v View, err error) {
	if err := s.reserved(); err != nil {
		return v, err
	}
	err = s.db.Change(ctx, func(tx *store.Tx) error {
		made, err := complete(requested, store.At(tx.Now()))
		if err != nil {
			return err
		}
		n, err := countActive(ctx, tx, made.TenantID)
		if err != nil {
			return err
		}
		if n >= ActiveLimit {
			return errActive
		}
		if kept, err := keptBytes(ctx, tx, made.TenantID); err != nil || kept >= s.cfg.MaxBytes {
			return cmp.Or(err, error(s.errKept(kept)))
		}
		made.ID = api.NewID(prefix, made.CreatedAt.Time)
		if err := jobs.Create(ctx, tx, eventRequested, &made, by, nil); err != nil {
			return err
		}
		if err := annotate(ctx, tx, &made, nil, by, ""); err != nil {
			return err
		}
		_, v, err = find(ctx, tx, made.TenantID, made.ID)
		return err
	})
	return v, err
}

// cancel ends a job that no worker has begun.
func (s *Service) cancel(ctx context.Context, tenantID, jobID, reason string, by sealer.Ref) (v View, err error) {
	err = s.db.Change(ctx, func(tx *store.Tx) error {
		_, err := move(ctx, tx, tenantID, jobID, Cancel, by, reason, func(next *Job) error {
			next.FailureCode = new(ManualCancel)
			return nil
		})
		if err == nil {
			_, v, err = find(ctx, tx, tenantID, jobID)
		}
		return err
	})
	return v, err
}

// run queues a job for the workers. It does nothing if the job is queued already.
func (s *Service) run(ctx context.Context, tenantID, jobID string, by sealer.Ref) (v View, err error) {
	err = s.db.Change(ctx, func(tx *store.Tx) error {
		var j *Job
		if j, v, err = find(ctx, tx, tenantID, jobID); err != nil {
			return err
		}
		if j.State == Requested && !j.QueuedAt.IsZero() {
			return nil
		}
		if _, err = move(ctx, tx, tenantID, jobID, Queue, by, "", func(next *Job) error {
			next.QueuedAt = next.UpdatedAt
			return nil
		}); err != nil {
			return err
		}
		_, err = tx.Enqueue(ctx, store.NewJob{Kind: ExportJob, TenantID: tenantID, Key: jobID, Payload: payload{jobID}})
		if err == nil {
			_, v, err = find(ctx, tx, tenantID, jobID)
		}
		return err
	})
	return v, err
}

// ExportJob is the kind of the jobs that export.
const ExportJob = "dsar.export"

type payload struct {
	JobID string `json:"jobId"`
}
