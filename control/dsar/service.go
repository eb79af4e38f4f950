package dsar

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"time"

	"muniment/control/store"
	"muniment/gateway/api"
	"muniment/pipeline"
	"muniment/sealer"
)

// Keys signs manifests, and knows all keys.
type Keys interface {
	// Signer is control's current key of a purpose.
	Signer(ctx context.Context, purpose string) (*sealer.Signer, error)
	// Directory is the signed key directory, canonical JSON.
	Directory(ctx context.Context) ([]byte, error)
}

// Nodes knows of the spools of nodes. control/node implements it.
type Nodes interface {
	// Spooled counts, by node, the records that were promised and were in the node's spool
	// alone, by its newest word: those of nodes that are live, and of nodes that are silent.
	Spooled(ctx context.Context) (live, silent map[string]int64, err error)
}

// Config of the service. DB, Warehouse, Log, Keys, Bundles and Failed are required.
type Config struct {
	DB        *store.DB
	Warehouse pipeline.Warehouse
	// Log is only asked where a tenant is, and where that partition ends.
	Log  pipeline.Reader
	Keys Keys
	// Nodes is asked what is not in the log yet; nil: no node has a spool.
	Nodes   Nodes
	Bundles *Bundles
	// Failed makes an error with a code that the job ends with, unless it is tried again.
	Failed func(code string, err error) error
	// Keep is how long a bundle is kept. Default 7 days.
	Keep time.Duration
	// WaitFor is how long a worker waits for spools, for the outbox, and for a warehouse that
	// loads nothing more. Default 30 s.
	WaitFor time.Duration
	// Logger; nil is slog.Default.
	Logger *slog.Logger
}

// Service is safe for concurrent use.
type Service struct {
	cfg      Config
	db       *store.DB
	workerID string
}

// New returns the service. It starts nothing.
func New(cfg Config) (*Service, error) {
	switch {
	case cfg.DB == nil || cfg.Warehouse == nil || cfg.Log == nil || cfg.Keys == nil || cfg.Bundles == nil || cfg.Failed == nil:
		return nil, errors.New("cannot open the DSAR jobs: DB, Warehouse, Log, Keys, Bundles or Failed is missing")
	case cfg.Keep < 0 || cfg.WaitFor < 0:
		return nil, errors.New("cannot open the DSAR jobs: Keep and WaitFor must not be negative")
	}
	cfg.Keep, cfg.WaitFor = cmp.Or(cfg.Keep, 7*24*time.Hour), cmp.Or(cfg.WaitFor, 30*time.Second)
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	return &Service{cfg: cfg, db: cfg.DB, workerID: api.NewID(prefixWorker, time.Now())}, nil
}

// ActiveLimit is how many jobs of a tenant may be active.
const ActiveLimit = 5

var errActive = &api.Error{Code: api.RateLimited, Message: "this tenant has as many active DSAR jobs as it may have: wait for one to end, or cancel one", RetryAfter: time.Minute}

// create writes a new job, with the requested fields filled in.
func (s *Service) create(ctx context.Context, asked Job, by sealer.Ref) (v View, err error) {
	err = s.db.Change(ctx, func(tx *store.Tx) error {
		made, err := complete(asked, store.At(tx.Now()))
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
		made.ID = api.NewID(prefix, made.CreatedAt.Time)
		if err := jobs.Create(ctx, tx, "dsar.requested", &made, by, nil); err != nil {
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

// run queues a job for the workers. One that is queued already is left as it is.
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
